//! /api/v1/queues and one of them.

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::cli::json_lines;
use crate::support::http::ask;
use crate::{get, post, send};

#[test]
fn a_queue_is_made_looked_at_changed_emptied_and_deleted() {
    let broker = Broker::start(&[]);
    let made = send(&broker, "PUT", "/api/v1/queues/jobs", &json!({"max_deliveries": 10})).ok();
    assert_eq!((&made["name"], &made["options"]["max_deliveries"], &made["depth"]), (&json!("jobs"), &json!(10), &json!(0)));
    send(&broker, "PUT", "/api/v1/queues/jobs", &json!({"max_deliveries": 10})).ok();
    send(&broker, "PUT", "/api/v1/queues/jobs", &json!({"max_deliveries": 11})).problem(409, "queue-exists");
    let changed = send(&broker, "PATCH", "/api/v1/queues/jobs", &json!({"visibility_timeout_ms": 60_000})).ok();
    assert_eq!((&changed["options"]["visibility_timeout_ms"], &changed["options"]["max_deliveries"]), (&json!(60_000), &json!(10)));
    post(&broker, "/api/v1/queues/jobs/messages", &json!([{"payload_text": "a"}, {"payload_text": "b"}])).ok();
    assert_eq!(get(&broker, "/api/v1/queues/jobs").ok()["depth"], 2);
    assert_eq!(post(&broker, "/api/v1/queues/jobs/purge", &json!({})).ok(), json!({"purged": 2}));
    assert_eq!(ask(broker.http, "DELETE", "/api/v1/queues/jobs", &[], b"").status, 204);
    get(&broker, "/api/v1/queues/jobs").problem(404, "queue-not-found");
}

#[test]
fn a_queue_looks_as_the_command_line_shows_it() {
    let broker = Broker::start(&[]);
    post(&broker, "/api/v1/queues/orders/messages", &json!({"payload_text": "a"})).ok();
    let shown = json_lines(&broker, &["queue", "info", "orders", "--json"]).remove(0);
    assert_eq!(get(&broker, "/api/v1/queues/orders").ok(), shown);
}

#[test]
fn queues_are_listed_in_pages() {
    let broker = Broker::start(&[]);
    for name in ["b", "a", "c-orders", "d-orders"] {
        send(&broker, "PUT", &format!("/api/v1/queues/{name}"), &json!({})).ok();
    }
    let names = |path: &str| {
        let page = get(&broker, path).ok();
        let names: Vec<_> = page["queues"].as_array().expect("a list").iter().map(|queue| queue["name"].clone()).collect();
        (json!(names), page["next"].clone())
    };
    assert_eq!(names("/api/v1/queues"), (json!(["a", "b", "c-orders", "d-orders"]), json!(null)));
    assert_eq!(names("/api/v1/queues?limit=2"), (json!(["a", "b"]), json!("b")));
    assert_eq!(names("/api/v1/queues?limit=2&after=b"), (json!(["c-orders", "d-orders"]), json!(null)));
    assert_eq!(names("/api/v1/queues?search=orders&limit=1"), (json!(["c-orders"]), json!("c-orders")));
    assert_eq!(names("/api/v1/queues?search=orders&limit=1&after=c-orders"), (json!(["d-orders"]), json!(null)));
    assert_eq!(names("/api/v1/queues?after=d-orders"), (json!([]), json!(null)));
    get(&broker, "/api/v1/queues?limit=many").problem(400, "invalid-argument");
}

#[test]
fn what_is_wrong_with_a_request_is_said_by_name() {
    let broker = Broker::start(&[]);
    send(&broker, "PUT", "/api/v1/queues/.hidden", &json!({})).problem(400, "invalid-name");
    send(&broker, "PUT", "/api/v1/queues/a.dlq", &json!({})).problem(403, "reserved-queue");
    send(&broker, "PUT", "/api/v1/queues/a%20b", &json!({})).problem(400, "invalid-name");
    send(&broker, "PUT", "/api/v1/queues/a", &json!({"mode": "pile"})).problem(400, "invalid-argument");
    let typo = send(&broker, "PUT", "/api/v1/queues/a", &json!({"max_delivery": 1})).problem(400, "invalid-argument");
    assert!(typo["detail"].as_str().is_some_and(|detail| detail.contains("max_delivery")), "{typo}");
    let headers = [crate::JSON];
    ask(broker.http, "PUT", "/api/v1/queues/a", &headers, b"{").problem(400, "invalid-argument");
    ask(broker.http, "PUT", "/api/v1/queues/a", &[("content-type", "text/plain")], b"{}").problem(415, "unsupported");
    ask(broker.http, "PUT", "/api/v1/queues/a", &[], b"{}").problem(415, "unsupported");
    ask(broker.http, "PUT", "/api/v1/queues/a", &[("content-type", "application/x-protobuf")], b"{}").problem(415, "unsupported");
    get(&broker, "/api/v1/nothing").problem(404, "unsupported");
    let answer = post(&broker, "/api/v1/queues/a", &json!({}));
    answer.problem(405, "unsupported");
    let allow = answer.header("allow").expect("the methods");
    assert!(["GET", "PUT", "PATCH", "DELETE"].iter().all(|method| allow.contains(method)), "{allow}");
}
