//! When a node may ask for votes: only while a majority of the voters say that they would vote for it (Raft's pre-vote), which they do when
//! they hear no leader and have no more than it.
//!
//! Without the first, a node that was cut off would raise its term again and again, and depose a leader that everybody else follows once it is
//! back. Without the second, a node that cannot win would raise its term again and again, and vote for itself each time, just before the one
//! that can asks it: openraft refuses a candidate with less without taking over its term, so the two would go on like that in step. It takes
//! nothing from safety, which is Raft's, and no time from an election: followers wait longer than this takes.
//!
//! A candidate that has not won rests for a time of its own, another one each time, and longer each time: openraft 0.9 draws a node's
//! election timeout once for all; two nodes that drew the same would ask for each other's vote in every term at the same moment, and split
//! it for ever. It also waits for two seconds more when a node that it cannot win over has more (a leader that nobody hears), so that the
//! rest must become longer than that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openraft::{AsyncRuntime, ServerState};
use tokio::sync::mpsc;

use super::healing;
use super::link::Standing;
use super::log::{Log, chain};
use super::raft::{Address, ELECTION_MAX, HEARTBEAT, LogId, Raft};
use super::runtime::{Runtime, now, part_of};
use crate::files::Files;

/// How long others may take to say whether they would vote for this node; nobody waits for those that a majority does without.
const PATIENCE: Duration = ELECTION_MAX;

/// How long a candidate that has not won rests at most, times the campaigns that it has lost so far: longer than an election timeout, or the
/// rest would part nobody.
const REST_MAX: Duration = ELECTION_MAX.saturating_mul(2);

/// So many lost campaigns count: enough for a rest that is longer than openraft's longest wait, which is three times [`ELECTION_MAX`].
const LOST_MAX: u32 = 3;

/// How long a leader's disk may hang before it lets others lead.
const DISK_PATIENCE: Duration = Duration::from_secs(3);

/// Whether this node has heard a leader of late.
pub(crate) fn hears(standing: &Standing) -> bool {
    standing.heard().is_some_and(|heard| now().saturating_duration_since(heard) < ELECTION_MAX)
}

/// Allows and forbids campaigns for as long as it is polled. `asked` asks another node whether it would vote for this one, whose log
/// ends so; `None`: it does not answer.
pub(crate) async fn watch<F: Files, A>(
    raft: &openraft::Raft<Raft>,
    log: &Log<F>,
    standing: &Standing,
    asked: impl Fn(u64, Address, Option<LogId>) -> A,
) where
    A: Future<Output = Option<bool>> + Send + 'static,
{
    let mut lonely_since: Option<Instant> = None;
    let mut rest = Rest::default();
    let mut disk = Disk::default();
    let mut hung = false;
    loop {
        if let Err(error) = healing::look(log).await {
            tracing::warn!(error = %chain(&error), "the node does not get over its healing");
        }
        // A leader that writes nothing any more keeps the others from electing one that does, so it falls silent.
        let hangs = disk.hangs(log);
        if hangs != hung {
            if hangs {
                tracing::warn!("this node's disk hangs: nothing was synced for {DISK_PATIENCE:?}; it does not lead before that changes");
            } else {
                tracing::info!("this node's disk goes on");
            }
            // Only then: whoever hands over falls silent, too.
            raft.runtime_config().heartbeat(!hangs);
            hung = hangs;
        }
        let allowed = if hangs || log.is_healing() {
            false
        } else if hears(standing) {
            lonely_since = None;
            rest = Rest::default();
            false
        } else {
            if lonely_since.is_none() && raft.metrics().borrow().state == ServerState::Follower {
                lonely_since = Some(now());
                tracing::info!("this node hears no leader; it asks the others whether they would vote for it");
            }
            rest.is_over(raft) && is_wanted(raft, log, &asked).await
        };
        raft.runtime_config().elect(allowed);
        Runtime::sleep(HEARTBEAT).await;
    }
}

/// Whether what is written gets to the disk.
#[derive(Default)]
struct Disk {
    synced: Option<LogId>,
    /// Since when there has been more than that, and none of it was synced.
    waits_since: Option<Instant>,
}

impl Disk {
    fn hangs<F: Files>(&mut self, log: &Log<F>) -> bool {
        let last = log.last();
        let synced = log.at_most_synced(last);
        if synced == last || synced != self.synced {
            *self = Disk { synced, waits_since: None };
        }
        synced != last && now().saturating_duration_since(*self.waits_since.get_or_insert_with(now)) > DISK_PATIENCE
    }
}

/// The time between two campaigns.
#[derive(Default)]
struct Rest {
    /// The term of the last campaign that was seen.
    term: u64,
    /// Campaigns since a leader was heard.
    campaigns: u32,
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
            let campaigns = self.campaigns.saturating_add(1);
            *self = Rest { term, campaigns, until: Some(now() + part_of(REST_MAX * campaigns.min(LOST_MAX))) };
        }
        self.until.is_none_or(|until| now() >= until)
    }
}

/// Whether a majority would vote for this node.
async fn is_wanted<F: Files, A>(raft: &openraft::Raft<Raft>, log: &Log<F>, asked: &impl Fn(u64, Address, Option<LogId>) -> A) -> bool
where
    A: Future<Output = Option<bool>> + Send + 'static,
{
    let membership = Arc::clone(&raft.metrics().borrow().membership_config);
    let membership = membership.membership();
    let (own, last) = (log.points().node_id, log.last());
    let (says, mut answers) = mpsc::unbounded_channel();
    for id in membership.voter_ids().filter(|id| *id != own) {
        let Some(address) = membership.get_node(&id) else { continue };
        let (answer, says) = (asked(id, address.clone(), last), says.clone());
        // All at once; each ends by itself.
        Runtime::spawn(async move {
            if let Ok(Some(true)) = Runtime::timeout(PATIENCE, answer).await {
                // Enough others may have answered already.
                let _ = says.send(id);
            }
        });
    }
    drop(says);
    let mut willing = BTreeSet::from([own]);
    loop {
        let is_quorum = |voters: &BTreeSet<u64>| voters.intersection(&willing).count() > voters.len() / 2;
        if membership.get_joint_config().iter().all(is_quorum) {
            return true;
        }
        match answers.recv().await {
            Some(id) => willing.insert(id),
            None => return false,
        };
    }
}
