//! The cluster's status, changes and errors as messages of the protocol, and back.

use qwerq_proto::{ErrorCode, wire};

use super::{Change, Cluster, ClusterError, ClusterStatus, Member};

impl ClusterStatus {
    /// CLUSTER_STATUS_RESPONSE.
    pub(crate) fn to_wire(&self) -> wire::ClusterStatusResponse {
        wire::ClusterStatusResponse {
            cluster_id: self.cluster_id.clone(),
            node_id: self.node_id,
            role: self.role.name().to_owned(),
            term: self.term,
            leader: self.leader,
            last_log_index: self.last_log_index,
            committed_index: self.committed_index,
            applied_index: self.applied_index,
            snapshot_index: self.snapshot_index,
            purged_index: self.purged_index,
            healing: self.healing,
            members: self.members.iter().map(Member::to_wire).collect(),
        }
    }
}

impl Member {
    fn to_wire(&self) -> wire::ClusterMember {
        wire::ClusterMember {
            id: self.id,
            raft_address: self.raft_address.clone(),
            client_address: self.client_address.clone(),
            http_address: self.http_address.clone(),
            voter: self.voter,
            role: self.role.map_or_else(String::new, |role| role.name().to_owned()),
            matched_index: self.matched_index,
            lag: self.lag,
            last_contact_ms: self.last_contact_ms,
        }
    }
}

impl Cluster {
    /// Carries a change out; it may take as long as a node needs to copy everything.
    ///
    /// # Errors
    /// What whoever asked is told.
    pub(crate) async fn apply(&self, change: Change) -> Result<(), wire::Error> {
        let changed = match change {
            Change::Add { id, raft_address } => self.add(id, raft_address).await,
            Change::Remove { id } => self.remove(id).await,
            Change::Transfer { id } => self.transfer(id).await,
        };
        changed.map_err(wire::Error::from)
    }
}

/// Reads CLUSTER_CHANGE.
///
/// # Errors
/// `invalid-argument` when it says nothing that can be done.
pub(crate) fn change(change: wire::ClusterChange) -> Result<Change, wire::Error> {
    use wire::cluster_change::Change as Wire;
    match change.change {
        Some(Wire::Add(node)) => add(node.id, node.raft_address),
        Some(Wire::Remove(id)) => Ok(Change::Remove { id }),
        Some(Wire::Transfer(id)) => Ok(Change::Transfer { id }),
        None => Err(ErrorCode::InvalidArgument.with("CLUSTER_CHANGE says neither add nor remove nor transfer")),
    }
}

/// Taking a node up, its number and address judged by their form.
///
/// # Errors
/// `invalid-argument`
pub(crate) fn add(id: u64, raft_address: String) -> Result<Change, wire::Error> {
    if id == 0 {
        return Err(ErrorCode::InvalidArgument.with("node ids begin with 1; say the --cluster-node-id that the node was started with"));
    }
    let has_port =
        raft_address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0));
    if !has_port {
        let text = format!("`{raft_address}` is no HOST:PORT; say where the node listens for other nodes, such as 10.0.0.4:9878");
        return Err(ErrorCode::InvalidArgument.with(text));
    }
    Ok(Change::Add { id, raft_address })
}

/// What a broker without a cluster answers to all of it.
pub(crate) fn runs_alone() -> wire::Error {
    ErrorCode::Unsupported.with("this broker runs alone; start it with --cluster-node-id, see docs/clustering.md")
}

impl From<ClusterError> for wire::Error {
    fn from(error: ClusterError) -> wire::Error {
        match error {
            ClusterError::NotLeader(error) => *error,
            ClusterError::Refused(text) => ErrorCode::InvalidArgument.with(text),
            ClusterError::Unfinished(text) => ErrorCode::Timeout.with(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_judged_by_its_form_before_anybody_is_asked() {
        let add = |id, address: &str| {
            let node = wire::ClusterNode { id, raft_address: address.to_owned() };
            change(wire::ClusterChange { change: Some(wire::cluster_change::Change::Add(node)) })
        };
        assert_eq!(add(4, "[::1]:9878").unwrap(), Change::Add { id: 4, raft_address: "[::1]:9878".to_owned() });
        for (id, address) in [(0, "a:1"), (4, ""), (4, "a"), (4, ":1"), (4, "a:0"), (4, "a:99999")] {
            assert_eq!(add(id, address).unwrap_err().known_code(), Some(ErrorCode::InvalidArgument), "{id} {address}");
        }
        assert!(change(wire::ClusterChange::default()).is_err());
    }
}
