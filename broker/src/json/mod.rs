//! Messages as JSON: protobuf's JSON mapping, both ways, for whoever has no generated code (REST, dashboard, command line).
//!
//! It knows descriptors and bytes. It does not judge payloads (`registry` does, by its own tables), so what comes out of `decode`
//! may still lack a required field. `tests/json` holds it to Python's implementation; docs/json.md says where the two differ and why.
//! Read on in `decode` (JSON to payload) and `encode` (payload to JSON).

mod decode;
mod encode;
mod error;
mod field;
mod field_mask;
mod scalar;
pub mod schema;
mod time;
mod tree;
mod well_known;
mod wire;

use bytes::Bytes;
use prost_reflect::MessageDescriptor;

pub use self::{error::JsonError, tree::Json};

/// The payload that this JSON text describes.
///
/// # Errors
/// Text that is not JSON, or not one of this type; fields that the type does not have are errors, since they would be lost.
pub fn decode(descriptor: &MessageDescriptor, text: &[u8]) -> Result<Bytes, JsonError> {
    decode_tree(descriptor, &Json::parse(text)?)
}

/// As [`decode`], for JSON that was read already, as a part of something larger.
///
/// # Errors
/// When it is not JSON of this type.
pub fn decode_tree(descriptor: &MessageDescriptor, json: &Json) -> Result<Bytes, JsonError> {
    decode::message(descriptor, json, 1).map(Bytes::from)
}

/// A payload as JSON. Fields that the contract does not know are left out.
///
/// # Errors
/// A payload that is not one of this type, and the few that JSON cannot hold: a time outside of the years 1 to 9999, an `Any` of a
/// type that the contract does not have, a field mask that is not in snake_case, NaN in a `Value`.
pub fn encode(descriptor: &MessageDescriptor, payload: &[u8]) -> Result<Json, JsonError> {
    encode::payload(descriptor, payload, 1)
}
