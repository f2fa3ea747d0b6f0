//! Messages that change their place, and groups that do: due, dead-lettered, redriven, removed, purged; sought, settled through.
//!
//! A move is one step: what is not where it came from any more does not arrive. So a proposal that was overtaken (by a purge, another
//! group's delete, a second redrive) loses nothing and doubles nothing.

use super::{Removal, Space, State, earlier};
use crate::delayed::DelayedKey;
use crate::entry::{Applied, Moved, Origin};
use crate::ids::{GroupId, Millis, QueueId, Seq};
use crate::options::{Mode, QueueOptions};

impl State {
    pub(super) fn moved(&mut self, now: Millis, moved: Moved) -> Applied {
        let Moved { origin, items } = moved;
        if !self.can_arrive(&origin) {
            return Applied::Nothing;
        }
        let taken = self.take(&origin);
        if taken.is_empty() {
            return Applied::Nothing;
        }
        let to = self.destination(now, &origin);
        let queue = self.queues.get_mut(&to).expect("the destination was just looked up");
        let first = queue.next_seq;
        let mut expiry = None;
        for at in &taken {
            queue.push(now, &items[*at]);
            expiry = earlier(expiry, items[*at].expires_at);
        }
        let seqs = first..queue.next_seq;
        if let Origin::Redriven { only: Some(only), .. } = &origin {
            for group in queue.groups.values_mut().filter(|group| group.id != *only) {
                for seq in seqs.clone() {
                    group.settle(seq);
                }
                self.dirty.groups.insert((to, group.id));
            }
        }
        self.dirty.added(to, seqs);
        Applied::Moved { origin, to, first, moved: taken, expiry }
    }

    /// Whether there is somewhere to go to; what cannot arrive stays where it is.
    fn can_arrive(&self, origin: &Origin) -> bool {
        match origin {
            Origin::Due { queue, .. } | Origin::Failed { queue, .. } | Origin::Invalid { queue, .. } => self.queues.contains_key(queue),
            Origin::Redriven { to, only, .. } => {
                self.queues.get(to).is_some_and(|queue| only.is_none_or(|only| queue.groups.contains_key(&only)))
            }
        }
    }

    /// Where messages go; a queue's dead letter queue comes into being with the first of them.
    fn destination(&mut self, now: Millis, origin: &Origin) -> QueueId {
        match origin {
            Origin::Due { queue, .. } | Origin::Redriven { to: queue, .. } => *queue,
            Origin::Failed { queue, .. } | Origin::Invalid { queue, .. } => {
                let name = self.queues[queue].dlq_name();
                self.names.get(name.as_str()).copied().unwrap_or_else(|| {
                    let id = QueueId(self.next_queue);
                    self.queue_created(now, id, &name, QueueOptions::for_dead_letters());
                    id
                })
            }
        }
    }

    /// Takes messages away from where they are; gives the positions of those that were there.
    fn take(&mut self, origin: &Origin) -> Vec<usize> {
        match origin {
            Origin::Due { queue, keys } => self.take_delayed(*queue, keys),
            Origin::Failed { queue, group: Some(group), seqs } => self.take_of_group(*queue, *group, seqs),
            Origin::Failed { queue, group: None, seqs } | Origin::Redriven { from: queue, seqs, .. } => self.take_of_all(*queue, seqs),
            Origin::Invalid { count, .. } => (0..*count).collect(),
        }
    }

    fn take_delayed(&mut self, id: QueueId, keys: &[DelayedKey]) -> Vec<usize> {
        let queue = self.queues.get_mut(&id).expect("the destination is this queue");
        let before = queue.delayed.first();
        let mut taken = Vec::with_capacity(keys.len());
        for (at, key) in keys.iter().enumerate() {
            if queue.delayed.remove(*key).is_some() {
                taken.push(at);
                self.dirty.delayed.insert((id, *key));
                self.dirty.removed.entry((id, Space::Delayed)).or_default().insert(key.number..key.number + 1);
            }
        }
        self.reschedule_due(id, before);
        taken
    }

