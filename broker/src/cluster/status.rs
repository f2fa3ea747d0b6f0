//! What the rest of the broker sees of the cluster: its status as plain values, and [`Cluster`], the handle for asking and changing it.
//!
//! Nothing in here names Raft's types; the other side of the handle is `node.rs`. A test plays it with two closures' worth of code:
//! [`Cluster::new`] takes where the status comes from and where changes go.

use std::sync::Arc;
use std::time::Duration;

use qwerq_proto::{ErrorCode, wire};
use tokio::sync::{mpsc, oneshot};

/// The HELLO feature of those who want to speak to any node, about the cluster only.
pub(crate) const ANY_NODE: &str = "any-node";

/// When a client that no leader can be named to should ask again.
const LEADER_UNKNOWN_RETRY_MS: u64 = 250;

/// A node that answered the leader so short a time ago is alive.
const ALIVE: Duration = Duration::from_secs(1);

/// A leader that was not heard for so long is not named any more: it is gone, or this node is no member any more, which nobody tells it.
pub(crate) const LEADER_SILENT: Duration = Duration::from_secs(3);

/// What a node does in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It serves clients.
    Leader,
    /// It votes and keeps a copy.
    Follower,
    /// It asks for votes.
    Candidate,
    /// It keeps a copy without a vote.
    Learner,
}

impl Role {
    /// As users read it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Leader => "leader",
            Role::Follower => "follower",
            Role::Candidate => "candidate",
            Role::Learner => "learner",
        }
    }
}

/// The cluster as one node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterStatus {
    /// Made at the cluster's bootstrap; empty on a node that nobody has taken up yet.
    pub(crate) cluster_id: String,
    /// The node that answers.
    pub(crate) node_id: u64,
    /// What it does.
    pub(crate) role: Role,
    /// Raft's term.
    pub(crate) term: u64,
    /// Who leads, as far as this node has heard a short time ago.
    pub(crate) leader: Option<u64>,
    /// The last entry of this node's log.
    pub(crate) last_log_index: u64,
    /// The last entry that it knows to be committed.
    pub(crate) committed_index: u64,
    /// The last entry that it has applied.
    pub(crate) applied_index: u64,
    /// The last entry that its store includes.
    pub(crate) snapshot_index: u64,
    /// The last entry that is gone from its log.
    pub(crate) purged_index: u64,
    /// It has lost files and neither votes nor campaigns until it has caught up.
    pub(crate) healing: bool,
    /// All nodes, by id.
    pub(crate) members: Vec<Member>,
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its number.
    pub(crate) id: u64,
    /// Where other nodes reach it.
    pub(crate) raft_address: String,
    /// Where clients reach it; empty while that is not known.
    pub(crate) client_address: String,
    /// Where HTTP reaches it; empty while that is not known.
    pub(crate) http_address: String,
    /// Whether it votes.
    pub(crate) voter: bool,
    /// What it does, as far as the answering node can tell.
    pub(crate) role: Option<Role>,
    /// The last entry that it is known to have on its disk; only the leader knows.
    pub(crate) matched_index: Option<u64>,
    /// Entries that it is behind the leader's log; only the leader knows.
    pub(crate) lag: Option<u64>,
    /// How long ago it last answered the leader, or how long that leads, if it never did; only the leader knows.
    pub(crate) last_contact_ms: Option<u64>,
}

impl Member {
    /// Whether it has answered the leader, which asks, a short time ago.
    pub(crate) fn answers(&self) -> bool {
        self.last_contact_ms.is_some_and(|ago| Duration::from_millis(ago) <= ALIVE)
    }
}

impl ClusterStatus {
    /// The member that leads, if it is known.
    pub(crate) fn leading_member(&self) -> Option<&Member> {
        let leader = self.leader?;
        self.members.iter().find(|member| member.id == leader)
    }

    /// Who is to lead when this node, which does, goes: the voters that answer, those that are the least behind first.
    fn successors(&self) -> Vec<u64> {
        let others = self.members.iter().filter(|member| member.voter && member.id != self.node_id);
        let mut able: Vec<(u64, u64)> =
            others.filter(|member| member.answers()).filter_map(|member| Some((member.lag?, member.id))).collect();
        able.sort_unstable();
        able.into_iter().map(|(_, id)| id).collect()
    }

    /// The ERROR of a node that does not lead, with the leader's addresses as far as they are known.
    pub(crate) fn not_leader(&self) -> wire::Error {
        let leader = self.leading_member().filter(|member| member.id != self.node_id && !member.client_address.is_empty());
        let Some(leader) = leader else {
            if self.cluster_id.is_empty() {
                let text = format!(
                    "node {} waits for a cluster to take it up: `qwer-q cluster add {}=HOST:PORT` at the leader, unless it is one of its \
                     --cluster-peers",
                    self.node_id, self.node_id
                );
                return ErrorCode::NotLeader.with(text).retry_after_ms(LEADER_UNKNOWN_RETRY_MS);
            }
            let text = "no node of the cluster leads at the moment, as far as this one knows; try again, or another node";
            return ErrorCode::NotLeader.with(text).retry_after_ms(LEADER_UNKNOWN_RETRY_MS);
        };
        let text = format!("node {} leads; connect to {}", leader.id, leader.client_address);
        let error = ErrorCode::NotLeader.with(text).detail("leader", &leader.client_address);
        if leader.http_address.is_empty() { error } else { error.detail("leader_http", &leader.http_address) }
    }
}

