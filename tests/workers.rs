//! Consumers that crash, hang, restart and are slow: what they cost, and whom.

mod support;

use std::collections::{BTreeMap, VecDeque};
use std::process::{Child, Stdio};
use std::time::Duration;

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};
use support::broker::Broker;
use support::raw::Raw;

fn publish_numbers(raw: &mut Raw, queue: &str, count: u32) {
    let texts: Vec<_> = (0..count).map(|number| number.to_string()).collect();
    let payloads: Vec<_> = texts.iter().map(|text| text.as_bytes()).collect();
    let results = raw.publish_payloads(queue, &payloads);
    assert!(results.iter().all(|result| result.error.is_none()), "{results:?}");
}

fn unsubscribe(raw: &mut Raw) {
    raw.send(Opcode::Unsubscribe, None, &wire::Unsubscribe { subscription: 1, keep_leases: false });
    while raw.next().expect("the connection is open").opcode != Opcode::SubscriptionEnded as u8 {}
}

/// Works through its deliveries in order until it dies on the poisoned one, as a process that is killed there, or all others are done.
fn work_until_death(broker: &Broker, prefetch: u32, poison: u64, seen: &mut BTreeMap<u64, Vec<u32>>, others: usize) {
    let mut raw = Raw::hello(broker.address);
    raw.consume("orders", "g", prefetch);
    let mut waiting = VecDeque::new();
    loop {
        let delivered = waiting.pop_front().unwrap_or_else(|| raw.take_one_of_many(&mut waiting));
        seen.entry(delivered.seq).or_default().push(delivered.attempt);
        if delivered.seq == poison {
            return;
        }
        waiting.extend(raw.ack(&delivered));
        if seen.len() == others + 1 && seen[&poison].len() == 5 {
            return;
        }
    }
}

#[test]
fn a_consumer_that_dies_on_one_message_sends_only_that_one_to_the_dead_letters() {
    const OTHERS: usize = 39;
    for prefetch in [1, 10] {
        let broker = Broker::start(&[]);
        let mut admin = Raw::hello(broker.address);
        publish_numbers(&mut admin, "orders", 40);
        let mut seen: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        while seen.get(&7).map_or(0, Vec::len) < 5 || seen.len() < OTHERS + 1 {
            work_until_death(&broker, prefetch, 7, &mut seen, OTHERS);
        }
        while admin.info("orders").depth > 0 {}
        let letters = admin.letters("orders");
        assert_eq!(letters.iter().map(|letter| letter.payload.clone()).collect::<Vec<_>>(), ["7"], "prefetch {prefetch}");
        assert_eq!(seen.remove(&7).expect("it was delivered"), [1, 2, 3, 4, 5], "prefetch {prefetch}");
        assert!(seen.values().flatten().all(|attempt| *attempt == 1), "its neighbours were not blamed: {seen:?}");
    }
}

#[test]
fn rolling_restarts_with_full_prefetch_blame_nobody() {
    let broker = Broker::start(&[]);
    let mut admin = Raw::hello(broker.address);
    publish_numbers(&mut admin, "orders", 32);
    for _ in 0..20 {
        let mut raw = Raw::hello(broker.address);
        raw.consume("orders", "g", 32);
        assert!(raw.take(32).iter().all(|delivered| delivered.attempt == 1));
        unsubscribe(&mut raw);
    }
    assert!(admin.letters("orders").is_empty());
    assert_eq!(admin.info("orders").depth, 32);
}

#[test]
fn a_slow_handler_with_full_prefetch_loses_no_lease() {
    let broker = Broker::start(&[]);
    let visibility_timeout = Duration::from_millis(1_600);
    let mut admin = Raw::hello(broker.address);
    publish_numbers(&mut admin, "orders", 64);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = qwerq::Client::connect(broker.broker()).await.expect("the broker listens");
        let options = qwerq::ConsumeOptions::default().group("g").prefetch(32).visibility_timeout(visibility_timeout);
        let mut subscription = client.consume("orders", options).await.expect("a subscription");
        for _ in 0..64 {
            let delivery = subscription.next().await.expect("open").expect("a delivery");
            assert_eq!(delivery.attempt, 1);
            // This is the work.
            tokio::time::sleep(visibility_timeout * 2 / 32).await;
            delivery.ack().expect("the lease is in force");
        }
        subscription.close().await.expect("closed");
        client.close().await.expect("closed");
    });
    let info = admin.info("orders");
    assert_eq!((info.depth, info.in_flight), (0, 0));
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).expect("the process runs");
}

