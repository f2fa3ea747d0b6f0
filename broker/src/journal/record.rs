//! One record: its place, its layout, and the chain that ties it to the record before it.
//!
//! Layout, little-endian: `crc u32 | payload length u32 | term u64 | kind u8 | payload`. The CRC covers the
//! previous record's CRC and everything after the field itself. The index is not stored: the batch states that
//! of its first record (`batch.rs`), and the chain fixes the order. What a payload means is the caller's.

use super::layout::{put, u32_at, u64_at};

/// Bytes of a record before its payload.
pub(super) const RECORD_HEADER: usize = 17;
const LENGTH: usize = 4;
const TERM: usize = 8;
const KIND: usize = 16;

/// Where bytes of a record are: the number of a segment (not of a file, which is reused) and a byte offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Number of the segment.
    pub segment: u32,
    /// Offset in bytes from the start of the segment.
    pub offset: u32,
}

/// A record as recovery and readers hand it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Index in the journal; the first is 1, and there are no gaps.
    pub index: u64,
    /// Raft term in which it was written; the caller's on one node.
    pub term: u64,
    /// The caller's record type.
    pub kind: u8,
    /// Where `payload` begins.
    pub position: Position,
    /// The bytes that the caller wrote.
    pub payload: &'a [u8],
}

/// Identifies a record and, through the chain, everything before it. The default stands before the first record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Applied {
    /// Term of the record.
    pub term: u64,
    /// Index of the record; 0 when there is none.
    pub index: u64,
    /// Its chained CRC.
    pub crc: u32,
}

/// Continues the chain: the CRC of `bytes` as if they followed all that `previous` covers.
pub(super) fn chain(previous: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(previous, bytes)
}

/// Appends the header of a record whose payload is to follow; returns where the record starts.
pub(super) fn begin(buffer: &mut Vec<u8>, term: u64, kind: u8) -> usize {
    let start = buffer.len();
    let mut header = [0; RECORD_HEADER];
    put(&mut header, TERM, &term.to_le_bytes());
    header[KIND] = kind;
    buffer.extend_from_slice(&header);
    start
}

/// Fills in the length of the record that started at `start` and ends with the buffer.
pub(super) fn end(buffer: &mut [u8], start: usize) {
    let payload = buffer.len() - start - RECORD_HEADER;
    let payload = u32::try_from(payload).expect("a batch is smaller than 4 GiB");
    put(buffer, start + LENGTH, &payload.to_le_bytes());
}

/// Computes and fills in the CRC of the record at `start`; returns it with the record's end.
pub(super) fn seal(buffer: &mut [u8], start: usize, previous: u32) -> (u32, usize) {
    let end = start + RECORD_HEADER + u32_at(buffer, start + LENGTH) as usize;
    let crc = chain(previous, &buffer[start + LENGTH..end]);
    put(buffer, start, &crc.to_le_bytes());
    (crc, end)
}

/// A record found in a batch's bytes; `start` and `end` delimit the payload in them.
pub(super) struct Raw {
    pub(super) term: u64,
    pub(super) kind: u8,
    pub(super) crc: u32,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Reads the record at `start`, or `None` when it does not fit or does not continue the chain.
pub(super) fn parse(bytes: &[u8], start: usize, previous: u32) -> Option<Raw> {
    let payload = start.checked_add(RECORD_HEADER)?;
    if payload > bytes.len() {
        return None;
    }
    let raw = at(bytes, start);
    let crc = chain(previous, bytes.get(start + LENGTH..raw.end)?);
    (crc == raw.crc).then_some(raw)
}

/// The record at `start` of bytes that were checked before.
pub(super) fn at(bytes: &[u8], start: usize) -> Raw {
    let payload = start + RECORD_HEADER;
    Raw {
        term: term(bytes, start),
        kind: bytes[start + KIND],
        crc: u32_at(bytes, start),
        start: payload,
        end: payload.saturating_add(u32_at(bytes, start + LENGTH) as usize),
    }
}

/// Term of the record at `start`.
pub(super) fn term(bytes: &[u8], start: usize) -> u64 {
    u64_at(bytes, start + TERM)
}
