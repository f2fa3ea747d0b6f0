//! Pulling: what a fetch gets, how long it waits, and whose its leases are.

mod support;

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};
use support::broker::Broker;
use support::raw::Raw;

const QUEUE: &str = "orders";

fn fetch(max: u32) -> wire::Fetch {
    wire::Fetch { queue: QUEUE.to_owned(), max, ..wire::Fetch::default() }
}

/// Fetches what is there at once.
fn fetched(raw: &mut Raw, fetch: &wire::Fetch) -> Vec<wire::Delivered> {
    raw.send(Opcode::Fetch, None, fetch);
    raw.expect::<wire::Fetched>(Opcode::Fetched).messages
}

fn payloads(messages: &[wire::Delivered]) -> Vec<&[u8]> {
    messages.iter().map(|message| &message.payload[..]).collect()
}

/// How many leases are settled, confirmed.
fn acked(raw: &mut Raw, messages: &[wire::Delivered]) -> u32 {
    let lease_ids = messages.iter().map(|message| message.lease_id.clone()).collect();
    raw.send(Opcode::Ack, Some(1), &wire::Settle { lease_ids, confirm: true, ..wire::Settle::default() });
    raw.expect::<wire::Settled>(Opcode::Settled).settled
}

/// What the broker says of the queue once it has dealt with all that this connection sent before. It takes a batch of requests at a time
/// and begins fetches at its end, so the first answer may be from before.
fn info(raw: &mut Raw) -> wire::QueueInfo {
    raw.send(Opcode::QueueInfo, None, &wire::QueueName { name: QUEUE.to_owned() });
    let _: wire::QueueInfo = raw.expect(Opcode::QueueInfoResponse);
    raw.send(Opcode::QueueInfo, None, &wire::QueueName { name: QUEUE.to_owned() });
    raw.expect(Opcode::QueueInfoResponse)
}

#[test]
fn a_fetch_gets_what_is_ready_up_to_max_in_one_reply() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    assert_eq!(fetched(&mut raw, &fetch(5)), [], "nothing is there, and it does not wait");
    raw.publish_payloads(QUEUE, &[b"a", b"b", b"c"]);
    let first = fetched(&mut raw, &fetch(2));
    assert_eq!(payloads(&first), [b"a", b"b"]);
    assert!(first.iter().all(|message| message.attempt == 1 && message.lease_id.len() == 24 && message.lease_ms == 30_000));
    let rest = fetched(&mut raw, &wire::Fetch { visibility_timeout_ms: 9_000, ..fetch(2) });
    assert_eq!((payloads(&rest), rest[0].lease_ms), (vec![&b"c"[..]], 9_000));
    assert_eq!(acked(&mut raw, &[first, rest].concat()), 3);
    let info = info(&mut raw);
    assert_eq!((info.depth, info.groups[0].name.as_str(), info.groups[0].consumers), (0, "default", 0));
}

#[test]
fn a_fetch_without_correlation_keeps_its_place_and_must_not_wait() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    let item = wire::PublishItem { payload: Bytes::from_static(b"a"), ..wire::PublishItem::default() };
    let publish = wire::Publish { queue: QUEUE.to_owned(), items: vec![item], ..wire::Publish::default() };
    raw.publish(&publish);
    for _ in 0..20 {
        raw.send(Opcode::Publish, None, &publish);
        raw.send(Opcode::Fetch, None, &fetch(1));
        raw.send(Opcode::Publish, None, &publish);
    }
    for _ in 0..20 {
        let _: wire::PublishAck = raw.expect(Opcode::PublishAck);
        let fetched: wire::Fetched = raw.expect(Opcode::Fetched);
        assert_eq!(fetched.messages.len(), 1, "what was published before it is there");
        let _: wire::PublishAck = raw.expect(Opcode::PublishAck);
    }
    raw.send(Opcode::Fetch, None, &wire::Fetch { wait_ms: 1, ..fetch(1) });
    raw.expect_error("correlation-required");
    assert!(raw.next().is_none(), "a protocol error closes the connection");
}

#[test]
fn a_fetch_that_waits_is_answered_by_the_first_message_or_when_its_time_is_up() {
    let broker = Broker::start(&[]);
    let (mut raw, mut publisher) = (Raw::hello(broker.address), Raw::hello(broker.address));
    raw.send(Opcode::Fetch, Some(7), &wire::Fetch { wait_ms: 10, ..fetch(5) });
    let frame = raw.next().expect("an answer");
    assert_eq!((frame.opcode, frame.request_id, frame.payload.len()), (Opcode::Fetched as u8, Some(7), 0));

    raw.send(Opcode::Fetch, Some(8), &wire::Fetch { wait_ms: 3_600_000, ..fetch(5) });
    assert_eq!(info(&mut raw).groups[0].consumers, 1, "who waits is a consumer");
    publisher.publish_payloads(QUEUE, &[b"a", b"b"]);
    let woken: wire::Fetched = raw.expect(Opcode::Fetched);
    assert_eq!(payloads(&woken.messages), [b"a", b"b"]);
    publisher.publish_payloads(QUEUE, &[b"c"]);
    let info = info(&mut raw);
    assert_eq!((info.groups[0].consumers, info.groups[0].in_flight), (0, 2), "an answered fetch takes nothing more");
}

