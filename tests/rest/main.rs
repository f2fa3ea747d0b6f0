//! HTTP from outside, as curl, browsers and tools have it: every noun of REST, who may ask, and the documents that describe it.

mod access;
mod calls;
mod clients;
mod dead_letters;
mod documents;
mod groups;
mod leases;
mod messages;
mod queues;
mod schemas;
#[path = "../support/mod.rs"]
mod support;

use serde_json::Value;
use support::broker::Broker;
use support::http::{Answer, ask};

const JSON: (&str, &str) = ("content-type", "application/json");

/// A request with a body in JSON.
fn send(broker: &Broker, method: &str, path: &str, body: &Value) -> Answer {
    ask(broker.http, method, path, &[JSON], body.to_string().as_bytes())
}

fn post(broker: &Broker, path: &str, body: &Value) -> Answer {
    send(broker, "POST", path, body)
}

fn get(broker: &Broker, path: &str) -> Answer {
    ask(broker.http, "GET", path, &[], b"")
}

/// An order of `shop.v1.Order` has an id, a quantity of 64 bits, a state and a time.
const ORDER: &str = r#"syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
enum State { STATE_UNSPECIFIED = 0; STATE_PAID = 1; }
message Order {
  string id = 1;
  uint64 quantity = 2;
  State state = 3;
  google.protobuf.Timestamp placed_at = 4;
  bytes signature = 5;
}
message Receipt { string order_id = 1; }
"#;

/// Makes orders the contract of a queue.
fn register_order(broker: &Broker, queue: &str) {
    let body = serde_json::json!({"files": {"order.proto": ORDER}, "message_type": "shop.v1.Order", "reply_type": "shop.v1.Receipt"});
    post(broker, &format!("/api/v1/schemas/{queue}"), &body).ok();
}
