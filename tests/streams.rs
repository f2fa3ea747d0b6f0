//! Streams: append-only, kept by age, bytes and count; groups that move.

mod support;

use qwerq_proto::wire::start_at::At;
use qwerq_proto::{Opcode, wire};
use support::broker::Broker;
use support::raw::Raw;

fn stream() -> wire::QueueOptions {
    wire::QueueOptions { mode: Some("stream".to_owned()), ..wire::QueueOptions::default() }
}

fn publish_numbers(raw: &mut Raw, queue: &str, numbers: std::ops::Range<u32>) {
    let texts: Vec<_> = numbers.map(|number| number.to_string()).collect();
    let payloads: Vec<_> = texts.iter().map(|text| text.as_bytes()).collect();
    let results = raw.publish_payloads(queue, &payloads);
    assert!(results.iter().all(|result| result.error.is_none()), "{results:?}");
}

fn request(group: &str, at: At) -> wire::GroupRequest {
    wire::GroupRequest { queue: "events".to_owned(), group: group.to_owned(), start_at: Some(wire::StartAt { at: Some(at) }) }
}

fn seek(raw: &mut Raw, group: &str, at: At) {
    let _: wire::Done = raw.ask(Opcode::Seek, &request(group, at), Opcode::Done);
}

#[test]
fn settled_messages_stay_and_every_group_reads_from_where_it_wants() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("events", stream());
    publish_numbers(&mut raw, "events", 0..5);
    raw.consume("events", "all", 10);
    for delivered in raw.take(5) {
        raw.ack(&delivered);
    }
    assert_eq!(raw.info("events").depth, 5);
    let mut other = Raw::hello(broker.address);
    other.consume_as(&wire::Consume {
        subscription: 1,
        queue: "events".to_owned(),
        group: "late".to_owned(),
        start_at: Some(wire::StartAt { at: Some(At::Offset(3)) }),
        ..wire::Consume::default()
    });
    assert_eq!(other.take(2).iter().map(|delivered| delivered.seq).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn a_stream_drops_its_oldest_and_the_next_delivery_says_how_many_were_missed() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("events", wire::QueueOptions { max_messages: Some(10), ..stream() });
    let _: wire::Done = raw.ask(Opcode::GroupCreate, &request("slow", At::Beginning(true)), Opcode::Done);
    publish_numbers(&mut raw, "events", 0..25);
    while raw.info("events").depth > 10 {}
    let info = raw.info("events");
    assert_eq!((info.first_seq, info.next_seq), (15, 25));
    raw.consume("events", "slow", 1);
    let first = raw.take_one();
    assert_eq!((first.seq, first.skipped), (15, 15));
    // A leased one is never dropped.
    let mut publisher = Raw::hello(broker.address);
    publish_numbers(&mut publisher, "events", 25..40);
    while publisher.info("events").depth > 10 {}
    assert_eq!(publisher.info("events").first_seq, 15);
    let meanwhile = raw.ack(&first);
    let next = meanwhile.into_iter().next().unwrap_or_else(|| raw.take_one());
    assert_eq!((next.seq, next.skipped), (31, 15));
}

#[test]
fn a_stream_keeps_no_more_bytes_than_max_bytes() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("events", wire::QueueOptions { max_bytes: Some(1_000), ..stream() });
    let payload = [7; 100];
    let payloads: Vec<&[u8]> = vec![&payload; 50];
    raw.publish_payloads("events", &payloads);
    while raw.info("events").bytes > 1_000 {}
    assert_eq!((raw.info("events").depth, raw.info("events").first_seq), (10, 40));
}

#[test]
fn a_stream_lets_go_of_what_is_older_than_max_age_without_traffic() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("events", wire::QueueOptions { max_age_ms: Some(300), ..stream() });
    publish_numbers(&mut raw, "events", 0..5);
    while raw.info("events").depth > 0 {}
    publish_numbers(&mut raw, "events", 5..6);
    assert_eq!(raw.info("events").next_seq, 6);
    while raw.info("events").depth > 0 {}
}

