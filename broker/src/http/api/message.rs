//! A message in JSON: `body` where its contract decodes it, `payload_base64` otherwise.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use qwerq_core::MessageId;
use qwerq_proto::{ErrorCode, wire};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::contracts::{Contracts, Typed};
use crate::http::problem::Problem;
use crate::json::{self, Json};
use crate::net::LocalSession;
use crate::timestamp;

use super::schema_version::hex;

/// The header that tells of a raw payload what JSON would have beside it.
pub(crate) const MESSAGE_HEADER: &str = "qwerq-message";

/// A stored message, or a delivery of one.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Message {
    /// A ULID, unless its publisher chose another.
    #[schema(example = "01KBCS6XTW0000000000000001")]
    id: String,
    /// Its position in the queue, or offset in the stream.
    seq: u64,
    queue: String,
    headers: BTreeMap<String, String>,
    #[schema(format = DateTime)]
    published_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering_key: Option<String>,
    /// The version of the contract that it keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<u32>,
    /// Of a delivery: 1 for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    /// Of a delivery from a stream: messages before this one that retention took away unseen.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<u64>,
    /// Of a delivery: what settles it, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_id: Option<String>,
    /// Of a delivery: how long the lease lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
    /// The payload in protobuf's JSON, where the contract decodes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    body: Option<Json>,
    /// Why a contract does not decode it.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_error: Option<String>,
    /// The payload, where there is no body and it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
    /// The payload, where there is no body.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

impl Message {
    /// Without its payload.
    fn head(queue: &str, delivered: &wire::Delivered) -> Message {
        let leased = !delivered.lease_id.is_empty();
        Message {
            id: id_text(&delivered.id),
            seq: delivered.seq,
            queue: queue.to_owned(),
            headers: headers(&delivered.headers),
            published_at: timestamp::format_ms(delivered.published_at_ms),
            ordering_key: Some(delivered.ordering_key.clone()).filter(|key| !key.is_empty()),
            schema_version: Some(delivered.schema_version).filter(|version| *version > 0),
            attempt: leased.then_some(delivered.attempt),
            skipped: Some(delivered.skipped).filter(|skipped| *skipped > 0),
            lease_id: leased.then(|| hex(&delivered.lease_id)),
            lease_ms: leased.then_some(delivered.lease_ms),
            body: None,
            body_error: None,
            payload_text: None,
            payload_base64: None,
        }
    }

    /// With its payload, by the contract if there is one.
    pub(crate) fn new(queue: &str, delivered: &wire::Delivered, typed: Option<&Typed>) -> Message {
        let mut message = Message::head(queue, delivered);
        let payload = Payload::new(&delivered.payload, typed.map(|typed| &typed.types.message));
        (message.body, message.body_error) = (payload.body, payload.body_error);
        (message.payload_text, message.payload_base64) = (payload.payload_text, payload.payload_base64);
        message
    }

    /// All of them, each by the version that it was accepted under.
    pub(crate) async fn all(session: &mut LocalSession, contracts: &Contracts, queue: &str, delivered: &[wire::Delivered]) -> Vec<Message> {
        let mut known: BTreeMap<u32, Option<Typed>> = BTreeMap::new();
        let mut messages = Vec::with_capacity(delivered.len());
        for delivered in delivered {
            let version = delivered.schema_version;
            if version != 0 && !known.contains_key(&version) {
                known.insert(version, contracts.version(session, queue, version).await);
            }
            let typed = known.get(&version).and_then(Option::as_ref);
            messages.push(Message::new(queue, delivered, typed));
        }
        messages
    }
}

/// A payload in JSON.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Payload {
    /// In protobuf's JSON, where the contract decodes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub(crate) body: Option<Json>,
    /// Why the contract does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body_error: Option<String>,
    /// As text, where there is no body and it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload_text: Option<String>,
    /// As it is, where there is no body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload_base64: Option<String>,
}

