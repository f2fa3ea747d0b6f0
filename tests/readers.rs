//! Readers without a group: tails, and consumers of a stream that name none.

mod support;

use qwerq_proto::{Opcode, wire};
use support::broker::Broker;
use support::raw::Raw;
use wire::start_at::At;

fn create(raw: &mut Raw, name: &str, mode: &str) {
    let options = Some(wire::QueueOptions { mode: Some(mode.to_owned()), ..wire::QueueOptions::default() });
    raw.send(Opcode::QueueCreate, None, &wire::QueueCreate { name: name.to_owned(), options });
    let _: wire::QueueInfo = raw.expect(Opcode::QueueInfoResponse);
}

fn consume(queue: &str, role: wire::Role) -> wire::Consume {
    wire::Consume { subscription: 5, queue: queue.to_owned(), role: role as i32, ..wire::Consume::default() }
}

fn subscribe(raw: &mut Raw, consume: &wire::Consume) -> wire::ConsumeAck {
    raw.send(Opcode::Consume, None, consume);
    raw.expect(Opcode::ConsumeAck)
}

fn info(raw: &mut Raw, queue: &str) -> wire::QueueInfo {
    raw.send(Opcode::QueueInfo, None, &wire::QueueName { name: queue.to_owned() });
    raw.expect(Opcode::QueueInfoResponse)
}

/// The payloads of the next `count` messages, which have no leases.
fn read(raw: &mut Raw, count: usize) -> Vec<Vec<u8>> {
    let mut read = Vec::new();
    while read.len() < count {
        let deliver: wire::Deliver = raw.expect(Opcode::Message);
        assert_eq!(deliver.subscription, 5);
        for message in deliver.messages {
            assert_eq!((message.lease_id.len(), message.attempt, message.lease_ms), (0, 1, 0));
            read.push(message.payload.to_vec());
        }
    }
    read
}

#[test]
fn a_tail_follows_the_end_and_creates_nothing() {
    let broker = Broker::start(&[]);
    let (mut raw, mut publisher) = (Raw::hello(broker.address), Raw::hello(broker.address));
    raw.send(Opcode::Consume, None, &consume("missing", wire::Role::Tail));
    assert_eq!(raw.expect_error("queue-not-found").subscription, Some(5));
    for mode in ["queue", "stream"] {
        create(&mut publisher, mode, mode);
        publisher.publish_payloads(mode, &[b"before"]);
        let ack = subscribe(&mut raw, &consume(mode, wire::Role::Tail));
        assert_eq!((ack.subscription, ack.group.as_str(), ack.group_existed, ack.visibility_timeout_ms), (5, "", false, 0));
        publisher.publish_payloads(mode, &[b"a", b"b"]);
        assert_eq!(read(&mut raw, 2), [b"a", b"b"]);
        let info = info(&mut publisher, mode);
        assert_eq!((info.groups, info.depth, info.in_flight), (Vec::new(), 3, 0));
        raw.send(Opcode::Unsubscribe, None, &wire::Unsubscribe { subscription: 5, keep_leases: false });
        let _: wire::SubscriptionEnded = raw.expect(Opcode::SubscriptionEnded);
    }
    raw.send(Opcode::QueueInfo, None, &wire::QueueName { name: "missing".to_owned() });
    raw.expect_error("queue-not-found");
    let grouped = wire::Consume { group: "g".to_owned(), ..consume("queue", wire::Role::Tail) };
    let begun = wire::Consume { start_at: Some(wire::StartAt { at: Some(At::Beginning(true)) }), ..consume("queue", wire::Role::Tail) };
    for refused in [grouped, begun] {
        raw.send(Opcode::Consume, None, &refused);
        raw.expect_error("invalid-argument");
    }
}

#[test]
fn a_stream_is_read_without_a_group_from_wherever_the_reader_says() {
    let broker = Broker::start(&[]);
    let (mut raw, mut publisher) = (Raw::hello(broker.address), Raw::hello(broker.address));
    create(&mut publisher, "log", "stream");
    publisher.publish_payloads("log", &[b"a", b"b", b"c"]);
    let cases = [
        (None, vec!["d"]),
        (Some(At::End(true)), vec!["e"]),
        (Some(At::Offset(4)), vec!["e", "f"]),
        (Some(At::Beginning(true)), vec!["a", "b", "c", "d", "e", "f", "g"]),
        (Some(At::TimeMs(0)), vec!["a", "b", "c", "d", "e", "f", "g", "h"]),
    ];
    for ((start, expected), next) in cases.into_iter().zip(["d", "e", "f", "g", "h"]) {
        let start_at = start.map(|at| wire::StartAt { at: Some(at) });
        let ack = subscribe(&mut raw, &wire::Consume { start_at, ..consume("log", wire::Role::Consume) });
        assert_eq!(ack.group, "");
        publisher.publish_payloads("log", &[next.as_bytes()]);
        let expected: Vec<_> = expected.into_iter().map(|text| text.as_bytes().to_vec()).collect();
        assert_eq!(read(&mut raw, expected.len()), expected, "from {start:?}");
        raw.send(Opcode::Unsubscribe, None, &wire::Unsubscribe { subscription: 5, keep_leases: false });
        let _: wire::SubscriptionEnded = raw.expect(Opcode::SubscriptionEnded);
    }
    assert_eq!(info(&mut publisher, "log").groups, []);
}

