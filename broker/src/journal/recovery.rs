//! Opening a journal: which files hold it, where it ends, and whether that end is a torn tail or corruption.
//!
//! Everything is read and checked before anything is changed. The journal goes on from segment to segment as
//! long as the chain does, and ends at the first batch that breaks it. If a later write proves that the broken
//! one had been on disk, the start is refused; otherwise the rest was never acknowledged and is made unreadable,
//! so that it cannot come back. The rules are in docs/architecture.md.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::files::{File, Files};

use super::batch::{BATCH_HEADER, BatchHeader};
use super::record::Applied;
use super::scan::{Defect, Scan};
use super::segment::{HEADER_END, Headed, Live, SEGMENT_HEADER, Segment, SegmentHeader, Slot, VERSION_READ, io_error};
use super::{JournalError, Options};

/// A journal as it was found, checked and cut, ready to append to.
pub(super) struct Recovered<H> {
    pub(super) live: VecDeque<Live<H>>,
    /// Where the newest segment ends.
    pub(super) end: u32,
    pub(super) last: Applied,
    /// Number of the last write; all are synced.
    pub(super) number: u64,
    pub(super) spares: Vec<Slot<H>>,
    pub(super) next_slot: u32,
}

type HeadedSegment<H> = (SegmentHeader, Arc<Segment<H>>);

/// The files of the directory, by what their headers say.
struct Found<H> {
    /// With a header of this store, by segment number.
    headed: Vec<HeadedSegment<H>>,
    /// Never used, or with a torn header.
    damaged: Vec<Slot<H>>,
    next_slot: u32,
}

pub(super) fn recover<F: Files>(files: &F, options: &Options, after: Applied) -> Result<Recovered<F::File>, JournalError> {
    let found = find(files, options)?;
    if found.headed.is_empty() {
        return create(files, options, after, found);
    }
    let wanted = after.index + 1;
    let wanted = options.keep_from.map_or(wanted, |keep| keep.min(wanted));
    let begins = |(header, _): &HeadedSegment<_>| header.first_index() <= wanted;
    let Some(start) = found.headed.iter().rposition(begins) else {
        let first = found.headed[0].0.first_index();
        return Err(behind(files, after, format!("begins at index {first}")));
    };
    let walk = walk(files, options, after, &found.headed[start..])?;
    refuse_corruption(options, &found, start, &walk)?;
    if walk.last.index < after.index {
        let state = format!("ends at index {}", walk.last.index);
        return Err(behind(files, after, state));
    }
    forget_the_dead(options, &found, start, &walk)?;
    Ok(keep(found, walk))
}

/// Opens all slots and reads their headers from the disk itself.
fn find<F: Files>(files: &F, options: &Options) -> Result<Found<F::File>, JournalError> {
    let directory = |operation| move |error| io_error(&files.display(""), operation, error);
    // A file that a killed process created may have no durable name yet.
    files.sync_dir().map_err(directory("sync"))?;
    let names = files.list().map_err(directory("list"))?;
    let mut found = Found { headed: Vec::new(), damaged: Vec::new(), next_slot: 1 };
    for name in names {
        let Some(id) = Slot::<F::File>::id_of(&name) else {
            continue;
        };
        found.next_slot = found.next_slot.max(id + 1);
        let path = files.display(&name);
        let file = files.open(&name).map_err(|error| io_error(&path, "open", error))?;
        let slot = Slot { id, name, path, file };
        // A killed process leaves bytes that the system has and the disk does not; a failed sync leaves bytes
        // that never will be there. What counts is what the disk holds.
        slot.sync()?;
        let forgotten = slot.file.forget_cache();
        forgotten.map_err(|error| slot.read_failed(error))?;
        match header_of(&slot, options)? {
            Some(header) => {
                let number = header.segment;
                let segment = Segment { number, slot };
                found.headed.push((header, Arc::new(segment)));
            }
            None => found.damaged.push(slot),
        }
    }
    found.headed.sort_by_key(|(header, _)| header.segment);
    found.damaged.sort_by_key(|slot| slot.id);
    for pair in found.headed.windows(2) {
        let (one, twin) = (&pair[0].1, &pair[1].1);
        if one.number == twin.number {
            return Err(JournalError::Misplaced {
                file: one.slot.path.clone(),
                defect: format!("{} claims segment {} as well", twin.slot.path, one.number),
            });
        }
    }
    Ok(found)
}

