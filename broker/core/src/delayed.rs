//! A queue's delayed messages: what memory keeps of them until they fall due and get their sequence. Payloads are elsewhere.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::codec::{DecodeError, Decoder, put_varint};
use crate::ids::Millis;

/// Where a delayed message stands: by the time at which it falls due, then by the order of acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DelayedKey {
    /// When it falls due.
    pub due: Millis,
    /// Its number among the queue's delayed messages: from 0, without gaps, in order of acceptance. Payloads are found by it.
    pub number: u64,
}

/// What is kept of a delayed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayedMessage {
    /// Payload and headers, in bytes.
    pub size: u32,
    /// Hash of the ordering key; 0: none.
    pub key: u64,
    /// When it expires; 0: never.
    pub expires_at: Millis,
}

/// The delayed messages of one queue.
#[derive(Debug, Clone, Default)]
pub struct Delayed {
    messages: BTreeMap<DelayedKey, DelayedMessage>,
    bytes: u64,
}

impl Delayed {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.messages.len() as u64
    }

    /// Their bytes of payload and headers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next one to fall due.
    #[must_use]
    pub fn first(&self) -> Option<DelayedKey> {
        self.messages.keys().next().copied()
    }

    /// The next one behind `key`; `None`: the first.
    #[must_use]
    pub fn after(&self, key: Option<DelayedKey>) -> Option<DelayedKey> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.messages.range((from, Bound::Unbounded)).next().map(|(key, _)| *key)
    }

    /// All of them, in the order in which they fall due.
    pub fn iter(&self) -> impl Iterator<Item = (DelayedKey, DelayedMessage)> {
        self.messages.iter().map(|(key, message)| (*key, *message))
    }

    /// Those that are due at `now`, in their order.
    pub fn due(&self, now: Millis) -> impl Iterator<Item = (DelayedKey, DelayedMessage)> {
        self.iter().take_while(move |(key, _)| key.due <= now)
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, key: DelayedKey) -> Option<DelayedMessage> {
        self.messages.get(&key).copied()
    }

    pub(crate) fn insert(&mut self, key: DelayedKey, message: DelayedMessage) {
        self.bytes += u64::from(message.size);
        self.messages.insert(key, message);
    }

    pub(crate) fn remove(&mut self, key: DelayedKey) -> Option<DelayedMessage> {
        let message = self.messages.remove(&key)?;
        self.bytes -= u64::from(message.size);
        Some(message)
    }

    pub(crate) fn encode(&self, key: DelayedKey, out: &mut Vec<u8>) {
        let message = self.messages[&key];
        put_varint(out, u64::from(message.size));
        out.extend_from_slice(&message.key.to_le_bytes());
        put_varint(out, message.expires_at);
    }

    pub(crate) fn decode(&mut self, key: DelayedKey, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        let size = from.u32("message size")?;
        let message = DelayedMessage { size, key: u64::from_le_bytes(from.array()?), expires_at: from.varint()? };
        self.insert(key, message);
        Ok(())
    }
}
