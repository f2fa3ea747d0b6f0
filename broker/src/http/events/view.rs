//! The shape of events and of what clients ask for: docs/events.md in code.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use qwerq_proto::wire;
use serde::{Deserialize, Serialize};

use crate::http::trouble::TroubleView;
use crate::http::{Activity, QueueStats};

use super::feed::Sample;
use super::rates::RatesOfQueue;

/// Queues that a client sees unless it asks for more or fewer.
const TOP_DEFAULT: usize = 50;

/// Queues that a client can have by activity.
const TOP_MAX: usize = 200;

/// Queues that a client can have by name.
const NAMED_MAX: usize = 200;

/// Queues whose groups a client can have.
const WITH_GROUPS_MAX: usize = 10;

/// What a client wants to see.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Watch {
    /// So many queues, the busiest first.
    top: usize,
    /// These too, whatever they do.
    queues: BTreeSet<String>,
    /// The groups of these as well; they need not be named twice.
    groups: BTreeSet<String>,
    #[serde(skip)]
    with_groups: Vec<String>,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch { top: TOP_DEFAULT, queues: BTreeSet::new(), groups: BTreeSet::new(), with_groups: Vec::new() }
    }
}

/// A client's message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    watch: Watch,
}

impl Watch {
    /// Reads a client's message.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn parse(text: &str) -> Result<Watch, String> {
        let request: Request = serde_json::from_str(text)
            .map_err(|error| format!("this is not {{\"watch\": {{\"top\", \"queues\", \"groups\"}}}}: {error}"))?;
        let mut watch = request.watch;
        for (what, value, max) in
            [("top", watch.top, TOP_MAX), ("queues", watch.queues.len(), NAMED_MAX), ("groups", watch.groups.len(), WITH_GROUPS_MAX)]
        {
            if value > max {
                return Err(format!("`{what}` asks for {value}, at most {max} are possible"));
            }
        }
        watch.with_groups = watch.groups.iter().cloned().collect();
        Ok(watch)
    }

    /// Queues whose groups are wanted.
    pub(super) fn with_groups(&self) -> &[String] {
        &self.with_groups
    }

    fn names(&self, queue: &QueueStats) -> bool {
        self.queues.contains(&*queue.name) || self.groups.contains(&*queue.name)
    }
}