fn header_of<H: File>(slot: &Slot<H>, options: &Options) -> Result<Option<SegmentHeader>, JournalError> {
    let mut bytes = [0; SEGMENT_HEADER];
    let read = slot.file.read_at(0, &mut bytes);
    if read.map_err(|error| slot.read_failed(error))? < SEGMENT_HEADER {
        return Ok(None);
    }
    match SegmentHeader::decode(&bytes, options.store_id) {
        Headed::Whole(header) => Ok(Some(header)),
        Headed::Damaged => Ok(None),
        Headed::Foreign(found) => Err(JournalError::Foreign { file: slot.path.clone(), found, expected: options.store_id }),
        Headed::Version(found) => Err(JournalError::Version { file: slot.path.clone(), found, expected: VERSION_READ }),
    }
}

/// Begins a journal where there is none.
fn create<F: Files>(files: &F, options: &Options, after: Applied, mut found: Found<F::File>) -> Result<Recovered<F::File>, JournalError> {
    let begins_after = options.begins_after.unwrap_or_default();
    if after != begins_after {
        return Err(behind(files, after, "holds no segment".to_owned()));
    }
    let none = Walk { live: VecDeque::new(), end: 0, last: Applied::default(), number: 0, defect: "there is no segment header" };
    refuse_corruption(options, &found, 0, &none)?;
    let slot = match found.damaged.pop() {
        Some(slot) => slot,
        None => {
            let id = found.next_slot;
            found.next_slot += 1;
            Slot::create(files, id, options.segment_bytes)?
        }
    };
    let header = SegmentHeader {
        segment: 1,
        cut: false,
        number: 1,
        // Synced below, before anything is written behind it.
        synced: 0,
        previous: begins_after,
    };
    slot.write(0, &header.encode(options.store_id))?;
    slot.sync()?;
    let segment = Arc::new(Segment { number: header.segment, slot });
    Ok(Recovered {
        live: VecDeque::from([Live::new(segment, header.previous)]),
        end: HEADER_END,
        last: header.previous,
        number: header.number,
        spares: found.damaged,
        next_slot: found.next_slot,
    })
}

/// How far the journal could be followed.
struct Walk<H> {
    /// The segments that hold it; the last one is where it ends.
    live: VecDeque<Live<H>>,
    end: u32,
    last: Applied,
    number: u64,
    /// Why it ends there.
    defect: Defect,
}

/// Follows the chain through `segments`, whose first is taken to be right about what came before it.
fn walk<F: Files>(
    files: &F,
    options: &Options,
    after: Applied,
    segments: &[HeadedSegment<F::File>],
) -> Result<Walk<F::File>, JournalError> {
    let check = |applied: Applied| match applied.index == after.index && applied != after {
        true => Err(behind(files, after, "holds another record at that index".to_owned())),
        false => Ok(()),
    };
    let (first, _) = &segments[0];
    check(first.previous)?;
    let mut walk = Walk { live: VecDeque::new(), end: 0, last: first.previous, number: first.number - 1, defect: "" };
    for (header, segment) in segments {
        if !walk.is_followed_by(header) {
            break;
        }
        if header.cut {
            for live in &mut walk.live {
                live.cut(header.first_index());
            }
        }
        walk.number = header.number;
        walk.last = header.previous;
        walk.end = HEADER_END;
        let mut live = Live::new(Arc::clone(segment), header.previous);
        let mut scan = Scan::new(&segment.slot.file, options.store_id);
        walk.defect = loop {
            let batch = match scan.batch_at(walk.end).map_err(|error| segment.slot.read_failed(error))? {
                Ok(batch) => batch,
                Err(defect) => break defect,
            };
            if batch.header.segment != header.segment || batch.header.number != walk.number + 1 || batch.header.previous != walk.last {
                break "the batch does not continue the one before it";
            }
            if batch.header.previous.index < after.index && after.index <= batch.last.index {
                batch.records().try_for_each(|(_, applied)| check(applied))?;
            }
            live.grew(batch.header.first_index(), batch.last.index, walk.end);
            walk.number = batch.header.number;
            walk.last = batch.last;
            walk.end += batch.header.length;
        };
        walk.live.push_back(live);
    }
    Ok(walk)
}

impl<H> Walk<H> {
    /// Whether a segment with this header continues what was followed so far.
    fn is_followed_by(&self, header: &SegmentHeader) -> bool {
        let follows = match self.live.back() {
            Some(live) => live.segment.number + 1 == header.segment,
            None => true,
        };
        follows && header.number == self.number + 1 && (header.cut || header.previous == self.last)
    }

