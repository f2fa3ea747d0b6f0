//! The volatile machine: subscriptions, credit, leases, key locks, timers. It belongs to whoever leads and is rebuilt from [`State`].
//!
//! It checks a lease, then proposes lease-free changes ([`Proposal`]); the lease is held as *settling* until [`Dispatch::applied`] says
//! that the change is durable. A restart or failover ends all leases without counting an attempt. It never sees a socket: a delivery
//! names a subscription, and the shell knows whose it is. Read on in `lease.rs`, `group_run.rs` and `isolation.rs`; `pull.rs` and
//! `reader.rs` are the two other ways to get messages.

mod consumer;
mod expiry;
mod explain;
mod failure;
mod group_run;
mod isolation;
mod lease;
mod pull;
mod reader;
mod retention;
mod subscription;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use crate::entry::{Applied, AttemptEnded, Cause, Ended, Origin};
use crate::group::Group;
use crate::ids::{GroupId, Millis, QueueId, Seq, SessionId, SubscriptionKey};
use crate::rejection::Rejection;
use crate::state::State;

pub use consumer::Consumer;
use expiry::Sweeps;
pub use explain::{Consumers, Head, Obstacle};
use failure::Failure;
pub use failure::{DeadLetter, Reason};
use group_run::{GroupRun, Picked};
use lease::Lease;
pub use lease::LeaseId;
use reader::Readers;
pub use reader::Reading;
use retention::Retention;
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
    /// Streams: messages that went before the group saw them, since its last delivery.
    pub skipped: u64,
    /// How long the lease lasts, in milliseconds.
    pub lease_ms: u64,
    /// When the message was published; a delayed one, when it fell due.
    pub at: Millis,
}

/// A durable change that dispatch wants; the shell makes entries of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposal {
    /// The group is done with the message.
    Settle {
        /// Whose.
        group: GroupKey,
        /// Which.
        seq: Seq,
        /// How.
        ending: Ending,
    },
    /// A delivery ended and counts.
    AttemptEnded {
        /// Whose.
        group: GroupKey,
        /// Which, and how.
        ended: Ended,
    },
    /// The message becomes a dead letter.
    DeadLetter(Box<DeadLetter>),
    /// Messages go for all groups.
    Remove {
        /// From which queue.
        queue: QueueId,
        /// Which.
        seqs: Vec<Seq>,
        /// How.
        ending: Ending,
    },
    /// Everything below a sequence goes.
    Floor {
        /// From which queue.
        queue: QueueId,
        /// The first that stays.
        to: Seq,
    },
    /// The group has been idle for too long.
    DeleteGroup {
        /// Which.
        group: GroupKey,
    },
}

