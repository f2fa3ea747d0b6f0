//! The validator against `DynamicMessage::decode`, on valid, mutated and random payloads, with every difference named;
//! and against payloads that know where they are broken.

use std::sync::LazyLock;

use proptest::prelude::*;
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};
use qwerq_broker::registry::{Unknown, Violation, ViolationKind};

use crate::{
    payloads::payloads,
    schemas::{Subject, subjects},
};

static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(subjects);

#[test]
fn payloads_that_know_where_they_are_broken_are_refused_there() {
    let mut kinds = std::collections::BTreeMap::new();
    for subject in SUBJECTS.iter() {
        for seed in 0..30 {
            let name = subject.descriptor.full_name();
            let payloads = payloads(&subject.descriptor, seed);
            for unknown in [Unknown::Accept, Unknown::Refuse] {
                let verdict = subject.contract.validate(&payloads.valid, unknown);
                assert_eq!(verdict, Ok(()), "{name} seed {seed} {unknown:?}");
                for invalid in &payloads.invalid {
                    let Err(found) = subject.contract.validate(&invalid.bytes, unknown) else {
                        panic!("{name} seed {seed} {unknown:?}: accepted {invalid:?}");
                    };
                    assert_eq!(
                        (found.kind.name(), &found.path, found.offset),
                        (invalid.kind, &invalid.path, invalid.offset),
                        "{name} seed {seed} {unknown:?}: {found:?}"
                    );
                    *kinds.entry(invalid.kind).or_insert(0) += 1;
                }
            }
            let decoded = DynamicMessage::decode(subject.descriptor.clone(), payloads.valid.as_slice());
            assert!(decoded.is_ok(), "{name} seed {seed}: {decoded:?}");
        }
    }
    assert_eq!(kinds.keys().copied().collect::<Vec<_>>(), ["tag", "truncated", "utf8", "wire-type"]);
}

/// Judges a payload twice and states how the two may differ.
fn check(subject: &Subject, payload: &[u8]) {
    let ours = subject.contract.validate(payload, Unknown::Accept);
    let strict = subject.contract.validate(payload, Unknown::Refuse);
    assert_eq!(ours, subject.contract.validate_exactly(payload, Unknown::Accept), "{subject:?} {payload:02x?}");
    assert_eq!(strict, subject.contract.validate_exactly(payload, Unknown::Refuse), "{subject:?} {payload:02x?}");
    let theirs = DynamicMessage::decode(subject.descriptor.clone(), payload);
    let good = match (&ours, &theirs) {
        (Ok(()), Ok(message)) => is_complete(message),
        (Ok(()), Err(error)) => library_is_stricter(&error.to_string()),
        (Err(_), Err(_)) => true,
        (Err(violation), Ok(message)) => we_are_stricter(violation, payload, message),
    };
    let strict_is_stricter = match (&ours, &strict) {
        (Err(_), strict) => strict.is_err(),
        (Ok(()), Ok(())) => true,
        (Ok(()), Err(violation)) => {
            matches!(violation.kind, ViolationKind::UnknownField | ViolationKind::UnknownEnumNumber)
        }
    };
    let in_place = |verdict: &Result<(), Violation>| match verdict {
        Ok(()) => true,
        Err(found) => found.offset <= payload.len() && found.message.contains(&found.path),
    };
    assert!(
        good && strict_is_stricter && in_place(&ours) && in_place(&strict),
        "{subject:?} {payload:02x?}\nours: {ours:?}\nstrict: {strict:?}\ntheirs: {:?}",
        theirs.as_ref().err()
    );
}

/// What the library refuses and we take: a tenth byte of a varint with bits that fall off, and an unknown field inside
/// the hundredth level.
fn library_is_stricter(error: &str) -> bool {
    error.contains("invalid varint") || error.contains("recursion limit")
}

/// What we refuse and the library takes.
fn we_are_stricter(violation: &Violation, payload: &[u8], message: &DynamicMessage) -> bool {
    let from_tag = &payload[violation.offset..];
    let six_bytes = |bytes: &[u8]| bytes.len() > 5 && bytes[..5].iter().all(|byte| *byte >= 0x80);
    match violation.kind {
        ViolationKind::Required => !is_complete(message),
        // The library reads tags and lengths of up to ten bytes.
        ViolationKind::Tag => six_bytes(from_tag),
        ViolationKind::Length => {
            let tag_len = from_tag.iter().take_while(|byte| **byte >= 0x80).count() + 1;
            six_bytes(&from_tag[tag_len..])
        }
        // The library does not look at the wire type of a map: it takes what follows for the length of an entry.
        ViolationKind::WireType => violation.message.contains("(map) has wire type"),
        // The library does not count map entries as levels.
        ViolationKind::Depth => violation.path.contains('['),
        _ => false,
    }
}

