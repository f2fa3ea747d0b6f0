//! A message on loan: its contents, and what its holder says about it in the end.
//!
//! The loan itself is kept in `ledger`; dropping an unsettled delivery leaves the message to its lease.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::arrival::Arrival;
use crate::error::Error;
use crate::id::MessageId;
use crate::ledger::Lease;
pub use crate::ledger::{LeaseId, Settlement};
use crate::message::Headers;
use crate::wire_time::from_epoch_millis;

/// A message that this consumer holds a lease on. Settle it: [`ack`](Delivery::ack), [`nack`](Delivery::nack),
/// [`reject`](Delivery::reject) or [`release`](Delivery::release).
///
/// While it lives, the client renews its lease. Dropped unsettled it is left to the lease: it occupies a place of the prefetch until
/// the visibility timeout ends it, and then an attempt is counted.
///
/// The payload shares memory with what was read from the socket together with it (up to 64 KiB, or its frame); keep a copy of small payloads
/// that you keep for long.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "an unsettled delivery comes back when its lease ends"]
pub struct Delivery {
    /// The message's id.
    pub id: MessageId,
    /// Its position in the queue.
    pub seq: u64,
    /// Which delivery of this message to this group it is, from 1.
    pub attempt: u32,
    /// When the broker accepted it.
    pub published_at: SystemTime,
    /// Its headers.
    pub headers: Headers,
    /// Its payload, byte for byte as it was published.
    pub payload: Bytes,
    /// The version of the contract that it was accepted under; 0 on a queue without one.
    pub schema_version: u32,
    /// Its ordering key.
    pub ordering_key: Option<String>,
    /// Streams: so many messages before this one were removed by retention before the group saw them.
    pub skipped: u64,
    queue: Arc<str>,
    lease: Option<Lease>,
}

impl Delivery {
    pub(crate) fn new(queue: Arc<str>, arrival: Arrival, lease: Option<Lease>) -> Delivery {
        Delivery {
            id: arrival.id,
            seq: arrival.seq,
            attempt: arrival.attempt,
            published_at: from_epoch_millis(arrival.published_at_ms),
            headers: Headers::from_wire(arrival.headers),
            payload: arrival.payload,
            schema_version: arrival.schema_version,
            ordering_key: arrival.ordering_key,
            skipped: arrival.skipped,
            queue,
            lease,
        }
    }

    /// Takes the lease out, so that facts and lease can go separate ways.
    pub(crate) fn take_lease(&mut self) -> Option<Lease> {
        self.lease.take()
    }

    /// The queue that it came from.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The lease's id; none for a reader that follows the tail.
    #[must_use]
    pub fn lease_id(&self) -> Option<&LeaseId> {
        self.lease.as_ref().map(Lease::id)
    }

    /// Whether the lease is known to have ended: with its connection, its subscription, or by being refused.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_lost)
    }

    /// The message is done. Rides in a shared frame; does not wait for the broker.
    ///
    /// # Errors
    /// `stale-lease` when the lease is known to have ended; the message is delivered again.
    pub fn ack(self) -> Result<(), Error> {
        self.settle(Settlement::Ack)
    }

    /// The message is done; returns when that is durable.
    ///
    /// # Errors
    /// `stale-lease`, or [`Error::Disconnected`] when the connection was lost before the confirmation.
    pub async fn ack_confirmed(self) -> Result<(), Error> {
        self.settle_confirmed(Settlement::Ack).await
    }

    /// The attempt failed; the message comes again after the queue's backoff.
    ///
    /// # Errors
    /// `stale-lease` when the lease is known to have ended.
    pub fn nack(self) -> Result<(), Error> {
        self.settle(Settlement::Nack { delay: None, reason: String::new() })
    }

    /// The attempt failed; the message comes again after `delay`.
    ///
    /// # Errors
    /// `stale-lease` when the lease is known to have ended.
    pub fn nack_after(self, delay: Duration) -> Result<(), Error> {
        self.settle(Settlement::Nack { delay: Some(delay), reason: String::new() })
    }

    /// The message is hopeless: to failure handling at once, with a reason for whoever looks at the dead letter.
    ///
    /// # Errors
    /// `stale-lease` when the lease is known to have ended.
    pub fn reject(self, reason: impl Into<String>) -> Result<(), Error> {
        self.settle(Settlement::Reject { reason: reason.into() })
    }

    /// Gives the message back as if it had not been delivered.
    ///
    /// # Errors
    /// `stale-lease` when the lease is known to have ended.
    pub fn release(self) -> Result<(), Error> {
        self.settle(Settlement::Release)
    }

    /// Any of the above.
    ///
    /// # Errors
    /// `stale-lease` when the lease is known to have ended.
    pub fn settle(mut self, settlement: Settlement) -> Result<(), Error> {
        match self.lease.take() {
            Some(lease) => lease.settle(settlement),
            None => Ok(()),
        }
    }

    /// Any of the above; returns when it is durable.
    ///
    /// # Errors
    /// `stale-lease`, or [`Error::Disconnected`] when the connection was lost before the confirmation.
    pub async fn settle_confirmed(mut self, settlement: Settlement) -> Result<(), Error> {
        match self.lease.take() {
            Some(lease) => lease.settle_confirmed(settlement)?.wait().await,
            None => Ok(()),
        }
    }

    /// Makes the lease end `length` from now. Only for hints to the broker: the client renews by itself for as long as the delivery
    /// lives.
    ///
    /// # Errors
    /// `stale-lease`, or [`Error::Disconnected`] when the connection was lost before the answer.
    pub async fn extend(&self, length: Duration) -> Result<(), Error> {
        match &self.lease {
            Some(lease) => lease.extend(length)?.wait().await,
            None => Ok(()),
        }
    }
}

/// A stored message that somebody looked at without leasing it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peeked {
    /// The message's id.
    pub id: MessageId,
    /// Its position in the queue.
    pub seq: u64,
    /// When the broker accepted it.
    pub published_at: SystemTime,
    /// Its headers.
    pub headers: Headers,
    /// Its payload.
    pub payload: Bytes,
    /// The version of the contract that it was accepted under; 0 on a queue without one.
    pub schema_version: u32,
    /// Its ordering key.
    pub ordering_key: Option<String>,
}

impl Peeked {
    pub(crate) fn new(arrival: Arrival) -> Peeked {
        Peeked {
            id: arrival.id,
            seq: arrival.seq,
            published_at: from_epoch_millis(arrival.published_at_ms),
            headers: Headers::from_wire(arrival.headers),
            payload: arrival.payload,
            schema_version: arrival.schema_version,
            ordering_key: arrival.ordering_key,
        }
    }
}
