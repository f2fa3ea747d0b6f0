//! [`StoreError`]: what can go wrong with the store, named so that an operator can act.
//!
//! All of these are faults: the shard that meets one while it runs logs it and exits. Refusing
//! publishes before space runs out is [`Room`](super::Room)'s job.

use std::io;
use std::path::PathBuf;

use super::{Location, MessageKey};

/// Why the store could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the data directory open.
    #[error("the data directory {path} is in use by {holder}; stop it, or choose another --data-dir", path = path.display())]
    InUse {
        /// The data directory.
        path: PathBuf,
        /// The process that holds it, as far as it can be known.
        holder: String,
    },
    /// This user may not write to the data directory.
    #[error("uid {uid} cannot write to {path} ({source}); make that user its owner (chown -R {uid} {path}), or choose another --data-dir", path = path.display())]
    NotWritable {
        /// The file or directory that cannot be written.
        path: PathBuf,
        /// The user that this process runs as.
        uid: u32,
        /// What the system said.
        source: io::Error,
    },
    /// A newer program wrote this store.
    #[error("the store in {path} has format {found}, this program knows up to {supported}; start the newer version again", path = path.display())]
    NewerFormat {
        /// The data directory.
        path: PathBuf,
        /// The format found there.
        found: u32,
        /// The newest format that this program reads.
        supported: u32,
    },
    /// A stored message fails its checksum.
    #[error("{0} is corrupt in the store; restore the data directory from a backup")]
    CorruptMessage(MessageKey),
    /// A stored row fails its checksum.
    #[error("the row {} is corrupt in the store's table {table}; restore the data directory from a backup", hex(key))]
    CorruptRow {
        /// The table.
        table: &'static str,
        /// The row's key.
        key: Vec<u8>,
    },
    /// The caller of [`load`](super::Store::load) could not read a row.
    #[error("the row {} of the store cannot be read: {source}", hex(key))]
    UnreadableRow {
        /// The row's key.
        key: Vec<u8>,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The map or the disk has no space left.
    #[error("no space left for the store in {path}: {detail}; free some disk space, then start again", path = path.display())]
    Full {
        /// The data directory.
        path: PathBuf,
        /// Which limit was met.
        detail: String,
    },
    /// A payload could not be read from the journal.
    #[error("cannot read {len} bytes at offset {offset} of journal segment {segment}: {source}", len = location.len, offset = location.offset, segment = location.segment)]
    Payload {
        /// What was to be read.
        location: Location,
        /// What the journal said.
        source: io::Error,
    },
    /// A file operation outside LMDB failed.
    #[error("cannot {action} {path}: {source}; see to that path, or choose another --data-dir", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// LMDB failed.
    #[error("the store in {path} failed: {message}", path = path.display())]
    Lmdb {
        /// The data directory.
        path: PathBuf,
        /// What LMDB said.
        message: String,
    },
}

impl StoreError {
    /// Whether what is stored is damaged, and not just out of reach.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            StoreError::CorruptMessage(_) | StoreError::CorruptRow { .. } | StoreError::UnreadableRow { .. } => true,
            // LMDB's own words for a file that does not hold together.
            StoreError::Lmdb { message, .. } => {
                ["MDB_CORRUPTED", "MDB_INVALID", "MDB_PAGE_NOTFOUND", "MDB_VERSION_MISMATCH"].iter().any(|word| message.contains(word))
            }
            StoreError::InUse { .. }
            | StoreError::NotWritable { .. }
            | StoreError::NewerFormat { .. }
            | StoreError::Full { .. }
            | StoreError::Payload { .. }
            | StoreError::Io { .. } => false,
        }
    }
}

fn hex(key: &[u8]) -> String {
    use std::fmt::Write as _;
    key.iter().fold(String::from("0x"), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}