/// How a message ends, for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// A consumer acknowledged it.
    Acked,
    /// It failed, and the queue drops what fails.
    Dropped,
    /// Its time to live passed.
    Expired,
    /// It was the oldest of a full queue.
    MadeRoom,
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
    sweeps: Sweeps,
    retention: Retention,
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
            sweeps: Sweeps::default(),
            retention: Retention::default(),
            readers: Readers::default(),
        };
        for queue in state.queues() {
            dispatch.retention.grew(queue);
            if let Some(next) = queue.messages().next_expiry(0) {
                dispatch.sweeps.schedule(queue.id, next);
            }
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
            run.backing_off.insert(*seq, attempt.not_before);
            self.retries.insert((attempt.not_before, key, *seq));
        }
        self.groups.insert(key, run);
        self.retention.use_changed(key);
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
        self.retention.use_changed(group);
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
            self.retention.use_changed(subscription.group);
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
                    let failure = Failure { cause: Cause::Disconnected, now, not_before: now, error: "" };
                    proposals.push(self.end_attempt(state, counter, &failure));
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
            let run = self.groups.get(&key)?;
            if run.may_have_suspects()
                && let Some(delivery) = self.deliver_isolated(state, now, key)
            {
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
        let seq = run.pick(queue, group, now)?;
        let picked = Picked::new(queue, group, seq);
        let subscription = self.subscriptions.get_mut(&to).expect("offered subscriptions are open");
        if !subscription.has_room(picked.bytes) {
            run.put_back(seq);
            run.withdraw(to, subscription);
            subscription.pull.as_mut().expect("only a pull has no room").full = true;
            return None;
        }
        Some(self.lease(now, key, to, picked))
    }

    /// Leases a message that was picked.
    fn lease(&mut self, now: Millis, key: GroupKey, to: SubscriptionKey, picked: Picked) -> Delivery {
        let Picked { seq, bytes, attempt, at } = picked;
        let run = self.groups.get_mut(&key).expect("a group has picked it");
        let subscription = self.subscriptions.get_mut(&to).expect("offered subscriptions are open");
        let counter = self.next_lease;
        self.next_lease += 1;
        let deadline = now.saturating_add(subscription.visibility_timeout_ms);
        run.withdraw(to, subscription);
        subscription.lease(counter, bytes);
        run.offer(to, subscription);
        run.leased.insert(seq, counter);
        let skipped = std::mem::take(&mut run.skipped);
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
            skipped,
            lease_ms: subscription.visibility_timeout_ms,
            at,
        }
    }

    /// Checks a lease and holds it as settling; the group is done with its message once the proposal is durable.
    ///
    /// # Errors
    /// [`Rejection::StaleLease`]; it never settles somebody else's delivery.
    pub fn ack(&mut self, session: SessionId, id: LeaseId) -> Result<Proposal, Rejection> {
        let counter = self.check(session, id)?;
        let lease = self.hold(counter);
        Ok(Proposal::Settle { group: lease.group, seq: lease.seq, ending: Ending::Acked })
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

    /// Ends a lease at once and makes its message ready.
    fn give_back(&mut self, counter: u64) {
        if self.leases.get(&counter).is_none_or(|lease| lease.settling) {
            return;
        }
        let lease = self.free(counter).expect("just looked");
        if let Some(run) = self.groups.get_mut(&lease.group) {
            run.ready.insert(lease.seq);
            self.sweeps.returned(lease.group, lease.seq);
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

    /// What the passing of time leads to: leases expire, retries fall due, messages and groups outlive their time.
    pub fn tick(&mut self, state: &State, now: Millis) -> Vec<Proposal> {
        while let Some(&(at, key, seq)) = self.retries.first().filter(|(at, ..)| *at <= now) {
            self.retries.remove(&(at, key, seq));
            if let Some(run) = self.groups.get_mut(&key) {
                run.backing_off.remove(&seq);
                run.ready.insert(seq);
                self.make_runnable(key);
            }
        }
        self.end_waits_for_idle(now);
        let mut proposals = Vec::new();
        while let Some(&(_, counter)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            let key = self.leases[&counter].subscription;
            let failure = Failure { cause: Cause::Expired, now, not_before: now, error: "" };
            proposals.push(self.end_attempt(state, counter, &failure));
            let subscription = self.subscriptions.get_mut(&key);
            if let Some(subscription) = subscription.filter(|subscription| subscription.leases.contains(&counter)) {
                let run = self.groups.get_mut(&subscription.group).expect("a subscription's group exists");
                run.withdraw(key, subscription);
                subscription.silent = true;
                self.silent.insert(key);
                self.unreserve_consumer(key);
            }
        }
        self.expire(state, now, &mut proposals);
        self.let_go(state, now, &mut proposals);
        proposals
    }

    /// When [`Dispatch::tick`] has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        let lease = self.deadlines.first().map(|(at, _)| *at);
        let retry = self.retries.first().map(|(at, ..)| *at);
        let isolation = self.isolations.first().map(|(until, _)| *until);
        let others = [lease, retry, isolation, self.sweeps.next_deadline(), self.retention.next_deadline()];
        others.into_iter().flatten().min()
    }

    /// Takes note of a durable change.
    pub fn applied(&mut self, state: &State, now: Millis, applied: &Applied) {
        match applied {
            Applied::Published { queue, expiry, .. } => self.arrived(state, *queue, *expiry),
            Applied::Settled(settle) => {
                let key = GroupKey { queue: settle.queue, group: settle.group };
                self.settled(state, key, settle.seqs.iter().copied());
            }
            Applied::AttemptEnded(attempt) => self.attempt_ended(state, now, attempt),
            Applied::Moved { origin, to, expiry, .. } => {
                self.left(state, origin);
                self.arrived(state, *to, *expiry);
            }
            Applied::Removed { queue, seqs, skipped } => {
                self.removed(state, *queue, seqs);
                self.note_skipped(*queue, skipped);
            }
            Applied::Floored { queue, to, skipped, .. } => {
                self.floored(state, *queue, *to);
                self.note_skipped(*queue, skipped);
            }
            Applied::Sought(queue, group) => self.sought(state, GroupKey { queue: *queue, group: *group }),
            Applied::SettledThrough(queue, group) => {
                let key = GroupKey { queue: *queue, group: *group };
                if let Some(floor) = state.queue(*queue).and_then(|queue| queue.groups().get(group)).map(Group::ack_floor) {
                    self.floor_group(state, key, floor);
                }
            }
            Applied::Queue(queue) => self.queue_changed(state, *queue),
            Applied::Group(queue, group) => {
                let key = GroupKey { queue: *queue, group: *group };
                if state.queue(*queue).is_none_or(|queue| !queue.groups().contains_key(group)) {
                    self.drop_group(key);
                } else if !self.groups.contains_key(&key) {
                    self.add_group(state, key);
                }
                self.sweeps.again(*queue);
            }
            Applied::Schema(_) | Applied::Nothing => {}
        }
    }

    /// A queue has new messages.
    fn arrived(&mut self, state: &State, id: QueueId, expiry: Option<Millis>) {
        let Some(queue) = state.queue(id) else { return };
        self.readers.wake(id);
        for group in queue.groups().keys() {
            self.make_runnable(GroupKey { queue: id, group: *group });
        }
        if let Some(at) = expiry {
            self.sweeps.schedule(id, at);
        }
        self.retention.grew(queue);
    }

    /// Messages are not any more where they came from.
    fn left(&mut self, state: &State, origin: &Origin) {
        match origin {
            Origin::Failed { queue, group: Some(group), seqs } => {
                self.settled(state, GroupKey { queue: *queue, group: *group }, seqs.iter().copied());
            }
            Origin::Failed { queue, group: None, seqs } | Origin::Redriven { from: queue, seqs, .. } => self.removed(state, *queue, seqs),
            Origin::Due { .. } | Origin::Invalid { .. } => {}
        }
    }

    /// New options may end a pause, decide otherwise about suspects, or ask for what was not watched; a queue that is gone needs nothing any more.
    fn queue_changed(&mut self, state: &State, id: QueueId) {
        let queue = state.queue(id);
        for key in self.keys_of(id) {
            if queue.is_some() {
                self.groups.get_mut(&key).expect("just listed").review_suspects();
                self.retention.use_changed(key);
                self.make_runnable(key);
            } else {
                self.drop_group(key);
            }
        }
        match queue {
            Some(queue) => {
                self.retention.watch_age(queue);
                self.retention.grew(queue);
            }
            None => {
                self.readers.drop_queue(id);
                self.retention.forget(id);
                self.sweeps.forget(id);
            }
        }
    }

    fn settled(&mut self, state: &State, key: GroupKey, seqs: impl Iterator<Item = Seq>) {
        let Some(group) = state.queue(key.queue).and_then(|queue| queue.groups().get(&key.group)) else { return };
        for seq in seqs {
            let Some(run) = self.groups.get_mut(&key) else { return };
            if let Some(&counter) = run.leased.get(&seq) {
                self.free(counter);
            }
            let run = self.groups.get_mut(&key).expect("looked up above");
            if let Some(at) = run.forget(seq, group) {
                self.retries.remove(&(at, key, seq));
            }
        }
        self.make_runnable(key);
    }

    /// Messages went for all groups.
    fn removed(&mut self, state: &State, queue: QueueId, seqs: &[Seq]) {
        self.sweeps.gone(queue, seqs);
        for key in self.keys_of(queue) {
            self.settled(state, key, seqs.iter().copied());
        }
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
                run.backing_off.insert(ended.seq, ended.not_before);
                self.retries.insert((ended.not_before, key, ended.seq));
            }
            self.sweeps.returned(key, ended.seq);
        }
        self.make_runnable(key);
    }

    /// A purge or retention: leases, retries and key locks below end; later acks of them are stale.
    fn floored(&mut self, state: &State, queue: QueueId, to: Seq) {
        self.sweeps.gone_below(queue, to);
        for key in self.keys_of(queue) {
            self.floor_group(state, key, to);
        }
        if let Some(queue) = state.queue(queue) {
            self.retention.watch_age(queue);
        }
    }

    fn floor_group(&mut self, state: &State, key: GroupKey, to: Seq) {
        let Some(group) = state.queue(key.queue).and_then(|queue| queue.groups().get(&key.group)) else { return };
        let Some(run) = self.groups.get(&key) else { return };
        let mut gone: Vec<_> = run.leased.iter().filter(|(seq, _)| **seq < to).map(|(_, counter)| *counter).collect();
        gone.sort_unstable();
        for counter in gone {
            self.free(counter);
        }
        let run = self.groups.get_mut(&key).expect("looked up above");
        for (seq, at) in run.forget_below(to, group) {
            self.retries.remove(&(at, key, seq));
        }
        self.make_runnable(key);
    }

    /// A group begins anew: its leases, retries and key locks are void, its consumers stay.
    fn sought(&mut self, state: &State, key: GroupKey) {
        let Some(run) = self.groups.get(&key) else { return };
        let mut gone: Vec<_> = run.leased.values().copied().collect();
        gone.sort_unstable();
        for counter in gone {
            self.free(counter);
        }
        self.retries.retain(|(_, of, _)| *of != key);
        self.unreserve(key);
        let floor = state.queue(key.queue).and_then(|queue| queue.groups().get(&key.group)).map_or(0, Group::ack_floor);
        self.groups.get_mut(&key).expect("looked up above").restart(floor);
        self.sweeps.again(key.queue);
        self.make_runnable(key);
    }

    fn note_skipped(&mut self, queue: QueueId, skipped: &[(GroupId, u64)]) {
        for (group, count) in skipped {
            if let Some(run) = self.groups.get_mut(&GroupKey { queue, group: *group }) {
                run.skipped += count;
            }
        }
    }

    fn drop_group(&mut self, key: GroupKey) {
        if self.groups.remove(&key).is_none() {
            return;
        }
        self.retries.retain(|(_, of, _)| *of != key);
        self.isolations.retain(|(_, of)| *of != key);
        self.retention.forget_group(key);
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

    /// Messages that open subscriptions would take beside what they hold; waiting pulls count too, readers do not.
    #[must_use]
    pub fn free_credit(&self) -> u64 {
        let able = self.subscriptions.values().filter(|subscription| subscription.is_able());
        able.map(|subscription| u64::from(subscription.bounds.messages - subscription.in_flight)).sum()
    }

    /// How long a group has had no consumer, as far as this run of the broker knows; `None`: it has one.
    #[must_use]
    pub fn idle_ms(&self, key: GroupKey, now: Millis) -> Option<u64> {
        self.groups.get(&key)?.idle_since.map(|since| now.saturating_sub(since))
    }

    /// What a group is doing.
    #[must_use]
    pub fn group_stats(&self, key: GroupKey) -> GroupStats {
        self.groups.get(&key).map_or_else(GroupStats::default, |run| GroupStats {
            in_flight: run.leased.len() as u64,
            backing_off: run.backing_off.len() as u64,
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