/// A change of the cluster that an operator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// Takes up a node: it copies what there is, then it votes.
    Add {
        /// The number that it was started with.
        id: u64,
        /// Where it listens for other nodes.
        raft_address: String,
    },
    /// Lets a node go. It may be dead.
    Remove {
        /// Its number.
        id: u64,
    },
    /// Has another node lead.
    Transfer {
        /// Its number.
        id: u64,
    },
}

/// Why the cluster was not changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum ClusterError {
    /// Another node leads, or none.
    #[error("{}", .0.message)]
    NotLeader(Box<wire::Error>),
    /// The change makes no sense as things are; the text says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// It was begun and not finished in time; the text says how far it came and what to do.
    #[error("{0}")]
    Unfinished(String),
}

/// Where changes go: to the node's task, which answers each of them.
pub(crate) type Changes = mpsc::UnboundedSender<(Change, oneshot::Sender<Result<(), ClusterError>>)>;

/// The cluster, for whoever shows or changes it. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Cluster {
    status: Arc<dyn Fn() -> ClusterStatus + Send + Sync>,
    changes: Changes,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    /// A handle. `status` is called on any thread and does not block.
    pub(crate) fn new(status: impl Fn() -> ClusterStatus + Send + Sync + 'static, changes: Changes) -> Cluster {
        Cluster { status: Arc::new(status), changes }
    }

    /// How things are now, as this node sees them.
    pub(crate) fn status(&self) -> ClusterStatus {
        (self.status)()
    }

    /// Adds a node: as a learner first, which votes once it has caught up. Its addresses for clients are learnt from itself.
    ///
    /// # Errors
    /// [`ClusterError`]; adding a node again that is half added goes on where that was left.
    pub(crate) async fn add(&self, id: u64, raft_address: String) -> Result<(), ClusterError> {
        self.change(Change::Add { id, raft_address }).await
    }

    /// Removes a node, which may be dead.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub(crate) async fn remove(&self, id: u64) -> Result<(), ClusterError> {
        self.change(Change::Remove { id }).await
    }

    /// Hands leadership to a node; on return it leads.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub(crate) async fn transfer(&self, id: u64) -> Result<(), ClusterError> {
        self.change(Change::Transfer { id }).await
    }

    /// Has another node lead before this one stops, if this one leads and another can. Without it the others would notice only after a while.
    pub(crate) async fn hand_over(&self) {
        let status = self.status();
        if status.role != Role::Leader {
            return;
        }
        for successor in status.successors() {
            match self.transfer(successor).await {
                Ok(()) => return,
                // Nothing has happened yet; another one may take over.
                Err(ClusterError::Refused(reason)) => tracing::info!(node = successor, reason, "a node cannot take over"),
                Err(error) => return tracing::warn!(%error, "this node stops without having handed over"),
            }
        }
    }

    async fn change(&self, change: Change) -> Result<(), ClusterError> {
        let (answer, answered) = oneshot::channel();
        let stopping = || ClusterError::Unfinished("the node is stopping; ask another one".to_owned());
        self.changes.send((change, answer)).map_err(|_| stopping())?;
        answered.await.map_err(|_| stopping())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(leader: Option<u64>, http_address: &str) -> ClusterStatus {
        let member = |id| Member {
            id,
            raft_address: format!("node{id}:9878"),
            client_address: format!("node{id}:9876"),
            http_address: http_address.to_owned(),
            voter: true,
            role: None,
            matched_index: None,
            lag: None,
            last_contact_ms: None,
        };
        ClusterStatus {
            cluster_id: "c".to_owned(),
            node_id: 1,
            role: Role::Follower,
            term: 1,
            leader,
            last_log_index: 0,
            committed_index: 0,
            applied_index: 0,
            snapshot_index: 0,
            purged_index: 0,
            healing: false,
            members: vec![member(1), member(2)],
        }
    }

    #[test]
    fn a_node_that_does_not_lead_names_the_leader() {
        let error = status(Some(2), "node2:9877").not_leader();
        assert_eq!(error.known_code(), Some(ErrorCode::NotLeader));
        assert_eq!(error.details["leader"], "node2:9876");
        assert_eq!(error.details["leader_http"], "node2:9877");
        assert!(!status(Some(2), "").not_leader().details.contains_key("leader_http"));
    }

    #[test]
    fn those_that_are_the_least_behind_succeed_first_if_they_live() {
        let mut status = status(Some(1), "");
        let third = Member { id: 3, ..status.members[1].clone() };
        status.members.push(third);
        assert!(status.successors().is_empty(), "nobody is known to be alive");
        for (member, lag, contact) in [(1, 7, 20), (2, 3, 90)] {
            status.members[member].lag = Some(lag);
            status.members[member].last_contact_ms = Some(contact);
        }
        assert_eq!(status.successors(), [3, 2]);
        status.members[2].last_contact_ms = Some(1_001);
        assert_eq!(status.successors(), [2]);
        status.members[1].voter = false;
        assert!(status.successors().is_empty());
    }

    #[test]
    fn without_a_leader_clients_hear_when_to_ask_again() {
        let alone = ClusterStatus { cluster_id: String::new(), members: Vec::new(), ..status(None, "") };
        assert!(alone.not_leader().message.contains("`qwer-q cluster add 1=HOST:PORT`"));
        for leader in [None, Some(1), Some(9)] {
            let error = status(leader, "").not_leader();
            assert!(error.details.is_empty(), "{leader:?}");
            assert_ne!(error.retry_after_ms, 0, "{leader:?}");
        }
    }
}
