//! The JSON mapping against Python's protobuf: thousands of seeded messages and the edges of each type, in both directions.
//!
//! Both must come to the same verdict, and to the same bytes or the same JSON. Where they differ on purpose, `cases` says which way,
//! and docs/json.md why. Python comes from `cargo xtask test`; without it that part is a named skip, in CI a failure.

mod cases;
mod messages;
mod oracle;
#[path = "../journal/rng.rs"]
#[expect(dead_code, reason = "the simulations of the journal draw more kinds of numbers")]
mod rng;
mod sorted;

use std::path::Path;

use bytes::Bytes;
use cases::{CASES, Python};
use messages::Messages;
use oracle::{Answer, Request, ask, hex};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use protox::Compiler;
use protox::file::{ChainFileResolver, GoogleFileResolver, IncludeFileResolver};
use qwerq_broker::json::{Json, JsonError, decode, encode};
use qwerq_broker::registry::Contract;
use rng::Rng;
use sorted::sorted;

/// Decides which messages are made.
const SEED: u64 = 20_261_205;

/// Messages of each type.
const MESSAGES: usize = 400;

const TYPES: &[&str] = &["mapping.Scalars", "mapping.Lists", "mapping.Maps", "mapping.Names", "mapping.Known", "legacy.Old"];

fn pool() -> DescriptorPool {
    let mut resolver = ChainFileResolver::new();
    resolver.add(GoogleFileResolver::new());
    resolver.add(IncludeFileResolver::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/json")));
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).open_file("modern.proto").expect("it compiles");
    // Its own pool has not read all options.
    DescriptorPool::decode(compiler.encode_file_descriptor_set().as_slice()).expect("it links")
}

fn descriptor(pool: &DescriptorPool, name: &str) -> MessageDescriptor {
    pool.get_message_by_name(name).unwrap_or_else(|| panic!("there is a message {name}"))
}

