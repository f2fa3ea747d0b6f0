//! One attempt at one message: decode, call, and turn what came of it into a settlement. The same with a broker and without one
//! (`testing`); it knows neither.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use tracing::{debug, warn};

use crate::ledger::Settlement;
use crate::worker::ctx::Ctx;
use crate::worker::failure::Failure;
use crate::worker::{OnUndecodable, Worker};

/// What a handler made of a message.
#[derive(Debug)]
#[doc(hidden)]
pub enum Outcome {
    /// `Ok`.
    Done,
    /// `Err`.
    Failed(Failure),
    /// The payload is not the handler's message; it was not called.
    Undecodable(prost::DecodeError),
}

/// An attempt as the generated code makes it.
#[doc(hidden)]
pub type Attempting = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Failed,
    Panicked,
    Undecodable,
}

/// Runs an attempt to its end, without telling the broker.
pub(crate) async fn run(worker: &Worker, ctx: &Ctx) -> (End, Settlement) {
    let (end, failure) = match caught((worker.handle)(ctx.clone())).await {
        Ok(Outcome::Done) => return (End::Done, Settlement::Ack),
        Ok(Outcome::Failed(failure)) => (End::Failed, failure),
        Ok(Outcome::Undecodable(error)) => {
            let reason = match &worker.contract {
                Some(contract) => format!("the payload is not a {}: {error}", contract.message_type),
                None => format!("the payload does not decode: {error}"),
            };
            let failure = match worker.on_undecodable {
                OnUndecodable::Reject => Failure::reject(reason),
                OnUndecodable::Nack => Failure::retry(reason),
            };
            (End::Undecodable, failure)
        }
        Err(text) => (End::Panicked, Failure::retry(format!("the handler panicked: {text}"))),
    };
    warn!(worker = worker.name, queue = ctx.queue(), seq = ctx.seq(), attempt = ctx.attempt(), reason = failure.reason(), "not handled");
    (end, failure.into_settlement())
}

/// Runs an attempt and settles the message. When the future is dropped before that, the attempt counts as failed.
pub(crate) async fn settle(worker: &Worker, ctx: Ctx) {
    let unfinished = Unfinished(&ctx);
    let (_, settlement) = run(worker, &ctx).await;
    tell(&ctx, settlement);
    drop(unfinished);
}

fn tell(ctx: &Ctx, settlement: Settlement) {
    if let Err(error) = ctx.settle(settlement) {
        // The message comes again; whoever handles messages at least once is prepared for that.
        debug!(queue = ctx.queue(), seq = ctx.seq(), %error, "not settled");
    }
}

/// Gives a message back whose handler was cut short.
struct Unfinished<'c>(&'c Ctx);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        tell(self.0, Failure::retry("the service stopped before the handler was done").into_settlement());
    }
}

/// Awaits a future; a panic is an error with its text.
pub(crate) async fn caught<T>(mut future: Pin<Box<dyn Future<Output = T> + Send + '_>>) -> Result<T, String> {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(text(&*panic))),
    })
    .await
}

/// What a panic said.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a text").to_owned()
}
