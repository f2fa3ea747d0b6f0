//! A subscription: one consumer's bounds and what it holds.

use std::collections::BTreeSet;

use crate::dispatch::GroupKey;

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
        }
    }

    pub(crate) fn has_credit(&self) -> bool {
        !self.silent && self.in_flight < self.bounds.messages && self.bytes < self.bounds.bytes
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
