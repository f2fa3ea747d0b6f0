//! Publishing to one queue: one message and its receipt, many at once, or pipelined under the window.
//!
//! A publish is encoded by its caller, joins the batch that waits for the connection and goes out with it. Read on in `lane`.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use qwerq_proto::ErrorCode;

use crate::client::Client;
use crate::error::Error;
use crate::lane::{Batch, Lane, Place};
use crate::message::{Message, Published};
use crate::outcome::Outcome;

/// Publishes to one queue. Cheap to clone; all clones share the client's window and connection.
///
/// Messages that one task submits to one queue are stored in that order, as long as the broker does not answer `overloaded`, which
/// sends them a second time.
#[derive(Debug, Clone)]
pub struct Publisher {
    client: Client,
    lane: Arc<Lane>,
}

/// Messages that are put into the lane under one lock at most.
const CHUNK_MESSAGES_MAX: u32 = 256;

/// Payload bytes that are put into the lane under one lock at most, unless one message is larger.
const CHUNK_BYTES_MAX: u32 = 256 * 1024;

impl Publisher {
    pub(crate) fn new(client: Client, lane: Arc<Lane>) -> Publisher {
        Publisher { client, lane }
    }

    /// The queue's name.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.lane.queue
    }

    /// The client that this publisher uses.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Publishes one message and waits until it is durable.
    ///
    /// # Errors
    /// [`Error::Refused`] when the broker says no (`schema-violation`, `queue-full`, ...), [`Error::Unavailable`] when it stayed
    /// overloaded, [`Error::Disconnected`] when the connection was lost with the message on its way and no idempotency key,
    /// [`Error::Closed`].
    pub async fn publish(&self, message: Message) -> Result<Published, Error> {
        self.submit(message).await?.await
    }

    /// Hands a message in and returns as soon as the window has room. The receipt may be awaited later, or dropped: the message goes
    /// out either way.
    ///
    /// # Errors
    /// [`Error::Closed`], or `message-too-large` for what no frame can carry.
    pub async fn submit(&self, message: Message) -> Result<Receipt, Error> {
        self.client.check_size(&message)?;
        let window = self.client.window();
        let cost = window.cost(message.payload.len());
        window.take(1, cost).await?;
        Ok(self.enter(message, cost))
    }

    /// Like [`Publisher::submit`], but gives the message back instead of waiting when the window is full.
    ///
    /// # Errors
    /// See [`Publisher::submit`].
    pub fn try_submit(&self, message: Message) -> Result<Result<Receipt, Message>, Error> {
        self.client.check_size(&message)?;
        let cost = self.client.window().cost(message.payload.len());
        if !self.client.window().try_take(1, cost)? {
            return Ok(Err(message));
        }
        Ok(Ok(self.enter(message, cost)))
    }

    /// Hands many messages in, waiting for room as needed, under few locks; one receipt for all. The cheapest way to publish much.
    pub async fn submit_many(&self, messages: impl IntoIterator<Item = Message>) -> BatchReceipt {
        let window = self.client.window();
        let chunk_messages = window.messages_max().min(CHUNK_MESSAGES_MAX) as usize;
        let chunk_bytes = window.bytes_max().min(CHUNK_BYTES_MAX);
        let mut receipt = BatchReceipt::default();
        let mut messages = messages.into_iter().peekable();
        while let Some(next) = messages.peek() {
            if let Err(error) = self.client.check_size(next) {
                messages.next();
                receipt.fail(error);
                continue;
            }
            let mut chunk: Vec<(Message, u32)> = Vec::with_capacity(messages.size_hint().0.clamp(1, chunk_messages));
            let mut cost_total = 0;
            while let Some(message) = messages.next_if(|next| {
                let room = cost_total + window.cost(next.payload.len()) <= chunk_bytes || chunk.is_empty();
                room && chunk.len() < chunk_messages && self.client.check_size(next).is_ok()
            }) {
                let cost = window.cost(message.payload.len());
                cost_total += cost;
                chunk.push((message, cost));
            }
            let count = u32::try_from(chunk.len()).expect("at most the chunk's limit");
            match window.take(count, cost_total).await {
                Ok(()) => {
                    let (room, keys) = (self.client.frame_room(), self.client.retry_keys());
                    let listed = self.lane.push(chunk.into_iter(), room, keys, |outcome, index| receipt.add(outcome, index));
                    self.client.list(listed, &self.lane);
                }
                Err(error) => (0..count).for_each(|_| receipt.fail(error.clone())),
            }
        }
        receipt
    }

    /// Publishes many and waits for all; one result each, in their order. One bad message does not fail its neighbours.
    pub async fn publish_batch(&self, messages: impl IntoIterator<Item = Message>) -> Vec<Result<Published, Error>> {
        self.submit_many(messages).await.await
    }

    /// Publishes all or none, in one frame, and waits.
    ///
    /// # Errors
    /// The refusal of the first bad message; `message-too-large` when one frame cannot carry them all; see [`Publisher::publish`].
    pub async fn publish_atomic(&self, messages: impl IntoIterator<Item = Message>) -> Result<Vec<Published>, Error> {
        let results = self.submit_atomic(messages).await?.await;
        let first_cause =
            results.iter().filter_map(|result| result.as_ref().err()).find(|error| error.code() != Some(ErrorCode::AtomicRefused)).cloned();
        match first_cause {
            Some(error) => Err(error),
            None => results.into_iter().collect(),
        }
    }

    /// Hands in messages that are stored all or none, in one frame; returns as soon as there is room in the window. When one is refused,
    /// the others' results say `atomic-refused`.
    ///
    /// # Errors
    /// `message-too-large` when one frame cannot carry them all; [`Error::Closed`].
    pub async fn submit_atomic(&self, messages: impl IntoIterator<Item = Message>) -> Result<BatchReceipt, Error> {
        let mut batch = Batch::atomic(messages.into_iter(), self.client.retry_keys());
        let mut receipt = BatchReceipt::default();
        if batch.entries.is_empty() {
            return Ok(receipt);
        }
        self.client.check_frame(batch.items.len())?;
        let window = self.client.window();
        let cost = window.cost(batch.items.len());
        let count = u32::try_from(batch.entries.len()).expect("a frame holds far fewer than 4 G messages");
        let places = count.min(window.messages_max());
        batch.charge(places, cost);
        window.take(places, cost).await?;
        receipt.parts.push_back(Part::Stored(Arc::clone(&batch.outcome), 0..count));
        self.client.list(self.lane.push_atomic(batch), &self.lane);
        Ok(receipt)
    }

    fn enter(&self, message: Message, cost: u32) -> Receipt {
        let mut place = None;
        let (room, keys) = (self.client.frame_room(), self.client.retry_keys());
        let listed = self.lane.push(std::iter::once((message, cost)), room, keys, |outcome, index| {
            place = Some(Place { outcome: Arc::clone(outcome), index });
        });
        self.client.list(listed, &self.lane);
        Receipt { place: place.expect("the lane places every message") }
    }
}

