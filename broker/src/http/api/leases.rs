//! Fetching messages and what becomes of them: a lease that a fetch gives runs to its timeout, whatever becomes of the connection, and
//! whoever has its id settles it.

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use qwerq_proto::{ErrorCode, Opcode, wire};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::HttpState;
use crate::http::extract::{JsonBody, Path, Session};
use crate::http::problem::{Problem, ProblemBody};
use crate::net::LocalSession;

use super::message::{self, Message, Wanted};
use super::start_at;

/// Longest wait of a fetch.
const WAIT_MS_MAX: u64 = 60_000;

pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(ack)).routes(routes!(nack)).routes(routes!(reject)).routes(routes!(release)).routes(routes!(extend))
}

/// Those that may wait.
pub(super) fn patient_routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(fetch))
}

/// What to fetch.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FetchRequest {
    /// The consumer group; `default` on a queue.
    group: String,
    /// Messages at most; 1 unless said.
    #[schema(minimum = 1, maximum = 1000)]
    max: Option<u32>,
    /// How long to wait for the first one; at once unless said, 60 s at most.
    #[schema(maximum = 60000)]
    wait_ms: u64,
    /// How long the leases last; the queue's unless said.
    visibility_timeout_ms: u64,
    /// Where a new group begins: `beginning`, `end`, `offset=N` or `time=2026-12-01T11:48:03Z`. Without effect on one that exists.
    #[schema(example = "beginning")]
    from: Option<String>,
}

/// Deliveries.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FetchAnswer {
    /// None when the wait passed without one.
    messages: Vec<Message>,
}

/// Fetch messages
///
/// Each comes with a lease, which `ack`, `nack`, `reject` or `release` settles, and `extend` renews. With Accept application/x-protobuf or
/// application/octet-stream: one payload as it is, the rest in the header `qwerq-message`.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/fetch", tag = "messages",
    params(("queue" = String, Path, description = "Its name; made if it is not there")), request_body = FetchRequest,
    responses(
        (status = 200, description = "Deliveries", content(
            (FetchAnswer = "application/json"), (Vec<u8> = "application/x-protobuf"), (Vec<u8> = "application/octet-stream"),
        ), headers(("qwerq-message" = String, description = "Of a raw payload: the rest of the message, in JSON"))),
        (status = 204, description = "Raw, and there is none"),
    )
)]
pub(crate) async fn fetch(
    State(state): State<HttpState>,
    Session(mut session): Session,
    Path(queue): Path<String>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<FetchRequest>,
) -> Result<Response, Problem> {
    const MAX: u32 = 1_000;
    let wanted = Wanted::of(&headers);
    if request.wait_ms > WAIT_MS_MAX {
        return Err(Problem::new(ErrorCode::InvalidArgument, format!("wait_ms is {}, at most {WAIT_MS_MAX} is possible", request.wait_ms)));
    }
    let max = request.max.unwrap_or(1);
    if max == 0 || max > MAX || (wanted == Wanted::Raw && max > 1) {
        let text = format!("max is {max}; it is 1 to {MAX} for JSON, and 1 for a payload as it is");
        return Err(Problem::new(ErrorCode::InvalidArgument, text));
    }
    let fetch = wire::Fetch {
        queue: queue.clone(),
        group: request.group,
        max,
        wait_ms: request.wait_ms,
        visibility_timeout_ms: request.visibility_timeout_ms,
        detached: true,
        start_at: request.from.as_deref().map(start_at::parse).transpose()?,
        contract: Bytes::new(),
    };
    let fetched: wire::Fetched = session.ask(Opcode::Fetch, &fetch).await?;
    let messages = match wanted {
        Wanted::Json => Message::all(&mut session, &state.contracts, &queue, &fetched.messages).await,
        Wanted::Raw => Vec::new(),
    };
    message::answer(wanted, &queue, &fetched.messages, FetchAnswer { messages })
}

/// A body that says what becomes of leases.
pub(crate) trait Settlement {
    /// The leases, and what is said of all of them.
    fn into_parts(self) -> (Vec<String>, wire::Settle);
}

/// Leases that are done.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AckRequest {
    /// As `fetch` gave them.
    lease_ids: Vec<String>,
}

impl Settlement for AckRequest {
    fn into_parts(self) -> (Vec<String>, wire::Settle) {
        (self.lease_ids, wire::Settle::default())
    }
}

/// Leases to put back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NackRequest {
    /// As `fetch` gave them.
    lease_ids: Vec<String>,
    /// Deliver again after so long, instead of the queue's retry_backoff; 0 is at once.
    delay_ms: Option<u64>,
    /// Why; the dead letter says so, if it becomes one.
    #[serde(default)]
    reason: String,
}

impl Settlement for NackRequest {
    fn into_parts(self) -> (Vec<String>, wire::Settle) {
        (self.lease_ids, wire::Settle { delay_ms: self.delay_ms, reason: self.reason, ..wire::Settle::default() })
    }
}

/// Leases whose messages failed for good.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RejectRequest {
    /// As `fetch` gave them.
    lease_ids: Vec<String>,
    /// Why; the dead letter says so.
    #[serde(default)]
    reason: String,
}

impl Settlement for RejectRequest {
    fn into_parts(self) -> (Vec<String>, wire::Settle) {
        (self.lease_ids, wire::Settle { reason: self.reason, ..wire::Settle::default() })
    }
}

