//! PUBLISH and PUBLISH_ACK by hand: the hot path of every publisher. Items are encoded once, straight from what the caller handed in, and
//! results are read without a detour over structs with room for errors. The tests compare both with prost.

use bytes::{BufMut, BytesMut};
use prost::Message as _;
use prost::encoding::{self, WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use qwerq_proto::frame::encode_header;
use qwerq_proto::{Frame, Opcode, wire};

use crate::error::{Error, Refusal};
use crate::fields::{Fields, Value, low_32, malformed};
use crate::id::MessageId;
use crate::lane::{Batch, Key, Lane};
use crate::message::{Durability, Message, Published};
use crate::retry_key::{RetryKey, RetryKeys};
use crate::wire_time::{epoch_millis, millis};

/// Protobuf fields of `Publish`.
mod publish {
    pub(super) const QUEUE: u32 = 1;
    pub(super) const ITEMS: u32 = 2;
    pub(super) const ATOMIC: u32 = 3;
    pub(super) const CONTRACT: u32 = 4;
}

/// Protobuf fields of `PublishItem`.
mod item {
    pub(super) const PAYLOAD: u32 = 1;
    pub(super) const HEADERS: u32 = 2;
    pub(super) const ORDERING_KEY: u32 = 3;
    pub(super) const IDEMPOTENCY_KEY: u32 = 4;
    pub(super) const DELAY_MS: u32 = 5;
    pub(super) const DELIVER_AT_MS: u32 = 6;
    pub(super) const TTL_MS: u32 = 7;
    pub(super) const ID: u32 = 8;
}

/// One message on its way into a batch, measured.
#[derive(Debug)]
pub(crate) struct Item<'m> {
    message: &'m Message,
    /// The key that it gets when it has none of its caller's.
    retry_key: Option<RetryKey>,
    headers: Vec<&'m wire::Header>,
    /// Encoded bytes without the field's own tag and length.
    body_len: usize,
}

impl<'m> Item<'m> {
    /// With `keys`, a message without an idempotency key gets one of the client's own.
    pub(crate) fn new(message: &'m Message, keys: Option<&RetryKeys>) -> Item<'m> {
        let retry_key = keys.filter(|_| text(&message.options.idempotency_key).is_empty()).map(RetryKeys::take);
        let mut item = Item { message, retry_key, headers: message.options.headers.wire().iter().collect(), body_len: 0 };
        item.body_len = item.measure();
        item
    }

    /// What lets it be sent twice.
    pub(crate) fn key(&self) -> Key {
        match &self.retry_key {
            Some(key) => Key::Client(key.number),
            None if text(&self.message.options.idempotency_key).is_empty() => Key::None,
            None => Key::Caller,
        }
    }

    fn idempotency_key(&self) -> &[u8] {
        self.retry_key.as_ref().map_or_else(|| text(&self.message.options.idempotency_key), |key| key.text.as_bytes())
    }

    /// Bytes that [`Item::encode`] appends.
    pub(crate) fn encoded_len(&self) -> usize {
        key_len(publish::ITEMS) + encoded_len_varint(self.body_len as u64) + self.body_len
    }

    fn measure(&self) -> usize {
        let options = &self.message.options;
        let number = |field, value: Option<u64>| value.map_or(0, |value| encoding::uint64::encoded_len(field, &value));
        let headers: usize = self.headers.iter().map(|header| encoding::message::encoded_len(item::HEADERS, *header)).sum();
        bytes_len(item::PAYLOAD, &self.message.payload)
            + headers
            + bytes_len(item::ORDERING_KEY, text(&options.ordering_key))
            + bytes_len(item::IDEMPOTENCY_KEY, self.idempotency_key())
            + number(item::DELAY_MS, options.delay.map(millis))
            + number(item::DELIVER_AT_MS, options.deliver_at.map(epoch_millis))
            + number(item::TTL_MS, options.ttl.map(millis))
            + options.id.as_ref().map_or(0, |id| bytes_len(item::ID, id.as_bytes()))
    }

    /// Appends the message as one more of `Publish.items`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let options = &self.message.options;
        let begin = out.len();
        out.reserve(self.encoded_len());
        encode_key(publish::ITEMS, WireType::LengthDelimited, out);
        encode_varint(self.body_len as u64, out);
        encode_bytes(item::PAYLOAD, &self.message.payload, out);
        for header in &self.headers {
            encoding::message::encode(item::HEADERS, *header, out);
        }
        encode_bytes(item::ORDERING_KEY, text(&options.ordering_key), out);
        encode_bytes(item::IDEMPOTENCY_KEY, self.idempotency_key(), out);
        let numbers = [
            (item::DELAY_MS, options.delay.map(millis)),
            (item::DELIVER_AT_MS, options.deliver_at.map(epoch_millis)),
            (item::TTL_MS, options.ttl.map(millis)),
        ];
        for (field, value) in numbers {
            if let Some(value) = value {
                encoding::uint64::encode(field, &value, out);
            }
        }
        if let Some(id) = &options.id {
            encode_bytes(item::ID, id.as_bytes(), out);
        }
        debug_assert_eq!(out.len() - begin, self.encoded_len());
    }
}

