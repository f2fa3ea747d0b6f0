//! Makes what was appended so far durable from another thread, while appends go on.
//!
//! Used at intervals in the modes that do not sync each append, and before every checkpoint in all modes.

use std::sync::Arc;

use crate::files::File;

use super::JournalError;
use super::reader::Shared;
use super::record::Applied;
use super::segment::Segment;

/// One sync of all that was appended before the job was made.
pub struct SyncJob<H> {
    pub(super) shared: Arc<Shared<H>>,
    pub(super) segments: Vec<Arc<Segment<H>>>,
    pub(super) synced: Synced,
}

/// Proof that a [`SyncJob`] has run; hand it to [`Journal::note_synced`](super::Journal::note_synced).
#[derive(Clone, Copy, Debug)]
pub struct Synced {
    /// The last record that is durable for certain.
    pub last: Applied,
    pub(super) number: u64,
}

impl<H: File> SyncJob<H> {
    /// Syncs. A failure poisons the journal.
    pub fn run(self) -> Result<Synced, JournalError> {
        for segment in &self.segments {
            self.shared.healthy()?;
            self.shared.or_poison(segment.slot.sync())?;
        }
        Ok(self.synced)
    }
}
