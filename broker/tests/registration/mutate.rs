//! Mutates protobuf bytes: mostly as a tree, so that what comes out is still a message and reaches beyond the first decoder, sometimes
//! as bytes.

use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};

use crate::rng::Rng;

/// Levels that are read as messages.
const DEPTH_MAX: usize = 12;

/// Bytes that a mutant has at most: what grows in every round would only get slower.
const BYTES_MAX: usize = 64 * 1024;

/// Numbers that are the edge of something in a descriptor: field numbers, types, labels, indexes, editions.
const NUMBERS: &[u64] = &[
    0,
    1,
    2,
    3,
    10,
    11,
    14,
    15,
    18,
    19,
    127,
    128,
    998,
    999,
    1000,
    1001,
    9_999,
    18_999,
    19_000,
    19_999,
    536_870_911,
    536_870_912,
    2_147_483_647,
    2_147_483_648,
    4_294_967_295,
    u64::MAX,
    u64::MAX - 1,
    1 << 63,
];

/// Text that names something, or nothing.
const TEXTS: &[&str] = &[
    "",
    ".",
    "..",
    "a",
    "A.B",
    ".A",
    ".shop.Order",
    "google.protobuf.Any",
    ".google.protobuf.Value",
    "editions",
    "proto2",
    "proto3",
    "1e999",
    "-1",
    "nan",
    "inf",
    "\\377",
    "\\x",
    "key",
    "value",
    "AEntry",
    "\u{e9}",
    "max",
    "9223372036854775808",
];

#[derive(Debug, Clone)]
enum Value {
    Varint(u64),
    Fixed(WireType, Vec<u8>),
    Bytes(Vec<u8>),
    Message(Vec<Field>),
}

#[derive(Debug, Clone)]
struct Field {
    number: u32,
    value: Value,
}

impl Field {
    fn message(&self) -> Option<&Vec<Field>> {
        match &self.value {
            Value::Message(fields) => Some(fields),
            _ => None,
        }
    }
}

/// Changes `bytes` in one to some places; `donor` is what parts are taken from.
pub(crate) fn mutate(rng: &mut Rng, bytes: &[u8], donor: &[u8]) -> Vec<u8> {
    let mut mutant = bytes.to_vec();
    for _ in 0..=rng.below(4) {
        mutant = match parse(&mutant, DEPTH_MAX) {
            Some(mut tree) if rng.percent(85) => {
                let parts = parse(donor, DEPTH_MAX).unwrap_or_default();
                mutate_tree(rng, &mut tree, &parts);
                encoded(&tree)
            }
            _ => mutate_bytes(rng, mutant),
        };
    }
    mutant.truncate(BYTES_MAX);
    mutant
}

fn parse(mut bytes: &[u8], depth: usize) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let (number, wire_type) = decode_key(&mut bytes).ok()?;
        let value = match wire_type {
            WireType::Varint => Value::Varint(decode_varint(&mut bytes).ok()?),
            WireType::SixtyFourBit => Value::Fixed(wire_type, bytes.split_off(..8)?.to_vec()),
            WireType::ThirtyTwoBit => Value::Fixed(wire_type, bytes.split_off(..4)?.to_vec()),
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut bytes).ok()?).ok()?;
                let content = bytes.split_off(..length)?;
                match if depth == 0 || content.is_empty() { None } else { parse(content, depth - 1) } {
                    Some(message) => Value::Message(message),
                    None => Value::Bytes(content.to_vec()),
                }
            }
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        fields.push(Field { number, value });
    }
    Some(fields)
}

fn encoded(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        let (wire_type, content) = match &field.value {
            Value::Varint(value) => {
                encode_key(field.number, WireType::Varint, &mut out);
                encode_varint(*value, &mut out);
                continue;
            }
            Value::Fixed(wire_type, content) => {
                encode_key(field.number, *wire_type, &mut out);
                out.extend_from_slice(content);
                continue;
            }
            Value::Bytes(content) => (WireType::LengthDelimited, content.clone()),
            Value::Message(fields) => (WireType::LengthDelimited, encoded(fields)),
        };
        encode_key(field.number, wire_type, &mut out);
        encode_varint(content.len() as u64, &mut out);
        out.extend_from_slice(&content);
    }
    out
}

/// Goes down to some message of the tree and changes it.
fn mutate_tree(rng: &mut Rng, fields: &mut Vec<Field>, donor: &[Field]) {
    let messages: Vec<usize> = (0..fields.len()).filter(|at| matches!(fields[*at].value, Value::Message(_))).collect();
    if !messages.is_empty() && rng.percent(80) {
        let at = rng.pick(&messages);
        let number = fields[at].number;
        if let Value::Message(inner) = &mut fields[at].value {
            // From a place of the same kind, so that parts fit.
            let twins: Vec<&Vec<Field>> = donor.iter().filter(|part| part.number == number).filter_map(Field::message).collect();
            let parts = if twins.is_empty() { &Vec::new() } else { twins[rng.below(twins.len())] };
            return mutate_tree(rng, inner, parts);
        }
    }
    if fields.is_empty() {
        return fields.extend(part(rng, donor));
    }
    let at = rng.below(fields.len());
    match rng.below(9) {
        0 => {
            fields.remove(at);
        }
        1 => fields.insert(at, fields[at].clone()),
        2 => {
            let to = rng.below(fields.len());
            fields.swap(at, to);
        }
        3 => fields[at].number = u32::try_from(rng.below(20) + 1).expect("it is small"),
        4 => fields.extend(part(rng, donor)),
        // A message inside of itself, up to beyond what a decoder takes.
        5 if matches!(fields[at].value, Value::Message(_)) => {
            for _ in 0..rng.pick(&[1, 1, 2, 120]) {
                let inner = fields[at].clone();
                if let Value::Message(inside) = &mut fields[at].value {
                    *inside = vec![inner];
                }
            }
        }
        _ => mutate_value(rng, &mut fields[at].value),
    }
}

fn part(rng: &mut Rng, donor: &[Field]) -> Option<Field> {
    (!donor.is_empty()).then(|| donor[rng.below(donor.len())].clone())
}

fn mutate_value(rng: &mut Rng, value: &mut Value) {
    match value {
        Value::Varint(number) => {
            *number = match rng.below(3) {
                0 => rng.pick(NUMBERS),
                1 => number.wrapping_add(1),
                _ => number.wrapping_sub(1),
            }
        }
        Value::Fixed(_, content) => content.reverse(),
        Value::Bytes(content) => {
            *content = match rng.below(4) {
                0 => mutate_bytes(rng, std::mem::take(content)),
                _ => rng.pick(TEXTS).as_bytes().to_vec(),
            }
        }
        Value::Message(_) if rng.percent(30) => *value = Value::Bytes(rng.pick(TEXTS).as_bytes().to_vec()),
        Value::Message(fields) => fields.clear(),
    }
}

fn mutate_bytes(rng: &mut Rng, mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.is_empty() {
        return vec![rng.next().to_le_bytes()[0]];
    }
    let at = rng.below(bytes.len());
    match rng.below(5) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        2 => bytes.truncate(at),
        3 => {
            bytes.remove(at);
        }
        _ => {
            let end = (at + 1 + rng.below(32)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
    }
    bytes
}
