//! Every family of /metrics: its name, its help and where its numbers come from.
//!
//! Names that were given once stay. docs/monitoring.md, docs/grafana-dashboard.json and docs/alerts.yml speak of them, and a test compares.

use super::page::{Page, plain, seconds, seconds_of_ms};
use super::{CallOutcome, Metrics, QUEUES_ONE_BY_ONE, QueueStats, Stats, Transport, cluster, process};
use crate::cluster::Cluster;

/// Groups that are shown one by one at most, unless told otherwise.
const GROUPS_ONE_BY_ONE: u64 = 5_000;

/// Stands for all queues, or groups, where they are not shown one by one. Nothing has this name: names begin with a letter or a digit.
const ALL: &str = "_all";

impl Metrics {
    /// The Prometheus text of the counters and of `stats`. `one_by_one`: whether queues and groups are told apart; `None`: while there
    /// are not too many.
    #[must_use]
    pub fn render(&self, stats: &Stats, one_by_one: Option<bool>) -> String {
        let queues_apart = one_by_one.unwrap_or(stats.queues.len() <= QUEUES_ONE_BY_ONE);
        let groups_apart = queues_apart && one_by_one.unwrap_or(stats.groups <= GROUPS_ONE_BY_ONE);
        let mut page = Page::default();
        self.messages(&mut page, stats);
        queues(&mut page, stats, queues_apart);
        groups(&mut page, stats, groups_apart);
        self.refusals(&mut page, queues_apart);
        self.calls(&mut page);
        self.clients(&mut page, stats);
        self.latencies(&mut page);
        storage(&mut page, stats);
        self.process(&mut page);
        page.text
    }

    /// The same of a node of a cluster: its own families follow.
    #[must_use]
    pub(crate) fn render_node(&self, stats: &Stats, one_by_one: Option<bool>, cluster: &Cluster) -> String {
        let mut page = Page { text: self.render(stats, one_by_one) };
        cluster::families(&mut page, cluster, &self.leaders);
        page.text
    }

    fn messages(&self, page: &mut Page, stats: &Stats) {
        page.counter("qwerq_messages_published_total", "Messages accepted and durable.", &self.published);
        page.counter("qwerq_messages_duplicate_total", "Publishes whose idempotency key was known.", &self.duplicates);
        page.counter("qwerq_messages_consumed_total", "Deliveries, repeats included.", &self.consumed);
        page.counter("qwerq_messages_acked_total", "Deliveries settled by an ack.", &self.acked);
        page.counter("qwerq_messages_nacked_total", "Deliveries given back by a nack.", &self.nacked);
        page.counter("qwerq_messages_dead_lettered_total", "Messages that became dead letters.", &self.dead_lettered);
        page.counter("qwerq_messages_redriven_total", "Dead letters that went back.", &self.redriven);
        page.counter("qwerq_messages_dropped_total", "Failed messages that their queue dropped.", &self.dropped);
        page.counter("qwerq_messages_expired_total", "Messages whose time to live passed.", &self.expired);
        page.gauge("qwerq_in_flight_count", "Messages leased to consumers.", stats.in_flight);
        let letters: u64 = stats.queues.iter().filter(|queue| queue.is_dlq()).map(|queue| queue.depth).sum();
        page.gauge("qwerq_dead_letters", "Messages in dead letter queues.", letters);
    }

    fn refusals(&self, page: &mut Page, apart: bool) {
        page.family("qwerq_refusals_total", "counter", "Errors that clients were told, by code.");
        for (code, count) in self.refusals.all() {
            page.sample("qwerq_refusals_total", &[("code", code.name())], count);
        }
        const VIOLATIONS: &str = "qwerq_validation_failures_total";
        page.family(VIOLATIONS, "counter", "Payloads that a contract refused, by queue and code.");
        if apart {
            self.violations.each(|queue, code, count| page.sample(VIOLATIONS, &[("queue", queue), ("code", code)], count));
            return;
        }
        let mut sums = std::collections::BTreeMap::<String, u64>::new();
        self.violations.each(|_, code, count| *sums.entry(code.to_owned()).or_default() += count);
        for (code, count) in sums {
            page.sample(VIOLATIONS, &[("queue", ALL), ("code", &code)], count);
        }
    }

    fn calls(&self, page: &mut Page) {
        page.family("qwerq_calls_total", "counter", "Calls that ended, by how.");
        for outcome in CallOutcome::ALL {
            page.sample("qwerq_calls_total", &[("outcome", outcome.label())], self.calls[outcome as usize].get());
        }
        page.gauge("qwerq_calls_in_flight", "Calls that wait for their reply.", self.calls_in_flight.get());
    }

