//! Messages whose time to live has passed. A sweep finds those that nobody holds; one that is leased is looked at when it comes back.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::failure::{DeadLetter, Reason};
use super::{Dispatch, Ending, GroupKey, Proposal};
use crate::ids::{Millis, QueueId, Seq};
use crate::options::OnExpiry;
use crate::queue::Queue;
use crate::state::State;

/// Messages that one sweep of a queue proposes to remove at most.
const PER_SWEEP_MAX: usize = 1_000;

/// When which queue is swept.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    /// What has expired up to then was looked at, in the queues that hold something that expires.
    swept: FxHashMap<QueueId, Millis>,
    next: FxHashMap<QueueId, Millis>,
    by_time: BTreeSet<(Millis, QueueId)>,
    /// Messages that came back to their group and may have expired meanwhile.
    returned: Vec<(GroupKey, Seq)>,
    /// Messages of queues without groups whose end is proposed and not durable yet.
    leaving: FxHashSet<(QueueId, Seq)>,
}

impl Sweeps {
    /// Something in a queue expires at `at`, or has: a delayed message may come after its own end.
    pub(super) fn schedule(&mut self, queue: QueueId, at: Millis) {
        let swept = self.swept.entry(queue).or_insert(0);
        *swept = (*swept).min(at.saturating_sub(1));
        let next = self.next.entry(queue).or_insert(Millis::MAX);
        if at < *next {
            self.by_time.remove(&(*next, queue));
            *next = at;
            self.by_time.insert((at, queue));
        }
    }

    /// A queue's groups changed: what has expired may be somebody's again, or nobody's.
    pub(super) fn again(&mut self, queue: QueueId) {
        if self.swept.contains_key(&queue) {
            self.schedule(queue, 0);
        }
    }

    /// Messages are not there any more.
    pub(super) fn gone(&mut self, queue: QueueId, seqs: &[Seq]) {
        if !self.leaving.is_empty() {
            for seq in seqs {
                self.leaving.remove(&(queue, *seq));
            }
        }
    }

    /// What lies below `to` is not there any more.
    pub(super) fn gone_below(&mut self, queue: QueueId, to: Seq) {
        self.leaving.retain(|(of, seq)| *of != queue || *seq >= to);
    }

    pub(super) fn forget(&mut self, queue: QueueId) {
        self.leaving.retain(|(of, _)| *of != queue);
        self.swept.remove(&queue);
        if let Some(next) = self.next.remove(&queue) {
            self.by_time.remove(&(next, queue));
        }
        self.returned.retain(|(key, _)| key.queue != queue);
    }

    /// A message is nobody's any more, and may have expired while it was somebody's.
    pub(super) fn returned(&mut self, key: GroupKey, seq: Seq) {
        if self.swept.contains_key(&key.queue) {
            self.returned.push((key, seq));
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Millis> {
        if self.returned.is_empty() { self.by_time.first().map(|(at, _)| *at) } else { Some(0) }
    }

    /// The queues to sweep at `now`; one that is scheduled again waits for the next tick.
    fn take_due(&mut self, now: Millis) -> Vec<QueueId> {
        let mut due = Vec::new();
        while let Some((_, queue)) = self.by_time.first().copied().filter(|(at, _)| *at <= now) {
            self.by_time.pop_first();
            self.next.remove(&queue);
            due.push(queue);
        }
        due
    }
}

impl Dispatch {
    /// Proposes the end of what has expired and is not leased.
    pub(super) fn expire(&mut self, state: &State, now: Millis, proposals: &mut Vec<Proposal>) {
        for (key, seq) in std::mem::take(&mut self.sweeps.returned) {
            let Some(queue) = state.queue(key.queue) else { continue };
            if queue.messages().get(seq).is_some_and(|facts| facts.is_expired(now)) {
                self.expire_in_group(queue, key, seq, now, proposals);
            }
        }
        for id in self.sweeps.take_due(now) {
            let Some(queue) = state.queue(id) else { continue };
            self.sweep(queue, now, proposals);
        }
    }

    fn sweep(&mut self, queue: &Queue, now: Millis, proposals: &mut Vec<Proposal>) {
        let swept = self.sweeps.swept.get(&queue.id).copied().unwrap_or(0);
        let before = proposals.len();
        for seq in queue.messages().expired(swept, now) {
            if proposals.len() - before >= PER_SWEEP_MAX {
                // The next tick goes on with the rest.
                self.sweeps.schedule(queue.id, now);
                return;
            }
            if queue.groups().is_empty() && self.sweeps.leaving.insert((queue.id, seq)) {
                proposals.push(expiry_of(queue, None, seq, now));
            }
            for group in queue.groups().keys() {
                self.expire_in_group(queue, GroupKey { queue: queue.id, group: *group }, seq, now, proposals);
            }
        }
        self.sweeps.swept.insert(queue.id, now);
        if let Some(next) = queue.messages().next_expiry(now) {
            self.sweeps.schedule(queue.id, next);
        }
    }

    fn expire_in_group(&mut self, queue: &Queue, key: GroupKey, seq: Seq, now: Millis, proposals: &mut Vec<Proposal>) {
        let Some(group) = queue.groups().get(&key.group).filter(|group| !group.is_settled(seq)) else { return };
        let Some(run) = self.groups.get_mut(&key) else { return };
        if !run.leased.contains_key(&seq) && run.leaving.insert(seq) {
            proposals.push(expiry_of(queue, Some((key, group.attempts().get(&seq).copied())), seq, now));
            if run.suspects.contains(&seq) {
                // Nobody needs to be kept for it any more.
                self.make_runnable(key);
            }
        }
    }
}

fn expiry_of(queue: &Queue, group: Option<(GroupKey, Option<crate::group::Attempt>)>, seq: Seq, now: Millis) -> Proposal {
    let attempt = group.and_then(|(_, attempt)| attempt);
    match (queue.options.on_expiry, group) {
        (OnExpiry::Dlq, _) if !queue.is_dlq() => Proposal::DeadLetter(Box::new(DeadLetter {
            queue: queue.id,
            group: group.map(|(key, _)| key.group),
            seq,
            reason: Reason::Expired,
            error: "its time to live has passed".to_owned(),
            attempts: attempt.map_or(0, |attempt| attempt.ended),
            first_at: attempt.map_or(now, |attempt| attempt.first_at),
        })),
        (_, Some((key, _))) => Proposal::Settle { group: key, seq, ending: Ending::Expired },
        (_, None) => Proposal::Remove { queue: queue.id, seqs: vec![seq], ending: Ending::Expired },
    }
}
