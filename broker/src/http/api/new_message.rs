//! A message on its way in: JSON, or raw bytes with the rest in the header `qwerq-message`.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use qwerq_proto::{ErrorCode, wire};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::contracts::Typed;
use crate::http::extract;
use crate::http::problem::Problem;
use crate::timestamp;

use super::message::{MESSAGE_HEADER, parse_id};

/// A message to publish. One of `body`, `payload_text` and `payload_base64` is its payload; with none of them it is empty.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewMessage {
    /// The message in protobuf's JSON, by the queue's contract. On a queue without one the JSON itself is the payload.
    #[schema(value_type = Option<Value>)]
    body: Option<Box<RawValue>>,
    /// The payload, as text.
    payload_text: Option<String>,
    /// The payload, in base64.
    #[schema(example = "CgNvLTE=")]
    payload_base64: Option<String>,
    headers: BTreeMap<String, String>,
    /// At most one message of a key is in flight per group, in order.
    #[schema(example = "customer-7")]
    ordering_key: Option<String>,
    /// A repeat within the queue's `dedup_window` is not stored again.
    #[schema(example = "order-4711")]
    idempotency_key: Option<String>,
    /// Not before so many milliseconds from now.
    delay_ms: Option<u64>,
    /// Not before then.
    #[schema(format = DateTime)]
    deliver_at: Option<String>,
    /// It expires so many milliseconds after it is due.
    ttl_ms: Option<u64>,
    /// An id of the publisher's own, written as a ULID.
    #[schema(example = "01KBCS6XTW0000000000000001")]
    id: Option<String>,
}

impl NewMessage {
    /// What the header of a raw payload says.
    pub(crate) fn of_raw(headers: &HeaderMap) -> Result<NewMessage, Problem> {
        let Some(value) = headers.get(MESSAGE_HEADER) else {
            return Ok(NewMessage::default());
        };
        let message: NewMessage = extract::parse(value.as_bytes())?;
        let has_payload = message.body.is_some() || message.payload_text.is_some() || message.payload_base64.is_some();
        match has_payload {
            false => Ok(message),
            true => Err(Problem::new(ErrorCode::InvalidArgument, format!("the body is the payload, so {MESSAGE_HEADER} has none"))),
        }
    }

    /// The item that it is, with the payload that it has in itself.
    pub(crate) fn into_item(self, typed: Option<&Typed>) -> Result<wire::PublishItem, Problem> {
        let payload = self.payload(typed)?;
        self.item_with(payload)
    }

    /// The item that it is, with this payload.
    pub(crate) fn item_with(self, payload: Bytes) -> Result<wire::PublishItem, Problem> {
        let deliver_at = self.deliver_at.map(|text| timestamp::parse_ms(&text)).transpose();
        Ok(wire::PublishItem {
            payload,
            headers: wire_headers(self.headers),
            ordering_key: self.ordering_key.unwrap_or_default(),
            idempotency_key: self.idempotency_key.unwrap_or_default(),
            delay_ms: self.delay_ms,
            deliver_at_ms: deliver_at.map_err(|why| Problem::new(ErrorCode::InvalidArgument, format!("deliver_at: {why}")))?,
            ttl_ms: self.ttl_ms,
            id: self.id.as_deref().map(parse_id).transpose()?.unwrap_or_default(),
        })
    }

    fn payload(&self, typed: Option<&Typed>) -> Result<Bytes, Problem> {
        payload(self.body.as_deref(), self.payload_text.as_deref(), self.payload_base64.as_deref(), typed)
    }
}

/// The payload that one of three says, or none of them.
pub(crate) fn payload(body: Option<&RawValue>, text: Option<&str>, base64: Option<&str>, typed: Option<&Typed>) -> Result<Bytes, Problem> {
    match (body, text, base64, typed) {
        (None, None, None, _) => Ok(Bytes::new()),
        (Some(body), None, None, Some(typed)) => typed.decode(body.get().as_bytes()),
        (Some(body), None, None, None) => Ok(Bytes::copy_from_slice(body.get().as_bytes())),
        (None, Some(text), None, _) => Ok(Bytes::copy_from_slice(text.as_bytes())),
        (None, None, Some(base64), _) => {
            let bytes = BASE64.decode(base64);
            bytes.map(Bytes::from).map_err(|error| Problem::new(ErrorCode::InvalidArgument, format!("payload_base64: {error}")))
        }
        _ => Err(Problem::new(ErrorCode::InvalidArgument, "a message has one of body, payload_text and payload_base64")),
    }
}

/// Headers for the wire.
pub(crate) fn wire_headers(headers: BTreeMap<String, String>) -> Vec<wire::Header> {
    headers.into_iter().map(|(name, value)| wire::Header { name, value }).collect()
}
