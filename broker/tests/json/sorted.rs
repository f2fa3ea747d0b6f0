//! A payload with its fields in the order of their numbers and its maps in the order of their entries' bytes: what two encoders that
//! are free in both have in common.

use std::collections::BTreeMap;

use prost_reflect::prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};
use prost_reflect::{Kind, MessageDescriptor};

pub(crate) fn sorted(descriptor: &MessageDescriptor, payload: &[u8]) -> Vec<u8> {
    let mut rest = payload;
    let fields = fields(descriptor, &mut rest, None);
    assert!(rest.is_empty(), "a payload has no groups that end");
    fields
}

/// The fields up to the end of the group `group`, or all.
fn fields(descriptor: &MessageDescriptor, rest: &mut &[u8], group: Option<u32>) -> Vec<u8> {
    let mut records: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
    while !rest.is_empty() {
        let (number, wire_type) = decode_key(rest).expect("it is valid");
        if wire_type == WireType::EndGroup {
            assert_eq!(Some(number), group);
            break;
        }
        let mut record = Vec::new();
        encode_key(number, wire_type, &mut record);
        let kind = descriptor.get_field(number).map(|field| field.kind());
        let kind = kind.or_else(|| descriptor.get_extension(number).map(|extension| extension.kind()));
        match (wire_type, &kind) {
            (WireType::Varint, _) => encode_varint(decode_varint(rest).expect("it is valid"), &mut record),
            (WireType::SixtyFourBit, _) => record.extend_from_slice(rest.split_off(..8).expect("it is valid")),
            (WireType::ThirtyTwoBit, _) => record.extend_from_slice(rest.split_off(..4).expect("it is valid")),
            (WireType::StartGroup, Some(Kind::Message(inner))) => {
                record.extend(fields(inner, rest, Some(number)));
                encode_key(number, WireType::EndGroup, &mut record);
            }
            (WireType::LengthDelimited, kind) => {
                let length = usize::try_from(decode_varint(rest).expect("it is valid")).expect("it is short");
                let content = rest.split_off(..length).expect("it is valid");
                let content = match kind {
                    Some(Kind::Message(inner)) => sorted(inner, content),
                    _ => content.to_vec(),
                };
                encode_varint(content.len() as u64, &mut record);
                record.extend(content);
            }
            (other, _) => panic!("the contract knows the group {number}: {other:?}"),
        }
        records.entry(number).or_default().push(record);
    }
    for (number, records) in &mut records {
        if descriptor.get_field(*number).is_some_and(|field| field.is_map()) {
            records.sort();
        }
    }
    records.into_values().flatten().flatten().collect()
}