#[test]
fn a_reader_gets_as_many_as_its_last_credit_says_and_hears_what_it_missed() {
    let broker = Broker::start(&[]);
    let (mut raw, mut publisher) = (Raw::hello(broker.address), Raw::hello(broker.address));
    create(&mut publisher, "log", "stream");
    let start_at = Some(wire::StartAt { at: Some(At::Beginning(true)) });
    publisher.publish_payloads("log", &[b"a", b"b", b"c", b"d", b"e"]);
    subscribe(&mut raw, &wire::Consume { start_at, prefetch: 2, ..consume("log", wire::Role::Consume) });
    assert_eq!(read(&mut raw, 2), [b"a", b"b"]);
    assert_eq!(info(&mut raw, "log").depth, 5, "and nothing came before this answer");
    raw.send(Opcode::Credit, None, &wire::Credit { subscription: 5, prefetch: 1, prefetch_bytes: 0 });
    assert_eq!(read(&mut raw, 1), [b"c"]);
    raw.send(Opcode::QueuePurge, None, &wire::QueueName { name: "log".to_owned() });
    let _: wire::Purged = raw.expect(Opcode::QueuePurged);
    raw.send(Opcode::Credit, None, &wire::Credit { subscription: 5, prefetch: 9, prefetch_bytes: 0 });
    publisher.publish_payloads("log", &[b"f"]);
    let deliver: wire::Deliver = raw.expect(Opcode::Message);
    assert_eq!((deliver.messages[0].seq, deliver.messages[0].skipped), (5, 2));
}

#[test]
fn a_reader_works_through_a_backlog_beside_consumers_and_holds_nothing_back() {
    const MESSAGES: usize = 5_000;
    let broker = Broker::start(&[]);
    let (mut raw, mut other) = (Raw::hello(broker.address), Raw::hello(broker.address));
    create(&mut other, "log", "stream");
    let payloads: Vec<_> = (0..MESSAGES).map(|n| n.to_be_bytes().to_vec()).collect();
    other.publish_payloads("log", &payloads.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let start_at = Some(wire::StartAt { at: Some(At::Offset(0)) });
    let all = wire::Consume { start_at, prefetch: 65_536, ..consume("log", wire::Role::Consume) };
    subscribe(&mut raw, &all);
    subscribe(&mut other, &wire::Consume { group: "g".to_owned(), ..all });
    assert_eq!(read(&mut raw, MESSAGES), payloads);
    let mut leases = Vec::new();
    while leases.len() < MESSAGES {
        leases.extend(other.expect::<wire::Deliver>(Opcode::Message).messages.into_iter().map(|message| message.lease_id));
    }
    other.send(Opcode::Ack, None, &wire::Settle { lease_ids: leases, confirm: true, ..wire::Settle::default() });
    assert_eq!(other.expect::<wire::Settled>(Opcode::Settled).settled as usize, MESSAGES);
}

#[test]
fn a_reader_ends_with_its_queue() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    create(&mut raw, "log", "stream");
    subscribe(&mut raw, &consume("log", wire::Role::Tail));
    raw.send(Opcode::Consume, None, &consume("log", wire::Role::Tail));
    raw.expect_error("subscription-exists");
    raw.send(Opcode::QueueDelete, Some(1), &wire::QueueName { name: "log".to_owned() });
    let mut ended = None;
    for _ in 0..2 {
        let frame = raw.next().expect("DONE and SUBSCRIPTION_ENDED");
        if frame.opcode == Opcode::SubscriptionEnded as u8 {
            ended = Some(<wire::SubscriptionEnded as prost::Message>::decode(frame.payload).expect("a SUBSCRIPTION_ENDED"));
        }
    }
    let ended = ended.expect("the reader is told");
    assert_eq!((ended.subscription, ended.reason.expect("a reason").name.as_str()), (5, "queue-not-found"));
}
