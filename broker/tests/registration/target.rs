//! What is done with descriptor bytes from anywhere: everything that a registration does, and what is done with a contract afterwards.
//!
//! Shared by the seeded test beside it and by the fuzz target in `broker/fuzz`. It returns normally or panics.

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet};
use qwerq_broker::json;
use qwerq_broker::registry::compatibility::{Version, compare};
use qwerq_broker::registry::{Contract, Unknown, descriptor_set, lowered};

/// Payloads that may or may not be messages of a type.
const PAYLOADS: &[&[u8]] =
    &[b"", b"\x08\x01", b"\x0a\x03abc", b"\x12\x04\x0a\x02\x08\x01", b"\x0b\x08\x01\x0c", b"\x0a\xff\xff\xff\xff\x0f"];

const TEXTS: &[&str] = &["{}", "null", "1", "\"x\"", "[{}]", r#"{"id":"1","a":null,"text":"x","items":[{}],"@type":"a/b.C"}"#];

/// Registers these bytes and uses what came of it. Says whether they made a contract.
pub(crate) fn registration(bytes: &[u8]) -> bool {
    let lower = lowered(bytes);
    let mut accepted = false;
    for name in names(bytes) {
        let Ok(contract) = Contract::compile(bytes, &name, None) else { continue };
        accepted = true;
        assert!(lower.is_ok(), "what links can be lowered: {name}");
        assert_eq!(contract.message_type(), name);
        // What the store gives back at the next start is the same contract.
        let stored = descriptor_set(contract.files().iter().map(|file| &file.content));
        let again = Contract::restore(&stored, &name, None).expect("what was accepted is accepted again");
        assert_eq!(again.fingerprint(), contract.fingerprint(), "{name}");
        let called = Contract::restore(&stored, &name, Some(&name)).expect("a message can be its own reply");
        assert_eq!(called.reply_type(), Some(name.as_str()));
        for payload in PAYLOADS {
            for unknown in [Unknown::Accept, Unknown::Refuse] {
                assert_eq!(contract.validate(payload, unknown), contract.validate_exactly(payload, unknown), "{name} {payload:02x?}");
            }
        }
        let version = Version::compile(&stored, &name, None).expect("what was accepted links");
        assert_eq!(compare(&version, &version).len(), 0, "{name} breaks nobody's {name}");
        let places = version.places();
        // Nothing is to be found, but looking must be possible.
        drop(places);
        if let Ok(pool) = contract.pool()
            && let Some(descriptor) = pool.get_message_by_name(&name)
        {
            for payload in PAYLOADS {
                if contract.validate(payload, Unknown::Accept).is_ok() {
                    // Either is right; it has to come back.
                    let _ = json::encode(&descriptor, payload);
                }
            }
            for text in TEXTS {
                let _ = json::decode(&descriptor, text.as_bytes());
            }
        }
    }
    accepted
}

/// Names of types to ask for: the set's last one, which is of the file that imports the others, and one that no set has.
fn names(bytes: &[u8]) -> Vec<String> {
    fn collect(scope: &str, message: &DescriptorProto, names: &mut Vec<String>) {
        let name = if scope.is_empty() { message.name().to_owned() } else { format!("{scope}.{}", message.name()) };
        message.nested_type.iter().for_each(|nested| collect(&name, nested, names));
        names.push(name);
    }
    let mut names = Vec::new();
    for file in FileDescriptorSet::decode(bytes).map(|set| set.file).unwrap_or_default() {
        file.message_type.iter().for_each(|message| collect(file.package(), message, &mut names));
    }
    names.pop().into_iter().chain(["no.such.Type".to_owned()]).collect()
}
