//! What can go wrong with the journal. All of it is a fault: the process stops, nothing is retried.
//!
//! Every error names the file, where in it, and what to do next. docs/errors/ explains them to operators.

use std::io;

/// What a replay callback may fail with.
pub type ReplayError = Box<dyn std::error::Error + Send + Sync>;

/// A journal that cannot go on, or that refuses to start.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refused a file operation. After a write or sync nothing of that batch may be acknowledged.
    #[error("{operation} {file}: {source}")]
    Io {
        /// Path of the file or directory.
        file: String,
        /// What was tried.
        operation: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// An earlier write or sync failed, so nothing is known about the end of the journal.
    #[error("an earlier write or sync of the journal failed; restart the broker to recover what is on disk")]
    Poisoned,
    /// A whole batch follows a broken one that was already on disk when it was written: not a torn tail.
    #[error(
        "{file} is corrupt at byte {offset}: {defect}, but {proof_file} holds a later write at byte {proof_offset} \
         that was made after this one was on disk. The {kept} records before it are whole and nothing was changed. \
         Check the disk, then restore the data directory from a copy or a replica"
    )]
    Corrupt {
        /// Path of the broken file.
        file: String,
        /// Where the first bad batch begins, in bytes.
        offset: u32,
        /// What is wrong there.
        defect: &'static str,
        /// Path of the file with the later write.
        proof_file: String,
        /// Where the later write begins, in bytes.
        proof_offset: u32,
        /// Index of the last whole record.
        kept: u64,
    },
    /// A structure that recovery needs contradicts the rest of the journal.
    #[error(
        "{file} does not belong where it is: {defect}. Nothing was changed. \
         Restore the data directory as a whole from a copy or a replica"
    )]
    Misplaced {
        /// Path of the file.
        file: String,
        /// What contradicts what.
        defect: String,
    },
    /// The segment was written for another store.
    #[error(
        "{file} belongs to another store ({found:032x}, this one is {expected:032x}): a journal and a store were \
         mixed. Put back the directory that belongs to this store"
    )]
    Foreign {
        /// Path of the file.
        file: String,
        /// The id in the file.
        found: u128,
        /// This store's id.
        expected: u128,
    },
    /// The segment was written by another format version.
    #[error("{file} has journal format {found}; this broker reads {expected}. Start the broker that wrote it")]
    Version {
        /// Path of the file.
        file: String,
        /// The version in the file.
        found: u32,
        /// The version that this build reads.
        expected: u32,
    },
    /// The store holds more than the journal does, or something else.
    #[error(
        "the store has applied records up to index {applied}, but the journal in {directory} {state}. \
         One of them was replaced or lost. Restore the data directory as a whole from a copy or a replica"
    )]
    Behind {
        /// Index that the store's checkpoint holds.
        applied: u64,
        /// Path of the journal.
        directory: String,
        /// What the journal holds instead.
        state: String,
    },
    /// The batch is larger than a segment.
    #[error("a batch of {bytes} bytes does not fit a journal segment ({capacity} bytes free when empty)")]
    TooLarge {
        /// Bytes of the batch.
        bytes: usize,
        /// The largest batch that fits.
        capacity: usize,
    },
    /// The position or index is not in the journal any more, or not yet.
    #[error("the journal does not hold {wanted} (it holds indexes {first} to {last})")]
    Absent {
        /// What was asked for.
        wanted: String,
        /// First index held.
        first: u64,
        /// Last index held.
        last: u64,
    },
    /// The callback refused a record of the replay.
    #[error("record {index} of the journal could not be replayed: {source}")]
    Replay {
        /// Index of the record.
        index: u64,
        /// What the callback said.
        source: ReplayError,
    },
}

impl JournalError {
    /// Whether what was written is damaged or lost, and not just out of reach.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            JournalError::Corrupt { .. } | JournalError::Misplaced { .. } | JournalError::Foreign { .. } | JournalError::Behind { .. } => {
                true
            }
            JournalError::Io { .. }
            | JournalError::Poisoned
            | JournalError::Version { .. }
            | JournalError::TooLarge { .. }
            | JournalError::Absent { .. }
            | JournalError::Replay { .. } => false,
        }
    }
}
