//! `RaftStateMachine` over the store: what Raft applies is a checkpoint, durable on return.
//!
//! Commands, the last applied entry and the membership are rows. The current snapshot is one file beside the
//! store; it also finishes an installation that a crash cut short.

use std::io::{self, Cursor};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use openraft::storage::RaftStateMachine;
use openraft::{
    BasicNode, Entry, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, SnapshotMeta, StorageError, StorageIOError, StoredMembership,
};
use qwerq_broker::files::DiskFiles;
use qwerq_broker::store::{Applied, Checkpoint, RowChange, Snapshot, Store, StoreError, StoreOptions};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::image::Image;
use crate::log::{Types, journal_index};
use crate::whole_file;

/// Rows of the commands, by this and the entry's index, big-endian.
const COMMAND: &[u8] = b"command/";
/// The row of the last applied entry's id.
const APPLIED: &[u8] = b"raft/applied";
/// The row of the membership as of that entry.
const MEMBERSHIP: &[u8] = b"raft/membership";

/// The file of the current snapshot.
const SNAPSHOT: &str = "snapshot";

type Membership = StoredMembership<u64, BasicNode>;

/// Clones are the same machine.
#[derive(Clone)]
pub(crate) struct StateMachine {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    store: Store,
    files: DiskFiles,
}

/// A snapshot as it is kept; `image` alone travels.
#[derive(Serialize, Deserialize)]
struct Current {
    meta: SnapshotMeta<u64, BasicNode>,
    image: Image,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StateMachineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

type Result<T, E = StateMachineError> = std::result::Result<T, E>;

fn on_write(error: impl Into<StateMachineError>) -> StorageError<u64> {
    StorageIOError::write_state_machine(&error.into()).into()
}

fn on_read(error: impl Into<StateMachineError>) -> StorageError<u64> {
    StorageIOError::read_state_machine(&error.into()).into()
}

impl StateMachine {
    pub(crate) fn open(path: &Path) -> Result<StateMachine> {
        let files = DiskFiles::open(path)?;
        let store = Store::open(&path.join("store"), StoreOptions::default())?;
        let inner = Inner { store, files };
        // A snapshot is kept before it is installed, and made only of what is in the store.
        if let Some(current) = inner.current()?
            && current.meta.last_log_id > applied_state(&inner.store.snapshot()?)?.0
        {
            current.install(&inner.store)?;
        }
        Ok(StateMachine { inner: Arc::new(Mutex::new(inner)) })
    }

    /// All that the store holds.
    pub(crate) fn image(&self) -> Image {
        Image::of(&self.inner().store.snapshot().unwrap()).unwrap()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    fn build(&self) -> Result<Current> {
        // Not between the two halves of an installation, hence the lock; entries may be applied while we read.
        let view = self.inner().store.snapshot()?;
        let current = Current::of(&view)?;
        self.inner().keep(&current)?;
        Ok(current)
    }
}

impl Inner {
    fn apply(&self, entries: impl Iterator<Item = Entry<Types>>) -> Result<Vec<String>> {
        let mut checkpoint = Checkpoint { applied: self.store.applied()?, ..Checkpoint::default() };
        let mut replies = Vec::new();
        for entry in entries {
            let id = entry.log_id;
            let reply = match entry.payload {
                EntryPayload::Blank => String::new(),
                EntryPayload::Normal(command) => {
                    let key = [COMMAND, &id.index.to_be_bytes()].concat();
                    checkpoint.rows.push(RowChange::Put { key, value: command.clone().into_bytes() });
                    command
                }
                EntryPayload::Membership(membership) => {
                    checkpoint.rows.push(put_json(MEMBERSHIP, &Membership::new(Some(id), membership))?);
                    String::new()
                }
            };
            checkpoint.rows.push(put_json(APPLIED, &id)?);
            checkpoint.applied = reached(Some(id));
            replies.push(reply);
        }
        // It adds no messages, so no payload is asked for.
        self.store.checkpoint(checkpoint, &Image::default())?;
        Ok(replies)
    }

