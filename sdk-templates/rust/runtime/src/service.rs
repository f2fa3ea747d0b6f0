//! A queue whose contract has a reply type: typed calls and typed serving over the untyped client.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::time::Duration;

use crate::call::{Call, CallInfo, Responder, ServeOptions, TIMEOUT_DEFAULT};
use crate::client::Client;
use crate::contract::{CallContract, ContractInfo};
use crate::error::{DecodeError, Error};
use crate::message::Message;
use crate::serving::{Method, take_calls};
use crate::status::Status;
use qwerq_proto::ErrorCode;

/// A handle to a queue that is called with `Req` and replies with `Rep`. Cheap to clone.
pub struct Service<Req, Rep> {
    client: Client,
    contract: ContractInfo,
    reply_type: &'static str,
    types: PhantomData<fn(Req) -> Rep>,
}

impl<Req, Rep> Service<Req, Rep>
where
    Req: prost::Message + Default,
    Rep: prost::Message + Default,
{
    pub(crate) fn new<C: CallContract<Message = Req, Reply = Rep>>(client: &Client) -> Service<Req, Rep> {
        Service::of(client, ContractInfo::of::<C>(), C::REPLY_TYPE)
    }

    /// A handle by values instead of a [`CallContract`]; for generated code.
    #[doc(hidden)]
    #[must_use]
    pub fn of(client: &Client, contract: ContractInfo, reply_type: &'static str) -> Service<Req, Rep> {
        Service { client: client.clone(), contract, reply_type, types: PhantomData }
    }

    /// The contract that this handle was made for.
    #[must_use]
    pub fn contract(&self) -> &ContractInfo {
        &self.contract
    }

    /// Asks and waits for the reply, at most 30 s.
    ///
    /// # Errors
    /// See [`Client::call`]; [`Error::Decode`] when the reply is not a `Rep`.
    pub async fn call(&self, request: &Req) -> Result<Rep, Error> {
        self.call_within(TIMEOUT_DEFAULT, request).await
    }

    /// Asks and waits for the reply, at most `timeout`.
    ///
    /// # Errors
    /// See [`Service::call`].
    pub async fn call_within(&self, timeout: Duration, request: &Req) -> Result<Rep, Error> {
        let message = Message::new(request.encode_to_vec());
        let fingerprint = self.contract.known_fingerprint();
        let replied = self.client.call_under(self.contract.queue, fingerprint, message, timeout).await?;
        Rep::decode(replied.payload).map_err(|source| self.decode_error(self.reply_type, source))
    }

    /// Has `handler` answer calls, up to 32 at once, until the client is closed or the future dropped. A handler that panics answers with
    /// `internal`. One that goes on past its caller's deadline is not interrupted; [`CallInfo::remaining`] tells it.
    ///
    /// # Errors
    /// See [`Client::serve`], and whatever ends the serving.
    pub async fn serve<H, F>(&self, handler: H) -> Result<(), Error>
    where
        H: Fn(Req, CallInfo) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Rep, Status>> + Send + 'static,
        Req: 'static,
        Rep: 'static,
    {
        self.serve_until(std::future::pending(), ServeOptions::default(), handler).await
    }

    /// As [`Service::serve`], until `stop` completes: then nothing new is taken on, and what has begun is finished.
    ///
    /// # Errors
    /// See [`Service::serve`].
    pub async fn serve_until<H, F>(&self, stop: impl Future<Output = ()>, options: ServeOptions, handler: H) -> Result<(), Error>
    where
        H: Fn(Req, CallInfo) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Rep, Status>> + Send + 'static,
        Req: 'static,
        Rep: 'static,
    {
        let at_once = options.at_once();
        let responder = self.responder(options).await?.inner;
        let method = Method::new("", self.contract, handler);
        let (mut running, ended) = take_calls(&method, responder, at_once, stop).await;
        while running.join_next().await.is_some() {}
        ended
    }

    /// Serves calls one by one.
    ///
    /// # Errors
    /// See [`Client::serve`].
    pub async fn responder(&self, options: ServeOptions) -> Result<TypedResponder<Req, Rep>, Error> {
        let options = ServeOptions { contract: self.contract.known_fingerprint(), ..options };
        let inner = self.client.serve(self.contract.queue, options).await?;
        Ok(TypedResponder { inner, service: self.clone() })
    }

    fn decode_error(&self, message_type: &str, source: prost::DecodeError) -> Error {
        Error::Decode(std::sync::Arc::new(DecodeError {
            queue: self.contract.queue.to_owned(),
            seq: 0,
            message_type: message_type.to_owned(),
            source,
        }))
    }
}

impl<Req, Rep> Clone for Service<Req, Rep> {
    fn clone(&self) -> Service<Req, Rep> {
        Service { client: self.client.clone(), contract: self.contract, reply_type: self.reply_type, types: PhantomData }
    }
}

impl<Req, Rep> fmt::Debug for Service<Req, Rep> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("contract", &self.contract).field("reply_type", &self.reply_type).finish_non_exhaustive()
    }
}

/// Yields decoded calls. See [`Responder`].
#[derive(Debug)]
pub struct TypedResponder<Req, Rep> {
    inner: Responder,
    service: Service<Req, Rep>,
}

impl<Req, Rep> TypedResponder<Req, Rep>
where
    Req: prost::Message + Default,
    Rep: prost::Message + Default,
{
    /// The next call; one that does not decode is answered with an error here and skipped. Otherwise as [`Responder::next`].
    pub async fn next(&mut self) -> Option<Result<TypedCall<Req, Rep>, Error>> {
        loop {
            let call = match self.inner.next().await? {
                Ok(call) => call,
                Err(error) => return Some(Err(error)),
            };
            match Req::decode(call.payload.clone()) {
                Ok(body) => {
                    return Some(Ok(TypedCall { body, call, reply: PhantomData }));
                }
                Err(source) => {
                    let error = self.service.decode_error(self.service.contract.message_type, source);
                    // Without a connection the caller has been told already.
                    let _ = call.fail(ErrorCode::SchemaViolation, error.to_string());
                }
            }
        }
    }

    /// See [`Responder::close`].
    ///
    /// # Errors
    /// See [`Responder::close`].
    pub async fn close(self) -> Result<(), Error> {
        self.inner.close().await
    }
}

/// A decoded call that waits for its reply.
#[derive(Debug)]
pub struct TypedCall<Req, Rep> {
    /// The request.
    pub body: Req,
    /// Headers, deadline, raw payload.
    pub call: Call,
    reply: PhantomData<fn(Rep)>,
}

impl<Req, Rep: prost::Message> TypedCall<Req, Rep> {
    /// Replies.
    ///
    /// # Errors
    /// See [`Call::reply`].
    pub fn reply(self, reply: &Rep) -> Result<(), Error> {
        self.call.reply(Message::new(reply.encode_to_vec()))
    }

    /// Replies that the request cannot be served.
    ///
    /// # Errors
    /// See [`Call::fail`].
    pub fn fail(self, code: ErrorCode, message: impl Into<String>) -> Result<(), Error> {
        self.call.fail(code, message)
    }
}
