//! Why does it not move: `qwer-q explain` names the cause in one sentence, for messages, keys and groups.

mod support;

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};
use support::broker::Broker;
use support::raw::Raw;

const QUEUE: &str = "orders";

/// The first line for people, and the one JSON object for programs.
fn explain(broker: &Broker, what: &[&str]) -> (String, serde_json::Value) {
    let args = [&["explain", "-q", QUEUE], what].concat();
    let text = broker.run(&args);
    assert!(text.status.success(), "{what:?}: {}", String::from_utf8_lossy(&text.stderr));
    let json = broker.run(&[&args[..], &["--json"]].concat());
    let first = String::from_utf8(text.stdout).expect("text").lines().next().expect("a line").to_owned();
    (first, serde_json::from_slice(&json.stdout).expect("one JSON object"))
}

fn check(broker: &Broker, what: &[&str], cause: &str, words: &[&str]) -> serde_json::Value {
    let (first, json) = explain(broker, what);
    assert_eq!(json["cause"], cause, "{first}");
    for word in words {
        assert!(first.contains(word), "{word:?} is in {first:?}");
    }
    json
}

fn publish(raw: &mut Raw, item: wire::PublishItem) -> wire::PublishResult {
    raw.publish(&wire::Publish { queue: QUEUE.to_owned(), items: vec![item], ..wire::Publish::default() }).remove(0)
}

fn item(payload: &'static [u8], ordering_key: &str) -> wire::PublishItem {
    wire::PublishItem { payload: Bytes::from_static(payload), ordering_key: ordering_key.to_owned(), ..wire::PublishItem::default() }
}

fn id_of(result: &wire::PublishResult) -> String {
    let bytes: [u8; 16] = result.id.as_ref().try_into().expect("an id has 16 bytes");
    qwerq::MessageId(bytes).to_string()
}

fn create(raw: &mut Raw, options: wire::QueueOptions) {
    raw.send(Opcode::QueueCreate, None, &wire::QueueCreate { name: QUEUE.to_owned(), options: Some(options) });
    let _: wire::QueueInfo = raw.expect(Opcode::QueueInfoResponse);
}

fn fetch(raw: &mut Raw, group: &str, max: u32) -> Vec<wire::Delivered> {
    let fetch = wire::Fetch { queue: QUEUE.to_owned(), group: group.to_owned(), max, ..wire::Fetch::default() };
    raw.send(Opcode::Fetch, None, &fetch);
    raw.expect::<wire::Fetched>(Opcode::Fetched).messages
}

/// Settles a lease in some way, confirmed.
fn settle(raw: &mut Raw, opcode: Opcode, message: &wire::Delivered, delay_ms: Option<u64>, reason: &str) {
    let lease_ids = vec![message.lease_id.clone()];
    let settle = wire::Settle { lease_ids, confirm: true, delay_ms, reason: reason.to_owned(), ..wire::Settle::default() };
    raw.send(opcode, None, &settle);
    assert_eq!(raw.expect::<wire::Settled>(Opcode::Settled).settled, 1);
}

#[test]
fn a_message_is_followed_from_publish_to_settlement() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    let id = id_of(&publish(&mut raw, item(b"a", "")));
    check(&broker, &["--id", &id], "no-group", &["no group", "message 0"]);
    check(&broker, &[], "no-group", &["no group"]);
    assert_eq!(fetch(&mut raw, "billing", 1).len(), 1);
    let leased = check(&broker, &["--id", &id], "leased", &["message 0 is leased", "`test`", "remaining", "attempt 1 of 5"]);
    assert_eq!((&leased["group"], &leased["details"]["seq"]), (&"billing".into(), &"0".into()));
    assert!(leased["details"]["remaining_ms"].as_str().is_some_and(|text| text.parse::<u64>().is_ok_and(|ms| ms <= 30_000)));
    drop(raw);

    let mut raw = Raw::hello(broker.address);
    let wait = wire::Fetch { queue: QUEUE.to_owned(), group: "billing".to_owned(), wait_ms: 3_600_000, ..wire::Fetch::default() };
    raw.send(Opcode::Fetch, Some(1), &wait);
    let again = raw.expect::<wire::Fetched>(Opcode::Fetched).messages.remove(0);
    settle(&mut raw, Opcode::Nack, &again, Some(3_600_000), "");
    let words = ["message 0 is in backoff", "attempt 2 of 5"];
    check(&broker, &["-g", "billing", "--seq", "0"], "backing-off", &words);
    check(&broker, &["-g", "billing"], "backing-off", &[&words[..], &["group `billing` waits"]].concat());

    let id = id_of(&publish(&mut raw, item(b"b", "")));
    check(&broker, &["--id", &id], "no-consumer", &["no consumer"]);
    let second = fetch(&mut raw, "billing", 1).remove(0);
    raw.send(Opcode::GroupCreate, None, &wire::GroupRequest { queue: QUEUE.to_owned(), group: "audit".to_owned(), start_at: None });
    let _: wire::Done = raw.expect(Opcode::Done);
    settle(&mut raw, Opcode::Ack, &second, None, "");
    check(&broker, &["-g", "billing", "--id", &id], "settled", &["message 1 is settled for group `billing`"]);
    check(&broker, &["-g", "audit", "--id", &id], "no-consumer", &["no consumer"]);
    let unknown = "01J0000000000000000000000Z";
    check(&broker, &["-g", "billing", "--id", unknown], "not-found", &["no message with that id"]);
}

