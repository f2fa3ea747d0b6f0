//! The rules of the broker, stated naively: plain lists and sets, each rule once, as slow as it likes.
//!
//! It knows nothing of floors, cursors, chunks or locks. The durable half changes only in [`Model::apply`]; the volatile half (leases,
//! subscriptions, timers) is dropped by [`Model::crash`]. Read on in `durable.rs`, `moves.rs`, `timers.rs` and `delivery.rs`.

mod admission;
mod check;
mod delivery;
mod durable;
mod expected;
mod explanation;
mod group;
mod lease;
mod ledger;
mod moves;
mod queue;
mod reader;
mod retention;
mod subscription;
mod suspect;
mod timers;

use std::collections::BTreeMap;

use qwerq_core::dispatch::GroupKey;
use qwerq_core::{Millis, QueueId, Space, SubscriptionKey};

pub(crate) use admission::PendingItem;
pub(crate) use expected::Expected;
use group::{Class, Group};
pub(crate) use lease::Lease;
use ledger::Ledger;
use queue::{Delayed, Queue, Remembered, Stored};
pub(crate) use reader::Reader;
pub(crate) use subscription::{Pull, Subscription};

/// Everything that the broker has promised.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) clock: Millis,
    pub(crate) epoch: u64,
    pub(crate) queues: BTreeMap<QueueId, Queue>,
    next_queue: u32,
    next_group: u32,
    next_serial: u64,
    next_copy: u64,
    /// What applied entries removed, for whoever writes checkpoints.
    pub(crate) removed: Vec<(QueueId, Space, u64)>,
    pub(crate) dropped: Vec<QueueId>,
    /// In order of opening, closed ones included while their connection lasts.
    pub(crate) subscriptions: Vec<Subscription>,
    /// In order of granting.
    pub(crate) leases: Vec<Lease>,
    ended: Vec<SubscriptionKey>,
    pub(crate) readers: Vec<Reader>,
    ended_readers: Vec<SubscriptionKey>,
    ledger: Ledger,
}

impl Model {
    pub(crate) fn group(&self, key: GroupKey) -> Option<&Group> {
        self.queues.get(&key.queue)?.groups.get(&key.group)
    }

    pub(crate) fn group_keys(&self) -> Vec<GroupKey> {
        self.queues.iter().flat_map(|(queue, q)| q.groups.keys().map(|group| GroupKey { queue: *queue, group: *group })).collect()
    }

    /// Messages that a group has not settled.
    pub(crate) fn lag(&self, key: GroupKey) -> usize {
        self.group(key).map_or(0, |group| self.queues[&key.queue].unsettled(group).count())
    }

    /// The queue of a name.
    pub(crate) fn named(&self, name: &str) -> Option<QueueId> {
        self.queues.iter().find(|(_, queue)| queue.name == name).map(|(id, _)| *id)
    }

    /// Subscriptions that ended with their group since the last call, sorted.
    pub(crate) fn take_ended(&mut self) -> Vec<SubscriptionKey> {
        self.ended.sort_unstable();
        std::mem::take(&mut self.ended)
    }

    /// All leases and connections are gone; what is durable stays, and nothing counts.
    pub(crate) fn crash(&mut self) {
        self.subscriptions.clear();
        self.leases.clear();
        self.ended.clear();
        self.readers.clear();
        self.ended_readers.clear();
        for queue in self.queues.values_mut() {
            queue.crash();
        }
    }
}
