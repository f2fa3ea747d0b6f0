//! /api/v1/schemas/{queue}/validate: whether a queue would take a payload, without publishing it.

use axum::Json;
use axum::extract::State;
use qwerq_proto::{ErrorCode, wire};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::HttpState;
use crate::http::extract::{JsonBody, Path, Session};
use crate::http::problem::Problem;

use super::new_message;

pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(validate))
}

/// A payload that nobody publishes: one of `body`, `payload_text` and `payload_base64`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Payload {
    /// The message in protobuf's JSON.
    #[schema(value_type = Option<Value>)]
    body: Option<Box<RawValue>>,
    /// The payload, as text.
    payload_text: Option<String>,
    /// The payload, in base64.
    payload_base64: Option<String>,
}

/// The contract takes it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Valid {
    /// The version that judged it, which is the active one.
    version: u32,
    /// Bytes that the payload has on the wire.
    bytes: usize,
}

/// Judge a payload
///
/// By the active version and the queue's mode, as a publish would be; nothing is stored. What breaks the contract is answered as a publish
/// is, with the field in `details.path`.
#[utoipa::path(
    post, path = "/api/v1/schemas/{queue}/validate", tag = "schemas", params(("queue" = String, Path, description = "The queue")),
    request_body = Payload,
    responses((status = 200, description = "The contract takes it", body = Valid))
)]
pub(crate) async fn validate(
    State(state): State<HttpState>,
    Session(mut session): Session,
    Path(queue): Path<String>,
    JsonBody(Payload { body, payload_text, payload_base64 }): JsonBody<Payload>,
) -> Result<Json<Valid>, Problem> {
    let Some(typed) = state.contracts.active(&mut session, &queue).await? else {
        let error = ErrorCode::SchemaNotFound.with(format!("queue `{queue}` has no contract to judge a payload by"));
        return Err(error.detail("queue", &queue).into());
    };
    let payload = new_message::payload(body.as_deref(), payload_text.as_deref(), payload_base64.as_deref(), Some(&typed))?;
    let unknown = session.shared().policies.unknown(&queue);
    let version = typed.version.version;
    let broken = |violation: crate::registry::Violation| -> wire::Error { violation.to_error(version) };
    typed.version.contract.validate(&payload, unknown).map_err(broken)?;
    Ok(Json(Valid { version, bytes: payload.len() }))
}
