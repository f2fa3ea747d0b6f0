//! /api/v1/queues/{queue}/messages: publish one or many, and look at what is stored.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use qwerq_proto::{ErrorCode, Opcode, wire};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::HttpState;
use crate::http::extract::{BodyKind, Path, Query, RawBody, Session, parse, parse_each};
use crate::http::problem::{Problem, ProblemBody};
use crate::net::LocalSession;

use super::message::{self, Message, Wanted, id_text};
use super::new_message::NewMessage;
use super::peek::{Found, PeekFilter, peek};

pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(look, publish))
}

/// What became of a published message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Published {
    #[schema(example = "01KBCS6XTW0000000000000001")]
    id: String,
    /// Its position; none while it is delayed.
    seq: Option<u64>,
    /// The idempotency key was seen before: id and position are the first message's.
    duplicate: bool,
    /// When it is safe: `fsync`, `interval` or `none`.
    #[schema(example = "fsync")]
    durability: &'static str,
    /// The version of the contract that judged it.
    version: Option<u32>,
    /// It breaks the contract and went to the dead letters: what is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_lettered: Option<ProblemBody>,
}

/// One message, or an array of them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "its schema describes the body, which is read in two steps so that errors stay exact")]
pub(crate) enum NewMessages {
    One(Box<NewMessage>),
    Many(Vec<NewMessage>),
}

/// What became of one message, or of each of many.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum PublishAnswer {
    /// To one message.
    One(Published),
    /// To an array.
    Many(PublishedMany),
}

/// What became of each of many messages.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PublishedMany {
    published: usize,
    refused: usize,
    /// In the order of the array.
    results: Vec<PublishResult>,
}

/// What became of one of many messages.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum PublishResult {
    /// It is stored.
    Published(Published),
    /// It is not.
    Refused {
        /// Why.
        error: ProblemBody,
    },
}

/// How to publish.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishQuery {
    /// Of an array: all of them or none.
    #[serde(default)]
    atomic: bool,
}

/// Publish
///
/// One message, or an array of them, in JSON; answered when it is durable. A message of an array that is refused does not hold up the
/// others, unless the query says `atomic`. With Content-Type application/x-protobuf or application/octet-stream the body is the payload of
/// one message, and the header `qwerq-message` may hold the rest as the same JSON.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/messages", tag = "messages",
    params(("queue" = String, Path, description = "Its name; made if it is not there"), PublishQuery),
    request_body(content(
        (NewMessages = "application/json"),
        (Vec<u8> = "application/x-protobuf"),
        (Vec<u8> = "application/octet-stream"),
    )),
    responses((status = 200, description = "Stored, and of an array what became of each", body = PublishAnswer))
)]
pub(crate) async fn publish(
    State(state): State<HttpState>,
    Session(mut session): Session,
    Path(queue): Path<String>,
    Query(query): Query<PublishQuery>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Json<PublishAnswer>, Problem> {
    if BodyKind::of(&headers) == Some(BodyKind::Raw) {
        let item = NewMessage::of_raw(&headers)?.item_with(body)?;
        return publish_one(&mut session, queue, item, Bytes::new()).await;
    }
    let is_array = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let typed = state.contracts.active(&mut session, &queue).await?;
    let contract = typed.as_ref().map(|typed| typed.fingerprint()).unwrap_or_default();
    if !is_array {
        let item = parse::<NewMessage>(&body)?.into_item(typed.as_ref())?;
        return publish_one(&mut session, queue, item, contract).await;
    }
    let items = parse_each::<NewMessage>(&body)?.into_iter().map(|message| message?.into_item(typed.as_ref())).collect();
    let publish = wire::Publish { queue, items: Vec::new(), atomic: query.atomic, contract };
    publish_many(&mut session, publish, items).await.map(PublishAnswer::Many).map(Json)
}

async fn publish_one(
    session: &mut LocalSession,
    queue: String,
    item: wire::PublishItem,
    contract: Bytes,
) -> Result<Json<PublishAnswer>, Problem> {
    let publish = wire::Publish { queue, items: vec![item], atomic: false, contract };
    let ack: wire::PublishAck = session.ask(Opcode::Publish, &publish).await?;
    let durability = durability_word(ack.durability());
    let result =
        ack.results.into_iter().next().ok_or_else(|| Problem::new(ErrorCode::Internal, "the broker said nothing of the message"))?;
    published(result, durability).map(PublishAnswer::One).map(Json)
}

/// Publishes the items that are some, and gathers what became of all.
async fn publish_many(
    session: &mut LocalSession,
    mut publish: wire::Publish,
    items: Vec<Result<wire::PublishItem, Problem>>,
) -> Result<PublishedMany, Problem> {
    let atomic = publish.atomic;
    let mut refused_before: Vec<Option<Problem>> = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        match item {
            Ok(item) => {
                publish.items.push(item);
                refused_before.push(None);
            }
            Err(problem) if atomic => return Err(problem.detail("index", at)),
            Err(problem) => refused_before.push(Some(problem)),
        }
    }
    let (mut results, mut durability) = (Vec::new().into_iter(), "");
    if !publish.items.is_empty() {
        let ack: wire::PublishAck = session.ask(Opcode::Publish, &publish).await?;
        durability = durability_word(ack.durability());
        results = ack.results.into_iter();
    }
    let unsaid = || ErrorCode::Internal.with("the broker said nothing of the message");
    let mut all = PublishedMany { published: 0, refused: 0, results: Vec::with_capacity(refused_before.len()) };
    let mut first_refusal = None;
    for (at, before) in refused_before.into_iter().enumerate() {
        let outcome = match before {
            Some(problem) => Err(problem),
            None => {
                published(results.next().unwrap_or_else(|| wire::PublishResult { error: Some(unsaid()), ..Default::default() }), durability)
            }
        };
        match outcome {
            Ok(published) => {
                all.published += 1;
                all.results.push(PublishResult::Published(published));
            }
            Err(problem) => {
                // The others of an atomic publish are refused only because of the one that is.
                if atomic && first_refusal.is_none() && problem.code() != ErrorCode::AtomicRefused.name() {
                    first_refusal = Some(problem.detail("index", at));
                    continue;
                }
                all.refused += 1;
                all.results.push(PublishResult::Refused { error: problem.into_body() });
            }
        }
    }
    first_refusal.map_or(Ok(all), Err)
}

