//! What a group may get, what it must get, and every rule that a delivery keeps.

use std::collections::BTreeSet;

use qwerq_core::dispatch::{Dispatch, GroupKey};
use qwerq_core::{Delivery, Millis, Seq};

use super::suspect::is_suspect;
use super::{Class, Group, Lease, Model, Queue};

/// What a delivery may take in a pull's answer beside payload and headers.
const FRAME_BYTES: u64 = 2_048;

impl Model {
    /// Why the group must not get `seq` at `now`.
    fn objection(&self, key: GroupKey, seq: Seq, now: Millis) -> Option<&'static str> {
        let queue = &self.queues[&key.queue];
        let group = &queue.groups[&key.group];
        let Some(stored) = queue.stored.get(&seq) else { return Some("is not stored") };
        if group.settled.contains(&seq) {
            return Some("is settled");
        }
        if group.acked.contains(&stored.copy) {
            return Some("is a message that the group has acknowledged");
        }
        if self.is_leased(key, seq) {
            return Some("is leased");
        }
        if stored.is_expired(now) {
            return Some("has expired");
        }
        if group.attempts.get(&seq).is_some_and(|attempt| attempt.not_before > now) {
            return Some("is backing off");
        }
        let mut earlier = queue.unsettled(group).take_while(|(earlier, _)| *earlier < seq);
        // An expired one that nobody holds is passed over.
        let blocks = |earlier: Seq, is_expired: bool| !is_expired || self.is_leased(key, earlier);
        if stored.key != 0 && earlier.any(|(earlier, other)| other.key == stored.key && blocks(earlier, other.is_expired(now))) {
            return Some("waits for an earlier one of its key");
        }
        if self.class(queue, group, seq) == Some(Class::Fresh) && queue.pauses(group, seq) {
            return Some("is beyond max_unsettled");
        }
        None
    }

    /// A message with a key may have waited for an earlier one, so it counts as neither until it was delivered.
    fn class(&self, queue: &Queue, group: &Group, seq: Seq) -> Option<Class> {
        if group.delivered.contains(&seq) || group.attempts.contains_key(&seq) {
            return Some(Class::Again);
        }
        (queue.stored[&seq].key == 0).then_some(Class::Fresh)
    }

    /// What the group must get as soon as a consumer has credit, in order.
    fn deliverable(&self, key: GroupKey, now: Millis) -> Vec<(Seq, Option<Class>)> {
        self.heads(key, now).into_iter().filter(|(.., suspect)| !suspect).map(|(seq, class, _)| (seq, class)).collect()
    }

    /// The same with suspects, which are marked.
    pub(super) fn heads(&self, key: GroupKey, now: Millis) -> Vec<(Seq, Option<Class>, bool)> {
        let queue = &self.queues[&key.queue];
        let group = &queue.groups[&key.group];
        let leased: BTreeSet<_> = self.leases.iter().filter(|lease| lease.group == key).map(|lease| lease.seq).collect();
        let paused = queue.is_paused(group);
        let last_settled = group.settled.last().copied();
        let (mut keys, mut found) = (BTreeSet::new(), Vec::new());
        for (seq, stored) in queue.unsettled(group) {
            // An expired head of a key may hold it until its end is durable.
            let is_head = stored.key == 0 || keys.insert(stored.key);
            let is_due = !group.waiting.contains(&seq) && !stored.is_expired(now);
            let class = self.class(queue, group, seq);
            let is_paused = paused && class != Some(Class::Again) && last_settled.is_none_or(|last| last < seq);
            if is_head && is_due && !is_paused && !leased.contains(&seq) {
                found.push((seq, class, is_suspect(queue, group, seq)));
            }
        }
        found
    }

    /// Holds a delivery against every rule, but only if `thorough` against what else could have been delivered; and takes note of it.
    /// `asked`: the consumer asked for what is there now, whoever else waits.
    pub(crate) fn delivered(&mut self, now: Millis, delivery: &Delivery, thorough: bool, asked: bool) {
        let Delivery { subscription: to, lease_id, queue, seq, attempt, skipped, lease_ms, at } = *delivery;
        let subscription = self.open(to).expect("a delivery goes to an open subscription");
        let key = subscription.group;
        assert_eq!(key.queue, queue, "a delivery comes from the subscription's queue");
        if let Some(objection) = self.objection(key, seq, now) {
            panic!("{seq} of {key:?} was delivered and {objection}");
        }
        let suspect = is_suspect(&self.queues[&queue], self.group(key).unwrap(), seq);
        self.check_consumer(now, delivery, suspect, thorough, asked);
        assert_eq!(Some(at), self.queues[&queue].stored.get(&seq).map(|stored| stored.at), "a delivery says since when {seq} is there");
        assert_eq!(lease_id.epoch, self.epoch, "a lease is of the current epoch");
        assert!(self.leases.iter().all(|lease| lease.id != lease_id), "a lease id is given once");
        let group = self.group(key).unwrap();
        let ended = group.attempts.get(&seq).map_or(0, |attempt| attempt.ended);
        assert_eq!(attempt, ended + 1, "the attempt of {seq} is one more than have ended");
        assert_eq!(skipped, group.skipped, "{key:?} is told how many messages went before it saw them");
        let class = self.class(&self.queues[&queue], group, seq);
        if thorough && !suspect && !group.blurred {
            self.check_turn(key, seq, class, now);
        }
        assert_eq!(lease_ms, subscription.visibility_timeout_ms, "a lease lasts as long as the subscription asked for");
        self.leases.push(Lease {
            id: lease_id,
            group: key,
            seq,
            owner: (!subscription.is_detached()).then_some(to.session),
            serial: subscription.serial,
            visibility_timeout_ms: lease_ms,
            deadline: now + lease_ms,
            attempt,
            size: self.queues[&queue].stored[&seq].size,
            settling: false,
            alone: suspect,
            acked: false,
        });
        let group = self.queues.get_mut(&queue).unwrap().groups.get_mut(&key.group).unwrap();
        group.delivered.insert(seq);
        if !suspect {
            group.last = class;
        }
        group.skipped = 0;
    }

    /// A delivery goes to a consumer with credit, and to the one that has the fewest; one may be kept for a suspect.
    fn check_consumer(&self, now: Millis, delivery: &Delivery, suspect: bool, thorough: bool, asked: bool) {
        let to = self.open(delivery.subscription).unwrap();
        let (mine, bytes) = self.held(to);
        assert!(self.may_take(to), "{:?} holds {mine}, and is beyond its bounds, silent or alone with a suspect", to.key);
        let size = self.queues[&delivery.queue].stored[&delivery.seq].size;
        let frame = bytes + u64::from(size) + u64::from(mine + 1) * FRAME_BYTES;
        assert!(to.pull.is_none() || mine == 0 || frame <= to.bounds.bytes, "the answer to {:?} takes {frame} bytes", to.key);
        if suspect {
            self.check_isolation(to.group, delivery.seq, to, now);
        } else if !asked {
            let kept = usize::from(!thorough || self.may_keep_one(to.group, now));
            let fewer = self.willing(to.group).filter(|other| self.held(other).0 < mine).count();
            assert!(fewer <= kept, "{:?} holds {mine}, others fewer", to.key);
        }
    }

    /// Redeliveries go in order, and alternate with fresh messages.
    fn check_turn(&self, key: GroupKey, seq: Seq, class: Option<Class>, now: Millis) {
        let deliverable = self.deliverable(key, now);
        if class == Some(Class::Again) {
            let earlier = deliverable.iter().find(|(other, class)| *class == Some(Class::Again) && *other < seq);
            assert_eq!(earlier, None, "redeliveries go in seq order: {seq} went first");
        }
        if let (Some(last), Some(class)) = (self.group(key).unwrap().last, class)
            && last == class
        {
            let other = deliverable.iter().find(|(_, other)| other.is_some_and(|other| other != class));
            assert_eq!(other, None, "fresh and redelivered messages alternate: {seq} was the second {class:?} one");
        }
    }

    /// What operators are told of each group.
    pub(crate) fn check_stats(&self, dispatch: &Dispatch) {
        for key in self.group_keys() {
            let stats = dispatch.group_stats(key);
            let group = self.group(key).unwrap();
            let in_flight = self.leases.iter().filter(|lease| lease.group == key).count();
            let expected = (
                u64::try_from(in_flight).unwrap(),
                u64::try_from(group.waiting.len()).unwrap(),
                u32::try_from(self.consumers(key)).unwrap(),
            );
            assert_eq!((stats.in_flight, stats.backing_off, stats.consumers), expected, "in flight, backing off, consumers of {key:?}");
        }
    }

    /// Nothing that a willing consumer could have stays behind.
    pub(crate) fn check_nothing_is_withheld(&self, now: Millis) {
        for key in self.group_keys() {
            let willing: Vec<_> = self.willing(key).map(|subscription| self.held(subscription).0).collect();
            if willing.is_empty() {
                continue;
            }
            let suspects = self.waiting_suspects(key, now);
            assert!(suspects == 0 || !willing.contains(&0), "{key:?} has an idle consumer, and a suspect waits");
            if willing.len() > usize::from(self.may_keep_one(key, now)) {
                assert_eq!(self.deliverable(key, now), [], "{key:?} has a consumer with credit, and these wait");
            }
        }
    }
}
