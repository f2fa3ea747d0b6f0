//! A batch: the records that one write call and one sync make durable together.
//!
//! Owns the buffer that the caller encodes into, and the header in front of it, with which a batch is recognised
//! and checked on its own, wherever recovery comes upon it. Where it goes is decided by the journal.
//!
//! Header, 64 bytes, little-endian: `magic u32 | crc u32 | segment u32 | length u32 | number u64 | synced u64 |
//! first index u64 | previous term u64 | records u32 | previous crc u32 | last crc u32 | 0 u32`. Its CRC also covers
//! the store's id and the header's own offset, so that a copy elsewhere (in a payload, say) is none. Batches
//! start at multiples of eight bytes.

use super::layout::{put, u32_at, u64_at};
use super::record::{self, Applied, Position, RECORD_HEADER, Record};

/// Bytes of a batch before its first record.
pub(super) const BATCH_HEADER: usize = 64;
/// Batches start at multiples of this many bytes.
pub(super) const ALIGN: usize = 8;
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"QWBT");

/// Records collected for one append.
#[derive(Debug)]
pub struct Batch {
    buffer: Vec<u8>,
    records: u32,
    /// Where the record being written started.
    open: Option<usize>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::with_buffer(Vec::new())
    }

    /// An empty batch that reuses the memory of `buffer`; its contents are dropped.
    pub fn with_buffer(mut buffer: Vec<u8>) -> Batch {
        buffer.clear();
        buffer.resize(BATCH_HEADER, 0);
        Batch { buffer, records: 0, open: None }
    }

    /// Starts a record. The caller then appends the payload to [`Batch::buffer`].
    ///
    /// # Panics
    /// When the previous record was not ended.
    pub fn begin_record(&mut self, term: u64, kind: u8) {
        assert!(self.open.is_none(), "the previous record was not ended");
        self.open = Some(record::begin(&mut self.buffer, term, kind));
    }

    /// The bytes so far. Append only: an offset in here, plus [`Appended::base`](super::Appended), is an offset in the segment.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Ends the record that [`Batch::begin_record`] started.
    ///
    /// # Panics
    /// When none was started.
    pub fn end_record(&mut self) {
        let start = self.open.take().expect("a record was begun");
        record::end(&mut self.buffer, start);
        self.records += 1;
    }

    /// Takes back the record that [`Batch::begin_record`] started, with what was written to it.
    pub fn abandon_record(&mut self) {
        if let Some(start) = self.open.take() {
            self.buffer.truncate(start);
        }
    }

    /// Number of whole records.
    pub fn records(&self) -> usize {
        self.records as usize
    }

    /// Bytes that an append would write now.
    pub fn len(&self) -> usize {
        self.buffer.len().next_multiple_of(ALIGN)
    }

    /// Whether there is no record in it.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Fills in the header and the chain; returns the bytes to write and what the last record is.
    pub(super) fn seal(mut self, place: Place, previous: Applied) -> (Vec<u8>, Applied) {
        assert!(self.open.is_none(), "the last record was not ended");
        let mut last = previous;
        let mut at = BATCH_HEADER;
        for _ in 0..self.records {
            let (crc, end) = record::seal(&mut self.buffer, at, last.crc);
            last = Applied { term: record::term(&self.buffer, at), index: last.index + 1, crc };
            at = end;
        }
        debug_assert_eq!(at, self.buffer.len(), "records fill the buffer");
        self.buffer.resize(self.len(), 0);
        let header = BatchHeader {
            segment: place.segment,
            length: u32::try_from(self.buffer.len()).expect("a batch fits a segment"),
            number: place.number,
            synced: place.synced,
            records: self.records,
            previous,
            last_crc: last.crc,
        };
        header.encode(place.store_id, place.offset, &mut self.buffer);
        (self.buffer, last)
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

/// Where a batch goes, and what is known when it does.
pub(super) struct Place {
    pub(super) store_id: u128,
    pub(super) segment: u32,
    pub(super) offset: u32,
    /// Number of this write; segment headers and batches count in one sequence.
    pub(super) number: u64,
    /// Number of the last write that is known to be synced.
    pub(super) synced: u64,
}

/// What stands in front of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchHeader {
    pub(super) segment: u32,
    /// Bytes of the batch, this header and padding included.
    pub(super) length: u32,
    pub(super) number: u64,
    pub(super) synced: u64,
    pub(super) records: u32,
    /// The record before the first of this batch.
    pub(super) previous: Applied,
    pub(super) last_crc: u32,
}