    fn current(&self) -> Result<Option<Current>> {
        let bytes = whole_file::read(&self.files, SNAPSHOT)?;
        Ok(bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose()?)
    }

    /// Makes this the current snapshot, unless a newer one is.
    fn keep(&self, snapshot: &Current) -> Result<()> {
        if self.current()?.is_none_or(|current| current.meta.last_log_id <= snapshot.meta.last_log_id) {
            whole_file::replace(&self.files, SNAPSHOT, &serde_json::to_vec(snapshot)?)?;
        }
        Ok(())
    }
}

impl Current {
    fn of(view: &Snapshot) -> Result<Current> {
        let (last_log_id, last_membership) = applied_state(view)?;
        // One state has one snapshot, and so one id.
        let snapshot_id = last_log_id.map_or("empty".into(), |id| id.to_string());
        let meta = SnapshotMeta { last_log_id, last_membership, snapshot_id };
        Ok(Current { meta, image: Image::of(view)? })
    }

    fn install(&self, store: &Store) -> Result<()> {
        Ok(self.image.install(store, reached(self.meta.last_log_id))?)
    }

    fn to_raft(&self) -> Result<openraft::Snapshot<Types>> {
        let bytes = serde_json::to_vec(&self.image)?;
        Ok(openraft::Snapshot { meta: self.meta.clone(), snapshot: Box::new(Cursor::new(bytes)) })
    }
}

/// What the store records; Raft hands over entries, not records, so there is no checksum to name.
fn reached(applied: Option<LogId<u64>>) -> Applied {
    applied.map_or(Applied::default(), |id| Applied { term: id.leader_id.term, index: journal_index(id.index), crc: 0 })
}

fn put_json(key: &[u8], value: &impl Serialize) -> Result<RowChange> {
    Ok(RowChange::Put { key: key.to_vec(), value: serde_json::to_vec(value)? })
}

fn json_row<T: DeserializeOwned>(view: &Snapshot, wanted: &[u8]) -> Result<Option<T>> {
    let mut row = None;
    view.rows(wanted, 1, &mut |key, value| row = (key == wanted).then(|| value.to_vec()))?;
    Ok(row.map(|value| serde_json::from_slice(&value)).transpose()?)
}

fn applied_state(view: &Snapshot) -> Result<(Option<LogId<u64>>, Membership)> {
    Ok((json_row(view, APPLIED)?, json_row(view, MEMBERSHIP)?.unwrap_or_default()))
}

impl RaftSnapshotBuilder<Types> for StateMachine {
    async fn build_snapshot(&mut self) -> Result<openraft::Snapshot<Types>, StorageError<u64>> {
        self.build().and_then(|current| current.to_raft()).map_err(on_read)
    }
}

impl RaftStateMachine<Types> for StateMachine {
    type SnapshotBuilder = StateMachine;

    async fn applied_state(&mut self) -> Result<(Option<LogId<u64>>, Membership), StorageError<u64>> {
        let view = self.inner().store.snapshot().map_err(on_read)?;
        applied_state(&view).map_err(on_read)
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<String>, StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.inner().apply(entries.into_iter()).map_err(on_write)
    }

    async fn get_snapshot_builder(&mut self) -> StateMachine {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError<u64>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, BasicNode>,
        received: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError<u64>> {
        let image = serde_json::from_slice(received.get_ref()).map_err(on_read)?;
        let snapshot = Current { meta: meta.clone(), image };
        let inner = self.inner();
        inner.keep(&snapshot).and_then(|()| snapshot.install(&inner.store)).map_err(on_write)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<openraft::Snapshot<Types>>, StorageError<u64>> {
        let current = self.inner().current().map_err(on_read)?;
        current.map(|current| current.to_raft()).transpose().map_err(on_read)
    }
}
