//! A responder: a subscription that takes calls, its bounds, and the calls that it has.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::dispatch::Bounds;
use crate::ids::SubscriptionKey;

/// Names a responder for as long as it has calls, also when the client's number is in use again.
pub(super) type ResponderNumber = u64;

/// The order in which responders get calls: fewest calls, then longest without one.
pub(super) type Rank = (u64, u64, ResponderNumber);

/// What a call takes on its way to a responder beside the request, roughly.
pub const FRAME_BYTES: u64 = 64;

/// What a responder asks for.
#[derive(Debug, Clone, Copy)]
pub struct Serve<'a> {
    /// Whose calls.
    pub queue: &'a str,
    /// How many it takes on at once.
    pub bounds: Bounds,
    /// Fingerprint of the contract that it was generated from, if it has said.
    pub contract: Option<[u8; 32]>,
}

/// What a responder serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serving<'a> {
    /// The subscription.
    pub subscription: SubscriptionKey,
    /// Whose calls.
    pub queue: &'a Arc<str>,
    /// The contract that it declared.
    pub contract: Option<[u8; 32]>,
}

#[derive(Debug)]
pub(super) struct Responder {
    pub(super) number: ResponderNumber,
    pub(super) key: SubscriptionKey,
    pub(super) queue: Arc<str>,
    pub(super) bounds: Bounds,
    contract: Option<[u8; 32]>,
    pub(super) open: bool,
    /// The calls that it has; their callers wait.
    pub(super) calls: BTreeSet<u64>,
    /// Bytes of their requests.
    pub(super) bytes: u64,
    /// Calls that ended while it had them, since it was last heard of. Their places are free again, but a responder that is stuck would
    /// otherwise look like the least loaded and draw all calls.
    late: u32,
    /// Their requests, which may still wait to be read: what is unanswered stays within the bound on bytes, whoever waits for it.
    late_bytes: u64,
    /// The call that it was handed last.
    last_call: u64,
}

impl Responder {
    pub(super) fn new(number: ResponderNumber, key: SubscriptionKey, queue: Arc<str>, serve: &Serve<'_>) -> Responder {
        Responder {
            number,
            key,
            queue,
            bounds: serve.bounds,
            contract: serve.contract,
            open: true,
            calls: BTreeSet::new(),
            bytes: 0,
            late: 0,
            late_bytes: 0,
            last_call: 0,
        }
    }

    /// Whether it can take a call. One is taken even if it is larger than all the bytes.
    pub(super) fn is_free(&self) -> bool {
        self.open && self.calls.len() < self.bounds.messages as usize && self.bytes + self.late_bytes < self.bounds.bytes
    }

    pub(super) fn rank(&self) -> Rank {
        (self.calls.len() as u64 + u64::from(self.late), self.last_call, self.number)
    }

    pub(super) fn take(&mut self, counter: u64, bytes: u64) {
        self.calls.insert(counter);
        self.bytes += bytes;
        self.last_call = counter;
    }

    pub(super) fn give(&mut self, counter: u64, bytes: u64) {
        if self.calls.remove(&counter) {
            self.bytes -= bytes;
        }
    }

    /// A call has ended while it had it.
    pub(super) fn miss(&mut self, bytes: u64) {
        self.late = self.late.saturating_add(1);
        self.late_bytes = self.late_bytes.saturating_add(bytes + FRAME_BYTES);
    }

    pub(super) fn is_late(&self) -> bool {
        self.late > 0
    }

    /// It has answered something, or asked for more: it works.
    pub(super) fn heard(&mut self) {
        self.late = 0;
        self.late_bytes = 0;
    }

    pub(super) fn serving(&self) -> Serving<'_> {
        Serving { subscription: self.key, queue: &self.queue, contract: self.contract }
    }
}
