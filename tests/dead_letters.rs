//! Dead letters: what goes there and when, what a letter says, and how it comes back.

mod support;

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};
use support::broker::Broker;
use support::raw::{Raw, header};

fn retries_at_once() -> wire::QueueOptions {
    wire::QueueOptions { retry_backoff_first_ms: Some(0), retry_backoff_max_ms: Some(0), ..wire::QueueOptions::default() }
}

fn nack() -> wire::Settle {
    wire::Settle { reason: "not today".to_owned(), ..wire::Settle::default() }
}

fn reject(reason: &str) -> wire::Settle {
    wire::Settle { reason: reason.to_owned(), ..wire::Settle::default() }
}

/// Nacks a message until the broker has had enough; gives the attempts that were delivered.
fn nack_to_the_end(raw: &mut Raw, mut delivered: wire::Delivered) -> Vec<u32> {
    let mut attempts = vec![delivered.attempt];
    loop {
        let (settled, meanwhile) = raw.settle(Opcode::Nack, &delivered, nack());
        assert_eq!(settled.settled, 1);
        delivered = match meanwhile.into_iter().next() {
            Some(next) => next,
            None if attempts.len() == 5 => return attempts,
            None => raw.take_one(),
        };
        attempts.push(delivered.attempt);
    }
}

fn redrive(raw: &mut Raw, redrive: &wire::Redrive) -> wire::Redriven {
    raw.ask(Opcode::Redrive, redrive, Opcode::Redriven)
}

fn of(queue: &str) -> wire::DeadLetters {
    wire::DeadLetters { queue: queue.to_owned(), ..wire::DeadLetters::default() }
}

#[test]
fn a_message_that_uses_up_its_deliveries_becomes_a_dead_letter_that_says_why() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("orders", retries_at_once());
    let item = wire::PublishItem {
        payload: Bytes::from_static(b"m1"),
        headers: vec![wire::Header { name: "tenant".to_owned(), value: "eu".to_owned() }],
        ordering_key: "k".to_owned(),
        ..wire::PublishItem::default()
    };
    let published = raw.publish(&wire::Publish { queue: "orders".to_owned(), items: vec![item], ..wire::Publish::default() });
    raw.consume("orders", "billing", 1);
    let first = raw.take_one();
    assert_eq!(nack_to_the_end(&mut raw, first), [1, 2, 3, 4, 5]);
    let letters = raw.letters("orders");
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((letter.payload.as_ref(), letter.ordering_key.as_str(), &letter.id), (b"m1".as_slice(), "k", &published[0].id));
    for (name, value) in [
        ("tenant", "eu"),
        ("qwerq-reason", "max-deliveries"),
        ("qwerq-error", "not today"),
        ("qwerq-source-queue", "orders"),
        ("qwerq-source-seq", "0"),
        ("qwerq-group", "billing"),
        ("qwerq-attempts", "5"),
    ] {
        assert_eq!(header(letter, name), Some(value), "{name} of {letter:?}");
    }
    assert!(header(letter, "qwerq-first-failed-at") <= header(letter, "qwerq-failed-at"));
    assert_eq!(raw.info("orders").depth, 0);
    assert_eq!(broker.metric("qwerq_messages_dead_lettered_total"), 1.0);
}

#[test]
fn a_rejected_message_goes_at_once_and_the_other_group_keeps_it() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.publish_payloads("orders", &[b"m1"]);
    raw.consume("orders", "billing", 1);
    let mut other = Raw::hello(broker.address);
    other.consume("orders", "audit", 1);
    let delivered = raw.take_one();
    raw.settle(Opcode::Reject, &delivered, reject("no such customer"));
    let letters = raw.letters("orders");
    assert_eq!(header(&letters[0], "qwerq-reason"), Some("rejected"));
    assert_eq!(header(&letters[0], "qwerq-error"), Some("no such customer"));
    let kept = other.take_one();
    assert_eq!(kept.payload, "m1");
    other.ack(&kept);
    assert_eq!(raw.info("orders").depth, 0);
}

