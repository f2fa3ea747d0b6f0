//! The documents that describe the HTTP side, held against other people's tools.

use serde_json::json;

use crate::support::broker::Broker;
use crate::{get, post, register_order, send};

#[test]
fn asyncapi_has_a_channel_for_every_queue_and_a_schema_for_every_contract() {
    let broker = Broker::start(&[]);
    register_order(&broker, "orders");
    send(&broker, "PUT", "/api/v1/queues/audit", &json!({"mode": "stream"})).ok();
    post(&broker, "/api/v1/queues/orders/messages", &json!({"body": {"id": "a"}})).ok();
    let document = get(&broker, "/api/v1/asyncapi.json").ok();
    assert_eq!(document["asyncapi"], "3.0.0");
    let channels: Vec<_> = document["channels"].as_object().expect("channels").keys().collect();
    assert_eq!(channels, ["audit", "orders"]);
    let schema = &document["components"]["schemas"]["orders--shop.v1.Order"];
    assert_eq!(schema["properties"]["placedAt"], json!({"type": "string", "format": "date-time"}));
    assert_eq!(document["operations"]["orders--call"]["reply"]["messages"][0]["$ref"], "#/channels/orders/messages/reply");
    let one = get(&broker, "/api/v1/asyncapi.json?search=audit").ok();
    assert_eq!(one["channels"].as_object().map(serde_json::Map::len), Some(1));
}
