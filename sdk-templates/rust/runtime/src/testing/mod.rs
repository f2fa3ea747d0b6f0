//! Handlers without a broker: hands a worker or a service what a broker would hand it, in memory, and says what it would say to the broker.
//!
//! ```no_run
//! # async fn example() {
//! # use qwerq::worker::{Consumer, Handling, Worker};
//! # struct OnOrder; impl Consumer for OnOrder { fn worker() -> Worker { unimplemented!() } }
//! # fn on_order(_: String) -> Handling<OnOrder, ()> { unimplemented!() }
//! # #[derive(Clone)] struct Ledger;
//! # let order = String::new();
//! use qwerq::Settlement;
//! use qwerq::testing::{self, Parcel};
//!
//! // `on_order` is a function under #[qwerq::consumer], with an argument State<Ledger>.
//! let billing = testing::worker(on_order).state(Ledger);
//! assert_eq!(billing.send(&order).await.settlement, Settlement::Ack);
//! let late = billing.deliver(Parcel::of(&order).attempt(3).header("tenant", "a")).await;
//! assert!(!late.panicked);
//! # }
//! ```
//!
//! The handler is the same code as with a broker: the payload is encoded and decoded, arguments are made, panics are caught. Time does not
//! pass: a delay is told, not waited for. A function under the attribute can also be called as any other.

mod parcel;
mod service;
mod worker;

pub use parcel::Parcel;
pub use service::TestService;
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
