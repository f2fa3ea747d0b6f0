//! What a publisher hands in and what it gets back. Knows the fields of a message, not the wire it leaves on; read on in `publisher`.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use qwerq_proto::wire;
pub use qwerq_proto::wire::Durability;

use crate::error::Refusal;
use crate::id::MessageId;

/// A message to publish: payload bytes and [`PublishOptions`].
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// The payload, untouched from here to the consumer.
    pub payload: Bytes,
    /// Everything beside the payload.
    pub options: PublishOptions,
}

/// Everything that a publisher can say about a message beside its payload.
#[derive(Debug, Clone, Default)]
pub struct PublishOptions {
    /// String headers. Names starting with `qwerq-` are the broker's; at most 64 entries and 32 KiB.
    pub headers: Headers,
    /// Messages of one key are delivered one at a time and in order, per group.
    pub ordering_key: Option<String>,
    /// A second publish with the same key inside the queue's dedup window stores nothing. Also makes the publish safe to retry, so that
    /// the client does so by itself after a lost connection.
    pub idempotency_key: Option<String>,
    /// Deliver not before so long from now. Millisecond resolution.
    pub delay: Option<Duration>,
    /// Deliver not before that time. Millisecond resolution.
    pub deliver_at: Option<SystemTime>,
    /// Drop (or dead-letter, as the queue says) when undelivered so long after falling due. Millisecond resolution.
    pub ttl: Option<Duration>,
    /// The publisher's own id; without one the broker makes a ULID.
    pub id: Option<MessageId>,
}

impl Message {
    /// A message with that payload and nothing else.
    pub fn new(payload: impl Into<Bytes>) -> Message {
        Message { payload: payload.into(), options: PublishOptions::default() }
    }

    /// Replaces the options.
    #[must_use]
    pub fn with(mut self, options: PublishOptions) -> Message {
        self.options = options;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Message {
        self.options = self.options.header(name, value);
        self
    }

    /// Sets the ordering key.
    #[must_use]
    pub fn ordering_key(mut self, key: impl Into<String>) -> Message {
        self.options = self.options.ordering_key(key);
        self
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Message {
        self.options = self.options.idempotency_key(key);
        self
    }

    /// Delivers it not before `delay` from now.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Message {
        self.options = self.options.delay(delay);
        self
    }

    /// Delivers it not before `time`.
    #[must_use]
    pub fn deliver_at(mut self, time: SystemTime) -> Message {
        self.options = self.options.deliver_at(time);
        self
    }

    /// Expires it `ttl` after it fell due.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Message {
        self.options = self.options.ttl(ttl);
        self
    }

    /// Sets the publisher's own id.
    #[must_use]
    pub fn id(mut self, id: MessageId) -> Message {
        self.options = self.options.id(id);
        self
    }
}

impl PublishOptions {
    /// No options.
    #[must_use]
    pub fn new() -> PublishOptions {
        PublishOptions::default()
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> PublishOptions {
        self.headers.push(name, value);
        self
    }

    /// Sets the ordering key.
    #[must_use]
    pub fn ordering_key(mut self, key: impl Into<String>) -> PublishOptions {
        self.ordering_key = Some(key.into());
        self
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> PublishOptions {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Delivers the message not before `delay` from now.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> PublishOptions {
        self.delay = Some(delay);
        self
    }

    /// Delivers the message not before `time`.
    #[must_use]
    pub fn deliver_at(mut self, time: SystemTime) -> PublishOptions {
        self.deliver_at = Some(time);
        self
    }

    /// Expires the message `ttl` after it fell due.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> PublishOptions {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the publisher's own id.
    #[must_use]
    pub fn id(mut self, id: MessageId) -> PublishOptions {
        self.id = Some(id);
        self
    }
}

/// A message's headers, in order. Names may repeat only as far as the broker allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<wire::Header>);

impl Headers {
    /// No headers.
    #[must_use]
    pub const fn new() -> Headers {
        Headers(Vec::new())
    }

    /// Adds a header at the end.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push(wire::Header { name: name.into(), value: value.into() });
    }

    /// The value of the first header of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// All headers, as (name, value), in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|header| (header.name.as_str(), header.value.as_str()))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn from_wire(headers: Vec<wire::Header>) -> Headers {
        Headers(headers)
    }

    pub(crate) fn wire(&self) -> &[wire::Header] {
        &self.0
    }

    pub(crate) fn into_wire(self) -> Vec<wire::Header> {
        self.0
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Headers {
        let mut headers = Headers::new();
        for (name, value) in pairs {
            headers.push(name, value);
        }
        headers
    }
}

/// The broker's receipt for one message: it is stored as `durability` says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The message's id; for a duplicate, the first one's.
    pub id: MessageId,
    /// Its position in the queue; none yet while it is delayed.
    pub seq: Option<u64>,
    /// The version of the contract that it was accepted under; 0 on a queue without one.
    pub schema_version: u32,
    /// The idempotency key was seen before inside the dedup window; nothing was stored.
    pub duplicate: bool,
    /// The broker does not know the contract that this publisher was generated from; the active version judged the payload instead.
    pub contract_unknown: bool,
    /// What the acknowledgement promises.
    pub durability: Durability,
    /// Set when the message breaks the contract and the queue sends such ones to its dead letter queue: the violation.
    pub dead_lettered: Option<Box<Refusal>>,
}
