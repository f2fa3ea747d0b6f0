//! Consuming a queue: options, and the subscription that yields deliveries. It survives reconnects; its leases do not.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use qwerq_proto::wire;

use crate::allowance::Allowance;
use crate::client::Client;
use crate::delivery::Delivery;
use crate::error::Error;
use crate::feed::Feed;
use crate::wire_time::{epoch_millis, millis};

/// How to consume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsumeOptions {
    /// The consumer group. Empty: `default` on a queue; no group, a reader of its own, on a stream.
    pub group: String,
    /// Unsettled messages at most. 0: 32.
    pub prefetch: u32,
    /// Unsettled payload bytes at most. 0: 16 MiB.
    pub prefetch_bytes: u64,
    /// Messages worked on at once; only the oldest so many count an attempt when the connection is lost. 0: 1.
    pub concurrency: u32,
    /// How long a lease lasts between renewals. `None`: as the queue says.
    pub visibility_timeout: Option<Duration>,
    /// Where a new group, or a reader without one, begins.
    pub start_at: Option<StartAt>,
    /// Follow the tail without a group and without leases.
    pub tail: bool,
    /// The fingerprint of the contract that the consumer was generated from.
    pub contract: Option<[u8; 32]>,
}

impl ConsumeOptions {
    /// The queue's default group, prefetch 32, one message at a time.
    #[must_use]
    pub fn new() -> ConsumeOptions {
        ConsumeOptions::default()
    }

    /// Consumes in that group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> ConsumeOptions {
        self.group = group.into();
        self
    }

    /// Holds at most so many unsettled messages.
    #[must_use]
    pub fn prefetch(mut self, messages: u32) -> ConsumeOptions {
        self.prefetch = messages;
        self
    }

    /// Holds at most so many unsettled payload bytes.
    #[must_use]
    pub fn prefetch_bytes(mut self, bytes: u64) -> ConsumeOptions {
        self.prefetch_bytes = bytes;
        self
    }

    /// Says how many messages are worked on at once.
    #[must_use]
    pub fn concurrency(mut self, messages: u32) -> ConsumeOptions {
        self.concurrency = messages;
        self
    }

    /// Sets how long a lease lasts between renewals.
    #[must_use]
    pub fn visibility_timeout(mut self, timeout: Duration) -> ConsumeOptions {
        self.visibility_timeout = Some(timeout);
        self
    }

    /// Says where a new group, or a reader without one, begins.
    #[must_use]
    pub fn start_at(mut self, start: StartAt) -> ConsumeOptions {
        self.start_at = Some(start);
        self
    }

    /// Follows the tail without a group and without leases.
    #[must_use]
    pub fn tail(mut self) -> ConsumeOptions {
        self.tail = true;
        self
    }

    /// CONSUME; a reader that keeps its own position goes on at `position` after a reconnect.
    pub(crate) fn to_wire(&self, number: u32, queue: &str, serve: bool, position: Option<u64>) -> wire::Consume {
        let own_position = position.filter(|_| self.tail || self.group.is_empty());
        let start_at = own_position.map(StartAt::Offset).or(self.start_at);
        let role = match (serve, self.tail) {
            (true, _) => wire::Role::Serve,
            (false, true) => wire::Role::Tail,
            (false, false) => wire::Role::Consume,
        };
        wire::Consume {
            subscription: number,
            queue: queue.to_owned(),
            group: self.group.clone(),
            prefetch: self.prefetch,
            prefetch_bytes: self.prefetch_bytes,
            concurrency: self.concurrency,
            visibility_timeout_ms: self.visibility_timeout.map(millis).unwrap_or_default(),
            start_at: start_at.map(StartAt::into_wire),
            role: role.into(),
            contract: self.contract.map_or_else(Bytes::new, |contract| Bytes::copy_from_slice(&contract)),
        }
    }
}

/// Where a group or a reader begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// With the oldest message that is there.
    Beginning,
    /// With the next message that is published.
    End,
    /// With that seq or offset.
    Offset(u64),
    /// With the first message published at or after that time.
    Time(SystemTime),
}

impl StartAt {
    pub(crate) fn into_wire(self) -> wire::StartAt {
        use wire::start_at::At;
        let at = match self {
            StartAt::Beginning => At::Beginning(true),
            StartAt::End => At::End(true),
            StartAt::Offset(offset) => At::Offset(offset),
            StartAt::Time(time) => At::TimeMs(epoch_millis(time)),
        };
        wire::StartAt { at: Some(at) }
    }
}

