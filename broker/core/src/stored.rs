//! The stored form of a message: fields 6 to 15 of `qwerq.v1.Delivered`, already in wire form, so that a delivery copies it verbatim.
//!
//! The journal, the store and the MESSAGE frame hold the same bytes. A test in the broker compares this encoder with prost's.

use crate::ids::{MessageId, Millis};

/// What a message consists of, borrowed from wherever it arrived.
#[derive(Debug, Clone)]
pub struct Content<'a, H> {
    /// The broker's or the client's id.
    pub id: MessageId,
    /// Admission time.
    pub published_at: Millis,
    /// Version of the contract that accepted the payload; 0: none.
    pub schema_version: u32,
    /// Name and value pairs.
    pub headers: H,
    /// Empty: none.
    pub ordering_key: &'a str,
    /// Untouched.
    pub payload: &'a [u8],
}

impl<'a, H: Iterator<Item = (&'a str, &'a str)>> Content<'a, H> {
    /// Appends the stored form.
    pub fn encode(self, out: &mut Vec<u8>) {
        field_bytes(out, 6, &self.id.0);
        field_varint(out, 7, self.published_at);
        if self.schema_version != 0 {
            field_varint(out, 8, u64::from(self.schema_version));
        }
        for (name, value) in self.headers {
            header(out, name, value);
        }
        if !self.ordering_key.is_empty() {
            field_bytes(out, 10, self.ordering_key.as_bytes());
        }
        if !self.payload.is_empty() {
            field_bytes(out, 15, self.payload);
        }
    }
}

/// Appends a header. Behind a whole stored form it is one more header of that message.
pub fn header(out: &mut Vec<u8>, name: &str, value: &str) {
    let length = header_field_len(name) + header_field_len(value);
    tag(out, 9, 2);
    varint(out, length as u64);
    if !name.is_empty() {
        field_bytes(out, 1, name.as_bytes());
    }
    if !value.is_empty() {
        field_bytes(out, 2, value.as_bytes());
    }
}

fn header_field_len(text: &str) -> usize {
    if text.is_empty() { 0 } else { 1 + varint_len(text.len() as u64) + text.len() }
}

/// Bytes that `value` takes as a varint.
#[must_use]
pub fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Appends a protobuf varint.
pub fn varint(out: &mut Vec<u8>, value: u64) {
    crate::codec::put_varint(out, value);
}

/// Appends a tag; the field number is at most 15, so that it takes one byte.
fn tag(out: &mut Vec<u8>, number: u8, wire_type: u8) {
    debug_assert!(number < 16, "one-byte tags only");
    out.push(number << 3 | wire_type);
}

/// Appends a varint field with a number of at most 15.
pub fn field_varint(out: &mut Vec<u8>, number: u8, value: u64) {
    tag(out, number, 0);
    varint(out, value);
}

/// Appends a length-delimited field with a number of at most 15.
pub fn field_bytes(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    tag(out, number, 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A stored form, read without copying. What does not hold together reads as nothing.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Reads a stored form.
    #[must_use]
    pub fn of(stored: &'a [u8]) -> Fields<'a> {
        Fields(stored)
    }

    /// The message's id.
    #[must_use]
    pub fn id(self) -> Option<[u8; 16]> {
        self.all().find(|(number, _)| *number == 6)?.1.try_into().ok()
    }

    /// The value of a header, by its exact name.
    #[must_use]
    pub fn header(self, name: &str) -> Option<&'a str> {
        let headers = self.all().filter(|(number, _)| *number == 9).map(|(_, header)| Fields(header));
        let mut named = headers.filter(|header| header.field(1) == name.as_bytes());
        std::str::from_utf8(named.next()?.field(2)).ok()
    }

    /// A length-delimited field; empty without it.
    fn field(self, wanted: u64) -> &'a [u8] {
        self.all().find(|(number, _)| *number == wanted).map_or(&[], |(_, bytes)| bytes)
    }

    /// Number and bytes of each field; a varint has no bytes.
    fn all(self) -> impl Iterator<Item = (u64, &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let tag = read_varint(&mut rest)?;
            let bytes = match tag & 7 {
                0 => {
                    read_varint(&mut rest)?;
                    &[][..]
                }
                2 => {
                    let length = usize::try_from(read_varint(&mut rest)?).ok()?;
                    let bytes;
                    (bytes, rest) = rest.split_at_checked(length)?;
                    bytes
                }
                _ => return None,
            };
            Some((tag >> 3, bytes))
        })
    }
}

fn read_varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The hash that stands for an ordering key in state and dispatch: FNV-1a of its bytes, never 0. Two keys with the same hash are merely
/// delivered one after the other. It is stored, so the function must not change.
#[must_use]
pub fn key_hash(key: &str) -> u64 {
    if key.is_empty() {
        return 0;
    }
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_lengths() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
        }
    }

    #[test]
    fn a_stored_form_is_read_as_it_was_written() {
        let content = Content {
            id: MessageId([9; 16]),
            published_at: 1_700_000_000_000,
            schema_version: 3,
            headers: [("empty", ""), ("trace", "1"), ("trace", "2")].into_iter(),
            ordering_key: "k",
            payload: b"payload",
        };
        let mut stored = Vec::new();
        content.encode(&mut stored);
        let fields = Fields::of(&stored);
        assert_eq!(fields.id(), Some([9; 16]));
        assert_eq!((fields.header("trace"), fields.header("empty"), fields.header("trac")), (Some("1"), Some(""), None));
        for cut in 0..stored.len() {
            let _ = Fields::of(&stored[..cut]).header("nothing");
        }
    }

    #[test]
    fn key_hash_is_pinned() {
        assert_eq!(key_hash(""), 0);
        assert_eq!(key_hash("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
