//! /api/v1/queues/{queue}/groups: consumer groups, their progress and how to move them.

use axum::Json;
use axum::http::StatusCode;
use qwerq_proto::{ErrorCode, Opcode, wire};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::HttpState;
use crate::http::extract::{JsonBody, Path, Session};
use crate::http::problem::Problem;
use crate::net::LocalSession;

use super::start_at;

pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(info, create, delete)).routes(routes!(seek)).routes(routes!(commit))
}

/// A consumer group, as it is now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Group {
    #[schema(example = "billing")]
    name: String,
    /// The first position that the group has not settled.
    ack_floor: u64,
    /// Messages that it has not settled.
    lag: u64,
    in_flight: u64,
    backing_off: u64,
    consumers: u32,
    /// Ordering keys whose next message waits for the one before it.
    blocked_keys: u64,
}

impl From<wire::GroupInfo> for Group {
    fn from(group: wire::GroupInfo) -> Group {
        let wire::GroupInfo { name, ack_floor, lag, in_flight, backing_off, consumers, blocked_keys } = group;
        Group { name, ack_floor, lag, in_flight, backing_off, consumers, blocked_keys }
    }
}

/// The groups of a queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Groups {
    groups: Vec<Group>,
}

/// Where a group begins or goes on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeekTo {
    /// `beginning`, `end`, `offset=N` or `time=2026-12-01T11:48:03Z`.
    #[schema(example = "beginning")]
    from: String,
}

/// Where a new group begins.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewGroup {
    /// `beginning`, which it is unless said, `end`, `offset=N` or `time=2026-12-01T11:48:03Z`.
    #[schema(example = "beginning")]
    from: Option<String>,
}

/// What a group has read of a stream.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Commit {
    /// Everything up to and including this offset.
    offset: u64,
}

async fn groups_of(session: &mut LocalSession, name: String) -> Result<Vec<wire::GroupInfo>, Problem> {
    let queue: wire::QueueInfo = session.ask(Opcode::QueueInfo, &wire::QueueName { name }).await?;
    Ok(queue.groups)
}

async fn group_of(session: &mut LocalSession, queue: String, group: &str) -> Result<Json<Group>, Problem> {
    let found = groups_of(session, queue.clone()).await?.into_iter().find(|known| known.name == group);
    found.map(|group| Json(group.into())).ok_or_else(|| {
        Problem::from(ErrorCode::GroupNotFound.with(format!("queue `{queue}` has no group `{group}`")))
            .detail("queue", &queue)
            .detail("group", group)
    })
}

/// List the groups of a queue
#[utoipa::path(
    get, path = "/api/v1/queues/{queue}/groups", tag = "groups", params(("queue" = String, Path, description = "Its name")),
    responses((status = 200, description = "Groups, by name", body = Groups))
)]
pub(crate) async fn list(Session(mut session): Session, Path(queue): Path<String>) -> Result<Json<Groups>, Problem> {
    let groups = groups_of(&mut session, queue).await?;
    Ok(Json(Groups { groups: groups.into_iter().map(Group::from).collect() }))
}

/// Look at a group
#[utoipa::path(
    get, path = "/api/v1/queues/{queue}/groups/{group}", tag = "groups",
    params(("queue" = String, Path, description = "The queue"), ("group" = String, Path, description = "Its name")),
    responses((status = 200, description = "The group", body = Group))
)]
pub(crate) async fn info(Session(mut session): Session, Path((queue, group)): Path<(String, String)>) -> Result<Json<Group>, Problem> {
    group_of(&mut session, queue, &group).await
}

/// Make a group
///
/// A group comes into being by its first consumer too; this makes it before, so that it misses nothing.
#[utoipa::path(
    put, path = "/api/v1/queues/{queue}/groups/{group}", tag = "groups",
    params(("queue" = String, Path, description = "The queue"), ("group" = String, Path, description = "Its name")),
    request_body = NewGroup,
    responses((status = 200, description = "The group", body = Group))
)]
pub(crate) async fn create(
    Session(mut session): Session,
    Path((queue, group)): Path<(String, String)>,
    JsonBody(new): JsonBody<NewGroup>,
) -> Result<Json<Group>, Problem> {
    let start_at = new.from.as_deref().map(start_at::parse).transpose()?;
    let request = wire::GroupRequest { queue: queue.clone(), group: group.clone(), start_at };
    let _: wire::Done = session.ask(Opcode::GroupCreate, &request).await?;
    group_of(&mut session, queue, &group).await
}

/// Delete a group
#[utoipa::path(
    delete, path = "/api/v1/queues/{queue}/groups/{group}", tag = "groups",
    params(("queue" = String, Path, description = "The queue"), ("group" = String, Path, description = "Its name")),
    responses((status = 204, description = "It is gone"))
)]
pub(crate) async fn delete(Session(mut session): Session, Path((queue, group)): Path<(String, String)>) -> Result<StatusCode, Problem> {
    let request = wire::GroupRequest { queue, group, start_at: None };
    let _: wire::Done = session.ask(Opcode::GroupDelete, &request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Move a group
///
/// It goes on from there; its leases, attempts and ordering keys end.
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/groups/{group}/seek", tag = "groups",
    params(("queue" = String, Path, description = "The queue"), ("group" = String, Path, description = "Its name")),
    request_body = SeekTo,
    responses((status = 200, description = "The group", body = Group))
)]
pub(crate) async fn seek(
    Session(mut session): Session,
    Path((queue, group)): Path<(String, String)>,
    JsonBody(to): JsonBody<SeekTo>,
) -> Result<Json<Group>, Problem> {
    let start_at = Some(start_at::parse(&to.from)?);
    let request = wire::GroupRequest { queue: queue.clone(), group: group.clone(), start_at };
    let _: wire::Done = session.ask(Opcode::Seek, &request).await?;
    group_of(&mut session, queue, &group).await
}

/// Settle everything up to an offset
#[utoipa::path(
    post, path = "/api/v1/queues/{queue}/groups/{group}/commit", tag = "groups",
    params(("queue" = String, Path, description = "The stream"), ("group" = String, Path, description = "Its name")),
    request_body = Commit,
    responses((status = 200, description = "The group", body = Group))
)]
pub(crate) async fn commit(
    Session(mut session): Session,
    Path((queue, group)): Path<(String, String)>,
    JsonBody(commit): JsonBody<Commit>,
) -> Result<Json<Group>, Problem> {
    let request = wire::CommitOffset { queue: queue.clone(), group: group.clone(), offset: commit.offset };
    let _: wire::Done = session.ask(Opcode::CommitOffset, &request).await?;
    group_of(&mut session, queue, &group).await
}
