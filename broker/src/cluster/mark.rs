//! The cluster's own row in the store: which entry of the log the store includes, and who the members are as of it. Written with every
//! checkpoint, in its transaction.

use serde::{Deserialize, Serialize};

use super::raft::{LogId, StoredMembership};
use crate::store::{RowChange, Snapshot, Store, StoreError};

/// The row's key. The core's rows begin with other letters.
pub(crate) const KEY: &[u8] = b"C";

/// Whether a row is the cluster's, and not the core's.
pub(crate) fn is_own(key: &[u8]) -> bool {
    key == KEY
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) last: Option<LogId>,
    pub(crate) membership: StoredMembership,
}

impl Mark {
    pub(crate) fn row(&self) -> RowChange {
        RowChange::Put { key: KEY.to_vec(), value: serde_json::to_vec(self).expect("numbers and text") }
    }

    /// The mark of a store; `None`: it is no member's.
    pub(crate) fn of(store: &Store) -> Result<Option<Mark>, StoreError> {
        Mark::of_snapshot(&store.snapshot()?)
    }

    pub(crate) fn of_snapshot(snapshot: &Snapshot) -> Result<Option<Mark>, StoreError> {
        let mut found = None;
        snapshot.rows(KEY, 1, &mut |key, value| {
            if is_own(key) {
                found = Some(serde_json::from_slice(value));
            }
        })?;
        let found = found.transpose();
        found.map_err(|source| StoreError::UnreadableRow { key: KEY.to_vec(), source: source.into() })
    }
}
