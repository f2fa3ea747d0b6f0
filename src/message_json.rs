//! A message as one JSON object: `body` where its contract decodes it, `payload_base64` otherwise.
//!
//! Contracts are fetched by the version that the message was accepted under, once each.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use base64::Engine;
use qwerq::{Client, Delivery, Peeked};
use qwerq_broker::json::Json;
use serde::Serialize;

use crate::contract::Contract;
use crate::failure::Failure;
use crate::moment;

/// The line of a message, in the order of its keys.
#[derive(Debug, Serialize)]
pub(crate) struct MessageLine {
    id: String,
    seq: u64,
    queue: String,
    /// Of a delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    headers: BTreeMap<String, String>,
    published_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering_key: Option<String>,
    /// Messages before this one that the group never saw, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<u64>,
    /// In hexadecimal, where the lease outlives this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

/// The contracts of one queue, by version.
#[derive(Debug, Default)]
pub(crate) struct Contracts {
    known: HashMap<u32, Option<Contract>>,
}

impl Contracts {
    /// The line of `delivery`, as text without its line end.
    pub(crate) async fn delivery_line(&mut self, client: &Client, delivery: &Delivery) -> Result<String, Failure> {
        let line = MessageLine::delivered(delivery);
        self.text(client, line, delivery.schema_version, &delivery.payload).await
    }

    /// The same with the lease's id, for a lease that is left to others.
    pub(crate) async fn leased_line(&mut self, client: &Client, delivery: &Delivery) -> Result<String, Failure> {
        let lease_id = delivery.lease_id().map(|lease| lease.iter().map(|byte| format!("{byte:02x}")).collect());
        let line = MessageLine { lease_id, ..MessageLine::delivered(delivery) };
        self.text(client, line, delivery.schema_version, &delivery.payload).await
    }

    /// The line of a message of `queue` that nobody leased.
    pub(crate) async fn peeked_line(&mut self, client: &Client, queue: &str, message: &Peeked) -> Result<String, Failure> {
        let line = MessageLine::peeked(queue, message);
        self.text(client, line, message.schema_version, &message.payload).await
    }

    async fn text(&mut self, client: &Client, mut line: MessageLine, version: u32, payload: &[u8]) -> Result<String, Failure> {
        let contract = self.version(client, &line.queue, version).await?;
        // What JSON cannot hold (an Any of an unknown type, say) is shown as it is.
        line.body = contract.and_then(|contract| contract.decode(payload).ok());
        Ok(text(line, payload))
    }

    async fn version(&mut self, client: &Client, queue: &str, version: u32) -> Result<Option<&Contract>, Failure> {
        if version == 0 {
            return Ok(None);
        }
        let contract = match self.known.entry(version) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(Contract::fetch(client, queue, Some(version)).await?),
        };
        Ok(contract.as_ref())
    }
}

impl MessageLine {
    fn delivered(delivery: &Delivery) -> MessageLine {
        MessageLine {
            id: delivery.id.to_string(),
            seq: delivery.seq,
            queue: delivery.queue().to_owned(),
            attempt: Some(delivery.attempt).filter(|attempt| *attempt > 0),
            headers: owned(delivery.headers.iter()),
            published_at: moment::format(delivery.published_at),
            ordering_key: delivery.ordering_key.clone(),
            skipped: Some(delivery.skipped).filter(|skipped| *skipped > 0),
            lease_id: None,
            body: None,
            payload_base64: None,
        }
    }

    fn peeked(queue: &str, message: &Peeked) -> MessageLine {
        MessageLine {
            id: message.id.to_string(),
            seq: message.seq,
            queue: queue.to_owned(),
            attempt: None,
            headers: owned(message.headers.iter()),
            published_at: moment::format(message.published_at),
            ordering_key: message.ordering_key.clone(),
            skipped: None,
            lease_id: None,
            body: None,
            payload_base64: None,
        }
    }
}

/// With the body if there is one, else with the bytes.
fn text(mut line: MessageLine, payload: &[u8]) -> String {
    if line.body.is_none() {
        line.payload_base64 = Some(base64::engine::general_purpose::STANDARD.encode(payload));
    }
    serde_json::to_string(&line).expect("strings and numbers always serialise")
}

fn owned<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::tests::contract;

    fn line(body: Option<Json>) -> MessageLine {
        MessageLine {
            id: "01J".into(),
            seq: 7,
            queue: "orders".into(),
            attempt: Some(1),
            headers: owned([("source", "shop")].into_iter()),
            published_at: moment::format(std::time::UNIX_EPOCH),
            ordering_key: None,
            skipped: None,
            lease_id: None,
            body,
            payload_base64: None,
        }
    }

    const START: &str =
        r#"{"id":"01J","seq":7,"queue":"orders","attempt":1,"headers":{"source":"shop"},"published_at":"1970-01-01T00:00:00.000Z","#;

    #[test]
    fn a_payload_without_a_contract_is_base64() {
        assert_eq!(text(line(None), b"hi"), format!(r#"{START}"payload_base64":"aGk="}}"#));
        assert_eq!(text(line(None), b""), format!(r#"{START}"payload_base64":""}}"#));
    }

    #[test]
    fn a_decoded_body_keeps_the_order_of_its_fields() {
        let contract = contract("syntax = \"proto3\"; message A { string z = 1; int32 a = 2; }", "A");
        let payload = contract.encode(r#"{"a": 5, "z": "x"}"#).expect("an A");
        let body = contract.decode(&payload).expect("an A");
        assert_eq!(text(line(Some(body)), &payload), format!(r#"{START}"body":{{"z":"x","a":5}}}}"#));
    }

    #[test]
    fn a_body_that_json_cannot_hold_falls_back_to_bytes() {
        let contract = contract(
            "syntax = \"proto3\"; import \"google/protobuf/any.proto\"; \
             message A { google.protobuf.Any any = 1; }",
            "A",
        );
        let payload = b"\x0a\x05\x0a\x03x/Y";
        assert!(text(line(contract.decode(payload).ok()), payload).contains("payload_base64"));
    }
}
