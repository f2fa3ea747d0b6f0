//! The compatibility check through the command line: what is refused, what it says, and what of it is only said.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use qwerq_proto::{Opcode, wire};
use serde_json::Value;
use support::broker::Broker;
use support::raw::Raw;

/// .proto files in a folder of their own.
struct Protos(tempfile::TempDir);

impl Protos {
    fn new(files: &[(&str, &str)]) -> Protos {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("the folder takes files");
        }
        Protos(folder)
    }

    fn order(body: &str) -> Protos {
        Protos::new(&[("order.proto", &format!("syntax = \"proto3\";\npackage shop;\n{body}\n"))])
    }

    fn root(&self) -> String {
        self.0.path().join("order.proto").display().to_string()
    }
}

fn schema(broker: &Broker, command: &str, queue: &str, protos: &Protos, message: &str, more: &[&str]) -> Output {
    let root = protos.root();
    let mut args = vec!["schema", command, "-q", queue, "-p", &root, "-m", message];
    args.extend(more);
    broker.run(&args)
}

fn register(broker: &Broker, protos: &Protos) {
    let output = schema(broker, "register", "orders", protos, "shop.Order", &[]);
    assert!(output.status.success(), "{}", stderr(&output));
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {} {}", stdout(output), stderr(output)))
}

/// The versions of `orders`, as `number` or `number active` or `number retired`.
fn versions(broker: &Broker) -> Vec<String> {
    let output = broker.run(&["schema", "history", "-q", "orders", "--json"]);
    let text = stdout(&output);
    let of = |line: &str| -> Value { serde_json::from_str(line).expect("one object a line") };
    text.lines()
        .map(of)
        .map(|version| match (version["active"] == true, version["retired"] == true) {
            (true, _) => format!("{} active", version["version"]),
            (_, true) => format!("{} retired", version["version"]),
            _ => version["version"].to_string(),
        })
        .collect()
}

#[test]
fn every_case_of_evolution_is_registered_or_refused_as_stated() {
    let broker = Broker::start(&[]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/evolution/cases.json");
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).expect("cases.json")).expect("JSON");
    for (number, case) in cases.iter().enumerate() {
        let name = case["name"].as_str().expect("a name");
        let protos = |side: &str| {
            let files: BTreeMap<String, String> = serde_json::from_value(case[side].clone()).expect("files");
            Protos::new(&files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect::<Vec<_>>())
        };
        let (old, new) = (protos("old"), protos("new"));
        // Where the type is gone, the message that is there takes the queue.
        let taken = !std::fs::read_to_string(new.root()).expect("a root file").contains("message Order");
        let new_type = if taken { "shop.Other" } else { "shop.Order" };
        for (level, expected) in case["expect"].as_object().expect("levels") {
            let queue = format!("case-{number}-{level}");
            assert!(broker.run(&["queue", "create", &queue, "--compatibility", level]).status.success(), "{name}");
            assert!(schema(&broker, "register", &queue, &old, "shop.Order", &[]).status.success(), "{name}");
            let checked = schema(&broker, "check", &queue, &new, new_type, &["--json"]);
            let registered = schema(&broker, "register", &queue, &new, new_type, &[]);
            let verdict = json(&checked);
            let allowed = expected == "allow";
            assert_eq!((checked.status.code(), registered.status.success()), (Some(i32::from(!allowed)), allowed), "{name} at {level}");
            assert_eq!(verdict["allowed"], allowed, "{name} at {level}");
            let breaks = verdict["breaks"].as_array().expect("breaks");
            assert_eq!(breaks.is_empty(), allowed, "{name} at {level}");
            if let Some(first) = breaks.first() {
                assert!(first["rule"].as_str().is_some_and(|rule| stderr(&registered).contains(&format!("[{rule}]"))), "{name}");
                if let Some(path) = case["path"].as_str() {
                    assert_eq!(first["path"], path, "{name} at {level}");
                }
            }
        }
    }
}