/// Whether a decoded message has all its required fields, and so have the messages in it.
fn is_complete(message: &DynamicMessage) -> bool {
    let descriptor = message.descriptor();
    descriptor.fields().all(|field| !field.is_required() || message.has_field(&field))
        && message.fields().all(|(_, value)| value_is_complete(value))
        && message.extensions().all(|(_, value)| value_is_complete(value))
}

fn value_is_complete(value: &Value) -> bool {
    match value {
        Value::Message(message) => is_complete(message),
        Value::List(values) => values.iter().all(value_is_complete),
        Value::Map(values) => values.values().all(value_is_complete),
        _ => true,
    }
}

/// Parts of an `old.Base` in any order and number, so that what one part lacks another may bring, drop or replace.
fn parts_of_base() -> impl Strategy<Value = Vec<u8>> {
    fn delimited(tag: &'static [u8], content: &[u8]) -> Vec<u8> {
        let len = u8::try_from(content.len() & 0x7f).expect("seven bits");
        [tag, &[len | 0x80, u8::try_from(content.len() >> 7).expect("small contents")], content].concat()
    }
    fn some(pieces: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(pieces, 0..4).prop_map(|pieces| pieces.concat())
    }
    let scalar = prop_oneof![
        4 => Just(b"\x0a\x01a".to_vec()),
        1 => Just(b"\x55abcd".to_vec()),
        1 => Just(b"\x1b\x20\x01\x1c".to_vec()),
        1 => Just(b"\x1b\x1c".to_vec()),
        1 => Just(b"\x4b\x52\x01r\x4c".to_vec()),
        1 => Just(b"\x4b\x4c".to_vec()),
        1 => Just(b"\x62\x04\x08\x01\x12\x00".to_vec()),
        1 => Just(b"\x62\x02\x12\x00".to_vec()),
    ];
    some(scalar).prop_recursive(5, 40, 4, |inner| {
        let key = prop_oneof![Just(&b""[..]), Just(&b"\x0a\x01k"[..]), Just(&b"\x0a\x01l"[..])];
        let entry = (key, prop::collection::vec(inner.clone(), 0..3), any::<bool>()).prop_map(|(key, values, last)| {
            let values: Vec<u8> = values.iter().flat_map(|value| delimited(b"\x12", value)).collect();
            delimited(b"\x5a", &if last { [&values, key].concat() } else { [key, &values].concat() })
        });
        some(prop_oneof![
            2 => inner.clone().prop_map(|parent| delimited(b"\x12", &parent)),
            1 => inner.clone().prop_map(|left| delimited(b"\x42", &left)),
            1 => inner.clone().prop_map(|more| delimited(b"\xa2\x06", &more)),
            3 => (entry.clone(), entry).prop_map(|(first, second)| [first, second].concat()),
            2 => inner,
        ])
    })
}

fn subject() -> impl Strategy<Value = &'static Subject> {
    (0..SUBJECTS.len()).prop_map(|index| &SUBJECTS[index])
}

/// Overwrites, inserts, removes or repeats bytes somewhere.
pub(crate) fn mutate(payload: &mut Vec<u8>, mutations: &[(u8, usize, u8)]) {
    for (how, position, byte) in mutations {
        let position = position % (payload.len() + 1);
        match how % 4 {
            0 => payload.insert(position, *byte),
            1 if position < payload.len() => {
                payload.remove(position);
            }
            2 => payload.truncate(position),
            _ if position < payload.len() => payload[position] = *byte,
            _ => payload.push(*byte),
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_are_judged_alike(subject in subject(), payload in prop::collection::vec(any::<u8>(), 0..64)) {
        check(subject, &payload);
    }

    /// Small numbers make tags and lengths that fit more often than random bytes do.
    #[test]
    fn plausible_bytes_are_judged_alike(subject in subject(), payload in prop::collection::vec(0u8..0x7f, 0..48)) {
        check(subject, &payload);
    }

    #[test]
    fn mutated_payloads_are_judged_alike(
        subject in subject(),
        seed in any::<u64>(),
        mutations in prop::collection::vec((any::<u8>(), any::<usize>(), any::<u8>()), 1..4),
    ) {
        let mut payload = payloads(&subject.descriptor, seed).valid;
        mutate(&mut payload, &mutations);
        check(subject, &payload);
    }

    #[test]
    fn required_fields_are_judged_as_the_decoded_message_has_them(parts in parts_of_base()) {
        // The root is complete, so that the verdict is about what is inside.
        let payload = [b"\x0a\x01a", parts.as_slice()].concat();
        check(SUBJECTS.iter().find(|subject| subject.descriptor.full_name() == "old.Base").expect("it is there"), &payload);
    }

    #[test]
    fn a_payload_before_another_is_judged_as_their_merge(subject in subject(), a in any::<u64>(), b in any::<u64>()) {
        let mut payload = payloads(&subject.descriptor, a).valid;
        payload.extend(payloads(&subject.descriptor, b).valid);
        prop_assert_eq!(subject.contract.validate(&payload, Unknown::Refuse), Ok(()));
        check(subject, &payload);
    }
}
