//! Readers: subscriptions without a group. They follow a queue or a stream from a position of their own, hold no leases, hold nothing
//! back and leave nothing behind; what was removed before they came to it, they have missed.
//!
//! Their credit counts what is sent, not what is unsettled: each grant is used up once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use crate::dispatch::{Bounds, Consumer, Dispatch};
use crate::ids::{QueueId, Seq, SessionId, SubscriptionKey};
use crate::options::Mode;
use crate::rejection::Rejection;
use crate::state::State;

/// Messages that one reader gets in a row while others wait: in a row they are cheap to read.
const RUN: u32 = 256;

/// A message that goes to a reader now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// To whom.
    pub subscription: SubscriptionKey,
    /// From which queue.
    pub queue: QueueId,
    /// Which message.
    pub seq: Seq,
    /// Streams: messages between the last one and this one that were removed before the reader came to them.
    pub skipped: u64,
}

#[derive(Debug)]
struct Reader {
    queue: QueueId,
    /// Everything below was read or passed.
    next: Seq,
    /// What is left of the last grant.
    credit: Bounds,
    /// Whether it is in the list of runnable ones.
    queued: bool,
}

/// The readers of one shard.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    open: BTreeMap<SubscriptionKey, Reader>,
    of_queue: FxHashMap<QueueId, BTreeSet<SubscriptionKey>>,
    /// Readers that may have something to read, in turn.
    runnable: VecDeque<SubscriptionKey>,
    /// Messages that the first of them has had in a row.
    in_a_row: u32,
    ended: Vec<SubscriptionKey>,
}

impl Reader {
    fn read(&mut self, subscription: SubscriptionKey, state: &State) -> Option<Reading> {
        if !self.has_credit() {
            return None;
        }
        let queue = state.queue(self.queue)?;
        let seq = queue.messages().next_at(self.next)?;
        let skipped = if queue.options.mode == Mode::Stream { seq - self.next } else { 0 };
        let size = queue.messages().get(seq).map_or(0, |facts| facts.size);
        self.next = seq + 1;
        self.credit.messages -= 1;
        self.credit.bytes = self.credit.bytes.saturating_sub(u64::from(size));
        Some(Reading { subscription, queue: self.queue, seq, skipped })
    }

    fn has_credit(&self) -> bool {
        self.credit.messages > 0 && self.credit.bytes > 0
    }
}

impl Readers {
    pub(crate) fn contains(&self, key: SubscriptionKey) -> bool {
        self.open.contains_key(&key)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Consumer> {
        self.open.iter().map(|(key, reader)| Consumer {
            subscription: *key,
            queue: reader.queue,
            group: None,
            bounds: reader.credit,
            concurrency: 0,
            in_flight: 0,
            silent: false,
        })
    }

    fn add(&mut self, key: SubscriptionKey, queue: QueueId, next: Seq, credit: Bounds) {
        self.open.insert(key, Reader { queue, next, credit, queued: false });
        self.of_queue.entry(queue).or_default().insert(key);
        self.make_runnable(key);
    }

    /// Replaces what is left of a reader's credit; says whether there is one.
    pub(crate) fn grant(&mut self, key: SubscriptionKey, credit: Bounds) -> bool {
        let Some(reader) = self.open.get_mut(&key) else { return false };
        reader.credit = credit;
        self.make_runnable(key);
        true
    }

    pub(crate) fn close(&mut self, key: SubscriptionKey) -> bool {
        let Some(reader) = self.open.remove(&key) else { return false };
        if reader.queued {
            self.runnable.retain(|other| *other != key);
            self.in_a_row = 0;
        }
        if let Some(of_queue) = self.of_queue.get_mut(&reader.queue) {
            of_queue.remove(&key);
            if of_queue.is_empty() {
                self.of_queue.remove(&reader.queue);
            }
        }
        true
    }

    pub(crate) fn close_session(&mut self, session: SessionId) {
        let first = SubscriptionKey { session, number: 0 };
        let last = SubscriptionKey { session, number: u64::MAX };
        let keys: Vec<_> = self.open.range(first..=last).map(|(key, _)| *key).collect();
        for key in keys {
            self.close(key);
        }
    }

    /// The queue has something new.
    pub(crate) fn wake(&mut self, queue: QueueId) {
        let Some(keys) = self.of_queue.get(&queue) else { return };
        for &key in keys {
            make_runnable(&mut self.open, &mut self.runnable, key);
        }
    }

    pub(crate) fn drop_queue(&mut self, queue: QueueId) {
        for key in self.of_queue.get(&queue).cloned().unwrap_or_default() {
            self.close(key);
            self.ended.push(key);
        }
    }

    fn make_runnable(&mut self, key: SubscriptionKey) {
        make_runnable(&mut self.open, &mut self.runnable, key);
    }

    fn next(&mut self, state: &State) -> Option<Reading> {
        while let Some(&key) = self.runnable.front() {
            let reader = self.open.get_mut(&key).expect("runnable readers are open");
            if let Some(reading) = reader.read(key, state) {
                self.in_a_row += 1;
                if self.in_a_row == RUN {
                    self.in_a_row = 0;
                    self.runnable.rotate_left(1);
                }
                return Some(reading);
            }
            reader.queued = false;
            self.runnable.pop_front();
            self.in_a_row = 0;
        }
        None
    }

    pub(crate) fn check_invariants(&self, state: &State) {
        for (key, reader) in &self.open {
            let queue = state.queue(reader.queue).expect("a reader's queue exists");
            assert!(self.of_queue.get(&reader.queue).is_some_and(|keys| keys.contains(key)), "reader {key:?} is listed with its queue");
            assert_eq!(reader.queued, self.runnable.contains(key), "reader {key:?} knows whether it is in line");
            let waits = reader.has_credit() && queue.messages().next_at(reader.next).is_some();
            assert!(reader.queued || !waits, "reader {key:?} has credit and something to read, so it is in line");
        }
        assert!(self.runnable.iter().all(|key| self.open.contains_key(key)), "runnable readers are open");
    }
}

fn make_runnable(open: &mut BTreeMap<SubscriptionKey, Reader>, runnable: &mut VecDeque<SubscriptionKey>, key: SubscriptionKey) {
    let reader = open.get_mut(&key).expect("a listed reader is open");
    if !reader.queued && reader.has_credit() {
        reader.queued = true;
        runnable.push_back(key);
    }
}

impl Dispatch {
    /// Opens a reader of an existing queue, which begins at `from`. `credit` is its first grant; [`Dispatch::credit`] gives the next.
    ///
    /// # Errors
    /// [`Rejection::SubscriptionExists`].
    pub fn read(&mut self, key: SubscriptionKey, queue: QueueId, from: Seq, credit: Bounds) -> Result<(), Rejection> {
        if self.has_subscription(key) {
            return Err(Rejection::SubscriptionExists { number: key.number });
        }
        self.readers.add(key, queue, from, credit);
        Ok(())
    }

    /// The next message that goes to a reader now.
    pub fn next_reading(&mut self, state: &State) -> Option<Reading> {
        self.readers.next(state)
    }

    /// Readers whose queue is gone since the last call.
    pub fn take_ended_readers(&mut self) -> Vec<SubscriptionKey> {
        std::mem::take(&mut self.readers.ended)
    }
}
