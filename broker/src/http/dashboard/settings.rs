//! What this broker was started with: above all when an acknowledged message is safe.

use askama::Template;
use axum::response::Response;

use crate::config::{Config, Durability, HEARTBEAT, PUBLISH_WINDOW_BYTES, PUBLISH_WINDOW_REQUESTS};
use crate::http::quantity::{bytes, count};
use crate::queue_options::options_on_wire;

use super::duration;
use super::frame::{ErrorPage, Frame, Section, page};
use super::options::views;
use super::visit::Visit;

struct GroupView {
    title: &'static str,
    text: String,
    facts: Vec<(String, String)>,
}

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage {
    frame: Frame,
    groups: Vec<GroupView>,
}

/// The settings in force
#[utoipa::path(get, path = "/settings", tag = "dashboard", responses((status = 200, description = "The page", body = String, content_type = "text/html")))]
pub(super) async fn settings(visit: Visit) -> Result<Response, ErrorPage> {
    let config = &visit.broker().config;
    let groups = vec![durability(config), access(config), limits(config), defaults(config)];
    Ok(page(&SettingsPage { frame: visit.frame("Settings", Section::Settings), groups }))
}

fn fact(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

fn millis(duration: std::time::Duration) -> String {
    duration::shown(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

fn durability(config: &Config) -> GroupView {
    let (word, text) = match config.durability {
        Durability::Fsync => {
            ("fsync", "A publish is acknowledged when it is synced to the disk. Neither a kill nor a power loss takes it away.".to_owned())
        }
        Durability::Interval(every) => (
            "interval",
            format!(
                "A publish is acknowledged when it is written, and synced every {}. A power loss may take what came since.",
                millis(every)
            ),
        ),
        Durability::None => {
            ("none", "A publish is acknowledged when it is written; the system syncs it. A power loss may take what it had not.".to_owned())
        }
    };
    let wait = if config.batch_interval.is_zero() { "off".to_owned() } else { millis(config.batch_interval) };
    let facts = vec![fact("durability", word), fact("batch-interval", wait), fact("data-dir", config.data_dir.display().to_string())];
    GroupView { title: "Durability", text, facts }
}

fn access(config: &Config) -> GroupView {
    let text = match (&config.auth_token, config.bind.is_loopback()) {
        (Some(_), _) => "Every port asks for the token.".to_owned(),
        (None, true) => "There is no token; only this machine reaches the broker.".to_owned(),
        (None, false) => "There is no token, and the broker listens beyond this machine: whoever reaches it may do anything.".to_owned(),
    };
    let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let facts = vec![
        fact("bind", config.bind.to_string()),
        fact("port", config.port.to_string()),
        fact("metrics-port", config.http_port.to_string()),
        fact("auth-token", if config.auth_token.is_some() { "set" } else { "not set" }),
        fact("allowed-hosts", list(&config.allowed_hosts)),
        fact("allowed-origins", list(&config.allowed_origins)),
    ];
    GroupView { title: "Who may come in", text, facts }
}

fn limits(config: &Config) -> GroupView {
    let facts = vec![
        fact("unanswered publishes of a connection", count(u64::from(PUBLISH_WINDOW_REQUESTS))),
        fact("their bytes", bytes(u64::from(PUBLISH_WINDOW_BYTES))),
        fact("largest frame", bytes(u64::from(qwerq_proto::MAX_FRAME_BYTES))),
        fact("heartbeat", millis(HEARTBEAT)),
        fact("http-connections", count(config.http_connections as u64)),
    ];
    GroupView { title: "Limits", text: String::new(), facts }
}

fn defaults(config: &Config) -> GroupView {
    let mut facts = vec![fact("auto-create", config.auto_create.to_string())];
    let options = options_on_wire(&config.queue_defaults, config.schema_mode);
    facts.extend(views(&options).into_iter().map(|option| fact(option.name, option.value)));
    GroupView { title: "New queues", text: "What a queue has that says nothing of its own.".to_owned(), facts }
}
