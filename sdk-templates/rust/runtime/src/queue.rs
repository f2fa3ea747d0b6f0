//! A queue with a contract: publishes and consumes typed messages over the untyped client.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;

use crate::client::{Client, FetchOptions};
use crate::contract::{Contract, ContractInfo};
use crate::delivery::{Delivery, Settlement};
use crate::error::{DecodeError, Error};
use crate::message::{Message, PublishOptions, Published};
use crate::publisher::{Publisher, Receipt};
use crate::subscription::{ConsumeOptions, Subscription};

/// A handle to a queue whose messages are of type `M`. Cheap to clone.
pub struct Queue<M> {
    publisher: Publisher,
    contract: ContractInfo,
    message: PhantomData<fn() -> M>,
}

impl<M: prost::Message + Default> Queue<M> {
    pub(crate) fn new<C: Contract<Message = M>>(client: &Client) -> Queue<M> {
        let contract = ContractInfo::of::<C>();
        let publisher = client.publisher_under(contract.queue, contract.known_fingerprint());
        Queue { publisher, contract, message: PhantomData }
    }

    /// The contract that this handle was made for.
    #[must_use]
    pub fn contract(&self) -> &ContractInfo {
        &self.contract
    }

    /// Publishes one message and waits until it is durable.
    ///
    /// # Errors
    /// See [`Client::publish`].
    pub async fn publish(&self, message: &M) -> Result<Published, Error> {
        self.publish_with(message, PublishOptions::new()).await
    }

    /// Publishes one message with headers, keys or delays and waits until it is durable.
    ///
    /// # Errors
    /// See [`Client::publish`].
    pub async fn publish_with(&self, message: &M, options: PublishOptions) -> Result<Published, Error> {
        self.publisher.publish(encode(message).with(options)).await
    }

    /// Publishes many; one result each, in their order. One bad message does not fail its neighbours.
    pub async fn publish_batch<'m>(&self, messages: impl IntoIterator<Item = &'m M>) -> Vec<Result<Published, Error>>
    where
        M: 'm,
    {
        self.publisher.publish_batch(messages.into_iter().map(encode)).await
    }

    /// Publishes all or none, in one frame.
    ///
    /// # Errors
    /// The first item's refusal; see [`Client::publish`].
    pub async fn publish_atomic<'m>(&self, messages: impl IntoIterator<Item = &'m M>) -> Result<Vec<Published>, Error>
    where
        M: 'm,
    {
        self.publisher.publish_atomic(messages.into_iter().map(encode)).await
    }

    /// Hands one message in and returns as soon as there is room in the window; the receipt may be awaited later.
    ///
    /// # Errors
    /// See [`Publisher::submit`].
    pub async fn submit(&self, message: &M, options: PublishOptions) -> Result<Receipt, Error> {
        self.publisher.submit(encode(message).with(options)).await
    }

    /// The untyped publisher under this contract.
    #[must_use]
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Opens a subscription that yields decoded messages.
    ///
    /// # Errors
    /// See [`Client::consume`].
    pub async fn consume(&self, options: ConsumeOptions) -> Result<TypedSubscription<M>, Error> {
        let options = ConsumeOptions { contract: self.contract.known_fingerprint(), ..options };
        let inner = self.publisher.client().consume(self.contract.queue, options).await?;
        Ok(TypedSubscription { inner, message_type: self.contract.message_type, message: PhantomData })
    }

    /// Pulls decoded messages; see [`Client::fetch`]. One that does not decode is in its place, still leased.
    ///
    /// # Errors
    /// See [`Client::fetch`].
    pub async fn fetch(&self, options: FetchOptions) -> Result<Vec<Result<Typed<M>, Box<Undecodable>>>, Error> {
        let options = FetchOptions { contract: self.contract.known_fingerprint(), ..options };
        let deliveries = self.publisher.client().fetch(self.contract.queue, options).await?;
        Ok(deliveries.into_iter().map(|delivery| Typed::decode(delivery, self.contract.message_type)).collect())
    }
}

fn encode<M: prost::Message>(message: &M) -> Message {
    Message::new(message.encode_to_vec())
}

impl<M> Clone for Queue<M> {
    fn clone(&self) -> Queue<M> {
        Queue { publisher: self.publisher.clone(), contract: self.contract, message: PhantomData }
    }
}

impl<M> fmt::Debug for Queue<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("contract", &self.contract).finish_non_exhaustive()
    }
}

/// A subscription that yields decoded messages. See [`Subscription`].
#[derive(Debug)]
pub struct TypedSubscription<M> {
    inner: Subscription,
    message_type: &'static str,
    message: PhantomData<fn() -> M>,
}

