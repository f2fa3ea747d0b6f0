//! One queue's durable state: options, stored messages, groups, remembered idempotency keys, contract.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::codec::{DecodeError, Decoder, put_bytes, put_varint};
use crate::delayed::Delayed;
use crate::group::Group;
use crate::ids::{GroupId, MessageId, Millis, QueueId, Seq};
use crate::messages::Messages;
use crate::options::{OnFailure, QueueOptions};
use crate::retries::{Retries, RetryKey};
use crate::schema::Schemas;

const VERSION: u8 = 1;

/// What the name of a queue's dead letter queue ends in.
const DLQ_SUFFIX: &str = ".dlq";

/// The idempotency keys that a queue remembers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dedup {
    keys: FxHashMap<Arc<str>, Remembered>,
    /// By expiry, whatever the window was when they were recorded: exact, and the same after loading as after a replay.
    /// A key that was recorded again is still listed under its former time; only `keys` counts.
    expiry: BTreeMap<Millis, Vec<Arc<str>>>,
}

/// The first message of an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// Its id.
    pub id: MessageId,
    /// Its position; a message that was delayed had none when its key was recorded.
    pub seq: Option<Seq>,
    /// From when on the key is new again.
    pub until: Millis,
}

impl Dedup {
    pub(crate) fn get(&self, key: &str, now: Millis) -> Option<Remembered> {
        self.keys.get(key).copied().filter(|remembered| remembered.until > now)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether `more` keys beside those remembered at `now` reach the limit. What has run out is forgotten only by the next publish, so
    /// it is counted out here.
    pub(crate) fn is_full(&self, now: Millis, more: u64, max: u64) -> bool {
        let known = self.keys.len() as u64 + more;
        if known < max {
            return false;
        }
        let listed = self.expiry.range(..=now).flat_map(|(until, keys)| keys.iter().map(move |key| (key, *until)));
        let expired = listed.filter(|(key, until)| self.keys.get(*key).is_some_and(|remembered| remembered.until == *until));
        known.saturating_sub(expired.count() as u64) >= max
    }

    pub(crate) fn record(&mut self, key: &str, remembered: Remembered) {
        let key: Arc<str> = key.into();
        self.expiry.entry(remembered.until).or_default().push(Arc::clone(&key));
        self.keys.insert(key, remembered);
    }

    /// Forgets what has run out; gives the keys, for the store's rows.
    pub(crate) fn forget(&mut self, now: Millis) -> Vec<Arc<str>> {
        let mut forgotten = Vec::new();
        while let Some((&until, _)) = self.expiry.first_key_value().filter(|(until, _)| **until <= now) {
            let (_, keys) = self.expiry.pop_first().expect("there is a first");
            for key in keys {
                if self.keys.get(&key).is_some_and(|remembered| remembered.until == until) {
                    self.keys.remove(&key);
                    forgotten.push(key);
                }
            }
        }
        forgotten
    }
}

/// A queue or stream.
#[derive(Debug, Clone)]
pub struct Queue {
    /// Its number.
    pub id: QueueId,
    /// Its name.
    pub name: Arc<str>,
    /// Its options.
    pub options: QueueOptions,
    /// When it was created.
    pub created_at: Millis,
    pub(crate) next_seq: Seq,
    pub(crate) messages: Messages,
    /// The number that the next delayed message gets.
    pub(crate) next_delayed: u64,
    pub(crate) delayed: Delayed,
    pub(crate) groups: BTreeMap<GroupId, Group>,
    pub(crate) group_names: BTreeMap<String, GroupId>,
    pub(crate) dedup: Dedup,
    pub(crate) retries: Retries,
    pub(crate) schemas: Schemas,
}

impl Queue {
    pub(crate) fn new(id: QueueId, name: Arc<str>, options: QueueOptions, created_at: Millis) -> Queue {
        Queue {
            id,
            name,
            options,
            created_at,
            next_seq: 0,
            messages: Messages::default(),
            next_delayed: 0,
            delayed: Delayed::default(),
            groups: BTreeMap::new(),
            group_names: BTreeMap::new(),
            dedup: Dedup::default(),
            retries: Retries::default(),
            schemas: Schemas::default(),
        }
    }

    /// The position that the next message gets.
    #[must_use]
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// The stored messages.
    #[must_use]
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// The delayed messages.
    #[must_use]
    pub fn delayed(&self) -> &Delayed {
        &self.delayed
    }

    /// The number that the next delayed message gets.
    #[must_use]
    pub fn next_delayed(&self) -> u64 {
        self.next_delayed
    }

    /// Whether it holds another queue's dead letters.
    #[must_use]
    pub fn is_dlq(&self) -> bool {
        self.name.ends_with(DLQ_SUFFIX)
    }

    /// The name of the queue that holds its dead letters.
    #[must_use]
    pub fn dlq_name(&self) -> String {
        format!("{}{DLQ_SUFFIX}", self.name)
    }

    /// What happens to a message that has used up its deliveries. Dead letters never become dead letters again.
    #[must_use]
    pub fn on_failure(&self) -> OnFailure {
        if self.is_dlq() { OnFailure::RetryForever } else { self.options.on_failure }
    }

    /// The groups by number.
    #[must_use]
    pub fn groups(&self) -> &BTreeMap<GroupId, Group> {
        &self.groups
    }

    /// A group by name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.get(self.group_names.get(name)?)
    }

    /// The contract.
    #[must_use]
    pub fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    /// The position of the message that an idempotency key stands for, while the key is remembered; none when the message was delayed.
    #[must_use]
    pub fn remembered(&self, key: &str) -> Option<Seq> {
        match RetryKey::parse(key) {
            Some(key) => self.retries.get(&key, 0)?.1,
            None => self.dedup.get(key, 0)?.seq,
        }
    }

    /// The position of the first message in the queue; `next_seq` when it is empty.
    #[must_use]
    pub fn first_seq(&self) -> Seq {
        self.messages.next_at(0).unwrap_or(self.next_seq)
    }

    /// Messages that a group has not settled; all of them are stored.
    #[must_use]
    pub fn lag(&self, group: &Group) -> u64 {
        group.lag(self.next_seq)
    }

    /// The name of the group that keeps the oldest message, if one does.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        let behind = self.groups.values().filter(|group| group.floor < self.next_seq);
        behind.min_by_key(|group| group.floor).map(|group| group.name.as_str())
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_bytes(out, self.name.as_bytes());
        put_varint(out, self.created_at);
        put_varint(out, self.next_seq);
        put_varint(out, self.next_delayed);
        put_varint(out, u64::from(self.schemas.active));
        self.options.encode(out);
    }

    pub(crate) fn decode(id: QueueId, from: &mut Decoder<'_>) -> Result<Queue, DecodeError> {
        from.version("queue version", VERSION)?;
        let name = from.text()?.into();
        let created_at = from.varint()?;
        let next_seq = from.varint()?;
        let next_delayed = from.varint()?;
        let active = from.u32("active version")?;
        let options = QueueOptions::decode(from)?;
        let mut queue = Queue::new(id, name, options, created_at);
        queue.next_seq = next_seq;
        queue.next_delayed = next_delayed;
        queue.schemas.active = active;
        Ok(queue)
    }

    pub(crate) fn check_invariants(&self) {
        for group in self.groups.values() {
            group.check_invariants(self.next_seq);
        }
        assert_eq!(self.groups.len(), self.group_names.len(), "queue `{}`: groups and their names differ", self.name);
        assert!(self.first_seq() <= self.next_seq, "queue `{}`: a message lies beyond next_seq", self.name);
    }
}
