//! All contracts: the active version of every queue that has one.

use askama::Template;
use axum::response::Response;
use qwerq_proto::{Opcode, wire};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::quantity::{counted, time_short};

use super::asked::Asked;
use super::frame::{ErrorPage, Frame, Section, page};
use super::pager::{self, Pager};
use super::visit::Visit;

/// Which page.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct Shown {
    /// From 1.
    page: String,
}

struct Row {
    queue: String,
    message_type: String,
    reply_type: String,
    version: u32,
    registered_at: String,
    registered_by: String,
}

#[derive(Template)]
#[template(path = "contracts.html")]
struct ContractsPage {
    frame: Frame,
    summary: String,
    command: &'static str,
    gen_commands: [&'static str; 3],
    rows: Vec<Row>,
    pager: Pager,
}

/// What makes clients of the broker's contracts.
pub(super) const GEN_COMMANDS: [&str; 3] =
    ["qwer-q gen --lang rust --out src/queues", "qwer-q gen --lang typescript --out src/queues", "qwer-q gen --lang go --out queues"];

/// All contracts
#[utoipa::path(
    get, path = "/contracts", tag = "dashboard", params(Shown),
    responses((status = 200, description = "The page", body = String, content_type = "text/html"))
)]
pub(super) async fn contracts(mut visit: Visit, Asked(shown): Asked<Shown>) -> Result<Response, ErrorPage> {
    let list: wire::SchemaListResponse = visit.ask(Opcode::SchemaList, &wire::SchemaList::default()).await?;
    let mut versions = list.versions;
    versions.sort_by(|a, b| (&a.message_type, &a.queue).cmp(&(&b.message_type, &b.queue)));
    let summary = counted(versions.len() as u64, "queue has one", "queues have one");
    let (versions, pager) = pager::numbered(versions, shown.page.parse().unwrap_or(1), |number| format!("/contracts?page={number}"));
    Ok(page(&ContractsPage {
        frame: visit.frame("Contracts", Section::Contracts),
        summary,
        command: "qwer-q schema register -q orders -p order.proto -m shop.v1.Order",
        gen_commands: GEN_COMMANDS,
        rows: versions.into_iter().map(row).collect(),
        pager,
    }))
}

fn row(version: wire::SchemaVersion) -> Row {
    Row {
        registered_at: time_short(version.registered_at_ms),
        queue: version.queue,
        message_type: version.message_type,
        reply_type: version.reply_type,
        version: version.version,
        registered_by: version.registered_by,
    }
}
