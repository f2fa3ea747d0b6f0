//! The client: a cheap handle to one connection that comes back by itself. Every call here is one hop to `publisher`, `subscription`,
//! `admin` or `call`; the connection itself lives in `driver` and `session`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use qwerq_proto::{ErrorCode, Opcode, wire};
use tokio::sync::oneshot;

use crate::arrival::Fetched;
use crate::builder::ClientBuilder;
use crate::call::{Call, ServeOptions};
use crate::contract::{CallContract, Contract};
use crate::delivery::{Delivery, LeaseId, Settlement};
use crate::driver;
use crate::error::Error;
use crate::feed::Feed;
use crate::lane::Lane;
use crate::ledger::{Keep, Note, Say};
use crate::message::{Message, Published};
use crate::outcome::Outcome;
use crate::publisher::{Publisher, Receipt};
use crate::queue::Queue;
use crate::request::{Repeat, Reply, Request};
use crate::retry_key::RetryKeys;
use crate::service::Service;
use crate::shared::{Command, Fed, Open, Shared};
use crate::subscription::{ConsumeOptions, StartAt, Subscription};
use crate::window::Window;
use crate::wire_time::millis;

/// A connection to a broker. Cheap to clone; all clones share the connection and the publish window.
///
/// When the last clone (publishers and subscriptions included) is dropped, what was published and settled still goes out; use
/// [`Client::close`] to know that it has.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("settings", &self.shared().settings).finish_non_exhaustive()
    }
}

/// Ends the connection task when the last client is gone.
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A client that was closed before has nothing left to close.
        let _ = self.shared.command(Command::Close(None));
    }
}

/// How to pull messages. See [`Client::fetch`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchOptions {
    /// The consumer group. Empty: `default`.
    pub group: String,
    /// Messages at most. 0: 1.
    pub max: u32,
    /// How long to wait for the first one.
    pub wait: Duration,
    /// How long a lease lasts between renewals. `None`: as the queue says.
    pub visibility_timeout: Option<Duration>,
    /// The leases outlive this connection and are not renewed: they end by timeout, or by whoever presents the lease id.
    pub detached: bool,
    /// Where a new group begins.
    pub start_at: Option<StartAt>,
    /// The fingerprint of the contract that the consumer was generated from.
    pub contract: Option<[u8; 32]>,
}

impl Client {
    /// Connects to the broker at `host:port`, or to the leader of a cluster by some of its nodes, `a:9876,b:9876,c:9876`.
    ///
    /// # Errors
    /// See [`ClientBuilder::connect`].
    pub async fn connect(address: impl Into<String>) -> Result<Client, Error> {
        Client::builder(address).connect().await
    }

    /// Settings first, then [`ClientBuilder::connect`].
    #[must_use]
    pub fn builder(address: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(address.into())
    }

    pub(crate) async fn connect_with(settings: ClientBuilder) -> Result<Client, Error> {
        let shared = Arc::new(Shared::new(settings));
        driver::start(Arc::clone(&shared)).await?;
        Ok(Client { handle: Arc::new(Handle { shared }) })
    }

    /// A handle for publishing to one queue: batches, pipelining.
    #[must_use]
    pub fn publisher(&self, queue: &str) -> Publisher {
        self.publisher_under(queue, None)
    }

    /// A publisher that declares a contract by its fingerprint, so that the broker judges payloads by that version.
    #[must_use]
    pub fn publisher_under(&self, queue: &str, contract: Option<[u8; 32]>) -> Publisher {
        Publisher::new(self.clone(), self.shared().lane(queue, contract))
    }

    /// A typed handle to the queue of contract `C`.
    #[must_use]
    pub fn queue<C: Contract>(&self) -> Queue<C::Message> {
        Queue::new::<C>(self)
    }

    /// A typed handle for calling and serving the queue of contract `C`.
    #[must_use]
    pub fn service<C: CallContract>(&self) -> Service<C::Message, C::Reply> {
        Service::new::<C>(self)
    }

    /// Publishes one message and waits until it is durable. Concurrent publishes share frames.
    ///
    /// # Errors
    /// See [`Publisher::publish`].
    pub async fn publish(&self, queue: &str, message: Message) -> Result<Published, Error> {
        self.publisher(queue).publish(message).await
    }

