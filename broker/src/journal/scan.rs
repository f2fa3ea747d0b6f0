//! Reads batches out of a segment's file through a window, one after the other or wherever they are.
//!
//! It says what is there and what is wrong with it; what that means for the journal is recovery's to say.

use std::io;
use std::ops::RangeInclusive;

use crate::files::File;

use super::batch::{ALIGN, BATCH_HEADER, BatchHeader, MAGIC, WholeBatch};
use super::layout::u32_at;

/// Bytes read ahead at first, and at most: who reads on gets more.
const WINDOW_BYTES: RangeInclusive<usize> = 8 * 1024..=256 * 1024;

/// Why there is no batch at an offset.
pub(super) type Defect = &'static str;

/// A file, seen through the part of it that was read last.
pub(super) struct Scan<'a, H> {
    file: &'a H,
    store_id: u128,
    /// Offset of `window[0]`.
    start: u32,
    window: Vec<u8>,
}

impl<'a, H: File> Scan<'a, H> {
    pub(super) fn new(file: &'a H, store_id: u128) -> Scan<'a, H> {
        Scan { file, store_id, start: 0, window: Vec::new() }
    }

    /// The bytes at `offset`, at most `count`: fewer at the end of the file.
    fn bytes(&mut self, offset: u32, count: usize) -> io::Result<&[u8]> {
        let within = |scan: &Self| -> Option<usize> {
            let at = offset.checked_sub(scan.start)? as usize;
            (at + count <= scan.window.len()).then_some(at)
        };
        if within(self).is_none() {
            let ahead = 2 * self.window.len();
            let ahead = ahead.clamp(*WINDOW_BYTES.start(), *WINDOW_BYTES.end());
            self.window = vec![0; count.max(ahead)];
            let read = self.file.read_at(u64::from(offset), &mut self.window)?;
            self.window.truncate(read);
            self.start = offset;
        }
        let at = (offset - self.start) as usize;
        Ok(&self.window[at..self.window.len().min(at + count)])
    }

    /// The whole batch at `offset`, or what is wrong there.
    pub(super) fn batch_at(&mut self, offset: u32) -> io::Result<Result<WholeBatch<'_>, Defect>> {
        let store_id = self.store_id;
        let header = BatchHeader::decode(self.bytes(offset, BATCH_HEADER)?, store_id, offset);
        let Some(header) = header else {
            return Ok(Err("there is no batch header"));
        };
        let length = header.length as usize;
        let bytes = self.bytes(offset, length)?;
        if bytes.len() < length {
            return Ok(Err("the file ends inside a batch"));
        }
        let whole = WholeBatch::check(header, offset, bytes);
        Ok(whole.ok_or("the records of a batch do not match their checksums"))
    }

    /// All batch headers at or after `offset` whose number is above `number`, whatever is between them.
    pub(super) fn headers_above(&mut self, mut offset: u32, number: u64) -> io::Result<Vec<(u32, BatchHeader)>> {
        let store_id = self.store_id;
        let mut found = Vec::new();
        loop {
            let bytes = self.bytes(offset, *WINDOW_BYTES.end())?;
            if bytes.len() < BATCH_HEADER {
                return Ok(found);
            }
            let last = bytes.len() - BATCH_HEADER;
            for at in (0..=last).step_by(ALIGN) {
                if u32_at(bytes, at) != MAGIC {
                    continue;
                }
                let place = offset + u32::try_from(at).expect("a window is small");
                match BatchHeader::decode(&bytes[at..], store_id, place) {
                    Some(header) if header.number > number => found.push((place, header)),
                    _ => {}
                }
            }
            let step = last / ALIGN * ALIGN + ALIGN;
            offset += u32::try_from(step).expect("a window is small");
        }
    }
}