fn value(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn sorted_ours(descriptor: &MessageDescriptor, ours: &Result<Bytes, JsonError>) -> Option<Vec<u8>> {
    ours.as_ref().ok().map(|bytes| sorted(descriptor, bytes))
}

fn sorted_theirs(descriptor: &MessageDescriptor, answer: &Answer) -> Option<Vec<u8>> {
    answer.hex.as_ref().map(|theirs| sorted(descriptor, &oracle::bytes(theirs)))
}

#[test]
fn generated_messages_are_the_same_json_as_pythons_and_come_back_as_the_same_bytes() {
    let Some(python) = oracle::python() else { return };
    let pool = pool();
    let mut messages = Messages { pool: &pool, rng: Rng::new(SEED) };
    let made: Vec<(&str, Vec<u8>)> =
        TYPES.iter().flat_map(|name| (0..MESSAGES).map(|_| *name)).map(|name| (name, messages.payload(&descriptor(&pool, name)))).collect();
    let requests: Vec<_> = made.iter().map(|(name, payload)| Request::Print { r#type: name, hex: hex(payload) }).collect();
    let mut wrong = Vec::new();
    let mut texts: Vec<(&str, String)> = Vec::new();
    let mut refused = 0;
    for ((name, payload), answer) in made.iter().zip(ask(&python, &pool, &requests)) {
        let ours = encode(&descriptor(&pool, name), payload);
        match (ours, answer.texts.as_slice()) {
            (Err(_), []) => refused += 1,
            (Ok(ours), theirs @ [as_it_is, ..]) => {
                if serde_json::Value::from(ours.clone()) != value(as_it_is) {
                    wrong.push(format!("{name} {}\n  ours   {ours}\n  theirs {as_it_is}", hex(payload)));
                }
                texts.push((name, ours.to_string()));
                texts.extend(theirs.iter().map(|text| (*name, text.clone())));
            }
            (ours, _) => wrong.push(format!("{name} {}\n  ours   {ours:?}\n  theirs {answer:?}", hex(payload))),
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), made.len(), wrong[..wrong.len().min(5)].join("\n"));
    assert!(refused > 0 && refused < made.len() / 4, "{refused} messages have no JSON form");
    let requests: Vec<_> = texts.iter().map(|(name, text)| Request::Parse { r#type: name, text }).collect();
    let answers = ask(&python, &pool, &requests);
    for ((name, text), answer) in texts.iter().zip(answers) {
        let ours = decode(&descriptor(&pool, name), text.as_bytes());
        if sorted_ours(&descriptor(&pool, name), &ours) != sorted_theirs(&descriptor(&pool, name), &answer) {
            wrong.push(format!("{name} {text}\n  ours   {ours:02x?}\n  theirs {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), texts.len(), wrong[..wrong.len().min(5)].join("\n"));
}

#[test]
fn the_edges_of_each_type_are_pythons_but_for_those_that_are_said_to_differ() {
    let Some(python) = oracle::python() else { return };
    let pool = pool();
    let cases = || CASES.iter().flat_map(|(name, python, texts)| texts.iter().map(move |text| (*name, *python, *text)));
    let requests: Vec<_> = cases().map(|(name, _, text)| Request::Parse { r#type: name, text }).collect();
    let mut wrong = Vec::new();
    for ((name, python, text), answer) in cases().zip(ask(&python, &pool, &requests)) {
        let ours = decode(&descriptor(&pool, name), text.as_bytes());
        let found = match (&ours, &answer.hex) {
            (Ok(_), Some(_)) if sorted_ours(&descriptor(&pool, name), &ours) != sorted_theirs(&descriptor(&pool, name), &answer) => {
                Python::ReadsAnother
            }
            (Ok(_), Some(_)) | (Err(_), None) => Python::Agrees,
            (Err(_), Some(_)) => Python::IsLaxer,
            (Ok(_), None) => Python::IsStricter,
        };
        if found != python {
            wrong.push(format!("{name} {text}: expected {python:?}, found {found:?}\n  ours   {ours:02x?}\n  theirs {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn an_error_says_where_it_is_and_what_was_expected() {
    let pool = pool();
    for (name, text, path, part) in [
        ("mapping.Known", r#"{"tree":{"rest":[{},{"left":{"name":5}}]}}"#, "tree.rest[1].left.name", "expected a string, found 5"),
        ("mapping.Known", r#"{"tree":{"nmae":"x"}}"#, "tree.nmae", "mapping.Tree has no such field; it has name, left, rest"),
        ("mapping.Maps", r#"{"bools":{"true":{"number":"many"}}}"#, "bools[true].number", "-9223372036854775808 to 9223372036854775807"),
        ("mapping.Maps", r#"{"int32s":{"x":1}}"#, "int32s[x]", "found \"x\""),
        ("mapping.Lists", r#"{"int32s":[1,null]}"#, "int32s[1]", "found null"),
        ("mapping.Names", r#"{"first":1,"second":"x"}"#, "second", "`first` is given too"),
        ("mapping.Names", r#"{"fooBar":1,"foo_bar":1}"#, "foo_bar", "given twice"),
        ("mapping.Scalars", r#"{"fEnum":"GREEN"}"#, "fEnum", "a value of the enum mapping.Color, found \"GREEN\""),
        ("mapping.Scalars", "[]", "", "expected an object, a mapping.Scalars, found an array"),
        ("mapping.Scalars", "{", "", "not JSON: EOF"),
        ("mapping.Known", r#"{"any":{"@type":"a/b.C"}}"#, "any.@type", "no message \"b.C\""),
        ("mapping.Known", r#"{"struct":{"a":[1,{"b":1,"b":2}]}}"#, "struct.a[1].b", "given twice"),
        ("legacy.Old", r#"{"[legacy.steps]":["x"]}"#, "[legacy.steps][0]", "-2147483648 to 2147483647"),
    ] {
        let error = decode(&descriptor(&pool, name), text.as_bytes()).expect_err(text);
        assert_eq!(error.path, path, "{text}");
        assert!(error.message.contains(part), "{text}: {error}");
    }
    // The second of two timestamps has a negative number of nanoseconds.
    let payload = b"\xaa\x01\x00\xaa\x01\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    let error: JsonError = encode(&descriptor(&pool, "mapping.Known"), payload).expect_err("it has no JSON form");
    assert_eq!(error.path, "timestamps[1]");
}

#[test]
fn messages_inside_each_other_end_at_a_hundred() {
    let pool = pool();
    let tree = descriptor(&pool, "mapping.Tree");
    let known = descriptor(&pool, "mapping.Known");
    let nested = |levels: usize| format!("{}{}", "{\"rest\":[".repeat(levels), "]}".repeat(levels)).replace("[]", "[{}]");
    let payload = decode(&tree, nested(99).as_bytes()).expect("100 messages");
    assert_eq!(encode(&tree, &payload).map(|json| json.to_string()), Ok(nested(99)));
    assert!(decode(&tree, nested(100).as_bytes()).is_err());
    let lists = |levels: usize| format!("{{\"value\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    assert!(decode(&known, lists(49).as_bytes()).is_ok());
    assert!(decode(&known, lists(50).as_bytes()).is_err());
    assert!(decode(&known, lists(100_000).as_bytes()).is_err());
    // An Any starts a payload of its own, so their number has to be counted through it.
    let mut any = Vec::new();
    for _ in 0..20_000 {
        let mut outer = b"\x0a\x15x/google.protobuf.Any\x12".to_vec();
        let mut length = any.len();
        while length >= 0x80 {
            outer.push(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
            length >>= 7;
        }
        outer.push(u8::try_from(length).expect("seven bits"));
        outer.extend_from_slice(&any);
        any = outer;
        if any.len() > 200_000 {
            break;
        }
    }
    let descriptor = descriptor(&pool, "google.protobuf.Any");
    let error = encode(&descriptor, &any).expect_err("too deep");
    assert!(error.message.contains("inside each other"), "{error}");
}

#[test]
fn json_reads_as_it_was_written() {
    let pool = pool();
    let scalars = descriptor(&pool, "mapping.Scalars");
    let json = encode(&scalars, &decode(&scalars, br#"{"oDouble":1,"fInt64":"5","fBytes":"_w"}"#).expect("it fits")).expect("it fits");
    assert_eq!(json.to_string(), r#"{"fInt64":"5","fBytes":"/w==","oDouble":1.0}"#);
    let Json::Object(entries) = json else { panic!("it is an object") };
    assert_eq!(entries.len(), 3);
}

#[test]
fn contracts_in_editions_have_json_in_their_lowered_form() {
    let set = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/contracts/editions.protoc.binpb");
    let set = std::fs::read(set).expect("it is there");
    let pool = Contract::compile(&set, "ed.Doc", None).and_then(|contract| contract.pool()).expect("it is a contract");
    let doc = descriptor(&pool, "ed.Doc");
    let text = r#"{"id":"a","part":{"data":"eA=="},"grade":"GRADE_ONE","[ed.extra]":{"data":""}}"#;
    let payload = decode(&doc, text.as_bytes()).expect("it fits");
    assert_eq!(payload.as_ref(), b"\x0a\x01a\x1b\x0a\x01x\x1c\x40\x01\xa2\x06\x02\x0a\x00");
    assert_eq!(encode(&doc, &payload).map(|json| json.to_string()).as_deref(), Ok(text));
    assert!(decode(&doc, br#"{"grade":7}"#).is_err(), "the enum is closed");
}
