//! A message as a broker would deliver it, made by a test.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use qwerq_proto::wire;

use crate::app::stop::{Stop, Stopper};
use crate::arrival::Arrival;
use crate::delivery::Delivery;
use crate::id::MessageId;
use crate::wire_time::epoch_millis;
use crate::worker::States;
use crate::worker::ctx::Ctx;

/// A message on its way to a worker: a payload, and what a delivery says beside it.
#[derive(Debug, Clone)]
#[must_use = "a parcel is nothing until it is delivered"]
pub struct Parcel {
    payload: Bytes,
    id: MessageId,
    seq: u64,
    attempt: u32,
    published_at: SystemTime,
    headers: Vec<wire::Header>,
    schema_version: u32,
    ordering_key: Option<String>,
    skipped: u64,
}

impl Parcel {
    /// A message, encoded as a publisher would.
    pub fn of(message: &impl prost::Message) -> Parcel {
        Parcel::raw(message.encode_to_vec())
    }

    /// A payload as it is, such as one that does not decode.
    pub fn raw(payload: impl Into<Bytes>) -> Parcel {
        Parcel {
            payload: payload.into(),
            id: MessageId::default(),
            seq: 0,
            attempt: 1,
            published_at: SystemTime::now(),
            headers: Vec::new(),
            schema_version: 0,
            ordering_key: None,
            skipped: 0,
        }
    }

    /// Its id. Default: all zero.
    pub fn id(mut self, id: MessageId) -> Parcel {
        self.id = id;
        self
    }

    /// Its position in the queue. Default: 0.
    pub fn seq(mut self, seq: u64) -> Parcel {
        self.seq = seq;
        self
    }

    /// Which delivery it is. Default: 1, the first.
    pub fn attempt(mut self, attempt: u32) -> Parcel {
        self.attempt = attempt;
        self
    }

    /// When it was published, in whole milliseconds. Default: now.
    pub fn published_at(mut self, time: SystemTime) -> Parcel {
        self.published_at = time;
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Parcel {
        self.headers.push(wire::Header { name: name.into(), value: value.into() });
        self
    }

    /// The version of the contract that it was accepted under. Default: 0, none.
    pub fn schema_version(mut self, version: u32) -> Parcel {
        self.schema_version = version;
        self
    }

    /// Its ordering key. Default: none.
    pub fn ordering_key(mut self, key: impl Into<String>) -> Parcel {
        self.ordering_key = Some(key.into());
        self
    }

    /// Messages that retention removed before it. Default: 0.
    pub fn skipped(mut self, messages: u64) -> Parcel {
        self.skipped = messages;
        self
    }

    /// What a handler would be told of it, for calling the handler directly.
    #[must_use]
    pub fn ctx(self) -> Ctx {
        let (_, stop) = Stopper::new();
        self.open("test", "test", Arc::default(), stop)
    }

    pub(crate) fn next_attempt(&self) -> Parcel {
        let attempt = self.attempt + 1;
        self.clone().attempt(attempt)
    }

    pub(crate) fn number(&self) -> u32 {
        self.attempt
    }

    pub(crate) fn open(self, queue: &str, group: &str, states: Arc<States>, stop: Stop) -> Ctx {
        let arrival = Arrival {
            lease: None,
            lease_ms: 0,
            id: self.id,
            seq: self.seq,
            attempt: self.attempt,
            skipped: self.skipped,
            published_at_ms: epoch_millis(self.published_at),
            schema_version: self.schema_version,
            headers: self.headers,
            ordering_key: self.ordering_key,
            payload: self.payload,
        };
        Ctx::new(Delivery::new(queue.into(), arrival, None), group.into(), states, stop)
    }
}
