//! `/api/v1/ws`: what the broker tells those who watch, and the examples of docs/events.md.

mod support;

use std::collections::BTreeSet;
use std::net::TcpStream;

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use support::broker::Broker;
use support::raw::Raw;

/// Somebody who watches.
struct Watcher(WebSocket<TcpStream>);

impl Watcher {
    /// Connects, or says with which status it was refused.
    fn connect(broker: &Broker, headers: &[(&'static str, &str)]) -> Result<Watcher, u16> {
        let mut request = format!("ws://{}/api/v1/ws", broker.http).into_client_request().expect("an address");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        let stream = TcpStream::connect(broker.http).expect("HTTP listens");
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Watcher(socket)),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => Err(response.status().as_u16()),
            Err(error) => panic!("no handshake: {error}"),
        }
    }

    fn open(broker: &Broker) -> Watcher {
        Watcher::connect(broker, &[]).unwrap_or_else(|status| panic!("refused with {status}"))
    }

    fn ask(&mut self, request: &Value) {
        self.0.send(Message::Text(request.to_string().into())).expect("the broker reads");
    }

    /// The next event; `None` when the broker closed.
    fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.read().ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).expect("an event is JSON")),
                Message::Close(close) => {
                    assert_eq!(close.map(|close| close.code.into()), Some(1001_u16));
                    return None;
                }
                _ => {}
            }
        }
    }

    /// The first event of which `wanted` holds.
    fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = self.next().expect("the broker goes on");
            if wanted(&event) {
                return event;
            }
        }
    }
}

fn queue<'a>(event: &'a Value, name: &str) -> Option<&'a Value> {
    event["queues"].as_array()?.iter().find(|queue| queue["name"] == name)
}

