//! Messages that come later, and messages that do not last: delay, deliver_at, ttl.

mod support;

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};
use support::broker::Broker;
use support::raw::{Raw, header};

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()).expect("fits")
}

fn item(payload: &'static str) -> wire::PublishItem {
    wire::PublishItem { payload: Bytes::from_static(payload.as_bytes()), ..wire::PublishItem::default() }
}

fn delayed(payload: &'static str, delay_ms: u64) -> wire::PublishItem {
    wire::PublishItem { delay_ms: Some(delay_ms), ..item(payload) }
}

fn publish(raw: &mut Raw, queue: &str, items: Vec<wire::PublishItem>) -> Vec<wire::PublishResult> {
    raw.publish(&wire::Publish { queue: queue.to_owned(), items, ..wire::Publish::default() })
}

#[test]
fn delayed_messages_come_in_due_order_never_early_and_without_traffic() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.consume("jobs", "g", 10);
    let before = now_ms();
    let results = publish(
        &mut raw,
        "jobs",
        vec![
            delayed("third", 700),
            delayed("second", 400),
            delayed("first", 200),
            item("now"),
            wire::PublishItem { deliver_at_ms: Some(before + 900), ..item("last") },
        ],
    );
    assert!(results.iter().all(|result| result.error.is_none()), "{results:?}");
    assert_eq!(results.iter().map(|result| result.seq).collect::<Vec<_>>(), [None, None, None, Some(0), None]);
    for (payload, seq, after) in [("now", 0, 0), ("first", 1, 200), ("second", 2, 400), ("third", 3, 700), ("last", 4, 900)] {
        let delivered = raw.take_one();
        assert_eq!((delivered.payload.as_ref(), delivered.seq), (payload.as_bytes(), seq));
        assert!(now_ms() >= before + after, "{payload} came after {} ms", now_ms() - before);
    }
}

#[test]
fn delayed_messages_survive_a_restart_and_count_toward_the_limits() {
    let mut broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("jobs", wire::QueueOptions { max_messages: Some(2), ..wire::QueueOptions::default() });
    let due = now_ms() + 1_500;
    let at = |payload| wire::PublishItem { deliver_at_ms: Some(due), ..item(payload) };
    let results = publish(&mut raw, "jobs", vec![at("a"), at("b"), item("c")]);
    assert_eq!(results[2].error.as_ref().map(|error| error.name.as_str()), Some("queue-full"));
    let info = raw.info("jobs");
    assert_eq!((info.depth, info.delayed, info.ready, info.next_seq), (2, 2, 0, 0));
    assert_eq!(broker.metric("qwerq_queue_delayed{queue=\"jobs\"}"), 2.0);
    broker.kill();
    broker.restart();
    let mut raw = Raw::hello(broker.address);
    raw.consume("jobs", "g", 10);
    let delivered = raw.take(2);
    assert!(now_ms() >= due);
    assert_eq!((delivered[0].payload.as_ref(), delivered[0].seq, delivered[0].attempt), (b"a".as_slice(), 0, 1));
    assert_eq!(delivered[1].payload, "b");
}

#[test]
fn a_purge_clears_what_is_delayed() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    publish(&mut raw, "jobs", vec![delayed("gone", 300), item("gone too")]);
    let purged: wire::Purged = raw.ask(Opcode::QueuePurge, &wire::QueueName { name: "jobs".to_owned() }, Opcode::QueuePurged);
    assert_eq!(purged.messages, 2);
    assert_eq!(raw.info("jobs").depth, 0);
    raw.consume("jobs", "g", 10);
    publish(&mut raw, "jobs", vec![delayed("stays", 600)]);
    assert_eq!(raw.take_one().payload, "stays");
}

#[test]
fn a_delay_holds_up_no_other_message_of_its_key() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    let keyed = |item| wire::PublishItem { ordering_key: "k".to_owned(), ..item };
    publish(&mut raw, "jobs", vec![keyed(delayed("later", 300)), keyed(item("now"))]);
    raw.consume("jobs", "g", 10);
    let first = raw.take_one();
    assert_eq!(first.payload, "now");
    raw.ack(&first);
    assert_eq!(raw.take_one().payload, "later");
}

