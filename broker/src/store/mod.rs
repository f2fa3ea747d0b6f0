//! The store: what must outlive the journal, in LMDB.
//!
//! It holds the core's rows, which it does not understand, and the messages that were still
//! there at a checkpoint. It knows nothing of queues beyond their ids, of consumers or of time,
//! and it alone names heed. Durability comes from the journal; a checkpoint only moves what it
//! holds here, so that its segments can be recycled.
//! Read on in `environment.rs` (what is on disk) and `checkpoint.rs` (how it gets there).

mod block;
mod checkpoint;
mod checkpointer;
mod dir_lock;
mod environment;
mod error;
mod message_key;
mod payloads;
mod reader;
mod removal;
mod room;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

pub use qwerq_core::RowChange;

pub use crate::journal::Applied;

pub use self::checkpoint::{Checkpoint, Checkpointed, MessageRun, RemovedRun};
pub use self::checkpointer::{CheckpointPending, Checkpointer, WhenDone};
pub use self::error::StoreError;
pub use self::message_key::MessageKey;
pub use self::payloads::{Location, Payloads};
pub use self::reader::{Snapshot, StoreReader};
pub use self::room::Room;

use self::environment::Environment;

/// How to open a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOptions {
    /// What the store may grow to, in bytes, a multiple of the page size. Address space is
    /// reserved for it, the file stays as small as its contents.
    pub map_bytes: usize,
    /// Bytes of messages that a checkpoint writes in one durable transaction, which holds them
    /// in memory until it commits.
    pub chunk_bytes: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { map_bytes: 1 << 40, chunk_bytes: 1 << 20 }
    }
}

/// One shard's store. Holds the data directory's lock until it and its readers are dropped.
#[derive(Debug)]
pub struct Store {
    environment: Arc<Environment>,
    chunk_bytes: usize,
}

impl Store {
    /// Opens the store in `dir`, which is created if there is none, and removes what a
    /// checkpoint that never ended has left.
    ///
    /// # Errors
    /// When another process has the directory, when it cannot be written, when a newer program
    /// wrote it, or when LMDB fails.
    pub fn open(dir: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let environment = Environment::open(dir, options.map_bytes)?;
        let mut txn = environment.write()?;
        if checkpoint::sweep_unfinished(&environment, &mut txn)? {
            txn.commit().map_err(|error| environment.fail(error))?;
            tracing::info!(dir = %dir.display(), "removed what an unfinished checkpoint had left");
        } else {
            txn.abort();
        }
        Ok(Self { environment: Arc::new(environment), chunk_bytes: options.chunk_bytes })
    }

    /// The directory that the store is in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.environment.dir()
    }

    /// Made at creation; the journal's segments carry it too, so that they cannot be mixed up.
    #[must_use]
    pub fn store_id(&self) -> [u8; 16] {
        self.environment.store_id()
    }

    /// The last journal entry that the store includes.
    ///
    /// # Errors
    /// When the record of it is corrupt.
    pub fn applied(&self) -> Result<Applied, StoreError> {
        let txn = self.environment.read()?;
        self.environment.applied(&txn)
    }

    /// Gives `each` all rows in key order, once at start.
    ///
    /// # Errors
    /// When a row fails its checksum, when `each` refuses one, or when LMDB fails.
    pub fn load<E>(&self, mut each: impl FnMut(&[u8], &[u8]) -> Result<(), E>) -> Result<(), StoreError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let txn = self.environment.read()?;
        reader::scan_rows(&self.environment, &txn, &[], |key, value| {
            each(key, value).map(|()| true).map_err(|reason| StoreError::UnreadableRow { key: key.to_owned(), source: reason.into() })
        })
    }

    /// Writes a checkpoint; on return it is durable. It blocks for as long as the disk takes: run
    /// it on a [`Checkpointer`].
    ///
    /// # Errors
    /// When a payload cannot be read, when space runs out, or when LMDB fails. The store is then
    /// as before the call, but the generation is not saved: the process must end.
    pub fn checkpoint(&self, checkpoint: Checkpoint, payloads: &dyn Payloads) -> Result<Checkpointed, StoreError> {
        checkpoint::write(&self.environment, checkpoint, payloads, self.chunk_bytes)
    }

    /// A reader for other threads.
    #[must_use]
    pub fn reader(&self) -> StoreReader {
        StoreReader { environment: Arc::clone(&self.environment) }
    }

    /// Everything as of now, see [`Snapshot`].
    ///
    /// # Errors
    /// When LMDB fails.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Snapshot::new(Arc::clone(&self.environment))
    }

    /// How much the store can still take. Costs a few system calls.
    ///
    /// # Errors
    /// When the disk cannot be asked, or LMDB fails.
    pub fn room(&self) -> Result<Room, StoreError> {
        Room::measure(&self.environment)
    }
}
