//! Calls and responders against a scripted broker.

#![expect(clippy::unwrap_used, reason = "tests panic when something is not as scripted")]

mod support;

use std::time::Duration;

use qwerq::proto::{ErrorCode, Opcode, wire};
use qwerq::{CallContract, Client, Contract, Responder, ServeOptions};
use support::{Peer, bytes_of, connected, message};

struct Quote;

impl Contract for Quote {
    const QUEUE: &'static str = "pricing.quote";
    const MESSAGE_TYPE: &'static str = "qwerq.v1.Header";
    const FINGERPRINT: [u8; 32] = [7; 32];
    const VERSION: u32 = 1;
    type Message = wire::Header;
}

impl CallContract for Quote {
    const REPLY_TYPE: &'static str = "qwerq.v1.GoAway";
    type Reply = wire::GoAway;
}

fn order() -> wire::Header {
    wire::Header { name: "n".into(), value: "v".into() }
}

#[tokio::test]
async fn a_call_gets_its_reply_or_the_responders_error() {
    let (client, mut peer, _broker) = connected().await;
    let timeout = Duration::from_secs(60);
    let (replied, ()) = tokio::join!(client.call("q", message("ask").header("a", "b"), timeout), async {
        let (id, call) = peer.expect::<wire::Call>(Opcode::Call).await;
        assert_eq!((&call.payload[..], call.timeout_ms, call.headers.len()), (&b"ask"[..], 60_000, 1));
        let response = wire::CallResponse { payload: "reply".into(), ..Default::default() };
        peer.send(Opcode::CallResponse, id, &response).await;
    });
    assert_eq!(&replied.unwrap().payload[..], b"reply");

    for in_response in [false, true] {
        let (replied, ()) = tokio::join!(client.call("q", message("ask"), timeout), async {
            let (id, _) = peer.expect::<wire::Call>(Opcode::Call).await;
            let error = ErrorCode::NoResponders.with("nobody");
            if in_response {
                let response = wire::CallResponse { error: Some(error), ..Default::default() };
                peer.send(Opcode::CallResponse, id, &response).await;
            } else {
                peer.error(id, error).await;
            }
        });
        assert_eq!(replied.unwrap_err().code(), Some(ErrorCode::NoResponders));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline_and_is_cancelled() {
    let (client, mut peer, _broker) = connected().await;
    let error = client.call("q", message("ask"), Duration::from_secs(3)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::Timeout));
    let (id, _) = peer.expect::<wire::Call>(Opcode::Call).await;
    let (_, cancel) = peer.expect::<wire::Cancel>(Opcode::Cancel).await;
    assert_eq!(Some(cancel.request_id), id);
}

async fn serve(client: &Client, peer: &mut Peer) -> (Responder, u32) {
    let options = ServeOptions { concurrency: 4, ..ServeOptions::default() };
    let (responder, consume) = tokio::join!(client.serve("q", options), peer.consume_ack());
    assert_eq!((consume.role(), consume.prefetch), (wire::Role::Serve, 4));
    (responder.unwrap(), consume.subscription)
}

fn call(subscription: u32, id: &'static str) -> wire::Call {
    wire::Call { subscription, call_id: id.into(), timeout_ms: 1000, payload: "ask".into(), ..Default::default() }
}

#[tokio::test(start_paused = true)]
async fn a_responder_replies_fails_or_is_told_on() {
    let (client, mut peer, _broker) = connected().await;
    let (mut responder, number) = serve(&client, &mut peer).await;
    for id in ["1", "2", "3"] {
        peer.send(Opcode::Call, None, &call(number, id)).await;
    }
    responder.next().await.unwrap().unwrap().reply(message("reply")).unwrap();
    responder.next().await.unwrap().unwrap().fail(ErrorCode::InvalidArgument, "no").unwrap();
    drop(responder.next().await.unwrap().unwrap());
    let mut answers = Vec::new();
    for _ in 0..3 {
        let (id, response) = peer.expect::<wire::CallResponse>(Opcode::CallResponse).await;
        assert_eq!(id, None);
        let code = response.error.and_then(|error| error.known_code());
        answers.push((response.call_id, response.payload, code));
    }
    let expected = [("1", "reply", None), ("2", "", Some(ErrorCode::InvalidArgument)), ("3", "", Some(ErrorCode::Internal))];
    assert!(answers.iter().map(|(id, payload, code)| (&id[..], &payload[..], *code)).eq(expected.iter().map(|(id, payload, code)| (
        id.as_bytes(),
        payload.as_bytes(),
        *code
    ))));
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_deadline_has_passed_never_reaches_the_handler() {
    let (client, mut peer, _broker) = connected().await;
    let (mut responder, number) = serve(&client, &mut peer).await;
    peer.send(Opcode::Call, None, &call(number, "late")).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    peer.send(Opcode::Call, None, &call(number, "fresh")).await;
    let fresh = responder.next().await.unwrap().unwrap();
    assert!(fresh.remaining() > Duration::from_millis(900));
    fresh.reply(message("")).unwrap();
    let (_, late) = peer.expect::<wire::CallResponse>(Opcode::CallResponse).await;
    assert_eq!((&late.call_id[..], late.error.and_then(|error| error.known_code())), (&b"late"[..], Some(ErrorCode::Timeout)));
    let (closed, unsubscribe) = tokio::join!(responder.close(), async {
        peer.expect::<wire::CallResponse>(Opcode::CallResponse).await;
        peer.unsubscribe().await
    });
    closed.unwrap();
    assert!(unsubscribe.keep_leases);
}

#[tokio::test]
async fn a_typed_service_calls_and_serves() {
    let (client, mut peer, _broker) = connected().await;
    let service = client.service::<Quote>();
    let question = order();
    let reply = wire::GoAway { reason: "r".into(), leader: String::new() };
    let (replied, ()) = tokio::join!(service.call_within(Duration::from_secs(60), &question), async {
        let (id, call) = peer.expect::<wire::Call>(Opcode::Call).await;
        assert_eq!((call.queue.as_str(), &call.contract[..]), ("pricing.quote", &[7; 32][..]));
        let response = wire::CallResponse { payload: bytes_of(&reply), ..Default::default() };
        peer.send(Opcode::CallResponse, id, &response).await;
    });
    assert_eq!(replied.unwrap(), reply);

    let (responder, consume) = tokio::join!(service.responder(ServeOptions::default()), peer.consume_ack());
    let mut responder = responder.unwrap();
    let bad = wire::Call { payload: "\u{1}".into(), ..call(consume.subscription, "bad") };
    let good = wire::Call { payload: bytes_of(&order()), ..call(consume.subscription, "good") };
    peer.send(Opcode::Call, None, &bad).await;
    peer.send(Opcode::Call, None, &good).await;
    let asked = responder.next().await.unwrap().unwrap();
    assert_eq!(asked.body, order());
    asked.reply(&reply).unwrap();
    let (_, response) = peer.expect::<wire::CallResponse>(Opcode::CallResponse).await;
    assert_eq!(response.error.and_then(|error| error.known_code()), Some(ErrorCode::SchemaViolation));
    let (_, response) = peer.expect::<wire::CallResponse>(Opcode::CallResponse).await;
    assert_eq!((&response.call_id[..], response.payload), (&b"good"[..], bytes_of(&reply)));
}

#[tokio::test(start_paused = true)]
async fn a_handler_replies_refuses_or_panics_and_finishes_what_it_has_begun() {
    let (client, mut peer, _broker) = connected().await;
    let service = client.service::<Quote>();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (enter, entered) = tokio::sync::oneshot::channel::<()>();
    let gate = std::sync::Mutex::new(Some((enter, stopped)));
    let (stop_serving, stopping) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let until = async { drop(stopping.await) };
        let handler = move |request: wire::Header, info: qwerq::CallInfo| {
            let slow = (request.name == "slow").then(|| gate.lock().unwrap().take().unwrap());
            async move {
                if let Some((enter, go_on)) = slow {
                    enter.send(()).unwrap();
                    go_on.await.unwrap();
                }
                match request.name.as_str() {
                    "bad" => Err(qwerq::Status::new(ErrorCode::InvalidArgument, "no such article")),
                    "panic" => panic!("as scripted"),
                    _ => Ok(wire::GoAway { reason: format!("{:?}", info.remaining() > Duration::ZERO), leader: request.name }),
                }
            }
        };
        service.serve_until(until, ServeOptions::default(), handler).await
    });
    let consume = peer.consume_ack().await;
    let ask = |name: &str| wire::Call {
        payload: bytes_of(&wire::Header { name: name.into(), value: String::new() }),
        ..call(consume.subscription, "id")
    };
    for (name, code) in [("fine", None), ("bad", Some(ErrorCode::InvalidArgument)), ("panic", Some(ErrorCode::Internal))] {
        peer.send(Opcode::Call, None, &ask(name)).await;
        let (_, response) = peer.expect::<wire::CallResponse>(Opcode::CallResponse).await;
        assert_eq!(response.error.and_then(|error| error.known_code()), code, "{name}");
    }
    peer.send(Opcode::Call, None, &ask("slow")).await;
    entered.await.unwrap();
    stop_serving.send(()).unwrap();
    assert!(peer.unsubscribe().await.keep_leases, "what has begun may still reply");
    stop.send(()).unwrap();
    let (_, response) = peer.expect::<wire::CallResponse>(Opcode::CallResponse).await;
    assert_eq!(response.payload, bytes_of(&wire::GoAway { reason: "true".into(), leader: "slow".into() }));
    serving.await.unwrap().unwrap();
}