#[test]
fn a_fetch_that_is_cancelled_takes_nothing() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.send(Opcode::Fetch, Some(7), &wire::Fetch { wait_ms: 3_600_000, ..fetch(1) });
    info(&mut raw);
    raw.send(Opcode::Cancel, None, &wire::Cancel { request_id: 8 });
    raw.send(Opcode::Cancel, None, &wire::Cancel { request_id: 7 });
    raw.expect_error("cancelled");
    // In one breath: whichever comes first, there is one reply, and a cancelled fetch has leased nothing.
    raw.publish_payloads(QUEUE, &[b"a"]);
    raw.send(Opcode::Fetch, Some(9), &fetch(1));
    raw.send(Opcode::Cancel, None, &wire::Cancel { request_id: 9 });
    let reply = raw.next().expect("one reply");
    assert_eq!(reply.request_id, Some(9));
    let leased = u64::from(reply.opcode == Opcode::Fetched as u8);
    assert_eq!(info(&mut raw).groups[0].in_flight, leased);
}

#[test]
fn a_detached_lease_outlives_the_connection_and_anybody_settles_it() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.publish_payloads(QUEUE, &[b"a", b"b"]);
    let mut lent = Raw::hello(broker.address);
    let detached = fetched(&mut lent, &wire::Fetch { detached: true, ..fetch(1) });
    let mut bound = Raw::hello(broker.address);
    let attached = fetched(&mut bound, &fetch(1));
    assert_eq!(acked(&mut raw, &attached), 0, "another connection's lease is not ours");
    drop((lent, bound));
    raw.send(Opcode::Fetch, Some(3), &wire::Fetch { wait_ms: 3_600_000, ..fetch(9) });
    let again: wire::Fetched = raw.expect(Opcode::Fetched);
    assert_eq!((payloads(&again.messages), again.messages[0].attempt), (vec![&b"b"[..]], 2), "only the other lease ended");
    assert_eq!(acked(&mut raw, &detached), 1);
    assert_eq!(acked(&mut raw, &detached), 0);
}

#[test]
fn a_fetch_takes_no_more_than_one_frame_holds() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    let large = vec![7; 1 << 20];
    for _ in 0..20 {
        let results = raw.publish_payloads(QUEUE, &[&large]);
        assert!(results[0].error.is_none(), "{results:?}");
    }
    let first = fetched(&mut raw, &fetch(100));
    assert_eq!(first.len(), 15, "16 MiB hold fifteen messages of 1 MiB and what belongs to them");
    assert_eq!(info(&mut raw).groups[0].in_flight, 15);
    assert_eq!(fetched(&mut raw, &fetch(100)).len(), 5);
}

#[test]
fn a_fetch_finds_its_group_as_a_consumer_does() {
    let broker = Broker::start(&["--auto-create", "false"]);
    let mut raw = Raw::hello(broker.address);
    raw.send(Opcode::Fetch, None, &fetch(1));
    raw.expect_error("queue-not-found");
    for (name, mode) in [(QUEUE, "queue"), ("log", "stream")] {
        let options = Some(wire::QueueOptions { mode: Some(mode.to_owned()), ..wire::QueueOptions::default() });
        raw.send(Opcode::QueueCreate, None, &wire::QueueCreate { name: name.to_owned(), options });
        let _: wire::QueueInfo = raw.expect(Opcode::QueueInfoResponse);
    }
    raw.publish_payloads(QUEUE, &[b"a"]);
    let end = wire::StartAt { at: Some(wire::start_at::At::End(true)) };
    assert_eq!(fetched(&mut raw, &wire::Fetch { group: "late".to_owned(), start_at: Some(end), ..fetch(1) }), []);
    raw.send(Opcode::Fetch, None, &fetch(1));
    raw.expect_error("group-required");
    raw.send(Opcode::Fetch, None, &wire::Fetch { queue: "log".to_owned(), ..fetch(1) });
    raw.expect_error("group-required");
    raw.send(Opcode::Fetch, None, &wire::Fetch { group: "no/name".to_owned(), ..fetch(1) });
    raw.expect_error("invalid-name");
    raw.send(Opcode::Fetch, None, &fetch(u32::MAX));
    raw.expect_error("invalid-argument");

    raw.send(Opcode::Fetch, Some(4), &wire::Fetch { group: "late".to_owned(), wait_ms: 3_600_000, ..fetch(1) });
    let group = wire::GroupRequest { queue: QUEUE.to_owned(), group: "late".to_owned(), start_at: None };
    raw.send(Opcode::GroupDelete, Some(5), &group);
    let mut replies: Vec<_> = (0..2).map(|_| raw.next().expect("two replies")).map(|frame| (frame.request_id, frame.opcode)).collect();
    replies.sort_unstable();
    assert_eq!(replies, [(Some(4), Opcode::Error as u8), (Some(5), Opcode::Done as u8)]);
}
