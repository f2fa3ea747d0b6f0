//! Messages that move, each in one step, and groups that do: due, dead letters, redrive, purge, retention, seek.
//!
//! What is not where it came from any more does not arrive either.

use qwerq_core::dispatch::GroupKey;
use qwerq_core::entry::{Applied, Moved, Origin};
use qwerq_core::options::Mode;
use qwerq_core::{DelayedKey, GroupId, QueueId, QueueOptions, Seq, Space};

use super::durable::{earliest, message_of};
use super::{Group, Model, Stored};

impl Model {
    pub(super) fn moved(&mut self, moved: &Moved, payload: &[u8]) -> Applied {
        let Moved { origin, items } = moved;
        if let Origin::Redriven { to, only, .. } = origin
            && self.queues.get(to).is_none_or(|queue| only.is_some_and(|only| !queue.groups.contains_key(&only)))
        {
            return Applied::Nothing;
        }
        let taken = self.take(origin);
        if taken.is_empty() {
            return Applied::Nothing;
        }
        let to = match origin {
            Origin::Due { queue, .. } => *queue,
            Origin::Redriven { to, .. } => *to,
            Origin::Failed { queue, .. } | Origin::Invalid { queue, .. } => {
                let name = format!("{}.dlq", self.queues[queue].name);
                self.create_queue(self.next_queue(), &name, &QueueOptions::for_dead_letters())
            }
        };
        let only = if let Origin::Redriven { only, .. } = origin { *only } else { None };
        let first = self.queues[&to].next_seq;
        for at in &taken {
            let message = message_of(payload, &items[*at]);
            if let Origin::Invalid { .. } = origin {
                self.ledger.accepted(message);
            }
            self.next_copy += 1;
            let queue = self.queues.get_mut(&to).unwrap();
            let seq = queue.push(self.clock, &items[*at], message, self.next_copy);
            if let Origin::Failed { group, .. } = origin {
                queue.stored.get_mut(&seq).unwrap().letter_of = *group;
            }
            for (_, group) in queue.groups.iter_mut().filter(|(id, _)| only.is_some_and(|only| only != **id)) {
                group.settle(seq);
            }
        }
        self.queues.get_mut(&to).unwrap().grew = true;
        let expiry = earliest(taken.iter().map(|at| items[*at].expires_at));
        Applied::Moved { origin: origin.clone(), to, first, moved: taken, expiry }
    }

    /// Takes away what is where the origin says; gives the positions of those that were there.
    fn take(&mut self, origin: &Origin) -> Vec<usize> {
        match origin {
            Origin::Due { queue, keys } => {
                let early = keys.iter().find(|key| key.due > self.clock);
                assert_eq!(early, None, "nothing falls due early, at {}", self.clock);
                positions(keys, |key| self.take_delayed(*queue, *key).is_some())
            }
            Origin::Failed { queue, group: Some(group), seqs } => {
                positions(seqs, |seq| self.take_of_group(GroupKey { queue: *queue, group: *group }, *seq))
            }
            Origin::Failed { queue, group: None, seqs } | Origin::Redriven { from: queue, seqs, .. } => {
                positions(seqs, |seq| self.take_of_all(*queue, *seq).is_some())
            }
            Origin::Invalid { queue, count } if self.queues.contains_key(queue) => (0..*count).collect(),
            Origin::Invalid { .. } => Vec::new(),
        }
    }

    fn take_delayed(&mut self, id: QueueId, key: DelayedKey) -> Option<u64> {
        let delayed = self.queues.get_mut(&id)?.delayed.remove(&key)?;
        self.removed.push((id, Space::Delayed, key.number));
        Some(delayed.message)
    }

    /// The group counts it as settled; the others keep it.
    fn take_of_group(&mut self, key: GroupKey, seq: Seq) -> bool {
        let Some(group) = self.queues.get_mut(&key.queue).and_then(|queue| queue.groups.get_mut(&key.group)) else { return false };
        if !group.settle(seq) {
            return false;
        }
        self.leases.retain(|lease| lease.group != key || lease.seq != seq);
        self.remove_settled(key.queue, vec![seq]);
        true
    }

    /// It is gone for every group.
    fn take_of_all(&mut self, id: QueueId, seq: Seq) -> Option<Stored> {
        let queue = self.queues.get_mut(&id)?;
        let stored = queue.stored.remove(&seq)?;
        for group in queue.groups.values_mut() {
            group.settle(seq);
        }
        self.leases.retain(|lease| lease.group.queue != id || lease.seq != seq);
        self.removed.push((id, Space::Live, seq));
        Some(stored)
    }

