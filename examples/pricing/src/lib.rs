//! What both sides share: the code that `qwer-q gen` made from the contracts, and where the broker is.
//!
//! Made by, with a broker that has the contracts (see README.md): `qwer-q gen --lang rust --out src/queues`.

pub mod queues;

/// The broker's address: `QWERQ_BROKER`, or the broker of this machine.
#[must_use]
pub fn broker() -> String {
    std::env::var("QWERQ_BROKER").unwrap_or_else(|_| "localhost:9876".to_owned())
}
