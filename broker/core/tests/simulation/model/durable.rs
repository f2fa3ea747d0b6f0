//! What a durable entry does. An entry for what was deleted before it changes nothing; a name that exists already stays as it is.

use std::collections::BTreeSet;

use qwerq_core::dispatch::GroupKey;
use qwerq_core::entry::{Applied, AttemptEnded, Body, Cause, Item, Publish, Settle};
use qwerq_core::options::Mode;
use qwerq_core::{DelayedKey, GroupId, Millis, QueueId, QueueOptions, Seq, Space};

use super::group::{Attempt, Group};
use super::{Delayed, Model, Queue, Remembered, Stored};

/// What the publisher sent: the stored form begins with its number.
pub(super) fn message_of(payload: &[u8], item: &Item) -> u64 {
    let start = usize::try_from(item.stored.start).unwrap();
    u64::from_le_bytes(payload[start..start + 8].try_into().unwrap())
}

/// The earliest of those that expire at all.
pub(super) fn earliest(expiries: impl Iterator<Item = Millis>) -> Option<Millis> {
    expiries.filter(|expiry| *expiry != 0).min()
}

impl Model {
    /// Applies a durable entry, of which dispatch is told at `now`.
    pub(crate) fn apply(&mut self, entry_now: Millis, now: Millis, body: &Body, payload: &[u8]) -> Applied {
        self.clock = self.clock.max(entry_now);
        match body {
            Body::Epoch { epoch } => {
                self.epoch = *epoch;
                Applied::Nothing
            }
            Body::Publish(publish) => self.publish(publish, payload),
            Body::Settle(settle) => self.settle(settle),
            Body::AttemptEnded(attempt) => self.attempt_ended(now, attempt),
            Body::Floor { queue, to } => self.floor(*queue, *to),
            Body::QueueCreated { queue, name, options } => {
                let id = self.create_queue(*queue, name, options);
                self.queues.get_mut(&id).unwrap().look_again();
                Applied::Queue(id)
            }
            Body::QueueUpdated { queue: id, options } => {
                let Some(queue) = self.queues.get_mut(id) else { return Applied::Nothing };
                queue.options = options.clone();
                queue.look_again();
                Applied::Queue(*id)
            }
            Body::QueueDeleted { queue } => self.delete_queue(*queue),
            Body::GroupCreated { queue, group, name, floor } => self.create_group(*queue, *group, name, *floor),
            Body::GroupDeleted { queue: id, group } => {
                let Some(queue) = self.queues.get_mut(id) else { return Applied::Nothing };
                let Some(gone) = queue.groups.remove(group) else { return Applied::Nothing };
                queue.unsettled(&gone).for_each(|(_, stored)| self.ledger.let_go(stored.message));
                let stored = queue.stored.keys().copied().collect();
                self.remove_settled(*id, stored);
                self.end_group(GroupKey { queue: *id, group: *group });
                Applied::Group(*id, *group)
            }
            Body::Moved(moved) => self.moved(moved, payload),
            Body::Removed { queue, seqs } => self.remove(*queue, seqs),
            Body::Purged { queue, to, delayed_to } => self.purge(*queue, *to, *delayed_to),
            Body::Sought { queue, group, to } => self.seek(*queue, *group, *to),
            Body::SettledThrough { queue, group, through } => self.settle_through(*queue, *group, *through),
            Body::SchemaFile { .. }
            | Body::SchemaVersion { .. }
            | Body::SchemaActive { .. }
            | Body::SchemaRetired { .. }
            | Body::SchemaDeleted { .. }
            | Body::SchemaRefreshed { .. } => {
                unreachable!("the simulation has no contracts")
            }
        }
    }

    fn publish(&mut self, publish: &Publish, payload: &[u8]) -> Applied {
        let Some(queue) = self.queues.get_mut(&publish.queue) else { return Applied::Nothing };
        let (first, first_delayed) = (queue.next_seq, queue.next_delayed);
        for item in &publish.items {
            let message = message_of(payload, item);
            self.ledger.accepted(message);
            let seq = if item.due == 0 {
                self.next_copy += 1;
                Some(queue.push(self.clock, item, message, self.next_copy))
            } else {
                queue.delay(item, message);
                None
            };
            if let Some((key, id)) = item.dedup.as_deref() {
                queue.keys.retain(|known| known.key != *key);
                let until = self.clock + queue.options.dedup_window_ms;
                queue.keys.push(Remembered { key: key.clone(), id: *id, seq, until });
            }
        }
        queue.grew = true;
        let live = || publish.items.iter().filter(|item| item.due == 0);
        Applied::Published {
            queue: publish.queue,
            first,
            count: u32::try_from(live().count()).unwrap(),
            first_delayed,
            expiry: earliest(live().map(|item| item.expires_at)),
        }
    }