    /// Hands one message in without waiting for its result. See [`Publisher::submit`].
    ///
    /// # Errors
    /// See [`Publisher::submit`].
    pub async fn submit(&self, queue: &str, message: Message) -> Result<Receipt, Error> {
        self.publisher(queue).submit(message).await
    }

    /// Publishes many; one result each, in their order. One bad message does not fail its neighbours.
    pub async fn publish_batch(&self, queue: &str, messages: impl IntoIterator<Item = Message>) -> Vec<Result<Published, Error>> {
        self.publisher(queue).publish_batch(messages).await
    }

    /// Publishes all or none. See [`Publisher::publish_atomic`].
    ///
    /// # Errors
    /// See [`Publisher::publish_atomic`].
    pub async fn publish_atomic(&self, queue: &str, messages: impl IntoIterator<Item = Message>) -> Result<Vec<Published>, Error> {
        self.publisher(queue).publish_atomic(messages).await
    }

    /// Opens a subscription.
    ///
    /// # Errors
    /// [`Error::Refused`] (`queue-not-found`, `group-required`, `invalid-name`, ...), [`Error::Disconnected`], [`Error::Closed`].
    pub async fn consume(&self, queue: &str, options: ConsumeOptions) -> Result<Subscription, Error> {
        let feed: Arc<Feed<Delivery>> = Arc::new(Feed::new(self.next_subscription(), queue.into()));
        Subscription::open(self, feed, options).await
    }

    /// Pulls up to `max` messages, waiting up to `wait` for the first one. Leases that arrive after the future was dropped end by their
    /// timeout.
    ///
    /// # Errors
    /// [`Error::Refused`] (`queue-not-found`, `group-required`, ...), [`Error::Disconnected`], [`Error::Closed`].
    pub async fn fetch(&self, queue: &str, options: FetchOptions) -> Result<Vec<Delivery>, Error> {
        let request = wire::Fetch {
            queue: queue.to_owned(),
            group: options.group,
            max: options.max.max(1),
            wait_ms: millis(options.wait),
            visibility_timeout_ms: options.visibility_timeout.map(millis).unwrap_or_default(),
            detached: options.detached,
            start_at: options.start_at.map(StartAt::into_wire),
            contract: options.contract.map_or_else(bytes::Bytes::new, |contract| bytes::Bytes::copy_from_slice(&contract)),
        };
        let reply = self.ask(Opcode::Fetch, &request, Repeat::Unsafe).await?;
        let ledger = Arc::clone(&reply.ledger);
        let arrivals = Fetched::decode(&reply.expect(Opcode::Fetched)?)?.arrivals;
        let keep = if options.detached { Keep::Detached } else { Keep::Renewed };
        Ok(ledger.deliveries(&queue.into(), arrivals, None, keep, tokio::time::Instant::now()))
    }

    /// Settles leases by their ids, such as detached ones, and waits until that is durable; one result each.
    ///
    /// # Errors
    /// [`Error::Closed`]; the results say `stale-lease` or [`Error::Disconnected`].
    pub async fn settle_leases(&self, settlement: Settlement, leases: &[LeaseId]) -> Result<Vec<Result<(), Error>>, Error> {
        let outcome = Arc::new(Outcome::new());
        let note = Note { say: Say::Settle(settlement), leases: leases.to_vec(), outcome: Some(Arc::clone(&outcome)) };
        self.shared().command(Command::Settle(note))?;
        let mut places = 0..u32::try_from(leases.len()).map_err(|_| Error::protocol("more than 4 G leases"))?;
        let mut results = Vec::with_capacity(leases.len());
        std::future::poll_fn(|cx| outcome.poll_range(&mut places, &mut results, cx)).await;
        Ok(results)
    }

    /// Sends what is waiting, waits for its confirmation, releases all leases and closes the connection. Publishes and calls after it give
    /// [`Error::Closed`].
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the connection was lost before all was confirmed.
    pub async fn close(&self) -> Result<(), Error> {
        let (reply, closed) = oneshot::channel();
        if self.shared().command(Command::Close(Some(reply))).is_err() {
            return Ok(());
        }
        closed.await.unwrap_or(Ok(()))
    }

    /// Sends a request and waits for the message that answers it.
    pub(crate) async fn request<R: prost::Message + Default>(
        &self,
        opcode: Opcode,
        message: &impl prost::Message,
        expected: Opcode,
        repeat: Repeat,
    ) -> Result<R, Error> {
        self.ask(opcode, message, repeat).await?.decode(expected)
    }

