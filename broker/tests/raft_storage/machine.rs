//! A state machine in memory: the commands that it was given, and where it stands.

use std::io::Cursor;
use std::sync::{Arc, Mutex, MutexGuard};

use openraft::storage::RaftStateMachine;
use openraft::{
    BasicNode, Entry, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, Snapshot, SnapshotMeta, StorageError, StorageIOError,
    StoredMembership,
};
use serde::{Deserialize, Serialize};

use crate::log::Types;

/// Clones are the same machine.
#[derive(Clone, Default)]
pub(crate) struct Machine {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    state: State,
    snapshots: u64,
    current: Option<(SnapshotMeta<u64, BasicNode>, Vec<u8>)>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct State {
    applied: Option<LogId<u64>>,
    membership: StoredMembership<u64, BasicNode>,
    commands: Vec<String>,
}

impl Machine {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

fn snapshot((meta, bytes): &(SnapshotMeta<u64, BasicNode>, Vec<u8>)) -> Snapshot<Types> {
    Snapshot { meta: meta.clone(), snapshot: Box::new(Cursor::new(bytes.clone())) }
}

impl RaftSnapshotBuilder<Types> for Machine {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, StorageError<u64>> {
        let mut inner = self.inner();
        inner.snapshots += 1;
        let meta = SnapshotMeta {
            last_log_id: inner.state.applied,
            last_membership: inner.state.membership.clone(),
            snapshot_id: format!("snapshot {}", inner.snapshots),
        };
        let bytes = serde_json::to_vec(&inner.state).map_err(|error| StorageIOError::write(&error))?;
        Ok(snapshot(inner.current.insert((meta, bytes))))
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Machine;

    async fn applied_state(&mut self) -> Result<(Option<LogId<u64>>, StoredMembership<u64, BasicNode>), StorageError<u64>> {
        let inner = self.inner();
        Ok((inner.state.applied, inner.state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<String>, StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut inner = self.inner();
        let state = &mut inner.state;
        let replies = entries.into_iter().map(|entry| {
            state.applied = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => String::new(),
                EntryPayload::Normal(command) => {
                    state.commands.push(command.clone());
                    command
                }
                EntryPayload::Membership(membership) => {
                    state.membership = StoredMembership::new(Some(entry.log_id), membership);
                    String::new()
                }
            }
        });
        Ok(replies.collect())
    }

    async fn get_snapshot_builder(&mut self) -> Machine {
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
        let bytes = received.into_inner();
        let commands = serde_json::from_slice::<State>(&bytes).map_err(|error| StorageIOError::read(&error))?.commands;
        let mut inner = self.inner();
        inner.state = State { applied: meta.last_log_id, membership: meta.last_membership.clone(), commands };
        inner.current = Some((meta.clone(), bytes));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, StorageError<u64>> {
        Ok(self.inner().current.as_ref().map(snapshot))
    }
}
