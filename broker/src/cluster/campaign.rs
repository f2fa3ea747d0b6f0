//! When a node may ask for votes: only while a majority of the voters can be reached and none of those hears a leader.
//!
//! Without this, a node that was cut off would raise its term again and again, and depose a leader that everybody else follows once it is
//! back. It takes nothing from safety, which is Raft's, and no time from an election: followers wait longer than this takes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openraft::ServerState;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::healing;
use super::link::Standing;
use super::log::{Log, chain};
use super::network::{Identity, hears_a_leader};
use super::raft::{ELECTION_MAX, HEARTBEAT, Raft};
use crate::files::DiskFiles;

/// How long others may take to say whether they hear a leader.
const PATIENCE: Duration = HEARTBEAT.saturating_mul(2);

/// Whether this node hears a leader, or is one that a quorum follows.
pub(crate) fn hears(standing: &Standing) -> bool {
    standing.heard().is_some_and(|heard| heard.elapsed() < ELECTION_MAX)
}

/// Allows and forbids campaigns for as long as it is polled.
pub(crate) async fn watch(raft: &openraft::Raft<Raft>, identity: &Arc<Identity>, log: &Log<DiskFiles>, standing: &Standing) {
    let mut lonely_since: Option<Instant> = None;
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
                lonely_since = Some(Instant::now());
                tracing::info!("this node hears no leader; it asks the others whether they do");
            }
            is_wanted(raft, identity, log).await
        };
        raft.runtime_config().elect(allowed);
        sleep(HEARTBEAT).await;
    }
}

/// Whether a majority, this node included, hears no leader.
async fn is_wanted(raft: &openraft::Raft<Raft>, identity: &Arc<Identity>, log: &Log<DiskFiles>) -> bool {
    let membership = Arc::clone(&raft.metrics().borrow().membership_config);
    let membership = membership.membership();
    let own = identity.node_id;
    let mut asked = JoinSet::new();
    for id in membership.voter_ids().filter(|id| *id != own) {
        let Some(address) = membership.get_node(&id).map(|node| node.raft.clone()) else { continue };
        let (identity, cluster) = (Arc::clone(identity), log.points().cluster_id);
        asked.spawn(async move {
            let answer = timeout(PATIENCE, hears_a_leader(&identity, cluster, id, &address)).await;
            matches!(answer, Ok(Ok(false))).then_some(id)
        });
    }
    let mut lonely = BTreeSet::from([own]);
    while let Some(answer) = asked.join_next().await {
        lonely.extend(answer.ok().flatten());
    }
    let is_quorum = |voters: &BTreeSet<u64>| voters.intersection(&lonely).count() > voters.len() / 2;
    membership.get_joint_config().iter().all(is_quorum)
}
