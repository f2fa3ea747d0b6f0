//! Pulls: subscriptions that take what is there, up to a bound, are answered once and then closed, while their leases run on.
//!
//! A pull that has to wait stands among its group's consumers until something comes. How long it waits, and what the answer looks like,
//! is the shell's.

use crate::dispatch::subscription::Subscription;
use crate::dispatch::{Delivery, Dispatch, Subscribe};
use crate::ids::{Millis, SubscriptionKey};
use crate::state::State;

impl Dispatch {
    /// Opens a pull on an existing group, under a key that was never used. Its bounds are those of the answer: messages at most, and
    /// bytes with all that a frame needs beside payloads and headers; only a first message may exceed them. `detached`: its leases
    /// belong to no connection, and whoever has the id may settle them.
    pub fn open_pull(&mut self, key: SubscriptionKey, subscribe: &Subscribe, detached: bool) {
        debug_assert!(key.is_pull() && !self.subscriptions.contains_key(&key), "the shell counts pulls");
        self.open(key, Subscription::pull(subscribe, detached));
    }

    /// The next message that a pull can have now, whoever else is waiting. A suspect it gets alone.
    pub fn pull(&mut self, state: &State, now: Millis, key: SubscriptionKey) -> Option<Delivery> {
        let subscription = self.subscriptions.get(&key).filter(|subscription| subscription.has_credit())?;
        let (group, is_idle) = (subscription.group, subscription.in_flight == 0);
        if !is_idle {
            return self.deliver_to(state, now, group, key);
        }
        self.isolate_to(state, now, group, key).or_else(|| self.deliver_to(state, now, group, key))
    }

    /// Closes a pull; what it leased runs on. Says whether it was open.
    pub fn close_pull(&mut self, key: SubscriptionKey) -> bool {
        if self.subscriptions.get(&key).is_some_and(Subscription::is_detached) {
            return self.close(key).is_some();
        }
        self.unsubscribe(key, true)
    }
}
