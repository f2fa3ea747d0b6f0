//! The volatile machine: subscriptions, credit, leases, key locks, timers. It belongs to whoever leads and is rebuilt from [`State`].
//!
//! It checks a lease, then proposes lease-free changes ([`Proposal`]); the lease is held as *settling* until [`Dispatch::applied`] says
//! that the change is durable. A restart or failover ends all leases without counting an attempt. It never sees a socket: a delivery
//! names a subscription, and the shell knows whose it is. Read on in `lease.rs`, `group_run.rs` and `isolation.rs`; `pull.rs` and
//! `reader.rs` are the two other ways to get messages.

mod group_run;
mod isolation;
mod lease;
mod pull;
mod reader;
mod subscription;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use crate::entry::{Applied, AttemptEnded, Cause, Ended, Settle};
use crate::ids::{GroupId, Millis, QueueId, Seq, SessionId, SubscriptionKey};
use crate::options::OnFailure;
use crate::rejection::Rejection;
use crate::state::State;

use group_run::GroupRun;
use lease::Lease;
pub use lease::LeaseId;
use reader::Readers;
pub use reader::Reading;
use subscription::Subscription;
pub use subscription::{Bounds, Subscribe};

/// A group of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// The queue.
    pub queue: QueueId,
    /// The group.
    pub group: GroupId,
}

/// A message that goes to a consumer now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// To whom.
    pub subscription: SubscriptionKey,
    /// What an ack must present.
    pub lease_id: LeaseId,
    /// From which queue.
    pub queue: QueueId,
    /// Which message.
    pub seq: Seq,
    /// 1 for the first delivery.
    pub attempt: u32,
    /// How long the lease lasts, in milliseconds.
    pub lease_ms: u64,
}

/// A durable change that dispatch wants; the shell makes entries of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proposal {
    /// The group is done with the message.
    Settle {
        /// Whose.
        group: GroupKey,
        /// Which.
        seq: Seq,
    },
    /// A delivery ended and counts.
    AttemptEnded {
        /// Whose.
        group: GroupKey,
        /// Which, and how.
        ended: Ended,
    },
}

/// What a group is doing, for operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Leased messages.
    pub in_flight: u64,
    /// Messages that wait for their retry.
    pub backing_off: u64,
    /// Open subscriptions and waiting pulls.
    pub consumers: u32,
    /// Ordering keys whose next message waits for the one before it.
    pub blocked_keys: u64,
}

/// Leases and credit of one shard.
#[derive(Debug)]
pub struct Dispatch {
    epoch: u64,
    secret: u64,
    next_lease: u64,
    groups: FxHashMap<GroupKey, GroupRun>,
    subscriptions: BTreeMap<SubscriptionKey, Subscription>,
    /// Closed subscriptions whose leases run on, with their oldest lease's counter: the number may be in use again.
    closed: BTreeMap<(SubscriptionKey, u64), Subscription>,
    leases: FxHashMap<u64, Lease>,
    /// Leases that can expire, by deadline.
    deadlines: BTreeSet<(Millis, u64)>,
    /// Retries that are not due yet.
    retries: BTreeSet<(Millis, GroupKey, Seq)>,
    /// When suspects go out although their consumer is not idle.
    isolations: BTreeSet<(Millis, GroupKey)>,
    /// Groups that may have something to deliver.
    runnable: VecDeque<GroupKey>,
    /// Subscriptions with an expired lease, which get nothing until their connection shows a sign of life.
    silent: BTreeSet<SubscriptionKey>,
    ended: Vec<SubscriptionKey>,
    readers: Readers,
}

