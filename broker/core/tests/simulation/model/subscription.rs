//! The rules of subscriptions: who takes how much, and what becomes of what they hold when they go.

use qwerq_core::dispatch::{Bounds, GroupKey, Subscribe};
use qwerq_core::entry::Cause;
use qwerq_core::{Millis, Rejection, SessionId, SubscriptionKey};

use super::group::Idle;
use super::{Expected, Lease, Model};

pub(crate) struct Subscription {
    pub(crate) key: SubscriptionKey,
    /// Tells this one from a later one of the same number.
    pub(crate) serial: u64,
    pub(crate) group: GroupKey,
    pub(crate) bounds: Bounds,
    concurrency: u32,
    pub(crate) visibility_timeout_ms: u64,
    pub(crate) open: bool,
    /// It is answered once, in one frame.
    pub(crate) pull: Option<Pull>,
    /// A lease expired; nothing more until the connection shows a sign of life.
    pub(crate) silent: bool,
}

/// How a subscription differs that takes what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pull {
    /// Its leases belong to no connection.
    pub(crate) detached: bool,
}

impl Subscription {
    pub(super) fn is_detached(&self) -> bool {
        self.pull.is_some_and(|pull| pull.detached)
    }

    /// A pull may be full before its bounds say so: when something did not fit.
    fn may_be_full(&self) -> bool {
        self.pull.is_some() && self.bounds.bytes != u64::MAX
    }
}

impl Model {
    pub(crate) fn open(&self, key: SubscriptionKey) -> Option<&Subscription> {
        self.subscriptions.iter().find(|subscription| subscription.key == key && subscription.open)
    }

    fn open_mut(&mut self, key: SubscriptionKey) -> Option<&mut Subscription> {
        self.subscriptions.iter_mut().find(|subscription| subscription.key == key && subscription.open)
    }

    pub(crate) fn consumers(&self, key: GroupKey) -> usize {
        self.subscriptions.iter().filter(|subscription| subscription.open && subscription.group == key).count()
    }

    fn use_changed(&mut self, key: GroupKey) {
        self.queues.get_mut(&key.queue).unwrap().groups.get_mut(&key.group).unwrap().idle = Idle::Unknown;
    }

    pub(crate) fn subscribe(&mut self, key: SubscriptionKey, subscribe: &Subscribe) -> Result<(), Rejection> {
        if self.open(key).is_some() || self.is_reader(key) {
            return Err(Rejection::SubscriptionExists { number: key.number });
        }
        self.open_as(key, subscribe, None);
        Ok(())
    }

    pub(crate) fn open_as(&mut self, key: SubscriptionKey, subscribe: &Subscribe, pull: Option<Pull>) {
        let serial = self.next_serial;
        self.next_serial += 1;
        let Subscribe { group, bounds, concurrency, visibility_timeout_ms } = *subscribe;
        let (open, silent) = (true, false);
        self.subscriptions.push(Subscription { key, serial, group, bounds, concurrency, visibility_timeout_ms, open, pull, silent });
        self.use_changed(group);
        let may_be_full = self.subscriptions.last().unwrap().may_be_full();
        self.queues.get_mut(&group.queue).unwrap().groups.get_mut(&group.group).unwrap().blurred |= may_be_full;
    }

    pub(crate) fn credit(&mut self, key: SubscriptionKey, bounds: Bounds) -> bool {
        self.open_mut(key).map(|subscription| subscription.bounds = bounds).is_some() || self.grant(key, bounds)
    }

    /// Releases what the subscription holds, or lets it run on.
    pub(crate) fn unsubscribe(&mut self, key: SubscriptionKey, keep_leases: bool) -> bool {
        let Some(subscription) = self.open_mut(key) else { return self.close_reader(key) };
        subscription.open = false;
        let (serial, group) = (subscription.serial, subscription.group);
        self.use_changed(group);
        if !keep_leases {
            self.leases.retain(|lease| lease.serial != serial || lease.settling);
        }
        true
    }

    /// Ends every lease of the connection but detached ones; the oldest `concurrency` of each subscription count, unless it said goodbye.
    pub(crate) fn disconnect(&mut self, now: Millis, session: SessionId, graceful: bool) -> Vec<Expected> {
        let mut expected = Vec::new();
        let gone = self.subscriptions.iter().filter(|subscription| subscription.key.session == session);
        let gone: Vec<_> = gone.map(|s| (s.serial, s.concurrency, s.open.then_some(s.group), s.is_detached())).collect();
        self.readers.retain(|reader| reader.key.session != session);
        for (serial, concurrency, open, is_detached) in gone {
            if let Some(group) = open {
                self.use_changed(group);
            }
            let ends = |lease: &&Lease| lease.serial == serial && !lease.settling && !is_detached;
            let held: Vec<_> = self.leases.iter().filter(ends).map(|lease| lease.id).collect();
            for (nth, id) in (0_u32..).zip(held) {
                if nth < concurrency && !graceful {
                    expected.push(self.end_attempt(id, Cause::Disconnected, now, now..=now, ""));
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

    /// Messages and bytes that a subscription holds.
    pub(super) fn held(&self, subscription: &Subscription) -> (u32, u64) {
        let held = || self.leases.iter().filter(|lease| lease.serial == subscription.serial);
        (u32::try_from(held().count()).unwrap(), held().map(|lease| u64::from(lease.size)).sum())
    }

    /// Consumers of the group that take a message now, for sure.
    pub(super) fn willing(&self, key: GroupKey) -> impl Iterator<Item = &Subscription> {
        self.subscriptions.iter().filter(move |other| other.group == key && self.may_take(other) && !other.may_be_full())
    }

    /// Whether a subscription takes a message.
    pub(super) fn may_take(&self, subscription: &Subscription) -> bool {
        let (messages, bytes) = self.held(subscription);
        subscription.open
            && !subscription.silent
            && !self.leases.iter().any(|lease| lease.serial == subscription.serial && lease.alone)
            && messages < subscription.bounds.messages
            && bytes < subscription.bounds.bytes
    }
}
