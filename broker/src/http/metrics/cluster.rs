//! The families of a node of a cluster; a broker that runs alone has none of them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::cluster::{Cluster, ClusterStatus, Role};

use super::page::{Page, seconds_of_ms};

/// Changes of leadership, as far as looks at the status show them: one that comes and goes between two scrapes still raises the term.
#[derive(Debug, Default)]
pub(crate) struct Leaders {
    /// One more than the term that was last seen with a leader; 0: none was.
    seen_term: AtomicU64,
    changes: AtomicU64,
}

impl Leaders {
    /// Looks at the status and gives how often leadership has changed since the start.
    fn changes(&self, status: &ClusterStatus) -> u64 {
        if status.leader.is_some() {
            let before = self.seen_term.swap(status.term + 1, Ordering::Relaxed);
            if before != 0 && before != status.term + 1 {
                return self.changes.fetch_add(1, Ordering::Relaxed) + 1;
            }
        }
        self.changes.load(Ordering::Relaxed)
    }
}

/// All of them.
pub(super) fn families(page: &mut Page, cluster: &Cluster, leaders: &Leaders) {
    let status = cluster.status();
    page.gauge("qwerq_cluster_is_leader", "1: this node leads.", u64::from(status.role == Role::Leader));
    page.gauge("qwerq_cluster_has_leader", "1: this node knows who leads.", u64::from(status.leader.is_some()));
    page.gauge("qwerq_cluster_healing", "1: this node has lost files and does not vote until it has caught up.", u64::from(status.healing));
    page.gauge("qwerq_cluster_term", "Term of the cluster, as this node knows it.", status.term);
    page.family("qwerq_cluster_leader_changes_total", "counter", "Terms with a new leader that scrapes of this node have seen.");
    page.sample("qwerq_cluster_leader_changes_total", &[], leaders.changes(&status));
    let voters = status.members.iter().filter(|member| member.voter).count();
    page.family("qwerq_cluster_members", "gauge", "Nodes of the cluster, by whether they vote.");
    page.sample("qwerq_cluster_members", &[("voter", "true")], voters);
    page.sample("qwerq_cluster_members", &[("voter", "false")], status.members.len() - voters);
    page.gauge("qwerq_cluster_last_log_index", "Last entry of this node's log.", status.last_log_index);
    page.gauge("qwerq_cluster_committed_index", "Last entry that this node knows to be committed.", status.committed_index);
    page.gauge("qwerq_cluster_applied_index", "Last entry that this node has applied.", status.applied_index);
    page.gauge("qwerq_cluster_snapshot_index", "Last entry that this node's store includes.", status.snapshot_index);
    page.gauge("qwerq_cluster_purged_index", "Last entry that this node's log has dropped.", status.purged_index);
    page.family("qwerq_cluster_replication_lag", "gauge", "Entries that a node is behind the leader's log; only the leader says.");
    for member in &status.members {
        if let Some(lag) = member.lag {
            page.sample("qwerq_cluster_replication_lag", &[("node", &member.id.to_string())], lag);
        }
    }
    page.family("qwerq_cluster_last_contact_seconds", "gauge", "Time since a node last answered the leader; only the leader says.");
    for member in &status.members {
        if let Some(ms) = member.last_contact_ms {
            page.sample("qwerq_cluster_last_contact_seconds", &[("node", &member.id.to_string())], seconds_of_ms(ms));
        }
    }
}