impl Dispatch {
    /// A dispatch without leases over what is durable. `secret` makes lease ids unguessable.
    #[must_use]
    pub fn new(state: &State, secret: u64) -> Dispatch {
        let mut dispatch = Dispatch {
            epoch: state.epoch(),
            secret,
            next_lease: 1,
            groups: FxHashMap::default(),
            subscriptions: BTreeMap::new(),
            closed: BTreeMap::new(),
            leases: FxHashMap::default(),
            deadlines: BTreeSet::new(),
            retries: BTreeSet::new(),
            isolations: BTreeSet::new(),
            runnable: VecDeque::new(),
            silent: BTreeSet::new(),
            ended: Vec::new(),
            readers: Readers::default(),
        };
        for queue in state.queues() {
            for group in queue.groups().keys() {
                dispatch.add_group(state, GroupKey { queue: queue.id, group: *group });
            }
        }
        dispatch
    }

    fn add_group(&mut self, state: &State, key: GroupKey) {
        let queue = state.queue(key.queue).expect("the group's queue exists");
        let group = &queue.groups()[&key.group];
        let mut run = GroupRun::new(group.ack_floor());
        for (seq, attempt) in group.attempts() {
            if let Some(facts) = queue.messages().get(*seq) {
                run.lock_key(facts.key, *seq);
            }
            run.backing_off += 1;
            self.retries.insert((attempt.not_before, key, *seq));
        }
        self.groups.insert(key, run);
    }

    /// Opens a subscription on an existing group.
    ///
    /// # Errors
    /// [`Rejection::SubscriptionExists`].
    pub fn subscribe(&mut self, key: SubscriptionKey, subscribe: &Subscribe) -> Result<(), Rejection> {
        if self.has_subscription(key) {
            return Err(Rejection::SubscriptionExists { number: key.number });
        }
        self.open(key, Subscription::new(subscribe));
        Ok(())
    }

    fn open(&mut self, key: SubscriptionKey, subscription: Subscription) {
        let group = subscription.group;
        let run = self.groups.get_mut(&group).expect("the shell created the group");
        run.consumers += 1;
        run.offer(key, &subscription);
        self.subscriptions.insert(key, subscription);
        self.make_runnable(group);
    }

    /// Changes a subscription's bounds, or grants a reader more; says whether there is one.
    pub fn credit(&mut self, key: SubscriptionKey, bounds: Bounds) -> bool {
        let Some(subscription) = self.subscriptions.get_mut(&key) else {
            return self.readers.grant(key, bounds);
        };
        let group = subscription.group;
        let run = self.groups.get_mut(&group).expect("a subscription's group exists");
        run.withdraw(key, subscription);
        subscription.bounds = bounds;
        run.offer(key, subscription);
        if !subscription.is_able_when_idle() {
            self.unreserve_consumer(key);
        }
        self.make_runnable(group);
        true
    }

    /// Closes a subscription. Its leases are released without counting; with `keep_leases` they run on and belong to the connection.
    pub fn unsubscribe(&mut self, key: SubscriptionKey, keep_leases: bool) -> bool {
        let Some(subscription) = self.close(key) else {
            return self.readers.close(key);
        };
        if !keep_leases {
            for counter in subscription.leases {
                self.give_back(counter);
            }
        } else if let Some(&oldest) = subscription.leases.first() {
            self.closed.insert((key, oldest), subscription);
        }
        true
    }

    fn close(&mut self, key: SubscriptionKey) -> Option<Subscription> {
        self.unreserve_consumer(key);
        let subscription = self.subscriptions.remove(&key)?;
        self.silent.remove(&key);
        if let Some(run) = self.groups.get_mut(&subscription.group) {
            run.withdraw(key, &subscription);
            run.consumers -= 1;
        }
        Some(subscription)
    }