#[test]
fn on_failure_drop_and_retry_forever_make_no_letters() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("drops", wire::QueueOptions { on_failure: Some("drop".to_owned()), max_deliveries: Some(2), ..retries_at_once() });
    raw.create(
        "retries",
        wire::QueueOptions { on_failure: Some("retry-forever".to_owned()), max_deliveries: Some(2), ..retries_at_once() },
    );
    raw.publish_payloads("drops", &[b"x"]);
    raw.publish_payloads("retries", &[b"x"]);
    raw.consume("drops", "g", 1);
    for attempt in [1, 2] {
        let delivered = raw.take_one();
        assert_eq!(delivered.attempt, attempt);
        raw.send(Opcode::Nack, None, &wire::Settle { lease_ids: vec![delivered.lease_id], ..nack() });
    }
    let mut other = Raw::hello(broker.address);
    other.consume("retries", "g", 1);
    for attempt in 1..=7 {
        let delivered = other.take_one();
        assert_eq!(delivered.attempt, attempt);
        let opcode = if attempt % 2 == 0 { Opcode::Reject } else { Opcode::Nack };
        let settle = wire::Settle { lease_ids: vec![delivered.lease_id], delay_ms: Some(0), ..nack() };
        other.send(opcode, None, &settle);
    }
    assert_eq!(raw.info("drops").depth, 0);
    assert_eq!(raw.info("retries").depth, 1);
    for queue in ["drops.dlq", "retries.dlq"] {
        raw.send(Opcode::QueueInfo, None, &wire::QueueName { name: queue.to_owned() });
        raw.expect_error("queue-not-found");
    }
}

#[test]
fn letters_survive_a_kill_and_are_read_like_any_queue() {
    let mut broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.publish_payloads("orders", &[b"a", b"b"]);
    raw.consume("orders", "billing", 2);
    for delivered in raw.take(2) {
        raw.settle(Opcode::Reject, &delivered, reject("no"));
    }
    broker.kill();
    broker.restart();
    let mut raw = Raw::hello(broker.address);
    assert_eq!(raw.letters("orders").len(), 2);
    assert_eq!(raw.info("orders").depth, 0);
    raw.consume("orders.dlq", "repair", 2);
    let letters = raw.take(2);
    assert_eq!((letters[0].payload.as_ref(), letters[0].attempt), (b"a".as_slice(), 1));
    raw.ack(&letters[0]);
    // Nothing in there becomes a letter again.
    let (settled, _) = raw.settle(Opcode::Reject, &letters[1], reject("still no"));
    assert_eq!(settled.settled, 1);
    assert_eq!(raw.info("orders.dlq").depth, 1);
    raw.send(Opcode::QueueInfo, None, &wire::QueueName { name: "orders.dlq.dlq".to_owned() });
    raw.expect_error("queue-not-found");
}

#[test]
fn a_redriven_letter_goes_to_its_group_alone_with_attempts_anew() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.publish_payloads("orders", &[b"m"]);
    let mut billing = Raw::hello(broker.address);
    billing.consume("orders", "billing", 4);
    let mut audit = Raw::hello(broker.address);
    audit.consume("orders", "audit", 4);
    let delivered = billing.take_one();
    billing.settle(Opcode::Reject, &delivered, reject("no"));
    let settled = audit.take_one();
    audit.ack(&settled);
    let outcome = redrive(&mut raw, &wire::Redrive { letters: Some(of("orders")), ..wire::Redrive::default() });
    assert_eq!((outcome.redriven, outcome.refused, outcome.next_seq), (1, 0, None));
    let again = billing.take_one();
    assert_eq!((again.payload.as_ref(), again.attempt, again.id.clone()), (b"m".as_slice(), 1, delivered.id));
    assert!(again.headers.is_empty(), "{again:?}");
    assert!(raw.letters("orders").is_empty());
    // The next that audit gets is the next that is published: it never sees the letter again.
    raw.publish_payloads("orders", &[b"next"]);
    assert_eq!(audit.take_one().payload, "next");
    let outcome = redrive(&mut raw, &wire::Redrive { letters: Some(of("orders")), ..wire::Redrive::default() });
    assert_eq!(outcome.redriven, 0);
}

