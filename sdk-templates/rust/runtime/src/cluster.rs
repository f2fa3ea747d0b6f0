//! Questions about a broker's cluster, and its changes: one method each, over the broker's own messages.

use qwerq_proto::wire::cluster_change::Change;
use qwerq_proto::{Opcode, wire};

use crate::client::Client;
use crate::error::Error;
use crate::request::Repeat;

pub use qwerq_proto::wire::{ClusterMember, ClusterStatusResponse as ClusterStatus};

impl Client {
    /// How the cluster looks to the node that this client is connected to: the leader, or any with [`crate::ClientBuilder::any_node`].
    ///
    /// # Errors
    /// `unsupported` when the broker runs alone; see [`Error`].
    pub async fn cluster_status(&self) -> Result<ClusterStatus, Error> {
        self.request(Opcode::ClusterStatus, &wire::ClusterStatus {}, Opcode::ClusterStatusResponse, Repeat::Safe).await
    }

    /// Takes up a node that was started with that id and listens for other nodes at that `host:port`. Returns when it has copied what there
    /// is and votes; asking again goes on where it was left.
    ///
    /// # Errors
    /// `invalid-argument` when the node cannot be taken up, `timeout` when it has not caught up; see [`Error`].
    pub async fn add_node(&self, id: u64, raft_address: &str) -> Result<(), Error> {
        self.change(Change::Add(wire::ClusterNode { id, raft_address: raft_address.to_owned() })).await
    }

    /// Lets a node go, which may be dead.
    ///
    /// # Errors
    /// `invalid-argument` when it cannot be let go; see [`Error`].
    pub async fn remove_node(&self, id: u64) -> Result<(), Error> {
        self.change(Change::Remove(id)).await
    }

    /// Has another node lead. Returns when it does.
    ///
    /// # Errors
    /// `invalid-argument` when it cannot lead, `timeout` when it does not; see [`Error`].
    pub async fn transfer_leadership(&self, id: u64) -> Result<(), Error> {
        self.change(Change::Transfer(id)).await
    }

    /// The leader that carries a change out may not lead at its end, so that another one is asked again.
    async fn change(&self, change: Change) -> Result<(), Error> {
        self.command(Opcode::ClusterChange, &wire::ClusterChange { change: Some(change) }, Repeat::Safe).await
    }
}