impl BatchHeader {
    fn encode(&self, store_id: u128, offset: u32, out: &mut [u8]) {
        put(out, 0, &MAGIC.to_le_bytes());
        put(out, 8, &self.segment.to_le_bytes());
        put(out, 12, &self.length.to_le_bytes());
        put(out, 16, &self.number.to_le_bytes());
        put(out, 24, &self.synced.to_le_bytes());
        put(out, 32, &(self.previous.index + 1).to_le_bytes());
        put(out, 40, &self.previous.term.to_le_bytes());
        put(out, 48, &self.records.to_le_bytes());
        put(out, 52, &self.previous.crc.to_le_bytes());
        put(out, 56, &self.last_crc.to_le_bytes());
        put(out, 60, &0_u32.to_le_bytes());
        let crc = header_crc(store_id, offset, &out[8..BATCH_HEADER]);
        put(out, 4, &crc.to_le_bytes());
    }

    /// Reads the header at `offset` of a segment, or `None` when what is there is not one.
    pub(super) fn decode(bytes: &[u8], store_id: u128, offset: u32) -> Option<BatchHeader> {
        let bytes = bytes.get(..BATCH_HEADER)?;
        if u32_at(bytes, 0) != MAGIC || u32_at(bytes, 4) != header_crc(store_id, offset, &bytes[8..]) {
            return None;
        }
        Some(BatchHeader {
            segment: u32_at(bytes, 8),
            length: u32_at(bytes, 12),
            number: u64_at(bytes, 16),
            synced: u64_at(bytes, 24),
            records: u32_at(bytes, 48),
            previous: Applied { term: u64_at(bytes, 40), index: u64_at(bytes, 32).checked_sub(1)?, crc: u32_at(bytes, 52) },
            last_crc: u32_at(bytes, 56),
        })
    }

    /// Index of its first record.
    pub(super) fn first_index(&self) -> u64 {
        self.previous.index + 1
    }
}

fn header_crc(store_id: u128, offset: u32, fields: &[u8]) -> u32 {
    let seed = crc32c::crc32c(&store_id.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &offset.to_le_bytes()), fields)
}

/// A batch read back, every byte of it checked.
pub(super) struct WholeBatch<'a> {
    pub(super) header: BatchHeader,
    pub(super) offset: u32,
    bytes: &'a [u8],
    /// Its last record.
    pub(super) last: Applied,
}

impl<'a> WholeBatch<'a> {
    /// Checks that `bytes`, which start with `header`, hold exactly the records that it announces.
    pub(super) fn check(header: BatchHeader, offset: u32, bytes: &'a [u8]) -> Option<Self> {
        let mut last = header.previous;
        let mut at = BATCH_HEADER;
        for _ in 0..header.records {
            let raw = record::parse(bytes, at, last.crc)?;
            last = Applied { term: raw.term, index: last.index + 1, crc: raw.crc };
            at = raw.end;
        }
        let padding = bytes.get(at..)?;
        let whole = last.crc == header.last_crc && padding.len() < ALIGN && padding.iter().all(|byte| *byte == 0);
        whole.then_some(WholeBatch { header, offset, bytes, last })
    }

    /// Its records in order, with what each adds to the chain.
    pub(super) fn records(&self) -> impl Iterator<Item = (Record<'a>, Applied)> + use<'a> {
        let (bytes, header, base) = (self.bytes, self.header, self.offset);
        let mut last = header.previous;
        let mut at = BATCH_HEADER;
        (0..header.records).map(move |_| {
            let raw = record::at(bytes, at);
            at = raw.end;
            last = Applied { term: raw.term, index: last.index + 1, crc: raw.crc };
            let start = u32::try_from(raw.start).expect("a batch fits a segment");
            let record = Record {
                index: last.index,
                term: raw.term,
                kind: raw.kind,
                position: Position { segment: header.segment, offset: base + start },
                payload: &bytes[raw.start..raw.end],
            };
            (record, last)
        })
    }
}

/// The smallest batch there is: one record without payload.
pub(super) const BATCH_BYTES_MIN: usize = (BATCH_HEADER + RECORD_HEADER).next_multiple_of(ALIGN);
