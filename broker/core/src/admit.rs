//! Admission: what is refused before the journal, counting what is pending. A refusal writes nothing and changes nothing.

use rustc_hash::FxHashMap;

use crate::ids::{MessageId, Millis, QueueId, Seq};
use crate::options::{OnFull, QueueOptions};
use crate::queue::Queue;
use crate::rejection::Rejection;
use crate::retries::RetryKey;

/// What admission looks at of a message that wants in.
#[derive(Debug, Clone, Copy)]
pub struct NewMessage<'a> {
    /// Payload and headers, in bytes.
    pub size: u64,
    /// Empty: none.
    pub idempotency_key: &'a str,
}

/// What becomes of an admitted message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is stored.
    New,
    /// Its idempotency key was seen; nothing is stored.
    Duplicate {
        /// The first message's id.
        id: MessageId,
        /// The first message's position, if it had one when it was accepted.
        seq: Option<Seq>,
    },
    /// Its idempotency key is in the pending batch; the answer waits until the first is durable.
    DuplicateOfPending {
        /// The first message's id.
        id: MessageId,
    },
}

/// What has been admitted and is not durable yet.
#[derive(Debug, Clone, Default)]
pub struct Pending {
    queues: FxHashMap<QueueId, PendingQueue>,
    /// Messages of all queues.
    pub messages: u64,
}

#[derive(Debug, Clone, Default)]
struct PendingQueue {
    messages: u64,
    bytes: u64,
    keys: FxHashMap<String, MessageId>,
    /// Those among them that count toward `dedup_max_keys`.
    counted_keys: u64,
}

impl Pending {
    /// Forgets everything: the batch has been applied.
    pub fn clear(&mut self) {
        self.queues.clear();
        self.messages = 0;
    }

    /// Counts an admitted message.
    pub fn add(&mut self, queue: QueueId, message: &NewMessage<'_>, id: MessageId) {
        let pending = self.queues.entry(queue).or_default();
        pending.messages += 1;
        pending.bytes += message.size;
        self.messages += 1;
        if !message.idempotency_key.is_empty() {
            pending.keys.insert(message.idempotency_key.to_owned(), id);
            pending.counted_keys += u64::from(RetryKey::parse(message.idempotency_key).is_none());
        }
    }
}

impl Queue {
    /// Decides on one message.
    ///
    /// # Errors
    /// The [`Rejection`] that the publisher gets.
    pub fn admit(&self, pending: &Pending, now: Millis, message: &NewMessage<'_>) -> Result<Admission, Rejection> {
        let pending = pending.queues.get(&self.id);
        let options = &self.options;
        if message.size > u64::from(options.max_message_bytes) {
            return Err(Rejection::MessageTooLarge { queue: self.name.to_string(), size: message.size, max: options.max_message_bytes });
        }
        if !message.idempotency_key.is_empty() {
            let retry_key = RetryKey::parse(message.idempotency_key);
            let known = match &retry_key {
                Some(key) => self.retries.get(key, now),
                None => self.dedup.get(message.idempotency_key, now).map(|remembered| (remembered.id, remembered.seq)),
            };
            if let Some((id, seq)) = known {
                return Ok(Admission::Duplicate { id, seq });
            }
            let keys = pending.map(|pending| &pending.keys);
            if let Some(id) = keys.and_then(|keys| keys.get(message.idempotency_key)) {
                return Ok(Admission::DuplicateOfPending { id: *id });
            }
            let more = pending.map_or(0, |pending| pending.counted_keys);
            if retry_key.is_none() && self.dedup.is_full(now, more, options.dedup_max_keys) {
                return Err(Rejection::DedupFull { queue: self.name.to_string(), max: options.dedup_max_keys });
            }
        }
        if options.on_full == OnFull::Reject {
            let (messages, bytes) = pending.map_or((0, 0), |pending| (pending.messages, pending.bytes));
            if options.max_messages != 0 && self.stored_messages() + messages >= options.max_messages {
                return Err(self.full("max_messages", options.max_messages));
            }
            if options.max_bytes != 0 && self.stored_bytes() + bytes + message.size > options.max_bytes {
                return Err(self.full("max_bytes", options.max_bytes));
            }
        }
        Ok(Admission::New)
    }

    /// Stored messages, delayed ones included.
    #[must_use]
    pub fn stored_messages(&self) -> u64 {
        self.messages.count() + self.delayed.count()
    }

    /// Their bytes of payload and headers.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.messages.bytes() + self.delayed.bytes()
    }

    /// Whether it holds more than its limits allow; publishes into it are refused or make room.
    #[must_use]
    pub fn is_over_limits(&self) -> bool {
        let QueueOptions { max_messages, max_bytes, .. } = self.options;
        (max_messages != 0 && self.stored_messages() > max_messages) || (max_bytes != 0 && self.stored_bytes() > max_bytes)
    }

    fn full(&self, limit: &'static str, value: u64) -> Rejection {
        Rejection::QueueFull { queue: self.name.to_string(), limit, value, holder: self.holder().map(str::to_owned) }
    }
}
