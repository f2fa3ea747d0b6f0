//! Who is there, and the broker as a whole.

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::raw::Raw;
use crate::{get, post};

#[test]
fn consumers_and_connections_are_listed_with_what_they_hold() {
    let broker = Broker::start(&[]);
    post(&broker, "/api/v1/queues/q/messages", &json!([{"payload_text": "a"}, {"payload_text": "b"}])).ok();
    let mut consumer = Raw::hello(broker.address);
    consumer.consume("q", "billing", 10);
    consumer.take(2);
    let consumers = get(&broker, "/api/v1/consumers").ok();
    let found = &consumers["consumers"][0];
    for (key, value) in [("client", json!("test")), ("queue", json!("q")), ("group", json!("billing")), ("role", json!("consume"))] {
        assert_eq!(found[key], value, "{consumers}");
    }
    assert_eq!((&found["prefetch"], &found["in_flight"]), (&json!(10), &json!(2)));
    assert_eq!(get(&broker, "/api/v1/consumers?queue=other").ok(), json!({"consumers": []}));
    let connections = get(&broker, "/api/v1/connections").ok();
    let list = connections["connections"].as_array().expect("a list");
    assert_eq!(list.len(), 1, "requests over HTTP are no connections: {connections}");
    assert_eq!((&list[0]["session"], &list[0]["consumers"], &list[0]["in_flight"]), (&found["session"], &json!(1), &json!(2)));
    let stats = get(&broker, "/api/v1/stats").ok();
    assert_eq!((&stats["queues"], &stats["depth"], &stats["in_flight"]), (&json!(1), &json!(2), &json!(2)));
    assert_eq!((&stats["since_start"]["published"], &stats["settings"]["durability"]), (&json!(2), &json!("fsync")));
}
