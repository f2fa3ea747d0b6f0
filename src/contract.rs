//! A queue's contract as the command line uses it: JSON to payload and back.
//!
//! It does not judge payloads (the broker does) and does not compile .proto files (`qwerq-codegen` does).

use prost_reflect::{DescriptorPool, MessageDescriptor};
use qwerq::{Client, SchemaVersion};
use qwerq_broker::json::{self, Json, JsonError};
use qwerq_proto::{ErrorCode, name};

use crate::failure::Failure;

/// One version of a queue's contract.
#[derive(Debug, Clone)]
pub(crate) struct Contract {
    message: MessageDescriptor,
}

impl Contract {
    /// Fetches a version, the active one if `version` is none. A queue that has no contract, or does not exist yet, has none.
    pub(crate) async fn fetch(client: &Client, queue: &str, version: Option<u32>) -> Result<Option<Contract>, Failure> {
        // Dead letters keep the contract of the queue that they came from.
        let queue = queue.strip_suffix(name::DLQ_SUFFIX).unwrap_or(queue);
        Contract::fetch_type(client, queue, version, |version| &version.message_type).await
    }

    /// Fetches the type of the replies to calls of a queue, in a version. `None`: nobody can say any more what they are.
    pub(crate) async fn fetch_reply(client: &Client, queue: &str, version: u32) -> Result<Option<Contract>, Failure> {
        Contract::fetch_type(client, queue, Some(version), |version| &version.reply_type).await
    }

    async fn fetch_type(
        client: &Client,
        queue: &str,
        version: Option<u32>,
        which: fn(&SchemaVersion) -> &String,
    ) -> Result<Option<Contract>, Failure> {
        match client.schema(queue, version).await {
            Ok(schema) => Contract::new(&schema.descriptor_set, which(&schema.version)).map(Some).map_err(|why| {
                Failure::failed(format!("cannot read the contract of {queue}: {why}"))
                    .next_step("publish bytes as they are with --hex or --raw")
            }),
            Err(error) => match error.code() {
                Some(ErrorCode::SchemaNotFound | ErrorCode::QueueNotFound) => Ok(None),
                _ => Err(error.into()),
            },
        }
    }

    pub(crate) fn new(descriptor_set: &[u8], message_type: &str) -> Result<Contract, String> {
        let pool = pool(descriptor_set)?;
        let message = pool.get_message_by_name(message_type).ok_or_else(|| format!("its descriptors hold no message {message_type}"))?;
        Ok(Contract { message })
    }

    /// The full name of the message type.
    pub(crate) fn message_type(&self) -> &str {
        self.message.full_name()
    }

    /// The payload of a message written as protobuf JSON. Fields that the type does not have are errors: they would be lost.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u8>, String> {
        let payload = json::decode(&self.message, text.as_bytes());
        payload.map(Vec::from).map_err(|error| format!("not a {}: {error}", self.message_type()))
    }

    /// A payload as protobuf JSON.
    pub(crate) fn decode(&self, payload: &[u8]) -> Result<Json, JsonError> {
        json::encode(&self.message, payload)
    }
}

fn pool(descriptor_set: &[u8]) -> Result<DescriptorPool, String> {
    // prost-reflect knows no editions; the same descriptors say the same in proto2 and proto3.
    let lowered = qwerq_broker::registry::lowered(descriptor_set).map_err(|error| error.to_string())?;
    DescriptorPool::decode(lowered.as_slice()).map_err(|error| error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    /// A contract from .proto text.
    pub(crate) fn contract(text: &str, message_type: &str) -> Contract {
        let mut file = tempfile::Builder::new().suffix(".proto").tempfile().expect("a file");
        file.write_all(text.as_bytes()).expect("written text");
        let compiled = qwerq_codegen::compile::compile(file.path(), &[]).expect("good text");
        Contract::new(&compiled.descriptor_set, message_type).expect("a message of that name")
    }

    const ORDER: &str = "syntax = \"proto3\"; package shop.v1; \
        message Order { string id = 1; uint64 quantity = 2; repeated string tags = 3; }";

    #[test]
    fn json_becomes_a_payload_and_comes_back() {
        let contract = contract(ORDER, "shop.v1.Order");
        let payload = contract.encode(r#"{"id":"o-1","quantity":"2"}"#).expect("an order");
        assert_eq!(payload, b"\x0a\x03o-1\x10\x02");
        let body = contract.decode(&payload).expect("an order");
        let json = serde_json::to_string(&body).expect("a body that JSON can hold");
        assert_eq!(json, r#"{"id":"o-1","quantity":"2"}"#);
        assert_eq!(contract.encode("{}"), Ok(Vec::new()));
    }

    #[test]
    fn json_that_does_not_fit_is_refused_by_name() {
        let contract = contract(ORDER, "shop.v1.Order");
        for (json, part) in [
            (r#"{"idd":"o-1"}"#, "idd"),
            (r#"{"quantity":"many"}"#, "shop.v1.Order"),
            (r#"{"id":"o-1"} {"id":"o-2"}"#, "trailing"),
            ("[]", "shop.v1.Order"),
            ("{", "EOF"),
        ] {
            let why = contract.encode(json).expect_err(json);
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn descriptors_in_editions_are_read_and_broken_ones_refused() {
        // File `a`, edition 2023, message `A` with the int32 field `n`.
        let set = b"\x0a\x1e\x0a\x01a\x22\x0c\x0a\x01A\x12\x07\x0a\x01n\x18\x01\x28\x05\x62\x08editions\x70\xe8\x07";
        let contract = Contract::new(set, "A").expect("a message of edition 2023");
        assert_eq!(contract.encode(r#"{"n":7}"#).as_deref(), Ok(&b"\x08\x07"[..]));
        assert!(Contract::new(b"\xff", "A").is_err());
    }
}
