//! The journal: where what the broker accepts becomes durable, one write and one sync a batch.
//!
//! It stores opaque records in order, chained by checksum, in segments that are reused once a checkpoint covers
//! them. It knows nothing of queues, of the store or of tokio: it is synchronous, owned by one thread, and
//! group commit happens because the next batch collects while [`Journal::append`] blocks. In a cluster the same files
//! are the Raft log. All file operations go through `files/`. Opening one is `recovery.rs`; the layouts are in
//! `segment.rs`, `batch.rs` and `record.rs`.
//!
//! Invariants: a batch is written only after the one before it was synced (`Durability::Fsync`); a segment is
//! reused only when a checkpoint covers it and nobody reads it; after a failed write or sync nothing is
//! written or acknowledged any more; disk sectors that are not being written keep their bytes at a power loss.

mod batch;
mod error;
mod layout;
mod options;
mod reader;
mod record;
mod recovery;
mod scan;
mod segment;
mod spare;
mod sync;

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;

use crate::files::Files;

pub use batch::Batch;
pub use error::{JournalError, ReplayError};
pub use options::{Durability, Options, SEGMENT_BYTES_DEFAULT};
pub use reader::{Hold, Reader};
pub use record::{Applied, Position, Record};
pub use spare::{Spare, SpareJob};
pub use sync::{SyncJob, Synced};

use batch::Place;
use reader::Shared;
use segment::{HEADER_END, Live, Segment, SegmentHeader, Slot};

/// The journal of one shard.
pub struct Journal<F: Files> {
    files: F,
    options: Options,
    shared: Arc<Shared<F::File>>,
    current: Arc<Segment<F::File>>,
    /// Where the next batch goes in the current segment.
    end: u32,
    last: Applied,
    /// Number of the last write, segment headers included.
    number: u64,
    /// Number of the last write that is known to be synced.
    synced: u64,
    /// Former segments with writes above `synced`, each with the number of its last one.
    unsynced: Vec<(u64, Arc<Segment<F::File>>)>,
    /// Recycled segments that somebody may still read.
    retired: Vec<Arc<Segment<F::File>>>,
    spares: Vec<Slot<F::File>>,
    spare: SpareWish,
    next_slot: u32,
}

/// Whether a spare was asked for since the current segment began.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpareWish {
    NotYet,
    Asked,
    Answered,
}

/// What an append did.
#[derive(Clone, Debug)]
pub struct Appended {
    /// Index of the batch's first record.
    pub first_index: u64,
    /// Index of its last record.
    pub last_index: u64,
    /// The segment that it went to.
    pub segment: u32,
    /// Offset of `buffer[0]` in the segment: byte `i` of the buffer is at `base + i`.
    pub base: u32,
    /// What was written, for the caller to keep as a cache.
    pub buffer: Bytes,
    /// Whether it is on the disk, and not just with the system.
    pub synced: bool,
}

impl Appended {
    /// The position of byte `offset` of the batch's buffer.
    pub fn position(&self, offset: usize) -> Position {
        let offset = u32::try_from(offset).expect("a batch fits a segment");
        Position { segment: self.segment, offset: self.base + offset }
    }
}

