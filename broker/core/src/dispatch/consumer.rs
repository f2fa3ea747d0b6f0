//! Who consumes, for operators: every open subscription, waiting pull and reader, with what it holds.

use crate::dispatch::{Bounds, Dispatch};
use crate::ids::{GroupId, QueueId, SubscriptionKey};

/// A consumer of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consumer {
    /// The connection and its number there.
    pub subscription: SubscriptionKey,
    /// From which queue.
    pub queue: QueueId,
    /// For which group; `None`: it reads without one.
    pub group: Option<GroupId>,
    /// What it may hold; of a reader, what is left of its last grant.
    pub bounds: Bounds,
    /// Messages that it works on at once; of a reader 0.
    pub concurrency: u32,
    /// Messages that it holds.
    pub in_flight: u32,
    /// A lease of it expired, so it gets nothing until its connection shows a sign of life.
    pub silent: bool,
}

impl Dispatch {
    /// Every consumer, by connection.
    pub fn consumers(&self) -> impl Iterator<Item = Consumer> {
        let subscriptions = self.subscriptions.iter().map(|(key, subscription)| Consumer {
            subscription: *key,
            queue: subscription.group.queue,
            group: Some(subscription.group.group),
            bounds: subscription.bounds,
            concurrency: subscription.concurrency,
            in_flight: subscription.in_flight,
            silent: subscription.silent,
        });
        subscriptions.chain(self.readers.all())
    }
}
