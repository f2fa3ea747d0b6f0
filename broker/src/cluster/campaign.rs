//! When a node may ask for votes: only while a majority of the voters can be reached and none of those hears a leader.
//!
//! Without this, a node that was cut off would raise its term again and again, and depose a leader that everybody else follows once it is
//! back. It takes nothing from safety, which is Raft's, and no time from an election: followers wait longer than this takes.
//!
//! A candidate that has not won rests for a time of its own, another one each time. Openraft 0.9 draws a node's election timeout once for
//! all; two nodes that drew the same would ask for each other's vote in every term at the same moment, and split it for ever.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openraft::{AsyncRuntime, ServerState};

use super::healing;
use super::link::Standing;
use super::log::{Log, chain};
use super::raft::{Address, ELECTION_MAX, HEARTBEAT, Raft};
use super::runtime::{Runtime, now, part_of};
use crate::files::Files;

/// How long others may take to say whether they hear a leader.
const PATIENCE: Duration = HEARTBEAT.saturating_mul(2);

/// How long a candidate that has not won rests at most: longer than any election timeout, or the rest would part nobody.
const REST_MAX: Duration = ELECTION_MAX.saturating_mul(2);

/// Whether this node has heard a leader of late.
pub(crate) fn hears(standing: &Standing) -> bool {
    standing.heard().is_some_and(|heard| now().saturating_duration_since(heard) < ELECTION_MAX)
}

/// Allows and forbids campaigns for as long as it is polled. `asked` asks another node whether it hears a leader; `None`: it does not answer.
pub(crate) async fn watch<F: Files, A>(raft: &openraft::Raft<Raft>, log: &Log<F>, standing: &Standing, asked: impl Fn(u64, Address) -> A)
where
    A: Future<Output = Option<bool>> + Send + 'static,
{
    let mut lonely_since: Option<Instant> = None;
    let mut rest = Rest::default();
    loop {
        if let Err(error) = healing::look(log).await {
            tracing::warn!(error = %chain(&error), "the node does not get over its healing");
        }
        let allowed = if log.is_healing() {
            false
        } else if hears(standing) {
            lonely_since = None;
            false
        } else {
            if lonely_since.is_none() && raft.metrics().borrow().state == ServerState::Follower {
                lonely_since = Some(now());
                tracing::info!("this node hears no leader; it asks the others whether they do");
            }
            rest.is_over(raft) && is_wanted(raft, log.points().node_id, &asked).await
        };
        raft.runtime_config().elect(allowed);
        Runtime::sleep(HEARTBEAT).await;
    }
}

/// The time between two campaigns.
#[derive(Default)]
struct Rest {
    /// The term of the last campaign that was seen.
    term: u64,
    until: Option<Instant>,
}

impl Rest {
    fn is_over(&mut self, raft: &openraft::Raft<Raft>) -> bool {
        let (state, term) = {
            let metrics = raft.metrics();
            let metrics = metrics.borrow();
            (metrics.state, metrics.current_term)
        };
        if state == ServerState::Candidate && term > self.term {
            *self = Rest { term, until: Some(now() + part_of(REST_MAX)) };
        }
        self.until.is_none_or(|until| now() >= until)
    }
}

/// Whether a majority, this node included, hears no leader.
async fn is_wanted<A>(raft: &openraft::Raft<Raft>, own: u64, asked: &impl Fn(u64, Address) -> A) -> bool
where
    A: Future<Output = Option<bool>> + Send + 'static,
{
    let membership = Arc::clone(&raft.metrics().borrow().membership_config);
    let membership = membership.membership();
    let others = membership.voter_ids().filter(|id| *id != own).filter_map(|id| {
        let answer = asked(id, membership.get_node(&id)?.clone());
        // All at once; each ends by itself.
        Some(Runtime::spawn(async move { (id, Runtime::timeout(PATIENCE, answer).await) }))
    });
    let mut lonely = BTreeSet::from([own]);
    for other in others.collect::<Vec<_>>() {
        if let Ok((id, Ok(Some(false)))) = other.await {
            lonely.insert(id);
        }
    }
    let is_quorum = |voters: &BTreeSet<u64>| voters.intersection(&lonely).count() > voters.len() / 2;
    membership.get_joint_config().iter().all(is_quorum)
}