    /// Ends all that belongs to a connection. The oldest `concurrency` leases of each subscription, closed ones included, count as
    /// attempts, unless the client said goodbye (`graceful`); what waited unstarted goes back uncounted. Detached leases run on.
    pub fn disconnect(&mut self, state: &State, now: Millis, session: SessionId, graceful: bool) -> Vec<Proposal> {
        let first = SubscriptionKey { session, number: 0 };
        let last = SubscriptionKey { session, number: u64::MAX };
        self.readers.close_session(session);
        let open: Vec<_> = self.subscriptions.range(first..=last).map(|(key, _)| *key).collect();
        let mut gone: Vec<_> = open.into_iter().filter_map(|key| self.close(key)).collect();
        let closed: Vec<_> = self.closed.range((first, 0)..=(last, u64::MAX)).map(|(key, _)| *key).collect();
        gone.extend(closed.into_iter().filter_map(|key| self.closed.remove(&key)));
        let mut proposals = Vec::new();
        for subscription in gone.into_iter().filter(|subscription| !subscription.is_detached()) {
            let mut counted = if graceful { 0 } else { subscription.concurrency };
            for counter in subscription.leases {
                if self.leases.get(&counter).is_none_or(|lease| lease.settling) {
                    continue;
                }
                if counted > 0 {
                    counted -= 1;
                    proposals.push(self.end_attempt(state, counter, Cause::Disconnected, now));
                } else {
                    self.give_back(counter);
                }
            }
        }
        proposals
    }

    /// A frame arrived from the connection: its silent subscriptions get messages again.
    pub fn heard(&mut self, session: SessionId) {
        if self.silent.is_empty() {
            return;
        }
        let first = SubscriptionKey { session, number: 0 };
        let last = SubscriptionKey { session, number: u64::MAX };
        let keys: Vec<_> = self.silent.range(first..=last).copied().collect();
        for key in keys {
            self.silent.remove(&key);
            let subscription = self.subscriptions.get_mut(&key).expect("silent subscriptions are open");
            subscription.silent = false;
            let group = subscription.group;
            self.groups.get_mut(&group).expect("a subscription's group exists").offer(key, subscription);
            self.make_runnable(group);
        }
    }

    /// The next message that goes out now, if there is a message and a consumer with credit for it.
    pub fn next_delivery(&mut self, state: &State, now: Millis) -> Option<Delivery> {
        while let Some(&key) = self.runnable.front() {
            if let Some(delivery) = self.deliver_from(state, now, key) {
                return Some(delivery);
            }
            self.runnable.pop_front();
            if let Some(run) = self.groups.get_mut(&key) {
                run.queued = false;
            }
        }
        None
    }

    fn deliver_from(&mut self, state: &State, now: Millis, key: GroupKey) -> Option<Delivery> {
        loop {
            if let Some(delivery) = self.deliver_isolated(state, now, key) {
                return Some(delivery);
            }
            let to = self.groups.get(&key)?.least_loaded()?;
            let delivery = self.deliver_to(state, now, key, to);
            // What did not fit a pull, which has left the offers then, goes to somebody else.
            if delivery.is_some() || self.groups.get(&key)?.least_loaded() == Some(to) {
                return delivery;
            }
        }
    }

    fn deliver_to(&mut self, state: &State, now: Millis, key: GroupKey, to: SubscriptionKey) -> Option<Delivery> {
        let run = self.groups.get_mut(&key)?;
        let queue = state.queue(key.queue)?;
        let group = queue.groups().get(&key.group)?;
        let seq = run.pick(queue, group)?;
        let subscription = self.subscriptions.get_mut(&to).expect("offered subscriptions are open");
        let bytes = queue.messages().get(seq).map_or(0, |facts| facts.size);
        if !subscription.has_room(bytes) {
            run.ready.insert(seq);
            run.withdraw(to, subscription);
            subscription.pull.as_mut().expect("only a pull has no room").full = true;
            return None;
        }
        Some(self.lease(state, now, key, to, seq))
    }

