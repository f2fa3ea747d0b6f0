//! /api/v1/queues/{queue}/dlq: the dead letters of a queue, one, some or all of them.

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use qwerq_proto::{Opcode, name, wire};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::HttpState;
use crate::http::contracts::Typed;
use crate::http::extract::{JsonBody, Path, Query, Session, limit};
use crate::http::problem::{Problem, ProblemBody};

use super::message::{Message, parse_id};
use super::new_message;
use super::peek::time;
use super::queues::Purged;

pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(redrive)).routes(routes!(purge))
}

/// Which dead letters, and how many.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LettersQuery {
    /// Only of this group.
    group: Option<String>,
    /// Only the message of this id.
    id: Option<String>,
    /// Only for this reason: `max-deliveries`, `rejected`, `invalid` or `expired`.
    reason: Option<String>,
    /// Only those that became dead letters at or after then.
    #[param(format = DateTime)]
    since: Option<String>,
    /// Only those that became dead letters before then.
    #[param(format = DateTime)]
    until: Option<String>,
    /// From this position in the dead letter queue on.
    from_seq: u64,
    /// At most so many; 100 unless said, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Which dead letters; all of them unless something narrows the choice.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LetterChoice {
    /// Only of this group.
    group: Option<String>,
    /// Only the messages of these ids.
    ids: Option<Vec<String>>,
    /// Only for this reason: `max-deliveries`, `rejected`, `invalid` or `expired`.
    #[schema(example = "max-deliveries")]
    reason: Option<String>,
    /// Only those that became dead letters at or after then.
    #[schema(format = DateTime)]
    since: Option<String>,
    /// Only those that became dead letters before then.
    #[schema(format = DateTime)]
    until: Option<String>,
    /// At most so many, the oldest ones.
    max: Option<u32>,
}

/// Dead letters, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LetterPage {
    letters: Vec<Letter>,
    /// There may be more: ask again with `from_seq` set to this.
    next: Option<u64>,
}

/// A dead letter: the message, and what its headers say of its end.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Letter {
    /// `max-deliveries`, `rejected`, `invalid` or `expired`.
    reason: Option<String>,
    /// In words; for a payload that breaks the contract with its field path, offset and version.
    error: Option<String>,
    source_queue: Option<String>,
    source_seq: Option<u64>,
    /// The group that gave it up.
    group: Option<String>,
    attempts: Option<u64>,
    first_failed_at: Option<String>,
    failed_at: Option<String>,
    #[serde(flatten)]
    message: Message,
}

impl Letter {
    fn new(message: Message, headers: &[wire::Header]) -> Letter {
        let told = |name: &str| {
            headers.iter().find(|header| header.name == name).map(|header| header.value.clone()).filter(|value| !value.is_empty())
        };
        let number = |name| told(name).and_then(|value| value.parse().ok());
        Letter {
            reason: told("qwerq-reason"),
            error: told("qwerq-error"),
            source_queue: told("qwerq-source-queue"),
            source_seq: number("qwerq-source-seq"),
            group: told("qwerq-group"),
            attempts: number("qwerq-attempts"),
            first_failed_at: told("qwerq-first-failed-at"),
            failed_at: told("qwerq-failed-at"),
            message,
        }
    }
}

/// List dead letters
#[utoipa::path(
    get, path = "/api/v1/queues/{queue}/dlq", tag = "dead letters",
    params(("queue" = String, Path, description = "The queue that they come from"), LettersQuery),
    responses((status = 200, description = "Dead letters, oldest first", body = LetterPage))
)]
pub(crate) async fn list(
    State(state): State<HttpState>,
    Session(mut session): Session,
    Path(queue): Path<String>,
    Query(query): Query<LettersQuery>,
) -> Result<Json<LetterPage>, Problem> {
    const LIMIT: usize = 100;
    const LIMIT_MAX: usize = 1_000;
    let limit = limit(query.limit, LIMIT, LIMIT_MAX)?;
    let queue = source(queue);
    let letters = wire::DeadLetters {
        queue: queue.clone(),
        group: query.group.unwrap_or_default(),
        id: query.id.as_deref().map(parse_id).transpose()?.unwrap_or_default(),
        reason: query.reason.unwrap_or_default(),
        since_ms: time("since", query.since)?,
        until_ms: time("until", query.until)?,
        max: u32::try_from(limit).expect("1,000 at most"),
        from_seq: query.from_seq,
    };
    let page: wire::Fetched = session.ask(Opcode::DeadLetters, &letters).await?;
    let of = format!("{queue}{}", name::DLQ_SUFFIX);
    let messages = Message::all(&mut session, &state.contracts, &of, &page.messages).await;
    let full = page.messages.len() >= limit;
    let after_last = page.messages.last().filter(|_| full).map(|last| last.seq + 1);
    let letters = messages.into_iter().zip(&page.messages).map(|(message, delivered)| Letter::new(message, &delivered.headers)).collect();
    Ok(Json(LetterPage { letters, next: page.next_seq.or(after_last) }))
}

