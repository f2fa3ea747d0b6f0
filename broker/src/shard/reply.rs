//! Replies wait for the commit of everything before them, so that nothing is said before it is durable and each connection hears its
//! answers in the order of its questions.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use prost::Message;
use qwerq_core::stored::{field_bytes, field_varint, varint_len};
use qwerq_core::{MessageId, Seq};
use qwerq_proto::{ErrorCode, Opcode, encode_frame, encode_payload_frame, wire};

use super::command::Asker;
use super::fetch::Fetch;
use super::traces::Traced;

/// A reply that waits for the commit.
#[derive(Debug)]
pub(super) enum Reply {
    /// PUBLISH_ACK.
    Publish(PublishReply),
    /// FETCHED, made when the reply's turn comes, unless it waits for a message.
    Fetch(Fetch),
    /// The connection is gone: nothing follows.
    End(qwerq_core::SessionId),
    /// Anything whose bytes are known.
    Frames {
        /// Whose.
        session: qwerq_core::SessionId,
        /// Whole frames.
        bytes: Vec<u8>,
    },
}

/// A PUBLISH_ACK whose positions are known once its entries are applied.
#[derive(Debug)]
pub(super) struct PublishReply {
    pub(super) asker: Asker,
    pub(super) window_bytes: u64,
    pub(super) schema_version: u32,
    pub(super) contract_unknown: bool,
    pub(super) items: Vec<ItemReply>,
    /// When the request arrived.
    pub(super) received: Instant,
    /// Items whose publisher records a trace, and the queue, which is not looked at otherwise.
    pub(super) traced: Option<(Arc<str>, Vec<Traced>)>,
}

/// What became of one item.
#[derive(Debug)]
pub(super) enum ItemReply {
    /// Stored by an entry of the batch, at a position in it.
    Stored { id: MessageId, entry: usize, at: u32 },
    /// Stored until it falls due; it has no position yet.
    Delayed { id: MessageId },
    /// It breaks the contract, and went to the dead letters.
    DeadLettered { id: MessageId, error: Box<wire::Error> },
    /// Seen before; the first may have had no position yet.
    Duplicate { id: MessageId, seq: Option<Seq> },
    /// Seen before in the same batch; its position is remembered with its key.
    DuplicateOfPending { id: MessageId, queue: qwerq_core::QueueId, key: String },
    /// Not stored.
    Refused(Box<wire::Error>),
}

/// Encodes frames for one asker.
pub(super) fn frame(asker: Asker, opcode: Opcode, message: &impl Message) -> Reply {
    let mut bytes = Vec::with_capacity(16 + message.encoded_len());
    encode_frame(&mut bytes, opcode, asker.request_id, message);
    Reply::Frames { session: asker.session, bytes }
}

/// An ERROR for one asker.
pub(super) fn error(asker: Asker, error: &wire::Error) -> Reply {
    frame(asker, Opcode::Error, error)
}

/// One result of a PUBLISH_ACK, appended as a field of it. Written by hand, since there is one for each message.
pub(super) fn put_stored_result(out: &mut Vec<u8>, id: MessageId, seq: Option<Seq>, schema_version: u32, duplicate: bool) {
    let seq_len = seq.map_or(0, |seq| 1 + varint_len(seq));
    let version_len = if schema_version == 0 { 0 } else { 1 + varint_len(u64::from(schema_version)) };
    let length = 18 + seq_len + version_len + if duplicate { 2 } else { 0 };
    out.push(1 << 3 | 2);
    qwerq_core::stored::varint(out, length as u64);
    field_bytes(out, 1, &id.0);
    if let Some(seq) = seq {
        field_varint(out, 2, seq);
    }
    if schema_version != 0 {
        field_varint(out, 3, u64::from(schema_version));
    }
    if duplicate {
        field_varint(out, 4, 1);
    }
}

