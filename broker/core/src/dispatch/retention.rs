//! What a queue lets go by itself: what is older than `max_age`, the oldest beyond its limits, and groups that nobody uses.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::{Dispatch, Ending, GroupKey, Proposal};
use crate::ids::{Millis, QueueId, Seq};
use crate::options::{Mode, OnFull};
use crate::queue::Queue;
use crate::state::State;

/// Messages that one proposal removes one by one.
const PER_PROPOSAL_MAX: usize = 1_000;

/// What is to be let go, and when.
#[derive(Debug, Default)]
pub(super) struct Retention {
    /// Queues that may be beyond their limits and make room by themselves.
    crowded: BTreeSet<QueueId>,
    /// When the oldest message of a stream reaches its age.
    ages: BTreeSet<(Millis, QueueId)>,
    age_of: FxHashMap<QueueId, Millis>,
    /// Groups whose use may have changed.
    changed: Vec<GroupKey>,
    /// When a group that nobody uses goes.
    idle: BTreeSet<(Millis, GroupKey)>,
    idle_of: FxHashMap<GroupKey, Millis>,
}

impl Retention {
    /// A queue got messages, or other options.
    pub(super) fn grew(&mut self, queue: &Queue) {
        if is_crowded(queue) {
            self.crowded.insert(queue.id);
        }
        if !self.age_of.contains_key(&queue.id) {
            self.watch_age(queue);
        }
    }

    /// The oldest message of a queue, or its options, may have changed.
    pub(super) fn watch_age(&mut self, queue: &Queue) {
        self.forget_age(queue.id);
        if queue.options.mode == Mode::Stream
            && queue.options.max_age_ms != 0
            && let Some(oldest) = queue.messages().get(queue.first_seq())
        {
            let at = oldest.at.saturating_add(queue.options.max_age_ms);
            self.ages.insert((at, queue.id));
            self.age_of.insert(queue.id, at);
        }
    }

    fn forget_age(&mut self, queue: QueueId) {
        if let Some(at) = self.age_of.remove(&queue) {
            self.ages.remove(&(at, queue));
        }
    }

    pub(super) fn forget(&mut self, queue: QueueId) {
        self.crowded.remove(&queue);
        self.forget_age(queue);
    }

    /// Somebody came to a group, or left it, or its queue's options changed.
    pub(super) fn use_changed(&mut self, key: GroupKey) {
        self.changed.push(key);
    }

    pub(super) fn forget_group(&mut self, key: GroupKey) {
        if let Some(at) = self.idle_of.remove(&key) {
            self.idle.remove(&(at, key));
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Millis> {
        if !self.crowded.is_empty() || !self.changed.is_empty() {
            return Some(0);
        }
        let age = self.ages.first().map(|(at, _)| *at);
        let idle = self.idle.first().map(|(at, _)| *at);
        age.into_iter().chain(idle).min()
    }
}

fn is_crowded(queue: &Queue) -> bool {
    queue.options.on_full == OnFull::DropOldest && queue.is_over_limits()
}

impl Dispatch {
    /// Proposes the end of what a queue does not keep.
    pub(super) fn let_go(&mut self, state: &State, now: Millis, proposals: &mut Vec<Proposal>) {
        for id in std::mem::take(&mut self.retention.crowded) {
            // Other options may have come, or enough may have been settled.
            if let Some(queue) = state.queue(id).filter(|queue| is_crowded(queue)) {
                self.make_room(queue, proposals);
            }
        }
        while let Some((_, id)) = self.retention.ages.first().copied().filter(|(at, _)| *at <= now) {
            self.retention.forget_age(id);
            let Some(queue) = state.queue(id) else { continue };
            let stays = now.saturating_sub(queue.options.max_age_ms) + 1;
            let to = queue.messages().first_since(stays).unwrap_or(queue.next_seq());
            if to > queue.first_seq() {
                proposals.push(Proposal::Floor { queue: id, to });
            } else {
                self.retention.watch_age(queue);
            }
        }
        self.end_idle_groups(state, now, proposals);
    }

    /// The oldest messages that nobody holds go, until the queue is within its limits.
    fn make_room(&mut self, queue: &Queue, proposals: &mut Vec<Proposal>) {
        let options = &queue.options;
        let over = |stored: u64, max: u64| if max == 0 { 0 } else { stored.saturating_sub(max) };
        let mut messages = over(queue.stored_messages(), options.max_messages);
        let mut bytes = over(queue.stored_bytes(), options.max_bytes);
        let mut floor = None;
        let mut one_by_one = Vec::new();
        let mut next = queue.messages().next_at(0);
        while let Some(seq) = next.filter(|_| (messages > 0 || bytes > 0) && one_by_one.len() < PER_PROPOSAL_MAX) {
            next = queue.messages().next_at(seq + 1);
            if self.is_leased(queue, seq) {
                floor.get_or_insert(seq);
                continue;
            }
            messages = messages.saturating_sub(1);
            bytes = bytes.saturating_sub(queue.messages().get(seq).map_or(0, |facts| u64::from(facts.size)));
            if floor.is_some() {
                one_by_one.push(seq);
            }
        }
        let floor = floor.or(next).unwrap_or(queue.next_seq());
        if floor > queue.first_seq() {
            proposals.push(Proposal::Floor { queue: queue.id, to: floor });
        }
        if one_by_one.len() == PER_PROPOSAL_MAX {
            self.retention.crowded.insert(queue.id);
        }
        if !one_by_one.is_empty() {
            proposals.push(Proposal::Remove { queue: queue.id, seqs: one_by_one, ending: Ending::MadeRoom });
        }
    }

    fn is_leased(&self, queue: &Queue, seq: Seq) -> bool {
        let keys = queue.groups().keys().map(|group| GroupKey { queue: queue.id, group: *group });
        keys.filter_map(|key| self.groups.get(&key)).any(|run| run.leased.contains_key(&seq))
    }

    fn end_idle_groups(&mut self, state: &State, now: Millis, proposals: &mut Vec<Proposal>) {
        for key in std::mem::take(&mut self.retention.changed) {
            self.retention.forget_group(key);
            let Some(run) = self.groups.get_mut(&key) else { continue };
            run.idle_since = (run.consumers == 0).then(|| run.idle_since.unwrap_or(now));
            let expiry = state.queue(key.queue).map_or(0, |queue| queue.options.group_expiry_ms);
            if run.consumers == 0 && expiry != 0 {
                let at = now.saturating_add(expiry);
                self.retention.idle.insert((at, key));
                self.retention.idle_of.insert(key, at);
            }
        }
        while let Some((_, key)) = self.retention.idle.first().copied().filter(|(at, _)| *at <= now) {
            self.retention.forget_group(key);
            proposals.push(Proposal::DeleteGroup { group: key });
        }
    }
}
