//! What both programs share: the code that `qwer-q gen` made from the contract, and where the broker is.

pub mod queues;

/// The broker's address: `QWERQ_BROKER`, or the broker of this machine.
#[must_use]
pub fn broker() -> String {
    std::env::var("QWERQ_BROKER").unwrap_or_else(|_| "localhost:9876".to_owned())
}