/// Leases to hold for longer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendRequest {
    /// As `fetch` gave them.
    lease_ids: Vec<String>,
    /// How long they last from now; as long as at first unless said.
    #[serde(default)]
    visibility_timeout_ms: u64,
}

impl Settlement for ExtendRequest {
    fn into_parts(self) -> (Vec<String>, wire::Settle) {
        (self.lease_ids, wire::Settle { visibility_timeout_ms: self.visibility_timeout_ms, ..wire::Settle::default() })
    }
}

/// What became of leases.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettleAnswer {
    settled: u32,
    /// Those that were stale.
    refused: Vec<RefusedLease>,
}

/// A lease that was not settled.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefusedLease {
    lease_id: String,
    error: ProblemBody,
}

/// Acknowledge messages
///
/// They are done for the group, durably once this is answered. When all leases are refused, the answer is the first one's problem.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/ack", tag = "messages", params(("queue" = String, Path, description = "Its name")),
    request_body = AckRequest,
    responses((status = 200, description = "How many, and which not", body = SettleAnswer))
)]
pub(crate) async fn ack(leases: Leases<AckRequest>) -> Result<Json<SettleAnswer>, Problem> {
    leases.settle(Opcode::Ack).await
}

/// Put messages back
///
/// They are delivered again after the queue's retry_backoff, and count an attempt.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/nack", tag = "messages", params(("queue" = String, Path, description = "Its name")),
    request_body = NackRequest,
    responses((status = 200, description = "How many, and which not", body = SettleAnswer))
)]
pub(crate) async fn nack(leases: Leases<NackRequest>) -> Result<Json<SettleAnswer>, Problem> {
    leases.settle(Opcode::Nack).await
}

/// Give messages up
///
/// They go to failure handling at once: to the dead letters, where the queue keeps them.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/reject", tag = "messages", params(("queue" = String, Path, description = "Its name")),
    request_body = RejectRequest,
    responses((status = 200, description = "How many, and which not", body = SettleAnswer))
)]
pub(crate) async fn reject(leases: Leases<RejectRequest>) -> Result<Json<SettleAnswer>, Problem> {
    leases.settle(Opcode::Reject).await
}

/// Put messages back as if they had not been fetched
///
/// They count no attempt.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/release", tag = "messages", params(("queue" = String, Path, description = "Its name")),
    request_body = AckRequest,
    responses((status = 200, description = "How many, and which not", body = SettleAnswer))
)]
pub(crate) async fn release(leases: Leases<AckRequest>) -> Result<Json<SettleAnswer>, Problem> {
    leases.settle(Opcode::Release).await
}

/// Hold messages for longer
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/extend", tag = "messages", params(("queue" = String, Path, description = "Its name")),
    request_body = ExtendRequest,
    responses((status = 200, description = "How many, and which not", body = SettleAnswer))
)]
pub(crate) async fn extend(leases: Leases<ExtendRequest>) -> Result<Json<SettleAnswer>, Problem> {
    leases.settle(Opcode::ExtendVisibility).await
}

/// What a request says of leases, and the session that says it to the broker.
pub(crate) struct Leases<R> {
    session: LocalSession,
    queue: String,
    request: R,
}

impl<R: DeserializeOwned> FromRequest<HttpState> for Leases<R> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &HttpState) -> Result<Leases<R>, Problem> {
        let (mut parts, body) = request.into_parts();
        let Session(session) = Session::from_request_parts(&mut parts, state).await?;
        let Path(queue) = Path::from_request_parts(&mut parts, state).await?;
        let JsonBody(request) = JsonBody::from_request(Request::from_parts(parts, body), state).await?;
        Ok(Leases { session, queue, request })
    }
}

impl<R: Settlement> Leases<R> {
    async fn settle(self, opcode: Opcode) -> Result<Json<SettleAnswer>, Problem> {
        let Leases { mut session, queue, request } = self;
        // A lease knows its queue itself; a path to none is still a mistake.
        let _: wire::QueueInfo = session.ask(Opcode::QueueInfo, &wire::QueueName { name: queue }).await?;
        let (leases, settle) = request.into_parts();
        let lease_ids = leases.iter().map(|lease| lease_id(lease)).collect::<Result<Vec<_>, _>>()?;
        let settled: wire::Settled = session.ask(opcode, &wire::Settle { lease_ids, confirm: true, ..settle }).await?;
        let mut refused = settled.refused.into_iter().map(|refused| {
            let at = usize::try_from(refused.index).expect("32 bits fit");
            let problem = Problem::from(refused.error.unwrap_or_else(|| ErrorCode::StaleLease.with("the lease is stale")));
            (leases.get(at).cloned().unwrap_or_default(), problem)
        });
        if settled.settled == 0
            && let Some((lease_id, problem)) = refused.next()
        {
            return Err(problem.detail("lease_id", lease_id));
        }
        let refused = refused.map(|(lease_id, problem)| RefusedLease { lease_id, error: problem.into_body() }).collect();
        Ok(Json(SettleAnswer { settled: settled.settled, refused }))
    }
}

fn lease_id(text: &str) -> Result<Bytes, Problem> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks_exact(2);
    let is_even = pairs.remainder().is_empty();
    let bytes: Option<Vec<u8>> = pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect();
    bytes.filter(|_| is_even).map(Bytes::from).ok_or_else(|| {
        Problem::new(ErrorCode::InvalidArgument, format!("{text:?} is no lease id; it is hexadecimal, as fetch gave it"))
            .detail("field", "lease_ids")
    })
}
