//! Consumers: they come, take what they can get, change their bounds, fall silent and go.

use qwerq_core::dispatch::{Bounds, Subscribe};
use qwerq_core::{SessionId, SubscriptionKey};

use super::{World, count};

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
        let open: Vec<_> = self.model.subscriptions.iter().filter(|subscription| subscription.open).map(|s| s.key).collect();
        let none = SubscriptionKey { session: SessionId(0), number: 1 };
        if self.dice.one_in(20) { none } else { self.dice.pick(&open).copied().unwrap_or(none) }
    }

    pub(super) fn subscribe(&mut self) {
        let Some(group) = self.any_group() else { return };
        let key = SubscriptionKey { session: self.any_session(), number: self.dice.within_u32(1, 3) };
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
            say!(self, "deliver {} #{} of {:?} to {:?}", delivery.seq, delivery.attempt, delivery.queue, delivery.subscription);
            self.model.delivered(self.now, &delivery, !self.large || self.covered.delivered.is_multiple_of(32));
            self.granted.push((delivery.subscription.session, delivery.lease_id));
            self.covered.delivered += 1;
            self.covered.redelivered += u64::from(delivery.attempt > 1);
            self.covered.skipped += delivery.skipped;
        }
        self.model.check_nothing_is_withheld(self.now);
    }
}
