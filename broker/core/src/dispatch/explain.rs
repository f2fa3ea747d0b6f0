//! Why a message, an ordering key or a group does not move, as far as state and leases tell. Words for people are the shell's, and so is
//! what only payloads tell: ids, and dead letters.

use crate::dispatch::isolation::{Isolation, is_suspect};
use crate::dispatch::{Dispatch, GroupKey};
use crate::group::Group;
use crate::ids::{Millis, Seq, SessionId};
use crate::queue::Queue;
use crate::state::State;

/// Messages that a search for an ordering key looks at, at most; they are in memory.
const LOOKED_AT_MAX: usize = 1_000_000;

/// What is in the way, or what happens instead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// The queue has no such message, and never had or has no more.
    NotFound,
    /// The group is done with it.
    Settled,
    /// Its time to live has passed, and it is being taken away.
    Expired,
    /// A consumer has it.
    Leased {
        /// The connection that got it.
        session: SessionId,
        /// The lease outlives the connection.
        is_detached: bool,
        /// 1 for the first delivery.
        attempt: u32,
        /// Until the lease expires.
        remaining_ms: u64,
        /// A suspect: its consumer gets nothing else.
        is_alone: bool,
    },
    /// The end of its lease is on its way to the disk.
    Settling {
        /// Which delivery ends.
        attempt: u32,
    },
    /// It waits for its next delivery.
    BackingOff {
        /// Deliveries that ended and counted.
        attempts: u32,
        /// Until then.
        remaining_ms: u64,
    },
    /// Another message of its ordering key is first.
    KeyBlocked {
        /// Which.
        by: Seq,
        /// What that one waits for.
        because: Box<Obstacle>,
    },
    /// A suspect, to be delivered alone.
    IsolatedSuspect {
        /// The suspect whose turn it is.
        after: Option<Seq>,
        /// A consumer is kept until it is idle, and so long at most.
        remaining_ms: Option<u64>,
    },
    /// The group has no consumer.
    NoConsumer,
    /// No consumer may hold more than it does.
    NoCredit(Consumers),
    /// After a lease expired nothing was heard from any consumer.
    SilentConsumers(Consumers),
    /// The group has settled too much out of order.
    Paused {
        /// Intervals of settled messages above the floor.
        intervals: u64,
        /// How many the queue allows: its option `max_unsettled`.
        limit: u64,
    },
    /// Nothing: it goes to the next consumer.
    Ready,
    /// The group has settled everything.
    Idle,
}

/// Why consumers take nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Consumers {
    /// Open subscriptions and waiting pulls.
    pub all: u32,
    /// Those that were not heard after a lease of theirs expired.
    pub silent: u32,
    /// Those that have asked for nothing: their prefetch is 0.
    pub paused: u32,
    /// Those that are kept for a suspect.
    pub reserved: u32,
    /// What they hold together.
    pub in_flight: u64,
}

impl Obstacle {
    /// Its stable name in kebab case.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Obstacle::NotFound => "not-found",
            Obstacle::Settled => "settled",
            Obstacle::Expired => "expired",
            Obstacle::Leased { .. } => "leased",
            Obstacle::Settling { .. } => "settling",
            Obstacle::BackingOff { .. } => "backing-off",
            Obstacle::KeyBlocked { .. } => "key-blocked",
            Obstacle::IsolatedSuspect { .. } => "isolated-suspect",
            Obstacle::NoConsumer => "no-consumer",
            Obstacle::NoCredit(_) => "no-credit",
            Obstacle::SilentConsumers(_) => "silent-consumers",
            Obstacle::Paused { .. } => "paused",
            Obstacle::Ready => "ready",
            Obstacle::Idle => "idle",
        }
    }
}

/// A message that explains a key or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Which; none: no message is concerned.
    pub seq: Option<Seq>,
    /// What is in its way, or the group's.
    pub obstacle: Obstacle,
}

