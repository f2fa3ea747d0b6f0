//! Reads the journal beside its writer, from any thread: bytes at a position, or records by index.
//!
//! Owns the list of segments that both sides share. A segment that a reader holds is not reused; one that was
//! recycled is not found any more, so a stale position never yields another segment's bytes.

use std::collections::VecDeque;
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::files::File;

use super::JournalError;
use super::record::{Applied, Position, Record};
use super::scan::Scan;
use super::segment::{Live, SEGMENT_HEADER, Segment};

/// What the writer, the readers and the jobs share.
pub(super) struct Shared<H> {
    pub(super) store_id: u128,
    live: RwLock<VecDeque<Live<H>>>,
    poisoned: AtomicBool,
}

impl<H> Shared<H> {
    pub(super) fn new(store_id: u128, live: VecDeque<Live<H>>) -> Shared<H> {
        Shared { store_id, live: RwLock::new(live), poisoned: AtomicBool::new(false) }
    }

    // Nothing that holds the lock can leave the list half changed, so a panic elsewhere does not spoil it.
    pub(super) fn live(&self) -> RwLockReadGuard<'_, VecDeque<Live<H>>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn live_mut(&self) -> RwLockWriteGuard<'_, VecDeque<Live<H>>> {
        self.live.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn poison(&self) {
        self.poisoned.store(true, Ordering::Release);
    }

    pub(super) fn healthy(&self) -> Result<(), JournalError> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(JournalError::Poisoned);
        }
        Ok(())
    }

    /// Passes `result` on; after a failure the journal refuses everything.
    pub(super) fn or_poison<T>(&self, result: Result<T, JournalError>) -> Result<T, JournalError> {
        if result.is_err() {
            self.poison();
        }
        result
    }
}

/// Reads a journal; clones read the same one.
pub struct Reader<H> {
    shared: Arc<Shared<H>>,
}

impl<H> Clone for Reader<H> {
    fn clone(&self) -> Reader<H> {
        Reader { shared: Arc::clone(&self.shared) }
    }
}

/// Keeps a segment from being reused for as long as it lives, and reads from it, recycled or not.
pub struct Hold<H> {
    segment: Arc<Segment<H>>,
}

impl<H: File> Hold<H> {
    /// Fills `buffer` with the bytes at `offset` of the segment.
    pub fn read_into(&self, offset: u32, buffer: &mut [u8]) -> Result<(), JournalError> {
        let slot = &self.segment.slot;
        let read = slot.file.read_at(u64::from(offset), buffer);
        let read = read.map_err(|error| slot.read_failed(error))?;
        if read < buffer.len() {
            return Err(JournalError::Misplaced {
                file: slot.path.clone(),
                defect: format!("it ends before byte {offset} + {}", buffer.len()),
            });
        }
        Ok(())
    }
}

impl<H: File> Reader<H> {
    pub(super) fn new(shared: Arc<Shared<H>>) -> Reader<H> {
        Reader { shared }
    }

    /// Fills `buffer` with the bytes at `position`. They are what was appended; no checksum covers part of a record.
    pub fn read_into(&self, position: Position, buffer: &mut [u8]) -> Result<(), JournalError> {
        let hold = self
            .hold(position.segment)
            .ok_or_else(|| self.missing(format!("{} bytes at byte {} of segment {}", buffer.len(), position.offset, position.segment)))?;
        hold.read_into(position.offset, buffer)
    }

    /// The `len` bytes at `position`.
    pub fn read(&self, position: Position, len: usize) -> Result<Vec<u8>, JournalError> {
        let mut buffer = vec![0; len];
        self.read_into(position, &mut buffer)?;
        Ok(buffer)
    }

    /// Holds a segment by number; `None` when it was recycled already.
    pub fn hold(&self, segment: u32) -> Option<Hold<H>> {
        let live = self.shared.live();
        // Numbers in the list are consecutive.
        let place = segment.checked_sub(live.front()?.segment.number)?;
        let live = live.get(usize::try_from(place).ok()?)?;
        debug_assert_eq!(live.segment.number, segment);
        let segment = Arc::clone(&live.segment);
        Some(Hold { segment })
    }

    /// First and last index held; the first is one above the last when there are none.
    pub fn bounds(&self) -> (u64, u64) {
        let live = self.shared.live();
        let first = live.front().map_or(0, |front| front.previous.index) + 1;
        // Segments that were cut empty have no say: what follows them starts lower.
        let last = live.back().map_or(0, |back| back.last_index);
        (first.min(last + 1), last)
    }

    /// The last index that is not in the last `segments` segments: a log that may only grow so long may forget it, and what is before.
    pub fn last_before(&self, segments: usize) -> u64 {
        let live = self.shared.live();
        let first_kept = live.len().saturating_sub(segments);
        live.get(first_kept).or(live.front()).map_or(0, |live| live.previous.index)
    }

    /// Visits the records of an index range in order until `visit` breaks. Each is checked against its CRC again.
    pub fn records(&self, range: RangeInclusive<u64>, mut visit: impl FnMut(Record<'_>) -> ControlFlow<()>) -> Result<(), JournalError> {
        self.chained(range, |record, _| Ok(visit(record)))
    }

    /// Term and CRC of the record at `index`, which may be the one before the first held: what a checkpoint that ends there keeps.
    pub fn applied(&self, index: u64) -> Result<Applied, JournalError> {
        let before = self.shared.live().front().map(|front| front.previous);
        if let Some(previous) = before.filter(|previous| previous.index == index) {
            return Ok(previous);
        }
        let mut found = Applied::default();
        self.chained(index..=index, |_, applied| {
            found = applied;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    pub(super) fn chained(
        &self,
        range: RangeInclusive<u64>,
        mut visit: impl FnMut(Record<'_>, Applied) -> Result<ControlFlow<()>, JournalError>,
    ) -> Result<(), JournalError> {
        let (mut next, end) = range.into_inner();
        while next <= end {
            let (segment, mut offset, last) = self.locate(next)?;
            let last = last.min(end);
            let mut scan = Scan::new(&segment.slot.file, self.shared.store_id);
            while next <= last {
                let batch =
                    scan.batch_at(offset).map_err(|error| segment.slot.read_failed(error))?.map_err(|defect| JournalError::Misplaced {
                        file: segment.slot.path.clone(),
                        defect: format!("{defect} at byte {offset}, where record {next} was"),
                    })?;
                for (record, applied) in batch.records() {
                    if record.index < next || record.index > last {
                        continue;
                    }
                    if visit(record, applied)?.is_break() {
                        return Ok(());
                    }
                    next = record.index + 1;
                }
                offset += batch.header.length;
            }
        }
        Ok(())
    }

    /// The segment with record `index`, an offset at or before it, and the segment's last index.
    fn locate(&self, index: u64) -> Result<(Arc<Segment<H>>, u32, u64), JournalError> {
        let found = {
            let live = self.shared.live();
            let holder = live.iter().find(|live| live.previous.index < index && index <= live.last_index);
            holder.and_then(|live| {
                let offset = live.offset_before(index)?;
                debug_assert!(offset as usize >= SEGMENT_HEADER);
                Some((Arc::clone(&live.segment), offset, live.last_index))
            })
        };
        found.ok_or_else(|| self.missing(format!("record {index}")))
    }

    fn missing(&self, wanted: String) -> JournalError {
        let (first, last) = self.bounds();
        JournalError::Absent { wanted, first, last }
    }
}