/// What a client is told.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    /// First, and whenever the client has asked for something else.
    Snapshot(Moment<'a>),
    /// Every second.
    Tick(Moment<'a>),
    /// Another version of a contract is active.
    Schema { queue: &'a str, version: u32, before: u32 },
    /// The client's message was not understood.
    Error { message: &'a str },
}

/// The broker at one moment, as far as the client wants to see it.
#[derive(Serialize)]
pub(super) struct Moment<'a> {
    at_ms: u64,
    totals: Totals,
    /// Those that were named first, then the busiest.
    queues: Vec<QueueView<'a>>,
}

/// Sums over all queues.
#[derive(Default, Serialize)]
struct Totals {
    queues: usize,
    groups: u64,
    depth: u64,
    bytes: u64,
    ready: u64,
    delayed: u64,
    backing_off: u64,
    in_flight: u64,
    consumers: u64,
    blocked_keys: u64,
    dead_letters: u64,
    /// Queues that are in trouble.
    troubled: usize,
    storage_full: bool,
    rates: RatesOfQueue,
}

#[derive(Serialize)]
struct QueueView<'a> {
    name: &'a str,
    mode: &'static str,
    depth: u64,
    bytes: u64,
    ready: u64,
    delayed: u64,
    backing_off: u64,
    in_flight: u64,
    blocked_keys: u64,
    consumers: u64,
    /// 0 empty, 1 full.
    fill: f64,
    /// In its dead letter queue.
    dead_letters: u64,
    /// What is wrong, worst first.
    troubles: Vec<TroubleView>,
    /// 0: no contract.
    schema_version: u32,
    rates: RatesOfQueue,
    counts: Counts,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<GroupView>>,
}

/// Since the broker's start.
#[derive(Serialize)]
struct Counts {
    published: u64,
    delivered: u64,
    acked: u64,
    dead_lettered: u64,
}

impl From<Activity> for Counts {
    fn from(activity: Activity) -> Counts {
        let Activity { published, delivered, acked, dead_lettered } = activity;
        Counts { published, delivered, acked, dead_lettered }
    }
}

/// A group of a queue.
#[derive(Serialize)]
pub(super) struct GroupView {
    name: String,
    ack_floor: u64,
    lag: u64,
    in_flight: u64,
    backing_off: u64,
    blocked_keys: u64,
    consumers: u32,
}

impl From<wire::GroupInfo> for GroupView {
    fn from(group: wire::GroupInfo) -> GroupView {
        let wire::GroupInfo { name, ack_floor, lag, in_flight, backing_off, consumers, blocked_keys } = group;
        GroupView { name, ack_floor, lag, in_flight, backing_off, blocked_keys, consumers }
    }
}

impl<'a> Moment<'a> {
    /// What `watch` asks for of a sample; `groups` are those of the queues that it wants groups of.
    pub(super) fn of(sample: &'a Sample, watch: &Watch, groups: Vec<(String, Vec<GroupView>)>) -> Moment<'a> {
        let queues = &sample.stats.queues;
        let mut groups: BTreeMap<String, Vec<GroupView>> = groups.into_iter().collect();
        let (mut named, mut others): (Vec<usize>, Vec<usize>) = (0..queues.len()).partition(|at| watch.names(&queues[*at]));
        if watch.top < others.len() && watch.top > 0 {
            others.select_nth_unstable_by(watch.top - 1, |a, b| by_activity(sample, *a, *b));
        }
        others.truncate(watch.top);
        others.sort_by(|a, b| by_activity(sample, *a, *b));
        named.extend(others);
        let view = |at: usize| {
            let queue = &queues[at];
            QueueView {
                name: &queue.name,
                mode: if queue.is_stream { "stream" } else { "queue" },
                depth: queue.depth,
                bytes: queue.bytes,
                ready: queue.ready,
                delayed: queue.delayed,
                backing_off: queue.backing_off,
                in_flight: queue.in_flight,
                blocked_keys: queue.blocked_keys,
                consumers: queue.consumers,
                fill: (queue.fill * 10_000.0).round() / 10_000.0,
                dead_letters: sample.judged[at].dead_letters,
                troubles: sample.judged[at].troubles.iter().copied().map(TroubleView::from).collect(),
                schema_version: queue.schema_version,
                rates: sample.rates[at],
                counts: queue.activity.into(),
                groups: groups.remove(&*queue.name),
            }
        };
        Moment { at_ms: sample.at_ms, totals: Totals::of(sample), queues: named.into_iter().map(view).collect() }
    }
}

/// The busier one first, then the deeper one, then by name.
fn by_activity(sample: &Sample, a: usize, b: usize) -> Ordering {
    let busy = |at: usize| {
        let RatesOfQueue { published, delivered, acked, dead_lettered, .. } = sample.rates[at];
        published + delivered + acked + dead_lettered
    };
    let (left, right) = (&sample.stats.queues[a], &sample.stats.queues[b]);
    busy(b).total_cmp(&busy(a)).then(right.depth.cmp(&left.depth)).then_with(|| left.name.cmp(&right.name))
}

impl Totals {
    fn of(sample: &Sample) -> Totals {
        let stats = &sample.stats;
        let mut totals = Totals {
            queues: stats.queues.len(),
            groups: stats.groups,
            in_flight: stats.in_flight,
            consumers: stats.consumers,
            storage_full: stats.storage_full,
            troubled: sample.judged.iter().filter(|judged| !judged.troubles.is_empty()).count(),
            ..Totals::default()
        };
        for (queue, rates) in stats.queues.iter().zip(&sample.rates) {
            totals.depth += queue.depth;
            totals.bytes += queue.bytes;
            totals.ready += queue.ready;
            totals.delayed += queue.delayed;
            totals.backing_off += queue.backing_off;
            totals.blocked_keys += queue.blocked_keys;
            totals.dead_letters += if queue.is_dlq() { queue.depth } else { 0 };
            totals.rates.published += rates.published;
            totals.rates.delivered += rates.delivered;
            totals.rates.acked += rates.acked;
            totals.rates.dead_lettered += rates.dead_lettered;
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use crate::http::Stats;
    use crate::http::trouble::judge;

    use super::*;

    fn sample(queues: &[(&str, u64, f64)]) -> Sample {
        let queue = |(name, depth, _): &(&str, u64, f64)| QueueStats { name: (*name).into(), depth: *depth, ..QueueStats::default() };
        let rates = |(_, _, published): &(&str, u64, f64)| RatesOfQueue { published: *published, ..RatesOfQueue::default() };
        let stats = Stats { queues: queues.iter().map(queue).collect(), ..Stats::default() };
        Sample { at_ms: 0, judged: judge(&stats.queues, |_| 0), stats, rates: queues.iter().map(rates).collect(), changes: Vec::new() }
    }

    fn names(sample: &Sample, request: &str) -> Vec<String> {
        let watch = Watch::parse(request).unwrap();
        Moment::of(sample, &watch, Vec::new()).queues.iter().map(|queue| queue.name.to_owned()).collect()
    }

    #[test]
    fn a_client_sees_what_it_named_and_the_busiest() {
        let sample = sample(&[("idle", 0, 0.0), ("deep", 9, 0.0), ("busy", 1, 50.0), ("busier", 0, 70.0), ("busy.dlq", 3, 0.0)]);
        for (request, seen) in [
            (r#"{"watch":{"top":2}}"#, vec!["busier", "busy"]),
            (r#"{"watch":{"top":4}}"#, vec!["busier", "busy", "deep", "busy.dlq"]),
            (r#"{"watch":{"top":0,"queues":["idle","gone"]}}"#, vec!["idle"]),
            (r#"{"watch":{"top":1,"groups":["busier"]}}"#, vec!["busier", "busy"]),
            (r#"{"watch":{}}"#, vec!["busier", "busy", "deep", "busy.dlq", "idle"]),
        ] {
            assert_eq!(names(&sample, request), seen, "{request}");
        }
    }

    #[test]
    fn dead_letters_stand_with_their_queue_and_in_the_totals() {
        let sample = sample(&[("orders", 1, 0.0), ("orders.dlq", 4, 0.0)]);
        let moment = Moment::of(&sample, &Watch::default(), Vec::new());
        let orders = moment.queues.iter().find(|queue| queue.name == "orders").unwrap();
        assert_eq!((orders.dead_letters, moment.totals.dead_letters, moment.totals.depth), (4, 4, 5));
        assert_eq!((orders.troubles.len(), moment.totals.troubled), (1, 1));
    }

    #[test]
    fn a_wrong_request_says_what_is_wrong() {
        let many = format!(r#"{{"watch":{{"queues":{:?}}}}}"#, (0..=NAMED_MAX).map(|n| n.to_string()).collect::<Vec<_>>());
        for (request, says) in [
            ("hello", "watch"),
            (r#"{"subscribe":1}"#, "subscribe"),
            (r#"{"watch":{"top":201}}"#, "201"),
            (r#"{"watch":{"top":-1}}"#, "-1"),
            (many.as_str(), "at most 200"),
        ] {
            let error = Watch::parse(request).unwrap_err();
            assert!(error.contains(says), "{request}: {error}");
        }
    }
}
