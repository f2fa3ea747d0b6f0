//! Request and reply through a queue: `call` asks, `serve` answers. Nothing is stored; deadlines end everything.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use qwerq_proto::{ErrorCode, Opcode, wire};
use tokio::time::Instant;

use crate::client::Client;
use crate::error::Error;
use crate::feed::Feed;
use crate::message::{Headers, Message};
use crate::request::Repeat;

/// How to serve calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServeOptions {
    /// Calls that this responder takes on at once. 0: 32.
    pub concurrency: u32,
    /// The fingerprint of the contract that the responder was generated from.
    pub contract: Option<[u8; 32]>,
}

impl ServeOptions {
    /// Calls at once, with the default put in.
    pub(crate) fn at_once(&self) -> usize {
        let concurrency = if self.concurrency == 0 { CONCURRENCY_DEFAULT } else { self.concurrency };
        concurrency as usize
    }
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replied {
    /// The reply's payload.
    pub payload: Bytes,
    /// The reply's headers.
    pub headers: Headers,
    /// The version of the contract that accepted the reply; 0 on a queue without one.
    pub schema_version: u32,
}

/// Calls that a responder takes on at once that does not say; the broker's default.
pub(crate) const CONCURRENCY_DEFAULT: u32 = 32;

/// How long a call waits that does not say; the broker's default.
pub(crate) const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// The longest that the broker lets a call wait.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How much longer than the deadline a caller waits for the broker's word on it, which says more than silence does.
const LAST_WORD: Duration = Duration::from_millis(250);

impl Client {
    /// Asks whoever serves `queue` and waits for the reply, at most `timeout` and a moment for the broker to say that it has passed. 0 is
    /// the broker's 30 s. Dropping the future cancels the call.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with `no-responders`, `responder-lost`, `overloaded` or `timeout`; [`Error::Refused`] when request or reply
    /// break the contract, or with what the responder answered.
    pub async fn call(&self, queue: &str, request: Message, timeout: Duration) -> Result<Replied, Error> {
        self.call_under(queue, None, request, timeout).await
    }

    pub(crate) async fn call_under(
        &self,
        queue: &str,
        contract: Option<[u8; 32]>,
        request: Message,
        timeout: Duration,
    ) -> Result<Replied, Error> {
        self.check_size(&request)?;
        let call = wire::Call {
            queue: queue.to_owned(),
            payload: request.payload,
            headers: request.options.headers.into_wire(),
            timeout_ms: crate::wire_time::millis(timeout.min(TIMEOUT_MAX)),
            contract: contract.map_or_else(Bytes::new, |contract| Bytes::copy_from_slice(&contract)),
            ..wire::Call::default()
        };
        let asking = self.request::<wire::CallResponse>(Opcode::Call, &call, Opcode::CallResponse, Repeat::Unsafe);
        let patience = if timeout.is_zero() { TIMEOUT_DEFAULT } else { timeout };
        let response = tokio::time::timeout(patience + LAST_WORD, asking).await.unwrap_or_else(|_| {
            let text = format!("neither a responder of queue {queue} nor the broker replied within {patience:?}");
            Err(Error::local(ErrorCode::Timeout, text))
        })?;
        match response.error {
            Some(error) => Err(error.into()),
            None => Ok(Replied {
                payload: response.payload,
                headers: Headers::from_wire(response.headers),
                schema_version: response.schema_version,
            }),
        }
    }

    /// Serves the calls of a queue, which need not exist: nothing is stored.
    ///
    /// # Errors
    /// `reply-type-missing`; in strict mode also `contract-required`; see [`Error`].
    pub async fn serve(&self, queue: &str, options: ServeOptions) -> Result<Responder, Error> {
        Responder::open(self, queue, options).await
    }
}

/// Yields the calls of a queue. It is opened again after every reconnect; calls of the lost connection vanish from it, their callers have
/// been told.
#[derive(Debug)]
pub struct Responder {
    client: Client,
    feed: Arc<Feed<Call>>,
    ready: VecDeque<Call>,
    over: bool,
}

impl Responder {
    async fn open(client: &Client, queue: &str, options: ServeOptions) -> Result<Responder, Error> {
        let feed = Arc::new(Feed::new(client.next_subscription(), queue.into()));
        let mut responder = Responder { client: client.clone(), feed: Arc::clone(&feed), ready: VecDeque::new(), over: false };
        match client.open_serve(feed, options).await {
            Ok(_) => Ok(responder),
            Err(error) => {
                responder.over = true;
                Err(error)
            }
        }
    }

