//! A segment: one numbered stretch of the journal, in a file that earlier segments may have used before it.
//!
//! Owns the header, which names the store, the segment and the record before its first; a header also re-chains
//! the journal after a cut. Files are slots (`0003.seg`) whose name says nothing about the segment in them, so that
//! reuse renames nothing and needs no directory sync. Recovery (`recovery.rs`) puts them in order.
//!
//! Header, 512 bytes, little-endian: `magic [8] | version u32 | crc u32 | store id u128 | segment u32 | cut u32 |
//! number u64 | synced u64 | first index u64 | previous term u64 | previous crc u32 | 0`.

use std::io;
use std::sync::Arc;

use crate::files::{File, Files};

use super::JournalError;
use super::batch::{ALIGN, BATCH_BYTES_MIN};
use super::layout::{put, u32_at, u64_at};
use super::record::Applied;

/// Bytes of a segment before its first batch: one sector.
pub(super) const SEGMENT_HEADER: usize = 512;
/// The same as the offset of the first batch.
pub(super) const HEADER_END: u32 = 512;
const MAGIC: &[u8; 8] = b"QWERQSEG";
const VERSION: u32 = 1;
/// Bytes of the header that carry meaning.
const USED: usize = 80;

/// What stands in front of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) segment: u32,
    /// Whether the journal was cut here: `previous` is then not the last record of the segment before.
    pub(super) cut: bool,
    /// Number of this write; segment headers and batches count in one sequence.
    pub(super) number: u64,
    /// Number of the last write that was known to be synced.
    pub(super) synced: u64,
    /// The record before the first of this segment.
    pub(super) previous: Applied,
}

/// What the first bytes of a file turned out to be.
pub(super) enum Headed {
    Whole(SegmentHeader),
    /// Never written, or torn.
    Damaged,
    Foreign(u128),
    Version(u32),
}

impl SegmentHeader {
    pub(super) fn encode(&self, store_id: u128) -> [u8; SEGMENT_HEADER] {
        let mut out = [0; SEGMENT_HEADER];
        put(&mut out, 0, MAGIC);
        put(&mut out, 8, &VERSION.to_le_bytes());
        put(&mut out, 16, &store_id.to_le_bytes());
        put(&mut out, 32, &self.segment.to_le_bytes());
        put(&mut out, 36, &u32::from(self.cut).to_le_bytes());
        put(&mut out, 40, &self.number.to_le_bytes());
        put(&mut out, 48, &self.synced.to_le_bytes());
        put(&mut out, 56, &(self.previous.index + 1).to_le_bytes());
        put(&mut out, 64, &self.previous.term.to_le_bytes());
        put(&mut out, 72, &self.previous.crc.to_le_bytes());
        let crc = header_crc(&out);
        put(&mut out, 12, &crc.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; SEGMENT_HEADER], store_id: u128) -> Headed {
        if !bytes.starts_with(MAGIC) || u32_at(bytes, 12) != header_crc(bytes) {
            return Headed::Damaged;
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Headed::Version(version);
        }
        let found = u128::from(u64_at(bytes, 16)) | u128::from(u64_at(bytes, 24)) << 64;
        if found != store_id {
            return Headed::Foreign(found);
        }
        let Some(previous_index) = u64_at(bytes, 56).checked_sub(1) else {
            return Headed::Damaged;
        };
        Headed::Whole(SegmentHeader {
            segment: u32_at(bytes, 32),
            cut: u32_at(bytes, 36) != 0,
            number: u64_at(bytes, 40),
            synced: u64_at(bytes, 48),
            previous: Applied { term: u64_at(bytes, 64), index: previous_index, crc: u32_at(bytes, 72) },
        })
    }

    /// Index of the first record.
    pub(super) fn first_index(&self) -> u64 {
        self.previous.index + 1
    }
}

/// Covers the version too, and what later versions may put behind the fields of this one.
fn header_crc(bytes: &[u8; SEGMENT_HEADER]) -> u32 {
    debug_assert!(bytes[USED..].len() + USED == SEGMENT_HEADER);
    crc32c::crc32c_append(crc32c::crc32c(&bytes[8..12]), &bytes[16..])
}

pub(super) const VERSION_READ: u32 = VERSION;

/// The largest batch that a segment of this size takes.
pub(super) fn capacity(segment_bytes: u32) -> usize {
    segment_bytes as usize - SEGMENT_HEADER
}

/// Whether a segment of this size can work at all.
pub(super) fn is_valid_size(segment_bytes: u32) -> bool {
    let bytes = segment_bytes as usize;
    bytes.is_multiple_of(ALIGN) && bytes >= SEGMENT_HEADER + BATCH_BYTES_MIN
}

/// An open file that segments live in, one after the other.
pub(super) struct Slot<H> {
    pub(super) id: u32,
    pub(super) name: String,
    /// The name as error messages show it.
    pub(super) path: String,
    pub(super) file: H,
}

impl<H> Slot<H> {
    pub(super) fn file_name(id: u32) -> String {
        format!("{id:04}.seg")
    }

