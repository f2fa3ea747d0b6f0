//! What a node adds to Raft's requests on either side, whatever they travel on: what is committed only where it is synced, the lease, and
//! no votes of a node that has lost its log.

use std::sync::atomic::Ordering;
use std::time::Instant;

use openraft::error::{Fatal, RaftError};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};

use super::lease::Lease;
use super::link::Standing;
use super::log::{Log, LogError, next};
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
    #[error("the entries do not follow the one before them")]
    Gap,
}

/// What a leader may tell others to be committed: what it has not synced is not, whatever Raft thinks. See `log.rs`.
pub(crate) fn committed<F: Files>(log: &Log<F>, commit: Option<LogId>) -> Option<LogId> {
    log.at_most_synced(commit)
}

/// Whether a request's entries follow the one before them without a gap. Raft promises it; but a leader that could not read its log has been
/// seen to send others, and whoever took them would lose what it had (openraft issue 1795).
pub(crate) fn is_whole(request: &AppendEntriesRequest<Raft>) -> bool {
    let indexes = next(request.prev_log_id)..;
    request.entries.iter().zip(indexes).all(|(entry, index)| entry.log_id.index == index)
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
    if !is_whole(&request) {
        return Err(RpcError::Gap);
    }
    let (vote, commit) = (request.vote, request.leader_commit);
    let response = raft.append_entries(request).await?;
    if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
        standing.hear();
        // Not of one that was deposed: what it knows to be committed is not all that is.
        healing::heard(log, vote, commit).await?;
    }
    Ok(response)
}

/// Whether this node would vote for another one, whose log ends with `last`: it hears no leader, is none that a quorum follows, and has no
/// more than that node.
pub(crate) fn pre_vote<F: Files>(log: &Log<F>, standing: &Standing, lease: &Lease, last: Option<LogId>) -> bool {
    !serves(standing, lease) && !campaign::hears(standing) && !log.is_healing() && last >= log.last()
}

/// Whether this node leads, and a quorum has said so of late.
fn serves(standing: &Standing, lease: &Lease) -> bool {
    let leads = standing.led.load(Ordering::Acquire);
    leads > 0 && lease.holds(leads, now())
}

/// A candidate's request is here.
pub(crate) async fn vote<F: Files>(
    raft: &openraft::Raft<Raft>,
    log: &Log<F>,
    standing: &Standing,
    lease: &Lease,
    request: VoteRequest<u64>,
) -> Result<VoteResponse<u64>, RpcError> {
    // A node that heals may have lost what it had promised to keep, see `healing.rs`. One that serves goes on doing so; Raft would have it
    // vote for somebody else from a second after its election on, since it counts from there.
    if log.is_healing() || serves(standing, lease) {
        let vote = raft.metrics().borrow().vote;
        return Ok(VoteResponse::new(vote, log.last(), false));
    }
    Ok(raft.vote(request).await?)
}

#[cfg(test)]
mod tests {
    use openraft::{EntryPayload, Vote};

    use super::super::raft::Entry;
    use super::super::record::log_id;
    use super::*;

    #[test]
    fn a_request_whose_entries_do_not_follow_is_neither_sent_nor_taken() {
        let request = |prev: Option<u64>, indexes: &[u64]| AppendEntriesRequest::<Raft> {
            vote: Vote::new_committed(3, 1),
            prev_log_id: prev.map(|index| log_id(2, index + 1)),
            entries: indexes.iter().map(|index| Entry { log_id: log_id(3, index + 1), payload: EntryPayload::Blank }).collect(),
            leader_commit: None,
        };
        assert!(is_whole(&request(None, &[])));
        assert!(is_whole(&request(None, &[0, 1])));
        assert!(is_whole(&request(Some(6), &[7, 8, 9])));
        // What was seen: the entries of a node that is far behind, as if there were none before them.
        assert!(!is_whole(&request(None, &[7, 8, 9])));
        assert!(!is_whole(&request(Some(6), &[8, 9])));
        assert!(!is_whole(&request(Some(6), &[7, 9])));
        assert!(!is_whole(&request(Some(6), &[6, 7])));
    }
}