    fn clients(&self, page: &mut Page, stats: &Stats) {
        page.family("qwerq_connections", "gauge", "Open client connections, by transport.");
        for transport in Transport::ALL {
            page.sample("qwerq_connections", &[("transport", transport.label())], self.open[transport as usize].get());
        }
        page.family("qwerq_connections_opened_total", "counter", "Client connections since the start, by transport.");
        for transport in Transport::ALL {
            page.sample("qwerq_connections_opened_total", &[("transport", transport.label())], self.opened[transport as usize].get());
        }
        page.gauge("qwerq_consumers", "Open subscriptions and waiting fetches.", stats.consumers);
        page.gauge("qwerq_consumer_credit", "Messages that consumers would take beside what they hold.", stats.credit);
        page.gauge("qwerq_outbox_bytes", "Bytes of frames that clients have not read yet.", stats.outbox_bytes);
    }

    fn latencies(&self, page: &mut Page) {
        page.histogram("qwerq_publish_seconds", "Time from a PUBLISH to its answer.", &self.publish_us, seconds);
        let deliver = "Time from a message being there to its first delivery.";
        page.histogram("qwerq_deliver_seconds", deliver, &self.deliver_ms, seconds_of_ms);
        page.histogram("qwerq_journal_sync_seconds", "Time of a journal write and, with fsync, its sync.", &self.journal_sync_us, seconds);
        page.histogram("qwerq_journal_batch_entries", "Entries in a journal batch.", &self.journal_batch_entries, plain);
        page.histogram("qwerq_journal_batch_bytes", "Bytes of a journal batch.", &self.journal_batch_bytes, plain);
        page.histogram("qwerq_checkpoint_seconds", "Time of a checkpoint.", &self.checkpoint_us, seconds);
    }

