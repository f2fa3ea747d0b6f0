//! The shell around the machine, with outboxes and without sockets. Contracts and connections are tested from outside.

use std::sync::Arc;

use bytes::BytesMut;
use qwerq_core::options::SchemaMode;
use qwerq_proto::{Frame, FrameDecoder, MAX_FRAME_BYTES};

use super::*;

const RESPONDER: SubscriptionKey = SubscriptionKey { session: SessionId(1), number: 5 };
const CALLER: SessionId = SessionId(2);

struct Scene {
    calls: Arc<Calls>,
    metrics: Arc<Metrics>,
    responder: Arc<Outbox>,
    caller: Arc<Outbox>,
}

/// One responder of queue `q` and one caller.
fn scene() -> Scene {
    let metrics = Arc::new(Metrics::new());
    let policies = Arc::new(Policies::new(SchemaMode::Permissive));
    let calls = Arc::new(Calls::new(Arc::new(Registry::new()), policies, Arc::clone(&metrics), 1 << 20));
    let (responder, caller) = (Arc::new(Outbox::default()), Arc::new(Outbox::default()));
    calls.opened(RESPONDER.session, Arc::clone(&responder));
    calls.opened(CALLER, Arc::clone(&caller));
    let consume = wire::Consume { queue: "q".into(), subscription: 5, ..wire::Consume::default() };
    calls.serve(RESPONDER, Bounds { messages: 8, bytes: 1 << 20 }, &consume);
    Scene { calls, metrics, responder, caller }
}

fn ask(timeout_ms: u64) -> wire::Call {
    let headers = vec![wire::Header { name: "traceparent".into(), value: "00-a-b-01".into() }];
    wire::Call { queue: "q".into(), payload: "ask".into(), headers, timeout_ms, ..wire::Call::default() }
}

async fn next(outbox: &Outbox) -> Frame {
    let mut bytes = BytesMut::from(&outbox.take(Vec::new()).await.expect("an open outbox")[..]);
    let frame = FrameDecoder::new(MAX_FRAME_BYTES).decode(&mut bytes).expect("frames").expect("a whole frame");
    assert!(bytes.is_empty(), "one frame at a time");
    frame
}

async fn next_call(outbox: &Outbox) -> wire::Call {
    let frame = next(outbox).await;
    assert_eq!((frame.opcode, frame.request_id), (Opcode::Call as u8, None));
    wire::Call::decode(frame.payload).expect("a CALL")
}

async fn next_error(outbox: &Outbox, request_id: u32) -> wire::Error {
    let frame = next(outbox).await;
    assert_eq!((frame.opcode, frame.request_id), (Opcode::Error as u8, Some(request_id)));
    wire::Error::decode(frame.payload).expect("an ERROR")
}

#[tokio::test(start_paused = true)]
async fn a_request_reaches_the_responder_whole_and_its_reply_the_caller() {
    let scene = scene();
    scene.calls.call(CALLER, Some(9), ask(1_500)).expect("correlated");
    let call = next_call(&scene.responder).await;
    assert_eq!(call.call_id.len(), 16);
    let expected = wire::Call { call_id: call.call_id.clone(), subscription: 5, timeout_ms: 1_500, ..ask(0) };
    assert_eq!(call, expected);
    let response = wire::CallResponse { call_id: call.call_id, payload: "reply".into(), ..wire::CallResponse::default() };
    scene.calls.respond(RESPONDER.session, None, response.clone());
    let frame = next(&scene.caller).await;
    assert_eq!((frame.opcode, frame.request_id), (Opcode::CallResponse as u8, Some(9)));
    let reply = wire::CallResponse::decode(frame.payload).expect("a CALL_RESPONSE");
    assert_eq!((&reply.payload[..], reply.call_id.len()), (&b"reply"[..], 0));
    scene.calls.respond(RESPONDER.session, None, response);
    scene.caller.close();
    assert_eq!(scene.caller.take(Vec::new()).await, None, "the same reply again is nobody's");
    assert_eq!(scene.metrics.calls_in_flight.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_end_at_their_deadlines_without_traffic_and_thirty_seconds_are_the_default() {
    let scene = scene();
    let calls = Arc::clone(&scene.calls);
    let clockwork = tokio::spawn(async move { calls.keep_time().await });
    let started = Instant::now();
    scene.calls.call(CALLER, Some(1), ask(0)).expect("correlated");
    assert_eq!(next_call(&scene.responder).await.timeout_ms, 30_000);
    // A later call with an earlier deadline.
    scene.calls.call(CALLER, Some(2), ask(1_000)).expect("correlated");
    for (request_id, at_ms) in [(2, 1_001), (1, 30_001)] {
        let error = next_error(&scene.caller, request_id).await;
        assert_eq!((error.name.as_str(), error.details["handed"].as_str()), ("timeout", "true"));
        assert_eq!(started.elapsed().as_millis(), at_ms);
    }
    clockwork.abort();
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_stops_takes_no_calls_and_ends_those_that_it_cuts_off() {
    let scene = scene();
    scene.calls.call(CALLER, Some(1), ask(0)).expect("correlated");
    next_call(&scene.responder).await;
    scene.calls.drain();
    scene.calls.call(CALLER, Some(2), ask(0)).expect("correlated");
    assert_eq!(next_error(&scene.caller, 2).await.name, "draining");
    scene.calls.closed(CALLER, true);
    assert_eq!(next_error(&scene.caller, 1).await.name, "draining");
    assert_eq!(scene.metrics.calls_in_flight.get(), 0);
}

#[test]
fn a_connection_that_has_closed_cannot_begin_to_serve() {
    let scene = scene();
    scene.calls.closed(RESPONDER.session, false);
    let consume = wire::Consume { queue: "q".into(), ..wire::Consume::default() };
    scene.calls.serve(RESPONDER, Bounds { messages: 8, bytes: 1 << 20 }, &consume);
    assert!(!scene.calls.has_responder(RESPONDER));
}

#[test]
fn a_call_without_a_request_id_closes_the_connection() {
    let error = scene().calls.call(CALLER, None, ask(0)).expect_err("not correlated");
    assert_eq!(error.name, "correlation-required");
}
