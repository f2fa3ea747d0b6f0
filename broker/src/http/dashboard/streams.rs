//! All streams: what they keep, and how far behind their groups are.

use askama::Template;
use axum::response::Response;
use qwerq_proto::wire;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::GroupsOf;
use crate::http::quantity::{bytes, count, counted};

use super::asked::Asked;
use super::duration;
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
    name: String,
    first: String,
    first_raw: u64,
    next: String,
    bytes: String,
    kept: String,
    groups: String,
    lag: String,
}

#[derive(Template)]
#[template(path = "streams.html")]
struct Streams {
    frame: Frame,
    summary: String,
    command: &'static str,
    rows: Vec<Row>,
    pager: Pager,
}

/// All streams
#[utoipa::path(
    get, path = "/streams", tag = "dashboard", params(Shown),
    responses((status = 200, description = "The page", body = String, content_type = "text/html"))
)]
pub(super) async fn streams(mut visit: Visit, Asked(shown): Asked<Shown>) -> Result<Response, ErrorPage> {
    let queues = visit.broker().stats(GroupsOf::None).await.queues;
    let names: Vec<_> = queues.into_iter().filter(|queue| queue.is_stream).map(|queue| queue.name).collect();
    let summary = counted(names.len() as u64, "stream", "streams");
    let places: Vec<usize> = (0..names.len()).collect();
    let (places, pager) = pager::numbered(places, shown.page.parse().unwrap_or(1), |number| format!("/streams?page={number}"));
    let before = places.first().and_then(|first| names.get(first.checked_sub(1)?)).map_or("", |name| &**name);
    let streams = visit.streams(before, places.len()).await?;
    Ok(page(&Streams {
        frame: visit.frame("Streams", Section::Streams),
        summary,
        command: "qwer-q queue create events --mode stream --max-age 7d",
        rows: streams.into_iter().map(row).collect(),
        pager,
    }))
}

fn row(stream: wire::QueueInfo) -> Row {
    Row {
        first: count(stream.first_seq),
        first_raw: stream.first_seq,
        next: count(stream.next_seq),
        bytes: bytes(stream.bytes),
        kept: kept(&stream.options.unwrap_or_default()),
        groups: count(stream.groups.len() as u64),
        lag: count(stream.groups.iter().map(|group| group.lag).max().unwrap_or(0)),
        name: stream.name,
    }
}

/// The limits of retention that are set.
fn kept(options: &wire::QueueOptions) -> String {
    let set = |value: Option<u64>| value.filter(|value| *value > 0);
    let limits = [
        set(options.max_age_ms).map(duration::shown),
        set(options.max_bytes).map(bytes),
        set(options.max_messages).map(|messages| counted(messages, "message", "messages")),
    ];
    limits.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
