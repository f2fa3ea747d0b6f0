//! Reads the raw bytes of an options message: single options by number, and the feature sets of editions.
//!
//! It knows the wire format and the numbers in descriptor.proto, no schema. Broken option bytes end the walk silently:
//! an option that cannot be read is not set, and whoever keeps the bytes keeps them whole.

use bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint};

/// One field of an options message.
pub(crate) struct RawField<'a> {
    pub(crate) number: u32,
    pub(crate) value: RawValue<'a>,
}

/// A field's value as the wire shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RawValue<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(&'a [u8]),
    /// A group, its end tag cut off.
    Group(&'a [u8]),
}

/// Groups deeper than this end the walk.
const GROUP_DEPTH_MAX: u32 = 100;

/// The fields of a message, until its end or the first byte that is not wire format.
pub(crate) struct RawFields<'a> {
    rest: &'a [u8],
}

impl<'a> RawFields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> RawFields<'a> {
        RawFields { rest: bytes }
    }

    /// What the walk has not read; empty after a clean end.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for RawFields<'a> {
    type Item = RawField<'a>;

    fn next(&mut self) -> Option<RawField<'a>> {
        let mut rest = self.rest;
        let field = take_field(&mut rest, GROUP_DEPTH_MAX)?;
        self.rest = rest;
        Some(field)
    }
}

fn take_field<'a>(s: &mut &'a [u8], depth: u32) -> Option<RawField<'a>> {
    let tag = u32::try_from(take_varint(s)?).ok()?;
    let number = tag >> 3;
    let value = match tag & 7 {
        0 => RawValue::Varint(take_varint(s)?),
        1 => RawValue::Fixed64(take_array(s)?),
        2 => {
            let len = usize::try_from(take_varint(s)?).ok()?;
            let (value, rest) = s.split_at_checked(len)?;
            *s = rest;
            RawValue::Bytes(value)
        }
        3 => {
            let start = *s;
            loop {
                let body = start.len() - s.len();
                let mut after_tag = *s;
                let inner = u32::try_from(take_varint(&mut after_tag)?).ok()?;
                if inner == number << 3 | 4 {
                    *s = after_tag;
                    break RawValue::Group(&start[..body]);
                }
                take_field(s, depth.checked_sub(1)?)?;
            }
        }
        5 => RawValue::Fixed32(take_array(s)?),
        _ => return None,
    };
    (number != 0).then_some(RawField { number, value })
}

