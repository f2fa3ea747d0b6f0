//! Calls over HTTP.

use qwerq_proto::{ErrorCode, Opcode, wire};
use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::http::{Answer, ask};
use crate::support::raw::Raw;
use crate::{post, register_order, send};

/// The answer to `call` while a responder answers one call with `reply`. A responder that finds something wrong gives up, and the call ends
/// without a reply.
fn answered(
    broker: &Broker,
    queue: &str,
    reply: impl FnOnce(&wire::Call) -> wire::CallResponse + Send + 'static,
    call: impl FnOnce() -> Answer,
) -> Answer {
    let mut responder = Raw::hello(broker.address);
    let serve = wire::Consume { subscription: 1, queue: queue.to_owned(), role: wire::Role::Serve as i32, ..wire::Consume::default() };
    responder.consume_as(&serve);
    std::thread::spawn(move || {
        let asked: wire::Call = responder.expect(Opcode::Call);
        let response = wire::CallResponse { call_id: asked.call_id.clone(), ..reply(&asked) };
        responder.send(Opcode::CallResponse, None, &response);
        // The connection stays until the broker ends, so that the reply is not lost with it: one responder for each queue.
        while responder.next().is_some() {}
    });
    call()
}

#[test]
fn a_call_has_request_and_reply_in_json() {
    let broker = Broker::start(&[]);
    register_order(&broker, "orders");
    register_order(&broker, "raw");
    let http = broker.http;
    let reply = |asked: &wire::Call| {
        assert_eq!(&*asked.payload, b"\x0a\x03o-1");
        assert_eq!(asked.headers[0].name, "source");
        let header = wire::Header { name: "took".to_owned(), value: "1 ms".to_owned() };
        wire::CallResponse { payload: b"\x0a\x03o-1".as_slice().into(), headers: vec![header], ..wire::CallResponse::default() }
    };
    let body = json!({"body": {"id": "o-1"}, "headers": {"source": "web"}, "timeout_ms": 60_000}).to_string();
    let answer =
        answered(&broker, "orders", reply, move || ask(http, "POST", "/api/v1/queues/orders/call", &[crate::JSON], body.as_bytes()));
    assert_eq!(answer.ok(), json!({"body": {"orderId": "o-1"}, "headers": {"took": "1 ms"}, "schema_version": 1}));
    let raw = |asked: &wire::Call| wire::CallResponse { payload: asked.payload.clone(), ..wire::CallResponse::default() };
    let answer = answered(&broker, "raw", raw, || {
        let headers = [("content-type", "application/x-protobuf"), ("accept", "application/x-protobuf")];
        ask(http, "POST", "/api/v1/queues/raw/call", &headers, b"\x0a\x03o-2")
    });
    assert_eq!((answer.status, &*answer.body), (200, &b"\x0a\x03o-2"[..]));
    let about: Value = serde_json::from_str(answer.header("qwerq-message").expect("the rest")).expect("JSON");
    assert_eq!(about["schema_version"], 1);
}

#[test]
fn a_call_that_gets_no_reply_says_why() {
    let broker = Broker::start(&[]);
    send(&broker, "PUT", "/api/v1/queues/q", &json!({})).ok();
    post(&broker, "/api/v1/queues/q/call", &json!({})).problem(424, "no-responders");
    post(&broker, "/api/v1/queues/q/call", &json!({"timeout_ms": 0})).problem(400, "invalid-argument");
    register_order(&broker, "orders");
    post(&broker, "/api/v1/queues/orders/call", &json!({"body": {"id": 1}})).problem(422, "schema-violation");
    let http = broker.http;
    let failed = |_: &wire::Call| {
        let error = wire::Error { message: "no such order".to_owned(), ..ErrorCode::Internal.with("") };
        wire::CallResponse { error: Some(error), ..wire::CallResponse::default() }
    };
    let answer = answered(&broker, "orders", failed, || ask(http, "POST", "/api/v1/queues/orders/call", &[crate::JSON], b"{}"));
    assert_eq!(answer.status, 424, "{}", answer.text());
    let problem = answer.json();
    assert_eq!((&problem["detail"], &problem["details"]["side"]), (&json!("no such order"), &json!("responder")), "{problem}");
}
