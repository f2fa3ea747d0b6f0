//! Protobuf's JSON mapping of payloads, both ways, by a contract's descriptors.
//!
//! It knows no queues and no HTTP: who has a descriptor gets bytes for JSON and JSON for bytes. What a payload must keep is judged by
//! `registry`, on the bytes.

pub mod schema;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde_json::Value;

/// What is wrong with JSON, or with bytes that were to become JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct JsonError {
    /// Where: names joined by `.`, elements as `[i]`; empty for the whole.
    pub path: String,
    /// What is wrong and what was expected.
    pub message: String,
}

/// The payload that a message written in JSON is. Fields that the type does not have are errors: they would be lost.
///
/// # Errors
/// The first thing that does not fit.
pub fn decode(descriptor: &MessageDescriptor, json: &[u8]) -> Result<Bytes, JsonError> {
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let message = DynamicMessage::deserialize_with_options(descriptor.clone(), &mut deserializer, &options)
        .and_then(|message| deserializer.end().map(|()| message))
        .map_err(|error| whole(format!("not a {}: {error}", descriptor.full_name())))?;
    Ok(Bytes::from(message.encode_to_vec()))
}

/// The JSON that a payload is.
///
/// # Errors
/// When the bytes are no such message, or one that JSON cannot hold, such as an Any of an unknown type.
pub fn encode(descriptor: &MessageDescriptor, payload: &[u8]) -> Result<Value, JsonError> {
    let message =
        DynamicMessage::decode(descriptor.clone(), payload).map_err(|error| whole(format!("not a {}: {error}", descriptor.full_name())))?;
    serde_json::to_value(&message).map_err(|error| whole(error.to_string()))
}

fn whole(message: String) -> JsonError {
    JsonError { path: String::new(), message }
}
