//! Contracts through a running broker: a .proto goes in by the command line, and payloads are judged by the rules of docs/contracts.md.

mod support;

use std::path::Path;

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};
use serde_json::Value;
use support::broker::Broker;
use support::raw::Raw;

fn data(file: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/validation").join(file).display().to_string()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16).expect("hexadecimal")).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("a byte")).collect()
}

fn register(broker: &Broker, queue: &str, file: &str, message: &str) {
    let output = broker.run(&["schema", "register", "-q", queue, "-p", &data(file), "-m", message]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Whether the path is the case's; below a map a case leaves out the key and what follows.
fn is_path(found: &str, expected: &str) -> bool {
    found == expected || found.strip_prefix(expected).is_some_and(|rest| rest.starts_with('[') && !expected.ends_with(']'))
}

/// Every case of tests/data/validation, in one mode: verdict, path, offset, and accepted bytes come back as they went in.
fn check_cases(mode: &str) {
    let broker = Broker::start(&["--schema-mode", mode]);
    register(&broker, "t.Order", "order.proto", "t.Order");
    register(&broker, "t2.R", "legacy.proto", "t2.R");
    let text = std::fs::read_to_string(data("cases.json")).expect("cases.json");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("cases.json is JSON");
    let mut raw = Raw::hello(broker.address);
    let mut accepted: Vec<(String, Vec<u8>)> = Vec::new();
    for case in &cases {
        let name = case["name"].as_str().expect("name");
        let queue = case["type"].as_str().expect("type");
        let payload = unhex(case["hex"].as_str().expect("hex"));
        let result = raw.publish_payloads(queue, &[&payload]).remove(0);
        match (case[mode].as_str().expect("a verdict"), result.error) {
            ("accept", None) => {
                assert_eq!(result.schema_version, 1, "{name}");
                accepted.push((queue.to_owned(), payload));
            }
            ("refuse", Some(error)) => {
                assert_eq!(error.name, "schema-violation", "{name}: {error:?}");
                assert_eq!(error.details["version"], "1", "{name}");
                assert_eq!(error.details["type"], queue, "{name}");
                if let Some(path) = case["path"].as_str() {
                    assert!(is_path(&error.details["path"], path), "{name}: {path} is not in {}", error.message);
                }
                if let Some(offset) = case["offset"].as_u64() {
                    assert_eq!(error.details["offset"], offset.to_string(), "{name}: {}", error.message);
                }
            }
            (verdict, error) => panic!("{name}: {mode} should {verdict}, got {error:?}"),
        }
    }
    assert!(cases.len() >= 60 && !accepted.is_empty(), "the cases are there");
    for queue in ["t.Order", "t2.R"] {
        let expected: Vec<_> = accepted.iter().filter(|(of, _)| of == queue).map(|(_, payload)| Bytes::from(payload.clone())).collect();
        let prefetch = u32::try_from(expected.len()).expect("a few");
        raw.send(Opcode::Consume, None, &wire::Consume { queue: queue.to_owned(), prefetch, ..wire::Consume::default() });
        let _: wire::ConsumeAck = raw.expect(Opcode::ConsumeAck);
        let mut consumed = Vec::new();
        while consumed.len() < expected.len() {
            let deliver: wire::Deliver = raw.expect(Opcode::Message);
            consumed.extend(deliver.messages.into_iter().map(|message| message.payload));
        }
        assert_eq!(consumed, expected, "{queue}");
        raw.send(Opcode::Unsubscribe, None, &wire::Unsubscribe::default());
        let _: wire::SubscriptionEnded = raw.expect(Opcode::SubscriptionEnded);
    }
}

#[test]
fn permissive_mode_judges_every_case_as_written() {
    check_cases("permissive");
}

#[test]
fn strict_mode_judges_every_case_as_written() {
    check_cases("strict");
}

#[test]
fn strict_mode_refuses_a_queue_without_a_contract_and_says_what_to_do() {
    let broker = Broker::start(&["--schema-mode", "strict"]);
    let mut raw = Raw::hello(broker.address);
    let result = raw.publish_payloads("untyped", &[b"x"]).remove(0);
    let error = result.error.expect("refused");
    assert_eq!(error.name, "contract-required");
    assert!(error.message.contains("qwer-q schema register -q untyped"), "{}", error.message);
    // Nor does whoever would consume it make the queue.
    raw.send(
        Opcode::Consume,
        None,
        &wire::Consume { queue: "untyped".to_owned(), subscription: 1, prefetch: 1, ..wire::Consume::default() },
    );
    raw.expect_error("contract-required");
    raw.send(Opcode::Fetch, None, &wire::Fetch { queue: "untyped".to_owned(), max: 1, ..wire::Fetch::default() });
    raw.expect_error("contract-required");
    raw.send(Opcode::QueueInfo, None, &wire::QueueName { name: "untyped".to_owned() });
    raw.expect_error("queue-not-found");
}

#[test]
fn one_bad_item_does_not_fail_its_neighbours_unless_the_publish_is_atomic() {
    let broker = Broker::start(&[]);
    register(&broker, "orders", "order.proto", "t.Order");
    let mut raw = Raw::hello(broker.address);
    let good: &[u8] = &[0x0a, 1, b'a'];
    let bad: &[u8] = &[0x08, 1];
    let results = raw.publish_payloads("orders", &[good, bad, good]);
    let codes: Vec<_> = results.iter().map(|result| result.error.as_ref().map(|error| error.name.as_str())).collect();
    assert_eq!(codes, [None, Some("schema-violation"), None]);
    assert_eq!((results[0].seq, results[2].seq), (Some(0), Some(1)));
    let item = |payload: &[u8]| wire::PublishItem { payload: Bytes::copy_from_slice(payload), ..wire::PublishItem::default() };
    let publish = wire::Publish {
        queue: "orders".to_owned(),
        items: vec![item(good), item(bad), item(good)],
        atomic: true,
        ..wire::Publish::default()
    };
    let codes: Vec<_> = raw.publish(&publish).iter().map(|result| result.error.as_ref().expect("refused").name.clone()).collect();
    assert_eq!(codes, ["atomic-refused", "schema-violation", "atomic-refused"]);
    let results = raw.publish_payloads("orders", &[good]);
    assert_eq!(results[0].seq, Some(2), "the atomic publish stored nothing");
}

#[test]
fn the_same_content_is_the_same_version_and_survives_a_restart() {
    let mut broker = Broker::start(&[]);
    register(&broker, "orders", "order.proto", "t.Order");
    register(&broker, "orders", "order.proto", "t.Order");
    let list = |broker: &Broker| {
        let output = broker.run(&["schema", "list", "--json"]);
        let text = String::from_utf8(output.stdout).expect("JSON");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect();
        assert_eq!(lines.len(), 1, "{text}");
        lines[0].clone()
    };
    let before = list(&broker);
    assert_eq!(before["version"], 1);
    broker.kill();
    broker.restart();
    assert_eq!(list(&broker), before);
    let mut raw = Raw::hello(broker.address);
    raw.send(Opcode::SchemaGet, None, &wire::SchemaGet { queue: "orders".to_owned(), ..wire::SchemaGet::default() });
    let response: wire::SchemaResponse = raw.expect(Opcode::SchemaResponse);
    let version = response.version.expect("a version");
    let register = wire::SchemaRegister {
        queue: "orders".to_owned(),
        descriptor_set: response.descriptor_set,
        message_type: version.message_type.clone(),
        ..wire::SchemaRegister::default()
    };
    raw.send(Opcode::SchemaRegister, None, &register);
    let again: wire::SchemaResponse = raw.expect(Opcode::SchemaResponse);
    assert!(again.existed);
    assert_eq!(again.version.expect("a version"), version, "what schema get returns registers as the same version");
    let error = raw.publish_payloads("orders", &[&[0x08, 1]]).remove(0).error.expect("still judged after the restart");
    assert_eq!(error.details["path"], "id");
}

#[test]
fn sixty_four_parallel_registrations_make_one_version() {
    let broker = Broker::start(&[]);
    let set = {
        register(&broker, "source", "order.proto", "t.Order");
        let mut raw = Raw::hello(broker.address);
        raw.send(Opcode::SchemaGet, None, &wire::SchemaGet { queue: "source".to_owned(), ..wire::SchemaGet::default() });
        raw.expect::<wire::SchemaResponse>(Opcode::SchemaResponse).descriptor_set
    };
    let threads: Vec<_> = (0..64)
        .map(|_| {
            let (set, address) = (set.clone(), broker.address);
            std::thread::spawn(move || {
                let mut raw = Raw::hello(address);
                let register = wire::SchemaRegister {
                    queue: "target".to_owned(),
                    descriptor_set: set,
                    message_type: "t.Order".to_owned(),
                    ..wire::SchemaRegister::default()
                };
                raw.send(Opcode::SchemaRegister, None, &register);
                let response: wire::SchemaResponse = raw.expect(Opcode::SchemaResponse);
                // Registered is in force: the next publish is judged by it.
                let error = raw.publish_payloads("target", &[&[0x08, 1]]).remove(0).error.expect("judged");
                assert_eq!(error.name, "schema-violation");
                response.version.expect("a version").version
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("registered"), 1);
    }
}

#[test]
fn descriptor_sets_that_are_none_are_refused_and_the_broker_goes_on() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    let editions: &[u8] = b"\x0a\x1e\x0a\x07e.proto\x22\x03\x0a\x01M\x62\x08editions\x70\xe8\x07";
    for set in [&b"garbage"[..], b"", b"\x0a\x02\x0a\x05", editions] {
        let register = wire::SchemaRegister {
            queue: "bad".to_owned(),
            descriptor_set: Bytes::copy_from_slice(set),
            message_type: "shop.Order".to_owned(),
            ..wire::SchemaRegister::default()
        };
        raw.send(Opcode::SchemaRegister, None, &register);
        let error: wire::Error = raw.expect(Opcode::Error);
        assert!(matches!(error.code, 1100..1200), "{error:?}");
    }
    assert!(raw.publish_payloads("fine", &[b"x"])[0].error.is_none());
}