impl Dispatch {
    /// What is in the way of one message in a group that exists.
    #[must_use]
    pub fn explain_message(&self, state: &State, now: Millis, key: GroupKey, seq: Seq) -> Obstacle {
        let Some((queue, group)) = find(state, key) else { return Obstacle::NotFound };
        let (Some(run), true) = (self.groups.get(&key), seq < queue.next_seq()) else { return Obstacle::NotFound };
        if group.is_settled(seq) {
            return Obstacle::Settled;
        }
        let Some(facts) = queue.messages().get(seq) else { return Obstacle::NotFound };
        if let Some(counter) = run.leased.get(&seq) {
            return self.explain_lease(now, *counter);
        }
        if facts.is_expired(now) {
            return Obstacle::Expired;
        }
        if let Some(until) = run.backing_off.get(&seq) {
            let attempts = group.attempts().get(&seq).map_or(0, |attempt| attempt.ended);
            return Obstacle::BackingOff { attempts, remaining_ms: until.saturating_sub(now) };
        }
        if let Some(holder) = run.key_holder(facts.key).filter(|holder| *holder != seq) {
            return Obstacle::KeyBlocked { by: holder, because: Box::new(self.explain_message(state, now, key, holder)) };
        }
        let waits_alone = run.suspects.contains(&seq) || (run.ready.contains(&seq) && is_suspect(queue, group, seq));
        match run.isolation.filter(|_| waits_alone) {
            Some(Isolation::Running { counter }) => {
                Obstacle::IsolatedSuspect { after: self.leases.get(&counter).map(|lease| lease.seq), remaining_ms: None }
            }
            Some(Isolation::Reserved { until, .. }) => {
                Obstacle::IsolatedSuspect { after: None, remaining_ms: Some(until.saturating_sub(now)) }
            }
            None if run.is_paused_at(queue, group, seq) => {
                Obstacle::Paused { intervals: group.settled_intervals() as u64, limit: queue.options.max_unsettled }
            }
            None => self.explain_consumers(key).unwrap_or(Obstacle::Ready),
        }
    }

    /// What is in the way of an ordering key, by its hash: what is in the way of its first message.
    #[must_use]
    pub fn explain_key(&self, state: &State, now: Millis, key: GroupKey, hash: u64) -> Head {
        let nothing = Head { seq: None, obstacle: Obstacle::NotFound };
        let (Some((queue, group)), Some(run)) = (find(state, key), self.groups.get(&key)) else { return nothing };
        let fresh = || {
            let after = |seq: &Seq| Some(group.next_unsettled(seq + 1));
            let unsettled = std::iter::successors(Some(group.next_unsettled(run.cursor())), after);
            let mut unsettled = unsettled.take_while(|seq| *seq < queue.next_seq()).take(LOOKED_AT_MAX);
            unsettled.find(|seq| queue.messages().get(*seq).is_some_and(|facts| facts.key == hash))
        };
        let Some(seq) = run.key_holder(hash).or_else(fresh) else { return nothing };
        Head { seq: Some(seq), obstacle: self.explain_message(state, now, key, seq) }
    }

    /// What is in the way of a group: of what it would deliver next, or else of the first message that it has not settled.
    #[must_use]
    pub fn explain_group(&self, state: &State, now: Millis, key: GroupKey) -> Head {
        let (Some((queue, group)), Some(run)) = (find(state, key), self.groups.get(&key)) else {
            return Head { seq: None, obstacle: Obstacle::NotFound };
        };
        if queue.lag(group) == 0 {
            return Head { seq: None, obstacle: Obstacle::Idle };
        }
        let fresh = Some(group.next_unsettled(run.cursor())).filter(|seq| *seq < queue.next_seq());
        let next = run.ready.first().copied().or(fresh).or(run.suspects.first().copied());
        let seq = next.unwrap_or_else(|| group.ack_floor());
        let obstacle = next.and_then(|_| self.explain_consumers(key));
        Head { seq: Some(seq), obstacle: obstacle.unwrap_or_else(|| self.explain_message(state, now, key, seq)) }
    }

    fn explain_lease(&self, now: Millis, counter: u64) -> Obstacle {
        let lease = &self.leases[&counter];
        if lease.settling {
            return Obstacle::Settling { attempt: lease.attempt };
        }
        Obstacle::Leased {
            session: lease.subscription.session,
            is_detached: lease.owner.is_none(),
            attempt: lease.attempt,
            remaining_ms: lease.deadline.saturating_sub(now),
            is_alone: self.groups.get(&lease.group).is_some_and(|run| run.isolation == Some(Isolation::Running { counter })),
        }
    }

    /// Why nobody takes anything, if that is so.
    fn explain_consumers(&self, key: GroupKey) -> Option<Obstacle> {
        let run = self.groups.get(&key)?;
        if run.consumers == 0 {
            return Some(Obstacle::NoConsumer);
        }
        if run.least_loaded().is_some() {
            return None;
        }
        let mut consumers = Consumers::default();
        for subscription in self.subscriptions.values().filter(|subscription| subscription.group == key) {
            consumers.all += 1;
            consumers.silent += u32::from(subscription.silent);
            consumers.paused += u32::from(subscription.bounds.messages == 0);
            consumers.reserved += u32::from(subscription.reserved);
            consumers.in_flight += u64::from(subscription.in_flight);
        }
        let obstacle = if consumers.silent == consumers.all { Obstacle::SilentConsumers } else { Obstacle::NoCredit };
        Some(obstacle(consumers))
    }
}

fn find(state: &State, key: GroupKey) -> Option<(&Queue, &Group)> {
    let queue = state.queue(key.queue)?;
    Some((queue, queue.groups().get(&key.group)?))
}