    /// The slot that a file name stands for, if it is one.
    pub(super) fn id_of(name: &str) -> Option<u32> {
        let id = name.strip_suffix(".seg")?.parse().ok()?;
        (Slot::<H>::file_name(id) == name).then_some(id)
    }
}

impl<H: File> Slot<H> {
    /// Creates the file, and with `prewrite` writes zeros to all of it: overwriting written blocks is what makes
    /// a sync cheap (`fallocate` does not help). All of it is durable afterwards.
    pub(super) fn create<F: Files<File = H>>(files: &F, id: u32, prewrite_bytes: u32) -> Result<Slot<H>, JournalError> {
        let zeros = vec![0; 64 * 1024];
        let name = Slot::<H>::file_name(id);
        let path = files.display(&name);
        let failed = |operation, source| io_error(&path, operation, source);
        let file = files.create(&name).map_err(|error| failed("create", error))?;
        let mut at = 0;
        while at < prewrite_bytes as usize {
            let count = zeros.len().min(prewrite_bytes as usize - at);
            file.write_at(at as u64, &zeros[..count]).map_err(|error| failed("write", error))?;
            at += count;
        }
        if prewrite_bytes > 0 {
            file.sync_data().map_err(|error| failed("sync", error))?;
        }
        files.sync_dir().map_err(|error| failed("sync the directory of", error))?;
        Ok(Slot { id, name, path, file })
    }
}

impl<H: File> Slot<H> {
    pub(super) fn write(&self, offset: u32, bytes: &[u8]) -> Result<(), JournalError> {
        let written = self.file.write_at(u64::from(offset), bytes);
        written.map_err(|error| io_error(&self.path, "write", error))
    }

    pub(super) fn sync(&self) -> Result<(), JournalError> {
        let synced = self.file.sync_data();
        synced.map_err(|error| io_error(&self.path, "sync", error))
    }

    pub(super) fn read_failed(&self, error: io::Error) -> JournalError {
        io_error(&self.path, "read", error)
    }
}

pub(super) fn io_error(path: &str, operation: &'static str, source: io::Error) -> JournalError {
    JournalError::Io { file: path.to_owned(), operation, source }
}

/// A segment that is part of the journal.
pub(super) struct Segment<H> {
    pub(super) number: u32,
    pub(super) slot: Slot<H>,
}

/// How far apart the remembered offsets of a segment are, in bytes.
const POINT_BYTES: u32 = 64 * 1024;

/// A segment with what it holds.
pub(super) struct Live<H> {
    pub(super) segment: Arc<Segment<H>>,
    /// The record before its first.
    pub(super) previous: Applied,
    /// Last record of this segment that was not cut off; at most `previous.index` when there is none.
    pub(super) last_index: u64,
    /// Some of the batches, in order: index of the first record, offset of the batch.
    points: Vec<(u64, u32)>,
}

impl<H> Live<H> {
    pub(super) fn new(segment: Arc<Segment<H>>, previous: Applied) -> Live<H> {
        Live { segment, previous, last_index: previous.index, points: Vec::new() }
    }

    /// Takes note of a batch at `offset`.
    pub(super) fn grew(&mut self, first_index: u64, last_index: u64, offset: u32) {
        let far = |(_, last): &(u64, u32)| offset - last >= POINT_BYTES;
        if self.points.last().is_none_or(far) {
            self.points.push((first_index, offset));
        }
        self.last_index = last_index;
    }

    /// Forgets records from `index` on.
    pub(super) fn cut(&mut self, index: u64) {
        self.last_index = self.last_index.min(index - 1);
        self.points.retain(|(first, _)| *first < index);
    }

    /// Where to begin looking for `index`: the offset of a batch at or before it.
    pub(super) fn offset_before(&self, index: u64) -> Option<u32> {
        let after = self.points.partition_point(|(first, _)| *first <= index);
        Some(self.points[after.checked_sub(1)?].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_slots_are_slots() {
        let id = Slot::<()>::id_of;
        assert_eq!(id("0003.seg"), Some(3));
        assert_eq!(id("12345.seg"), Some(12_345));
        for name in ["3.seg", "00003.seg", "+003.seg", "0003.tmp", "vote", ".seg"] {
            assert_eq!(id(name), None, "{name}");
        }
    }

    #[test]
    fn a_header_is_read_back_and_any_flipped_bit_damages_it() {
        let header = SegmentHeader {
            segment: 7,
            cut: true,
            number: 1 << 40,
            synced: (1 << 40) - 2,
            previous: Applied { term: 3, index: 99, crc: 0xdead_beef },
        };
        let bytes = header.encode(5);
        let Headed::Whole(read) = SegmentHeader::decode(&bytes, 5) else { panic!("a header that was just written is whole") };
        assert_eq!(read, header);
        assert!(matches!(SegmentHeader::decode(&bytes, 6), Headed::Foreign(5)));
        for bit in 0..SEGMENT_HEADER * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(SegmentHeader::decode(&bytes, 5), Headed::Damaged));
        }
    }
}
