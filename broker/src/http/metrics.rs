//! What the broker counts, and its text form for Prometheus.
//!
//! Counters are relaxed atomics that a shard adds to once per turn. What is a property of the moment, such as a queue's
//! depth, is not counted here but asked of the shards at each scrape, so that it cannot drift from the truth.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The media type of [`Metrics::render`].
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A number that only rises while the process lives.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// One more.
    pub fn inc(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; each pairs with an [`inc`](Gauge::inc).
    pub fn dec(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often values fell into each of a few fixed ranges, and their sum.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds, inclusive and ascending; what is above the last falls into the extra bucket.
    bounds: &'static [u64],
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [u64]) -> Histogram {
        Histogram { bounds, buckets: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    /// Counts one value, in the histogram's unit.
    pub fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Counts one duration, in a histogram of microseconds.
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// With a reply.
    Replied,
    /// With the responder's own error.
    Failed,
    /// With a reply that broke the contract or a limit.
    InvalidReply,
    /// At its deadline.
    TimedOut,
    /// By the caller's CANCEL.
    Cancelled,
    /// Its caller disconnected.
    CallerLost,
    /// Its responder disconnected.
    ResponderLost,
    /// Nobody served the queue.
    NoResponders,
    /// The line was full.
    Overloaded,
    /// The request broke the contract, a limit or a rule.
    Refused,
}

impl CallOutcome {
    const ALL: [CallOutcome; 10] = [
        CallOutcome::Replied,
        CallOutcome::Failed,
        CallOutcome::InvalidReply,
        CallOutcome::TimedOut,
        CallOutcome::Cancelled,
        CallOutcome::CallerLost,
        CallOutcome::ResponderLost,
        CallOutcome::NoResponders,
        CallOutcome::Overloaded,
        CallOutcome::Refused,
    ];

    fn label(self) -> &'static str {
        match self {
            CallOutcome::Replied => "replied",
            CallOutcome::Failed => "failed",
            CallOutcome::InvalidReply => "invalid-reply",
            CallOutcome::TimedOut => "timeout",
            CallOutcome::Cancelled => "cancelled",
            CallOutcome::CallerLost => "caller-lost",
            CallOutcome::ResponderLost => "responder-lost",
            CallOutcome::NoResponders => "no-responders",
            CallOutcome::Overloaded => "overloaded",
            CallOutcome::Refused => "refused",
        }
    }
}

/// What the broker counts since its start. Shared by all shards.
#[derive(Debug)]
pub struct Metrics {
    /// Messages that were accepted and are durable; a duplicate is not one.
    pub published: Counter,
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
    /// Open client connections.
    pub connections: Gauge,
    /// Entries in each journal batch; its count is the number of batches.
    pub journal_batch_entries: Histogram,
    /// Microseconds that each sync of the journal took.
    pub journal_sync_us: Histogram,
    started: Instant,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            published: Counter::default(),
            consumed: Counter::default(),
            acked: Counter::default(),
            nacked: Counter::default(),
            dead_lettered: Counter::default(),
            redriven: Counter::default(),
            dropped: Counter::default(),
            expired: Counter::default(),
            calls_in_flight: Gauge::default(),
            calls: Default::default(),
            connections: Gauge::default(),
            journal_batch_entries: Histogram::new(&[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 4_096]),
            journal_sync_us: Histogram::new(&[50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400, 1_000_000]),
            started: Instant::now(),
        }
    }
}

/// What one queue holds at one moment, in messages unless named otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// The queue's name, which keeps the naming rule.
    pub name: String,
    /// Stored and not settled by all groups, delayed ones included.
    pub depth: u64,
    /// Payloads and headers of those, in bytes.
    pub bytes: u64,
    /// Could be delivered now.
    pub ready: u64,
    /// Not due yet.
    pub delayed: u64,
    /// Wait for their next attempt.
    pub backing_off: u64,
    /// Leased.
    pub in_flight: u64,
    /// A dead letter queue that holds more than its limits; it refuses nothing.
    pub over_limit: bool,
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

    /// Counts a call that ended.
    pub fn called(&self, outcome: CallOutcome) {
        self.calls[outcome as usize].add(1);
    }

    /// The Prometheus text of the counters and of `queues`.
    #[must_use]
    pub fn render(&self, queues: &[QueueStats]) -> String {
        let mut page = Page::default();
        page.counter("qwerq_messages_published_total", "Messages accepted and durable.", &self.published);
        page.counter("qwerq_messages_consumed_total", "Deliveries, repeats included.", &self.consumed);
        page.counter("qwerq_messages_acked_total", "Deliveries settled by an ack.", &self.acked);
        page.counter("qwerq_messages_nacked_total", "Deliveries given back by a nack.", &self.nacked);
        page.counter("qwerq_messages_dead_lettered_total", "Messages that became dead letters.", &self.dead_lettered);
        page.counter("qwerq_messages_redriven_total", "Dead letters that went back.", &self.redriven);
        page.counter("qwerq_messages_dropped_total", "Failed messages that their queue dropped.", &self.dropped);
        page.counter("qwerq_messages_expired_total", "Messages whose time to live passed.", &self.expired);
        let in_flight: u64 = queues.iter().map(|queue| queue.in_flight).sum();
        page.gauge("qwerq_in_flight_count", "Messages leased to consumers.", in_flight);

        page.queues("qwerq_queue_depth", "Messages not settled by all groups.", queues, |queue| queue.depth);
        page.queues("qwerq_queue_bytes", "Bytes of those messages.", queues, |queue| queue.bytes);
        page.queues("qwerq_queue_ready", "Messages that could be delivered now.", queues, |queue| queue.ready);
        page.queues("qwerq_queue_delayed", "Messages that are not due yet.", queues, |queue| queue.delayed);
        page.queues("qwerq_queue_backing_off", "Messages that wait for their next attempt.", queues, |queue| queue.backing_off);
        page.queues("qwerq_queue_over_limit", "1: a dead letter queue beyond its limits.", queues, |queue| u64::from(queue.over_limit));
        page.queues("qwerq_queue_in_flight", "Messages leased to consumers, by queue.", queues, |queue| queue.in_flight);

        page.family("qwerq_calls_total", "counter", "Calls that ended, by how.");
        for outcome in CallOutcome::ALL {
            page.sample("qwerq_calls_total", &[("outcome", outcome.label())], self.calls[outcome as usize].get());
        }
        page.gauge("qwerq_calls_in_flight", "Calls that wait for their reply.", self.calls_in_flight.get());

        page.gauge("qwerq_connections", "Open client connections.", self.connections.get());
        let entries = &self.journal_batch_entries;
        page.histogram("qwerq_journal_batch_entries", "Entries in a journal batch.", entries, |entries| entries.to_string());
        page.histogram("qwerq_journal_sync_seconds", "Time of a journal sync.", &self.journal_sync_us, seconds);
        page.gauge("qwerq_uptime_seconds", "Time since the start.", self.started.elapsed().as_secs());
        page.family("qwerq_build_info", "gauge", "The running version.");
        page.sample("qwerq_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        page.text
    }
}