fn published(result: wire::PublishResult, durability: &'static str) -> Result<Published, Problem> {
    let dead_lettered = match (result.error, result.dead_lettered) {
        (Some(error), false) => return Err(error.into()),
        (violation, _) => violation.map(|violation| Problem::from(violation).into_body()),
    };
    Ok(Published {
        id: id_text(&result.id),
        seq: result.seq,
        duplicate: result.duplicate,
        durability,
        version: Some(result.schema_version).filter(|version| *version > 0),
        dead_lettered,
    })
}

/// The name of a durability.
pub(crate) fn durability_word(durability: wire::Durability) -> &'static str {
    match durability {
        wire::Durability::Unspecified => "unspecified",
        wire::Durability::Fsync => "fsync",
        wire::Durability::Interval => "interval",
        wire::Durability::None => "none",
        wire::Durability::Quorum => "quorum",
    }
}

/// Stored messages, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessagePage {
    messages: Vec<Message>,
    /// There may be more: ask again with `from_seq` set to this. A page of a search may be empty and still have a next.
    next: Option<u64>,
}

impl MessagePage {
    pub(crate) async fn of(session: &mut LocalSession, state: &HttpState, queue: &str, found: &Found) -> MessagePage {
        MessagePage { messages: Message::all(session, &state.contracts, queue, &found.messages).await, next: found.next }
    }
}

/// Where to look.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeekQuery {
    /// From this position on; from the oldest message unless said.
    #[serde(default)]
    from_seq: u64,
    /// At most so many; 20 unless said, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only the message of this id.
    id: Option<String>,
    /// Only messages of this ordering key.
    ordering_key: Option<String>,
    /// Only messages with this header: `name`, or `name=value`.
    header: Option<String>,
    /// Only messages published at or after then.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Only messages published before then.
    #[param(format = DateTime)]
    until: Option<String>,
}

/// Look at stored messages
///
/// Nothing is leased. With Accept application/x-protobuf or application/octet-stream: the payload of the first one, as it is, the rest in
/// the header `qwerq-message`.
#[utoipa::path(
    get, path = "/api/v1/queues/{queue}/messages", tag = "messages",
    params(("queue" = String, Path, description = "Its name"), PeekQuery),
    responses(
        (status = 200, description = "Messages, oldest first", content(
            (MessagePage = "application/json"), (Vec<u8> = "application/x-protobuf"), (Vec<u8> = "application/octet-stream"),
        ), headers(("qwerq-message" = String, description = "Of a raw payload: the rest of the message, in JSON"))),
        (status = 204, description = "Raw, and there is none"),
    )
)]
pub(crate) async fn look(
    State(state): State<HttpState>,
    Session(mut session): Session,
    Path(queue): Path<String>,
    Query(query): Query<PeekQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let wanted = Wanted::of(&headers);
    let filter = PeekFilter::new(query.id, query.ordering_key, query.header, query.since, query.until)?;
    let limit = if wanted == Wanted::Raw { Some(1) } else { query.limit };
    let from = wire::Peek { queue: queue.clone(), from_seq: query.from_seq, ..wire::Peek::default() };
    let found = peek(&mut session, from, limit, &filter).await?;
    match wanted {
        Wanted::Raw => message::raw(&queue, &found.messages),
        Wanted::Json => Ok(Json(MessagePage::of(&mut session, &state, &queue, &found).await).into_response()),
    }
}