    /// The next call. `None` when serving has ended; before that, once, the error that ended it, if any. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Call, Error>> {
        loop {
            while let Some(call) = self.ready.pop_front() {
                if !call.remaining().is_zero() {
                    return Some(Ok(call));
                }
            }
            let refilled = std::future::poll_fn(|cx| self.feed.poll_take(&mut self.ready, cx)).await;
            self.over |= !matches!(refilled, Some(Ok(())));
            if let Err(error) = refilled? {
                return Some(Err(error));
            }
        }
    }

    /// What has arrived and was not taken yet, for whoever takes nothing more after it.
    pub(crate) fn arrived(&mut self) -> Vec<Call> {
        let arrived = self.ready.drain(..).chain(self.feed.clear());
        arrived.filter(|call| !call.remaining().is_zero()).collect()
    }

    /// Stops serving; calls that were handed out can still be replied to.
    ///
    /// # Errors
    /// [`Error::Disconnected`] or [`Error::Closed`].
    pub async fn close(mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        self.client.unsubscribe(self.feed.number, true).await
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.over {
            self.client.unsubscribe_and_forget(self.feed.number);
        }
    }
}

/// What a handler may know of a call beside its request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallInfo {
    /// The request's headers.
    pub headers: Headers,
    /// The version of the contract that the request was accepted under; 0 on a queue without one.
    pub schema_version: u32,
    /// When the caller stops waiting.
    pub deadline: Instant,
}

impl CallInfo {
    /// Time until the caller stops waiting.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// A question that waits for its reply. Dropped without one, the caller is told so.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "the caller waits for a reply"]
pub struct Call {
    /// The request's payload.
    pub payload: Bytes,
    /// The request's headers.
    pub headers: Headers,
    /// The version of the contract that the request was accepted under; 0 on a queue without one.
    pub schema_version: u32,
    /// When the caller stops waiting.
    pub deadline: Instant,
    client: WeakClient,
    call_id: Bytes,
    answered: bool,
}

/// Calls wait in feeds, which the client owns; they must not keep it alive.
type WeakClient = std::sync::Weak<crate::shared::Shared>;

impl Call {
    pub(crate) fn new(call: wire::Call, client: WeakClient, now: Instant) -> Call {
        let deadline = now + Duration::from_millis(call.timeout_ms).min(TIMEOUT_MAX);
        if let Some(shared) = client.upgrade() {
            shared.calls_held.fetch_add(1, Ordering::Relaxed);
        }
        Call {
            payload: call.payload,
            headers: Headers::from_wire(call.headers),
            schema_version: call.schema_version,
            deadline,
            client,
            call_id: call.call_id,
            answered: false,
        }
    }

    /// Time until the caller stops waiting.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// What a handler may know of the call beside its request.
    #[must_use]
    pub fn info(&self) -> CallInfo {
        CallInfo { headers: self.headers.clone(), schema_version: self.schema_version, deadline: self.deadline }
    }

    /// Replies.
    ///
    /// # Errors
    /// [`Error::Closed`]. A reply that comes too late is discarded by the broker.
    pub fn reply(self, reply: Message) -> Result<(), Error> {
        let response =
            wire::CallResponse { payload: reply.payload, headers: reply.options.headers.into_wire(), ..wire::CallResponse::default() };
        self.answer(response)
    }

    /// Replies that the request cannot be served.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn fail(self, code: ErrorCode, message: impl Into<String>) -> Result<(), Error> {
        self.answer(wire::CallResponse { error: Some(code.with(message)), ..wire::CallResponse::default() })
    }

    /// Says that nobody serves any more and nothing was begun, which is what its caller would have heard a moment later.
    pub(crate) fn turn_away(self) {
        // Without a connection the caller has been told already.
        let _ = self.fail(ErrorCode::NoResponders, "the responder stopped serving before it began with this call");
    }

    fn answer(mut self, response: wire::CallResponse) -> Result<(), Error> {
        self.send(response)
    }

    fn send(&mut self, response: wire::CallResponse) -> Result<(), Error> {
        self.answered = true;
        let response = wire::CallResponse { call_id: std::mem::take(&mut self.call_id), ..response };
        let shared = self.client.upgrade().ok_or(Error::Closed)?;
        shared.calls_held.fetch_sub(1, Ordering::Relaxed);
        shared.post(Opcode::CallResponse, response.encode_to_vec())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.answered {
            // Clocks differ by a moment: the caller may still wait, and should hear what it would hear a moment later.
            let error = match self.remaining().is_zero() {
                true => ErrorCode::Timeout.with("the deadline passed before the responder replied"),
                false => ErrorCode::Internal.with("the responder dropped the call without a reply"),
            };
            // Whoever is disconnected or closed has lost the caller already.
            let _ = self.send(wire::CallResponse { error: Some(error), ..wire::CallResponse::default() });
        }
    }
}
