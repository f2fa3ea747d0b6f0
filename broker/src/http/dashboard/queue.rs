//! The page of one queue: what it holds and does, its groups and consumers, and why something does not move.

use askama::Template;
use axum::response::Response;
use qwerq_proto::{Opcode, wire};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::quantity::{bytes, count};

use super::asked::{Asked, QueueName};
use super::choice::{Choice, choices};
use super::consumer::{self, ConsumerView};
use super::frame::{ErrorPage, Frame, Section, page};
use super::message::parse_id;
use super::overview::{RATES, Rate};
use super::queue_head::{QueueHead, Tab};
use super::visit::Visit;

/// What is asked about the queue.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct Question {
    /// `key`, `seq` or `id`.
    about: String,
    /// The key, position or id.
    which: String,
}

/// A number at the top.
struct Figure {
    key: &'static str,
    text: &'static str,
    value: String,
    of: String,
}

struct GroupView {
    name: String,
    ack_floor: String,
    lag: String,
    in_flight: String,
    backing_off: String,
    blocked_keys: String,
    consumers: String,
}

struct ExplanationView {
    cause: String,
    text: String,
}

#[derive(Template)]
#[template(path = "queue.html")]
struct QueuePage {
    frame: Frame,
    head: QueueHead,
    rates: [Rate; 3],
    figures: Vec<Figure>,
    floor_word: &'static str,
    no_groups: &'static str,
    groups: Vec<GroupView>,
    show_queue: bool,
    consumers: Vec<ConsumerView>,
    explanations: Vec<ExplanationView>,
    refusal: Option<String>,
    questions: Vec<Choice>,
    which: String,
}

/// One queue
#[utoipa::path(
    get, path = "/queues/{queue}", tag = "dashboard", params(("queue" = String, Path, description = "Name of the queue"), Question),
    responses(
        (status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 404, description = "A page that says that there is no such queue", body = String, content_type = "text/html"),
    )
)]
pub(super) async fn queue(mut visit: Visit, QueueName(name): QueueName, Asked(question): Asked<Question>) -> Result<Response, ErrorPage> {
    let queue = visit.queue(&name).await?;
    let head = QueueHead::of(&mut visit, &queue, Tab::Overview).await?;
    let (explanations, refusal) = match explained(&mut visit, &name, &question).await {
        Ok(explanations) => (explanations, None),
        Err(error) => (Vec::new(), Some(error.message)),
    };
    let consumers = consumer::of(&visit, Some(&name)).await?;
    Ok(page(&QueuePage {
        frame: visit.frame(name, if head.is_stream { Section::Streams } else { Section::Queues }),
        rates: RATES,
        figures: figures(&queue),
        floor_word: if head.is_stream { "Next offset" } else { "Ack floor" },
        no_groups: match head.is_stream {
            true => "No group. Readers without one keep their own offset and leave nothing behind.",
            false => "No group yet: messages wait for whoever comes. The first consumer makes the group `default`.",
        },
        head,
        groups: queue.groups.into_iter().map(group).collect(),
        show_queue: false,
        consumers: consumers.into_iter().map(ConsumerView::from).collect(),
        explanations,
        refusal,
        questions: choices(&[("key", "ordering key"), ("seq", "position"), ("id", "message id")], &question.about),
        which: question.which,
    }))
}

fn figures(queue: &wire::QueueInfo) -> Vec<Figure> {
    let options = queue.options.clone().unwrap_or_default();
    let of = |limit: Option<u64>, form: fn(u64) -> String| {
        limit.filter(|limit| *limit > 0).map_or_else(String::new, |limit| format!("of {}", form(limit)))
    };
    let figure = |key, text, value, of| Figure { key, text, value, of };
    vec![
        figure("depth", "Depth", count(queue.depth), of(options.max_messages, count)),
        figure("bytes", "Size", bytes(queue.bytes), of(options.max_bytes, bytes)),
        figure("ready", "Ready", count(queue.ready), String::new()),
        figure("in_flight", "In flight", count(queue.in_flight), String::new()),
        figure("backing_off", "Backing off", count(queue.backing_off), String::new()),
        figure("delayed", "Delayed", count(queue.delayed), String::new()),
    ]
}

fn group(group: wire::GroupInfo) -> GroupView {
    GroupView {
        ack_floor: count(group.ack_floor),
        lag: count(group.lag),
        in_flight: count(group.in_flight),
        backing_off: count(group.backing_off),
        blocked_keys: count(group.blocked_keys),
        consumers: count(u64::from(group.consumers)),
        name: group.name,
    }
}

/// The answer to the question; without one, what the groups wait for.
async fn explained(visit: &mut Visit, queue: &str, question: &Question) -> Result<Vec<ExplanationView>, wire::Error> {
    let which = question.which.trim();
    let mut request = wire::Explain { queue: queue.to_owned(), ..wire::Explain::default() };
    match question.about.as_str() {
        _ if which.is_empty() => {}
        "seq" => request.seq = Some(which.parse().map_err(|_| no_such("a position is a number", which))?),
        "id" => request.id = parse_id(which).ok_or_else(|| no_such("a message id has 26 letters and digits", which))?,
        // Keys may begin and end with spaces.
        _ => request.ordering_key = question.which.clone(),
    }
    let explained: wire::Explained = visit.try_ask(Opcode::Explain, &request).await?;
    let view = |explanation: wire::Explanation| ExplanationView { cause: explanation.cause, text: explanation.text };
    Ok(explained.explanations.into_iter().map(view).collect())
}

fn no_such(rule: &str, given: &str) -> wire::Error {
    qwerq_proto::ErrorCode::InvalidArgument.with(format!("{rule}, and `{given}` is none"))
}
