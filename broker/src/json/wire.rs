//! Writes a message's fields in the order of their numbers, whatever order they came in, so that one JSON object has one payload.

use std::collections::BTreeMap;

use prost::encoding::{WireType, encode_key, encode_varint};

/// The fields of one message, encoded.
#[derive(Debug, Default)]
pub(super) struct Fields {
    by_number: BTreeMap<u32, Vec<u8>>,
}

impl Fields {
    pub(super) fn put(&mut self, number: u32, encoded: Vec<u8>) {
        self.by_number.insert(number, encoded);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        let mut parts = self.by_number.into_values();
        let mut bytes = parts.next().unwrap_or_default();
        parts.for_each(|part| bytes.extend_from_slice(&part));
        bytes
    }
}

/// A field of bytes, text or a message.
pub(super) fn put_bytes(number: u32, content: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

pub(super) fn put_varint(number: u32, value: u64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value, out);
}

pub(super) fn put_double(number: u32, value: f64, out: &mut Vec<u8>) {
    encode_key(number, WireType::SixtyFourBit, out);
    out.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn put_group(number: u32, content: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::StartGroup, out);
    out.extend_from_slice(content);
    encode_key(number, WireType::EndGroup, out);
}