/// An open subscription. It is opened again after every reconnect; deliveries of the lost connection that nobody has taken yet vanish
/// from it, since their leases have ended.
///
/// Dropping it unsubscribes as [`Subscription::drain`] does, without waiting.
#[derive(Debug)]
pub struct Subscription {
    client: Client,
    feed: Arc<Feed<Delivery>>,
    group: String,
    group_existed: bool,
    ready: VecDeque<Delivery>,
    allowance: Allowance,
    /// Unsubscribed, or ended by the broker.
    over: bool,
}

impl Subscription {
    /// The subscription exists before the broker has agreed, so that a dropped future unsubscribes.
    pub(crate) async fn open(client: &Client, feed: Arc<Feed<Delivery>>, options: ConsumeOptions) -> Result<Subscription, Error> {
        let mut subscription = Subscription {
            client: client.clone(),
            feed: Arc::clone(&feed),
            group: String::new(),
            group_existed: false,
            ready: VecDeque::new(),
            allowance: Allowance::new(options.prefetch, options.prefetch_bytes),
            over: false,
        };
        match client.open_consume(feed, options).await {
            Ok(ack) => {
                subscription.group = ack.group;
                subscription.group_existed = ack.group_existed;
                Ok(subscription)
            }
            Err(error) => {
                subscription.over = true;
                Err(error)
            }
        }
    }

    /// The queue's name.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.feed.queue
    }

    /// The group that it consumes in, as the broker says; empty for a reader without one.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The group was there before, so `start_at` was ignored.
    #[must_use]
    pub fn group_existed(&self) -> bool {
        self.group_existed
    }

    /// The next delivery. `None` when the subscription has ended; before that, once, the error that ended it, if any. A lost connection
    /// is not an end. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Delivery, Error>> {
        loop {
            while let Some(delivery) = self.ready.pop_front() {
                if !delivery.is_stale() {
                    self.allowance.take(&delivery);
                    self.replenish(false);
                    return Some(Ok(delivery));
                }
            }
            if let Err(error) = self.refill().await? {
                return Some(Err(error));
            }
        }
    }

    /// Appends all deliveries that are there, waiting for the first; returns how many. `None` and errors as with
    /// [`Subscription::next`]. Cancel safe.
    pub async fn next_batch(&mut self, into: &mut Vec<Delivery>) -> Option<Result<usize, Error>> {
        let before = into.len();
        loop {
            into.extend(self.ready.drain(..).filter(|delivery| !delivery.is_stale()));
            if into.len() > before {
                into[before..].iter().for_each(|delivery| self.allowance.take(delivery));
                self.replenish(false);
                return Some(Ok(into.len() - before));
            }
            if let Err(error) = self.refill().await? {
                return Some(Err(error));
            }
        }
    }

    async fn refill(&mut self) -> Option<Result<(), Error>> {
        self.replenish(true);
        let refilled = std::future::poll_fn(|cx| self.feed.poll_take(&mut self.ready, cx)).await;
        self.over |= !matches!(refilled, Some(Ok(())));
        refilled
    }

    /// Ends the subscription. All leases that came by it are released without counting an attempt, those of deliveries that are being
    /// worked on too: settle these first, or use [`Subscription::drain`]. Settlements noted so far are sent before.
    ///
    /// # Errors
    /// [`Error::Disconnected`] or [`Error::Closed`]; the leases have ended then as well.
    pub async fn close(mut self) -> Result<(), Error> {
        self.ready.clear();
        self.unsubscribe(false).await
    }

    /// Ends the subscription, but lets deliveries that were handed out keep their leases until they are settled or dropped.
    ///
    /// # Errors
    /// [`Error::Disconnected`] or [`Error::Closed`]; the leases have ended then.
    pub async fn drain(mut self) -> Result<(), Error> {
        self.release_ready();
        self.unsubscribe(true).await
    }

    /// Changes how much the subscription may hold; 0 messages pause it.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn set_prefetch(&self, messages: u32, bytes: u64) -> Result<(), Error> {
        self.allowance.set(messages, bytes);
        self.client.credit(self.feed.number, messages, bytes)
    }

    /// Lets the broker go on sending what needs no settlement.
    fn replenish(&mut self, about_to_wait: bool) {
        if let Some((messages, bytes)) = self.allowance.due(about_to_wait) {
            // A closed client sends nothing more, and the feed says so.
            let _ = self.client.credit(self.feed.number, messages, bytes);
        }
    }

    async fn unsubscribe(&mut self, keep_leases: bool) -> Result<(), Error> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        self.client.unsubscribe(self.feed.number, keep_leases).await
    }

    fn release_ready(&mut self) {
        for delivery in self.ready.drain(..).chain(self.feed.clear()) {
            // A stale lease is as good as a released one.
            let _ = delivery.release();
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.release_ready();
        if !self.over {
            self.client.unsubscribe_and_forget(self.feed.number);
        }
    }
}