/// Which dead letters go where.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RedriveRequest {
    /// Only of this group.
    group: Option<String>,
    /// Only the messages of these ids.
    ids: Option<Vec<String>>,
    /// Only for this reason: `max-deliveries`, `rejected`, `invalid` or `expired`.
    #[schema(example = "max-deliveries")]
    reason: Option<String>,
    /// Only those that became dead letters at or after then.
    #[schema(format = DateTime)]
    since: Option<String>,
    /// Only those that became dead letters before then.
    #[schema(format = DateTime)]
    until: Option<String>,
    /// At most so many, the oldest ones.
    max: Option<u32>,
    /// To this queue instead of the one that they come from.
    to: Option<String>,
    /// Publish them anew, for every group, instead of to the group that gave them up.
    all_groups: bool,
    /// In place of the payload of one message, named by its id: a message in protobuf's JSON, by the contract of the queue that it goes to.
    #[schema(value_type = Option<Value>)]
    body: Option<Box<RawValue>>,
    /// In place of the payload of one message, as text.
    payload_text: Option<String>,
    /// In place of the payload of one message, in base64.
    payload_base64: Option<String>,
}

impl RedriveRequest {
    /// The payload in place of the letters' own; `typed` is the contract of the queue that they go to.
    fn payload(&self, typed: Option<&Typed>) -> Result<Option<Bytes>, Problem> {
        let RedriveRequest { body, payload_text: text, payload_base64: base64, .. } = self;
        match body.is_some() || text.is_some() || base64.is_some() {
            true => new_message::payload(body.as_deref(), text.as_deref(), base64.as_deref(), typed).map(Some),
            false => Ok(None),
        }
    }
}

/// What became of dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Redriven {
    redriven: u64,
    /// Letters that stay.
    refused: u64,
    /// Why the first of them does.
    refusal: Option<ProblemBody>,
}

/// Redrive dead letters
///
/// Back to the group that gave them up, with attempts from one; an empty object means all of them. One that cannot be handled as it is may
/// go with another payload.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/dlq/redrive", tag = "dead letters",
    params(("queue" = String, Path, description = "The queue that they come from")), request_body = RedriveRequest,
    responses((status = 200, description = "How many went, and how many stay", body = Redriven))
)]
pub(crate) async fn redrive(
    State(state): State<HttpState>,
    Session(mut session): Session,
    Path(queue): Path<String>,
    JsonBody(request): JsonBody<RedriveRequest>,
) -> Result<Json<Redriven>, Problem> {
    let target = request.to.clone().unwrap_or_else(|| source(queue.clone()));
    let typed = state.contracts.active(&mut session, &target).await?;
    let payload = request.payload(typed.as_ref())?;
    let RedriveRequest { group, ids, reason, since, until, max, to, all_groups, .. } = request;
    let choice = LetterChoice { group, ids, reason, since, until, max };
    let mut all = Redriven { redriven: 0, refused: 0, refusal: None };
    let mut left = Left::of(&choice);
    for mut letters in choice.into_wire(queue)? {
        while left.limit(&mut letters) {
            let redrive =
                wire::Redrive { letters: Some(letters.clone()), to: to.clone().unwrap_or_default(), all_groups, payload: payload.clone() };
            let done: wire::Redriven = session.ask(Opcode::Redrive, &redrive).await?;
            all.redriven += done.redriven;
            all.refused += done.refused;
            all.refusal = all.refusal.or_else(|| done.refusal.map(|error| Problem::from(error).into_body()));
            left.took(done.redriven + done.refused);
            match done.next_seq {
                Some(next) => letters.from_seq = next,
                None => break,
            }
        }
    }
    Ok(Json(all))
}

/// Remove dead letters for good
///
/// An empty object means all of them.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/dlq/purge", tag = "dead letters",
    params(("queue" = String, Path, description = "The queue that they come from")), request_body = LetterChoice,
    responses((status = 200, description = "How many there were", body = Purged))
)]
pub(crate) async fn purge(
    Session(mut session): Session,
    Path(queue): Path<String>,
    JsonBody(choice): JsonBody<LetterChoice>,
) -> Result<Json<Purged>, Problem> {
    let mut purged = 0;
    let mut left = Left::of(&choice);
    for mut letters in choice.into_wire(queue)? {
        while left.limit(&mut letters) {
            let done: wire::Purged = session.ask(Opcode::DeadLettersPurge, &letters).await?;
            purged += done.messages;
            left.took(done.messages);
            match done.next_seq {
                Some(next) => letters.from_seq = next,
                None => break,
            }
        }
    }
    Ok(Json(Purged { purged }))
}

impl LetterChoice {
    /// One request for all, or one for each id.
    fn into_wire(self, queue: String) -> Result<Vec<wire::DeadLetters>, Problem> {
        let common = wire::DeadLetters {
            queue: source(queue),
            group: self.group.unwrap_or_default(),
            reason: self.reason.unwrap_or_default(),
            since_ms: time("since", self.since)?,
            until_ms: time("until", self.until)?,
            ..wire::DeadLetters::default()
        };
        match self.ids {
            None => Ok(vec![common]),
            Some(ids) => ids.iter().map(|id| Ok(wire::DeadLetters { id: parse_id(id)?, ..common.clone() })).collect(),
        }
    }
}

/// How many may still be taken, when there is a bound.
struct Left(Option<u64>);

impl Left {
    fn of(choice: &LetterChoice) -> Left {
        Left(choice.max.map(u64::from))
    }

    /// Bounds the next request; says whether there is one.
    fn limit(&self, letters: &mut wire::DeadLetters) -> bool {
        // On the wire 0 is no bound.
        letters.max = self.0.map_or(0, |left| u32::try_from(left).unwrap_or(u32::MAX));
        self.0 != Some(0)
    }

    fn took(&mut self, letters: u64) {
        self.0 = self.0.map(|left| left.saturating_sub(letters));
    }
}

/// The queue that letters come from; naming its dead letter queue means the same.
fn source(queue: String) -> String {
    queue.strip_suffix(name::DLQ_SUFFIX).map(str::to_owned).unwrap_or(queue)
}
