//! What becomes of a contract's versions: history, rollback, retirement, deletion, diff, and what survives a restart.

mod support;

use std::process::Output;

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};
use serde_json::Value;
use support::broker::Broker;
use support::raw::Raw;

const FIRST: &str = "syntax = \"proto3\"; package shop; message Order { string id = 1; }";
const SECOND: &str = "syntax = \"proto3\"; package shop; message Order { string id = 1; string note = 2; }";

fn register(broker: &Broker, text: &str) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("order.proto");
    std::fs::write(&file, text).expect("the folder takes files");
    run(broker, &["register", "-p", &file.display().to_string(), "-m", "shop.Order"]);
}

/// Runs `schema ...` for the queue `orders`, which must succeed.
fn run(broker: &Broker, args: &[&str]) -> String {
    let output = try_run(broker, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn try_run(broker: &Broker, args: &[&str]) -> Output {
    broker.run(&[&["schema", args[0], "-q", "orders"], &args[1..]].concat())
}

/// What a refused command says.
fn refusal(broker: &Broker, args: &[&str]) -> String {
    let output = try_run(broker, args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn history(broker: &Broker) -> Vec<(u64, bool, bool)> {
    let lines = run(broker, &["history", "--json"]);
    let of = |line: &str| -> Value { serde_json::from_str(line).expect("one object a line") };
    let facts = |version: Value| (version["version"].as_u64().expect("a number"), version["active"] == true, version["retired"] == true);
    lines.lines().map(of).map(facts).collect()
}

fn fingerprint(raw: &mut Raw, version: u32) -> Bytes {
    raw.send(Opcode::SchemaGet, None, &wire::SchemaGet { queue: "orders".to_owned(), version, ..wire::SchemaGet::default() });
    raw.expect::<wire::SchemaResponse>(Opcode::SchemaResponse).version.expect("a version").fingerprint
}

/// Publishes an empty message as a client of that contract: the version that took it, or the refusal's name.
fn publish(raw: &mut Raw, contract: &Bytes) -> Result<u32, String> {
    let item = wire::PublishItem { payload: Bytes::new(), ..wire::PublishItem::default() };
    let publish = wire::Publish { queue: "orders".to_owned(), items: vec![item], contract: contract.clone(), ..wire::Publish::default() };
    let result = raw.publish(&publish).remove(0);
    result.error.map_or(Ok(result.schema_version), |error| Err(error.name))
}

#[test]
fn a_retired_version_refuses_its_publishers_until_it_is_active_again() {
    let mut broker = Broker::start(&[]);
    register(&broker, FIRST);
    register(&broker, SECOND);
    let mut raw = Raw::hello(broker.address);
    let first = fingerprint(&mut raw, 1);
    assert_eq!(publish(&mut raw, &first), Ok(1));
    assert!(refusal(&broker, &["retire", "--version", "2"]).contains("version 2 is the active one"), "the active one stays");
    assert!(refusal(&broker, &["retire", "--version", "3"]).contains("it has 1 to 2"));
    run(&broker, &["retire", "--version", "1"]);
    assert_eq!(publish(&mut raw, &first), Err("version-retired".to_owned()));
    assert_eq!(publish(&mut raw, &Bytes::new()), Ok(2), "who declares nothing is judged by the active one");
    // The journal first, then the store: both remember.
    for graceful in [false, true] {
        if graceful {
            assert!(broker.terminate().success());
        } else {
            broker.kill();
        }
        broker.restart();
        let mut raw = Raw::hello(broker.address);
        assert_eq!(history(&broker), [(1, false, true), (2, true, false)]);
        assert_eq!(publish(&mut raw, &first), Err("version-retired".to_owned()));
    }
    run(&broker, &["rollback", "--version", "1", "--force"]);
    assert_eq!(history(&broker), [(1, true, false), (2, false, false)]);
    assert_eq!(publish(&mut Raw::hello(broker.address), &first), Ok(1));
}

#[test]
fn a_rollback_is_checked_like_a_registration() {
    let broker = Broker::start(&[]);
    register(&broker, FIRST);
    register(&broker, SECOND);
    let text = refusal(&broker, &["rollback", "--version", "1"]);
    assert!(text.contains("[field-number-not-reserved]") && text.contains("shop.Order.note"), "{text}");
    assert_eq!(history(&broker), [(1, false, false), (2, true, false)]);
    assert!(run(&broker, &["rollback", "--version", "1", "--force"]).contains("version 1 is active"));
    assert!(run(&broker, &["rollback", "--version", "1"]).contains("version 1 is active"), "once more is no error");
    assert!(refusal(&broker, &["rollback", "--version", "9"]).contains("it has 1 to 2"));
    run(&broker, &["rollback", "--version", "2"]);
    assert_eq!(history(&broker), [(1, false, false), (2, true, false)]);
}

#[test]
fn a_deleted_contract_leaves_the_messages_and_its_numbers_are_not_used_again() {
    let mut broker = Broker::start(&[]);
    register(&broker, FIRST);
    register(&broker, SECOND);
    let mut raw = Raw::hello(broker.address);
    assert_eq!(publish(&mut raw, &Bytes::new()), Ok(2));
    run(&broker, &["delete"]);
    assert!(refusal(&broker, &["delete"]).contains("has no contract"));
    assert!(refusal(&broker, &["history"]).contains("has no contract"));
    assert_eq!(publish(&mut raw, &Bytes::new()), Ok(0));
    for graceful in [false, true] {
        if graceful {
            assert!(broker.terminate().success());
        } else {
            broker.kill();
        }
        broker.restart();
        assert!(refusal(&broker, &["history"]).contains("has no contract"));
    }
    register(&broker, FIRST);
    assert_eq!(history(&broker), [(3, true, false)], "a message of version 2 is not taken for one of another contract");
    assert!(broker.terminate().success());
    broker.restart();
    assert_eq!(history(&broker), [(3, true, false)]);
    let mut raw = Raw::hello(broker.address);
    raw.send(Opcode::Peek, None, &wire::Peek { queue: "orders".to_owned(), max: 10, ..wire::Peek::default() });
    let versions: Vec<_> = raw.expect::<wire::Fetched>(Opcode::Fetched).messages.iter().map(|message| message.schema_version).collect();
    assert_eq!(versions, [2, 0]);
}

#[test]
fn a_diff_shows_the_text_and_what_breaks_at_which_level() {
    let broker = Broker::start(&["--compatibility", "none"]);
    register(&broker, "syntax = \"proto3\";\npackage shop;\nmessage Order {\n  string id = 1;\n}\n");
    register(&broker, "syntax = \"proto3\";\npackage shop;\nmessage Order {\n  string number = 1;\n}\n");
    let text = run(&broker, &["diff", "--from", "1"]);
    for part in ["-  string id = 1;", "+  string number = 1;", "shop.Order.id: A field has another name. [field-renamed]", "at wire-json"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let object: Value = serde_json::from_str(&run(&broker, &["diff", "--from", "2", "--to", "1", "--json"])).expect("JSON");
    assert_eq!(object["changes"][0]["path"], "shop.Order.number");
    assert!(run(&broker, &["diff", "--from", "2", "--to", "2"]).contains("nothing that breaks"));
}

#[test]
fn a_message_is_validated_without_being_published() {
    let broker = Broker::start(&[]);
    register(&broker, SECOND);
    assert!(run(&broker, &["validate", "--body", "{\"id\":\"o-1\"}"]).contains("accepted as shop.Order by version 1"));
    assert!(run(&broker, &["validate", "--hex", ""]).contains("accepted"));
    let text = refusal(&broker, &["validate", "--hex", "0801"]);
    assert!(text.contains("schema-violation") && text.contains("path: id") && text.contains("offset: 0"), "{text}");
    let output = try_run(&broker, &["validate", "--hex", "0801", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&object["accepted"], &object["path"], &object["violation"]), (&false.into(), &"id".into(), &"wire-type".into()));
    assert_eq!(output.status.code(), Some(1));
    let strict = Broker::start(&["--schema-mode", "strict"]);
    register(&strict, SECOND);
    let text = refusal(&strict, &["validate", "--hex", "1801"]);
    assert!(text.contains("path: 3"), "{text}");
}
