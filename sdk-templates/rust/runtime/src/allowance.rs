//! What the broker may still send to a subscription without leases. Nothing is settled there, so CREDIT says that there is room again.
//!
//! It counts what the holder has taken and says when to speak; sending is the `client`'s.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::delivery::Delivery;

/// What the broker takes for 0 messages in CONSUME.
const MESSAGES_DEFAULT: u32 = 32;

/// What the broker takes for 0 bytes.
const BYTES_DEFAULT: u64 = 16 * 1024 * 1024;

/// The credit of one subscription, and how much of it has been used without a lease.
#[derive(Debug)]
pub(crate) struct Allowance {
    messages: AtomicU32,
    bytes: AtomicU64,
    taken: u32,
    taken_bytes: u64,
}

impl Allowance {
    /// That of CONSUME.
    pub(crate) fn new(messages: u32, bytes: u64) -> Allowance {
        let messages = if messages == 0 { MESSAGES_DEFAULT } else { messages };
        Allowance { messages: messages.into(), bytes: bytes_or_default(bytes).into(), taken: 0, taken_bytes: 0 }
    }

    /// The holder has said what it wants from now on; 0 messages pause.
    pub(crate) fn set(&self, messages: u32, bytes: u64) {
        self.messages.store(messages, Ordering::Relaxed);
        self.bytes.store(bytes_or_default(bytes), Ordering::Relaxed);
    }

    /// The holder has taken a delivery. A lease keeps the account by itself.
    pub(crate) fn take(&mut self, delivery: &Delivery) {
        if delivery.lease_id().is_none() {
            self.taken += 1;
            self.taken_bytes += u64::try_from(delivery.payload.len()).expect("a payload fits a frame");
        }
    }

    /// The credit to give when half of the last one is used, or, when the holder is about to wait, any of it: then the broker may be
    /// holding back a message that did not fit.
    pub(crate) fn due(&mut self, about_to_wait: bool) -> Option<(u32, u64)> {
        let (messages, bytes) = (self.messages.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        let half = self.taken >= messages.div_ceil(2) || self.taken_bytes >= bytes / 2;
        if self.taken == 0 || messages == 0 || !(half || about_to_wait) {
            return None;
        }
        (self.taken, self.taken_bytes) = (0, 0);
        Some((messages, bytes))
    }
}

fn bytes_or_default(bytes: u64) -> u64 {
    if bytes == 0 { BYTES_DEFAULT } else { bytes }
}