#[test]
fn a_watcher_sees_a_snapshot_and_then_what_happens() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.publish_payloads("orders", &[b"1", b"2", b"3"]);
    raw.publish_payloads("quiet", &[b"1"]);
    let mut watcher = Watcher::open(&broker);
    let snapshot = watcher.next().expect("a snapshot");
    assert_eq!(snapshot["type"], "snapshot");
    assert_eq!(snapshot["totals"]["depth"], 4);
    assert_eq!(queue(&snapshot, "orders").expect("it is shown")["counts"]["published"], 3);
    assert_eq!(watcher.next().expect("a tick")["type"], "tick");

    raw.consume("orders", "billing", 10);
    let messages = raw.take(3);
    raw.ack(&messages[0]);
    raw.settle(Opcode::Reject, &messages[1], wire::Settle { reason: "no such customer".to_owned(), ..wire::Settle::default() });
    let tick = watcher.until(|event| queue(event, "orders").is_some_and(|orders| orders["counts"]["dead_lettered"] == 1));
    let orders = queue(&tick, "orders").expect("it is shown");
    assert_eq!((&orders["depth"], &orders["in_flight"], &orders["consumers"]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!((&orders["dead_letters"], &tick["totals"]["dead_letters"]), (&json!(1), &json!(1)));
    assert_eq!((&orders["counts"]["delivered"], &orders["counts"]["acked"]), (&json!(3), &json!(1)));
    assert!(orders["rates"]["delivered"].as_f64().expect("a rate") > 0.0, "{orders}");
    let trouble = json!([{"kind": "dead-letters", "severity": "bad", "text": "1 dead letter, 1 in 10 s"}]);
    assert_eq!((&orders["troubles"], &tick["totals"]["troubled"]), (&trouble, &json!(1)));
    // The busiest come first.
    assert_eq!(tick["queues"][0]["name"], "orders");
}

#[test]
fn a_watcher_chooses_what_it_sees() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    for name in ["a", "b", "c"] {
        raw.create(name, wire::QueueOptions::default());
    }
    raw.send(Opcode::GroupCreate, None, &wire::GroupRequest { queue: "b".to_owned(), group: "g".to_owned(), start_at: None });
    let _: wire::Done = raw.expect(Opcode::Done);
    let mut watcher = Watcher::open(&broker);
    assert_eq!(watcher.next().expect("a snapshot")["queues"].as_array().map(Vec::len), Some(3));
    watcher.ask(&json!({"watch": {"top": 1, "queues": ["c"], "groups": ["b", "gone"]}}));
    let snapshot = watcher.until(|event| event["type"] == "snapshot");
    let names: Vec<_> = snapshot["queues"].as_array().expect("a list").iter().map(|queue| queue["name"].clone()).collect();
    assert_eq!(names, ["b", "c", "a"]);
    assert_eq!(queue(&snapshot, "b").expect("it is shown")["groups"][0]["name"], "g");
    assert!(queue(&snapshot, "c").expect("it is shown").get("groups").is_none());
    watcher.ask(&json!({"watch": {"top": 1_000}}));
    let error = watcher.until(|event| event["type"] == "error");
    assert!(error["message"].as_str().expect("text").contains("at most 200"), "{error}");
    assert_eq!(watcher.until(|event| event["type"] == "tick")["queues"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_contract_that_changes_is_told_to_watchers_and_to_clients_that_asked() {
    let broker = Broker::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let register = |fields: &str, further: &[&str]| {
        let file = folder.path().join("shop.proto");
        std::fs::write(&file, format!("syntax = \"proto3\";\nmessage Order {{ {fields} }}\n")).expect("writable");
        let file = file.to_str().expect("UTF-8");
        let done = broker.run(&[&["schema", "register", "-q", "orders", "-p", file, "-m", "Order"], further].concat());
        assert!(done.status.success(), "{done:?}");
    };
    register("string id = 1;", &[]);
    let mut listener = Raw::connect(broker.address);
    let features = vec!["schema-events".to_owned(), "no-such-thing".to_owned()];
    listener.send(Opcode::Hello, None, &wire::Hello { min_protocol: 1, max_protocol: 1, features, ..wire::Hello::default() });
    let ack: wire::HelloAck = listener.expect(Opcode::HelloAck);
    assert_eq!(ack.features, ["schema-events"]);
    let mut watcher = Watcher::open(&broker);
    assert_eq!(queue(&watcher.next().expect("a snapshot"), "orders").expect("it is shown")["schema_version"], 1);
    register("string id = 1; int64 cents = 2;", &[]);
    let changed: wire::SchemaChanged = listener.expect(Opcode::SchemaChanged);
    let version = changed.version.expect("a version");
    assert_eq!((version.queue.as_str(), version.version), ("orders", 2));
    let event = watcher.until(|event| event["type"] == "schema");
    assert_eq!(event, json!({"type": "schema", "queue": "orders", "version": 2, "before": 1}));
    // Known content becomes active again: a version that is not new.
    register("string id = 1;", &["--force"]);
    assert_eq!(listener.expect::<wire::SchemaChanged>(Opcode::SchemaChanged).version.map(|version| version.version), Some(1));
}

#[test]
fn watching_needs_the_token_and_an_origin_that_may() {
    let broker = Broker::start_with(&[], &[("QWERQ_AUTH_TOKEN", "s3cret")]);
    assert_eq!(Watcher::connect(&broker, &[]).err(), Some(401));
    assert_eq!(Watcher::connect(&broker, &[("authorization", "Bearer wrong")]).err(), Some(401));
    let token = ("authorization", "Bearer s3cret");
    assert!(Watcher::connect(&broker, &[token]).is_ok());
    assert_eq!(Watcher::connect(&broker, &[token, ("origin", "https://evil.example")]).err(), Some(403));
    let own = format!("http://{}", broker.http);
    assert!(Watcher::connect(&broker, &[token, ("origin", &own)]).is_ok());
}

#[test]
fn a_broker_that_stops_closes_and_does_not_wait_for_watchers() {
    let mut broker = Broker::start(&[]);
    let mut watcher = Watcher::open(&broker);
    watcher.next().expect("a snapshot");
    let stopping = std::thread::spawn(move || broker.terminate());
    while watcher.next().is_some() {}
    assert!(stopping.join().expect("the broker was stopped").success());
}

/// Every path of a JSON value, with `[]` for elements.
fn paths(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| paths(value, &format!("{at}.{name}"), found)),
        Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{at}[]"), found)),
        _ => {
            found.insert(at.to_owned());
        }
    }
}

#[test]
fn the_example_in_the_docs_has_the_fields_that_are_sent() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/events.md")).expect("the page is there");
    let example = page.split("```json\n").find(|part| part.starts_with("{\n  \"type\": \"snapshot\"")).expect("an example");
    let example: Value = serde_json::from_str(example.split("```").next().expect("the block ends")).expect("JSON");
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.consume("orders", "billing", 1);
    // A group that nobody consumes for is trouble once there is a message.
    let unattended = wire::GroupRequest { queue: "orders".to_owned(), group: "late".to_owned(), start_at: None };
    let _: wire::Done = raw.ask(Opcode::GroupCreate, &unattended, Opcode::Done);
    let item = wire::PublishItem { payload: Bytes::from_static(b"x"), ..wire::PublishItem::default() };
    raw.send(Opcode::Publish, Some(1), &wire::Publish { queue: "orders".to_owned(), items: vec![item], ..wire::Publish::default() });
    let mut watcher = Watcher::open(&broker);
    watcher.next().expect("a snapshot");
    watcher.ask(&json!({"watch": {"groups": ["orders"]}}));
    let sent = watcher.until(|event| event["type"] == "snapshot");
    let (mut documented, mut found) = (BTreeSet::new(), BTreeSet::new());
    paths(&example, "", &mut documented);
    paths(&sent, "", &mut found);
    assert_eq!(documented, found);
}
