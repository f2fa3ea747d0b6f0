//! /api/v1/queues/{queue}/explain: why something does not move.

use std::collections::BTreeMap;

use axum::Json;
use qwerq_proto::{Opcode, wire};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::HttpState;
use crate::http::extract::{Path, Query, Session};
use crate::http::problem::Problem;

use super::message::parse_id;

pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(explain))
}

/// What to explain: a message by its id or position, an ordering key, or, without any of them, what the groups wait for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExplainQuery {
    /// Only for this group.
    group: Option<String>,
    /// The message of this id.
    id: Option<String>,
    /// The message at this position.
    seq: Option<u64>,
    /// The next message of this ordering key.
    key: Option<String>,
}

/// Explanations, one for each group, or one for the queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explanations {
    explanations: Vec<Explanation>,
}

/// Why something does not move.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explanation {
    group: Option<String>,
    /// `leased`, `backing-off`, `key-blocked`, `no-consumer`, ...
    #[schema(example = "no-consumer")]
    cause: String,
    /// The cause in a sentence.
    text: String,
    /// Facts for programs.
    details: BTreeMap<String, String>,
}

/// Why something does not move
#[utoipa::path(
    get, path = "/api/v1/queues/{queue}/explain", tag = "queues",
    params(("queue" = String, Path, description = "Its name"), ExplainQuery),
    responses((status = 200, description = "Explanations", body = Explanations))
)]
pub(crate) async fn explain(
    Session(mut session): Session,
    Path(queue): Path<String>,
    Query(query): Query<ExplainQuery>,
) -> Result<Json<Explanations>, Problem> {
    let request = wire::Explain {
        queue,
        group: query.group.unwrap_or_default(),
        id: query.id.as_deref().map(parse_id).transpose()?.unwrap_or_default(),
        seq: query.seq,
        ordering_key: query.key.unwrap_or_default(),
    };
    let explained: wire::Explained = session.ask(Opcode::Explain, &request).await?;
    let explanation = |found: wire::Explanation| Explanation {
        group: Some(found.group).filter(|group| !group.is_empty()),
        cause: found.cause,
        text: found.text,
        details: found.details.into_iter().collect(),
    };
    Ok(Json(Explanations { explanations: explained.explanations.into_iter().map(explanation).collect() }))
}
