//! Messages as they arrive, in MESSAGE and FETCHED: decoded by hand, since this is the hot path of every consumer. The payload is a slice
//! of the frame; everything else is copied. The tests compare the result with prost's.

use bytes::Bytes;
use prost::Message as _;
use qwerq_proto::wire;

use crate::error::Error;
use crate::fields::{Fields, Value, low_32, malformed, text};
use crate::id::MessageId;
use crate::ledger::LeaseId;

/// Protobuf field of `Deliver.messages`.
const DELIVER_MESSAGES_FIELD: u32 = 2;

/// Protobuf field of `Fetched.messages`.
const FETCHED_MESSAGES_FIELD: u32 = 1;

/// Protobuf field of `Fetched.next_seq`.
const FETCHED_NEXT_SEQ_FIELD: u32 = 2;

/// The fields of `wire::Delivered`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// None for a reader that follows the tail, and for PEEK.
    pub(crate) lease: Option<LeaseId>,
    pub(crate) lease_ms: u64,
    pub(crate) id: MessageId,
    pub(crate) seq: u64,
    pub(crate) attempt: u32,
    pub(crate) skipped: u64,
    pub(crate) published_at_ms: u64,
    pub(crate) schema_version: u32,
    pub(crate) headers: Vec<wire::Header>,
    pub(crate) ordering_key: Option<String>,
    pub(crate) payload: Bytes,
}

/// A MESSAGE frame: its subscription and what arrived for it.
pub(crate) fn decode_deliver(frame: &Bytes) -> Result<(u32, Vec<Arrival>), Error> {
    let mut subscription = 0;
    let mut arrivals = Vec::new();
    let mut fields = Fields::new(frame);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Varint(number)) => subscription = low_32(number),
            (DELIVER_MESSAGES_FIELD, Value::Bytes(message)) => arrivals.push(Arrival::decode(frame, message)?),
            _ => {}
        }
    }
    Ok((subscription, arrivals))
}

/// A FETCHED frame.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) arrivals: Vec<Arrival>,
    /// Where a reader of pages goes on, if there may be more.
    pub(crate) next_seq: Option<u64>,
}

impl Fetched {
    pub(crate) fn decode(frame: &Bytes) -> Result<Fetched, Error> {
        let mut fetched = Fetched::default();
        let mut fields = Fields::new(frame);
        while let Some(field) = fields.next()? {
            match field {
                (FETCHED_MESSAGES_FIELD, Value::Bytes(message)) => fetched.arrivals.push(Arrival::decode(frame, message)?),
                (FETCHED_NEXT_SEQ_FIELD, Value::Varint(seq)) => fetched.next_seq = Some(seq),
                _ => {}
            }
        }
        Ok(fetched)
    }
}

impl Arrival {
    fn decode(frame: &Bytes, message: &[u8]) -> Result<Arrival, Error> {
        let mut arrival = Arrival::default();
        let mut fields = Fields::new(message);
        while let Some(field) = fields.next()? {
            match field {
                (1, Value::Bytes(lease)) => arrival.lease = lease.try_into().ok(),
                (2, Value::Varint(seq)) => arrival.seq = seq,
                (3, Value::Varint(attempt)) => arrival.attempt = low_32(attempt),
                (4, Value::Varint(skipped)) => arrival.skipped = skipped,
                (5, Value::Varint(lease_ms)) => arrival.lease_ms = lease_ms,
                (6, Value::Bytes(id)) => arrival.id = MessageId::from_slice(id).unwrap_or_default(),
                (7, Value::Varint(ms)) => arrival.published_at_ms = ms,
                (8, Value::Varint(version)) => arrival.schema_version = low_32(version),
                (9, Value::Bytes(header)) => arrival.headers.push(wire::Header::decode(header).map_err(malformed)?),
                (10, Value::Bytes(key)) => arrival.ordering_key = Some(text(key)?).filter(|key| !key.is_empty()),
                (15, Value::Bytes(payload)) => arrival.payload = frame.slice_ref(payload),
                _ => {}
            }
        }
        Ok(arrival)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn from_wire(message: wire::Delivered) -> Arrival {
        Arrival {
            lease: LeaseId::try_from(&message.lease_id[..]).ok(),
            lease_ms: message.lease_ms,
            id: MessageId::from_slice(&message.id).unwrap_or_default(),
            seq: message.seq,
            attempt: message.attempt,
            skipped: message.skipped,
            published_at_ms: message.published_at_ms,
            schema_version: message.schema_version,
            headers: message.headers,
            ordering_key: Some(message.ordering_key).filter(|key| !key.is_empty()),
            payload: message.payload,
        }
    }

    fn delivered() -> impl Strategy<Value = wire::Delivered> {
        let ids = (prop::option::of(any::<[u8; 24]>()), prop::option::of(any::<[u8; 16]>()), ".{0,3}");
        let numbers = any::<[u64; 4]>();
        let small = any::<[u32; 2]>();
        let rest = (prop::collection::vec((".{0,3}", ".{0,3}"), 0..3), prop::collection::vec(any::<u8>(), 0..40));
        (ids, numbers, small, rest).prop_map(|((lease, id, key), numbers, small, (headers, payload))| wire::Delivered {
            lease_id: lease.map_or_else(Bytes::new, |lease| Bytes::copy_from_slice(&lease)),
            id: id.map_or_else(Bytes::new, |id| Bytes::copy_from_slice(&id)),
            ordering_key: key,
            seq: numbers[0],
            skipped: numbers[1],
            lease_ms: numbers[2],
            published_at_ms: numbers[3],
            attempt: small[0],
            schema_version: small[1],
            headers: headers.into_iter().map(|(name, value)| wire::Header { name, value }).collect(),
            payload: payload.into(),
        })
    }

    proptest! {
        #[test]
        fn what_prost_encodes_is_decoded_the_same(messages in prop::collection::vec(delivered(), 0..4), subscription: u32, next_seq: Option<u64>) {
            let expected: Vec<Arrival> = messages.iter().cloned().map(from_wire).collect();
            let fetched = wire::Fetched { messages: messages.clone(), next_seq }.encode_to_vec().into();
            let fetched = Fetched::decode(&fetched).unwrap();
            prop_assert_eq!((&fetched.arrivals, fetched.next_seq), (&expected, next_seq));
            let deliver = wire::Deliver { subscription, messages }.encode_to_vec().into();
            prop_assert_eq!(decode_deliver(&deliver).unwrap(), (subscription, expected));
        }

        #[test]
        fn garbage_is_refused_or_read_but_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode_deliver(&bytes.clone().into());
            let _ = Fetched::decode(&bytes.into());
        }
    }
}