impl<F: Files> Journal<F> {
    /// Opens the journal, or creates it when the directory is empty and the store is new.
    ///
    /// Everything is checked before anything is handed out or changed: a torn tail is cut, corruption refuses
    /// the start. Then `replay` gets the records above `after`, what the store's last checkpoint holds, in order.
    ///
    /// # Panics
    /// When `options.segment_bytes` is no multiple of eight or holds no batch.
    pub fn open(
        files: F,
        options: Options,
        after: Applied,
        replay: &mut dyn FnMut(Record<'_>) -> Result<(), ReplayError>,
    ) -> Result<Journal<F>, JournalError> {
        assert!(segment::is_valid_size(options.segment_bytes), "segments of {} bytes are not possible", options.segment_bytes);
        let recovered = recovery::recover(&files, &options, after)?;
        let newest = recovered.live.back().expect("recovery leaves a segment");
        let journal = Journal {
            current: Arc::clone(&newest.segment),
            shared: Arc::new(Shared::new(options.store_id, recovered.live)),
            files,
            options,
            end: recovered.end,
            last: recovered.last,
            number: recovered.number,
            synced: recovered.number,
            unsynced: Vec::new(),
            retired: Vec::new(),
            spares: recovered.spares,
            spare: SpareWish::NotYet,
            next_slot: recovered.next_slot,
        };
        let wanted = after.index + 1..=journal.last.index;
        journal.reader().chained(wanted, |record, _| {
            let index = record.index;
            replay(record).map_err(|source| JournalError::Replay { index, source })?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(journal)
    }

    /// Writes a batch, and syncs it with [`Durability::Fsync`]. After an error of the system every call fails.
    ///
    /// # Panics
    /// When the batch is empty or its last record was not ended.
    pub fn append(&mut self, batch: Batch) -> Result<Appended, JournalError> {
        self.shared.healthy()?;
        assert!(!batch.is_empty(), "an empty batch is not appended");
        let bytes = batch.len();
        if bytes > self.batch_bytes_max() {
            return Err(JournalError::TooLarge { bytes, capacity: self.batch_bytes_max() });
        }
        if self.end as usize + bytes > self.options.segment_bytes as usize {
            let end = self.last;
            self.poisoning(|journal| journal.begin_segment(end, false))?;
        }
        self.poisoning(|journal| journal.write(batch))
    }

    fn write(&mut self, batch: Batch) -> Result<Appended, JournalError> {
        let base = self.end;
        let place = Place {
            store_id: self.options.store_id,
            segment: self.current.number,
            offset: base,
            number: self.number + 1,
            synced: self.synced,
        };
        let first_index = self.last.index + 1;
        let (buffer, last) = batch.seal(place, self.last);
        self.current.slot.write(base, &buffer)?;
        self.number += 1;
        self.last = last;
        self.end += u32::try_from(buffer.len()).expect("a batch fits a segment");
        let synced = self.options.durability == Durability::Fsync;
        if synced {
            self.sync_current()?;
        }
        if let Some(live) = self.shared.live_mut().back_mut() {
            live.grew(first_index, last.index, base);
        }
        Ok(Appended { first_index, last_index: last.index, segment: self.current.number, base, buffer: Bytes::from(buffer), synced })
    }

    /// The last record appended.
    pub fn last(&self) -> Applied {
        self.last
    }

    /// The largest batch that an append takes, in bytes of [`Batch::len`].
    pub fn batch_bytes_max(&self) -> usize {
        segment::capacity(self.options.segment_bytes)
    }

    /// What the segments take on the disk, spares included.
    pub fn disk_bytes(&self) -> u64 {
        let segments = self.shared.live().len() + self.retired.len() + self.spares.len();
        segments as u64 * u64::from(self.options.segment_bytes)
    }

    /// A reader for any thread.
    pub fn reader(&self) -> Reader<F::File> {
        Reader::new(Arc::clone(&self.shared))
    }

    /// A sync of all that was appended so far, to be run on any thread; `None` when all of it is synced.
    pub fn sync_job(&self) -> Option<SyncJob<F::File>> {
        if self.synced == self.number {
            return None;
        }
        let former = self.unsynced.iter().map(|(_, segment)| segment);
        Some(SyncJob {
            shared: Arc::clone(&self.shared),
            segments: former.chain([&self.current]).map(Arc::clone).collect(),
            synced: Synced { last: self.last, number: self.number },
        })
    }

    /// Takes note that a [`SyncJob`] has run.
    pub fn note_synced(&mut self, synced: Synced) {
        self.synced = self.synced.max(synced.number);
        self.unsynced.retain(|(number, _)| *number > self.synced);
    }

    /// Lets segments be reused whose records are all at or below `index`. Call it only after the checkpoint that
    /// holds them is durable. Segments that are held or being synced wait for that to end.
    pub fn recycle_through(&mut self, index: u64) {
        {
            let mut live = self.shared.live_mut();
            while live.len() > 1 && live.front().is_some_and(|live| live.last_index <= index) {
                self.retired.extend(live.pop_front().map(|live| live.segment));
            }
        }
        self.reclaim();
    }

    /// The next segment to be written in advance, once the current one is half full and no spare is there.
    pub fn wants_spare(&mut self) -> Option<SpareJob<F>> {
        let is_early = self.end < self.options.segment_bytes / 2;
        if is_early || self.spare != SpareWish::NotYet {
            return None;
        }
        self.reclaim();
        if !self.spares.is_empty() {
            return None;
        }
        self.spare = SpareWish::Asked;
        Some(SpareJob { files: self.files.clone(), slot: self.take_slot_id(), segment_bytes: self.options.segment_bytes })
    }

    /// Takes what a [`SpareJob`] made. Its failure is handed back for the caller to log: the journal goes on and
    /// asks again in the next segment.
    pub fn add_spare(&mut self, outcome: Result<Spare<F::File>, JournalError>) -> Result<(), JournalError> {
        self.spare = SpareWish::Answered;
        self.spares.push(outcome?.slot);
        Ok(())
    }

    /// Removes the records from `index` on, durably; the next append gets that index. It must not be below the
    /// first index held.
    pub fn truncate_from(&mut self, index: u64) -> Result<(), JournalError> {
        self.shared.healthy()?;
        if index > self.last.index {
            return Ok(());
        }
        let before = self.reader().applied(index - 1)?;
        self.poisoning(|journal| {
            for live in journal.shared.live_mut().iter_mut() {
                live.cut(index);
            }
            journal.begin_segment(before, true)?;
            journal.sync_current()
        })
    }

    /// Forgets all records, durably, and goes on after `last`: for a store that was replaced by a snapshot.
    pub fn restart_after(&mut self, last: Applied) -> Result<(), JournalError> {
        self.shared.healthy()?;
        self.poisoning(|journal| {
            journal.begin_segment(last, true)?;
            journal.sync_current()
        })?;
        let newest = self.current.number;
        {
            let mut live = self.shared.live_mut();
            while live.front().is_some_and(|live| live.segment.number < newest) {
                self.retired.extend(live.pop_front().map(|live| live.segment));
            }
        }
        self.reclaim();
        Ok(())
    }

    /// Closes the current segment and begins the next one after `previous`.
    fn begin_segment(&mut self, previous: Applied, cut: bool) -> Result<(), JournalError> {
        self.reclaim();
        let slot = match self.spares.pop() {
            Some(slot) => slot,
            // Nothing written in advance: this segment grows as it is filled, with slower syncs.
            None => {
                let id = self.take_slot_id();
                Slot::create(&self.files, id, 0)?
            }
        };
        let header = SegmentHeader { segment: self.current.number + 1, cut, number: self.number + 1, synced: self.synced, previous };
        slot.write(0, &header.encode(self.options.store_id))?;
        // A batch behind a header that is not on the disk would be out of recovery's sight after a crash, and could
        // come back once the same header is written again.
        slot.sync()?;
        if self.synced == self.number {
            self.synced = header.number;
        } else {
            self.unsynced.push((self.number, Arc::clone(&self.current)));
        }
        self.number = header.number;
        self.last = previous;
        self.end = HEADER_END;
        self.spare = match self.spare {
            SpareWish::Asked => SpareWish::Asked,
            SpareWish::NotYet | SpareWish::Answered => SpareWish::NotYet,
        };
        self.current = Arc::new(Segment { number: header.segment, slot });
        let live = Live::new(Arc::clone(&self.current), previous);
        self.shared.live_mut().push_back(live);
        Ok(())
    }

    /// Syncs the current segment; with those before it, if they are not.
    fn sync_current(&mut self) -> Result<(), JournalError> {
        for (_, segment) in &self.unsynced {
            segment.slot.sync()?;
        }
        self.current.slot.sync()?;
        self.unsynced.clear();
        self.synced = self.number;
        Ok(())
    }

    /// Turns retired segments that nobody holds into spares, and removes what is too many of them.
    fn reclaim(&mut self) {
        let retired = std::mem::take(&mut self.retired);
        for segment in retired {
            match Arc::try_unwrap(segment) {
                Ok(segment) => self.spares.push(segment.slot),
                Err(held) => self.retired.push(held),
            }
        }
        while self.spares.len() > self.options.spares_max {
            if let Some(slot) = self.spares.pop() {
                // A file that stays is found, and offered again, at the next start.
                let _ = self.files.remove(&slot.name);
            }
        }
    }

    fn take_slot_id(&mut self) -> u32 {
        let id = self.next_slot;
        self.next_slot += 1;
        id
    }

    fn poisoning<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, JournalError>) -> Result<T, JournalError> {
        let result = run(self);
        self.shared.or_poison(result)
    }
}
