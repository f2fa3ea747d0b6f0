//! Services: methods that answer calls, each on a queue of its own, and the loop that has them do so. Knows requests and replies as bytes;
//! what they mean is in the closures that generated code makes. The typed handle to one such queue is `service`.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use qwerq_proto::ErrorCode;
use tokio::task::JoinSet;
use tracing::error;

use crate::app::stop::Stop;
use crate::call::{Call, CallInfo, Responder, ServeOptions};
use crate::contract::ContractInfo;
use crate::error::Error;
use crate::message::Message;
use crate::status::Status;
use crate::worker::attempt::caught;
use crate::worker::running::finish;

/// What [`App::service`](crate::App::service) takes: the server that `#[qwerq::service]` makes of a trait, such as `PricingServer::new(desk)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the server of a service",
    label = "not a server",
    note = "`#[qwerq::service] trait Pricing` makes a `PricingServer`; pass `PricingServer::new(..)` with what implements the trait"
)]
pub trait Serve {
    /// Its methods, one for each contract.
    fn methods(self) -> Vec<Method>;
}

type Answering = Pin<Box<dyn Future<Output = Result<Bytes, Status>> + Send>>;

/// A method of a service: a contract and what answers its calls. Cheap to clone.
#[derive(Clone)]
pub struct Method {
    service: &'static str,
    contract: ContractInfo,
    handler: Arc<dyn Fn(Bytes, CallInfo) -> Answering + Send + Sync>,
}

impl Method {
    /// What generated code says.
    #[doc(hidden)]
    pub fn new<Req, Rep, H, F>(service: &'static str, contract: ContractInfo, handler: H) -> Method
    where
        Req: prost::Message + Default,
        Rep: prost::Message,
        H: Fn(Req, CallInfo) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Rep, Status>> + Send + 'static,
    {
        let handler = move |payload: Bytes, info: CallInfo| -> Answering {
            let answering = match Req::decode(payload) {
                Ok(request) => Ok(handler(request, info)),
                Err(error) => {
                    let text = format!("the request to {} is not a {}: {error}", contract.queue, contract.message_type);
                    Err(Status::new(ErrorCode::SchemaViolation, text))
                }
            };
            Box::pin(async move { Ok(answering?.await?.encode_to_vec().into()) })
        };
        Method { service, contract, handler: Arc::new(handler) }
    }

    /// The service's name.
    #[must_use]
    pub fn service(&self) -> &'static str {
        self.service
    }

    /// The queue that its calls go to.
    #[must_use]
    pub fn queue(&self) -> &'static str {
        self.contract.queue
    }

    pub(crate) fn serve_options(&self, options: ServeOptions) -> ServeOptions {
        ServeOptions { contract: self.contract.known_fingerprint(), ..options }
    }

    /// Answers one request; a panic is the responder's fault.
    pub(crate) async fn answer(&self, payload: Bytes, info: CallInfo) -> Result<Bytes, Status> {
        let answering = Box::pin(async { (self.handler)(payload, info).await });
        caught(answering).await.unwrap_or_else(|panic| {
            error!(queue = self.contract.queue, panic, "the handler of a call panicked");
            Err(Status::new(ErrorCode::Internal, "the handler panicked"))
        })
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Method").field("service", &self.service).field("contract", &self.contract).finish_non_exhaustive()
    }
}

/// Answers a method's calls until `stop`; what has begun is finished.
pub(crate) async fn answer_calls(method: Method, responder: Responder, at_once: usize, stop: Stop) -> Result<(), Error> {
    let (running, ended) = take_calls(&method, responder, at_once, stop.stopping()).await;
    finish(running, &stop).await;
    ended
}

/// Takes calls until `stop`, or until serving ends; an error is what ended it. What has arrived is answered; it may still run.
pub(crate) async fn take_calls(
    method: &Method,
    mut responder: Responder,
    at_once: usize,
    stop: impl Future<Output = ()>,
) -> (JoinSet<()>, Result<(), Error>) {
    let mut running = JoinSet::new();
    let mut stop = pin!(stop);
    let ended = loop {
        tokio::select! {
            biased;
            () = &mut stop => break Ok(()),
            Some(_) = running.join_next(), if !running.is_empty() => {}
            next = responder.next(), if running.len() < at_once => match next {
                Some(Ok(call)) => drop(running.spawn(answer(method.clone(), call))),
                Some(Err(error)) => break Err(error),
                None => break Ok(()),
            },
        }
    };
    for call in responder.arrived() {
        running.spawn(answer(method.clone(), call));
    }
    (running, ended)
}

/// Answers one call. Its caller may have gone, or the connection; then nobody waits for what became of it.
async fn answer(method: Method, call: Call) {
    let _ = match method.answer(call.payload.clone(), call.info()).await {
        Ok(reply) => call.reply(Message::new(reply)),
        Err(status) => call.fail(status.code, status.message),
    };
}
