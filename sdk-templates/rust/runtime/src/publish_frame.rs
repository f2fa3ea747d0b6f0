//! PUBLISH and PUBLISH_ACK by hand: the two messages of the hot path. Items arrive encoded, results leave without the detour over
//! prost's structs. The tests compare both with prost.

use bytes::{BufMut, BytesMut};
use prost::Message as _;
use prost::encoding::{self, WireType};
use qwerq_proto::{Frame, Opcode, frame::encode_header, wire};

use crate::error::{Error, Refusal};
use crate::id::MessageId;
use crate::lane::{Batch, Lane};
use crate::message::{Durability, Published};

const QUEUE_FIELD: u32 = 1;
const ATOMIC_FIELD: u32 = 3;
const CONTRACT_FIELD: u32 = 4;

/// Bytes of the PUBLISH that carries `batch`.
pub(crate) fn payload_len(lane: &Lane, batch: &Batch) -> usize {
    let contract = lane.contract.as_ref().map_or(0, |contract| 2 + contract.len());
    let atomic = if batch.atomic { 2 } else { 0 };
    encoding::string::encoded_len(QUEUE_FIELD, &lane.queue) + batch.items.len() + atomic + contract
}

/// Appends the PUBLISH that carries `batch`; `payload_bytes` is its [`payload_len`].
pub(crate) fn encode(out: &mut BytesMut, id: u32, lane: &Lane, batch: &Batch, payload_bytes: usize) {
    out.reserve(payload_bytes + 16);
    encode_header(out, Opcode::Publish, Some(id), payload_bytes);
    encoding::string::encode(QUEUE_FIELD, &lane.queue, out);
    out.put_slice(&batch.items);
    if batch.atomic {
        encoding::bool::encode(ATOMIC_FIELD, &true, out);
    }
    if let Some(contract) = &lane.contract {
        encoding::encode_key(CONTRACT_FIELD, WireType::LengthDelimited, out);
        encoding::encode_varint(contract.len() as u64, out);
        out.put_slice(contract);
    }
}

/// A decoded PUBLISH_ACK.
#[derive(Debug)]
pub(crate) struct Ack {
    pub(crate) results: Vec<Result<Published, Error>>,
    pub(crate) any_error: bool,
}

impl Ack {
    pub(crate) fn decode(frame: Frame) -> Result<Ack, Error> {
        let ack = wire::PublishAck::decode(frame.payload)
            .map_err(|error| Error::protocol(format_args!("PUBLISH_ACK does not decode: {error}")))?;
        let durability = ack.durability();
        let contract_unknown = ack.contract_unknown;
        let results: Vec<_> = ack.results.into_iter().map(|result| published(result, durability, contract_unknown)).collect();
        let any_error = results.iter().any(Result::is_err);
        Ok(Ack { results, any_error })
    }
}

fn published(result: wire::PublishResult, durability: Durability, contract_unknown: bool) -> Result<Published, Error> {
    let violation = match (result.error.map(Error::from), result.dead_lettered) {
        (Some(error), false) => return Err(error),
        (error, _) => error,
    };
    let dead_lettered = violation.as_ref().and_then(Error::refusal).cloned().map(Box::<Refusal>::new);
    Ok(Published {
        id: MessageId::from_slice(&result.id).unwrap_or_default(),
        seq: result.seq,
        schema_version: result.schema_version,
        duplicate: result.duplicate,
        contract_unknown,
        durability,
        dead_lettered,
    })
}
