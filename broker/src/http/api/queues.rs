//! /api/v1/queues and one queue of it: list, make, look at, change, empty, delete.

use axum::Json;
use axum::http::StatusCode;
use qwerq_proto::{Opcode, wire};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::HttpState;
use crate::http::extract::{JsonBody, NoBody, Nothing, Path, Query, Session, limit};
use crate::http::problem::Problem;
use crate::timestamp;

use super::groups::Group;
use super::queue_options::QueueOptions;
use super::schema_version::SchemaVersion;

/// Queues of a page, unless the request says.
const PAGE: usize = 100;

/// Queues of a page at most.
const PAGE_MAX: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(info, create, update, delete)).routes(routes!(purge))
}

/// A queue or stream, as it is now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Queue {
    #[schema(example = "orders")]
    name: String,
    /// Messages stored and not settled by all groups, delayed ones included.
    depth: u64,
    bytes: u64,
    ready: u64,
    delayed: u64,
    backing_off: u64,
    in_flight: u64,
    /// Position of the oldest message that is still there.
    first_seq: u64,
    /// Position that the next message gets.
    next_seq: u64,
    #[schema(format = DateTime)]
    created_at: String,
    /// The active version of its contract, if it has one.
    contract: Option<SchemaVersion>,
    groups: Vec<Group>,
    /// Every option, as in force.
    options: QueueOptions,
}

impl From<wire::QueueInfo> for Queue {
    fn from(queue: wire::QueueInfo) -> Queue {
        Queue {
            name: queue.name,
            depth: queue.depth,
            bytes: queue.bytes,
            ready: queue.ready,
            delayed: queue.delayed,
            backing_off: queue.backing_off,
            in_flight: queue.in_flight,
            first_seq: queue.first_seq,
            next_seq: queue.next_seq,
            created_at: timestamp::format_ms(queue.created_at_ms),
            contract: queue.contract.map(SchemaVersion::from),
            groups: queue.groups.into_iter().map(Group::from).collect(),
            options: queue.options.unwrap_or_default().into(),
        }
    }
}

/// A page of queues, by name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueuePage {
    queues: Vec<Queue>,
    /// There are more: ask again with `after` set to this.
    next: Option<String>,
}

/// Which queues.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// Only queues whose names contain this.
    search: Option<String>,
    /// Only queues behind this name.
    after: Option<String>,
    /// At most so many; 100 unless said otherwise, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List queues
#[utoipa::path(
    get, path = "/api/v1/queues", tag = "queues", params(ListQuery),
    responses((status = 200, description = "Queues and streams by name, dead letter queues among them", body = QueuePage))
)]
pub(crate) async fn list(Session(mut session): Session, Query(query): Query<ListQuery>) -> Result<Json<QueuePage>, Problem> {
    let limit = limit(query.limit, PAGE, PAGE_MAX)?;
    let list = wire::QueueList {
        search: query.search.unwrap_or_default(),
        after: query.after.unwrap_or_default(),
        limit: u32::try_from(limit).expect("a page's size is small"),
        mode: String::new(),
    };
    let listed: wire::QueueListResponse = session.ask(Opcode::QueueList, &list).await?;
    let next = Some(listed.next).filter(|next| !next.is_empty());
    Ok(Json(QueuePage { queues: listed.queues.into_iter().map(Queue::from).collect(), next }))
}

/// Look at a queue
#[utoipa::path(
    get, path = "/api/v1/queues/{queue}", tag = "queues", params(("queue" = String, Path, description = "Its name")),
    responses((status = 200, description = "The queue", body = Queue))
)]
pub(crate) async fn info(Session(mut session): Session, Path(name): Path<String>) -> Result<Json<Queue>, Problem> {
    let queue: wire::QueueInfo = session.ask(Opcode::QueueInfo, &wire::QueueName { name }).await?;
    Ok(Json(queue.into()))
}

/// Make a queue
///
/// One that exists with the same options is not an error. An empty object takes the broker's defaults.
#[utoipa::path(
    put, path = "/api/v1/queues/{queue}", tag = "queues", params(("queue" = String, Path, description = "Its name")),
    request_body = QueueOptions,
    responses((status = 200, description = "The queue", body = Queue))
)]
pub(crate) async fn create(
    Session(mut session): Session,
    Path(name): Path<String>,
    JsonBody(options): JsonBody<QueueOptions>,
) -> Result<Json<Queue>, Problem> {
    let create = wire::QueueCreate { name, options: Some(options.into()) };
    let queue: wire::QueueInfo = session.ask(Opcode::QueueCreate, &create).await?;
    Ok(Json(queue.into()))
}

/// Change options of a queue
///
/// Those that are left out stay.
#[utoipa::path(
    patch, path = "/api/v1/queues/{queue}", tag = "queues", params(("queue" = String, Path, description = "Its name")),
    request_body = QueueOptions,
    responses((status = 200, description = "The queue", body = Queue))
)]
pub(crate) async fn update(
    Session(mut session): Session,
    Path(name): Path<String>,
    JsonBody(options): JsonBody<QueueOptions>,
) -> Result<Json<Queue>, Problem> {
    let update = wire::QueueUpdate { name, options: Some(options.into()) };
    let queue: wire::QueueInfo = session.ask(Opcode::QueueUpdate, &update).await?;
    Ok(Json(queue.into()))
}

/// Delete a queue with its messages, groups and contract
#[utoipa::path(
    delete, path = "/api/v1/queues/{queue}", tag = "queues", params(("queue" = String, Path, description = "Its name")),
    responses((status = 204, description = "It is gone"))
)]
pub(crate) async fn delete(Session(mut session): Session, Path(name): Path<String>) -> Result<StatusCode, Problem> {
    let _: wire::Done = session.ask(Opcode::QueueDelete, &wire::QueueName { name }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// How many messages are gone.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Purged {
    pub(super) purged: u64,
}

/// Remove all messages of a queue
///
/// Delayed and leased ones too; groups, options and contract stay.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/purge", tag = "queues", params(("queue" = String, Path, description = "Its name")),
    request_body = Nothing,
    responses((status = 200, description = "How many there were", body = Purged))
)]
pub(crate) async fn purge(Session(mut session): Session, Path(name): Path<String>, NoBody: NoBody) -> Result<Json<Purged>, Problem> {
    let purged: wire::Purged = session.ask(Opcode::QueuePurge, &wire::QueueName { name }).await?;
    Ok(Json(Purged { purged: purged.messages }))
}