    /// Leases a message that was picked.
    fn lease(&mut self, state: &State, now: Millis, key: GroupKey, to: SubscriptionKey, seq: Seq) -> Delivery {
        let queue = state.queue(key.queue).expect("what is leased is in a queue");
        let group = &queue.groups()[&key.group];
        let run = self.groups.get_mut(&key).expect("and was picked by a group");
        let subscription = self.subscriptions.get_mut(&to).expect("offered subscriptions are open");
        let bytes = queue.messages().get(seq).map_or(0, |facts| facts.size);
        let attempt = if group.attempts().is_empty() { 1 } else { group.attempts().get(&seq).map_or(1, |attempt| attempt.ended + 1) };
        let counter = self.next_lease;
        self.next_lease += 1;
        let deadline = now.saturating_add(subscription.visibility_timeout_ms);
        run.withdraw(to, subscription);
        subscription.lease(counter, bytes);
        run.offer(to, subscription);
        run.leased.insert(seq, counter);
        self.deadlines.insert((deadline, counter));
        self.leases.insert(
            counter,
            Lease {
                group: key,
                seq,
                owner: (!subscription.is_detached()).then_some(to.session),
                subscription: to,
                visibility_timeout_ms: subscription.visibility_timeout_ms,
                deadline,
                attempt,
                bytes,
                settling: false,
            },
        );
        Delivery {
            subscription: to,
            lease_id: LeaseId::new(self.epoch, counter, self.secret),
            queue: key.queue,
            seq,
            attempt,
            lease_ms: subscription.visibility_timeout_ms,
        }
    }

    /// Checks a lease and holds it as settling; the group is done with its message once the proposal is durable.
    ///
    /// # Errors
    /// [`Rejection::StaleLease`]; it never settles somebody else's delivery.
    pub fn ack(&mut self, session: SessionId, id: LeaseId) -> Result<Proposal, Rejection> {
        let counter = self.check(session, id)?;
        let lease = self.hold(counter);
        Ok(Proposal::Settle { group: lease.group, seq: lease.seq })
    }

    /// Ends a delivery as failed; the message comes back after the queue's backoff, or after `delay_ms`.
    ///
    /// # Errors
    /// [`Rejection::StaleLease`].
    pub fn nack(
        &mut self,
        state: &State,
        now: Millis,
        session: SessionId,
        id: LeaseId,
        delay_ms: Option<u64>,
    ) -> Result<Proposal, Rejection> {
        let counter = self.check(session, id)?;
        let lease = &self.leases[&counter];
        let options = &state.queue(lease.group.queue).expect("a leased message's queue exists").options;
        let delay = delay_ms.unwrap_or_else(|| options.backoff_ms(lease.attempt, jitter(lease)));
        Ok(self.end_attempt(state, counter, Cause::Nack, now.saturating_add(delay)))
    }

    /// Puts a message back without counting the delivery.
    ///
    /// # Errors
    /// [`Rejection::StaleLease`].
    pub fn release(&mut self, session: SessionId, id: LeaseId) -> Result<(), Rejection> {
        let counter = self.check(session, id)?;
        self.give_back(counter);
        Ok(())
    }

    /// Lets a lease last `visibility_timeout_ms` from now; 0: as long as at its delivery.
    ///
    /// # Errors
    /// [`Rejection::StaleLease`].
    pub fn extend(&mut self, now: Millis, session: SessionId, id: LeaseId, visibility_timeout_ms: u64) -> Result<(), Rejection> {
        let counter = self.check(session, id)?;
        let lease = self.leases.get_mut(&counter).expect("just checked");
        let length = if visibility_timeout_ms == 0 { lease.visibility_timeout_ms } else { visibility_timeout_ms };
        self.deadlines.remove(&(lease.deadline, counter));
        lease.deadline = now.saturating_add(length);
        self.deadlines.insert((lease.deadline, counter));
        Ok(())
    }

    fn check(&self, session: SessionId, id: LeaseId) -> Result<u64, Rejection> {
        let stale = |why| Err(Rejection::StaleLease { why });
        if id.epoch != self.epoch {
            return stale("belongs to an earlier run of the broker; the message is delivered again");
        }
        let Some(lease) = self.leases.get(&id.counter).filter(|_| id == LeaseId::new(self.epoch, id.counter, self.secret)) else {
            return stale("has expired or was settled before");
        };
        if lease.settling {
            return stale("is being settled already, or has expired");
        }
        if lease.owner.is_some_and(|owner| owner != session) {
            return stale("belongs to another connection");
        }
        Ok(id.counter)
    }