impl<M: prost::Message + Default> TypedSubscription<M> {
    /// The next message; `None` when the subscription has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Typed<M>, ReceiveError>> {
        let delivery = match self.inner.next().await? {
            Ok(delivery) => delivery,
            Err(error) => return Some(Err(ReceiveError::Client(error))),
        };
        Some(Typed::decode(delivery, self.message_type).map_err(ReceiveError::Undecodable))
    }

    /// The untyped subscription, for batches or raw payloads.
    #[must_use]
    pub fn untyped(&mut self) -> &mut Subscription {
        &mut self.inner
    }

    /// See [`Subscription::close`].
    ///
    /// # Errors
    /// See [`Subscription::close`].
    pub async fn close(self) -> Result<(), Error> {
        self.inner.close().await
    }

    /// See [`Subscription::drain`].
    ///
    /// # Errors
    /// See [`Subscription::drain`].
    pub async fn drain(self) -> Result<(), Error> {
        self.inner.drain().await
    }
}

/// A decoded message and the delivery that it came in.
#[derive(Debug)]
pub struct Typed<M> {
    /// The message.
    pub body: M,
    /// The delivery: seq, attempt, headers, lease.
    pub delivery: Delivery,
}

impl<M: prost::Message + Default> Typed<M> {
    fn decode(delivery: Delivery, message_type: &str) -> Result<Typed<M>, Box<Undecodable>> {
        match M::decode(delivery.payload.clone()) {
            Ok(body) => Ok(Typed { body, delivery }),
            Err(source) => {
                let (queue, seq) = (delivery.queue().to_owned(), delivery.seq);
                let error = DecodeError { queue, seq, message_type: message_type.to_owned(), source };
                Err(Box::new(Undecodable { delivery, error }))
            }
        }
    }
}

impl<M> Typed<M> {
    /// See [`Delivery::ack`].
    ///
    /// # Errors
    /// See [`Delivery::ack`].
    pub fn ack(self) -> Result<(), Error> {
        self.delivery.ack()
    }

    /// See [`Delivery::ack_confirmed`].
    ///
    /// # Errors
    /// See [`Delivery::ack_confirmed`].
    pub async fn ack_confirmed(self) -> Result<(), Error> {
        self.delivery.ack_confirmed().await
    }

    /// See [`Delivery::nack`].
    ///
    /// # Errors
    /// See [`Delivery::nack`].
    pub fn nack(self) -> Result<(), Error> {
        self.delivery.nack()
    }

    /// See [`Delivery::nack_after`].
    ///
    /// # Errors
    /// See [`Delivery::nack_after`].
    pub fn nack_after(self, delay: std::time::Duration) -> Result<(), Error> {
        self.delivery.nack_after(delay)
    }

    /// See [`Delivery::reject`].
    ///
    /// # Errors
    /// See [`Delivery::reject`].
    pub fn reject(self, reason: impl Into<String>) -> Result<(), Error> {
        self.delivery.reject(reason)
    }

    /// See [`Delivery::release`].
    ///
    /// # Errors
    /// See [`Delivery::release`].
    pub fn release(self) -> Result<(), Error> {
        self.delivery.release()
    }

    /// See [`Delivery::settle`].
    ///
    /// # Errors
    /// See [`Delivery::settle`].
    pub fn settle(self, settlement: Settlement) -> Result<(), Error> {
        self.delivery.settle(settlement)
    }

    /// See [`Delivery::extend`].
    ///
    /// # Errors
    /// See [`Delivery::extend`].
    pub async fn extend(&self, length: std::time::Duration) -> Result<(), Error> {
        self.delivery.extend(length).await
    }

    /// The message apart from its delivery.
    pub fn into_parts(self) -> (M, Delivery) {
        (self.body, self.delivery)
    }
}

/// Why a typed subscription yields no message.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The payload is not the message that the contract says. The delivery is still leased: reject it, or nack it.
    #[error("{0}")]
    Undecodable(Box<Undecodable>),
    /// The subscription has ended.
    #[error(transparent)]
    Client(#[from] Error),
}

/// A delivery whose payload does not decode.
#[derive(Debug, thiserror::Error)]
#[error("{error}; reject the delivery to dead-letter it")]
pub struct Undecodable {
    /// The delivery, still leased.
    pub delivery: Delivery,
    /// What is wrong with its payload.
    #[source]
    pub error: DecodeError,
}

impl Undecodable {
    /// Sends the message to failure handling with the decoding error as the reason.
    ///
    /// # Errors
    /// See [`Delivery::reject`].
    pub fn reject(self) -> Result<(), Error> {
        self.delivery.reject(self.error.to_string())
    }

    /// The raw payload.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.delivery.payload
    }
}

impl From<ReceiveError> for Error {
    fn from(error: ReceiveError) -> Error {
        match error {
            ReceiveError::Undecodable(undecodable) => Error::Decode(std::sync::Arc::new(undecodable.error)),
            ReceiveError::Client(error) => error,
        }
    }
}