    fn take_of_group(&mut self, id: QueueId, group: GroupId, seqs: &[Seq]) -> Vec<usize> {
        let queue = self.queues.get_mut(&id).expect("its name was just looked up");
        let Some(group) = queue.groups.get_mut(&group) else { return Vec::new() };
        self.dirty.groups.insert((id, group.id));
        let taken: Vec<_> = seqs.iter().enumerate().filter_map(|(at, seq)| group.settle(*seq).then_some(at)).collect();
        self.remove_settled(id, taken.iter().map(|at| seqs[*at]));
        taken
    }

    /// For all groups; what was not there any more is not taken.
    fn take_of_all(&mut self, id: QueueId, seqs: &[Seq]) -> Vec<usize> {
        let Some(queue) = self.queues.get_mut(&id) else { return Vec::new() };
        let mut removal = Removal::new(id);
        let mut taken = Vec::with_capacity(seqs.len());
        for (at, seq) in seqs.iter().enumerate().filter(|(_, seq)| queue.messages.remove(**seq)) {
            taken.push(at);
            removal.push(*seq, &mut self.dirty);
            for group in queue.groups.values_mut().filter(|group| !group.is_settled(*seq)) {
                group.settle(*seq);
                self.dirty.groups.insert((id, group.id));
            }
        }
        removal.flush(&mut self.dirty);
        taken
    }

    pub(super) fn removed(&mut self, id: QueueId, seqs: Vec<Seq>) -> Applied {
        let Some(queue) = self.queues.get(&id) else { return Applied::Nothing };
        let lags: Vec<_> = queue.groups.values().map(|group| (group.id, queue.lag(group))).collect();
        self.take_of_all(id, &seqs);
        let queue = &self.queues[&id];
        let mut skipped: Vec<_> = lags.into_iter().map(|(group, before)| (group, before - queue.lag(&queue.groups[&group]))).collect();
        skipped.retain(|(_, count)| *count > 0 && queue.options.mode == Mode::Stream);
        Applied::Removed { queue: id, seqs, skipped }
    }

    pub(super) fn purged(&mut self, id: QueueId, to: Seq, delayed_to: u64) -> Applied {
        let Some(queue) = self.queues.get(&id) else { return Applied::Nothing };
        let keys: Vec<_> = queue.delayed.iter().map(|(key, _)| key).filter(|key| key.number < delayed_to).collect();
        let delayed = self.take_delayed(id, &keys).len() as u64;
        match self.floor(id, to) {
            Applied::Floored { queue, to, messages, .. } => {
                Applied::Floored { queue, to, delayed_to, messages: messages + delayed, skipped: Vec::new() }
            }
            other => other,
        }
    }

    pub(super) fn sought(&mut self, id: QueueId, group: GroupId, to: Seq) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        let Some(mut moving) = queue.groups.remove(&group) else { return Applied::Nothing };
        queue.begin_group(&mut moving, to);
        let floor = moving.floor;
        queue.groups.insert(group, moving);
        self.dirty.groups.insert((id, group));
        self.remove_settled_below(id, floor);
        Applied::Sought(id, group)
    }

    pub(super) fn settled_through(&mut self, id: QueueId, group: GroupId, through: Seq) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        let Some(settling) = queue.groups.get_mut(&group) else { return Applied::Nothing };
        settling.raise_floor(through.saturating_add(1).min(queue.next_seq));
        let floor = settling.floor;
        self.dirty.groups.insert((id, group));
        self.remove_settled_below(id, floor);
        Applied::SettledThrough(id, group)
    }

    /// Removes what all groups have settled below a floor that has just moved.
    fn remove_settled_below(&mut self, id: QueueId, floor: Seq) {
        let messages = &self.queues[&id].messages;
        let stored = std::iter::successors(messages.next_at(0), |seq| messages.next_at(seq + 1));
        let below: Vec<Seq> = stored.take_while(|seq| *seq < floor).collect();
        self.remove_settled(id, below.into_iter());
    }
}
