//! Dead letters: one, some or all.

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::{get, post, send};

/// A queue with that many rejected messages.
fn rejected(broker: &Broker, queue: &str, count: usize) -> Vec<Value> {
    let batch: Vec<_> = (0..count).map(|n| json!({"payload_text": n.to_string()})).collect();
    post(broker, &format!("/api/v1/queues/{queue}/messages"), &json!(batch)).ok();
    let fetched = post(broker, &format!("/api/v1/queues/{queue}/fetch"), &json!({"max": count, "group": "billing"})).ok();
    let leases: Vec<_> = fetched["messages"].as_array().expect("a list").iter().map(|message| message["lease_id"].clone()).collect();
    let reject = json!({"lease_ids": leases, "reason": "no such customer"});
    assert_eq!(post(broker, &format!("/api/v1/queues/{queue}/reject"), &reject).ok()["settled"], count);
    get(broker, &format!("/api/v1/queues/{queue}/dlq")).ok()["letters"].as_array().expect("a list").clone()
}

#[test]
fn letters_are_listed_with_reason_and_payload() {
    let broker = Broker::start(&[]);
    let letters = rejected(&broker, "q", 3);
    assert_eq!(letters.len(), 3);
    let letter = &letters[0];
    for (key, value) in [
        ("reason", "rejected"),
        ("error", "no such customer"),
        ("source_queue", "q"),
        ("group", "billing"),
        ("queue", "q.dlq"),
        ("payload_text", "0"),
    ] {
        assert_eq!(letter[key], value, "{key}");
    }
    assert_eq!((&letter["source_seq"], &letter["attempts"]), (&json!(0), &json!(1)));
    let page = get(&broker, "/api/v1/queues/q/dlq?limit=2").ok();
    let next = page["next"].as_u64().expect("there are more");
    let rest = get(&broker, &format!("/api/v1/queues/q.dlq/dlq?from_seq={next}")).ok();
    assert_eq!(rest["letters"][0]["payload_text"], "2");
    assert_eq!(get(&broker, "/api/v1/queues/q/dlq?reason=expired").ok()["letters"], json!([]));
}

#[test]
fn one_some_or_all_letters_go_back() {
    let broker = Broker::start(&[]);
    let letters = rejected(&broker, "q", 5);
    let one = json!({"ids": [letters[3]["id"]]});
    assert_eq!(post(&broker, "/api/v1/queues/q/dlq/redrive", &one).ok(), json!({"redriven": 1, "refused": 0, "refusal": null}));
    assert_eq!(post(&broker, "/api/v1/queues/q/dlq/redrive", &json!({"max": 2})).ok()["redriven"], 2);
    send(&broker, "PUT", "/api/v1/queues/other", &json!({})).ok();
    assert_eq!(post(&broker, "/api/v1/queues/q/dlq/redrive", &json!({"reason": "rejected", "to": "other"})).ok()["redriven"], 2);
    assert_eq!(get(&broker, "/api/v1/queues/other").ok()["depth"], 2);
    assert_eq!(get(&broker, "/api/v1/queues/q.dlq").ok()["depth"], 0);
    let again = post(&broker, "/api/v1/queues/q/fetch", &json!({"max": 10, "group": "billing"})).ok();
    assert_eq!(again["messages"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_letter_goes_back_with_another_payload_that_keeps_the_contract() {
    let broker = Broker::start(&[]);
    crate::register_order(&broker, "orders");
    post(&broker, "/api/v1/queues/orders/messages", &json!({"body": {"id": "o-1"}})).ok();
    let fetched = post(&broker, "/api/v1/queues/orders/fetch", &json!({"group": "billing"})).ok();
    post(&broker, "/api/v1/queues/orders/reject", &json!({"lease_ids": [fetched["messages"][0]["lease_id"]], "reason": "no"})).ok();
    let id = fetched["messages"][0]["id"].clone();
    let redrive = |request| post(&broker, "/api/v1/queues/orders/dlq/redrive", &request);
    let refused = redrive(json!({"ids": [id], "body": {"id": 5}})).problem(422, "schema-violation");
    assert_eq!(refused["details"]["path"], "id");
    let broken = redrive(json!({"ids": [id], "payload_base64": "CgU="})).ok();
    assert_eq!((&broken["refused"], &broken["refusal"]["details"]["path"]), (&json!(1), &json!("id")));
    redrive(json!({"body": {"id": "o-2"}})).problem(400, "invalid-argument");
    assert_eq!(redrive(json!({"ids": [id], "body": {"id": "o-2"}})).ok()["redriven"], 1);
    let again = post(&broker, "/api/v1/queues/orders/fetch", &json!({"group": "billing"})).ok();
    assert_eq!((&again["messages"][0]["body"], &again["messages"][0]["id"]), (&json!({"id": "o-2"}), &id));
}

#[test]
fn one_some_or_all_letters_are_removed() {
    let broker = Broker::start(&[]);
    let letters = rejected(&broker, "q", 4);
    assert_eq!(post(&broker, "/api/v1/queues/q/dlq/purge", &json!({"ids": [letters[0]["id"]]})).ok(), json!({"purged": 1}));
    assert_eq!(post(&broker, "/api/v1/queues/q/dlq/purge", &json!({"ids": []})).ok(), json!({"purged": 0}));
    assert_eq!(post(&broker, "/api/v1/queues/q/dlq/purge", &json!({"max": 1})).ok(), json!({"purged": 1}));
    assert_eq!(post(&broker, "/api/v1/queues/q/dlq/purge", &json!({})).ok(), json!({"purged": 2}));
    post(&broker, "/api/v1/queues/q/dlq/purge", &json!({"ids": ["nothing"]})).problem(400, "invalid-argument");
}
