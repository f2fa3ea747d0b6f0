//! /api/v1/cluster: the nodes of a cluster, and its changes. Every node answers the question; changes are the leader's.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::cluster::{self, Change, Cluster, ClusterStatus, Member, Role};
use crate::http::HttpState;
use crate::http::extract::{JsonBody, Path};
use crate::http::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(status))
}

/// Those that wait for a node to catch up, or to lead.
pub(super) fn patient_routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(add)).routes(routes!(remove)).routes(routes!(transfer))
}

/// The cluster as the node sees it that answers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cluster)]
pub(crate) struct ClusterBody {
    /// Made at the cluster's bootstrap; null on a node that no cluster has taken up yet.
    cluster_id: Option<String>,
    /// The node that answers.
    #[schema(example = 1)]
    node_id: u64,
    /// What it does: `leader`, `follower`, `candidate` or `learner`.
    #[schema(example = "leader")]
    role: &'static str,
    term: u64,
    /// Who leads, as far as the node knows.
    leader: Option<u64>,
    /// The last entry of its log.
    last_log_index: u64,
    /// The last entry that it knows to be committed.
    committed_index: u64,
    /// The last entry that it has applied.
    applied_index: u64,
    /// The last entry that its store includes.
    snapshot_index: u64,
    /// The last entry that its log has dropped.
    purged_index: u64,
    /// It has lost files, and neither votes nor campaigns until it has caught up.
    healing: bool,
    members: Vec<MemberBody>,
}

/// A node of the cluster.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClusterMember)]
pub(crate) struct MemberBody {
    id: u64,
    /// Where other nodes reach it.
    #[schema(example = "10.0.0.1:9878")]
    raft_address: String,
    /// Where clients reach it; null while that is not known.
    client_address: Option<String>,
    /// Where HTTP reaches it; null while that is not known.
    http_address: Option<String>,
    voter: bool,
    /// What it does, as far as the node that answers can tell.
    role: Option<&'static str>,
    /// The last entry that it is known to have; only the leader knows.
    matched_index: Option<u64>,
    /// Entries that it is behind the leader's log; only the leader knows.
    lag: Option<u64>,
    /// How long ago it last answered the leader; only the leader knows.
    last_contact_ms: Option<u64>,
}

/// A node to take up.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMember {
    /// The number that it was started with.
    #[schema(example = 4, minimum = 1)]
    id: u64,
    /// Where it listens for other nodes.
    #[schema(example = "10.0.0.4:9878")]
    raft_address: String,
}

/// Who is to lead.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transfer {
    /// The node's number.
    #[schema(example = 2, minimum = 1)]
    id: u64,
}

impl From<ClusterStatus> for ClusterBody {
    fn from(status: ClusterStatus) -> ClusterBody {
        let leader = status.leader;
        ClusterBody {
            cluster_id: known(status.cluster_id),
            node_id: status.node_id,
            role: status.role.name(),
            term: status.term,
            leader,
            last_log_index: status.last_log_index,
            committed_index: status.committed_index,
            applied_index: status.applied_index,
            snapshot_index: status.snapshot_index,
            purged_index: status.purged_index,
            healing: status.healing,
            members: status.members.into_iter().map(|member| MemberBody::new(member, leader)).collect(),
        }
    }
}

impl MemberBody {
    fn new(member: Member, leader: Option<u64>) -> MemberBody {
        MemberBody {
            role: role_of(&member, leader).map(Role::name),
            id: member.id,
            raft_address: member.raft_address,
            client_address: known(member.client_address),
            http_address: known(member.http_address),
            voter: member.voter,
            matched_index: member.matched_index,
            lag: member.lag,
            last_contact_ms: member.last_contact_ms,
        }
    }
}

/// What a member does: what the node knows of it, or what follows from the membership.
pub(crate) fn role_of(member: &Member, leader: Option<u64>) -> Option<Role> {
    let follows = match leader == Some(member.id) {
        true => Some(Role::Leader),
        false => (!member.voter).then_some(Role::Learner),
    };
    member.role.or(follows)
}

fn known(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Who leads, and how far behind the others are
#[utoipa::path(
    get, path = "/api/v1/cluster", tag = "operation",
    responses((status = 200, description = "The cluster as this node sees it; 404: it runs alone", body = ClusterBody))
)]
pub(crate) async fn status(State(state): State<HttpState>) -> Result<Json<ClusterBody>, Problem> {
    Ok(Json(of(&state)?.status().into()))
}

/// Takes up a node: it copies what there is, then it votes
#[utoipa::path(
    post, path = "/api/v1/cluster/members", tag = "operation", request_body = NewMember,
    responses((status = 204, description = "It is a voting member"))
)]
pub(crate) async fn add(State(state): State<HttpState>, JsonBody(new): JsonBody<NewMember>) -> Result<StatusCode, Problem> {
    let cluster = of(&state)?;
    carry_out(cluster, cluster::add(new.id, new.raft_address)?).await
}

/// Lets a node go, dead or alive
#[utoipa::path(
    delete, path = "/api/v1/cluster/members/{id}", tag = "operation", params(("id" = u64, Path, description = "The node's number", minimum = 1)),
    responses((status = 204, description = "It is no member any more"))
)]
pub(crate) async fn remove(State(state): State<HttpState>, Path(id): Path<u64>) -> Result<StatusCode, Problem> {
    carry_out(of(&state)?, Change::Remove { id }).await
}

/// Has another node lead
#[utoipa::path(
    post, path = "/api/v1/cluster/transfer", tag = "operation", request_body = Transfer,
    responses((status = 204, description = "It leads"))
)]
pub(crate) async fn transfer(State(state): State<HttpState>, JsonBody(to): JsonBody<Transfer>) -> Result<StatusCode, Problem> {
    carry_out(of(&state)?, Change::Transfer { id: to.id }).await
}

fn of(state: &HttpState) -> Result<&Cluster, Problem> {
    state.broker.cluster.as_ref().ok_or_else(|| Problem::from(cluster::runs_alone()).with_status(StatusCode::NOT_FOUND))
}

async fn carry_out(cluster: &Cluster, change: Change) -> Result<StatusCode, Problem> {
    cluster.apply(change).await?;
    Ok(StatusCode::NO_CONTENT)
}
