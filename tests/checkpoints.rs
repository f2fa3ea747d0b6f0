//! Publishing faster than checkpoints are written: publishes wait for them, everything is acknowledged in order, and all of it is there.

mod support;

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};
use support::broker::Broker;
use support::raw::Raw;

const MESSAGES: usize = 6_000;
const PAYLOAD_BYTES: usize = 64 << 10;
const IN_FLIGHT: usize = 256;

fn publish(number: usize) -> wire::Publish {
    let mut payload = vec![0; PAYLOAD_BYTES];
    payload[..8].copy_from_slice(&(number as u64).to_be_bytes());
    let item = wire::PublishItem { payload: Bytes::from(payload), ..wire::PublishItem::default() };
    wire::Publish { queue: "bulk".to_owned(), items: vec![item], ..wire::Publish::default() }
}

#[test]
fn publishes_that_wait_for_a_checkpoint_are_answered_in_order() {
    let mut broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    let mut sent = 0;
    for acknowledged in 0..MESSAGES {
        while sent < MESSAGES && sent - acknowledged < IN_FLIGHT {
            raw.send(Opcode::Publish, None, &publish(sent));
            // A request behind a publish that waits keeps its place.
            if sent % 64 == 0 {
                raw.send(Opcode::QueueInfo, None, &wire::QueueName { name: format!("none-{sent}") });
            }
            sent += 1;
        }
        let ack: wire::PublishAck = raw.expect(Opcode::PublishAck);
        assert_eq!(ack.results[0].seq, Some(acknowledged as u64), "{ack:?}");
        if acknowledged % 64 == 0 {
            assert_eq!(raw.expect_error("queue-not-found").details["queue"], format!("none-{acknowledged}"));
        }
    }
    broker.kill();
    broker.restart();
    let mut raw = Raw::hello(broker.address);
    raw.send(Opcode::Consume, None, &wire::Consume { queue: "bulk".to_owned(), prefetch: 64, ..wire::Consume::default() });
    let _: wire::ConsumeAck = raw.expect(Opcode::ConsumeAck);
    let mut consumed = 0;
    while consumed < MESSAGES {
        let deliver: wire::Deliver = raw.expect(Opcode::Message);
        let mut lease_ids = Vec::new();
        for message in deliver.messages {
            assert_eq!(message.payload.len(), PAYLOAD_BYTES);
            assert_eq!(message.payload[..8], (consumed as u64).to_be_bytes());
            consumed += 1;
            lease_ids.push(message.lease_id);
        }
        raw.send(Opcode::Ack, None, &wire::Settle { lease_ids, ..wire::Settle::default() });
    }
}