/// The result of one submitted message, once it is there. Dropping it does not take the message back.
#[derive(Debug)]
#[must_use = "the message is durable only when its receipt says so"]
pub struct Receipt {
    place: Place,
}

impl Future for Receipt {
    type Output = Result<Published, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.place.outcome.poll(self.place.index, cx)
    }
}

/// The results of many submitted messages, in their order.
#[derive(Debug, Default)]
#[must_use = "the messages are durable only when their receipt says so"]
pub struct BatchReceipt {
    parts: VecDeque<Part>,
    results: Vec<Result<Published, Error>>,
}

#[derive(Debug)]
enum Part {
    /// Handed in: these places of the outcome.
    Stored(Arc<Outcome<Published>>, Range<u32>),
    /// Never handed in.
    Failed(Error),
}

impl BatchReceipt {
    fn add(&mut self, outcome: &Arc<Outcome<Published>>, index: u32) {
        match self.parts.back_mut() {
            Some(Part::Stored(last, range)) if Arc::ptr_eq(last, outcome) && range.end == index => range.end += 1,
            _ => self.parts.push_back(Part::Stored(Arc::clone(outcome), index..index + 1)),
        }
    }

    fn fail(&mut self, error: Error) {
        self.parts.push_back(Part::Failed(error));
    }
}

impl Future for BatchReceipt {
    type Output = Vec<Result<Published, Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        while let Some(part) = this.parts.front_mut() {
            match part {
                Part::Stored(outcome, range) => {
                    ready!(outcome.poll_range(range, &mut this.results, cx))
                }
                Part::Failed(error) => this.results.push(Err(error.clone())),
            }
            this.parts.pop_front();
        }
        Poll::Ready(std::mem::take(&mut this.results))
    }
}
