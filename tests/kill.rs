//! kill -9 at random moments under load: what was acknowledged is there, what was confirmed as settled does not come back.
//!
//! The books are kept here, outside the broker: every acknowledged publish, every confirmed ack.

mod support;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use qwerq_proto::{Frame, Opcode, wire};
use support::broker::Broker;
use support::raw::Raw;

const ROUNDS: u64 = 50;
const QUEUE: &str = "orders";
/// Large enough that several generations are checkpointed during the test.
const PAYLOAD_BYTES: usize = 2_048;
/// Messages that the publisher keeps unacknowledged.
const UNACKNOWLEDGED: u64 = 320;
const PER_FRAME: u64 = 8;

/// What the clients know.
#[derive(Default)]
struct Books {
    /// Published and acknowledged.
    acknowledged: BTreeSet<u64>,
    /// Acked, and the ack confirmed.
    settled: BTreeSet<u64>,
    /// Acked; the broker died before it confirmed, so either is right.
    maybe_settled: BTreeSet<u64>,
}

fn payload(number: u64) -> Bytes {
    let mut bytes = vec![0; PAYLOAD_BYTES];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

fn number(payload: &[u8]) -> u64 {
    assert_eq!(payload.len(), PAYLOAD_BYTES, "a payload comes back as it was");
    u64::from_be_bytes(payload[..8].try_into().expect("eight bytes"))
}

/// Publishes until the broker dies; returns how many messages were unacknowledged then.
fn publish(address: SocketAddr, next: &AtomicU64, progress: &AtomicU64, books: &Mutex<Books>) -> u64 {
    let mut raw = Raw::hello(address);
    let mut in_flight = std::collections::VecDeque::new();
    loop {
        while in_flight.len() as u64 * PER_FRAME < UNACKNOWLEDGED {
            let first = next.fetch_add(PER_FRAME, Ordering::Relaxed);
            let items = (first..first + PER_FRAME).map(|n| wire::PublishItem { payload: payload(n), ..wire::PublishItem::default() });
            let publish = wire::Publish { queue: QUEUE.to_owned(), items: items.collect(), ..wire::Publish::default() };
            let mut bytes = Vec::new();
            qwerq_proto::encode_frame(&mut bytes, Opcode::Publish, None, &publish);
            in_flight.push_back(first);
            if !raw.write(&bytes) {
                break;
            }
        }
        let Some(Frame { opcode, payload, .. }) = raw.next() else {
            return in_flight.len() as u64 * PER_FRAME;
        };
        assert_eq!(opcode, Opcode::PublishAck as u8);
        let ack: wire::PublishAck = prost::Message::decode(payload).expect("a PUBLISH_ACK");
        let first = in_flight.pop_front().expect("an ack answers a publish");
        let mut books = books.lock().expect("no panic");
        for (at, result) in (first..).zip(&ack.results) {
            assert!(result.error.is_none(), "{result:?}");
            books.acknowledged.insert(at);
        }
        progress.fetch_add(ack.results.len() as u64, Ordering::Relaxed);
    }
}

/// Consumes and acks, each ack confirmed, until the broker dies or `enough` says so of what was just settled.
fn consume(address: SocketAddr, books: &Mutex<Books>, mut enough: impl FnMut(&[u64]) -> bool) {
    let mut raw = Raw::hello(address);
    raw.send(Opcode::Consume, None, &wire::Consume { queue: QUEUE.to_owned(), prefetch: 64, ..wire::Consume::default() });
    let mut acking = std::collections::VecDeque::new();
    while let Some(Frame { opcode, payload, .. }) = raw.next() {
        let mut books = books.lock().expect("no panic");
        match Opcode::from_u8(opcode) {
            Some(Opcode::Message) => {
                let deliver: wire::Deliver = prost::Message::decode(payload).expect("a MESSAGE");
                let numbers: Vec<_> = deliver.messages.iter().map(|message| number(&message.payload)).collect();
                for number in &numbers {
                    assert!(!books.settled.contains(number), "message {number} came back after its ack was confirmed");
                    books.maybe_settled.insert(*number);
                }
                let lease_ids = deliver.messages.into_iter().map(|message| message.lease_id).collect();
                let mut bytes = Vec::new();
                let settle = wire::Settle { lease_ids, confirm: true, ..wire::Settle::default() };
                qwerq_proto::encode_frame(&mut bytes, Opcode::Ack, None, &settle);
                acking.push_back(numbers);
                raw.write(&bytes);
            }
            Some(Opcode::Settled) => {
                let settled: wire::Settled = prost::Message::decode(payload).expect("a SETTLED");
                assert_eq!(settled.refused, [], "an ack in time is not stale");
                let numbers = acking.pop_front().expect("a SETTLED answers an ACK");
                for number in &numbers {
                    books.maybe_settled.remove(number);
                    books.settled.insert(*number);
                }
                if enough(&numbers) {
                    return;
                }
            }
            Some(Opcode::ConsumeAck) => {}
            other => panic!("{other:?} is not expected"),
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_settled_returns_at_any_moment() {
    let mut broker = Broker::start(&[]);
    let books = Arc::new(Mutex::new(Books::default()));
    let next = Arc::new(AtomicU64::new(0));
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..ROUNDS {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = 1 + (seed >> 33) % 4_000;
        let progress = Arc::new(AtomicU64::new(0));
        let address = broker.address;
        let publisher = {
            let (next, progress, books) = (Arc::clone(&next), Arc::clone(&progress), Arc::clone(&books));
            std::thread::spawn(move || publish(address, &next, &progress, &books))
        };
        let consumer = {
            let books = Arc::clone(&books);
            std::thread::spawn(move || consume(address, &books, |_| false))
        };
        while progress.load(Ordering::Relaxed) < moment {
            assert!(!publisher.is_finished(), "the broker does not die by itself");
            std::thread::yield_now();
        }
        broker.kill();
        let unacknowledged = publisher.join().expect("the publisher's checks hold");
        consumer.join().expect("the consumer's checks hold");
        assert!(unacknowledged >= 100, "round {round}: only {unacknowledged} were unacknowledged at the kill");
        broker.restart();
    }
    // What was acknowledged and not settled must come now.
    let (acknowledged, mut owed) = {
        let books = books.lock().expect("no panic");
        let owed = books.acknowledged.iter().filter(|number| !books.settled.contains(number) && !books.maybe_settled.contains(number));
        (books.acknowledged.len(), owed.copied().collect::<BTreeSet<_>>())
    };
    if !owed.is_empty() {
        consume(broker.address, &books, |settled| {
            owed.retain(|number| !settled.contains(number));
            owed.is_empty()
        });
    }
    assert!(owed.is_empty(), "{} acknowledged messages are gone, the first is {:?}", owed.len(), owed.first());
    let books = books.lock().expect("no panic");
    println!("{ROUNDS} kills: {acknowledged} acknowledged, {} settled, {} in doubt", books.settled.len(), books.maybe_settled.len());
    assert!(acknowledged > 10_000, "there was load");
}
