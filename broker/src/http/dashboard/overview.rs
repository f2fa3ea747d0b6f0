//! The first page: all queues, those in trouble first, and what the broker does right now. Without queues: how to make one.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use askama::Template;
use axum::response::Response;
use qwerq_proto::{name, wire};
use serde::Deserialize;
use utoipa::IntoParams;

use super::asked::Asked;
use super::choice::{Choice, choices};
use super::frame::{ErrorPage, Frame, Section, page};
use super::pager::{self, Pager};
use super::quantity::{count, counted};
use super::trouble::{Trouble, TroubleView, rank, troubles};
use super::visit::Visit;

/// What of the queues is shown.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct Shown {
    /// Part of a queue's name.
    q: String,
    /// `trouble`, `name` or `depth`.
    sort: String,
    /// From 1.
    page: String,
}

/// A number at the top.
pub(super) struct Figure {
    /// What live.js knows it by.
    pub(super) key: &'static str,
    pub(super) text: &'static str,
    pub(super) value: String,
}

/// A rate at the top, which only live.js fills in.
pub(super) struct Rate {
    pub(super) key: &'static str,
    pub(super) text: &'static str,
}

/// A queue's row.
struct Row {
    name: String,
    is_stream: bool,
    worst: Option<&'static str>,
    troubles: Vec<TroubleView>,
    depth: String,
    in_flight: String,
    dead_letters: String,
    consumers: String,
    contract: Option<String>,
}

struct Step {
    text: &'static str,
    command: &'static str,
}

/// What a broker without queues suggests.
const FIRST_STEPS: [Step; 3] = [
    Step {
        text: "Give the queue a contract: a message type of a .proto file.",
        command: "qwer-q schema register -q orders -p order.proto -m shop.v1.Order",
    },
    Step {
        text: "Publish a message. A body that breaks the contract is refused, with the field.",
        command: "qwer-q publish -q orders --body '{\"id\": \"A-1\"}'",
    },
    Step { text: "Consume it.", command: "qwer-q consume -q orders" },
];

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    is_empty: bool,
    first_steps: &'static [Step],
    summary: String,
    rates: [Rate; 3],
    figures: [Figure; 4],
    search: String,
    sorts: Vec<Choice>,
    rows: Vec<Row>,
    pager: Pager,
}

/// A queue with what it is sorted by.
struct Judged {
    queue: wire::QueueInfo,
    dead: u64,
    troubles: Vec<Trouble>,
}

/// All queues
#[utoipa::path(
    get, path = "/", tag = "dashboard", params(Shown),
    responses((status = 200, description = "The page", body = String, content_type = "text/html"))
)]
pub(super) async fn overview(mut visit: Visit, Asked(shown): Asked<Shown>) -> Result<Response, ErrorPage> {
    let rates = visit.state().feed.dead_letter_rates();
    let judged = judged(visit.queues().await?, &rates);
    let sum = |of: fn(&Judged) -> u64| count(judged.iter().map(of).sum());
    let figures = [
        Figure { key: "depth", text: "Messages", value: sum(|judged| judged.queue.depth) },
        Figure { key: "in_flight", text: "In flight", value: sum(|judged| judged.queue.in_flight) },
        Figure { key: "dead_letters", text: "Dead letters", value: sum(|judged| judged.dead) },
        Figure { key: "consumers", text: "Consumers", value: sum(|judged| consumers(&judged.queue)) },
    ];
    let (all, troubled) = (judged.len(), judged.iter().filter(|judged| !judged.troubles.is_empty()).count());
    let summary = format!("{}, {} in trouble", counted(all as u64, "queue", "queues"), count(troubled as u64));
    let mut found: Vec<Judged> = judged.into_iter().filter(|judged| judged.queue.name.contains(shown.q.trim())).collect();
    match shown.sort.as_str() {
        "name" => {}
        "depth" => found.sort_by_key(|judged| Reverse(judged.queue.depth)),
        _ => found.sort_by_cached_key(|judged| rank(&judged.troubles)),
    }
    let link = |number| format!("/?q={}&sort={}&page={number}", super::link::encoded(&shown.q), super::link::encoded(&shown.sort));
    let (found, pager) = pager::numbered(found, shown.page.parse().unwrap_or(1), link);
    Ok(page(&Overview {
        frame: visit.frame("Queues", Section::Queues),
        is_empty: all == 0,
        first_steps: &FIRST_STEPS,
        summary,
        rates: RATES,
        figures,
        sorts: choices(&[("trouble", "trouble"), ("name", "name"), ("depth", "depth")], &shown.sort),
        search: shown.q,
        rows: found.into_iter().map(row).collect(),
        pager,
    }))
}

/// The rates that the broker and each queue have.
pub(super) const RATES: [Rate; 3] =
    [Rate { key: "published", text: "Published" }, Rate { key: "delivered", text: "Delivered" }, Rate { key: "acked", text: "Acked" }];

/// Queues by name, each with its dead letters; a dead letter queue is part of the queue that it belongs to.
fn judged(mut queues: Vec<wire::QueueInfo>, rates: &HashMap<Arc<str>, f64>) -> Vec<Judged> {
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    let dead: HashMap<String, u64> =
        queues.iter().filter(|queue| name::is_dlq(&queue.name)).map(|dlq| (dlq.name.clone(), dlq.depth)).collect();
    let names: HashSet<String> = queues.iter().map(|queue| queue.name.clone()).collect();
    let is_shown = |queue: &wire::QueueInfo| queue.name.strip_suffix(".dlq").is_none_or(|of| !names.contains(of));
    let judge = |queue: wire::QueueInfo| {
        let dead = dead.get(&format!("{}.dlq", queue.name)).copied().unwrap_or(0);
        let recent = rates.get(queue.name.as_str()).map_or(0, |rate| in_window(*rate));
        let troubles = troubles(&queue, dead, recent);
        Judged { queue, dead, troubles }
    };
    queues.into_iter().filter(is_shown).map(judge).collect()
}

/// How many a rate is in the ten seconds that it is taken over.
fn in_window(rate: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "a rate of messages is no more than they can be counted")]
    let count = (rate * 10.0).round() as u64;
    count.max(1)
}

fn consumers(queue: &wire::QueueInfo) -> u64 {
    queue.groups.iter().map(|group| u64::from(group.consumers)).sum()
}

fn row(judged: Judged) -> Row {
    let troubles: Vec<TroubleView> = judged.troubles.into_iter().map(Trouble::view).collect();
    let queue = judged.queue;
    Row {
        worst: troubles.iter().map(|trouble| trouble.severity).min(),
        troubles,
        is_stream: queue.options.as_ref().is_some_and(|options| options.mode.as_deref() == Some("stream")),
        depth: count(queue.depth),
        in_flight: count(queue.in_flight),
        dead_letters: count(judged.dead),
        consumers: count(consumers(&queue)),
        contract: queue.contract.map(|contract| format!("{} v{}", contract.message_type, contract.version)),
        name: queue.name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_queue_is_shown_with_its_queue_or_alone() {
        let queue = |name: &str, depth| wire::QueueInfo { name: name.into(), depth, ..Default::default() };
        let judged = judged(vec![queue("orders.dlq", 3), queue("orders", 1), queue("gone.dlq", 2)], &HashMap::new());
        let shown: Vec<_> = judged.iter().map(|judged| (judged.queue.name.as_str(), judged.dead)).collect();
        assert_eq!(shown, [("gone.dlq", 0), ("orders", 3)]);
    }
}
