//! Openraft's own storage suite over the real log and the real state machine. The shard's part is played here: it takes what is committed
//! and writes a checkpoint of each entry. Taking a snapshot in is played as `network/` and `home.rs` do it, without the sockets.

use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::testing::{StoreBuilder, Suite};
use openraft::{OptionalSend, SnapshotMeta};
use tempfile::TempDir;

use super::super::committed::{Content, Queue};
use super::super::image::{self, Incoming};
use super::super::log::Log;
use super::super::machine::{Builder, Machine};
use super::super::mark::Mark;
use super::super::raft::{Address, Entry, Image, LogId, Raft, StorageError, StoredMembership};
use super::super::record::journal_index;
use super::{home, open_log};
use crate::files::DiskFiles;
use crate::store::{Applied, Checkpoint, Location, Payloads, Store, StoreOptions};

struct Adapters;

/// The real state machine, and a shard that is always there.
struct Played {
    machine: Machine<DiskFiles>,
    log: Log<DiskFiles>,
    queue: Arc<Queue>,
    store: Arc<Store>,
    mark: Mark,
    directory: TempDir,
    installed: u32,
}

impl Played {
    fn new(log: Log<DiskFiles>, store: Arc<Store>, directory: TempDir) -> Played {
        let queue = Queue::new(|| ());
        let machine = Machine::new(log.clone(), Arc::clone(&queue), Arc::clone(&store));
        Played { machine, log, queue, store, mark: Mark::default(), directory, installed: 0 }
    }

    fn checkpoint(&self) {
        let last = self.mark.last.unwrap();
        let applied = Applied { term: last.leader_id.term, index: journal_index(last.index), crc: 0 };
        let checkpoint = Checkpoint { rows: vec![self.mark.row()], applied, ..Checkpoint::default() };
        self.store.checkpoint(checkpoint, &Nothing).unwrap();
    }
}

struct Nothing;

impl Payloads for Nothing {
    fn read(&self, _: Location, _: &mut Vec<u8>) -> std::io::Result<()> {
        unreachable!("there are no messages")
    }
}

impl RaftStateMachine<Raft> for Played {
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        self.machine.applied_state().await
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<()>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        // The suite applies what it has not appended.
        if let Some(last) = entries.last() {
            self.log.pretend_synced(last.log_id);
        }
        let replies = self.machine.apply(entries).await?;
        while let Some(committed) = self.queue.take() {
            self.mark.last = Some(committed.log_id);
            if let Content::Membership(membership) = committed.content {
                self.mark.membership = membership;
            }
        }
        self.checkpoint();
        Ok(replies)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        self.machine.get_snapshot_builder().await
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Image>, StorageError> {
        Ok(Box::new(Image(self.store.snapshot().unwrap())))
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta<u64, Address>, snapshot: Box<Image>) -> Result<(), StorageError> {
        self.installed += 1;
        let path = self.directory.path().join(format!("installed-{}", self.installed));
        std::fs::create_dir(&path).unwrap();
        let mut incoming = Incoming::begin(&path).unwrap();
        let mut chunks = image::read(*snapshot);
        while let Some(chunk) = chunks.recv().await {
            incoming.add(&chunk.unwrap()).unwrap();
        }
        let last = meta.last_log_id.unwrap();
        incoming.finish(Applied { term: last.leader_id.term, index: journal_index(last.index), crc: 0 }).unwrap();
        self.store = Arc::new(Store::open(&path, StoreOptions::default()).unwrap());
        self.mark = Mark::of(&self.store).unwrap().unwrap();
        self.machine = Machine::new(self.log.clone(), Arc::clone(&self.queue), Arc::clone(&self.store));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<openraft::Snapshot<Raft>>, StorageError> {
        self.machine.get_current_snapshot().await
    }
}

impl StoreBuilder<Raft, Log<DiskFiles>, Played, TempDir> for Adapters {
    async fn build(&self) -> Result<(TempDir, Log<DiskFiles>, Played), StorageError> {
        let (log_home, store_home) = (home(), home());
        let log = open_log(log_home.path());
        let store = store_home.path().join("store");
        let store = Arc::new(Store::open(&store, StoreOptions::default()).unwrap());
        Ok((log_home, log.clone(), Played::new(log, store, store_home)))
    }
}

#[test]
fn openrafts_storage_suite_passes_over_the_journal_and_the_store() {
    Suite::test_all(Adapters).unwrap();
}