#[test]
fn a_key_is_blocked_by_the_message_before_it() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    for (payload, key) in [(&b"a"[..], "k"), (b"b", "k"), (b"c", "other")] {
        publish(&mut raw, item(payload, key));
    }
    assert_eq!(fetch(&mut raw, "", 9).len(), 2, "the second message of the key waits");
    let told = check(&broker, &["--seq", "1"], "key-blocked", &["message 1", "key blocked by message 0", "leased by"]);
    assert_eq!((&told["details"]["blocked_by"], &told["details"]["blocked_by_cause"]), (&"0".into(), &"leased".into()));
    check(&broker, &["--key", "k"], "leased", &["key `k` waits", "message 0 is leased"]);
    check(&broker, &["--key", "unheard"], "not-found", &["no unsettled message with the ordering key `unheard`"]);
}

#[test]
fn consumers_without_credit_are_told_from_none() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.publish_payloads(QUEUE, &[b"a", b"b"]);
    let consume = wire::Consume { queue: QUEUE.to_owned(), prefetch: 1, ..wire::Consume::default() };
    raw.send(Opcode::Consume, None, &consume);
    let _: wire::ConsumeAck = raw.expect(Opcode::ConsumeAck);
    let _: wire::Deliver = raw.expect(Opcode::Message);
    check(&broker, &["--seq", "1"], "no-credit", &["no credit", "1 consumer holding 1 unsettled message"]);
    check(&broker, &[], "no-credit", &["group `default` waits: message 1", "no credit"]);
}

#[test]
fn a_dead_letter_a_delayed_and_a_suspect_message_are_told() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    create(&mut raw, wire::QueueOptions { max_deliveries: Some(2), ..wire::QueueOptions::default() });
    let dead = id_of(&publish(&mut raw, item(b"dead", "")));
    let message = fetch(&mut raw, "", 1).remove(0);
    settle(&mut raw, Opcode::Reject, &message, None, "no such customer");
    for what in [["--id", dead.as_str()], ["--seq", "0"]] {
        let words = ["message 0 is dead-lettered by group `default`", "rejected", "no such customer", "`orders.dlq`"];
        let told = check(&broker, &what, "dead-lettered", &words);
        assert_eq!((&told["details"]["reason"], &told["details"]["dead_letter_seq"]), (&"rejected".into(), &"0".into()));
    }
    let delayed = id_of(&publish(&mut raw, wire::PublishItem { delay_ms: Some(3_600_000), ..item(b"later", "") }));
    check(&broker, &["--id", &delayed], "delayed", &["in delay", " min"]);

    let suspect = id_of(&publish(&mut raw, item(b"suspect", "")));
    let consume = |subscription, prefetch| wire::Consume { subscription, queue: QUEUE.to_owned(), prefetch, ..wire::Consume::default() };
    let mut killed = Raw::hello(broker.address);
    killed.send(Opcode::Consume, None, &consume(1, 1));
    let _: wire::ConsumeAck = killed.expect(Opcode::ConsumeAck);
    let _: wire::Deliver = killed.expect(Opcode::Message);
    publish(&mut raw, item(b"other", ""));
    raw.send(Opcode::Consume, None, &consume(1, 9));
    let _: wire::ConsumeAck = raw.expect(Opcode::ConsumeAck);
    let other: wire::Deliver = raw.expect(Opcode::Message);
    drop(killed);
    // Until the broker has noticed, and has made the attempt durable.
    while explain(&broker, &["--id", &suspect]).1["cause"] != "isolated-suspect" {}
    check(&broker, &["--id", &suspect], "isolated-suspect", &["message 1 is an isolated suspect", "to become idle"]);
    settle(&mut raw, Opcode::Ack, &other.messages[0], None, "");
    let alone: wire::Deliver = raw.expect(Opcode::Message);
    assert_eq!((alone.messages.len(), alone.messages[0].attempt), (1, 2));
    check(&broker, &["--id", &suspect], "leased", &["attempt 2 of 2", "alone since it is a suspect"]);
}

#[test]
fn a_message_is_found_by_its_id_among_many() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    let payloads = vec![&b"x"[..]; 5_000];
    let results = raw.publish_payloads(QUEUE, &payloads);
    let told = check(&broker, &["--id", &id_of(&results[4_321])], "no-group", &["message 4321"]);
    assert_eq!(told["details"]["seq"], "4321");
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.publish_payloads(QUEUE, &[b"a"]);
    let ask = |queue: &str, group: &str| wire::Explain { queue: queue.to_owned(), group: group.to_owned(), ..wire::Explain::default() };
    raw.send(Opcode::Explain, Some(1), &ask("missing", ""));
    raw.expect_error("queue-not-found");
    raw.send(Opcode::Explain, Some(1), &ask(QUEUE, "missing"));
    raw.expect_error("group-not-found");
    raw.send(Opcode::Explain, Some(1), &wire::Explain { id: Bytes::from_static(b"short"), ..ask(QUEUE, "") });
    raw.expect_error("invalid-argument");
    raw.send(Opcode::Explain, Some(1), &wire::Explain { seq: Some(0), ordering_key: "k".to_owned(), ..ask(QUEUE, "") });
    raw.expect_error("invalid-argument");
    raw.send(Opcode::Explain, None, &ask(QUEUE, ""));
    raw.expect_error("correlation-required");
}
