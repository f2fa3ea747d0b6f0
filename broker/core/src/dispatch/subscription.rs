//! A subscription: one consumer's bounds and what it holds.

use std::collections::BTreeSet;

use crate::dispatch::GroupKey;

/// At most so much takes a delivery in a frame beside its payload and headers: lease, ids, times, ordering key, and the tags and lengths
/// of 64 headers.
const DELIVERY_OVERHEAD_BYTES: u64 = 2_048;

/// How much a subscription may hold unsettled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Messages; 0 pauses.
    pub messages: u32,
    /// Payload and header bytes; one message may exceed it.
    pub bytes: u64,
}

/// What a consumer asks for.
#[derive(Debug, Clone, Copy)]
pub struct Subscribe {
    /// The group.
    pub group: GroupKey,
    /// Its bounds.
    pub bounds: Bounds,
    /// Messages that it works on at once.
    pub concurrency: u32,
    /// How long its leases last.
    pub visibility_timeout_ms: u64,
}

/// How a subscription differs that is answered once, in one frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pull {
    /// Its leases belong to nobody and outlive the connection.
    pub(crate) detached: bool,
    /// A message did not fit any more.
    pub(crate) full: bool,
}

#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) group: GroupKey,
    pub(crate) bounds: Bounds,
    pub(crate) concurrency: u32,
    pub(crate) visibility_timeout_ms: u64,
    pub(crate) in_flight: u32,
    bytes: u64,
    /// Lease counters, oldest first.
    pub(crate) leases: BTreeSet<u64>,
    /// A lease expired; nothing more until the connection shows a sign of life.
    pub(crate) silent: bool,
    pub(crate) pull: Option<Pull>,
    /// Nothing but a suspect goes to it.
    pub(crate) reserved: bool,
}

impl Subscription {
    pub(crate) fn new(subscribe: &Subscribe) -> Subscription {
        Subscription {
            group: subscribe.group,
            bounds: subscribe.bounds,
            concurrency: subscribe.concurrency,
            visibility_timeout_ms: subscribe.visibility_timeout_ms,
            in_flight: 0,
            bytes: 0,
            leases: BTreeSet::new(),
            silent: false,
            pull: None,
            reserved: false,
        }
    }

    pub(crate) fn pull(subscribe: &Subscribe, detached: bool) -> Subscription {
        Subscription { pull: Some(Pull { detached, full: false }), ..Subscription::new(subscribe) }
    }

    pub(crate) fn has_credit(&self) -> bool {
        !self.reserved && self.is_able()
    }

    /// Whether it would get something if it had no leases.
    pub(crate) fn is_able_when_idle(&self) -> bool {
        !self.silent && self.bounds.messages > 0 && self.bounds.bytes > 0
    }

    /// Whether it has credit, or would have if it were not reserved.
    pub(crate) fn is_able(&self) -> bool {
        !self.silent && self.in_flight < self.bounds.messages && self.bytes < self.bounds.bytes && self.pull.is_none_or(|pull| !pull.full)
    }

    /// Whether a message of this size may follow what it holds: a pull is one frame, and only its first message may exceed it.
    pub(crate) fn has_room(&self, bytes: u32) -> bool {
        let frame = || self.bytes + u64::from(bytes) + u64::from(self.in_flight + 1) * DELIVERY_OVERHEAD_BYTES;
        self.pull.is_none() || self.in_flight == 0 || frame() <= self.bounds.bytes
    }

    pub(crate) fn is_detached(&self) -> bool {
        self.pull.is_some_and(|pull| pull.detached)
    }

    pub(crate) fn lease(&mut self, counter: u64, bytes: u32) {
        self.in_flight += 1;
        self.bytes += u64::from(bytes);
        self.leases.insert(counter);
    }

    pub(crate) fn free(&mut self, counter: u64, bytes: u32) {
        if self.leases.remove(&counter) {
            self.in_flight -= 1;
            self.bytes -= u64::from(bytes);
        }
    }
}