/// A refused item's result, appended as a field of a PUBLISH_ACK.
pub(super) fn put_refused_result(out: &mut Vec<u8>, refused: wire::Error) {
    let result = wire::PublishResult { error: Some(refused), ..wire::PublishResult::default() };
    field_bytes(out, 1, &result.encode_to_vec());
}

/// The result of an item that went to the dead letters, appended as a field of a PUBLISH_ACK.
pub(super) fn put_dead_lettered_result(out: &mut Vec<u8>, id: MessageId, violation: wire::Error) {
    let result = wire::PublishResult {
        id: Bytes::copy_from_slice(&id.0),
        error: Some(violation),
        dead_lettered: true,
        ..wire::PublishResult::default()
    };
    field_bytes(out, 1, &result.encode_to_vec());
}

/// Ends a PUBLISH_ACK whose results are in `results` and appends it as a frame.
pub(super) fn put_publish_ack(
    out: &mut Vec<u8>,
    asker: Asker,
    results: &mut Vec<u8>,
    durability: wire::Durability,
    contract_unknown: bool,
) {
    field_varint(results, 2, u64::from((durability as i32).cast_unsigned()));
    if contract_unknown {
        field_varint(results, 3, 1);
    }
    encode_payload_frame(out, Opcode::PublishAck, asker.request_id, results);
}

/// The error that a [`qwerq_core::Rejection`] is on the wire.
pub(super) fn refusal(rejection: &qwerq_core::Rejection) -> wire::Error {
    use qwerq_core::Rejection;
    let text = rejection.to_string();
    match rejection {
        Rejection::QueueFull { queue, limit, value, holder } => {
            let error = ErrorCode::QueueFull.with(text).detail("queue", queue).detail("limit", limit).detail("value", value);
            match holder {
                Some(group) => error.detail("group", group),
                None => error,
            }
        }
        Rejection::MessageTooLarge { queue, size, max } => {
            ErrorCode::MessageTooLarge.with(text).detail("queue", queue).detail("bytes", size).detail("limit", max)
        }
        Rejection::DedupFull { queue, max } => ErrorCode::DedupFull.with(text).detail("queue", queue).detail("limit", max),
        Rejection::StaleLease { .. } => ErrorCode::StaleLease.with(text),
        Rejection::SubscriptionExists { number } => ErrorCode::SubscriptionExists.with(text).detail("subscription", number),
    }
}

/// A lease id from the wire.
pub(super) fn lease_id(bytes: &Bytes) -> Result<qwerq_core::LeaseId, wire::Error> {
    qwerq_core::LeaseId::from_bytes(bytes)
        .ok_or_else(|| ErrorCode::StaleLease.with(format!("a lease id has 24 bytes, this one {}", bytes.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use qwerq_core::SessionId;

    #[test]
    fn a_publish_ack_written_by_hand_is_what_prost_reads() {
        let id = MessageId([7; 16]);
        let mut results = Vec::new();
        put_stored_result(&mut results, id, Some(300), 2, false);
        put_stored_result(&mut results, id, None, 0, true);
        put_refused_result(&mut results, ErrorCode::QueueFull.with("full"));
        let asker = Asker { session: SessionId(1), request_id: None };
        let mut frame = Vec::new();
        put_publish_ack(&mut frame, asker, &mut results, wire::Durability::Interval, true);
        let ack = wire::PublishAck::decode(&frame[6..]).unwrap();
        let stored = |seq, schema_version, duplicate| wire::PublishResult {
            id: Bytes::copy_from_slice(&id.0),
            seq,
            schema_version,
            duplicate,
            ..wire::PublishResult::default()
        };
        let refused = wire::PublishResult { error: Some(ErrorCode::QueueFull.with("full")), ..wire::PublishResult::default() };
        assert_eq!(ack.results, [stored(Some(300), 2, false), stored(None, 0, true), refused]);
        assert_eq!(ack.durability(), wire::Durability::Interval);
        assert!(ack.contract_unknown);
    }
}
