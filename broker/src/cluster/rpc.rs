//! What a node adds to Raft's requests on either side, whatever they travel on: what is committed only where it is synced, the lease, and
//! no votes of a node that has lost its log.

use std::sync::atomic::Ordering;
use std::time::Instant;

use openraft::error::{Fatal, RaftError};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};

use super::lease::Lease;
use super::link::Standing;
use super::log::{Log, LogError};
use super::raft::{LogId, Raft};
use super::runtime::now;
use super::{campaign, healing};
use crate::files::Files;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RpcError {
    #[error(transparent)]
    Append(#[from] RaftError<u64>),
    #[error(transparent)]
    Raft(#[from] Fatal<u64>),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What a leader may tell others to be committed: what it has not synced is not, whatever Raft thinks. See `log.rs`.
pub(crate) fn committed<F: Files>(log: &Log<F>, commit: Option<LogId>) -> Option<LogId> {
    log.at_most_synced(commit)
}

/// A follower has answered a request that was sent at `sent` in `term`.
pub(crate) fn appended(lease: &Lease, term: u64, follower: u64, sent: Instant, response: &AppendEntriesResponse<u64>) {
    if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
        lease.answered(term, follower, sent);
    }
}

/// A leader's request is here.
pub(crate) async fn append<F: Files>(
    raft: &openraft::Raft<Raft>,
    log: &Log<F>,
    standing: &Standing,
    request: AppendEntriesRequest<Raft>,
) -> Result<AppendEntriesResponse<u64>, RpcError> {
    let (vote, commit) = (request.vote, request.leader_commit);
    let response = raft.append_entries(request).await?;
    if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
        standing.hear();
    }
    healing::heard(log, vote, commit).await?;
    Ok(response)
}

/// Whether this node hears a leader, or is one that a quorum follows.
pub(crate) fn hears_a_leader(standing: &Standing, lease: &Lease) -> bool {
    let leads = standing.led.load(Ordering::Acquire);
    leads > 0 && lease.holds(leads, now()) || campaign::hears(standing)
}

/// A candidate's request is here.
pub(crate) async fn vote<F: Files>(
    raft: &openraft::Raft<Raft>,
    log: &Log<F>,
    request: VoteRequest<u64>,
) -> Result<VoteResponse<u64>, RpcError> {
    if log.is_healing() {
        // It may have lost what it had promised to keep, see `healing.rs`.
        let vote = raft.metrics().borrow().vote;
        return Ok(VoteResponse::new(vote, log.last(), false));
    }
    Ok(raft.vote(request).await?)
}
