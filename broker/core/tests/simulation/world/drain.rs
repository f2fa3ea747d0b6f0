//! The end of every seed: consumers come for everything. Whatever was committed and not settled arrives, and nothing is left.

use qwerq_core::Millis;
use qwerq_core::dispatch::{Bounds, Subscribe};
use qwerq_core::options::Mode;
use qwerq_core::{SessionId, SubscriptionKey};

use super::World;

/// Longer than any delay that the dice give.
const LONG_MS: Millis = 1_000_000;
/// Rounds without a delivery: a message may still have to fall due, and its end to become durable.
const IDLE_ROUNDS_MAX: u32 = 5;

impl World {
    pub(super) fn drain(&mut self) {
        say!(self, "drain");
        for session in self.sessions.clone() {
            self.end_session(session, true);
        }
        self.commit();
        self.commit();
        for queue in self.model.queues.keys().copied().collect::<Vec<_>>() {
            let body = self.state.create_group(queue, "drain", 0);
            self.enter(body);
            self.commit();
        }
        let session = self.any_session();
        let mut idle = 0;
        while self.is_anything_left() {
            self.join_all(session);
            self.deliver();
            let leases: Vec<_> = self.model.leases.iter().map(|lease| (lease.owner.unwrap_or(session), lease.id)).collect();
            idle = if leases.is_empty() { idle + 1 } else { 0 };
            assert!(idle < IDLE_ROUNDS_MAX, "committed messages are never delivered");
            leases.into_iter().for_each(|(session, id)| self.ack(session, id));
            self.commit();
            self.now += LONG_MS / 10;
            self.tick();
            self.check();
        }
        self.model.check_state(&self.state);
        for queue in self.state.queues().filter(|queue| queue.options.mode == Mode::Queue && !queue.groups().is_empty()) {
            assert_eq!((queue.stored_messages(), queue.stored_bytes()), (0, 0), "everything is settled, so `{}` is empty", queue.name);
        }
    }

    fn is_anything_left(&self) -> bool {
        self.model.group_keys().into_iter().any(|key| self.model.lag(key) > 0)
            || self.model.queues.values().any(|queue| !queue.delayed.is_empty())
    }

    /// Groups come into being while the last messages move.
    fn join_all(&mut self, session: SessionId) {
        for (number, group) in (100..).zip(self.model.group_keys()) {
            let taken = self.model.subscriptions.iter().any(|subscription| subscription.group == group);
            if !taken {
                let key = (number..).map(|number| SubscriptionKey { session, number }).find(|key| self.model.open(*key).is_none());
                let key = key.expect("numbers do not run out");
                let bounds = Bounds { messages: 1_000, bytes: u64::MAX };
                let subscribe = Subscribe { group, bounds, concurrency: 1, visibility_timeout_ms: LONG_MS };
                assert_eq!(self.dispatch.subscribe(key, &subscribe), self.model.subscribe(key, &subscribe));
            }
        }
    }
}
