//! The options of a queue, to read and to change, and the page that makes a queue.

use askama::Template;
use axum::response::Response;
use qwerq_proto::{name, wire};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::quantity::{bytes, count};
use crate::queue_options::options_on_wire;
use crate::timestamp;

use super::asked::{Asked, QueueName};
use super::duration;
use super::frame::{ErrorPage, Frame, Section, page};
use super::queue_head::{QueueHead, Tab};
use super::visit::Visit;

/// An option as option_fields.html prints it.
pub(super) struct OptionView {
    /// Its name on the wire.
    pub(super) name: &'static str,
    /// Its value as people write it.
    pub(super) value: String,
    /// How `assets/dashboard.js` reads it: `text`, `number`, `duration` or `size`.
    pub(super) kind: &'static str,
    /// Empty: any value.
    pub(super) choices: &'static [&'static str],
    pub(super) about: &'static str,
}

#[derive(Template)]
#[template(path = "options.html")]
struct OptionsPage {
    frame: Frame,
    head: QueueHead,
    options: Vec<OptionView>,
    facts: Vec<(&'static str, String)>,
    depth: String,
}

/// The options of a queue
#[utoipa::path(
    get, path = "/queues/{queue}/options", tag = "dashboard", params(("queue" = String, Path, description = "Name of the queue")),
    responses(
        (status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 404, description = "A page that says that there is no such queue", body = String, content_type = "text/html"),
    )
)]
pub(super) async fn options(mut visit: Visit, QueueName(queue_name): QueueName) -> Result<Response, ErrorPage> {
    let queue = visit.queue(&queue_name).await?;
    let head = QueueHead::of(&mut visit, &queue, Tab::Options).await?;
    let is_dlq = name::is_dlq(&queue_name);
    let given = queue.options.unwrap_or_default();
    let facts = vec![
        ("Mode", given.mode.clone().unwrap_or_default()),
        ("Made", timestamp::format_ms(queue.created_at_ms)),
        ("Positions", format!("{} to {}", count(queue.first_seq), count(queue.next_seq))),
        ("Size", bytes(queue.bytes)),
    ];
    let mut shown = views(&given);
    // The mode is settled when a queue is made; a dead letter queue retries for ever and keeps what it has.
    shown.retain(|option| option.name != "mode" && !(is_dlq && matches!(option.name, "on_failure" | "message_ttl_ms" | "delay_ms")));
    Ok(page(&OptionsPage {
        frame: visit.frame(format!("Options of {queue_name}"), if head.is_stream { Section::Streams } else { Section::Queues }),
        head,
        options: shown,
        facts,
        depth: count(queue.depth),
    }))
}

/// What the new queue is to be.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct Wanted {
    /// `queue` or `stream`.
    mode: String,
}

#[derive(Template)]
#[template(path = "create.html")]
struct CreatePage {
    frame: Frame,
    options: Vec<OptionView>,
}

/// A form that makes a queue
#[utoipa::path(
    get, path = "/new", tag = "dashboard", params(Wanted),
    responses((status = 200, description = "The page", body = String, content_type = "text/html"))
)]
pub(super) async fn create(visit: Visit, Asked(wanted): Asked<Wanted>) -> Response {
    let config = &visit.broker().config;
    let mut given = options_on_wire(&config.queue_defaults, config.schema_mode);
    if wanted.mode == "stream" {
        // What a new stream has unless it says otherwise.
        given = wire::QueueOptions { mode: Some(wanted.mode), max_messages: Some(0), on_full: Some("drop-oldest".into()), ..given };
    }
    page(&CreatePage { frame: visit.frame("New queue", Section::Queues), options: views(&given) })
}

/// Every option with what it decides, as docs/queues.md has it.
pub(super) fn views(options: &wire::QueueOptions) -> Vec<OptionView> {
    let word = |name, value: &Option<String>, choices, about| OptionView {
        name,
        value: value.clone().unwrap_or_default(),
        kind: "text",
        choices,
        about,
    };
    let plain = |name, value: Option<u64>, about| OptionView {
        name,
        value: value.unwrap_or_default().to_string(),
        kind: "number",
        choices: &[],
        about,
    };
    let limit = |name, value: Option<u64>, about| match value {
        Some(0) | None => OptionView { name, value: "none".to_owned(), kind: "number", choices: &[], about },
        value => plain(name, value, about),
    };
    let size = |name, value: Option<u64>, about| OptionView {
        name,
        value: size_written(value.unwrap_or_default()),
        kind: "size",
        choices: &[],
        about,
    };
    let time = |name, value: Option<u64>, about| OptionView {
        name,
        value: duration::shown(value.unwrap_or_default()),
        kind: "duration",
        choices: &[],
        about,
    };
    let time_or_none = |name, value: Option<u64>, about| match value {
        Some(0) | None => OptionView { name, value: "none".to_owned(), kind: "duration", choices: &[], about },
        value => time(name, value, about),
    };
    vec![
        word("mode", &options.mode, &["queue", "stream"], "queue: settled messages go; stream: they stay"),
        time("visibility_timeout_ms", options.visibility_timeout_ms, "how long a lease lasts"),
        plain("max_deliveries", options.max_deliveries.map(u64::from), "deliveries before on_failure decides"),
        word("on_failure", &options.on_failure, &["dlq", "drop", "retry-forever"], "what happens then"),
        time("retry_backoff_first_ms", options.retry_backoff_first_ms, "the first wait after a nack; it doubles"),
        time("retry_backoff_max_ms", options.retry_backoff_max_ms, "the longest wait after a nack"),
        word("schema_mode", &options.schema_mode, &["permissive", "strict"], "whether a contract is a must, and unknown fields break it"),
        word("on_invalid", &options.on_invalid, &["reject", "dlq"], "what becomes of a payload that breaks the contract"),
        word("compatibility", &options.compatibility, &[], "level, direction, against: what a new version must keep"),
        limit("max_messages", options.max_messages, "messages at most, delayed ones included"),
        size("max_bytes", options.max_bytes, "their payloads and headers at most"),
        time_or_none("max_age_ms", options.max_age_ms, "streams: how old a message gets"),
        word("on_full", &options.on_full, &["reject", "drop-oldest"], "what happens to a publish at a limit"),
        time("dedup_window_ms", options.dedup_window_ms, "how long an idempotency key is remembered"),
        plain("dedup_max_keys", options.dedup_max_keys, "how many are; beyond it keyed publishes are refused"),
        time_or_none("message_ttl_ms", options.message_ttl_ms, "how long messages last that say nothing"),
        word("on_expiry", &options.on_expiry, &["drop", "dlq"], "what becomes of an expired message"),
        time_or_none("delay_ms", options.delay_ms, "how long messages wait that say nothing"),
        size("max_message_bytes", options.max_message_bytes, "the largest message, headers included"),
        time_or_none("group_expiry_ms", options.group_expiry_ms, "groups without a consumer for so long go"),
        plain("max_unsettled", options.max_unsettled, "gaps above a group's floor before its dispatch pauses"),
    ]
}

/// Bytes in the largest unit that divides them, so that what is sent back is the same.
fn size_written(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_the_wire_is_shown() {
        let shown: Vec<_> = views(&wire::QueueOptions::default()).iter().map(|option| option.name).collect();
        let defaults = qwerq_core::QueueOptions::default();
        let debug = format!("{:?}", options_on_wire(&defaults, qwerq_core::options::SchemaMode::Permissive));
        for name in &shown {
            assert!(debug.contains(&format!("{name}: Some(")), "{name} in {debug}");
        }
        assert_eq!(debug.matches(": Some(").count(), shown.len());
    }
}
