//! Why a shard stops. Nothing of the batch at hand is acknowledged, the process logs and exits non-zero.

use crate::journal::JournalError;
use crate::store::StoreError;

/// A failure that the broker cannot go on from.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The journal failed.
    #[error("the journal failed")]
    Journal(#[from] JournalError),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// A message that the state knows of is nowhere.
    #[error("message {seq} of queue number {queue} is neither in the journal nor in the store; restore the data directory from a copy")]
    MissingMessage {
        /// The queue's number.
        queue: u32,
        /// The message's sequence.
        seq: u64,
    },
    /// A stored contract does not compile any more.
    #[error("the stored contract of queue `{queue}`, version {version}, does not compile: {reason}")]
    Contract {
        /// The queue.
        queue: String,
        /// The version.
        version: u32,
        /// What the compiler says.
        reason: String,
    },
    /// The system refused something.
    #[error("{action} failed")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The cluster's log or its network failed.
    #[error("this node's part of the cluster failed; the log says how")]
    Cluster,
    /// A committed entry does not decode.
    #[error("entry {index} of the cluster's log does not decode; a newer version may have written it: run the same version on all nodes")]
    Unreadable {
        /// Its index.
        index: u64,
    },
    /// The shard cannot start anew on the files that it has got from the cluster.
    #[error("the node cannot start from the snapshot that it has got")]
    Restart(#[source] Box<super::StartError>),
    /// This node does not lead any more. The shard takes care of that itself; nobody else sees it.
    #[error("this node does not lead any more")]
    Deposed,
}
