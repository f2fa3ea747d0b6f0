//! Consumers: they come, take what they can get, change their bounds, fall silent and go.

use qwerq_core::dispatch::{Bounds, Subscribe};
use qwerq_core::{Delivery, SessionId, SubscriptionKey};

use super::{World, count};
use crate::model::Pull;

impl World {
    pub(super) fn any_session(&mut self) -> SessionId {
        if self.sessions.is_empty() || self.sessions.len() < 4 && self.dice.one_in(3) {
            self.sessions.push(SessionId(self.next_session));
            self.next_session += 1;
        }
        *self.dice.pick(&self.sessions).expect("just filled")
    }

    fn any_bounds(&mut self) -> Bounds {
        let scale = if self.large { 200 } else { 1 };
        let bytes = if self.dice.one_in(2) { u64::MAX } else { self.dice.within(0, 150) * u64::from(scale) };
        Bounds { messages: self.dice.within_u32(0, 6) * scale, bytes }
    }

    fn any_subscription(&mut self) -> SubscriptionKey {
        let subscriptions = self.model.subscriptions.iter().filter(|other| other.open && other.pull.is_none()).map(|other| other.key);
        let open: Vec<_> = subscriptions.chain(self.model.readers.iter().map(|reader| reader.key)).collect();
        let none = SubscriptionKey { session: SessionId(0), number: 1 };
        if self.dice.one_in(20) { none } else { self.dice.pick(&open).copied().unwrap_or(none) }
    }

    pub(super) fn subscribe(&mut self) {
        let Some(group) = self.any_group() else { return };
        let key = SubscriptionKey { session: self.any_session(), number: self.dice.within(1, 3) };
        let concurrency = self.dice.within_u32(1, 3);
        let visibility_timeout_ms = self.dice.within(1, 3_000);
        let subscribe = Subscribe { group, bounds: self.any_bounds(), concurrency, visibility_timeout_ms };
        let given = self.dispatch.subscribe(key, &subscribe);
        say!(self, "{key:?}: {subscribe:?}: {given:?}");
        assert_eq!(given, self.model.subscribe(key, &subscribe));
    }

    pub(super) fn unsubscribe(&mut self) {
        let (key, keep_leases) = (self.any_subscription(), self.dice.one_in(2));
        say!(self, "unsubscribe {key:?}, keep leases: {keep_leases}");
        assert_eq!(self.dispatch.unsubscribe(key, keep_leases), self.model.unsubscribe(key, keep_leases));
    }

    pub(super) fn credit(&mut self) {
        let (key, bounds) = (self.any_subscription(), self.any_bounds());
        say!(self, "credit {key:?} {bounds:?}");
        assert_eq!(self.dispatch.credit(key, bounds), self.model.credit(key, bounds));
    }

    pub(super) fn hear(&mut self) {
        let session = self.any_session();
        say!(self, "heard {session:?}");
        self.dispatch.heard(session);
        self.model.heard(session);
        self.covered.heard += 1;
    }

    pub(super) fn disconnect(&mut self) {
        if let Some(session) = self.dice.pick(&self.sessions).copied() {
            let graceful = self.dice.one_in(3);
            self.end_session(session, graceful);
        }
    }

    pub(super) fn end_session(&mut self, session: SessionId, graceful: bool) {
        say!(self, "disconnect {session:?}, graceful: {graceful}");
        self.sessions.retain(|other| *other != session);
        let given = self.dispatch.disconnect(&self.state, self.now, session, graceful);
        let expected = self.model.disconnect(self.now, session, graceful);
        self.covered.counted_disconnects += count(given.len());
        self.propose_all(given, &expected);
    }