fn text(value: &Option<String>) -> &[u8] {
    value.as_deref().unwrap_or_default().as_bytes()
}

/// Bytes of a `bytes` or `string` field; an empty one is left out.
fn bytes_len(field: u32, value: &[u8]) -> usize {
    if value.is_empty() { 0 } else { key_len(field) + encoded_len_varint(value.len() as u64) + value.len() }
}

fn encode_bytes(field: u32, value: &[u8], out: &mut impl BufMut) {
    if !value.is_empty() {
        encode_key(field, WireType::LengthDelimited, out);
        encode_varint(value.len() as u64, out);
        out.put_slice(value);
    }
}

/// Bytes of the PUBLISH that carries `batch`.
pub(crate) fn payload_len(lane: &Lane, batch: &Batch) -> usize {
    let contract = lane.contract.as_ref().map_or(0, |contract| bytes_len(publish::CONTRACT, contract));
    let atomic = if batch.atomic { encoding::bool::encoded_len(publish::ATOMIC, &true) } else { 0 };
    bytes_len(publish::QUEUE, lane.queue.as_bytes()) + batch.items.len() + atomic + contract
}

/// Appends the PUBLISH that carries `batch`; `payload_bytes` is its [`payload_len`].
pub(crate) fn encode(out: &mut BytesMut, id: u32, lane: &Lane, batch: &Batch, payload_bytes: usize) {
    out.reserve(payload_bytes + 16);
    encode_header(out, Opcode::Publish, Some(id), payload_bytes);
    encode_bytes(publish::QUEUE, lane.queue.as_bytes(), out);
    out.put_slice(&batch.items);
    if batch.atomic {
        encoding::bool::encode(publish::ATOMIC, &true, out);
    }
    if let Some(contract) = &lane.contract {
        encode_bytes(publish::CONTRACT, contract, out);
    }
}

/// A decoded PUBLISH_ACK.
#[derive(Debug)]
pub(crate) struct Ack {
    pub(crate) results: Vec<Result<Published, Error>>,
    pub(crate) any_error: bool,
}

impl Ack {
    /// Reads the answer to a PUBLISH of `count` messages.
    pub(crate) fn decode(frame: &Frame, count: usize) -> Result<Ack, Error> {
        let mut ack = Ack { results: Vec::with_capacity(count), any_error: false };
        let mut durability = Durability::Unspecified;
        let mut contract_unknown = false;
        let mut fields = Fields::new(&frame.payload);
        while let Some(field) = fields.next()? {
            match field {
                (1, Value::Bytes(result)) => {
                    let result = read_result(result)?;
                    ack.any_error |= result.is_err();
                    ack.results.push(result);
                }
                (2, Value::Varint(value)) => {
                    let known = i32::try_from(value).ok().and_then(|value| Durability::try_from(value).ok());
                    durability = known.unwrap_or(Durability::Unspecified);
                }
                (3, Value::Varint(value)) => contract_unknown = value != 0,
                _ => {}
            }
        }
        for published in ack.results.iter_mut().flatten() {
            published.durability = durability;
            published.contract_unknown = contract_unknown;
        }
        Ok(ack)
    }
}