#[test]
fn a_duplicate_of_a_delayed_message_names_its_id() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    let keyed = || wire::PublishItem { idempotency_key: "once".to_owned(), ..delayed("m", 60_000) };
    let first = publish(&mut raw, "jobs", vec![keyed()]);
    let again = publish(&mut raw, "jobs", vec![keyed()]);
    assert!(again[0].duplicate && again[0].seq.is_none(), "{again:?}");
    assert_eq!(first[0].id, again[0].id);
    assert_eq!(raw.info("jobs").depth, 1);
}

#[test]
fn a_message_has_a_delay_or_a_time_not_both() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    let both = wire::PublishItem { deliver_at_ms: Some(1), ..delayed("m", 1) };
    let results = publish(&mut raw, "jobs", vec![both]);
    assert_eq!(results[0].error.as_ref().map(|error| error.name.as_str()), Some("invalid-argument"));
}

#[test]
fn an_expired_message_is_dropped_without_being_asked_for_and_counted() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    // One queue without a group, one with a group that nobody consumes.
    let short = || wire::PublishItem { ttl_ms: Some(200), ..item("short") };
    publish(&mut raw, "alone", vec![short(), item("long")]);
    let request = wire::GroupRequest { queue: "grouped".to_owned(), group: "g".to_owned(), start_at: None };
    raw.create("grouped", wire::QueueOptions { message_ttl_ms: Some(200), ..wire::QueueOptions::default() });
    let _: wire::Done = raw.ask(Opcode::GroupCreate, &request, Opcode::Done);
    publish(&mut raw, "grouped", vec![item("short"), wire::PublishItem { ttl_ms: Some(0), ..item("long") }]);
    while raw.info("alone").depth + raw.info("grouped").depth > 2 {}
    assert_eq!(broker.metric("qwerq_messages_expired_total"), 2.0);
    for queue in ["alone", "grouped"] {
        let mut consumer = Raw::hello(broker.address);
        consumer.consume(queue, "g", 10);
        assert_eq!(consumer.take_one().payload, "long");
    }
}

#[test]
fn with_on_expiry_dlq_an_expired_message_becomes_a_letter() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    let options = wire::QueueOptions { on_expiry: Some("dlq".to_owned()), message_ttl_ms: Some(100), ..wire::QueueOptions::default() };
    raw.create("jobs", options);
    publish(&mut raw, "jobs", vec![item("m")]);
    while raw.info("jobs").depth > 0 {}
    let letters = raw.letters("jobs");
    assert_eq!((header(&letters[0], "qwerq-reason"), header(&letters[0], "qwerq-group")), (Some("expired"), None));
    // It does not expire again.
    let wanted = wire::DeadLetters { queue: "jobs".to_owned(), ..wire::DeadLetters::default() };
    let outcome: wire::Redriven =
        raw.ask(Opcode::Redrive, &wire::Redrive { letters: Some(wanted), ..Default::default() }, Opcode::Redriven);
    assert_eq!(outcome.redriven, 1);
    raw.consume("jobs", "g", 1);
    assert_eq!(raw.take_one().payload, "m");
}

#[test]
fn a_leased_message_does_not_expire_until_it_comes_back() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.consume("jobs", "g", 2);
    publish(
        &mut raw,
        "jobs",
        vec![wire::PublishItem { ttl_ms: Some(400), ..item("acked") }, wire::PublishItem { ttl_ms: Some(400), ..item("nacked") }],
    );
    let leased = raw.take(2);
    // Expiries are looked at in order, so once this one is gone theirs has passed.
    publish(&mut raw, "witness", vec![wire::PublishItem { ttl_ms: Some(500), ..item("w") }]);
    while raw.info("witness").depth > 0 {}
    assert_eq!(raw.info("jobs").depth, 2);
    raw.ack(&leased[0]);
    let (settled, _) = raw.settle(Opcode::Nack, &leased[1], wire::Settle { delay_ms: Some(0), ..wire::Settle::default() });
    assert_eq!(settled.settled, 1);
    while raw.info("jobs").depth > 0 {}
    publish(&mut raw, "jobs", vec![item("next")]);
    assert_eq!(raw.take_one().payload, "next");
    assert_eq!(broker.metric("qwerq_messages_expired_total"), 2.0);
}
