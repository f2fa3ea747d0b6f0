//! The rules of the broker, stated naively: plain lists and sets, each rule once, as slow as it likes.
//!
//! It knows nothing of floors, cursors, chunks or locks. The durable half changes only in [`Model::apply`]; the volatile half (leases,
//! subscriptions) is dropped by [`Model::crash`].

use std::collections::{BTreeMap, BTreeSet};

use qwerq_core::dispatch::{Bounds, GroupKey, Subscribe};
use qwerq_core::entry::{Applied, Body, Cause, Ended};
use qwerq_core::options::{Mode, OnFailure, OnFull};
use qwerq_core::{
    Admission, Delivery, Dispatch, GroupId, LeaseId, MessageId, Millis, NewMessage, Pending, Proposal, QueueId, QueueOptions, Rejection,
    Seq, SessionId, State, SubscriptionKey,
};

/// Everything that the broker has promised.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) clock: Millis,
    pub(crate) epoch: u64,
    pub(crate) queues: BTreeMap<QueueId, Queue>,
    next_queue: u32,
    next_group: u32,
    next_serial: u64,
    /// What applied entries removed, for whoever writes checkpoints.
    pub(crate) removed: Vec<(QueueId, Seq)>,
    pub(crate) dropped: Vec<QueueId>,
    /// In order of opening, closed ones included while their connection lasts.
    pub(crate) subscriptions: Vec<Subscription>,
    /// In order of granting.
    pub(crate) leases: Vec<Lease>,
    ended: Vec<SubscriptionKey>,
}

pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) options: QueueOptions,
    pub(crate) next_seq: Seq,
    pub(crate) stored: BTreeMap<Seq, Stored>,
    pub(crate) groups: BTreeMap<GroupId, Group>,
    /// Every idempotency key's last recording.
    keys: Vec<Remembered>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    size: u32,
    key: u64,
    at: Millis,
}

struct Remembered {
    key: String,
    id: MessageId,
    seq: Seq,
    until: Millis,
}

#[derive(Default)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// Each one, also those before the group was.
    settled: BTreeSet<Seq>,
    attempts: BTreeMap<Seq, Attempt>,
    /// Delivered in this epoch.
    delivered: BTreeSet<Seq>,
    /// Those with attempts that dispatch wakes up for, as their time has not come yet.
    waiting: BTreeSet<Seq>,
    last: Option<Class>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Attempt {
    ended: u32,
    not_before: Millis,
    suspect: bool,
}

/// Which of the two kinds that alternate a delivery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Fresh,
    Again,
}

pub(crate) struct Subscription {
    pub(crate) key: SubscriptionKey,
    /// Tells this one from a later one of the same number.
    serial: u64,
    pub(crate) group: GroupKey,
    pub(crate) bounds: Bounds,
    concurrency: u32,
    visibility_timeout_ms: u64,
    pub(crate) open: bool,
    silent: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Lease {
    pub(crate) id: LeaseId,
    pub(crate) group: GroupKey,
    pub(crate) seq: Seq,
    pub(crate) session: SessionId,
    serial: u64,
    visibility_timeout_ms: u64,
    deadline: Millis,
    attempt: u32,
    size: u32,
    /// A suspect: nothing else goes to its consumer.
    alone: bool,
    /// Its end is proposed and not durable yet.
    pub(crate) settling: bool,
}

/// A message that was admitted and is not durable yet.
pub(crate) struct PendingItem {
    pub(crate) queue: QueueId,
    pub(crate) size: u32,
    pub(crate) idempotency_key: String,
    pub(crate) id: MessageId,
}

/// A proposal whose time may be chosen by the broker within bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    proposal: Proposal,
    not_before_latest: Millis,
}

impl Expected {
    /// Whether `given` is what the rules ask for.
    pub(crate) fn accepts(&self, given: &Proposal) -> bool {
        match (&self.proposal, given) {
            (Proposal::AttemptEnded { group, ended }, Proposal::AttemptEnded { group: given_group, ended: given }) => {
                (group, ended.seq, ended.attempts, ended.cause) == (given_group, given.seq, given.attempts, given.cause)
                    && (ended.not_before..=self.not_before_latest).contains(&given.not_before)
            }
            (expected, given) => *expected == *given,
        }
    }
}