impl Payload {
    pub(crate) fn new(payload: &Bytes, descriptor: Option<&prost_reflect::MessageDescriptor>) -> Payload {
        let raw = |body_error: Option<String>| Payload {
            body_error,
            payload_text: std::str::from_utf8(payload).ok().map(str::to_owned),
            payload_base64: Some(BASE64.encode(payload)),
            ..Payload::default()
        };
        match descriptor.map(|descriptor| json::encode(descriptor, payload)) {
            Some(Ok(body)) => Payload { body: Some(body), ..Payload::default() },
            Some(Err(error)) => raw(Some(error.to_string())),
            None => raw(None),
        }
    }
}

/// What a client wants to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// JSON.
    Json,
    /// The payload of one message, as it is.
    Raw,
}

impl Wanted {
    /// What the Accept header names first of what there is; without one, or with one that takes anything, JSON.
    pub(crate) fn of(headers: &HeaderMap) -> Wanted {
        let named = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        let essences = named.map(|range| range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        for essence in essences {
            match essence.as_str() {
                "application/json" | "application/*" | "*/*" => return Wanted::Json,
                "application/x-protobuf" | "application/protobuf" | "application/octet-stream" => return Wanted::Raw,
                _ => {}
            }
        }
        Wanted::Json
    }
}

/// The payload of the first of them as it is, with the rest in the header `qwerq-message`; nothing there: 204.
pub(crate) fn raw(queue: &str, delivered: &[wire::Delivered]) -> Result<Response, Problem> {
    let Some(first) = delivered.first() else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let value = message_header(&Message::head(queue, first))?;
    let headers = [(header::HeaderName::from_static(MESSAGE_HEADER), value), (header::CONTENT_TYPE, content_type(first.schema_version))];
    Ok((headers, first.payload.clone()).into_response())
}

/// What raw bytes are called.
pub(crate) fn content_type(schema_version: u32) -> HeaderValue {
    HeaderValue::from_static(if schema_version > 0 { "application/x-protobuf" } else { "application/octet-stream" })
}

/// JSON for a header: what is not ASCII is escaped.
pub(crate) fn message_header(value: &impl Serialize) -> Result<HeaderValue, Problem> {
    let text = serde_json::to_string(value).expect("maps with text for keys");
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            ' '..='~' => escaped.push(letter),
            other => {
                let mut units = [0; 2];
                other.encode_utf16(&mut units).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
            }
        }
    }
    HeaderValue::from_str(&escaped).map_err(|_| Problem::new(ErrorCode::Internal, "the message's facts do not fit a header; ask for JSON"))
}

/// Headers as an object.
pub(crate) fn headers(headers: &[wire::Header]) -> BTreeMap<String, String> {
    headers.iter().map(|header| (header.name.clone(), header.value.clone())).collect()
}

/// An id as it is written.
pub(crate) fn id_text(bytes: &Bytes) -> String {
    <[u8; 16]>::try_from(&bytes[..]).map_or_else(|_| hex(bytes), |bytes| MessageId(bytes).to_string())
}

/// An id as it was written.
pub(crate) fn parse_id(text: &str) -> Result<Bytes, Problem> {
    let id: MessageId = text.parse().map_err(|error| Problem::new(ErrorCode::InvalidArgument, format!("{text:?}: {error}")))?;
    Ok(Bytes::copy_from_slice(&id.0))
}

/// Answers with JSON, or with the payload of the first message if the client wants it raw.
pub(crate) fn answer(wanted: Wanted, queue: &str, delivered: &[wire::Delivered], json: impl Serialize) -> Result<Response, Problem> {
    match wanted {
        Wanted::Json => Ok(axum::Json(json).into_response()),
        Wanted::Raw => raw(queue, delivered),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_holds_json_in_ascii() {
        let value = message_header(&serde_json::json!({"a": "ü\u{1F600}\n"})).unwrap();
        assert_eq!(value.to_str().unwrap(), r#"{"a":"\u00fc\ud83d\ude00\n"}"#);
    }

    #[test]
    fn accept_chooses_between_json_and_bytes() {
        for (accept, wanted) in [
            ("*/*", Wanted::Json),
            ("application/json", Wanted::Json),
            ("application/x-protobuf", Wanted::Raw),
            ("text/html, application/octet-stream;q=0.9, */*;q=0.1", Wanted::Raw),
            ("text/html", Wanted::Json),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(Wanted::of(&headers), wanted, "{accept}");
        }
        assert_eq!(Wanted::of(&HeaderMap::new()), Wanted::Json);
    }
}
