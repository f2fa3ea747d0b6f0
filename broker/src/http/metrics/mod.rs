//! What the broker counts, and its text form for Prometheus.
//!
//! Counters are relaxed atomics that a shard adds to once per turn; nothing on the way of a message takes a lock or allocates. What is a
//! property of the moment, such as a queue's depth, is not counted here but asked of the shards at each scrape ([`Stats`]), so that it
//! cannot drift from the truth. docs/monitoring.md explains every name. Read on in `instrument.rs` and `families.rs`.

mod call_outcome;
mod cluster;
mod families;
mod figures;
mod instrument;
mod page;
mod process;
mod refusals;

use std::time::{Duration, Instant};

use qwerq_proto::wire;

pub use call_outcome::CallOutcome;
pub use figures::{Activity, GroupFigures, GroupsOf, QueueStats, Stats};
pub use instrument::{Counter, Gauge, Histogram, Tally};
pub(super) use page::CONTENT_TYPE;
use refusals::{Refusals, Violations};

/// With more queues than these, /metrics shows sums instead of each one, unless told otherwise.
pub const QUEUES_ONE_BY_ONE: usize = 1_000;

/// What a client connects by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The broker port.
    Tcp,
    /// `/ws` on the HTTP port.
    WebSocket,
}

impl Transport {
    const ALL: [Transport; 2] = [Transport::Tcp, Transport::WebSocket];

    fn label(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::WebSocket => "websocket",
        }
    }
}

/// What the broker counts since its start. Shared by all shards.
#[derive(Debug)]
pub struct Metrics {
    /// Messages that were accepted and are durable; a duplicate is not one.
    pub published: Counter,
    /// Publishes whose idempotency key was known.
    pub duplicates: Counter,
    /// Deliveries, repeats included.
    pub consumed: Counter,
    /// Leases that an ack settled.
    pub acked: Counter,
    /// Leases that a nack gave back.
    pub nacked: Counter,
    /// Messages that became dead letters.
    pub dead_lettered: Counter,
    /// Dead letters that went back.
    pub redriven: Counter,
    /// Failed messages that their queue dropped.
    pub dropped: Counter,
    /// Messages whose time to live passed, for each group that had not settled them.
    pub expired: Counter,
    /// Calls that wait for their reply.
    pub calls_in_flight: Gauge,
    calls: [Counter; CallOutcome::ALL.len()],
    refusals: Refusals,
    violations: Violations,
    open: [Gauge; Transport::ALL.len()],
    opened: [Counter; Transport::ALL.len()],
    /// Microseconds from a PUBLISH's arrival to its PUBLISH_ACK.
    pub publish_us: Histogram,
    /// Milliseconds from a message's being there to its first delivery.
    pub deliver_ms: Histogram,
    /// Spans that the collector has taken.
    pub spans_exported: Counter,
    /// Spans that it has not taken, or that nobody could wait for.
    pub spans_dropped: Counter,
    /// Entries in each journal batch; its count is the number of batches.
    pub journal_batch_entries: Histogram,
    /// Bytes of each journal batch.
    pub journal_batch_bytes: Histogram,
    /// Microseconds that each sync of the journal took.
    pub journal_sync_us: Histogram,
    /// Microseconds that each checkpoint took.
    pub checkpoint_us: Histogram,
    /// Leaders of the cluster, if there is one.
    leaders: cluster::Leaders,
    started: Instant,
}

impl Default for Metrics {
    fn default() -> Metrics {
        const ENTRIES: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 4_096];
        const BYTES: &[u64] = &[256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
        const SYNC_US: &[u64] = &[50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400, 1_000_000];
        const PUBLISH_US: &[u64] =
            &[50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400, 204_800, 1_000_000, 5_000_000];
        const DELIVER_MS: &[u64] = &[1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 10_000, 60_000, 600_000, 3_600_000];
        const CHECKPOINT_US: &[u64] = &[10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000];
        Metrics {
            published: Counter::default(),
            duplicates: Counter::default(),
            consumed: Counter::default(),
            acked: Counter::default(),
            nacked: Counter::default(),
            dead_lettered: Counter::default(),
            redriven: Counter::default(),
            dropped: Counter::default(),
            expired: Counter::default(),
            calls_in_flight: Gauge::default(),
            calls: Default::default(),
            refusals: Refusals::default(),
            violations: Violations::default(),
            open: Default::default(),
            opened: Default::default(),
            spans_exported: Counter::default(),
            spans_dropped: Counter::default(),
            publish_us: Histogram::new(PUBLISH_US),
            deliver_ms: Histogram::new(DELIVER_MS),
            journal_batch_entries: Histogram::new(ENTRIES),
            journal_batch_bytes: Histogram::new(BYTES),
            journal_sync_us: Histogram::new(SYNC_US),
            checkpoint_us: Histogram::new(CHECKPOINT_US),
            leaders: cluster::Leaders::default(),
            started: Instant::now(),
        }
    }
}

impl Metrics {
    /// All at zero; the uptime begins.
    #[must_use]
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// Time since the start.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Open connections, whatever they came by.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.open.iter().map(Gauge::get).sum()
    }

    /// Counts a call that ended.
    pub fn called(&self, outcome: CallOutcome) {
        self.calls[outcome as usize].add(1);
    }

    /// Counts a connection for as long as the result lives.
    #[must_use]
    pub fn connected(&self, transport: Transport) -> Connected<'_> {
        self.opened[transport as usize].add(1);
        let open = &self.open[transport as usize];
        open.inc();
        Connected(open)
    }

    /// Counts an error that a client is told.
    pub fn refused(&self, error: &wire::Error) {
        if let Some(code) = error.known_code() {
            self.refusals.add(code);
        }
    }

    /// Counts a payload for a queue that was not accepted, if a contract is why.
    pub fn judged(&self, queue: &str, error: &wire::Error) {
        self.violations.add(queue, error);
    }
}

/// An open connection, as it is counted.
#[derive(Debug)]
pub struct Connected<'a>(&'a Gauge);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
