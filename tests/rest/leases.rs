//! Fetching and settling: leases that belong to no connection.

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::http::ask;
use crate::{get, post, register_order, send};

fn fetch(broker: &Broker, request: &Value) -> Vec<Value> {
    let answer = post(broker, "/api/v1/queues/q/fetch", request).ok();
    answer["messages"].as_array().expect("a list").clone()
}

fn lease(message: &Value) -> Value {
    json!({"lease_ids": [message["lease_id"]]})
}

#[test]
fn a_lease_is_acknowledged_once_by_whoever_has_its_id() {
    let broker = Broker::start(&[]);
    register_order(&broker, "q");
    post(&broker, "/api/v1/queues/q/messages", &json!([{"body": {"id": "a"}}, {"body": {"id": "b"}}])).ok();
    let messages = fetch(&broker, &json!({"max": 10}));
    assert_eq!(messages.len(), 2);
    assert_eq!((&messages[0]["body"], &messages[0]["attempt"], &messages[0]["lease_ms"]), (&json!({"id": "a"}), &json!(1), &json!(30_000)));
    assert_eq!(fetch(&broker, &json!({})), [] as [Value; 0]);
    assert_eq!(post(&broker, "/api/v1/queues/q/ack", &lease(&messages[0])).ok(), json!({"settled": 1, "refused": []}));
    let stale = post(&broker, "/api/v1/queues/q/ack", &lease(&messages[0])).problem(409, "stale-lease");
    assert_eq!(stale["details"]["lease_id"], messages[0]["lease_id"]);
    let both = json!({"lease_ids": [messages[0]["lease_id"], messages[1]["lease_id"]]});
    let answer = post(&broker, "/api/v1/queues/q/ack", &both).ok();
    assert_eq!((&answer["settled"], &answer["refused"][0]["error"]["code"]), (&json!(1), &json!("stale-lease")));
    assert_eq!(get(&broker, "/api/v1/queues/q").ok()["depth"], 0);
}

#[test]
fn nack_release_extend_and_reject_do_what_their_names_say() {
    let broker = Broker::start(&[]);
    post(&broker, "/api/v1/queues/q/messages", &json!({"payload_text": "a"})).ok();
    let first = fetch(&broker, &json!({})).remove(0);
    let mut nack = lease(&first);
    nack["delay_ms"] = json!(0);
    assert_eq!(post(&broker, "/api/v1/queues/q/nack", &nack).ok()["settled"], 1);
    let second = fetch(&broker, &json!({"wait_ms": 10_000})).remove(0);
    assert_eq!(second["attempt"], 2);
    assert_eq!(post(&broker, "/api/v1/queues/q/release", &lease(&second)).ok()["settled"], 1);
    let third = fetch(&broker, &json!({"wait_ms": 10_000})).remove(0);
    assert_eq!(third["attempt"], 2, "a release counts no attempt");
    let mut extend = lease(&third);
    extend["visibility_timeout_ms"] = json!(600_000);
    assert_eq!(post(&broker, "/api/v1/queues/q/extend", &extend).ok()["settled"], 1);
    let mut reject = lease(&third);
    reject["reason"] = json!("no such customer");
    assert_eq!(post(&broker, "/api/v1/queues/q/reject", &reject).ok()["settled"], 1);
    let letters = get(&broker, "/api/v1/queues/q/dlq").ok();
    assert_eq!((&letters["letters"][0]["reason"], &letters["letters"][0]["error"]), (&json!("rejected"), &json!("no such customer")));
}

#[test]
fn a_fetch_waits_for_what_comes_and_gives_raw_payloads() {
    let broker = Broker::start(&[]);
    send(&broker, "PUT", "/api/v1/queues/q", &json!({})).ok();
    let http = broker.http;
    let waiting = std::thread::spawn(move || {
        let headers = [crate::JSON, ("accept", "application/octet-stream")];
        ask(http, "POST", "/api/v1/queues/q/fetch", &headers, br#"{"wait_ms": 60000}"#)
    });
    post(&broker, "/api/v1/queues/q/messages", &json!({"payload_text": "hello"})).ok();
    let answer = waiting.join().expect("the fetch is answered");
    assert_eq!((answer.status, &*answer.body), (200, &b"hello"[..]));
    let about: Value = serde_json::from_str(answer.header("qwerq-message").expect("the rest")).expect("JSON");
    assert_eq!(post(&broker, "/api/v1/queues/q/ack", &lease(&about)).ok()["settled"], 1);
    let headers = [crate::JSON, ("accept", "application/octet-stream")];
    assert_eq!(ask(http, "POST", "/api/v1/queues/q/fetch", &headers, b"{}").status, 204);
}

#[test]
fn what_cannot_be_fetched_or_settled_is_said() {
    let broker = Broker::start(&[]);
    send(&broker, "PUT", "/api/v1/queues/q", &json!({})).ok();
    post(&broker, "/api/v1/queues/q/fetch", &json!({"max": 0})).problem(400, "invalid-argument");
    post(&broker, "/api/v1/queues/q/fetch", &json!({"max": 1001})).problem(400, "invalid-argument");
    post(&broker, "/api/v1/queues/q/fetch", &json!({"wait_ms": 60_001})).problem(400, "invalid-argument");
    post(&broker, "/api/v1/queues/q/ack", &json!({"lease_ids": ["xyz"]})).problem(400, "invalid-argument");
    post(&broker, "/api/v1/queues/q/ack", &json!({"lease_ids": ["ab"]})).problem(409, "stale-lease");
    post(&broker, "/api/v1/queues/nothing/ack", &json!({"lease_ids": []})).problem(404, "queue-not-found");
    send(&broker, "PUT", "/api/v1/queues/log", &json!({"mode": "stream"})).ok();
    post(&broker, "/api/v1/queues/log/fetch", &json!({})).problem(400, "group-required");
}
