//! What a handler may know and do about the message that it works on, beside the message itself. Does not settle it: that follows from
//! what the handler returns; see `attempt`.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::Instant;

use crate::app::stop::Stop;
use crate::delivery::Delivery;
use crate::error::Error;
use crate::id::MessageId;
use crate::ledger::{Lease, Settlement};
use crate::lock::Lock;
use crate::message::Headers;
use crate::worker::failure::Failure;
use crate::worker::state::{MissingState, States};

/// One attempt at one message. Cheap to clone.
///
/// The lease is renewed for as long as the handler runs; nobody has to ask for it.
#[derive(Clone)]
pub struct Ctx {
    attempt: Arc<Attempt>,
}

struct Attempt {
    delivery: Delivery,
    group: Arc<str>,
    /// Taken when the message is settled.
    lease: Lock<Option<Lease>>,
    until: Option<Instant>,
    states: Arc<States>,
    stop: Stop,
}

impl Ctx {
    pub(crate) fn new(mut delivery: Delivery, group: Arc<str>, states: Arc<States>, stop: Stop) -> Ctx {
        let lease = delivery.take_lease();
        let until = lease.as_ref().map(Lease::renewed_until);
        Ctx { attempt: Arc::new(Attempt { delivery, group, lease: Lock::new(lease), until, states, stop }) }
    }

    /// The queue that the message came from.
    #[must_use]
    pub fn queue(&self) -> &str {
        self.attempt.delivery.queue()
    }

    /// The consumer group; empty for a reader without one.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.attempt.group
    }

    /// The message's id.
    #[must_use]
    pub fn id(&self) -> MessageId {
        self.attempt.delivery.id
    }

    /// The message's position in the queue.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.attempt.delivery.seq
    }

    /// Which delivery of this message to this group it is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt.delivery.attempt
    }

    /// When the broker accepted the message.
    #[must_use]
    pub fn published_at(&self) -> SystemTime {
        self.attempt.delivery.published_at
    }

    /// The message's headers.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.attempt.delivery.headers
    }

    /// The message's payload, byte for byte as it was published.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.attempt.delivery.payload
    }

    /// The version of the contract that the message was accepted under; 0 on a queue without one.
    #[must_use]
    pub fn schema_version(&self) -> u32 {
        self.attempt.delivery.schema_version
    }

    /// The message's ordering key.
    #[must_use]
    pub fn ordering_key(&self) -> Option<&str> {
        self.attempt.delivery.ordering_key.as_deref()
    }

    /// Streams: so many messages before this one were removed by retention before the group saw them.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.attempt.delivery.skipped
    }

    /// How much longer the lease is renewed ([`ClientBuilder::max_lease`](crate::ClientBuilder::max_lease)). After it the message goes to
    /// somebody else, whatever the handler does.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.attempt.until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Whether the lease has ended already, so that the message is delivered again: its connection was lost, or its time is over. A
    /// handler whose work is not safe to do twice at once may want to look before it goes on.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.attempt.lease.lock().as_ref().is_some_and(Lease::is_lost)
    }

    /// Makes the lease end `length` from now, and every renewal as long. Only for hints to the broker: the lease is renewed by itself.
    ///
    /// # Errors
    /// `stale-lease`, or [`Error::Disconnected`] when the connection was lost before the answer.
    pub async fn extend(&self, length: Duration) -> Result<(), Error> {
        let confirmation = match &*self.attempt.lease.lock() {
            Some(lease) => lease.extend(length)?,
            None => return Ok(()),
        };
        confirmation.wait().await
    }

    /// Whether the app is stopping. What runs is finished; a handler of long work may return early instead.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.attempt.stop.is_stopping()
    }

    /// Waits until the app is stopping.
    pub async fn stopping(&self) {
        self.attempt.stop.stopping().await;
    }

    pub(crate) fn states(&self) -> &States {
        &self.attempt.states
    }

    /// Says what becomes of the message; later words are not heard. Returns whether these were.
    pub(crate) fn settle(&self, settlement: Settlement) -> Result<bool, Error> {
        let lease = self.attempt.lease.lock().take();
        lease.map_or(Ok(false), |lease| lease.settle(settlement).map(|()| true))
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("delivery", &self.attempt.delivery).field("group", &self.attempt.group).finish_non_exhaustive()
    }
}

/// An argument of a consumer after the message: [`Ctx`], [`State`](crate::State), [`Headers`], or what users make of these.
///
/// ```
/// use qwerq::{Ctx, Failure, FromCtx};
///
/// struct Tenant(String);
///
/// impl FromCtx for Tenant {
///     fn from_ctx(ctx: &Ctx) -> Result<Tenant, Failure> {
///         let tenant = ctx.headers().get("tenant").ok_or_else(|| Failure::reject("no header `tenant`"))?;
///         Ok(Tenant(tenant.to_owned()))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a consumer",
    label = "not an argument that can be made from a delivery",
    note = "after the message come `Ctx`, `State<T>`, `Headers`, and types that implement `qwerq::FromCtx`"
)]
pub trait FromCtx: Sized {
    /// Makes it for one attempt; a failure is the attempt's.
    ///
    /// # Errors
    /// What should become of a message for which it cannot be made.
    fn from_ctx(ctx: &Ctx) -> Result<Self, Failure>;

    /// Whether the app has what this needs; asked once, before anything is consumed.
    ///
    /// # Errors
    /// The state that is missing.
    fn check(states: &States) -> Result<(), MissingState> {
        let _ = states;
        Ok(())
    }
}

impl FromCtx for Ctx {
    fn from_ctx(ctx: &Ctx) -> Result<Ctx, Failure> {
        Ok(ctx.clone())
    }
}

impl FromCtx for Headers {
    fn from_ctx(ctx: &Ctx) -> Result<Headers, Failure> {
        Ok(ctx.headers().clone())
    }
}
