//! Deliveries: what dispatch hands out becomes MESSAGE frames. A stored message is copied into the frame as it is.

use qwerq_core::dispatch::Reading;
use qwerq_core::stored::{field_bytes, field_varint, varint, varint_len};
use qwerq_core::{Delivery, QueueId, Seq, SubscriptionKey};
use qwerq_proto::{LEASE_ID_BYTES, Opcode, encode_payload_frame, wire};
use rustc_hash::FxHashMap;

use super::command::Asker;
use super::consume::start_of;
use super::{Fault, Shard, reply};

/// Messages that one turn delivers at most.
const DELIVERIES_PER_TURN: usize = 4_096;

/// Messages that one turn gives readers at most.
const READINGS_PER_TURN: usize = 1_024;

/// The field of `Deliver` that messages are.
const DELIVER_MESSAGES: u8 = 2;

/// Bytes after which a MESSAGE frame is sent and the next one begun.
const FRAME_BYTES: usize = 256 << 10;

/// The MESSAGE frames that a turn collects, one for each subscription.
#[derive(Default)]
pub(super) struct DeliverFrames {
    frames: FxHashMap<SubscriptionKey, Vec<u8>>,
    order: Vec<SubscriptionKey>,
    spare: Vec<Vec<u8>>,
}

impl Shard {
    /// Delivers what can go; says whether there may be more.
    pub(super) fn deliver(&mut self) -> Result<bool, Fault> {
        let now = self.clock.now();
        let mut delivered = 0;
        while delivered < DELIVERIES_PER_TURN {
            let Some(delivery) = self.dispatch.next_delivery(&self.state, now) else { break };
            delivered += 1;
            self.latencies.delivered(&delivery, now);
            self.activities.of(delivery.queue).delivered += 1;
            self.put_delivery(&delivery)?;
        }
        self.answer_fetches();
        let mut read = 0;
        while read < READINGS_PER_TURN {
            let Some(reading) = self.dispatch.next_reading(&self.state) else { break };
            read += 1;
            self.activities.of(reading.queue).delivered += 1;
            self.put_message(reading.subscription, reading.queue, reading.seq, |frame, stored| put_reading(frame, &reading, stored))?;
        }
        self.metrics.consumed.add((delivered + read) as u64);
        let order = std::mem::take(&mut self.frames.order);
        for key in &order {
            if let Some(frame) = self.frames.frames.remove(key) {
                self.send_frame(*key, frame);
            }
        }
        self.frames.order = order;
        self.frames.order.clear();
        Ok(delivered == DELIVERIES_PER_TURN || read == READINGS_PER_TURN)
    }

    fn put_delivery(&mut self, delivery: &Delivery) -> Result<(), Fault> {
        if self.traces.are_on() {
            let (traces, state) = (&mut self.traces, &self.state);
            let queue = || state.queue(delivery.queue).expect("a delivery comes from a queue").name.clone();
            self.payloads.with(delivery.queue, delivery.seq, |stored| traces.delivering(queue, delivery, stored))?;
        }
        if delivery.subscription.is_pull() {
            let fetches = &mut self.fetches;
            return self.payloads.with(delivery.queue, delivery.seq, |stored| fetches.put(delivery, stored));
        }
        let put = |frame: &mut Vec<u8>, stored: &[u8]| put_delivered(frame, DELIVER_MESSAGES, delivery, stored);
        self.put_message(delivery.subscription, delivery.queue, delivery.seq, put)
    }

    /// Adds a message to a subscription's frame, and sends the frame when it is large.
    fn put_message(&mut self, key: SubscriptionKey, queue: QueueId, seq: Seq, put: impl FnOnce(&mut Vec<u8>, &[u8])) -> Result<(), Fault> {
        let frames = &mut self.frames;
        let frame = frames.frames.entry(key).or_insert_with(|| {
            frames.order.push(key);
            let mut frame = frames.spare.pop().unwrap_or_default();
            begin_frame(&mut frame, key);
            frame
        });
        self.payloads.with(queue, seq, |stored| put(frame, stored))?;
        if frame.len() >= FRAME_BYTES {
            let frame = std::mem::take(frame);
            self.send_frame(key, frame);
            let mut next = self.frames.spare.pop().unwrap_or_default();
            begin_frame(&mut next, key);
            self.frames.frames.insert(key, next);
        }
        Ok(())
    }

    fn send_frame(&mut self, key: SubscriptionKey, mut frame: Vec<u8>) {
        // A frame that was just begun names the subscription only.
        if frame.len() > 1 + varint_len(key.number) {
            self.send(key.session, |out| encode_payload_frame(out, Opcode::Message, None, &frame));
        }
        frame.clear();
        self.frames.spare.push(frame);
    }

