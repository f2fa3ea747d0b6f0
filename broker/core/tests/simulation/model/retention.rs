//! What a queue lets go by itself: the oldest beyond its limits, never a leased one; and what is older than a stream keeps.

use std::collections::BTreeSet;

use qwerq_core::options::{Mode, OnFull};
use qwerq_core::{Millis, Proposal, QueueId, Seq};

use super::{Model, Queue};

impl Model {
    /// Holds what dispatch proposes to let go at `now` against the rules.
    pub(crate) fn retain(&mut self, now: Millis, given: &[&Proposal]) {
        for id in self.queues.keys().copied().collect::<Vec<_>>() {
            let gone = self.let_go_by(id, given);
            let (surplus, aged) = (self.surplus(id), self.queues[&id].aged(now));
            let queue = self.queues.get_mut(&id).unwrap();
            let more: Vec<_> = gone.iter().filter(|seq| !surplus.contains(seq) && !aged.contains(seq)).collect();
            assert!(more.is_empty(), "{} lets go of {more:?}, which it has room and time for; proposed: {given:?}", queue.name);
            // While some are going, the next ones are looked at once those are gone.
            let mut must = if aged.is_disjoint(&queue.going) { aged } else { BTreeSet::new() };
            if std::mem::take(&mut queue.grew) {
                must.extend(surplus);
            }
            queue.going.extend(gone);
            queue.floor_is_coming |= given.iter().any(|proposal| matches!(proposal, Proposal::Floor { queue, .. } if *queue == id));
            let less: Vec<_> = must.difference(&queue.going).collect();
            assert!(less.is_empty(), "{} keeps {less:?} beyond its limits or age; proposed: {given:?}", queue.name);
        }
    }

    fn let_go_by(&self, id: QueueId, given: &[&Proposal]) -> BTreeSet<Seq> {
        let stored = &self.queues[&id].stored;
        let mut gone = BTreeSet::new();
        for proposal in given {
            match proposal {
                Proposal::Floor { queue, to } if *queue == id => gone.extend(stored.range(..to).map(|(seq, _)| *seq)),
                Proposal::Remove { queue, seqs, .. } if *queue == id => gone.extend(seqs.iter().filter(|seq| stored.contains_key(seq))),
                _ => {}
            }
        }
        gone
    }

    /// The oldest that nobody holds, until the queue is within its limits.
    fn surplus(&self, id: QueueId) -> BTreeSet<Seq> {
        let queue = &self.queues[&id];
        let options = &queue.options;
        let over = |stored: u64, max: u64| if max == 0 { 0 } else { stored.saturating_sub(max) };
        let (mut messages, mut bytes) = (over(queue.messages(), options.max_messages), over(queue.bytes(), options.max_bytes));
        let mut surplus = BTreeSet::new();
        for (seq, stored) in queue.stored.iter().filter(|_| options.on_full == OnFull::DropOldest) {
            let is_leased = self.leases.iter().any(|lease| lease.group.queue == id && lease.seq == *seq);
            if (messages > 0 || bytes > 0) && !is_leased {
                surplus.insert(*seq);
                messages = messages.saturating_sub(1);
                bytes = bytes.saturating_sub(stored.size.into());
            }
        }
        surplus
    }
}

impl Queue {
    fn ages(&self) -> impl Iterator<Item = (Seq, Millis)> {
        let max_age_ms = self.options.max_age_ms;
        let is_kept_by_age = self.options.mode == Mode::Stream && max_age_ms != 0;
        self.stored.iter().filter(move |_| is_kept_by_age).map(move |(seq, stored)| (*seq, stored.at + max_age_ms))
    }

    fn aged(&self, now: Millis) -> BTreeSet<Seq> {
        self.ages().filter(|(_, until)| *until <= now).map(|(seq, _)| seq).collect()
    }

    /// When the oldest reaches its age; while some are going, the next one is looked at once they are gone.
    pub(super) fn next_age(&self) -> Option<Millis> {
        self.ages().next().filter(|(oldest, _)| !self.floor_is_coming && !self.going.contains(oldest)).map(|(_, until)| until)
    }
}