#[test]
fn a_refusal_names_every_break_with_place_before_after_side_and_what_to_do_instead() {
    let broker = Broker::start(&[]);
    register(&broker, &Protos::order("message Order {\n  string id = 1;\n  int32 qty = 2;\n  string note = 3;\n}"));
    let new = Protos::order("\nmessage Order {\n  string id = 1;\n  int32 quantity = 2;\n  bytes note = 3;\n}");
    let refused = schema(&broker, "register", "orders", &new, "shop.Order", &[]);
    assert_eq!(refused.status.code(), Some(1));
    let text = stderr(&refused);
    for part in [
        "schema-incompatible",
        "the rule wire-json,full,last in 2 places",
        "shop.Order.qty: A field has another name. [field-renamed]",
        "version 1: int32 qty = 2  (order.proto:5:3)",
        "now: int32 quantity = 2  (order.proto:6:3)",
        "shop.Order.note: ",
        "[field-json-incompatible]",
        "breaks: new readers of old messages, old readers of new messages",
        "instead: keep the name",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let checked = schema(&broker, "check", "orders", &new, "shop.Order", &["--json"]);
    let verdict = json(&checked);
    assert_eq!(verdict["breaks"][0]["old_place"], "order.proto:5:3");
    assert_eq!(verdict["warnings"][0]["rule"], "string-became-bytes");
    assert_eq!(json(&schema(&broker, "register", "orders", &new, "shop.Order", &["--json"])), verdict);
    assert_eq!(versions(&broker), ["1 active"]);
    let forced = schema(&broker, "register", "orders", &new, "shop.Order", &["--force"]);
    assert!(forced.status.success(), "{}", stderr(&forced));
    assert!(stdout(&forced).contains("[field-renamed]"), "what was forced is still said: {}", stdout(&forced));
    assert_eq!(versions(&broker), ["1", "2 active"]);
}

#[test]
fn the_brokers_default_the_queues_option_and_the_direction_decide() {
    let broker = Broker::start(&["--compatibility", "source"]);
    let (plain, optional) = (Protos::order("message Order { string id = 1; }"), Protos::order("message Order { optional string id = 1; }"));
    register(&broker, &plain);
    assert!(!schema(&broker, "register", "orders", &optional, "shop.Order", &[]).status.success(), "the broker's default is source");
    let two = |body: &str| Protos::new(&[("order.proto", &format!("syntax = \"proto2\"; package shop; {body}"))]);
    let (loose, tight) = (two("message Order { optional string id = 1; }"), two("message Order { required string id = 1; }"));
    for (rule, tightens, loosens) in
        [("wire,backward", false, true), ("wire,forward", true, false), ("wire,full", false, false), ("none", true, true)]
    {
        for (from, to, allowed) in [(&loose, &tight, tightens), (&tight, &loose, loosens)] {
            let queue = format!("{}-{allowed}-{}", rule.replace(',', "-"), std::ptr::eq(from, &loose));
            assert!(broker.run(&["queue", "create", &queue, "--compatibility", rule]).status.success());
            assert!(schema(&broker, "register", &queue, from, "shop.Order", &[]).status.success());
            let output = schema(&broker, "register", &queue, to, "shop.Order", &[]);
            assert_eq!(output.status.success(), allowed, "{queue}: {}", stderr(&output));
        }
    }
}

#[test]
fn against_all_judges_by_every_version_that_is_not_retired() {
    let broker = Broker::start(&["--compatibility", "wire-json,full,all"]);
    let first = Protos::order("message Order { string id = 1; int32 a = 2; }");
    let second = Protos::order("message Order { string id = 1; reserved 2; reserved \"a\"; }");
    // Only the first version knows what `a` was.
    let third = Protos::order("message Order { string id = 1; string a = 2; }");
    register(&broker, &first);
    register(&broker, &second);
    let text = stderr(&schema(&broker, "register", "orders", &third, "shop.Order", &[]));
    assert!(text.contains("[field-type-incompatible]") && text.contains("[reserved-number-released]"), "{text}");
    assert!(text.contains("version 1: int32 a = 2") && text.contains("version 2: reserved 2"), "{text}");
    assert!(broker.run(&["schema", "retire", "-q", "orders", "--version", "1"]).status.success());
    let text = stderr(&schema(&broker, "register", "orders", &third, "shop.Order", &[]));
    assert!(!text.contains("[field-type-incompatible]") && text.contains("[reserved-number-released]"), "{text}");
}

#[test]
fn known_content_becomes_active_again_after_the_check_with_its_names_and_text_refreshed() {
    let mut broker = Broker::start(&[]);
    let first = Protos::order("message Order { string id = 1; int32 qty = 2; }");
    let second = Protos::order("message Order { string id = 1; reserved 2; reserved \"qty\"; }");
    register(&broker, &first);
    register(&broker, &second);
    let commented = Protos::order("// An order.\nmessage Order { int32 qty = 2; string id = 1; }");
    let refused = schema(&broker, "register", "orders", &commented, "shop.Order", &[]);
    assert!(stderr(&refused).contains("[reserved-number-released]"), "{}", stderr(&refused));
    assert_eq!(versions(&broker), ["1", "2 active"]);
    assert!(schema(&broker, "register", "orders", &commented, "shop.Order", &["--force"]).status.success());
    assert_eq!(versions(&broker), ["1 active", "2"], "the same content in other words is the same version");
    let text = |broker: &Broker| stdout(&broker.run(&["schema", "get", "-q", "orders"]));
    assert!(text(&broker).contains("// An order."), "{}", text(&broker));
    broker.kill();
    broker.restart();
    assert!(text(&broker).contains("// An order."), "{}", text(&broker));
}

#[test]
fn a_refusal_names_the_clients_that_it_would_hit() {
    let broker = Broker::start(&[]);
    register(&broker, &Protos::order("message Order { string id = 1; int32 qty = 2; }"));
    let mut consumer = Raw::hello(broker.address);
    let get = wire::SchemaGet { queue: "orders".to_owned(), ..wire::SchemaGet::default() };
    consumer.send(Opcode::SchemaGet, None, &get);
    let contract = consumer.expect::<wire::SchemaResponse>(Opcode::SchemaResponse).version.expect("a version").fingerprint;
    let consume = wire::Consume { queue: "orders".to_owned(), group: "billing".to_owned(), contract, ..wire::Consume::default() };
    consumer.send(Opcode::Consume, None, &consume);
    let _: wire::ConsumeAck = consumer.expect(Opcode::ConsumeAck);
    assert!(broker.run(&["publish", "-q", "orders", "--body", "{}"]).status.success());
    let new = Protos::order("message Order { string id = 1; }");
    let text = stderr(&schema(&broker, "register", "orders", &new, "shop.Order", &[]));
    assert!(text.contains("test (consumes for billing, version 1, connected)"), "{text}");
    assert!(text.contains("qwer-q (publishes, no known version, last seen"), "{text}");
    let clients = broker.run(&["schema", "clients", "-q", "orders", "--json"]);
    let clients: Vec<Value> = stdout(&clients).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((clients.len(), &clients[1]["version"], &clients[1]["connected"]), (2, &Value::from(1), &Value::from(true)));
    assert_eq!((&clients[0]["role"], &clients[0]["connected"]), (&Value::from("publish"), &Value::from(false)));
}

#[test]
fn a_refusal_names_callers_and_responders_too() {
    let broker = Broker::start(&[]);
    let old = Protos::order("message Order { string id = 1; int32 qty = 2; }");
    let reply = ["--reply", "shop.Order"];
    assert!(schema(&broker, "register", "orders", &old, "shop.Order", &reply).status.success());
    let (mut responder, mut caller) = (Raw::hello(broker.address), Raw::hello(broker.address));
    caller.send(Opcode::SchemaGet, None, &wire::SchemaGet { queue: "orders".to_owned(), ..wire::SchemaGet::default() });
    let contract = caller.expect::<wire::SchemaResponse>(Opcode::SchemaResponse).version.expect("a version").fingerprint;
    let role = wire::Role::Serve as i32;
    let serve = wire::Consume { queue: "orders".to_owned(), role, contract: contract.clone(), ..wire::Consume::default() };
    responder.send(Opcode::Consume, None, &serve);
    let _: wire::ConsumeAck = responder.expect(Opcode::ConsumeAck);
    caller.send(Opcode::Call, Some(1), &wire::Call { queue: "orders".to_owned(), contract, ..wire::Call::default() });
    let _: wire::Call = responder.expect(Opcode::Call);
    let new = Protos::order("message Order { string id = 1; }");
    let text = stderr(&schema(&broker, "register", "orders", &new, "shop.Order", &reply));
    assert!(text.contains("test (calls, version 1, connected)"), "{text}");
    assert!(text.contains("test (serves calls, version 1, connected)"), "{text}");
    drop(responder);
    caller.expect::<wire::Error>(Opcode::Error);
    let roles = || -> Vec<(Value, Value, Value)> {
        let clients = stdout(&broker.run(&["schema", "clients", "-q", "orders", "--json"]));
        let clients = clients.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        clients.map(|client| (client["role"].clone(), client["version"].clone(), client["connected"].clone())).collect()
    };
    // The caller hears of the loss before the list does.
    let wanted = [("call".into(), 1.into(), true.into()), ("serve".into(), 1.into(), false.into())];
    assert!((0..100).any(|_| roles() == wanted), "{:?}", roles());
}

#[test]
fn the_shadow_check_shows_which_stored_messages_a_candidate_would_refuse() {
    let broker = Broker::start(&["--compatibility", "none"]);
    register(&broker, &Protos::order("message Order { bytes id = 1; }"));
    for payload in ["0a0161", "0a01ff", "0a0162", ""] {
        assert!(broker.run(&["publish", "-q", "orders", "--hex", payload]).status.success());
    }
    let text = Protos::order("message Order { string id = 1; }");
    let checked = schema(&broker, "check", "orders", &text, "shop.Order", &["--last", "10", "--json"]);
    assert_eq!(checked.status.code(), Some(1));
    let verdict = json(&checked);
    assert_eq!((&verdict["allowed"], &verdict["stored"][0]["messages"]), (&Value::from(true), &Value::from(4)));
    let refused = verdict["stored"][0]["refused"].as_array().expect("refused messages");
    assert_eq!(refused.len(), 1);
    assert_eq!((&refused[0]["seq"], &refused[0]["violation"], &refused[0]["path"]), (&1.into(), &"utf8".into(), &"id".into()));
    let checked = schema(&broker, "check", "orders", &text, "shop.Order", &["--last", "2"]);
    assert!(checked.status.success(), "the newest two are text: {}", stdout(&checked));
    assert!(stdout(&checked).contains("0 of 2 messages would be refused"), "{}", stdout(&checked));
}

#[test]
fn the_shadow_check_judges_dead_letters_too() {
    let broker = Broker::start(&["--compatibility", "none"]);
    assert!(broker.run(&["queue", "create", "orders", "--on-invalid", "dlq"]).status.success());
    register(&broker, &Protos::order("message Order { string id = 1; }"));
    // No text, so it is a dead letter now; as bytes it would be welcome.
    assert!(broker.run(&["publish", "-q", "orders", "--hex", "0a01ff"]).status.success());
    assert!(broker.run(&["publish", "-q", "orders", "--hex", "0801"]).status.success());
    let candidate = Protos::order("message Order { bytes id = 1; }");
    let verdict = json(&schema(&broker, "check", "orders", &candidate, "shop.Order", &["--last", "10", "--json"]));
    let letters = &verdict["stored"][1];
    assert_eq!((&letters["queue"], &letters["messages"]), (&"orders.dlq".into(), &2.into()), "{verdict}");
    let refused = letters["refused"].as_array().expect("refused letters");
    assert_eq!((refused.len(), &refused[0]["violation"]), (1, &"wire-type".into()), "{verdict}");
}
