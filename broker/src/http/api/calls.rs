//! /api/v1/queues/{queue}/call: a request and its reply.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use qwerq_proto::{ErrorCode, Opcode, wire};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::HttpState;
use crate::http::extract::{BodyKind, Path, RawBody, Session, parse};
use crate::http::problem::Problem;

use super::message::{MESSAGE_HEADER, Payload, Wanted, content_type, headers, message_header};
use super::new_message::{payload, wire_headers};

/// Longest time that a caller can wait over HTTP.
pub(crate) const TIMEOUT_MS_MAX: u64 = 300_000;

/// How long a caller waits that does not say.
const TIMEOUT_MS: u64 = 30_000;

/// It waits for its reply.
pub(super) fn patient_routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(call))
}

/// A request. One of `body`, `payload_text` and `payload_base64` is its payload; with none of them it is empty.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CallRequest {
    /// The request in protobuf's JSON, by the queue's contract.
    #[schema(value_type = Option<Value>)]
    body: Option<Box<RawValue>>,
    /// The payload, as text.
    payload_text: Option<String>,
    /// The payload, in base64.
    payload_base64: Option<String>,
    headers: BTreeMap<String, String>,
    /// How long to wait for the reply; 30 s unless said, 5 minutes at most.
    #[schema(minimum = 1, maximum = 300000, example = 5000)]
    timeout_ms: Option<u64>,
}

/// A reply.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallAnswer {
    #[serde(flatten)]
    payload: Payload,
    headers: BTreeMap<String, String>,
    /// The version of the contract that judged it.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<u32>,
}

/// What the header of a raw reply says.
#[derive(Debug, Serialize)]
struct ReplyHead {
    headers: BTreeMap<String, String>,
    schema_version: Option<u32>,
}

/// Call
///
/// The request goes to exactly one responder, and the answer is its reply. With Content-Type application/x-protobuf or
/// application/octet-stream the body is the request's payload, and the header `qwerq-message` may hold the rest as the same JSON; with such
/// an Accept the answer is the reply's payload.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/call", tag = "calls", params(("queue" = String, Path, description = "Its name")),
    request_body(content(
        (CallRequest = "application/json"),
        (Vec<u8> = "application/x-protobuf"),
        (Vec<u8> = "application/octet-stream"),
    )),
    responses((status = 200, description = "The reply", content(
        (CallAnswer = "application/json"), (Vec<u8> = "application/x-protobuf"), (Vec<u8> = "application/octet-stream"),
    ), headers(("qwerq-message" = String, description = "Of a raw payload: the rest of the reply, in JSON"))))
)]
pub(crate) async fn call(
    State(state): State<HttpState>,
    Session(mut session): Session,
    Path(queue): Path<String>,
    request_headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response, Problem> {
    let is_raw = BodyKind::of(&request_headers) == Some(BodyKind::Raw);
    let request: CallRequest = match request_headers.get(MESSAGE_HEADER) {
        _ if !is_raw => parse(&body)?,
        Some(value) => parse(value.as_bytes())?,
        None => CallRequest::default(),
    };
    let timeout_ms = request.timeout_ms.unwrap_or(TIMEOUT_MS);
    if timeout_ms == 0 || timeout_ms > TIMEOUT_MS_MAX {
        return Err(Problem::new(ErrorCode::InvalidArgument, format!("timeout_ms is {timeout_ms}; it is 1 to {TIMEOUT_MS_MAX}")));
    }
    let typed = state.contracts.active(&mut session, &queue).await?;
    let (payload, contract) = match is_raw {
        true => (body, Bytes::new()),
        false => {
            let (text, base64) = (request.payload_text.as_deref(), request.payload_base64.as_deref());
            let payload = payload(request.body.as_deref(), text, base64, typed.as_ref())?;
            (payload, typed.as_ref().map(|typed| typed.fingerprint()).unwrap_or_default())
        }
    };
    let headers_of_request = wire_headers(request.headers);
    let call = wire::Call { queue: queue.clone(), payload, headers: headers_of_request, timeout_ms, contract, ..wire::Call::default() };
    let reply: wire::CallResponse = session.ask(Opcode::Call, &call).await?;
    if let Some(error) = reply.error {
        return Err(failed(&queue, error));
    }
    let schema_version = Some(reply.schema_version).filter(|version| *version > 0);
    if Wanted::of(&request_headers) == Wanted::Raw {
        let head = message_header(&ReplyHead { headers: headers(&reply.headers), schema_version })?;
        let names = [(header::HeaderName::from_static(MESSAGE_HEADER), head), (header::CONTENT_TYPE, content_type(reply.schema_version))];
        return Ok((names, reply.payload).into_response());
    }
    let typed = match schema_version {
        Some(version) => state.contracts.version(&mut session, &queue, version).await,
        None => None,
    };
    let payload = Payload::new(&reply.payload, typed.as_ref().and_then(|typed| typed.types.reply.as_ref()));
    Ok(Json(CallAnswer { payload, headers: headers(&reply.headers), schema_version }).into_response())
}

/// The responder's own error: it has done its work, and this is the outcome.
fn failed(queue: &str, error: wire::Error) -> Problem {
    let problem = Problem::from(error).detail("queue", queue).detail("side", "responder");
    problem.with_status(axum::http::StatusCode::FAILED_DEPENDENCY)
}