#[test]
fn seek_moves_a_group_and_voids_its_leases() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("events", stream());
    publish_numbers(&mut raw, "events", 0..5);
    raw.consume("events", "g", 10);
    let delivered = raw.take(5);
    raw.ack(&delivered[0]);
    let mut admin = Raw::hello(broker.address);
    seek(&mut admin, "g", At::Beginning(true));
    let again = raw.take(5);
    assert_eq!(
        again.iter().map(|delivered| (delivered.seq, delivered.attempt)).collect::<Vec<_>>(),
        [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]
    );
    let (settled, _) = raw.settle(Opcode::Ack, &delivered[1], wire::Settle::default());
    assert_eq!(settled.refused[0].error.as_ref().map(|error| error.name.as_str()), Some("stale-lease"));
    seek(&mut admin, "g", At::End(true));
    publish_numbers(&mut admin, "events", 5..6);
    assert_eq!(raw.take_one().seq, 5);
    seek(&mut admin, "g", At::Offset(4));
    assert_eq!(raw.take(2).iter().map(|delivered| delivered.seq).collect::<Vec<_>>(), [4, 5]);
    let published = again[2].published_at_ms;
    seek(&mut admin, "g", At::TimeMs(published));
    assert!(raw.expect::<wire::Deliver>(Opcode::Message).messages[0].published_at_ms >= published);
    admin.send(Opcode::Seek, None, &request("nobody", At::End(true)));
    admin.expect_error("group-not-found");
    admin.send(Opcode::Seek, None, &wire::GroupRequest { start_at: None, ..request("g", At::End(true)) });
    admin.expect_error("invalid-argument");
}

#[test]
fn a_committed_offset_settles_everything_up_to_it() {
    let mut broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("events", stream());
    publish_numbers(&mut raw, "events", 0..6);
    raw.consume("events", "g", 3);
    raw.take(3);
    let commit = |offset| wire::CommitOffset { queue: "events".to_owned(), group: "g".to_owned(), offset };
    raw.send(Opcode::CommitOffset, None, &commit(3));
    // The leases below it end, so the rest comes.
    let mut seen = Vec::new();
    let mut done = false;
    while !done || seen.len() < 2 {
        let frame = raw.next().expect("the connection is open");
        match Opcode::from_u8(frame.opcode) {
            Some(Opcode::Done) => done = true,
            Some(Opcode::Message) => {
                let deliver = <wire::Deliver as prost::Message>::decode(frame.payload).expect("a MESSAGE");
                seen.extend(deliver.messages.into_iter().map(|delivered| delivered.seq));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, [4, 5]);
    raw.send(Opcode::CommitOffset, None, &commit(6));
    raw.expect_error("invalid-argument");
    raw.publish_payloads("queue", &[b"x"]);
    raw.consume_as(&wire::Consume { subscription: 2, queue: "queue".to_owned(), ..wire::Consume::default() });
    raw.take_one();
    raw.send(Opcode::CommitOffset, None, &wire::CommitOffset { queue: "queue".to_owned(), group: "default".to_owned(), offset: 0 });
    raw.expect_error("wrong-mode");
    broker.kill();
    broker.restart();
    let mut raw = Raw::hello(broker.address);
    assert_eq!(raw.info("events").groups[0].ack_floor, 4);
}

#[test]
fn a_group_that_nobody_uses_goes_after_group_expiry() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.create("events", wire::QueueOptions { group_expiry_ms: Some(300), ..stream() });
    raw.consume("events", "used", 1);
    let _: wire::Done = raw.ask(Opcode::GroupCreate, &request("unused", At::Beginning(true)), Opcode::Done);
    let names = |info: wire::QueueInfo| info.groups.into_iter().map(|group| group.name).collect::<Vec<_>>();
    while names(raw.info("events")) != ["used"] {}
    let _: wire::SubscriptionEnded =
        raw.ask(Opcode::Unsubscribe, &wire::Unsubscribe { subscription: 1, keep_leases: false }, Opcode::SubscriptionEnded);
    while !raw.info("events").groups.is_empty() {}
}