    /// How many of `seqs` each group has not settled; only a stream's readers are told.
    fn skipped(&self, id: QueueId, seqs: &[Seq]) -> Vec<(GroupId, u64)> {
        let queue = &self.queues[&id];
        let unsettled = |group: &Group| queue.unsettled(group).filter(|(seq, _)| seqs.contains(seq)).count();
        let counts = queue.groups.iter().map(|(id, group)| (*id, u64::try_from(unsettled(group)).unwrap()));
        counts.filter(|(_, count)| *count > 0 && queue.options.mode == Mode::Stream).collect()
    }

    fn skip(&mut self, id: QueueId, skipped: &[(GroupId, u64)]) {
        let queue = self.queues.get_mut(&id).unwrap();
        skipped.iter().for_each(|(group, count)| queue.groups.get_mut(group).unwrap().skipped += count);
    }

    pub(super) fn remove(&mut self, id: QueueId, seqs: &[Seq]) -> Applied {
        if !self.queues.contains_key(&id) {
            return Applied::Nothing;
        }
        let skipped = self.skipped(id, seqs);
        for seq in seqs {
            if let Some(stored) = self.take_of_all(id, *seq) {
                self.ledger.let_go(stored.message);
            }
        }
        self.skip(id, &skipped);
        Applied::Removed { queue: id, seqs: seqs.to_vec(), skipped }
    }

    /// Everything below `to` goes.
    pub(super) fn floor(&mut self, id: QueueId, to: Seq) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        queue.floor_is_coming = false;
        let to = to.min(queue.next_seq);
        let gone: Vec<_> = queue.stored.keys().filter(|seq| **seq < to).copied().collect();
        let skipped = self.skipped(id, &gone);
        for seq in &gone {
            let stored = self.take_of_all(id, *seq).unwrap();
            self.ledger.let_go(stored.message);
        }
        self.queues.get_mut(&id).unwrap().groups.values_mut().for_each(|group| group.settle_below(to));
        self.skip(id, &skipped);
        Applied::Floored { queue: id, to, delayed_to: 0, messages: u64::try_from(gone.len()).unwrap(), skipped }
    }

    /// As a floor, and what is delayed goes too; nobody is told that it skipped something.
    pub(super) fn purge(&mut self, id: QueueId, to: Seq, delayed_to: u64) -> Applied {
        let Some(queue) = self.queues.get(&id) else { return Applied::Nothing };
        let delayed: Vec<_> = queue.delayed.keys().filter(|key| key.number < delayed_to).copied().collect();
        let before: Vec<_> = queue.groups.values().map(|group| group.skipped).collect();
        for key in &delayed {
            let message = self.take_delayed(id, *key).unwrap();
            self.ledger.let_go(message);
        }
        let Applied::Floored { to, messages, .. } = self.floor(id, to) else { unreachable!("the queue is there") };
        let groups = self.queues.get_mut(&id).unwrap().groups.values_mut();
        groups.zip(before).for_each(|(group, skipped)| group.skipped = skipped);
        let messages = messages + u64::try_from(delayed.len()).unwrap();
        Applied::Floored { queue: id, to, delayed_to, messages, skipped: Vec::new() }
    }

    /// The group has settled what lies before `to` and nothing else; whatever it held or tried is forgotten.
    pub(super) fn seek(&mut self, id: QueueId, group: GroupId, to: Seq) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        let settled = queue.not_from(to);
        let Some(seeking) = queue.groups.get_mut(&group) else { return Applied::Nothing };
        seeking.begin_anew(settled);
        queue.stored.range(..to).for_each(|(_, stored)| self.ledger.let_go(stored.message));
        let key = GroupKey { queue: id, group };
        self.leases.retain(|lease| lease.group != key);
        let stored = queue.stored.keys().copied().collect();
        self.remove_settled(id, stored);
        Applied::Sought(id, group)
    }

    pub(super) fn settle_through(&mut self, id: QueueId, group: GroupId, through: Seq) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        let Some(settling) = queue.groups.get_mut(&group) else { return Applied::Nothing };
        let to = through.saturating_add(1).min(queue.next_seq);
        settling.settle_below(to);
        queue.stored.range(..to).for_each(|(_, stored)| self.ledger.let_go(stored.message));
        let key = GroupKey { queue: id, group };
        self.leases.retain(|lease| lease.group != key || lease.seq >= to);
        let stored = queue.stored.keys().copied().collect();
        self.remove_settled(id, stored);
        Applied::SettledThrough(id, group)
    }
}

/// The positions of those that could be taken.
fn positions<T>(all: &[T], mut take: impl FnMut(&T) -> bool) -> Vec<usize> {
    all.iter().enumerate().filter_map(|(at, one)| take(one).then_some(at)).collect()
}