impl Queue {
    fn unsettled<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = (Seq, Stored)> + 'a {
        self.stored.iter().filter(|(seq, _)| !group.settled.contains(seq)).map(|(seq, stored)| (*seq, *stored))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.stored.values().map(|stored| u64::from(stored.size)).sum()
    }

    fn is_settled_by_all(&self, seq: Seq) -> bool {
        !self.groups.is_empty() && self.groups.values().all(|group| group.settled.contains(&seq))
    }

    /// Intervals of settled messages above the lowest unsettled one.
    fn settled_intervals(&self, group: &Group) -> u64 {
        let floor = (0..self.next_seq).find(|seq| !group.settled.contains(seq)).unwrap_or(self.next_seq);
        let starts = (floor + 1..self.next_seq).filter(|seq| group.settled.contains(seq) && !group.settled.contains(&(seq - 1)));
        u64::try_from(starts.count()).unwrap()
    }

    /// Beyond `max_unsettled` intervals nothing new begins; what lies between settled messages must go on, or the group were stuck.
    fn pauses(&self, group: &Group, seq: Seq) -> bool {
        group.settled.last().is_none_or(|last| *last < seq) && self.is_paused(group)
    }

    fn is_paused(&self, group: &Group) -> bool {
        // Of n positions at most half can be intervals; counting them is slow.
        self.options.max_unsettled <= self.next_seq / 2 && self.settled_intervals(group) >= self.options.max_unsettled
    }
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

    /// The publish rules: limits and idempotency keys, counting what is pending; a duplicate is told of before any limit.
    pub(crate) fn admit(
        &self,
        id: QueueId,
        pending: &[PendingItem],
        now: Millis,
        message: &NewMessage<'_>,
    ) -> Result<Admission, Rejection> {
        let queue = &self.queues[&id];
        let pending: Vec<_> = pending.iter().filter(|item| item.queue == id).collect();
        let (name, options) = (queue.name.clone(), &queue.options);
        if message.size > u64::from(options.max_message_bytes) {
            return Err(Rejection::MessageTooLarge { queue: name, size: message.size, max: options.max_message_bytes });
        }
        if !message.idempotency_key.is_empty() {
            let live = || queue.keys.iter().filter(|known| known.until > now);
            if let Some(first) = live().find(|known| known.key == message.idempotency_key) {
                return Ok(Admission::Duplicate { id: first.id, seq: first.seq });
            }
            if let Some(first) = pending.iter().find(|item| item.idempotency_key == message.idempotency_key) {
                return Ok(Admission::DuplicateOfPending { id: first.id });
            }
            let keyed = pending.iter().filter(|item| !item.idempotency_key.is_empty()).count();
            if u64::try_from(live().count() + keyed).unwrap() >= options.dedup_max_keys {
                return Err(Rejection::DedupFull { queue: name, max: options.dedup_max_keys });
            }
        }
        if options.on_full == OnFull::Reject {
            let holder = queue.groups.values().filter_map(|group| Some((queue.unsettled(group).next()?.0, &group.name)));
            let holder = holder.min_by_key(|(oldest, _)| *oldest).map(|(_, name)| name.clone());
            let messages = u64::try_from(queue.stored.len() + pending.len()).unwrap();
            let bytes = queue.bytes() + pending.iter().map(|item| u64::from(item.size)).sum::<u64>() + message.size;
            for (limit, value, is_hit) in [
                ("max_messages", options.max_messages, messages >= options.max_messages),
                ("max_bytes", options.max_bytes, bytes > options.max_bytes),
            ] {
                if value != 0 && is_hit {
                    return Err(Rejection::QueueFull { queue: name, limit, value, holder });
                }
            }
        }
        Ok(Admission::New)
    }

    /// What a durable entry does, of which dispatch is told at `now`. An entry for what was deleted before it changes nothing; a name that exists already stays as it is.
    pub(crate) fn apply(&mut self, entry_now: Millis, now: Millis, body: &Body) -> Applied {
        self.clock = self.clock.max(entry_now);
        match body {
            Body::Epoch { epoch } => {
                self.epoch = *epoch;
                Applied::Nothing
            }
            Body::Publish(publish) => {
                let Some(queue) = self.queues.get_mut(&publish.queue) else { return Applied::Nothing };
                let first = queue.next_seq;
                for item in &publish.items {
                    let seq = queue.next_seq;
                    queue.next_seq += 1;
                    queue.stored.insert(seq, Stored { size: item.size, key: item.key, at: self.clock });
                    if let Some((key, id)) = item.dedup.as_deref() {
                        queue.keys.retain(|known| known.key != *key);
                        let until = self.clock + queue.options.dedup_window_ms;
                        queue.keys.push(Remembered { key: key.clone(), id: *id, seq, until });
                    }
                }
                Applied::Published { queue: publish.queue, first, count: u32::try_from(publish.items.len()).unwrap() }
            }
            Body::Settle(settle) => {
                let Some(queue) = self.queues.get_mut(&settle.queue) else { return Applied::Nothing };
                let Some(group) = queue.groups.get_mut(&settle.group) else { return Applied::Nothing };
                for seq in &settle.seqs {
                    group.settled.insert(*seq);
                    group.attempts.remove(seq);
                    group.waiting.remove(seq);
                }
                let key = GroupKey { queue: settle.queue, group: settle.group };
                self.leases.retain(|lease| lease.group != key || !settle.seqs.contains(&lease.seq));
                self.remove_settled(settle.queue, settle.seqs.clone());
                Applied::Settled(settle.clone())
            }
            Body::AttemptEnded(attempt) => {
                let key = GroupKey { queue: attempt.queue, group: attempt.group };
                let Some(queue) = self.queues.get_mut(&attempt.queue) else { return Applied::Nothing };
                let Some(group) = queue.groups.get_mut(&attempt.group) else { return Applied::Nothing };
                for ended in &attempt.ended {
                    self.leases.retain(|lease| (lease.group, lease.seq) != (key, ended.seq));
                    if !group.settled.contains(&ended.seq) {
                        let suspect = ended.cause != Cause::Nack || group.attempts.get(&ended.seq).is_some_and(|before| before.suspect);
                        group.attempts.insert(ended.seq, Attempt { ended: ended.attempts, not_before: ended.not_before, suspect });
                        if ended.not_before > now {
                            group.waiting.insert(ended.seq);
                        }
                    }
                }
                Applied::AttemptEnded(attempt.clone())
            }
            Body::Floor { queue: id, to } => {
                let Some(queue) = self.queues.get_mut(id) else { return Applied::Nothing };
                let to = (*to).min(queue.next_seq);
                for group in queue.groups.values_mut() {
                    group.settled.extend(0..to);
                    group.attempts.retain(|seq, _| *seq >= to);
                    group.waiting.retain(|seq| *seq >= to);
                }
                let gone: Vec<_> = queue.stored.keys().filter(|seq| **seq < to).copied().collect();
                for seq in &gone {
                    queue.stored.remove(seq);
                    self.removed.push((*id, *seq));
                }
                self.leases.retain(|lease| lease.group.queue != *id || lease.seq >= to);
                Applied::Floored { queue: *id, to, messages: u64::try_from(gone.len()).unwrap() }
            }
            Body::QueueCreated { queue, name, options } => {
                if let Some((existing, _)) = self.queues.iter().find(|(_, queue)| queue.name == *name) {
                    return Applied::Queue(*existing);
                }
                let id = QueueId(queue.0.max(self.next_queue));
                self.next_queue = id.0 + 1;
                let (name, options) = (name.clone(), options.clone());
                self.queues
                    .insert(id, Queue { name, options, next_seq: 0, stored: BTreeMap::new(), groups: BTreeMap::new(), keys: Vec::new() });
                Applied::Queue(id)
            }
            Body::QueueUpdated { queue: id, options } => {
                let Some(queue) = self.queues.get_mut(id) else { return Applied::Nothing };
                queue.options = options.clone();
                Applied::Queue(*id)
            }
            Body::QueueDeleted { queue: id } => {
                let Some(queue) = self.queues.remove(id) else { return Applied::Nothing };
                for group in queue.groups.keys() {
                    self.end_group(GroupKey { queue: *id, group: *group });
                }
                self.dropped.push(*id);
                Applied::Queue(*id)
            }
            Body::GroupCreated { queue: id, group, name, floor } => {
                let Some(queue) = self.queues.get_mut(id) else { return Applied::Nothing };
                if let Some((existing, _)) = queue.groups.iter().find(|(_, group)| group.name == *name) {
                    return Applied::Group(*id, *existing);
                }
                let group = GroupId(group.0.max(self.next_group));
                self.next_group = group.0 + 1;
                let settled = (0..queue.next_seq).filter(|seq| seq < floor || !queue.stored.contains_key(seq)).collect();
                queue.groups.insert(group, Group { name: name.clone(), settled, ..Group::default() });
                Applied::Group(*id, group)
            }
            Body::GroupDeleted { queue: id, group } => {
                let Some(queue) = self.queues.get_mut(id) else { return Applied::Nothing };
                if queue.groups.remove(group).is_none() {
                    return Applied::Nothing;
                }
                let stored = queue.stored.keys().copied().collect();
                self.remove_settled(*id, stored);
                self.end_group(GroupKey { queue: *id, group: *group });
                Applied::Group(*id, *group)
            }
            Body::SchemaFile { .. } | Body::SchemaVersion { .. } | Body::SchemaActive { .. } => {
                unreachable!("the simulation has no contracts")
            }
        }
    }

    fn remove_settled(&mut self, id: QueueId, seqs: Vec<Seq>) {
        let queue = self.queues.get_mut(&id).unwrap();
        for seq in seqs {
            if queue.options.mode == Mode::Queue && queue.is_settled_by_all(seq) && queue.stored.remove(&seq).is_some() {
                self.removed.push((id, seq));
            }
        }
    }

    fn end_group(&mut self, key: GroupKey) {
        self.leases.retain(|lease| lease.group != key);
        self.ended.extend(self.subscriptions.iter().filter(|subscription| subscription.open && subscription.group == key).map(|s| s.key));
        self.subscriptions.retain(|subscription| subscription.group != key);
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
        for group in self.queues.values_mut().flat_map(|queue| queue.groups.values_mut()) {
            group.delivered.clear();
            group.waiting = group.attempts.keys().copied().collect();
            group.last = None;
        }
    }

    pub(crate) fn open(&self, key: SubscriptionKey) -> Option<&Subscription> {
        self.subscriptions.iter().find(|subscription| subscription.key == key && subscription.open)
    }

    fn open_mut(&mut self, key: SubscriptionKey) -> Option<&mut Subscription> {
        self.subscriptions.iter_mut().find(|subscription| subscription.key == key && subscription.open)
    }

    pub(crate) fn subscribe(&mut self, key: SubscriptionKey, subscribe: &Subscribe) -> Result<(), Rejection> {
        if self.open(key).is_some() {
            return Err(Rejection::SubscriptionExists { number: key.number });
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        let Subscribe { group, bounds, concurrency, visibility_timeout_ms } = *subscribe;
        self.subscriptions.push(Subscription { key, serial, group, bounds, concurrency, visibility_timeout_ms, open: true, silent: false });
        Ok(())
    }

    pub(crate) fn credit(&mut self, key: SubscriptionKey, bounds: Bounds) -> bool {
        self.open_mut(key).map(|subscription| subscription.bounds = bounds).is_some()
    }

    /// Releases what the subscription holds, or lets it run on.
    pub(crate) fn unsubscribe(&mut self, key: SubscriptionKey, keep_leases: bool) -> bool {
        let Some(subscription) = self.open_mut(key) else { return false };
        subscription.open = false;
        let serial = subscription.serial;
        if !keep_leases {
            self.leases.retain(|lease| lease.serial != serial || lease.settling);
        }
        true
    }

    /// Ends every lease of the connection; the oldest `concurrency` of each subscription count, unless it said goodbye.
    pub(crate) fn disconnect(&mut self, now: Millis, session: SessionId, graceful: bool) -> Vec<Expected> {
        let mut expected = Vec::new();
        let gone: Vec<_> = self
            .subscriptions
            .iter()
            .filter(|subscription| subscription.key.session == session)
            .map(|s| (s.serial, s.concurrency))
            .collect();
        for (serial, concurrency) in gone {
            let held: Vec<_> = self.leases.iter().filter(|lease| lease.serial == serial && !lease.settling).map(|lease| lease.id).collect();
            for (nth, id) in (0_u32..).zip(held) {
                if nth < concurrency && !graceful {
                    expected.push(self.end_attempt(id, Cause::Disconnected, now..=now));
                } else {
                    self.leases.retain(|lease| lease.id != id);
                }
            }
        }
        self.subscriptions.retain(|subscription| subscription.key.session != session);
        expected
    }

    pub(crate) fn heard(&mut self, session: SessionId) {
        for subscription in self.subscriptions.iter_mut().filter(|subscription| subscription.key.session == session) {
            subscription.silent = false;
        }
    }

    /// Leases whose time has come end and count; their subscriptions get nothing more until they are heard.
    pub(crate) fn tick(&mut self, now: Millis) -> Vec<Expected> {
        for group in self.queues.values_mut().flat_map(|queue| queue.groups.values_mut()) {
            group.waiting.retain(|seq| group.attempts[seq].not_before > now);
        }
        let due: Vec<_> = self.leases.iter().filter(|lease| !lease.settling && lease.deadline <= now).cloned().collect();
        for lease in &due {
            for subscription in self.subscriptions.iter_mut().filter(|subscription| subscription.serial == lease.serial) {
                subscription.silent = true;
            }
        }
        due.iter().map(|lease| self.end_attempt(lease.id, Cause::Expired, now..=now)).collect()
    }

    /// When dispatch must look again at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        let leases = self.leases.iter().filter(|lease| !lease.settling).map(|lease| lease.deadline);
        let groups = self.queues.values().flat_map(|queue| queue.groups.values());
        leases.chain(groups.flat_map(|group| group.waiting.iter().map(|seq| group.attempts[seq].not_before))).min()
    }

    fn end_attempt(&mut self, id: LeaseId, cause: Cause, not_before: std::ops::RangeInclusive<Millis>) -> Expected {
        let lease = self.leases.iter_mut().find(|lease| lease.id == id).unwrap();
        lease.settling = true;
        let options = &self.queues[&lease.group.queue].options;
        let proposal = if lease.attempt >= options.max_deliveries && options.on_failure == OnFailure::Drop {
            Proposal::Settle { group: lease.group, seq: lease.seq }
        } else {
            let ended = Ended { seq: lease.seq, attempts: lease.attempt, cause, not_before: *not_before.start() };
            Proposal::AttemptEnded { group: lease.group, ended }
        };
        Expected { proposal, not_before_latest: *not_before.end() }
    }

    /// A lease settles only while it runs, once, for the connection that got it.
    fn in_force(&mut self, session: SessionId, id: LeaseId) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|lease| lease.id == id && lease.session == session && !lease.settling)
    }

    pub(crate) fn ack(&mut self, session: SessionId, id: LeaseId) -> Option<Expected> {
        let lease = self.in_force(session, id)?;
        lease.settling = true;
        let proposal = Proposal::Settle { group: lease.group, seq: lease.seq };
        Some(Expected { proposal, not_before_latest: 0 })
    }

    pub(crate) fn nack(&mut self, now: Millis, session: SessionId, id: LeaseId, delay_ms: Option<u64>) -> Option<Expected> {
        let lease = self.in_force(session, id)?.clone();
        let options = &self.queues[&lease.group.queue].options;
        let (least, most) = match delay_ms {
            Some(delay) => (delay, delay),
            None => {
                // The first delay, doubled with each attempt up to the maximum, less at most a quarter.
                let cap = options.retry_backoff_max_ms.max(options.retry_backoff_first_ms);
                let full = (1..lease.attempt).fold(options.retry_backoff_first_ms, |delay, _| (delay * 2).min(cap));
                (full - full / 4, full)
            }
        };
        Some(self.end_attempt(id, Cause::Nack, now + least..=now + most))
    }

    pub(crate) fn release(&mut self, session: SessionId, id: LeaseId) -> bool {
        let found = self.in_force(session, id).is_some();
        if found {
            self.leases.retain(|lease| lease.id != id);
        }
        found
    }

    pub(crate) fn extend(&mut self, now: Millis, session: SessionId, id: LeaseId, visibility_timeout_ms: u64) -> bool {
        let Some(lease) = self.in_force(session, id) else { return false };
        lease.deadline = now + if visibility_timeout_ms == 0 { lease.visibility_timeout_ms } else { visibility_timeout_ms };
        true
    }

    fn held(&self, subscription: &Subscription) -> (u32, u64) {
        let held = || self.leases.iter().filter(|lease| lease.serial == subscription.serial);
        (u32::try_from(held().count()).unwrap(), held().map(|lease| u64::from(lease.size)).sum())
    }

    /// Consumers of the group that take a message now.
    fn willing(&self, key: GroupKey) -> impl Iterator<Item = &Subscription> {
        self.subscriptions.iter().filter(move |subscription| {
            let (messages, bytes) = self.held(subscription);
            subscription.group == key
                && subscription.open
                && !subscription.silent
                && !self.leases.iter().any(|lease| lease.serial == subscription.serial && lease.alone)
                && messages < subscription.bounds.messages
                && bytes < subscription.bounds.bytes
        })
    }

    /// Why the group must not get `seq` at `now`.
    fn objection(&self, key: GroupKey, seq: Seq, now: Millis) -> Option<&'static str> {
        let queue = &self.queues[&key.queue];
        let group = &queue.groups[&key.group];
        let Some(stored) = queue.stored.get(&seq) else { return Some("is not stored") };
        if group.settled.contains(&seq) {
            return Some("is settled");
        }
        if self.leases.iter().any(|lease| lease.group == key && lease.seq == seq) {
            return Some("is leased");
        }
        if group.attempts.get(&seq).is_some_and(|attempt| attempt.not_before > now) {
            return Some("is backing off");
        }
        if stored.key != 0 && queue.unsettled(group).take_while(|(earlier, _)| *earlier < seq).any(|(_, other)| other.key == stored.key) {
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

    /// Whether a message's next delivery is its last one before failure handling, and one before it took its consumer along.
    fn is_suspect(queue: &Queue, group: &Group, seq: Seq) -> bool {
        queue.options.on_failure != OnFailure::RetryForever
            && group.attempts.get(&seq).is_some_and(|attempt| attempt.suspect && attempt.ended + 1 >= queue.options.max_deliveries)
    }

    /// Whether the last delivery was a suspect's, and the only one to its consumer.
    pub(crate) fn last_is_isolated(&self) -> (bool, bool) {
        let last = self.leases.last().expect("a delivery has just been noted");
        (last.alone, self.leases.iter().filter(|lease| lease.serial == last.serial).count() == 1)
    }

    fn isolates(&self, key: GroupKey) -> bool {
        self.leases.iter().any(|lease| lease.group == key && lease.alone)
    }

    /// Suspects that wait to be delivered alone.
    fn waiting_suspects(&self, key: GroupKey) -> usize {
        if self.isolates(key) { 0 } else { self.heads(key).iter().filter(|(_, _, suspect)| *suspect).count() }
    }

    /// What the group must get as soon as a consumer has credit, in order.
    fn deliverable(&self, key: GroupKey) -> Vec<(Seq, Option<Class>)> {
        self.heads(key).into_iter().filter(|(.., suspect)| !suspect).map(|(seq, class, _)| (seq, class)).collect()
    }

    /// The same with suspects, which are marked.
    fn heads(&self, key: GroupKey) -> Vec<(Seq, Option<Class>, bool)> {
        let queue = &self.queues[&key.queue];
        let group = &queue.groups[&key.group];
        let leased: BTreeSet<_> = self.leases.iter().filter(|lease| lease.group == key).map(|lease| lease.seq).collect();
        let paused = queue.is_paused(group);
        let last_settled = group.settled.last().copied();
        let (mut keys, mut found) = (BTreeSet::new(), Vec::new());
        for (seq, stored) in queue.unsettled(group) {
            let is_head = stored.key == 0 || keys.insert(stored.key);
            let is_due = !group.waiting.contains(&seq);
            let class = self.class(queue, group, seq);
            let is_paused = paused && class != Some(Class::Again) && last_settled.is_none_or(|last| last < seq);
            if is_head && is_due && !is_paused && !leased.contains(&seq) {
                found.push((seq, class, Model::is_suspect(queue, group, seq)));
            }
        }
        found
    }

    /// Holds a delivery against every rule, but only if `thorough` against what else could have been delivered; and takes note of it.
    pub(crate) fn delivered(&mut self, now: Millis, delivery: &Delivery, thorough: bool) {
        let Delivery { subscription: to, lease_id, queue, seq, attempt, lease_ms } = *delivery;
        let subscription = self.open(to).expect("a delivery goes to an open subscription");
        let key = subscription.group;
        assert_eq!(key.queue, queue, "a delivery comes from the subscription's queue");
        let mine = self.held(subscription);
        let willing: Vec<_> = self.willing(key).map(|other| (self.held(other).0, other.key)).collect();
        assert!(willing.iter().any(|(_, key)| *key == to), "{to:?} holds {mine:?} and is beyond its bounds or silent");
        let suspect = Model::is_suspect(&self.queues[&queue], self.group(key).unwrap(), seq);
        if suspect {
            assert!(!self.isolates(key), "{key:?} isolates one suspect at a time, and {seq} is the second");
            let not_before = self.group(key).unwrap().attempts[&seq].not_before;
            let patience = self.subscriptions.iter().filter(|s| s.open && s.group == key).map(|s| s.visibility_timeout_ms).min();
            assert!(
                mine.0 == 0 || now >= not_before + patience.unwrap(),
                "the suspect {seq} went to {to:?}, which holds {mine:?}, too early"
            );
        } else {
            // One consumer may be kept for a suspect.
            let kept = if thorough { usize::from(self.waiting_suspects(key) > 0) } else { 1 };
            let fewer = willing.iter().filter(|(held, _)| *held < mine.0).count();
            assert!(fewer <= kept, "{to:?} holds {mine:?}, another one fewer: {willing:?}");
        }
        if let Some(objection) = self.objection(key, seq, now) {
            panic!("{seq} of {key:?} was delivered and {objection}");
        }
        assert_eq!(lease_id.epoch, self.epoch, "a lease is of the current epoch");
        assert!(self.leases.iter().all(|lease| lease.id != lease_id), "a lease id is given once");
        let group = self.group(key).unwrap();
        let ended = group.attempts.get(&seq).map_or(0, |attempt| attempt.ended);
        assert_eq!(attempt, ended + 1, "the attempt of {seq} is one more than have ended");
        let class = self.class(&self.queues[&queue], group, seq);
        let deliverable = if thorough { self.deliverable(key) } else { Vec::new() };
        if class == Some(Class::Again) && !suspect {
            let earlier = deliverable.iter().find(|(other, class)| *class == Some(Class::Again) && *other < seq);
            assert_eq!(earlier, None, "redeliveries go in seq order: {seq} went first");
        }
        if let (Some(last), Some(class)) = (group.last, class)
            && last == class
            && !suspect
        {
            let other = deliverable.iter().find(|(_, other)| other.is_some_and(|other| other != class));
            assert_eq!(other, None, "fresh and redelivered messages alternate: {seq} was the second {class:?} one");
        }
        let size = self.queues[&queue].stored[&seq].size;
        assert_eq!(lease_ms, subscription.visibility_timeout_ms, "a lease lasts as long as the subscription asked for");
        let (serial, deadline) = (subscription.serial, now + lease_ms);
        let (session, visibility_timeout_ms) = (to.session, lease_ms);
        self.leases.push(Lease {
            id: lease_id,
            group: key,
            seq,
            session,
            serial,
            visibility_timeout_ms,
            deadline,
            attempt,
            size,
            alone: suspect,
            settling: false,
        });
        let group = self.queues.get_mut(&queue).unwrap().groups.get_mut(&key.group).unwrap();
        group.delivered.insert(seq);
        if !suspect {
            group.last = class;
        }
    }

    /// What operators are told of each group.
    pub(crate) fn check_stats(&self, dispatch: &Dispatch) {
        for key in self.group_keys() {
            let stats = dispatch.group_stats(key);
            let group = self.group(key).unwrap();
            let in_flight = self.leases.iter().filter(|lease| lease.group == key).count();
            let consumers = self.subscriptions.iter().filter(|subscription| subscription.open && subscription.group == key).count();
            let expected =
                (u64::try_from(in_flight).unwrap(), u64::try_from(group.waiting.len()).unwrap(), u32::try_from(consumers).unwrap());
            assert_eq!((stats.in_flight, stats.backing_off, stats.consumers), expected, "in flight, backing off, consumers of {key:?}");
        }
    }

    /// Nothing that a willing consumer could have stays behind.
    pub(crate) fn check_nothing_is_withheld(&self) {
        for key in self.group_keys() {
            let willing: Vec<_> = self.willing(key).map(|subscription| self.held(subscription).0).collect();
            if willing.is_empty() {
                continue;
            }
            let suspects = self.waiting_suspects(key);
            assert!(suspects == 0 || !willing.contains(&0), "{key:?} has an idle consumer, and a suspect waits");
            if willing.len() > usize::from(suspects > 0) {
                assert_eq!(self.deliverable(key), [], "{key:?} has a consumer with credit, and these wait");
            }
        }
    }

    /// The durable half of the broker says the same as the model.
    pub(crate) fn check_state(&self, state: &State) {
        assert_eq!((state.clock(), state.epoch()), (self.clock, self.epoch), "clock and epoch");
        let names: Vec<_> = state.queues().map(|queue| (queue.id, queue.name.to_string())).collect();
        let mut expected: Vec<_> = self.queues.iter().map(|(id, queue)| (*id, queue.name.clone())).collect();
        expected.sort_by(|a, b| a.1.cmp(&b.1));
        assert_eq!(names, expected, "queues");
        for (id, expected) in &self.queues {
            let (name, queue) = (&expected.name, state.queue(*id).unwrap());
            assert_eq!(queue.options, expected.options, "options of {name}");
            assert_eq!(queue.next_seq(), expected.next_seq, "next_seq of {name}");
            let messages = queue.messages();
            assert_eq!((messages.count(), messages.bytes()), (u64::try_from(expected.stored.len()).unwrap(), expected.bytes()), "{name}");
            let listed: Vec<_> = std::iter::successors(messages.next_at(0), |seq| messages.next_at(seq + 1)).collect();
            assert_eq!(listed, expected.stored.keys().copied().collect::<Vec<_>>(), "stored messages of {name}");
            for (seq, stored) in &expected.stored {
                let facts = messages.get(*seq).unwrap();
                assert_eq!(Stored { size: facts.size, key: facts.key, at: facts.at }, *stored, "{name} {seq}");
                // Looked up by time: the first one of its time.
                let first = expected.stored.iter().find(|(_, other)| other.at >= stored.at).map(|(seq, _)| *seq);
                if seq % 61 == 0 {
                    assert_eq!(messages.first_since(stored.at), first, "{name} since {}", stored.at);
                }
            }
            assert_eq!(queue.groups().keys().collect::<Vec<_>>(), expected.groups.keys().collect::<Vec<_>>(), "groups of {name}");
            for (group_id, expected_group) in &expected.groups {
                let group = &queue.groups()[group_id];
                let name = format!("{name}/{}", expected_group.name);
                assert_eq!(group.name, expected_group.name);
                for seq in 0..expected.next_seq {
                    assert_eq!(group.is_settled(seq), expected_group.settled.contains(&seq), "whether {name} settled {seq}");
                }
                let floor = (0..expected.next_seq).find(|seq| !expected_group.settled.contains(seq)).unwrap_or(expected.next_seq);
                assert_eq!(group.ack_floor(), floor, "floor of {name}");
                assert_eq!(
                    u64::try_from(group.settled_intervals()).unwrap(),
                    expected.settled_intervals(expected_group),
                    "intervals of {name}"
                );
                assert_eq!(queue.lag(group), u64::try_from(expected.unsettled(expected_group).count()).unwrap(), "lag of {name}");
                let attempts: Vec<_> = group.attempts().iter().map(|(seq, a)| (*seq, a.ended, a.not_before, a.suspect)).collect();
                let known = expected_group.attempts.iter().map(|(seq, a)| (*seq, a.ended, a.not_before, a.suspect));
                assert_eq!(attempts, known.collect::<Vec<_>>(), "attempts of {name}");
            }
            self.check_dedup(*id, state);
        }
    }

    /// Every key ever recorded gets the same answer, now, at its end and just before.
    fn check_dedup(&self, id: QueueId, state: &State) {
        let expected = &self.queues[&id];
        for key in &expected.keys {
            for now in [self.clock, key.until.max(self.clock + 1) - 1, key.until.max(self.clock)] {
                let message = NewMessage { size: 0, idempotency_key: &key.key };
                let given = state.queue(id).unwrap().admit(&Pending::default(), now, &message);
                assert_eq!(given, self.admit(id, &[], now, &message), "idempotency key {} of {} at {now}", key.key, expected.name);
            }
        }
    }
}
