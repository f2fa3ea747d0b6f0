//! Consumer groups.

use serde_json::json;

use crate::support::broker::Broker;
use crate::support::http::ask;
use crate::{get, post, send};

#[test]
fn a_group_is_made_moved_committed_and_deleted() {
    let broker = Broker::start(&[]);
    send(&broker, "PUT", "/api/v1/queues/log", &json!({"mode": "stream"})).ok();
    let batch: Vec<_> = (0..5).map(|n| json!({"payload_text": n.to_string()})).collect();
    post(&broker, "/api/v1/queues/log/messages", &json!(batch)).ok();
    let group = send(&broker, "PUT", "/api/v1/queues/log/groups/billing", &json!({"from": "offset=1"})).ok();
    assert_eq!((&group["ack_floor"], &group["lag"]), (&json!(1), &json!(4)));
    send(&broker, "PUT", "/api/v1/queues/log/groups/billing", &json!({})).problem(409, "group-exists");
    let moved = post(&broker, "/api/v1/queues/log/groups/billing/seek", &json!({"from": "beginning"})).ok();
    assert_eq!(moved["ack_floor"], 0);
    let committed = post(&broker, "/api/v1/queues/log/groups/billing/commit", &json!({"offset": 2})).ok();
    assert_eq!(committed["ack_floor"], 3);
    assert_eq!(get(&broker, "/api/v1/queues/log/groups").ok(), json!({"groups": [committed]}));
    assert_eq!(ask(broker.http, "DELETE", "/api/v1/queues/log/groups/billing", &[], b"").status, 204);
    get(&broker, "/api/v1/queues/log/groups/billing").problem(404, "group-not-found");
    post(&broker, "/api/v1/queues/log/groups/billing/seek", &json!({"from": "end"})).problem(404, "group-not-found");
    post(&broker, "/api/v1/queues/log/groups/billing/seek", &json!({"from": "here"})).problem(400, "invalid-argument");
}

#[test]
fn explain_says_why_a_message_does_not_move() {
    let broker = Broker::start(&[]);
    post(&broker, "/api/v1/queues/q/messages", &json!({"payload_text": "a"})).ok();
    post(&broker, "/api/v1/queues/q/fetch", &json!({"group": "billing"})).ok();
    let explained = get(&broker, "/api/v1/queues/q/explain?seq=0&group=billing").ok();
    let explanation = &explained["explanations"][0];
    assert_eq!((&explanation["cause"], &explanation["group"]), (&json!("leased"), &json!("billing")), "{explained}");
    get(&broker, "/api/v1/queues/q/explain?group=none").problem(404, "group-not-found");
    get(&broker, "/api/v1/queues/q/explain?seq=0&key=k").problem(400, "invalid-argument");
}