    fn settle(&mut self, settle: &Settle) -> Applied {
        let Some(queue) = self.queues.get_mut(&settle.queue) else { return Applied::Nothing };
        let Some(group) = queue.groups.get_mut(&settle.group) else { return Applied::Nothing };
        let key = GroupKey { queue: settle.queue, group: settle.group };
        for seq in &settle.seqs {
            if let Some(stored) = queue.stored.get(seq).filter(|_| group.settle(*seq)) {
                if self.leases.iter().any(|lease| lease.group == key && lease.seq == *seq && lease.acked) {
                    group.acked.insert(stored.copy);
                    self.ledger.acked(stored.message);
                } else {
                    self.ledger.let_go(stored.message);
                }
            }
        }
        self.leases.retain(|lease| lease.group != key || !settle.seqs.contains(&lease.seq));
        self.remove_settled(settle.queue, settle.seqs.clone());
        Applied::Settled(settle.clone())
    }

    fn attempt_ended(&mut self, now: Millis, attempt: &AttemptEnded) -> Applied {
        let key = GroupKey { queue: attempt.queue, group: attempt.group };
        let Some(queue) = self.queues.get_mut(&attempt.queue) else { return Applied::Nothing };
        let Some(group) = queue.groups.get_mut(&attempt.group) else { return Applied::Nothing };
        for ended in &attempt.ended {
            self.leases.retain(|lease| (lease.group, lease.seq) != (key, ended.seq));
            if group.settled.contains(&ended.seq) {
                continue;
            }
            let before = group.attempts.get(&ended.seq);
            let suspect = ended.cause != Cause::Nack || before.is_some_and(|before| before.suspect);
            let first_at = before.map_or(self.clock, |before| before.first_at);
            group.attempts.insert(ended.seq, Attempt { ended: ended.attempts, not_before: ended.not_before, first_at, suspect });
            if ended.not_before > now {
                group.waiting.insert(ended.seq);
            }
        }
        Applied::AttemptEnded(attempt.clone())
    }

    pub(super) fn create_queue(&mut self, id: QueueId, name: &str, options: &QueueOptions) -> QueueId {
        if let Some(existing) = self.named(name) {
            return existing;
        }
        let id = QueueId(id.0.max(self.next_queue));
        self.next_queue = id.0 + 1;
        self.queues.insert(id, Queue::new(name.to_owned(), options.clone()));
        id
    }

    /// The number of the next queue.
    pub(super) fn next_queue(&self) -> QueueId {
        QueueId(self.next_queue)
    }

    fn delete_queue(&mut self, id: QueueId) -> Applied {
        let Some(queue) = self.queues.remove(&id) else { return Applied::Nothing };
        for group in queue.groups.keys() {
            self.end_group(GroupKey { queue: id, group: *group });
        }
        let messages = queue.stored.values().map(|stored| stored.message).chain(queue.delayed.values().map(|delayed| delayed.message));
        messages.for_each(|message| self.ledger.let_go(message));
        self.dropped.push(id);
        self.end_readers(id);
        Applied::Queue(id)
    }

    fn create_group(&mut self, id: QueueId, group: GroupId, name: &str, floor: Seq) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        if let Some((existing, _)) = queue.groups.iter().find(|(_, group)| group.name == name) {
            return Applied::Group(id, *existing);
        }
        let group = GroupId(group.0.max(self.next_group));
        self.next_group = group.0 + 1;
        let settled = queue.not_from(floor);
        queue.stored.range(..floor).for_each(|(_, stored)| self.ledger.let_go(stored.message));
        queue.groups.insert(group, Group { name: name.to_owned(), settled, ..Group::default() });
        Applied::Group(id, group)
    }

    /// Removes those of `seqs` that every group has settled; a stream keeps them.
    pub(super) fn remove_settled(&mut self, id: QueueId, seqs: Vec<Seq>) {
        let queue = self.queues.get_mut(&id).unwrap();
        for seq in seqs {
            if queue.options.mode == Mode::Queue && queue.is_settled_by_all(seq) && queue.stored.remove(&seq).is_some() {
                self.removed.push((id, Space::Live, seq));
            }
        }
    }

    fn end_group(&mut self, key: GroupKey) {
        self.leases.retain(|lease| lease.group != key);
        self.ended.extend(self.subscriptions.iter().filter(|subscription| subscription.open && subscription.group == key).map(|s| s.key));
        self.subscriptions.retain(|subscription| subscription.group != key);
    }
}

impl Queue {
    pub(super) fn push(&mut self, at: Millis, item: &Item, message: u64, copy: u64) -> Seq {
        let seq = self.next_seq;
        self.next_seq += 1;
        let Item { size, key, expires_at, .. } = *item;
        self.stored.insert(seq, Stored { size, key, at, expires_at, message, copy, letter_of: None });
        seq
    }

    fn delay(&mut self, item: &Item, message: u64) {
        let at = DelayedKey { due: item.due, number: self.next_delayed };
        self.next_delayed += 1;
        self.delayed.insert(at, Delayed { size: item.size, key: item.key, expires_at: item.expires_at, message });
    }

    /// What a group that begins at `floor` counts as settled: what lies before it, and what is gone.
    pub(super) fn not_from(&self, floor: Seq) -> BTreeSet<Seq> {
        (0..self.next_seq).filter(|seq| *seq < floor || !self.stored.contains_key(seq)).collect()
    }
}