pub(crate) fn take_varint(s: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for i in 0..10 {
        let (&byte, rest) = s.split_first()?;
        *s = rest;
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take_array<const N: usize>(s: &mut &[u8]) -> Option<[u8; N]> {
    let (value, rest) = s.split_first_chunk()?;
    *s = rest;
    Some(*value)
}

/// Appends a field.
pub(crate) fn put(out: &mut Vec<u8>, number: u32, value: RawValue<'_>) {
    match value {
        RawValue::Varint(value) => {
            encode_key(number, WireType::Varint, out);
            encode_varint(value, out);
        }
        RawValue::Fixed64(value) => {
            encode_key(number, WireType::SixtyFourBit, out);
            out.extend_from_slice(&value);
        }
        RawValue::Fixed32(value) => {
            encode_key(number, WireType::ThirtyTwoBit, out);
            out.extend_from_slice(&value);
        }
        RawValue::Bytes(value) => {
            encode_key(number, WireType::LengthDelimited, out);
            encode_varint(value.len() as u64, out);
            out.extend_from_slice(value);
        }
        RawValue::Group(value) => {
            encode_key(number, WireType::StartGroup, out);
            out.extend_from_slice(value);
            encode_key(number, WireType::EndGroup, out);
        }
    }
}

/// The parts of an options message as one message.
pub(crate) fn joined(parts: &[Bytes]) -> Bytes {
    match parts {
        [] => Bytes::new(),
        [only] => only.clone(),
        many => many.concat().into(),
    }
}

/// A bool option; the last one wins.
pub(crate) fn flag(options: &[u8], number: u32) -> bool {
    varint(options, number).is_some_and(|value| value != 0)
}

/// A varint option; the last one wins.
pub(crate) fn varint(options: &[u8], number: u32) -> Option<u64> {
    RawFields::new(options)
        .filter_map(|field| match field.value {
            RawValue::Varint(value) if field.number == number => Some(value),
            _ => None,
        })
        .last()
}

/// Numbers of `features` in the options messages of descriptor.proto.
pub(crate) mod features_number {
    pub(crate) const FILE: u32 = 50;
    pub(crate) const MESSAGE: u32 = 12;
    pub(crate) const FIELD: u32 = 21;
    pub(crate) const ENUM: u32 = 7;
}

/// The features that decide what is on the wire, resolved for one scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Features {
    pub(crate) presence: Presence,
    pub(crate) closed_enums: bool,
    pub(crate) packed: bool,
    pub(crate) delimited: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Explicit,
    Implicit,
    Required,
}

impl Features {
    pub(crate) const PROTO2: Features = Features { presence: Presence::Explicit, closed_enums: true, packed: false, delimited: false };
    pub(crate) const PROTO3: Features = Features { presence: Presence::Implicit, closed_enums: false, packed: true, delimited: false };
    /// Editions 2023 and 2024 agree in these.
    pub(crate) const EDITIONS: Features = Features { presence: Presence::Explicit, closed_enums: false, packed: true, delimited: false };

    /// These features as overridden by the `features` of an options message, field `number` of it.
    pub(crate) fn overridden(mut self, options: &[u8], number: u32) -> Features {
        for field in RawFields::new(options).filter(|field| field.number == number) {
            let RawValue::Bytes(set) = field.value else {
                continue;
            };
            for feature in RawFields::new(set) {
                let RawValue::Varint(value) = feature.value else {
                    continue;
                };
                match (feature.number, value) {
                    (1, 1) => self.presence = Presence::Explicit,
                    (1, 2) => self.presence = Presence::Implicit,
                    (1, 3) => self.presence = Presence::Required,
                    (2, 1) => self.closed_enums = false,
                    (2, 2) => self.closed_enums = true,
                    (3, 1) => self.packed = true,
                    (3, 2) => self.packed = false,
                    (5, 1) => self.delimited = false,
                    (5, 2) => self.delimited = true,
                    _ => {}
                }
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_an_option_wins_and_broken_bytes_end_the_walk() {
        assert!(flag(&[0x38, 0, 0x38, 1], 7));
        assert!(!flag(&[0x38, 1, 0x38, 0], 7));
        assert!(!flag(&[], 7));
        let mut fields = RawFields::new(&[0x08, 1, 0x0a, 9]);
        assert_eq!(fields.by_ref().count(), 1);
        assert_eq!(fields.rest(), [0x0a, 9]);
    }

    #[test]
    fn groups_are_taken_whole_and_bounded() {
        let mut fields = RawFields::new(&[0x0b, 0x10, 1, 0x0c, 0x18, 2]);
        assert!(matches!(fields.next().map(|f| f.value), Some(RawValue::Group(&[0x10, 1]))));
        assert!(matches!(fields.next().map(|f| f.value), Some(RawValue::Varint(2))));
        assert!(RawFields::new(&[0x0b; 100_000]).next().is_none());
    }

    #[test]
    fn features_override_field_by_field() {
        // features (21) { field_presence: LEGACY_REQUIRED, message_encoding: DELIMITED }
        let options = [0xaa, 0x01, 4, 0x08, 3, 0x28, 2];
        let features = Features::EDITIONS.overridden(&options, features_number::FIELD);
        assert_eq!(features.presence, Presence::Required);
        assert!(features.delimited && features.packed && !features.closed_enums);
    }
}
