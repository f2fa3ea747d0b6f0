//! /api/v1/streams/{queue}/messages: reading a stream from a place, without a group and without leases.

use axum::Json;
use axum::extract::State;
use qwerq_proto::{ErrorCode, Opcode, wire};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::HttpState;
use crate::http::extract::{Path, Query, Session};
use crate::http::problem::Problem;

use super::messages::MessagePage;
use super::peek::{PeekFilter, peek};
use super::start_at;

pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(read))
}

/// From where to read.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ReadQuery {
    /// `beginning`, which it is unless said, `end`, `offset=N` or `time=2026-12-01T11:48:03Z`.
    from: Option<String>,
    /// At most so many; 20 unless said, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Read a stream
///
/// The answer's `next` is the offset to go on from: `from=offset=N`.
#[utoipa::path(
    get, path = "/api/v1/streams/{queue}/messages", tag = "streams",
    params(("queue" = String, Path, description = "Its name"), ReadQuery),
    responses((status = 200, description = "Messages, oldest first", body = MessagePage))
)]
pub(crate) async fn read(
    State(state): State<HttpState>,
    Session(mut session): Session,
    Path(queue): Path<String>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<MessagePage>, Problem> {
    let start_at = query.from.as_deref().map(start_at::parse).transpose()?;
    let info: wire::QueueInfo = session.ask(Opcode::QueueInfo, &wire::QueueName { name: queue.clone() }).await?;
    if info.options.and_then(|options| options.mode).as_deref() != Some("stream") {
        let text = format!("`{queue}` is a queue, not a stream; look at it with /api/v1/queues/{queue}/messages");
        return Err(Problem::new(ErrorCode::WrongMode, text).detail("queue", &queue));
    }
    let from = wire::Peek { queue: queue.clone(), start_at, ..wire::Peek::default() };
    let mut found = peek(&mut session, from, query.limit, &PeekFilter::default()).await?;
    // A stream goes on: whoever is at its end comes back to the same place.
    let after_last = found.messages.last().map(|last| last.seq + 1);
    found.next = found.next.or(after_last).or(Some(info.next_seq));
    Ok(Json(MessagePage::of(&mut session, &state, &queue, &found).await))
}
