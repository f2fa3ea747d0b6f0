//! Suspects alone: a message whose delivery ended by expiry or disconnect may be what kills its consumers, so its last attempt must not
//! take others with it.
//!
//! A consumer without leases gets the suspect at once. Otherwise the least loaded one is reserved: it gets nothing new until it is idle
//! and then the suspect, or after one visibility timeout the suspect beside what it still has. While a suspect is leased nothing else
//! goes to its consumer. A group isolates one suspect at a time. Which messages are suspects is in [`is_suspect`].

use crate::dispatch::group_run::Picked;
use crate::dispatch::{Delivery, Dispatch, GroupKey};
use crate::group::Group;
use crate::ids::{Millis, Seq, SubscriptionKey};
use crate::options::OnFailure;
use crate::queue::Queue;
use crate::state::State;

/// How far a group is with the suspect whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// A consumer gets nothing new until it is idle, or until the time is up.
    Reserved {
        /// Which.
        consumer: SubscriptionKey,
        /// When the suspect goes out anyway.
        until: Millis,
    },
    /// The suspect is leased.
    Running {
        /// The lease's counter.
        counter: u64,
    },
}

/// Whether the next delivery must be alone: it is the last one before failure handling, and one before it took its consumer along.
pub(crate) fn is_suspect(queue: &Queue, group: &Group, seq: Seq) -> bool {
    !group.attempts().is_empty()
        && queue.on_failure() != OnFailure::RetryForever
        && group.attempts().get(&seq).is_some_and(|attempt| attempt.suspect && attempt.ended + 1 >= queue.options.max_deliveries)
}

impl Dispatch {
    /// Delivers a suspect, if one waits and a consumer is free for it.
    pub(super) fn deliver_isolated(&mut self, state: &State, now: Millis, key: GroupKey) -> Option<Delivery> {
        if !self.has_suspects(state, now, key) {
            return None;
        }
        let to = self.consumer_for_suspect(now, key)?;
        Some(self.isolate(state, now, key, to))
    }

    /// Delivers a suspect to a consumer without leases, whether or not another one is reserved.
    pub(super) fn isolate_to(&mut self, state: &State, now: Millis, key: GroupKey, to: SubscriptionKey) -> Option<Delivery> {
        self.has_suspects(state, now, key).then(|| self.isolate(state, now, key, to))
    }

    /// Whether the next suspect may go. Nobody stays reserved for suspects that are no more.
    fn has_suspects(&mut self, state: &State, now: Millis, key: GroupKey) -> bool {
        let (Some(run), Some(queue)) = (self.groups.get_mut(&key), state.queue(key.queue)) else { return false };
        let Some(group) = queue.groups().get(&key.group) else { return false };
        run.sift_ready(queue, group, now);
        if !run.may_isolate() {
            return false;
        }
        run.forget_spent_suspects(queue, group, now);
        let found = !run.suspects.is_empty();
        if !found {
            self.unreserve(key);
        }
        found
    }

    /// Who gets the suspect now; if nobody can yet, somebody is reserved, as far as there is anybody.
    fn consumer_for_suspect(&mut self, now: Millis, key: GroupKey) -> Option<SubscriptionKey> {
        let run = &self.groups[&key];
        if let Some(idle) = run.idle() {
            return Some(idle);
        }
        match run.isolation {
            Some(Isolation::Running { .. }) => None,
            Some(Isolation::Reserved { consumer, until }) => {
                let reserved = &self.subscriptions[&consumer];
                if reserved.in_flight == 0 || (until <= now && reserved.is_able()) {
                    return Some(consumer);
                }
                run.least_loaded().filter(|_| until <= now)
            }
            None => {
                let consumer = run.least_loaded()?;
                self.reserve(now, key, consumer);
                None
            }
        }
    }

    fn reserve(&mut self, now: Millis, key: GroupKey, consumer: SubscriptionKey) {
        let run = self.groups.get_mut(&key).expect("the group has a suspect");
        let subscription = self.subscriptions.get_mut(&consumer).expect("offered subscriptions are open");
        run.withdraw(consumer, subscription);
        subscription.reserved = true;
        let until = now.saturating_add(subscription.visibility_timeout_ms);
        run.isolation = Some(Isolation::Reserved { consumer, until });
        self.isolations.insert((until, key));
    }