    /// Holds a lease until its proposal is durable.
    fn hold(&mut self, counter: u64) -> Lease {
        let lease = self.leases.get_mut(&counter).expect("only known leases are held");
        lease.settling = true;
        self.deadlines.remove(&(lease.deadline, counter));
        *lease
    }

    fn end_attempt(&mut self, state: &State, counter: u64, cause: Cause, not_before: Millis) -> Proposal {
        let lease = self.hold(counter);
        let options = &state.queue(lease.group.queue).expect("a leased message's queue exists").options;
        if lease.attempt >= options.max_deliveries && options.on_failure == OnFailure::Drop {
            return Proposal::Settle { group: lease.group, seq: lease.seq };
        }
        Proposal::AttemptEnded { group: lease.group, ended: Ended { seq: lease.seq, attempts: lease.attempt, cause, not_before } }
    }

    /// Ends a lease at once and makes its message ready.
    fn give_back(&mut self, counter: u64) {
        if self.leases.get(&counter).is_none_or(|lease| lease.settling) {
            return;
        }
        let lease = self.free(counter).expect("just looked");
        if let Some(run) = self.groups.get_mut(&lease.group) {
            run.ready.insert(lease.seq);
            self.make_runnable(lease.group);
        }
    }

    /// Forgets a lease and gives its credit back.
    fn free(&mut self, counter: u64) -> Option<Lease> {
        let lease = self.leases.remove(&counter)?;
        self.deadlines.remove(&(lease.deadline, counter));
        if let Some(run) = self.groups.get_mut(&lease.group) {
            run.leased.remove(&lease.seq);
            let was_alone = run.end_isolation(counter);
            let subscription = self.subscriptions.get_mut(&lease.subscription);
            if let Some(subscription) = subscription.filter(|subscription| subscription.leases.contains(&counter)) {
                run.withdraw(lease.subscription, subscription);
                subscription.reserved &= !was_alone;
                subscription.free(counter, lease.bytes);
                run.offer(lease.subscription, subscription);
            } else {
                self.free_of_closed(lease.subscription, counter, lease.bytes);
            }
            if was_alone {
                self.make_runnable(lease.group);
            }
        }
        Some(lease)
    }

    fn free_of_closed(&mut self, key: SubscriptionKey, counter: u64, bytes: u32) {
        let mut closed = self.closed.range_mut((key, 0)..=(key, counter));
        let Some((&at, subscription)) = closed.find(|(_, subscription)| subscription.leases.contains(&counter)) else { return };
        subscription.free(counter, bytes);
        if subscription.leases.is_empty() {
            self.closed.remove(&at);
        }
    }

    /// What the passing of time leads to: leases expire, retries fall due.
    pub fn tick(&mut self, state: &State, now: Millis) -> Vec<Proposal> {
        while let Some(&(at, key, seq)) = self.retries.first().filter(|(at, ..)| *at <= now) {
            self.retries.remove(&(at, key, seq));
            if let Some(run) = self.groups.get_mut(&key) {
                run.backing_off -= 1;
                run.ready.insert(seq);
                self.make_runnable(key);
            }
        }
        self.end_waits_for_idle(now);
        let mut proposals = Vec::new();
        while let Some(&(_, counter)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            let key = self.leases[&counter].subscription;
            proposals.push(self.end_attempt(state, counter, Cause::Expired, now));
            let subscription = self.subscriptions.get_mut(&key);
            if let Some(subscription) = subscription.filter(|subscription| subscription.leases.contains(&counter)) {
                let run = self.groups.get_mut(&subscription.group).expect("a subscription's group exists");
                run.withdraw(key, subscription);
                subscription.silent = true;
                self.silent.insert(key);
                self.unreserve_consumer(key);
            }
        }
        proposals
    }