    pub(super) fn deliver(&mut self) {
        while let Some(delivery) = self.dispatch.next_delivery(&self.state, self.now) {
            self.delivered(&delivery, false);
        }
        self.model.check_nothing_is_withheld(self.now);
        while let Some(reading) = self.dispatch.next_reading(&self.state) {
            say!(self, "read {} of {:?} by {:?}, skipped {}", reading.seq, reading.queue, reading.subscription, reading.skipped);
            self.model.reads(&reading);
            self.covered.read += 1;
            self.covered.missed += reading.skipped;
        }
        self.model.check_nothing_is_unread();
    }

    fn delivered(&mut self, delivery: &Delivery, asked: bool) {
        say!(self, "deliver {} #{} of {:?} to {:?}", delivery.seq, delivery.attempt, delivery.queue, delivery.subscription);
        self.model.delivered(self.now, delivery, !self.large || self.covered.delivered.is_multiple_of(32), asked);
        self.granted.push((delivery.subscription.session, delivery.lease_id));
        self.covered.delivered += 1;
        self.covered.redelivered += u64::from(delivery.attempt > 1);
        self.covered.skipped += delivery.skipped;
        let (is_alone, is_idle) = self.model.last_is_isolated();
        self.covered.isolated += u64::from(is_alone && is_idle);
        self.covered.isolated_late += u64::from(is_alone && !is_idle);
    }

    /// Somebody asks why a message does not move.
    pub(super) fn explain(&mut self) {
        let Some(key) = self.any_group() else { return };
        let seq = self.dice.within(0, self.model.queues[&key.queue].next_seq);
        self.model.check_explanation(&self.dispatch, &self.state, self.now, key, seq);
        self.covered.explained += 1;
    }

    /// A pull takes what is there; one that finds nothing may wait among the consumers.
    pub(super) fn pull(&mut self) {
        let Some(group) = self.any_group() else { return };
        let key = SubscriptionKey::pull(self.any_session(), self.next_pull);
        self.next_pull += 1;
        let bytes = if self.dice.one_in(6) { self.dice.within(1, 7_000) } else { u64::MAX };
        let bounds = Bounds { messages: self.dice.within_u32(1, 5), bytes };
        let visibility_timeout_ms = self.dice.within(1, 3_000);
        let subscribe = Subscribe { group, bounds, concurrency: self.dice.within_u32(1, 3), visibility_timeout_ms };
        let detached = self.dice.one_in(2);
        say!(self, "{key:?} pulls, detached: {detached}: {subscribe:?}");
        self.dispatch.open_pull(key, &subscribe, detached);
        self.model.open_as(key, &subscribe, Some(Pull { detached }));
        let mut taken = 0;
        while let Some(delivery) = self.dispatch.pull(&self.state, self.now, key) {
            assert_eq!(delivery.subscription, key, "a pull is answered with its own deliveries");
            self.delivered(&delivery, true);
            taken += 1;
        }
        self.covered.pulled += taken;
        if taken > 0 || self.dice.one_in(2) {
            self.close_pull(key);
        }
    }

    /// A pull that waited is answered.
    pub(super) fn answer_pull(&mut self) {
        let waiting: Vec<_> = self.model.subscriptions.iter().filter(|other| other.open && other.pull.is_some()).map(|s| s.key).collect();
        if let Some(key) = self.dice.pick(&waiting).copied() {
            self.close_pull(key);
        }
    }

    fn close_pull(&mut self, key: SubscriptionKey) {
        say!(self, "{key:?} is answered");
        assert!(self.dispatch.close_pull(key), "the pull was open");
        assert!(self.model.unsubscribe(key, true), "the pull was open");
    }

    pub(super) fn read(&mut self) {
        let Some(queue) = self.any_queue() else { return };
        let key = SubscriptionKey { session: self.any_session(), number: self.dice.within(1, 3) };
        let from = self.dice.within(0, self.model.queues[&queue].next_seq);
        let credit = self.any_bounds();
        let given = self.dispatch.read(key, queue, from, credit);
        say!(self, "{key:?} reads {queue:?} from {from} with {credit:?}: {given:?}");
        assert_eq!(given, self.model.read(key, queue, from, credit));
    }
}
