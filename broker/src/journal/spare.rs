//! Spares: files that were written in full, so that the next segment's syncs are cheap.
//!
//! Writing one takes a while, so the journal hands the work out as a job for another thread. A spare holds nothing
//! anyone relies on; whether one is wanted is the journal's to say.

use crate::files::Files;

use super::JournalError;
use super::segment::Slot;

/// Writes a spare segment. Run it on any thread but the journal's, then hand the outcome to
/// [`Journal::add_spare`](super::Journal::add_spare).
pub struct SpareJob<F> {
    pub(super) files: F,
    pub(super) slot: u32,
    pub(super) segment_bytes: u32,
}

/// A file ready to become a segment.
pub struct Spare<H> {
    pub(super) slot: Slot<H>,
}

impl<F: Files> SpareJob<F> {
    /// Writes the file and syncs it. What a failure leaves behind is cleaned up as far as possible.
    pub fn run(self) -> Result<Spare<F::File>, JournalError> {
        match Slot::create(&self.files, self.slot, self.segment_bytes) {
            Ok(slot) => Ok(Spare { slot }),
            Err(error) => {
                // The disk may be full: give back what it took. The first error is the one that matters.
                let _ = self.files.remove(&Slot::<F::File>::file_name(self.slot));
                Err(error)
            }
        }
    }
}