    /// The segments that the walk did not reach.
    fn rest<'a>(&self, found: &'a Found<H>, start: usize) -> impl Iterator<Item = &'a HeadedSegment<H>> + use<'a, H> {
        found.headed.iter().skip(start + self.live.len())
    }
}

/// Refuses the start when something was written in the knowledge that the place where the walk ended had been
/// synced with more in it.
fn refuse_corruption<H: File>(options: &Options, found: &Found<H>, start: usize, walk: &Walk<H>) -> Result<(), JournalError> {
    let corrupt = |slot: &Slot<H>, offset, defect, proof: &Slot<H>, proof_offset| {
        Err(JournalError::Corrupt {
            file: slot.path.clone(),
            offset,
            defect,
            proof_file: proof.path.clone(),
            proof_offset,
            kept: walk.last.index,
        })
    };
    if let Some(tail) = walk.live.back() {
        let tail = &tail.segment.slot;
        if let Some(proof) = proof(tail, options, walk.end, walk.number)? {
            return corrupt(tail, walk.end, walk.defect, tail, proof);
        }
        for (header, segment) in walk.rest(found, start) {
            let proof = match header.synced > walk.number {
                true => Some(0),
                false => proof(&segment.slot, options, HEADER_END, walk.number)?,
            };
            if let Some(proof) = proof {
                return corrupt(tail, walk.end, walk.defect, &segment.slot, proof);
            }
        }
    }
    for slot in &found.damaged {
        if let Some(proof) = proof(slot, options, HEADER_END, walk.number)? {
            let defect = "the segment header does not match its checksum";
            return corrupt(slot, 0, defect, slot, proof);
        }
    }
    Ok(())
}

/// Where, from `offset` on, there is a batch that was written when a write above `number` was known to be synced.
fn proof<H: File>(slot: &Slot<H>, options: &Options, offset: u32, number: u64) -> Result<Option<u32>, JournalError> {
    let headers = headers_above(slot, options, offset, number)?;
    let proves = |(_, header): &&(u32, BatchHeader)| header.synced > number;
    Ok(headers.iter().find(proves).map(|(place, _)| *place))
}

fn headers_above<H: File>(slot: &Slot<H>, options: &Options, offset: u32, number: u64) -> Result<Vec<(u32, BatchHeader)>, JournalError> {
    let mut scan = Scan::new(&slot.file, options.store_id);
    let headers = scan.headers_above(offset, number);
    headers.map_err(|error| slot.read_failed(error))
}

/// Overwrites the headers of what was written after the end and never acknowledged. The chain alone would
/// reject it, unless what is appended now is the same to the byte.
fn forget_the_dead<H: File>(options: &Options, found: &Found<H>, start: usize, walk: &Walk<H>) -> Result<(), JournalError> {
    let tail = walk.live.back().expect("the walk has seen a segment");
    wipe_batches(&tail.segment.slot, options, walk.end, walk.number)?;
    // From the last one down: a gap must not make the rest look like a continuation.
    let rest: Vec<_> = walk.rest(found, start).collect();
    for (_, segment) in rest.into_iter().rev() {
        wipe_batches(&segment.slot, options, HEADER_END, walk.number)?;
        segment.slot.write(0, &[0; SEGMENT_HEADER])?;
        segment.slot.sync()?;
    }
    Ok(())
}

fn wipe_batches<H: File>(slot: &Slot<H>, options: &Options, offset: u32, number: u64) -> Result<(), JournalError> {
    let dead = headers_above(slot, options, offset, number)?;
    for (offset, _) in &dead {
        slot.write(*offset, &[0; BATCH_HEADER])?;
    }
    match dead.is_empty() {
        true => Ok(()),
        false => slot.sync(),
    }
}

/// Sorts the files: what the walk saw is the journal, all else is spare.
fn keep<H>(found: Found<H>, walk: Walk<H>) -> Recovered<H> {
    let mut spares = found.damaged;
    for (_, segment) in found.headed {
        // The live ones are held by the walk, too.
        spares.extend(Arc::into_inner(segment).map(|segment| segment.slot));
    }
    Recovered { live: walk.live, end: walk.end, last: walk.last, number: walk.number, spares, next_slot: found.next_slot }
}

fn behind<F: Files>(files: &F, after: Applied, state: String) -> JournalError {
    JournalError::Behind { applied: after.index, directory: files.display(""), state }
}