    /// When [`Dispatch::tick`] has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        let lease = self.deadlines.first().map(|(at, _)| *at);
        let retry = self.retries.first().map(|(at, ..)| *at);
        let isolation = self.isolations.first().map(|(until, _)| *until);
        lease.into_iter().chain(retry).chain(isolation).min()
    }

    /// Takes note of a durable change.
    pub fn applied(&mut self, state: &State, now: Millis, applied: &Applied) {
        match applied {
            Applied::Published { queue, .. } => {
                self.readers.wake(*queue);
                for group in state.queue(*queue).into_iter().flat_map(|queue| queue.groups().keys()) {
                    self.make_runnable(GroupKey { queue: *queue, group: *group });
                }
            }
            Applied::Settled(settle) => self.settled(state, settle),
            Applied::AttemptEnded(attempt) => self.attempt_ended(state, now, attempt),
            Applied::Floored { queue, to, .. } => self.floored(state, *queue, *to),
            Applied::Queue(queue) => {
                // New options may end a pause, and make suspects or messages like others.
                let exists = state.queue(*queue).is_some();
                if !exists {
                    self.readers.drop_queue(*queue);
                }
                for key in self.keys_of(*queue) {
                    if !exists {
                        self.drop_group(key);
                    } else if let Some(run) = self.groups.get_mut(&key) {
                        run.review_suspects();
                        self.make_runnable(key);
                    }
                }
            }
            Applied::Group(queue, group) => {
                let key = GroupKey { queue: *queue, group: *group };
                if state.queue(*queue).is_none_or(|queue| !queue.groups().contains_key(group)) {
                    self.drop_group(key);
                } else if !self.groups.contains_key(&key) {
                    self.add_group(state, key);
                }
            }
            Applied::Schema(_) | Applied::Nothing => {}
        }
    }

    fn settled(&mut self, state: &State, settle: &Settle) {
        let key = GroupKey { queue: settle.queue, group: settle.group };
        for &seq in &settle.seqs {
            let Some(run) = self.groups.get_mut(&key) else { return };
            if let Some(&counter) = run.leased.get(&seq) {
                self.free(counter);
            }
            let run = self.groups.get_mut(&key).expect("looked up above");
            run.unlock_key_of(seq);
        }
        debug_assert!(state.queue(settle.queue).is_some(), "a settled queue exists");
        self.make_runnable(key);
    }

    fn attempt_ended(&mut self, state: &State, now: Millis, attempt: &AttemptEnded) {
        let key = GroupKey { queue: attempt.queue, group: attempt.group };
        let Some(group) = state.queue(key.queue).and_then(|queue| queue.groups().get(&key.group)) else { return };
        for ended in &attempt.ended {
            let Some(run) = self.groups.get(&key) else { return };
            if let Some(&counter) = run.leased.get(&ended.seq) {
                self.free(counter);
            }
            // A purge of the same batch may have taken the message.
            if group.is_settled(ended.seq) {
                continue;
            }
            let run = self.groups.get_mut(&key).expect("looked up above");
            if ended.not_before <= now {
                run.ready.insert(ended.seq);
            } else {
                run.backing_off += 1;
                self.retries.insert((ended.not_before, key, ended.seq));
            }
        }
        self.make_runnable(key);
    }

    /// A purge: leases, retries and key locks below end; later acks of them are stale.
    fn floored(&mut self, state: &State, queue: QueueId, to: Seq) {
        for key in self.keys_of(queue) {
            let run = &self.groups[&key];
            let mut gone: Vec<_> = run.leased.iter().filter(|(seq, _)| **seq < to).map(|(_, counter)| *counter).collect();
            gone.sort_unstable();
            for counter in gone {
                self.free(counter);
            }
            let group = &state.queue(queue).expect("a purged queue exists").groups()[&key.group];
            let run = self.groups.get_mut(&key).expect("just listed");
            run.forget_below(to, group);
            let retries = &mut self.retries;
            let before = retries.len();
            retries.retain(|(_, of, seq)| *of != key || *seq >= to);
            run.backing_off -= (before - retries.len()) as u64;
            self.make_runnable(key);
        }
    }

    fn drop_group(&mut self, key: GroupKey) {
        if self.groups.remove(&key).is_none() {
            return;
        }
        self.retries.retain(|(_, of, _)| *of != key);
        self.isolations.retain(|(_, of)| *of != key);
        let gone: Vec<_> = self.subscriptions.iter().filter(|(_, subscription)| subscription.group == key).map(|(key, _)| *key).collect();
        for subscription in gone {
            self.subscriptions.remove(&subscription);
            self.silent.remove(&subscription);
            self.ended.push(subscription);
        }
        self.closed.retain(|_, subscription| subscription.group != key);
        let deadlines = &mut self.deadlines;
        self.leases.retain(|counter, lease| {
            let stays = lease.group != key;
            if !stays {
                deadlines.remove(&(lease.deadline, *counter));
            }
            stays
        });
    }

    fn keys_of(&self, queue: QueueId) -> Vec<GroupKey> {
        let mut keys: Vec<_> = self.groups.keys().filter(|key| key.queue == queue).copied().collect();
        keys.sort_unstable();
        keys
    }

    /// Subscriptions whose group is gone since the last call.
    pub fn take_ended(&mut self) -> Vec<SubscriptionKey> {
        std::mem::take(&mut self.ended)
    }

    fn make_runnable(&mut self, key: GroupKey) {
        if let Some(run) = self.groups.get_mut(&key)
            && !run.queued
        {
            run.queued = true;
            self.runnable.push_back(key);
        }
    }

    /// Leases in force, settling ones included.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.leases.len() as u64
    }

    /// What a group is doing.
    #[must_use]
    pub fn group_stats(&self, key: GroupKey) -> GroupStats {
        self.groups.get(&key).map_or_else(GroupStats::default, |run| GroupStats {
            in_flight: run.leased.len() as u64,
            backing_off: run.backing_off,
            consumers: run.consumers,
            blocked_keys: run.blocked_keys(),
        })
    }

    /// Whether a subscription is open, a reader's included.
    #[must_use]
    pub fn has_subscription(&self, key: SubscriptionKey) -> bool {
        self.subscriptions.contains_key(&key) || self.readers.contains(key)
    }

    /// The invariants of docs/architecture.md that leases must keep.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn check_invariants(&self, state: &State) {
        let mut counters: Vec<_> = self.leases.keys().copied().collect();
        counters.sort_unstable();
        for counter in counters {
            let lease = &self.leases[&counter];
            let run = &self.groups[&lease.group];
            assert_eq!(run.leased.get(&lease.seq), Some(&counter), "a lease and its group agree on {}", lease.seq);
            assert!(!run.ready.contains(&lease.seq), "{} is leased and ready at once", lease.seq);
            let group = &state.queue(lease.group.queue).expect("a leased message's queue exists").groups()[&lease.group.group];
            assert!(!group.is_settled(lease.seq), "{} is leased and settled", lease.seq);
            assert_eq!(lease.settling, !self.deadlines.contains(&(lease.deadline, counter)), "a lease expires unless it is settling");
        }
        for (key, subscription) in &self.subscriptions {
            assert_eq!(subscription.leases.len(), subscription.in_flight as usize, "subscription {key:?} counts its leases");
            assert_eq!(subscription.silent, self.silent.contains(key), "silent subscriptions are listed");
            let is_offered = self.groups[&subscription.group].is_offered(*key, subscription);
            assert_eq!(is_offered, subscription.has_credit(), "subscription {key:?} is offered while it has credit");
        }
        self.readers.check_invariants(state);
        self.check_isolations(state);
        for (key, subscription) in &self.closed {
            assert!(!subscription.is_detached(), "detached leases need nobody");
            assert!(!subscription.leases.is_empty(), "closed subscription {key:?} still holds something");
            assert!(
                subscription.leases.iter().all(|counter| self.leases.contains_key(counter)),
                "closed subscription {key:?} holds leases"
            );
        }
    }
}

/// Spreads retries; a hash, so that a replay gives the same.
fn jitter(lease: &Lease) -> u64 {
    let mixed = u64::from(lease.group.queue.0)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(lease.seq)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        .wrapping_add(u64::from(lease.attempt))
        .wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 29)
}