#[test]
fn a_letter_can_be_redriven_to_all_groups_or_another_queue_but_never_to_dead_letters() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.publish_payloads("orders", &[b"a", b"b"]);
    raw.consume("orders", "billing", 2);
    for delivered in raw.take(2) {
        raw.settle(Opcode::Reject, &delivered, reject("no"));
    }
    let mut admin = Raw::hello(broker.address);
    let letters = admin.letters("orders");
    let one = wire::DeadLetters { id: letters[0].id.clone(), ..of("orders") };
    let outcome = redrive(&mut admin, &wire::Redrive { letters: Some(one), all_groups: true, ..wire::Redrive::default() });
    assert_eq!(outcome.redriven, 1);
    assert_eq!(raw.take_one().payload, "a");
    admin.send(
        Opcode::Redrive,
        None,
        &wire::Redrive { letters: Some(of("orders")), to: "orders.dlq".to_owned(), ..wire::Redrive::default() },
    );
    admin.expect_error("reserved-queue");
    admin.create("repaired", wire::QueueOptions::default());
    let outcome =
        redrive(&mut admin, &wire::Redrive { letters: Some(of("orders")), to: "repaired".to_owned(), ..wire::Redrive::default() });
    assert_eq!(outcome.redriven, 1);
    admin.consume("repaired", "g", 1);
    assert_eq!(admin.take_one().payload, "b");
}

#[test]
fn one_letter_can_be_redriven_with_another_payload() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.publish_payloads("orders", &[b"a", b"b"]);
    raw.consume("orders", "billing", 2);
    for delivered in raw.take(2) {
        raw.settle(Opcode::Reject, &delivered, reject("no"));
    }
    let mut admin = Raw::hello(broker.address);
    let letters = admin.letters("orders");
    let repaired = |letters| wire::Redrive { letters: Some(letters), payload: Some("repaired".into()), ..wire::Redrive::default() };
    admin.send(Opcode::Redrive, None, &repaired(of("orders")));
    admin.expect_error("invalid-argument");
    let outcome = redrive(&mut admin, &repaired(wire::DeadLetters { id: letters[1].id.clone(), ..of("orders") }));
    assert_eq!((outcome.redriven, outcome.refused), (1, 0));
    let again = raw.take_one();
    assert_eq!((again.payload.as_ref(), again.attempt, again.id), (b"repaired".as_slice(), 1, letters[1].id.clone()));
    assert_eq!(admin.letters("orders").len(), 1);
}

#[test]
fn letters_are_chosen_by_group_reason_time_and_number() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("orders", wire::QueueOptions::default());
    for group in ["billing", "audit"] {
        let request = wire::GroupRequest { queue: "orders".to_owned(), group: group.to_owned(), start_at: None };
        let _: wire::Done = raw.ask(Opcode::GroupCreate, &request, Opcode::Done);
    }
    raw.publish_payloads("orders", &[b"a", b"b", b"c"]);
    for group in ["billing", "audit"] {
        let mut consumer = Raw::hello(broker.address);
        consumer.consume("orders", group, 3);
        for delivered in consumer.take(3) {
            consumer.settle(Opcode::Reject, &delivered, reject("no"));
        }
    }
    let all = raw.letters("orders");
    assert_eq!(all.len(), 6);
    let mut count = |wanted: wire::DeadLetters| raw.ask::<wire::Fetched>(Opcode::DeadLetters, &wanted, Opcode::Fetched);
    assert_eq!(count(wire::DeadLetters { group: "audit".to_owned(), ..of("orders") }).messages.len(), 3);
    assert_eq!(count(wire::DeadLetters { reason: "expired".to_owned(), ..of("orders") }).messages.len(), 0);
    assert_eq!(count(wire::DeadLetters { reason: "rejected".to_owned(), ..of("orders") }).messages.len(), 6);
    assert_eq!(count(wire::DeadLetters { since_ms: Some(0), until_ms: Some(1), ..of("orders") }).messages.len(), 0);
    let page = count(wire::DeadLetters { max: 4, ..of("orders") });
    assert_eq!((page.messages.len(), page.messages[3].seq), (4, 3));
    assert_eq!(count(wire::DeadLetters { from_seq: 4, ..of("orders") }).messages.len(), 2);
    let purge = wire::DeadLetters { group: "audit".to_owned(), ..of("orders") };
    let purged: wire::Purged = raw.ask(Opcode::DeadLettersPurge, &purge, Opcode::QueuePurged);
    assert_eq!((purged.messages, raw.letters("orders").len()), (3, 3));
}