    /// Sends a request that is answered by DONE.
    pub(crate) async fn command(&self, opcode: Opcode, message: &impl prost::Message, repeat: Repeat) -> Result<(), Error> {
        self.request::<wire::Done>(opcode, message, Opcode::Done, repeat).await.map(|_| ())
    }

    pub(crate) async fn ask(&self, opcode: Opcode, message: &impl prost::Message, repeat: Repeat) -> Result<Reply, Error> {
        let payload = message.encode_to_vec();
        self.check_frame(payload.len())?;
        let (reply, answer) = oneshot::channel();
        let id = self.shared().next_request();
        self.shared().command(Command::Request(Request { id, opcode, payload, repeat, refused: 0, reply }))?;
        let mut waiting = Waiting { shared: self.shared(), id: Some(id) };
        let answered = answer.await;
        waiting.id = None;
        answered.unwrap_or(Err(Error::Closed))
    }

    pub(crate) async fn open_consume(&self, feed: Arc<Feed<Delivery>>, options: ConsumeOptions) -> Result<wire::ConsumeAck, Error> {
        self.subscribe(Open { feed: Fed::Deliveries(feed), options: Arc::new(options) }).await
    }

    pub(crate) async fn open_serve(&self, feed: Arc<Feed<Call>>, options: ServeOptions) -> Result<wire::ConsumeAck, Error> {
        let options = ConsumeOptions {
            prefetch: options.concurrency,
            concurrency: options.concurrency,
            contract: options.contract,
            ..ConsumeOptions::default()
        };
        self.subscribe(Open { feed: Fed::Calls(feed), options: Arc::new(options) }).await
    }

    async fn subscribe(&self, open: Open) -> Result<wire::ConsumeAck, Error> {
        let (reply, opened) = oneshot::channel();
        self.shared().command(Command::Subscribe(open, reply))?;
        opened.await.unwrap_or(Err(Error::Closed))
    }

    pub(crate) async fn unsubscribe(&self, number: u32, keep_leases: bool) -> Result<(), Error> {
        let (reply, ended) = oneshot::channel();
        self.shared().command(Command::Unsubscribe { number, keep_leases, reply: Some(reply) })?;
        ended.await.unwrap_or(Err(Error::Closed))
    }

    pub(crate) fn unsubscribe_and_forget(&self, number: u32) {
        // A closed client has no subscriptions.
        let _ = self.shared().command(Command::Unsubscribe { number, keep_leases: true, reply: None });
    }

    pub(crate) fn credit(&self, number: u32, prefetch: u32, prefetch_bytes: u64) -> Result<(), Error> {
        let credit = wire::Credit { subscription: number, prefetch, prefetch_bytes };
        self.shared().post(Opcode::Credit, credit.encode_to_vec())
    }

    pub(crate) fn next_subscription(&self) -> u32 {
        self.shared().next_subscription()
    }

    pub(crate) fn window(&self) -> &Window {
        &self.shared().window
    }

    pub(crate) fn list(&self, needed: bool, lane: &Arc<Lane>) {
        if needed {
            self.shared().list(lane);
        }
    }

    /// Refuses what no frame of this connection can carry; the queue's own limit is the broker's to judge.
    pub(crate) fn check_size(&self, message: &Message) -> Result<(), Error> {
        let headers: usize = message.options.headers.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        self.check_frame(message.payload.len() + headers)
    }

    pub(crate) fn check_frame(&self, bytes: usize) -> Result<(), Error> {
        let room = self.frame_room();
        if bytes <= room {
            return Ok(());
        }
        let text = format!("{bytes} bytes are more than the {room} bytes that one frame carries; send less at once");
        Err(Error::local(ErrorCode::MessageTooLarge, text))
    }

    pub(crate) fn frame_room(&self) -> usize {
        self.shared().frame_room()
    }

    /// Keys for publishes without one, where they may have to be retried.
    pub(crate) fn retry_keys(&self) -> Option<&RetryKeys> {
        let shared = self.shared();
        shared.is_cluster().then_some(&shared.retry_keys)
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }
}

/// Cancels a request whose future is dropped.
struct Waiting<'c> {
    shared: &'c Shared,
    id: Option<u32>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // A closed client has no requests.
            let _ = self.shared.command(Command::Cancel(id));
        }
    }
}