    pub(super) fn peek(&mut self, asker: Asker, peek: &wire::Peek) -> Result<(), Fault> {
        const PEEK_MAX: u32 = 1_000;
        const PEEK_BYTES: usize = 8 << 20;
        let (id, mut seqs) = match self.queue_of(&peek.queue) {
            Ok(queue) => {
                let messages = queue.messages();
                let from = peek.start_at.as_ref().map_or(peek.from_seq, |start| start_of(queue, Some(start)));
                let first = messages.next_at(from);
                let max = usize::try_from(peek.max.clamp(1, PEEK_MAX)).expect("1,000 fits");
                let seqs: Vec<_> = std::iter::successors(first, |seq| messages.next_at(seq + 1)).take(max).collect();
                (queue.id, seqs.into_iter())
            }
            Err(error) => {
                self.replies.push(reply::error(asker, &error));
                return Ok(());
            }
        };
        let mut fetched = Vec::new();
        while fetched.len() < PEEK_BYTES
            && let Some(seq) = seqs.next()
        {
            self.payloads.with(id, seq, |stored| {
                let seq_len = 1 + varint_len(seq);
                fetched.push(1 << 3 | 2);
                varint(&mut fetched, (seq_len + stored.len()) as u64);
                field_varint(&mut fetched, 2, seq);
                fetched.extend_from_slice(stored);
            })?;
        }
        let mut bytes = Vec::with_capacity(fetched.len() + 16);
        encode_payload_frame(&mut bytes, Opcode::Fetched, asker.request_id, &fetched);
        self.replies.push(reply::Reply::Frames { session: asker.session, bytes });
        Ok(())
    }
}

fn begin_frame(frame: &mut Vec<u8>, key: SubscriptionKey) {
    frame.clear();
    field_varint(frame, 1, key.number);
}

/// Appends one `Delivered` as the given field of its frame's message: the delivery's own fields, then the stored message.
pub(super) fn put_delivered(frame: &mut Vec<u8>, field: u8, delivery: &Delivery, stored: &[u8]) {
    let skipped_len = if delivery.skipped == 0 { 0 } else { 1 + varint_len(delivery.skipped) };
    let attempt_len = varint_len(u64::from(delivery.attempt));
    let own = 2 + LEASE_ID_BYTES + 1 + varint_len(delivery.seq) + 1 + attempt_len + skipped_len + 1 + varint_len(delivery.lease_ms);
    frame.push(field << 3 | 2);
    varint(frame, (own + stored.len()) as u64);
    field_bytes(frame, 1, &delivery.lease_id.to_bytes());
    field_varint(frame, 2, delivery.seq);
    field_varint(frame, 3, u64::from(delivery.attempt));
    if delivery.skipped != 0 {
        field_varint(frame, 4, delivery.skipped);
    }
    field_varint(frame, 5, delivery.lease_ms);
    frame.extend_from_slice(stored);
}

/// Appends one `Delivered` without a lease.
fn put_reading(frame: &mut Vec<u8>, reading: &Reading, stored: &[u8]) {
    let skipped_len = if reading.skipped == 0 { 0 } else { 1 + varint_len(reading.skipped) };
    let own = 1 + varint_len(reading.seq) + 2 + skipped_len;
    frame.push(DELIVER_MESSAGES << 3 | 2);
    varint(frame, (own + stored.len()) as u64);
    field_varint(frame, 2, reading.seq);
    field_varint(frame, 3, 1);
    if reading.skipped > 0 {
        field_varint(frame, 4, reading.skipped);
    }
    frame.extend_from_slice(stored);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use prost::Message;
    use qwerq_core::stored::Content;
    use qwerq_core::{LeaseId, MessageId, SessionId};

    #[test]
    fn a_delivery_written_by_hand_is_what_prost_reads() {
        let key = SubscriptionKey { session: SessionId(1), number: 300 };
        let lease_id = LeaseId { epoch: 1, counter: 2, secret: 3 };
        let delivery =
            Delivery { subscription: key, lease_id, queue: QueueId(0), seq: 0, attempt: 2, skipped: 12, lease_ms: 30_000, at: 0 };
        let content = Content {
            id: MessageId([9; 16]),
            published_at: 1_700_000_000_000,
            schema_version: 3,
            headers: [("a", "1"), ("empty", "")].into_iter(),
            ordering_key: "k",
            payload: b"payload",
        };
        let (mut stored, mut frame) = (Vec::new(), Vec::new());
        content.encode(&mut stored);
        begin_frame(&mut frame, key);
        put_delivered(&mut frame, DELIVER_MESSAGES, &delivery, &stored);
        put_reading(&mut frame, &Reading { subscription: key, queue: QueueId(0), seq: 7, skipped: 300 }, &stored);
        let deliver = wire::Deliver::decode(frame.as_slice()).unwrap();
        let header = |name: &str, value: &str| wire::Header { name: name.to_owned(), value: value.to_owned() };
        let expected = wire::Delivered {
            lease_id: lease_id.to_bytes().to_vec().into(),
            seq: 0,
            attempt: 2,
            skipped: 12,
            lease_ms: 30_000,
            id: vec![9; 16].into(),
            published_at_ms: 1_700_000_000_000,
            schema_version: 3,
            headers: vec![header("a", "1"), header("empty", "")],
            ordering_key: "k".to_owned(),
            payload: "payload".into(),
        };
        let read = wire::Delivered { lease_id: Bytes::new(), seq: 7, attempt: 1, skipped: 300, lease_ms: 0, ..expected.clone() };
        assert_eq!(deliver, wire::Deliver { subscription: 300, messages: vec![expected, read] });
    }
}