    /// Offers a reserved consumer again.
    pub(super) fn unreserve(&mut self, key: GroupKey) {
        let Some(run) = self.groups.get_mut(&key) else { return };
        let Some(Isolation::Reserved { consumer, until }) = run.isolation else { return };
        run.isolation = None;
        self.isolations.remove(&(until, key));
        let subscription = self.subscriptions.get_mut(&consumer).expect("a reserved subscription is open");
        subscription.reserved = false;
        run.offer(consumer, subscription);
    }

    /// The consumer takes nothing any more, or is about to close: the suspect needs another one.
    pub(super) fn unreserve_consumer(&mut self, consumer: SubscriptionKey) {
        let Some(key) = self.subscriptions.get(&consumer).filter(|subscription| subscription.reserved).map(|reserved| reserved.group)
        else {
            return;
        };
        let isolation = self.groups.get(&key).and_then(|run| run.isolation);
        if matches!(isolation, Some(Isolation::Reserved { .. })) {
            self.unreserve(key);
            self.make_runnable(key);
        }
    }

    fn isolate(&mut self, state: &State, now: Millis, key: GroupKey, to: SubscriptionKey) -> Delivery {
        self.unreserve(key);
        let suspects = &mut self.groups.get_mut(&key).expect("the group has a suspect").suspects;
        let seq = suspects.pop_first().expect("the caller has looked");
        let queue = state.queue(key.queue).expect("a suspect is in a queue");
        let delivery = self.lease(now, key, to, Picked::new(queue, &queue.groups()[&key.group], seq));
        let run = self.groups.get_mut(&key).expect("looked up above");
        let subscription = self.subscriptions.get_mut(&to).expect("it has just got a lease");
        run.withdraw(to, subscription);
        subscription.reserved = true;
        run.isolation = Some(Isolation::Running { counter: delivery.lease_id.counter });
        delivery
    }

    /// Lets groups deliver their suspect whose consumer took too long to become idle.
    pub(super) fn end_waits_for_idle(&mut self, now: Millis) {
        while let Some(&(until, key)) = self.isolations.first().filter(|(until, _)| *until <= now) {
            self.isolations.remove(&(until, key));
            self.make_runnable(key);
        }
    }

    pub(super) fn check_isolations(&self, state: &State) {
        let mut keys: Vec<_> = self.groups.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let run = &self.groups[&key];
            let group = &state.queue(key.queue).expect("a group's queue exists").groups()[&key.group];
            for seq in &run.suspects {
                let is_elsewhere = run.ready.contains(seq) || run.leased.contains_key(seq);
                assert!(!is_elsewhere, "{seq} waits to be isolated and is leased or ready at once");
                assert!(group.is_settled(*seq) || group.attempts().contains_key(seq), "the suspect {seq} has attempts");
            }
            match run.isolation {
                Some(Isolation::Reserved { consumer, .. }) => {
                    let reserved = self.subscriptions.get(&consumer).is_some_and(|subscription| subscription.is_able_when_idle());
                    assert!(reserved, "{consumer:?} of {key:?} is reserved, open and not paused");
                }
                Some(Isolation::Running { counter }) => {
                    assert!(self.leases.get(&counter).is_some_and(|lease| lease.group == key), "an isolated suspect of {key:?} is leased");
                }
                None => {}
            }
        }
        for (key, subscription) in self.subscriptions.iter().filter(|(_, subscription)| subscription.reserved) {
            let is_isolated = match self.groups[&subscription.group].isolation {
                Some(Isolation::Reserved { consumer, .. }) => consumer == *key,
                Some(Isolation::Running { counter }) => subscription.leases.contains(&counter),
                None => false,
            };
            assert!(is_isolated, "{key:?} is kept for a suspect");
        }
        for (until, key) in &self.isolations {
            let isolation = self.groups.get(key).and_then(|run| run.isolation);
            let waits = matches!(isolation, Some(Isolation::Reserved { until: of, .. }) if of == *until);
            assert!(waits, "{key:?} waits until {until} for a consumer to become idle");
        }
    }
}