#[test]
fn a_stopped_consumer_beside_a_healthy_one_dead_letters_nothing() {
    let broker = Broker::start(&[]);
    let mut admin = Raw::hello(broker.address);
    admin.create(
        "orders",
        wire::QueueOptions { visibility_timeout_ms: Some(300), max_deliveries: Some(2), ..wire::QueueOptions::default() },
    );
    let mut stopped = broker.command(&["consume", "-q", "orders", "-g", "g"]).stdout(Stdio::null()).spawn().expect("it starts");
    while admin.info("orders").groups.first().is_none_or(|group| group.consumers == 0) {}
    signal(&stopped, rustix::process::Signal::STOP);
    publish_numbers(&mut admin, "orders", 20);
    while admin.info("orders").in_flight < 20 {}
    let mut healthy = Raw::hello(broker.address);
    healthy.consume("orders", "g", 32);
    let mut seen = Vec::new();
    while seen.len() < 20 {
        for delivered in healthy.expect::<wire::Deliver>(Opcode::Message).messages {
            seen.push((delivered.seq, delivered.attempt));
            healthy.send(Opcode::Ack, None, &wire::Settle { lease_ids: vec![delivered.lease_id], ..wire::Settle::default() });
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..20).map(|seq| (seq, 2)).collect::<Vec<_>>());
    while admin.info("orders").depth > 0 {}
    assert!(admin.letters("orders").is_empty());
    signal(&stopped, rustix::process::Signal::CONT);
    stopped.kill().expect("it runs");
    stopped.wait().expect("it was ours");
}

fn keyed(key: String, payload: String) -> wire::PublishItem {
    wire::PublishItem { payload: Bytes::from(payload), ordering_key: key, ..wire::PublishItem::default() }
}

#[test]
fn a_held_key_stops_no_other_while_consumers_come_and_go() {
    const KEYS: usize = 100;
    const EACH: usize = 5;
    let broker = Broker::start(&[]);
    let mut admin = Raw::hello(broker.address);
    let held = (0..3).map(|number| keyed("held".to_owned(), format!("held {number}")));
    admin.publish(&wire::Publish { queue: "orders".to_owned(), items: held.collect(), ..wire::Publish::default() });
    let mut holder = Raw::hello(broker.address);
    holder.consume("orders", "g", 1);
    let head = holder.take_one();
    assert_eq!(head.payload, "held 0");
    let items = (0..EACH).flat_map(|number| (0..KEYS).map(move |key| keyed(format!("key {key}"), number.to_string())));
    admin.publish(&wire::Publish { queue: "orders".to_owned(), items: items.collect(), ..wire::Publish::default() });
    let mut acked: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut round = 0_u32;
    let done = |acked: &BTreeMap<String, Vec<u64>>| acked.values().map(Vec::len).sum::<usize>() == KEYS * EACH;
    while !done(&acked) {
        round += 1;
        let mut raw = Raw::hello(broker.address);
        raw.consume("orders", "g", 7);
        let mut waiting = VecDeque::new();
        for taken in 0..7 + round % 5 {
            if done(&acked) {
                break;
            }
            let delivered = waiting.pop_front().unwrap_or_else(|| raw.take_one_of_many(&mut waiting));
            assert_ne!(delivered.ordering_key, "held", "it is still held");
            // Now and then one is left to the disconnect, which must not cost it its place.
            if (taken + round).is_multiple_of(9) {
                break;
            }
            waiting.extend(raw.ack(&delivered));
            acked.entry(delivered.ordering_key).or_default().push(delivered.seq);
        }
        if round.is_multiple_of(2) {
            unsubscribe(&mut raw);
        }
    }
    for (key, seqs) in &acked {
        assert!(seqs.is_sorted() && seqs.len() == EACH, "{key} was handled in the order {seqs:?}");
    }
    let (settled, meanwhile) = holder.settle(Opcode::Reject, &head, wire::Settle::default());
    assert_eq!(settled.settled, 1);
    let next = meanwhile.into_iter().next().unwrap_or_else(|| holder.take_one());
    assert_eq!(next.payload, "held 1");
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

#[test]
fn a_consumer_that_stops_reading_costs_its_prefetch_and_slows_nobody() {
    // As many as 5,000 a second for a minute.
    const MESSAGES: usize = 300_000;
    let broker = Broker::start(&[]);
    let mut stuck = Raw::hello(broker.address);
    stuck.consume("orders", "stuck", 65_536);
    let mut publisher = Raw::hello(broker.address);
    let mut healthy = Raw::hello(broker.address);
    healthy.consume("orders", "g", 10_000);
    let payload = [7_u8; 100];
    let payloads: Vec<&[u8]> = vec![&payload; 1_000];
    publisher.publish_payloads("orders", &payloads);
    let before = resident_kib(broker.pid());
    let mut got = 0;
    for round in 1..=MESSAGES / payloads.len() {
        if round > 1 {
            publisher.publish_payloads("orders", &payloads);
        }
        while got < round * payloads.len() {
            let deliver: wire::Deliver = healthy.expect(Opcode::Message);
            got += deliver.messages.len();
            let lease_ids = deliver.messages.into_iter().map(|delivered| delivered.lease_id).collect();
            healthy.send(Opcode::Ack, None, &wire::Settle { lease_ids, ..wire::Settle::default() });
        }
    }
    let grown = resident_kib(broker.pid()).saturating_sub(before);
    // What the stuck group has not settled is on the disk; memory holds its leases, what its socket has not taken, and caches.
    assert!(grown < 96 << 10, "memory grew by {grown} KiB");
}

#[test]
fn acks_flow_on_a_connection_that_publishes_into_a_full_queue() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("orders", wire::QueueOptions { max_messages: Some(10), ..wire::QueueOptions::default() });
    publish_numbers(&mut raw, "orders", 10);
    raw.consume("orders", "g", 10);
    for delivered in raw.take(10) {
        let results = raw.publish_payloads("full", &[b"elsewhere"]);
        assert!(results[0].error.is_none());
        let refused = raw.publish_payloads("orders", &[b"one more"]);
        let error = refused[0].error.as_ref().expect("the queue is full");
        assert_eq!(
            (error.name.as_str(), error.details["limit"].as_str(), error.details["group"].as_str()),
            ("queue-full", "max_messages", "g")
        );
        raw.ack(&delivered);
        let refill = raw.publish_payloads("orders", &[b"refill"]);
        assert!(refill[0].error.is_none(), "an ack made room: {refill:?}");
        // The refill is delivered to this connection too; it is left alone.
        raw.take_one();
    }
}

