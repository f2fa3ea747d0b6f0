//! What openraft is told about this program: its types, and the timeouts that failover is made of.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use openraft::{Config, SnapshotPolicy};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::runtime::Runtime;
use crate::journal::Position;
use crate::store::Snapshot;

openraft::declare_raft_types!(
    /// The types of the cluster's Raft.
    pub(crate) Raft:
        D = Turn,
        R = (),
        NodeId = u64,
        Node = Address,
        SnapshotData = Image,
        AsyncRuntime = Runtime,
);

pub(crate) type Entry = openraft::Entry<Raft>;
pub(crate) type LogId = openraft::LogId<u64>;
pub(crate) type Membership = openraft::Membership<u64, Address>;
pub(crate) type Metrics = openraft::RaftMetrics<u64, Address>;
pub(crate) type StorageError = openraft::StorageError<u64>;
pub(crate) type StoredMembership = openraft::StoredMembership<u64, Address>;
pub(crate) type Vote = openraft::Vote<u64>;

/// How often a leader shows that it lives. A request to another node may take as long.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(150);

/// What a follower waits at least, after its leader's lease, before it asks for votes.
pub(crate) const ELECTION_MIN: Duration = Duration::from_millis(500);

/// What it waits at most; also how long it keeps its vote for a leader that it has heard of.
pub(crate) const ELECTION_MAX: Duration = Duration::from_millis(1_000);

/// How long a leader serves without hearing of a quorum: less than followers keep their votes for it, by what two clocks may differ.
pub(crate) const LEASE: Duration = Duration::from_millis(800);

/// Openraft's settings.
pub(crate) fn config(cluster: &str) -> Config {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).expect("a second or less");
    let config = Config {
        cluster_name: cluster.to_owned(),
        heartbeat_interval: millis(HEARTBEAT),
        election_timeout_min: millis(ELECTION_MIN),
        election_timeout_max: millis(ELECTION_MAX),
        max_payload_entries: 1_024,
        // Checkpoints are the snapshots, and they say what may be purged.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        replication_lag_threshold: u64::MAX,
        // `campaign.rs` says when.
        enable_elect: false,
        ..Config::default()
    };
    config.validate().expect("the constants above fit together")
}

/// Where a node is reached. It says so itself; see `network/`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    /// By other nodes.
    pub(crate) raft: String,
    /// By clients.
    pub(crate) client: String,
    /// Over HTTP.
    pub(crate) http: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raft)
    }
}

/// What the shard proposes: the entries of one of its turns, as `shard/turn.rs` writes them.
#[derive(Clone, Default)]
pub(crate) struct Turn {
    pub(crate) bytes: Bytes,
    /// Where `bytes` begin in this node's journal, once they are there.
    pub(crate) position: Arc<OnceLock<Position>>,
}

impl Turn {
    pub(crate) fn new(bytes: Bytes) -> Turn {
        Turn { bytes, position: Arc::default() }
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Turn) -> bool {
        self.bytes == other.bytes
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn of {} bytes", self.bytes.len())
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Openraft wants this of all its types; turns travel and are stored as they are, see `record.rs`.
impl Serialize for Turn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.bytes)
    }
}

impl<'de> Deserialize<'de> for Turn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Turn, D::Error> {
        Vec::deserialize(deserializer).map(|bytes| Turn::new(Bytes::from(bytes)))
    }
}

/// A snapshot: the store as of its last checkpoint. See `image.rs` for how it travels.
pub(crate) struct Image(pub(crate) Snapshot);

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("image")
    }
}