#[test]
fn the_next_of_a_key_goes_after_its_head_became_a_dead_letter() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    let item = |payload: &'static str| wire::PublishItem {
        payload: Bytes::from_static(payload.as_bytes()),
        ordering_key: "k".to_owned(),
        ..wire::PublishItem::default()
    };
    raw.publish(&wire::Publish { queue: "orders".to_owned(), items: vec![item("1"), item("2")], ..wire::Publish::default() });
    raw.consume("orders", "g", 10);
    let first = raw.take_one();
    assert_eq!(first.payload, "1");
    let (_, meanwhile) = raw.settle(Opcode::Reject, &first, reject("no"));
    let next = meanwhile.into_iter().next().unwrap_or_else(|| raw.take_one());
    assert_eq!(next.payload, "2");
}

#[test]
fn ten_bad_messages_hold_up_no_good_ones() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("orders", retries_at_once());
    let bad: Vec<&[u8]> = vec![b"bad"; 10];
    let good: Vec<&[u8]> = vec![b"good"; 1_000];
    raw.publish_payloads("orders", &bad);
    raw.publish_payloads("orders", &good);
    raw.consume("orders", "g", 10);
    let (mut acked, mut attempts) = (0, Vec::new());
    while acked < 1_000 || attempts.len() < 50 {
        for delivered in raw.expect::<wire::Deliver>(Opcode::Message).messages {
            let (opcode, settle) = if delivered.payload == "bad" { (Opcode::Nack, nack()) } else { (Opcode::Ack, wire::Settle::default()) };
            raw.send(opcode, None, &wire::Settle { lease_ids: vec![delivered.lease_id], ..settle });
            if opcode == Opcode::Nack { attempts.push(delivered.seq) } else { acked += 1 }
        }
    }
    for seq in 0..10 {
        assert_eq!(attempts.iter().filter(|attempted| **attempted == seq).count(), 5, "deliveries of {seq}");
    }
    assert_eq!(raw.letters("orders").len(), 10);
    assert_eq!(raw.info("orders").depth, 0);
}

#[test]
fn with_on_invalid_dlq_a_message_that_breaks_the_contract_is_kept_with_the_violation() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let proto = directory.path().join("order.proto");
    std::fs::write(&proto, "syntax = \"proto3\"; package shop; message Order { string id = 1; int64 cents = 2; }").expect("written");
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("orders", wire::QueueOptions { on_invalid: Some("dlq".to_owned()), ..wire::QueueOptions::default() });
    let registered = broker.run(&["schema", "register", "-q", "orders", "-p", proto.to_str().expect("UTF-8"), "-m", "shop.Order"]);
    assert!(registered.status.success(), "{registered:?}");
    let (valid, invalid): (&[u8], &[u8]) = (b"\x0a\x01a\x10\x05", b"\x0a\x01a\x12\x01x");
    let results = raw.publish_payloads("orders", &[valid, invalid, valid]);
    assert!(results[1].dead_lettered && !results[1].id.is_empty(), "{results:?}");
    let error = results[1].error.as_ref().expect("the violation");
    assert_eq!((error.name.as_str(), error.details["path"].as_str()), ("schema-violation", "cents"));
    assert_eq!((results[0].seq, results[2].seq), (Some(0), Some(1)));
    let letters = raw.letters("orders");
    assert_eq!((letters[0].payload.as_ref(), &letters[0].id), (invalid, &results[1].id));
    assert_eq!(header(&letters[0], "qwerq-reason"), Some("invalid"));
    assert_eq!(header(&letters[0], "qwerq-group"), None);
    let text = header(&letters[0], "qwerq-error").expect("the violation");
    for part in ["schema-violation", "path=cents", "offset=3", "version=1"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // It still breaks the contract, so it stays; elsewhere there is none.
    let outcome = redrive(&mut raw, &wire::Redrive { letters: Some(of("orders")), ..wire::Redrive::default() });
    assert_eq!((outcome.redriven, outcome.refused), (0, 1));
    assert_eq!(outcome.refusal.expect("why").name, "schema-violation");
    raw.create("anything", wire::QueueOptions::default());
    let elsewhere = wire::Redrive { letters: Some(of("orders")), to: "anything".to_owned(), ..wire::Redrive::default() };
    assert_eq!(redrive(&mut raw, &elsewhere).redriven, 1);
    let atomic = wire::Publish {
        queue: "orders".to_owned(),
        items: [valid, invalid].map(|payload| wire::PublishItem { payload: Bytes::copy_from_slice(payload), ..Default::default() }).into(),
        atomic: true,
        ..wire::Publish::default()
    };
    let results = raw.publish(&atomic);
    assert!(results.iter().all(|result| result.error.is_some() && !result.dead_lettered), "{results:?}");
}