/// Reads a `PublishResult`; what the frame says about all of them is filled in later.
fn read_result(result: &[u8]) -> Result<Result<Published, Error>, Error> {
    let mut published = Published {
        id: MessageId::default(),
        seq: None,
        schema_version: 0,
        duplicate: false,
        contract_unknown: false,
        durability: Durability::Unspecified,
        dead_lettered: None,
    };
    let mut error = None;
    let mut dead_lettered = false;
    let mut fields = Fields::new(result);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(id)) => published.id = MessageId::from_slice(id).unwrap_or_default(),
            (2, Value::Varint(seq)) => published.seq = Some(seq),
            (3, Value::Varint(version)) => published.schema_version = low_32(version),
            (4, Value::Varint(value)) => published.duplicate = value != 0,
            (5, Value::Bytes(bytes)) => error = Some(Error::from(wire::Error::decode(bytes).map_err(malformed)?)),
            (6, Value::Varint(value)) => dead_lettered = value != 0,
            _ => {}
        }
    }
    match error {
        Some(error) if !dead_lettered => return Ok(Err(error)),
        error => published.dead_lettered = error.as_ref().and_then(Error::refusal).cloned().map(Box::<Refusal>::new),
    }
    Ok(Ok(published))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use bytes::Bytes;
    use proptest::prelude::*;
    use qwerq_proto::FrameDecoder;

    use super::*;
    use crate::message::PublishOptions;

    fn message() -> impl Strategy<Value = Message> {
        let text = || prop::option::of("[a-z]{0,9}");
        let ms = || prop::option::of(0..u64::from(u32::MAX));
        let texts = (text(), text(), prop::collection::vec(("[a-z]{0,200}", "[a-z]{0,9}"), 0..4));
        let rest = (prop::collection::vec(any::<u8>(), 0..300), ms(), ms(), ms(), prop::option::of(any::<[u8; 16]>()));
        (texts, rest).prop_map(|((ordering_key, idempotency_key, headers), (payload, delay, deliver_at, ttl, id))| {
            Message::new(payload).with(PublishOptions {
                headers: headers.into_iter().collect(),
                ordering_key,
                idempotency_key,
                delay: delay.map(Duration::from_millis),
                deliver_at: deliver_at.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)),
                ttl: ttl.map(Duration::from_millis),
                id: id.map(MessageId),
            })
        })
    }

    fn to_wire(message: &Message) -> wire::PublishItem {
        let options = &message.options;
        wire::PublishItem {
            payload: message.payload.clone(),
            headers: options.headers.wire().to_vec(),
            ordering_key: options.ordering_key.clone().unwrap_or_default(),
            idempotency_key: options.idempotency_key.clone().unwrap_or_default(),
            delay_ms: options.delay.map(millis),
            deliver_at_ms: options.deliver_at.map(epoch_millis),
            ttl_ms: options.ttl.map(millis),
            id: options.id.map_or_else(Bytes::new, |id| Bytes::copy_from_slice(id.as_bytes())),
        }
    }

    proptest! {
        #[test]
        fn a_publish_is_what_prost_would_send(
            messages in prop::collection::vec(message(), 1..4),
            contract: Option<[u8; 32]>,
            queue in "[a-z]{1,250}",
        ) {
            let lane = Lane::new(queue.clone(), contract);
            let expected = wire::Publish {
                queue,
                items: messages.iter().map(to_wire).collect(),
                atomic: true,
                contract: contract.map_or_else(Bytes::new, |contract| Bytes::copy_from_slice(&contract)),
            };
            let batch = Batch::atomic(messages.into_iter(), None);
            let mut out = BytesMut::new();
            encode(&mut out, 7, &lane, &batch, payload_len(&lane, &batch));
            let frame = FrameDecoder::new(u32::MAX).decode(&mut out).unwrap().unwrap();
            prop_assert_eq!((frame.request_id, out.len()), (Some(7), 0));
            prop_assert_eq!(wire::Publish::decode(frame.payload).unwrap(), expected);
        }

        #[test]
        fn garbage_is_refused_or_read_but_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let frame = Frame { opcode: Opcode::PublishAck as u8, request_id: Some(1), payload: bytes.into() };
            let _ = Ack::decode(&frame, 1);
        }
    }
}
