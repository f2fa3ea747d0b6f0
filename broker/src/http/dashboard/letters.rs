//! The dead letters of a queue: why each is one, its payload to edit, and what can be done with one, some or all of them.
//!
//! `assets/letters.js` sends what is done; here is only what is shown.

use askama::Template;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use qwerq_proto::{Opcode, wire};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use crate::http::quantity::count;

use super::asked::{Asked, QueueName};
use super::choice::{Choice, choices};
use super::frame::{ErrorPage, Frame, Section, page};
use super::link::encoded;
use super::message::{Contracts, MessageView};
use super::pager::Pager;
use super::queue_head::{QueueHead, Tab};
use super::visit::Visit;

/// Letters of one page.
const ROWS: u32 = 50;

/// Lines that the payload's editor has at most.
const EDITOR_ROWS_MAX: usize = 24;

/// Which letters are shown.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct Shown {
    /// `max-deliveries`, `rejected`, `invalid` or `expired`.
    reason: String,
    /// The group that they are of.
    group: String,
    /// First position in the dead letter queue.
    from: String,
}

struct LetterView {
    message: MessageView,
    reason: String,
    error: String,
    /// The field that breaks the contract, for a letter that does.
    path: String,
    group: String,
    failed_at: String,
    failed_short: String,
    history: String,
    payload_label: &'static str,
    payload: String,
    /// How `payload` is read back: `json`, `text` or `base64`.
    form: &'static str,
    rows: usize,
}

#[derive(Template)]
#[template(path = "letters.html")]
struct LettersPage {
    frame: Frame,
    head: QueueHead,
    total: String,
    max_deliveries: u32,
    reasons: Vec<Choice>,
    group: String,
    groups: Vec<String>,
    /// The filter as the API takes it.
    filter: String,
    matching: &'static str,
    has_contract: bool,
    /// The message type that edited payloads are of.
    contract: String,
    letters: Vec<LetterView>,
    pager: Pager,
}

/// The dead letters of a queue
#[utoipa::path(
    get, path = "/queues/{queue}/dead-letters", tag = "dashboard",
    params(("queue" = String, Path, description = "Name of the queue"), Shown),
    responses(
        (status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 400, description = "A page that says that this queue cannot have dead letters", body = String, content_type = "text/html"),
        (status = 404, description = "A page that says that there is no such queue", body = String, content_type = "text/html"),
    )
)]
pub(super) async fn letters(mut visit: Visit, QueueName(name): QueueName, Asked(shown): Asked<Shown>) -> Result<Response, ErrorPage> {
    let queue = visit.queue(&name).await?;
    let head = QueueHead::of(&mut visit, &queue, Tab::DeadLetters).await?;
    let wanted = wire::DeadLetters {
        queue: name.clone(),
        group: shown.group.clone(),
        reason: shown.reason.clone(),
        from_seq: shown.from.parse().unwrap_or(0),
        max: ROWS + 1,
        ..wire::DeadLetters::default()
    };
    let mut fetched: wire::Fetched = visit.ask(Opcode::DeadLetters, &wanted).await?;
    let next = match fetched.messages.len() > ROWS as usize {
        true => fetched.messages.pop().map(|letter| letter.seq),
        false => fetched.next_seq,
    };
    let mut contracts = Contracts::of(&name);
    let mut letters = Vec::with_capacity(fetched.messages.len());
    for letter in fetched.messages {
        let payload = letter.payload.clone();
        letters.push(view(contracts.view(&mut visit, letter).await, &payload));
    }
    let link =
        |from: u64| format!("/queues/{name}/dead-letters?reason={}&group={}&from={from}", encoded(&shown.reason), encoded(&shown.group));
    let pager = Pager {
        previous: (wanted.from_seq > 0).then(|| link(0)),
        previous_text: "First page",
        next: next.map(link),
        next_text: "Later",
        ..Pager::default()
    };
    let is_filtered = !shown.reason.is_empty() || !shown.group.is_empty();
    let reasons =
        [("", "any"), ("max-deliveries", "max-deliveries"), ("rejected", "rejected"), ("invalid", "invalid"), ("expired", "expired")];
    Ok(page(&LettersPage {
        frame: visit.frame(format!("Dead letters of {name}"), if head.is_stream { Section::Streams } else { Section::Queues }),
        total: count(head.dead),
        head,
        has_contract: queue.contract.is_some(),
        contract: queue.contract.map(|contract| contract.message_type).unwrap_or_default(),
        max_deliveries: queue.options.and_then(|options| options.max_deliveries).unwrap_or_default(),
        reasons: choices(&reasons, &shown.reason),
        filter: filter(&shown),
        matching: if is_filtered { "that match" } else { "of them" },
        groups: queue.groups.into_iter().map(|group| group.name).collect(),
        group: shown.group,
        letters,
        pager,
    }))
}

fn filter(shown: &Shown) -> String {
    let mut filter = serde_json::Map::new();
    for (name, value) in [("reason", &shown.reason), ("group", &shown.group)] {
        if !value.is_empty() {
            filter.insert(name.to_owned(), json!(value));
        }
    }
    serde_json::Value::Object(filter).to_string()
}

fn view(message: MessageView, payload: &[u8]) -> LetterView {
    let header = |name: &str| message.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap_or_default();
    let (form, payload_label, payload) = match message.form {
        "json" => ("json", "Payload, as JSON", message.body.clone()),
        "text" => ("text", "Payload, as text", message.body.clone()),
        _ => ("base64", "Payload, in base64", BASE64.encode(payload)),
    };
    let failed = header("qwerq-failed-at");
    let attempts = header("qwerq-attempts");
    let path = match header("qwerq-reason").as_str() {
        "invalid" => message.violation.as_ref().map(|violation| violation.path.clone()).unwrap_or_default(),
        _ => String::new(),
    };
    LetterView {
        reason: header("qwerq-reason"),
        error: header("qwerq-error"),
        path,
        group: header("qwerq-group"),
        // RFC 3339 with milliseconds: the list shows it to the second.
        failed_short: failed.get(..19).map(|time| time.replace('T', " ")).unwrap_or_default(),
        history: format!("Attempts: {attempts}, the first ended {}, dead since {failed}.", header("qwerq-first-failed-at")),
        failed_at: failed,
        rows: payload.lines().count().clamp(3, EDITOR_ROWS_MAX),
        payload_label,
        payload,
        form,
        message,
    }
}