/// Microseconds as decimal seconds.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The text format, family by family.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn counter(&mut self, name: &str, help: &str, counter: &Counter) {
        self.family(name, "counter", help);
        self.sample(name, &[], counter.get());
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn queues(&mut self, name: &str, help: &str, queues: &[QueueStats], value: impl Fn(&QueueStats) -> u64) {
        self.family(name, "gauge", help);
        for queue in queues {
            self.sample(name, &[("queue", &queue.name)], value(queue));
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram, unit: impl Fn(u64) -> String) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let mut count = 0;
        let bounds = histogram.bounds.iter().map(|bound| unit(*bound)).chain(["+Inf".to_owned()]);
        for (bound, values) in bounds.zip(&histogram.buckets) {
            count += values.load(Ordering::Relaxed);
            self.sample(&bucket, &[("le", &bound)], count);
        }
        self.sample(&format!("{name}_sum"), &[], unit(histogram.sum.load(Ordering::Relaxed)));
        self.sample(&format!("{name}_count"), &[], count);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("writing to a String cannot fail");
    }

    /// One line. Label values are names, versions and numbers, none of which needs escaping.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            debug_assert!(!text.contains(['"', '\\', '\n']), "{text:?} cannot stand in a label");
            let open = if i == 0 { '{' } else { ',' };
            write!(self.text, "{open}{label}=\"{text}\"").expect("writing to a String cannot fail");
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        writeln!(self.text, " {value}").expect("writing to a String cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, prefix: &str) -> Vec<String> {
        text.lines().filter(|line| line.starts_with(prefix)).map(str::to_owned).collect()
    }

    #[test]
    fn counters_stand_at_zero_from_the_start() {
        let text = Metrics::new().render(&[]);
        for name in ["published", "consumed", "acked", "nacked"] {
            let line = format!("qwerq_messages_{name}_total");
            assert_eq!(lines(&text, &line), [format!("{line} 0")]);
        }
        assert_eq!(lines(&text, "qwerq_in_flight_count"), ["qwerq_in_flight_count 0"]);
        assert_eq!(lines(&text, "# TYPE qwerq_queue_depth"), ["# TYPE qwerq_queue_depth gauge"]);
        assert!(lines(&text, "qwerq_queue_depth").is_empty());
    }

    #[test]
    fn every_sample_follows_its_family_and_families_are_unique() {
        let queue = QueueStats { name: "orders.created".into(), ..QueueStats::default() };
        let text = Metrics::new().render(&[queue]);
        let mut families: Vec<&str> = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, _) = rest.split_once(' ').unwrap();
                assert!(!families.contains(&name), "{name} twice");
                families.push(name);
            } else if !line.starts_with('#') {
                let family = families.last().expect("a sample has a family");
                assert!(line.starts_with(family), "{line} in {family}");
            }
        }
    }

    #[test]
    fn in_flight_is_the_sum_of_the_queues() {
        let queue = |name: &str, in_flight| QueueStats { name: name.into(), in_flight, ..QueueStats::default() };
        let text = Metrics::new().render(&[queue("a", 2), queue("b", 3)]);
        assert_eq!(lines(&text, "qwerq_in_flight_count"), ["qwerq_in_flight_count 5"]);
    }

    #[test]
    fn a_bound_belongs_to_its_bucket_and_buckets_are_cumulative() {
        let histogram = Histogram::new(&[100, 1_500_000]);
        for us in [0, 100, 101, 1_500_000, 2_000_000] {
            histogram.observe(us);
        }
        histogram.observe_duration(Duration::from_millis(1));
        let mut page = Page::default();
        page.histogram("h", "Help.", &histogram, seconds);
        assert_eq!(
            lines(&page.text, "h"),
            ["h_bucket{le=\"0.0001\"} 2", "h_bucket{le=\"1.5\"} 5", "h_bucket{le=\"+Inf\"} 6", "h_sum 3.501201", "h_count 6",]
        );
    }

    #[test]
    fn microseconds_read_as_seconds() {
        for (us, text) in [(0, "0"), (50, "0.00005"), (1_000_000, "1"), (10_000_000, "10"), (1_600, "0.0016")] {
            assert_eq!(seconds(us), text);
        }
    }
}