    fn process(&self, page: &mut Page) {
        page.counter("qwerq_spans_exported_total", "Spans of traces that the collector took.", &self.spans_exported);
        page.counter("qwerq_spans_dropped_total", "Spans of traces that it did not take.", &self.spans_dropped);
        if let Some(bytes) = process::resident_bytes() {
            page.gauge("qwerq_memory_resident_bytes", "Memory of the process in RAM.", bytes);
        }
        page.gauge("qwerq_uptime_seconds", "Time since the start.", self.started.elapsed().as_secs());
        page.family("qwerq_build_info", "gauge", "The running version.");
        page.sample("qwerq_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    }
}

fn queues(page: &mut Page, stats: &Stats, apart: bool) {
    page.gauge("qwerq_queues", "Queues and streams, dead letter queues included.", stats.queues.len());
    let mut family = |name: &str, help: &str, value: fn(&QueueStats) -> u64| {
        page.family(name, "gauge", help);
        if apart {
            stats.queues.iter().for_each(|queue| page.sample(name, &[("queue", &queue.name)], value(queue)));
        } else {
            page.sample(name, &[("queue", ALL)], stats.queues.iter().map(value).sum::<u64>());
        }
    };
    family("qwerq_queue_depth", "Messages not settled by all groups.", |queue| queue.depth);
    family("qwerq_queue_bytes", "Bytes of those messages.", |queue| queue.bytes);
    family("qwerq_queue_ready", "Messages that could be delivered now.", |queue| queue.ready);
    family("qwerq_queue_delayed", "Messages that are not due yet.", |queue| queue.delayed);
    family("qwerq_queue_backing_off", "Messages that wait for their next attempt.", |queue| queue.backing_off);
    family("qwerq_queue_in_flight", "Messages leased to consumers, by queue.", |queue| queue.in_flight);
    family("qwerq_queue_blocked_keys", "Ordering keys that wait for an earlier message.", |queue| queue.blocked_keys);
    family("qwerq_queue_consumers", "Open subscriptions and waiting fetches, by queue.", |queue| queue.consumers);
    family("qwerq_queue_over_limit", "1: a dead letter queue beyond its limits.", |queue| u64::from(queue.over_limit));

    const FILL: &str = "qwerq_queue_fill_ratio";
    page.family(FILL, "gauge", "How near a queue is to its nearer limit, 1: full; of all queues, the fullest.");
    if apart {
        stats.queues.iter().for_each(|queue| page.sample(FILL, &[("queue", &queue.name)], rounded(queue.fill)));
    } else {
        page.sample(FILL, &[("queue", ALL)], rounded(stats.queues.iter().map(|queue| queue.fill).fold(0.0, f64::max)));
    }
}

/// Four decimals are enough for a ratio.
fn rounded(ratio: f64) -> f64 {
    (ratio * 10_000.0).round() / 10_000.0
}

fn groups(page: &mut Page, stats: &Stats, apart: bool) {
    page.gauge("qwerq_groups", "Consumer groups.", stats.groups);
    const LAG: &str = "qwerq_group_lag";
    const CONSUMERS: &str = "qwerq_group_consumers";
    page.family(LAG, "gauge", "Messages that a group has not settled.");
    if !apart {
        page.sample(LAG, &[("queue", ALL), ("group", ALL)], stats.lag);
    }
    let each = || stats.queues.iter().filter(|_| apart).flat_map(|queue| queue.groups.iter().map(move |group| (&*queue.name, group)));
    for (queue, group) in each() {
        page.sample(LAG, &[("queue", queue), ("group", &group.name)], group.lag);
    }
    page.family(CONSUMERS, "gauge", "Open subscriptions and waiting fetches of a group.");
    if !apart {
        page.sample(CONSUMERS, &[("queue", ALL), ("group", ALL)], stats.consumers);
    }
    for (queue, group) in each() {
        page.sample(CONSUMERS, &[("queue", queue), ("group", &group.name)], group.consumers);
    }
}

fn storage(page: &mut Page, stats: &Stats) {
    page.gauge("qwerq_journal_bytes", "What the journal takes on the disk.", stats.journal_bytes);
    page.gauge("qwerq_journal_tail_bytes", "Bytes of the journal's last batches in memory.", stats.tail_bytes);
    page.gauge("qwerq_store_bytes", "What the store takes.", stats.store_bytes);
    page.gauge("qwerq_store_bytes_max", "What the store can grow to.", stats.store_bytes_max);
    page.gauge("qwerq_disk_free_bytes", "What may still be written on the disk of the data.", stats.disk_free_bytes);
    page.gauge("qwerq_storage_full", "1: publishes are refused since room is short.", u64::from(stats.storage_full));
}

#[cfg(test)]
mod tests {
    use super::super::GroupFigures;
    use super::*;

    fn lines(text: &str, prefix: &str) -> Vec<String> {
        text.lines().filter(|line| line.starts_with(prefix)).map(str::to_owned).collect()
    }

    fn queue(name: &str, depth: u64) -> QueueStats {
        let group = GroupFigures { name: "billing".into(), lag: depth, consumers: 1, ..GroupFigures::default() };
        QueueStats { name: name.into(), depth, fill: 0.25, groups: vec![group], ..QueueStats::default() }
    }

    fn stats(queues: Vec<QueueStats>) -> Stats {
        let groups = queues.len() as u64;
        Stats { groups, lag: queues.iter().map(|queue| queue.depth).sum(), queues, ..Stats::default() }
    }

    #[test]
    fn counters_stand_at_zero_from_the_start() {
        let text = Metrics::new().render(&Stats::default(), None);
        for name in ["published", "consumed", "acked", "nacked"] {
            let line = format!("qwerq_messages_{name}_total");
            assert_eq!(lines(&text, &line), [format!("{line} 0")]);
        }
        assert_eq!(lines(&text, "qwerq_in_flight_count"), ["qwerq_in_flight_count 0"]);
        assert_eq!(lines(&text, "# TYPE qwerq_queue_depth"), ["# TYPE qwerq_queue_depth gauge"]);
        assert!(lines(&text, "qwerq_queue_depth").is_empty());
        assert!(lines(&text, "qwerq_refusals_total").contains(&"qwerq_refusals_total{code=\"queue-full\"} 0".to_owned()));
    }

    #[test]
    fn every_sample_follows_its_family_and_families_are_unique() {
        let metrics = Metrics::new();
        metrics.judged("orders", &qwerq_proto::ErrorCode::SchemaViolation.with("bad"));
        for one_by_one in [true, false] {
            let text = metrics.render(&stats(vec![queue("orders.created", 3)]), Some(one_by_one));
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
    }

    #[test]
    fn a_thousand_queues_are_shown_one_by_one_and_more_in_sums() {
        let queues = |count: usize| stats((0..count).map(|n| queue(&format!("q{n}"), 2)).collect());
        let metrics = Metrics::new();
        let few = metrics.render(&queues(1_000), None);
        assert_eq!(lines(&few, "qwerq_queue_depth{").len(), 1_000);
        assert_eq!(lines(&few, "qwerq_group_lag{").len(), 1_000);
        let many = metrics.render(&queues(1_001), None);
        assert_eq!(lines(&many, "qwerq_queue_depth"), ["qwerq_queue_depth{queue=\"_all\"} 2002"]);
        assert_eq!(lines(&many, "qwerq_queue_fill_ratio"), ["qwerq_queue_fill_ratio{queue=\"_all\"} 0.25"]);
        assert_eq!(lines(&many, "qwerq_group_lag"), ["qwerq_group_lag{queue=\"_all\",group=\"_all\"} 2002"]);
        assert_eq!(lines(&metrics.render(&queues(1_001), Some(true)), "qwerq_queue_depth{").len(), 1_001);
        assert_eq!(lines(&metrics.render(&queues(2), Some(false)), "qwerq_queue_depth{").len(), 1);
        assert!(metrics.render(&queues(20_000), None).len() < 1_000_000);
    }

    #[test]
    fn dead_letters_are_the_depths_of_their_queues() {
        let text = Metrics::new().render(&stats(vec![queue("a", 1), queue("a.dlq", 2), queue("b.dlq", 3)]), None);
        assert_eq!(lines(&text, "qwerq_dead_letters"), ["qwerq_dead_letters 5"]);
    }
}
