//! Handlers without a broker: hands a worker or a service what a broker would hand it, in memory, and says what it would say to the broker.
//!
//! ```
//! use qwerq::testing::{self, Parcel};
//! use qwerq::{Ctx, Failure, Raw, Settlement, State};
//!
//! #[qwerq::consumer("notes", group = "archive")]
//! async fn archive(Raw(note): Raw, ctx: Ctx, State(limit): State<usize>) -> Result<(), Failure> {
//!     match note.len() {
//!         length if length > limit => Err(Failure::reject("too long")),
//!         _ if ctx.headers().get("author").is_none() => Err(Failure::retry("who wrote it?")),
//!         _ => Ok(()),
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let archive = testing::worker(archive).state(5_usize);
//! let handled = archive.deliver(Parcel::raw("short").header("author", "a")).await;
//! assert_eq!(handled.settlement, Settlement::Ack);
//! let handled = archive.deliver(Parcel::raw("too long")).await;
//! assert_eq!(handled.settlement, Settlement::Reject { reason: "too long".to_owned() });
//! # }
//! ```
//!
//! The handler is the same code as with a broker: the payload is encoded and decoded, arguments are made, panics are caught. Time does not
//! pass: a delay is told, not waited for. A function under the attribute can also be called as any other.
//! A handler that publishes or calls gets a client from [`StandIn`].

mod parcel;
mod service;
mod stand_in;
mod worker;

pub use parcel::Parcel;
pub use service::TestService;
pub use stand_in::{Outbox, Outgoing, StandIn};
pub use worker::{Fate, Handled, TestWorker};

use crate::serving::Serve;
use crate::worker::ConsumerFn;

/// Drives a function under `#[qwerq::consumer]`.
pub fn worker<F, Args>(function: F) -> TestWorker
where
    F: ConsumerFn<Args>,
{
    let _ = function;
    TestWorker::new::<F::Consumer>()
}

/// Drives the server that `#[qwerq::service]` makes.
pub fn service(server: impl Serve) -> TestService {
    TestService::new(server)
}
