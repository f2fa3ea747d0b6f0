//! The shard as Raft's state machine: what is committed goes into its queue, and its checkpoints are the snapshots.

use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, SnapshotMeta, StorageIOError};

use super::committed::{Committed, Content, Queue};
use super::log::{Log, LogError, Synced, next};
use super::mark::Mark;
use super::raft::{Entry, Image, LogId, Raft, StorageError, StoredMembership};
use crate::files::Files;
use crate::store::{Store, StoreError};

type Snapshot = openraft::Snapshot<Raft>;

/// The state machine's end of the queue to the shard.
pub(crate) struct Machine<F: Files> {
    log: Log<F>,
    queue: Arc<Queue>,
    store: Arc<Store>,
}

impl<F: Files> Machine<F> {
    pub(crate) fn new(log: Log<F>, queue: Arc<Queue>, store: Arc<Store>) -> Machine<F> {
        Machine { log, queue, store }
    }

    /// Waits until everything up to `log_id` is on this node's disk.
    async fn synced(&self, log_id: LogId) -> Result<(), StorageError> {
        let mut synced = self.log.synced();
        let reached = synced.wait_for(|synced| match synced {
            Synced::Through(last) => *last >= Some(log_id),
            Synced::Failed => true,
        });
        match reached.await.map(|synced| *synced) {
            Ok(Synced::Through(_)) => Ok(()),
            Ok(Synced::Failed) | Err(_) => Err(StorageIOError::apply(log_id, &LogError::Stopped).into()),
        }
    }
}

/// The store as of its last checkpoint.
fn snapshot(store: &Store) -> Result<Snapshot, StoreError> {
    let view = store.snapshot()?;
    let mark = Mark::of_snapshot(&view)?.unwrap_or_default();
    let snapshot_id = mark.last.map(|last| last.to_string()).unwrap_or_default();
    let meta = SnapshotMeta { last_log_id: mark.last, last_membership: mark.membership, snapshot_id };
    Ok(Snapshot { meta, snapshot: Box::new(Image(view)) })
}

fn on_read(error: &StoreError) -> StorageError {
    StorageIOError::read_state_machine(error).into()
}

impl<F: Files> RaftStateMachine<Raft> for Machine<F> {
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        let mark = Mark::of(&self.store).map_err(|error| on_read(&error))?.unwrap_or_default();
        Ok((mark.last, mark.membership))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<()>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let Some(last) = entries.last().map(|entry| entry.log_id) else { return Ok(Vec::new()) };
        self.synced(last).await?;
        let replies = vec![(); entries.len()];
        let item = |entry: Entry| {
            let log_id = entry.log_id;
            let content = match entry.payload {
                EntryPayload::Blank => Content::Blank,
                EntryPayload::Membership(membership) => Content::Membership(StoredMembership::new(Some(log_id), membership)),
                EntryPayload::Normal(turn) => {
                    let position = *turn.position.get().expect("what is synced has its place");
                    Content::Turn(turn.bytes, position)
                }
            };
            Committed { log_id, content }
        };
        self.queue.push(entries.into_iter().map(item).collect()).await;
        self.log.applied(next(Some(last)));
        Ok(replies)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder { store: Arc::clone(&self.store) }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Image>, StorageError> {
        Err(StorageIOError::write_snapshot(None, &Elsewhere).into())
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta<u64, super::raft::Address>, _: Box<Image>) -> Result<(), StorageError> {
        Err(StorageIOError::write_snapshot(Some(meta.signature()), &Elsewhere).into())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let snapshot = snapshot(&self.store).map_err(|error| on_read(&error))?;
        Ok(Some(snapshot).filter(|snapshot| snapshot.meta.last_log_id.is_some()))
    }
}

/// Openraft is never handed a snapshot.
#[derive(Debug, thiserror::Error)]
#[error("snapshots are taken in by `network/` and the start that follows")]
struct Elsewhere;

/// Says what the last checkpoint holds.
pub(crate) struct Builder {
    store: Arc<Store>,
}

impl RaftSnapshotBuilder<Raft> for Builder {
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        snapshot(&self.store).map_err(|error| on_read(&error))
    }
}