#[test]
fn a_full_queue_says_whose_messages_fill_it_and_how_long_nobody_came_for_them() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("orders", wire::QueueOptions { max_messages: Some(1), ..wire::QueueOptions::default() });
    let mut consumer = Raw::hello(broker.address);
    consumer.consume("orders", "gone", 1);
    unsubscribe(&mut consumer);
    publish_numbers(&mut raw, "orders", 1);
    let results = raw.publish_payloads("orders", &[b"x"]);
    let error = results[0].error.as_ref().expect("the queue is full");
    assert!(error.message.contains("max_messages is 1; group `gone` holds the oldest message, and has had no consumer for"), "{error:?}");
    assert!(error.details["idle_ms"].parse::<u64>().is_ok() && error.details["group"] == "gone", "{error:?}");
}

#[test]
fn an_idempotency_key_is_recorded_with_the_write_and_only_then() {
    let mut broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("orders", wire::QueueOptions { max_messages: Some(1), ..wire::QueueOptions::default() });
    let keyed = || wire::Publish {
        queue: "orders".to_owned(),
        items: vec![wire::PublishItem { payload: Bytes::from_static(b"m"), idempotency_key: "once".to_owned(), ..Default::default() }],
        ..wire::Publish::default()
    };
    raw.publish_payloads("orders", &[b"in the way"]);
    assert_eq!(raw.publish(&keyed())[0].error.as_ref().map(|error| error.name.as_str()), Some("queue-full"));
    let _: wire::Purged = raw.ask(Opcode::QueuePurge, &wire::QueueName { name: "orders".to_owned() }, Opcode::QueuePurged);
    let first = raw.publish(&keyed()).remove(0);
    assert!(first.error.is_none() && !first.duplicate, "a refused publish records nothing: {first:?}");
    let again = raw.publish(&keyed()).remove(0);
    assert_eq!((again.duplicate, &again.id, again.seq), (true, &first.id, first.seq));
    broker.kill();
    broker.restart();
    let mut raw = Raw::hello(broker.address);
    let again = raw.publish(&keyed()).remove(0);
    assert_eq!((again.duplicate, &again.id, again.seq), (true, &first.id, first.seq));
    assert_eq!(raw.info("orders").depth, 1);
}
