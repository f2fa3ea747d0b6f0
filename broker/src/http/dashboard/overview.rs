//! The first page: all queues, those in trouble first, and what the broker does right now. Without queues: how to make one.

use std::cmp::Reverse;

use askama::Template;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::quantity::{count, counted};
use crate::http::trouble::{Judged, TroubleView, judge, rank};
use crate::http::{GroupsOf, QueueStats};

use super::asked::Asked;
use super::choice::{Choice, choices};
use super::frame::{ErrorPage, Frame, Section, page};
use super::pager::{self, Pager};
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
    worst: Option<TroubleView>,
    /// How many troubles there are besides, and which.
    others: usize,
    others_text: String,
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
    figures: [Figure; 5],
    search: String,
    sorts: Vec<Choice>,
    rows: Vec<Row>,
    pager: Pager,
}

/// All queues
#[utoipa::path(
    get, path = "/", tag = "dashboard", params(Shown),
    responses((status = 200, description = "The page", body = String, content_type = "text/html"))
)]
pub(super) async fn overview(visit: Visit, Asked(shown): Asked<Shown>) -> Result<Response, ErrorPage> {
    visit.leads()?;
    let lately = visit.state().feed.dead_lettered_lately();
    let queues = visit.broker().stats(GroupsOf::None).await.queues;
    let judged = judge(&queues, |at| lately.get(&queues[at].name).copied().unwrap_or(0));
    // Dead letter queues are parts of those that they belong to.
    let mut found: Vec<(QueueStats, Judged)> = queues.into_iter().zip(judged).filter(|(_, judged)| !judged.is_part).collect();
    let sum = |of: fn(&(QueueStats, Judged)) -> u64| count(found.iter().map(of).sum());
    let figures = [
        Figure { key: "troubled", text: "In trouble", value: sum(|(_, judged)| u64::from(!judged.troubles.is_empty())) },
        Figure { key: "depth", text: "Messages", value: sum(|(queue, judged)| queue.depth + judged.dead_letters) },
        Figure { key: "in_flight", text: "In flight", value: sum(|(queue, _)| queue.in_flight) },
        Figure { key: "dead_letters", text: "Dead letters", value: sum(|(_, judged)| judged.dead_letters) },
        Figure { key: "consumers", text: "Consumers", value: sum(|(queue, _)| queue.consumers) },
    ];
    let all = found.len();
    found.retain(|(queue, _)| queue.name.contains(shown.q.trim()));
    match shown.sort.as_str() {
        "name" => {}
        "depth" => found.sort_by_key(|(queue, _)| Reverse(queue.depth)),
        _ => found.sort_by_cached_key(|(_, judged)| rank(&judged.troubles)),
    }
    let link = |number| format!("/?q={}&sort={}&page={number}", super::link::encoded(&shown.q), super::link::encoded(&shown.sort));
    let (found, pager) = pager::numbered(found, shown.page.parse().unwrap_or(1), link);
    Ok(page(&Overview {
        frame: visit.frame("Queues", Section::Queues),
        is_empty: all == 0,
        first_steps: &FIRST_STEPS,
        summary: counted(all as u64, "queue", "queues"),
        rates: RATES,
        figures,
        sorts: choices(&[("trouble", "trouble"), ("name", "name"), ("depth", "depth")], &shown.sort),
        search: shown.q,
        rows: found.into_iter().map(|(queue, judged)| row(&visit, &queue, judged)).collect(),
        pager,
    }))
}

/// The rates that the broker and each queue have.
pub(super) const RATES: [Rate; 3] =
    [Rate { key: "published", text: "Published" }, Rate { key: "delivered", text: "Delivered" }, Rate { key: "acked", text: "Acked" }];

fn row(visit: &Visit, queue: &QueueStats, judged: Judged) -> Row {
    let mut troubles = judged.troubles.into_iter().map(TroubleView::from);
    let worst = troubles.next();
    let others: Vec<String> = troubles.map(|trouble| trouble.text).collect();
    let contract = visit.broker().registry.get(&queue.name);
    let contract = contract.as_ref().and_then(|contract| contract.active());
    Row {
        name: queue.name.to_string(),
        is_stream: queue.is_stream,
        worst,
        others: others.len(),
        others_text: others.join(", "),
        depth: count(queue.depth),
        in_flight: count(queue.in_flight),
        dead_letters: count(judged.dead_letters),
        consumers: count(queue.consumers),
        contract: contract.map(|active| format!("{} v{}", active.contract.message_type(), active.version)),
    }
}