#[test]
fn two_queues_redriven_into_each_other_never_loop_and_lose_nothing() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    for queue in ["a", "b"] {
        raw.create(queue, retries_at_once());
        raw.publish_payloads(queue, &[queue.as_bytes()]);
    }
    for round in 0..4 {
        for (number, queue) in [(1, "a"), (2, "b")] {
            raw.consume_as(&wire::Consume { subscription: number, queue: queue.to_owned(), prefetch: 5, ..wire::Consume::default() });
            let delivered = raw.take_one();
            raw.settle(Opcode::Reject, &delivered, reject("no"));
            let _: wire::SubscriptionEnded =
                raw.ask(Opcode::Unsubscribe, &wire::Unsubscribe { subscription: number, keep_leases: false }, Opcode::SubscriptionEnded);
        }
        for (from, to) in [("a", "b"), ("b", "a")] {
            let outcome = redrive(&mut raw, &wire::Redrive { letters: Some(of(from)), to: to.to_owned(), ..wire::Redrive::default() });
            assert_eq!((outcome.redriven, outcome.refused), (1, 0), "round {round}");
        }
        for queue in ["a", "b"] {
            assert_eq!((raw.info(queue).depth, raw.letters(queue).len()), (1, 0), "round {round}");
        }
    }
}

#[test]
fn a_dead_letter_queue_beyond_its_limits_refuses_nothing_and_a_metric_says_so() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.publish_payloads("orders", &[b"a", b"b", b"c"]);
    raw.consume("orders", "g", 3);
    let over = |broker: &Broker| broker.metric("qwerq_queue_over_limit{queue=\"orders.dlq\"}");
    for (at, delivered) in raw.take(3).into_iter().enumerate() {
        raw.settle(Opcode::Reject, &delivered, reject("no"));
        if at == 0 {
            let options = Some(wire::QueueOptions { max_messages: Some(1), ..wire::QueueOptions::default() });
            let update = wire::QueueUpdate { name: "orders.dlq".to_owned(), options };
            let _: wire::QueueInfo = raw.ask(Opcode::QueueUpdate, &update, Opcode::QueueInfoResponse);
            assert_eq!(over(&broker), 0.0);
        }
    }
    assert_eq!(raw.letters("orders").len(), 3);
    assert_eq!(over(&broker), 1.0);
}

#[test]
fn a_full_queue_refuses_a_redrive_and_the_letter_stays() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("orders", wire::QueueOptions { max_messages: Some(1), ..wire::QueueOptions::default() });
    let item = wire::PublishItem { payload: Bytes::from_static(b"m"), idempotency_key: "once".to_owned(), ..wire::PublishItem::default() };
    raw.publish(&wire::Publish { queue: "orders".to_owned(), items: vec![item], ..wire::Publish::default() });
    raw.consume("orders", "g", 1);
    let delivered = raw.take_one();
    raw.settle(Opcode::Reject, &delivered, reject("no"));
    let mut admin = Raw::hello(broker.address);
    admin.publish_payloads("orders", &[b"other"]);
    let all = || wire::Redrive { letters: Some(of("orders")), ..wire::Redrive::default() };
    let outcome = redrive(&mut admin, &all());
    assert_eq!((outcome.refused, outcome.refusal.expect("why").name.as_str()), (1, "queue-full"));
    assert_eq!(admin.letters("orders").len(), 1);
    let other = raw.take_one();
    raw.ack(&other);
    // Inside the dedup window: the key is remembered, and does not matter here.
    assert_eq!(redrive(&mut admin, &all()).redriven, 1);
    assert_eq!(raw.take_one().payload, "m");
}
