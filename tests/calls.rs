//! CALL through a running broker: who answers, how every call ends, and what is left behind, which is nothing.

mod support;

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use qwerq::{Client, ErrorCode, Message, ServeOptions};
use qwerq_proto::{Opcode, wire};
use serde_json::Value;
use support::broker::Broker;
use support::raw::Raw;

const PRICING: &str = "syntax = \"proto3\"; package shop.v1;
    message QuoteRequest { string article = 1; uint32 quantity = 2; }
    message Quote { uint64 cents = 1; string note = 2; }";

/// `QuoteRequest { article: "A-1" }`.
const REQUEST: &[u8] = b"\x0a\x03A-1";
/// `Quote { cents: 1000 }`.
const QUOTE: &[u8] = b"\x08\xe8\x07";

fn register(broker: &Broker, queue: &str, reply: &[&str]) {
    let mut file = tempfile::Builder::new().suffix(".proto").tempfile().expect("a file");
    file.write_all(PRICING.as_bytes()).expect("written");
    let path = file.path().display().to_string();
    let args = [&["schema", "register", "-q", queue, "-p", &path, "-m", "shop.v1.QuoteRequest"], reply].concat();
    let output = broker.run(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn serve(raw: &mut Raw, subscription: u32, queue: &str, prefetch: u32) {
    raw.send(Opcode::Consume, Some(u32::MAX), &consume_serve(subscription, queue, prefetch));
    let ack: wire::ConsumeAck = raw.expect(Opcode::ConsumeAck);
    assert_eq!(ack, wire::ConsumeAck { subscription, ..wire::ConsumeAck::default() });
}

fn consume_serve(subscription: u32, queue: &str, prefetch: u32) -> wire::Consume {
    wire::Consume { subscription, queue: queue.to_owned(), prefetch, role: wire::Role::Serve as i32, ..wire::Consume::default() }
}

fn ask(raw: &mut Raw, request_id: u32, queue: &str, payload: &[u8], timeout_ms: u64) {
    let call = wire::Call { queue: queue.to_owned(), payload: Bytes::copy_from_slice(payload), timeout_ms, ..wire::Call::default() };
    raw.send(Opcode::Call, Some(request_id), &call);
}

fn answer(raw: &mut Raw, call: &wire::Call, payload: &[u8]) {
    let response =
        wire::CallResponse { call_id: call.call_id.clone(), payload: Bytes::copy_from_slice(payload), ..wire::CallResponse::default() };
    raw.send(Opcode::CallResponse, None, &response);
}

/// The next frame answers that request: with a payload, or with the name of an error.
fn outcome(raw: &mut Raw, request_id: u32) -> Result<Bytes, wire::Error> {
    let (id, outcome) = next_outcome(raw);
    assert_eq!(id, request_id, "{outcome:?}");
    outcome
}

fn next_outcome(raw: &mut Raw) -> (u32, Result<Bytes, wire::Error>) {
    let frame = raw.next().expect("the connection is open");
    let id = frame.request_id.expect("an answer to a request");
    if frame.opcode == Opcode::Error as u8 {
        return (id, Err(wire::Error::decode(frame.payload).expect("an ERROR")));
    }
    assert_eq!(frame.opcode, Opcode::CallResponse as u8);
    let response = wire::CallResponse::decode(frame.payload).expect("a CALL_RESPONSE");
    assert!(response.call_id.is_empty() && response.error.is_none(), "{response:?}");
    (id, Ok(response.payload))
}

fn refused(raw: &mut Raw, request_id: u32, name: &str) -> wire::Error {
    let error = outcome(raw, request_id).expect_err(name);
    assert_eq!(error.name, name, "{error:?}");
    error
}

fn queues(broker: &Broker) -> String {
    String::from_utf8(broker.run(&["queue", "list", "--json"]).stdout).expect("text")
}

#[test]
fn the_late_reply_to_a_call_that_timed_out_does_not_reach_the_next_one() {
    let broker = Broker::start(&[]);
    let (mut caller, mut responder) = (Raw::hello(broker.address), Raw::hello(broker.address));
    serve(&mut responder, 1, "q", 1);
    ask(&mut caller, 7, "q", b"A", 20);
    let a: wire::Call = responder.expect(Opcode::Call);
    let error = refused(&mut caller, 7, "timeout");
    assert_eq!(error.details["handed"], "true");
    // The same request id once more, as clients may.
    ask(&mut caller, 7, "q", b"B", 60_000);
    let b: wire::Call = responder.expect(Opcode::Call);
    assert_ne!(a.call_id, b.call_id);
    answer(&mut responder, &a, b"late reply to A");
    answer(&mut responder, &b, b"reply to B");
    assert_eq!(outcome(&mut caller, 7).expect("a reply"), "reply to B");
    assert_eq!(broker.metric("qwerq_calls_total{outcome=\"timeout\"}"), 1.0);
    assert_eq!(broker.metric("qwerq_calls_total{outcome=\"replied\"}"), 1.0);
    assert_eq!(broker.metric("qwerq_calls_in_flight"), 0.0);
}

/// Resident memory, in bytes.
fn memory(broker: &Broker) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", broker.pid())).expect("the broker runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Lengths of all files, by path.
fn files(directory: &Path) -> HashMap<String, u64> {
    let mut found = HashMap::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let metadata = entry.metadata().expect("metadata");
        if metadata.is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.insert(entry.path().display().to_string(), metadata.len());
        }
    }
    found
}

#[test]
fn ten_thousand_calls_that_time_out_leave_depth_memory_and_disk_where_they_were() {
    let broker = Broker::start(&[]);
    let (mut caller, mut responder) = (Raw::hello(broker.address), Raw::hello(broker.address));
    serve(&mut responder, 1, "q", 100);
    let payload = vec![b'x'; 4 << 10];
    let mut time_out = |rounds: u32| {
        for _ in 0..rounds {
            for id in 0..500 {
                ask(&mut caller, id, "q", &payload, 1);
            }
            for _ in 0..500 {
                let (_, outcome) = next_outcome(&mut caller);
                assert_eq!(outcome.expect_err("nobody replies").name, "timeout");
            }
        }
    };
    // Buffers have their size after some; the responder's connection is not read, so what it is sent waits in kernel and outbox.
    time_out(2);
    let (before, files_before) = (memory(&broker), files(broker.data()));
    let commits = broker.metric("qwerq_journal_batch_entries_count");
    time_out(20);
    assert_eq!(broker.metric("qwerq_calls_total{outcome=\"timeout\"}"), 11_000.0);
    assert_eq!(broker.metric("qwerq_calls_in_flight"), 0.0);
    assert_eq!(broker.metric("qwerq_journal_batch_entries_count"), commits, "calls are not committed");
    assert_eq!(files(broker.data()), files_before);
    assert_eq!(queues(&broker), "", "no queue came into being");
    drop(responder);
    let mut responder = Raw::hello(broker.address);
    serve(&mut responder, 1, "q", 100);
    let after = memory(&broker);
    assert!(after < before + (24 << 20), "{before} bytes before, {after} after");
    ask(&mut caller, 1, "q", b"again", 0);
    let call: wire::Call = responder.expect(Opcode::Call);
    assert_eq!(call.timeout_ms, 30_000, "0 is the default");
    answer(&mut responder, &call, b"fine");
    assert_eq!(outcome(&mut caller, 1).expect("a reply"), "fine");
}

/// 100,000 calls where optimised code makes that quick.
const MANY_CALLS: u64 = if cfg!(debug_assertions) { 8_000 } else { 100_000 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_calls_with_random_delays_no_reply_reaches_the_wrong_caller() {
    const CALLERS: u64 = 64;
    let broker = Broker::start(&[]);
    let mut serving = Vec::new();
    for _ in 0..3 {
        let client = Client::connect(&broker.broker()).await.expect("a broker");
        let mut responder = client.serve("q", ServeOptions { concurrency: 16, ..ServeOptions::default() }).await.expect("served");
        serving.push(tokio::spawn(async move {
            let mut served = 0_u64;
            while let Some(call) = responder.next().await {
                let call = call.expect("a call");
                served += 1;
                tokio::spawn(async move {
                    // The delay is what is tested: replies overtake each other, and some come too late.
                    tokio::time::sleep(Duration::from_micros(rand_micros(served))).await;
                    let payload = call.payload.clone();
                    call.reply(Message::new(payload)).expect("the client is open");
                });
            }
        }));
    }
    let clients = [Client::connect(&broker.broker()).await.expect("a broker"), Client::connect(&broker.broker()).await.expect("a broker")];
    let (replied, late) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let client = clients[usize::try_from(caller).expect("64") % clients.len()].clone();
            let (replied, late) = (Arc::clone(&replied), Arc::clone(&late));
            tokio::spawn(async move {
                for n in 0..MANY_CALLS / CALLERS {
                    let question = format!("caller {caller} call {n}");
                    let timeout = if n % 8 == 0 { Duration::from_millis(1) } else { Duration::from_secs(60) };
                    match client.call("q", Message::new(question.clone()), timeout).await {
                        Ok(reply) => {
                            assert_eq!(reply.payload, question, "a reply reaches the caller of its own call");
                            replied.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            assert_eq!(error.code(), Some(ErrorCode::Timeout), "{error}");
                            late.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("all calls end");
    }
    let (replied, late) = (replied.load(Ordering::Relaxed), late.load(Ordering::Relaxed));
    assert_eq!(replied + late, MANY_CALLS / CALLERS * CALLERS);
    assert!(replied >= MANY_CALLS / 8 * 6 && late > 0, "{replied} replies, {late} came too late");
    assert_eq!(broker.metric("qwerq_calls_in_flight"), 0.0);
    serving.into_iter().for_each(|task| task.abort());
}

/// Up to 3 ms, another one for each number.
fn rand_micros(seed: u64) -> u64 {
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 31)) % 3_000
}

#[test]
fn without_a_responder_a_call_fails_at_once_and_makes_no_queue() {
    let broker = Broker::start(&[]);
    let mut caller = Raw::hello(broker.address);
    ask(&mut caller, 1, "nobody.home", b"x", 60_000);
    let error = refused(&mut caller, 1, "no-responders");
    assert_eq!(error.details["queue"], "nobody.home");
    ask(&mut caller, 2, "../etc", b"x", 60_000);
    refused(&mut caller, 2, "invalid-name");
    let mut responder = Raw::hello(broker.address);
    serve(&mut responder, 1, "nobody.home", 1);
    assert_eq!(queues(&broker), "", "serving makes no queue either");
}

#[test]
fn a_responder_that_disconnects_loses_its_calls_at_once_and_no_other_gets_them() {
    let broker = Broker::start(&[]);
    let mut caller = Raw::hello(broker.address);
    let (mut first, mut second) = (Raw::hello(broker.address), Raw::hello(broker.address));
    serve(&mut first, 1, "q", 1);
    ask(&mut caller, 1, "q", b"lost", 60_000);
    let _: wire::Call = first.expect(Opcode::Call);
    serve(&mut second, 1, "q", 1);
    drop(first);
    refused(&mut caller, 1, "responder-lost");
    ask(&mut caller, 2, "q", b"next", 60_000);
    let call: wire::Call = second.expect(Opcode::Call);
    assert_eq!(call.payload, "next");
    // The other end: whoever asked is gone, and the responder gets work again.
    drop(caller);
    let mut caller = Raw::hello(broker.address);
    ask(&mut caller, 1, "q", b"after", 60_000);
    let after: wire::Call = second.expect(Opcode::Call);
    answer(&mut second, &call, b"to nobody");
    answer(&mut second, &after, b"fine");
    assert_eq!(outcome(&mut caller, 1).expect("a reply"), "fine");
}

#[test]
fn a_thousand_calls_wait_for_busy_responders_and_the_next_is_refused() {
    let broker = Broker::start(&[]);
    let (mut caller, mut responder) = (Raw::hello(broker.address), Raw::hello(broker.address));
    serve(&mut responder, 1, "q", 1);
    for id in 0..=1_000 {
        ask(&mut caller, id, "q", &id.to_be_bytes(), 60_000);
    }
    ask(&mut caller, 5_000, "q", b"one too many", 60_000);
    let error = refused(&mut caller, 5_000, "overloaded");
    assert!(error.retry_after_ms > 0 && error.details["waiting"] == "1000", "{error:?}");
    for id in 0..=1_000_u32 {
        let call: wire::Call = responder.expect(Opcode::Call);
        assert_eq!(&call.payload[..], id.to_be_bytes(), "they are served in the order in which they came");
        answer(&mut responder, &call, &call.payload);
        assert_eq!(&outcome(&mut caller, id).expect("a reply")[..], id.to_be_bytes());
    }
}

#[test]
fn the_responder_sees_the_time_that_is_left() {
    let broker = Broker::start(&[]);
    let (mut caller, mut responder) = (Raw::hello(broker.address), Raw::hello(broker.address));
    serve(&mut responder, 1, "q", 1);
    ask(&mut caller, 1, "q", b"first", 60_000);
    let first: wire::Call = responder.expect(Opcode::Call);
    assert!((59_000..=60_000).contains(&first.timeout_ms), "{}", first.timeout_ms);
    ask(&mut caller, 2, "q", b"second", 60_000);
    ask(&mut caller, 3, "q", b"third", 5);
    // The third one's time passes while all three are in the broker, so at least that much of the second one's has too.
    let error = refused(&mut caller, 3, "timeout");
    assert_eq!(error.details["handed"], "false", "it never reached a handler");
    answer(&mut responder, &first, b"1");
    let second: wire::Call = responder.expect(Opcode::Call);
    assert_eq!(second.payload, "second");
    assert!((1..=59_996).contains(&second.timeout_ms), "{}", second.timeout_ms);
    answer(&mut responder, &second, b"2");
    assert_eq!(outcome(&mut caller, 1).expect("a reply"), "1");
    assert_eq!(outcome(&mut caller, 2).expect("a reply"), "2");
}

#[test]
fn a_cancelled_call_is_answered_once_and_never_reaches_a_handler_any_more() {
    let broker = Broker::start(&[]);
    let (mut caller, mut responder) = (Raw::hello(broker.address), Raw::hello(broker.address));
    serve(&mut responder, 1, "q", 1);
    ask(&mut caller, 1, "q", b"first", 60_000);
    let first: wire::Call = responder.expect(Opcode::Call);
    ask(&mut caller, 2, "q", b"second", 60_000);
    ask(&mut caller, 3, "q", b"third", 60_000);
    caller.send(Opcode::Cancel, None, &wire::Cancel { request_id: 2 });
    refused(&mut caller, 2, "cancelled");
    answer(&mut responder, &first, b"1");
    assert_eq!(outcome(&mut caller, 1).expect("a reply"), "1");
    // Too late: there is nothing to cancel any more, and so nothing to say.
    caller.send(Opcode::Cancel, None, &wire::Cancel { request_id: 1 });
    let third: wire::Call = responder.expect(Opcode::Call);
    assert_eq!(third.payload, "third");
    answer(&mut responder, &third, b"3");
    assert_eq!(outcome(&mut caller, 3).expect("a reply"), "3");
}

#[test]
fn requests_and_replies_are_held_to_the_contract() {
    let broker = Broker::start(&[]);
    register(&broker, "pricing.get_quote", &["--reply", "shop.v1.Quote"]);
    let (mut caller, mut responder) = (Raw::hello(broker.address), Raw::hello(broker.address));
    serve(&mut responder, 1, "pricing.get_quote", 4);
    let bad: &[u8] = b"\x08\x01";
    ask(&mut caller, 1, "pricing.get_quote", bad, 60_000);
    let error = refused(&mut caller, 1, "schema-violation");
    assert_eq!((error.details["path"].as_str(), error.details["side"].as_str()), ("article", "request"));

    ask(&mut caller, 2, "pricing.get_quote", REQUEST, 60_000);
    let call: wire::Call = responder.expect(Opcode::Call);
    assert_eq!((&call.payload[..], call.schema_version), (REQUEST, 1), "the bad one never came here");
    answer(&mut responder, &call, b"\x12\x01\xff");
    let error = refused(&mut caller, 2, "schema-violation");
    assert_eq!((error.details["path"].as_str(), error.details["side"].as_str()), ("note", "reply"));
    let error = responder.expect_error("schema-violation");
    assert_eq!(error.details["path"], "note");
    let call_id: String = call.call_id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(error.details["call"], call_id, "the responder learns which");

    ask(&mut caller, 3, "pricing.get_quote", REQUEST, 60_000);
    let call: wire::Call = responder.expect(Opcode::Call);
    answer(&mut responder, &call, QUOTE);
    assert_eq!(&outcome(&mut caller, 3).expect("a reply")[..], QUOTE);

    // A responder's own refusal is passed on as it is.
    ask(&mut caller, 4, "pricing.get_quote", REQUEST, 60_000);
    let call: wire::Call = responder.expect(Opcode::Call);
    let error = ErrorCode::InvalidArgument.with("no such article").detail("article", "A-1");
    let response = wire::CallResponse { call_id: call.call_id, error: Some(error.clone()), ..wire::CallResponse::default() };
    responder.send(Opcode::CallResponse, None, &response);
    let frame = caller.next().expect("open");
    assert_eq!(frame.request_id, Some(4));
    assert_eq!(wire::CallResponse::decode(frame.payload).expect("a CALL_RESPONSE").error, Some(error));
}

#[test]
fn a_contract_without_a_reply_type_cannot_be_called() {
    let broker = Broker::start(&[]);
    register(&broker, "orders", &[]);
    let mut raw = Raw::hello(broker.address);
    ask(&mut raw, 1, "orders", REQUEST, 60_000);
    let error = refused(&mut raw, 1, "reply-type-missing");
    assert!(error.message.contains("--reply"), "{}", error.message);
    raw.send(Opcode::Consume, None, &consume_serve(3, "orders", 1));
    let error = raw.expect_error("reply-type-missing");
    assert_eq!(error.subscription, Some(3));
}

#[test]
fn strict_mode_wants_a_contract_from_callers_and_responders_and_works_with_one() {
    let broker = Broker::start(&["--schema-mode", "strict"]);
    let (mut caller, mut responder) = (Raw::hello(broker.address), Raw::hello(broker.address));
    ask(&mut caller, 1, "untyped", b"x", 60_000);
    refused(&mut caller, 1, "contract-required");
    responder.send(Opcode::Consume, None, &consume_serve(1, "untyped", 1));
    responder.expect_error("contract-required");
    register(&broker, "pricing.get_quote", &["--reply", "shop.v1.Quote"]);
    serve(&mut responder, 1, "pricing.get_quote", 1);
    ask(&mut caller, 2, "pricing.get_quote", REQUEST, 60_000);
    let call: wire::Call = responder.expect(Opcode::Call);
    answer(&mut responder, &call, QUOTE);
    assert_eq!(&outcome(&mut caller, 2).expect("a reply")[..], QUOTE);
    // Field 3 of a Quote is unknown.
    ask(&mut caller, 3, "pricing.get_quote", REQUEST, 60_000);
    let call: wire::Call = responder.expect(Opcode::Call);
    answer(&mut responder, &call, b"\x18\x01");
    assert_eq!(refused(&mut caller, 3, "schema-violation").details["path"], "3");
    let unknown = wire::Call { contract: vec![9; 32].into(), queue: "pricing.get_quote".to_owned(), ..wire::Call::default() };
    caller.send(Opcode::Call, Some(4), &unknown);
    refused(&mut caller, 4, "contract-unknown");
}

#[test]
fn a_call_goes_to_a_responder_and_never_to_a_consumer() {
    let broker = Broker::start(&[]);
    let (mut caller, mut both) = (Raw::hello(broker.address), Raw::hello(broker.address));
    both.send(Opcode::Consume, None, &wire::Consume { queue: "q".to_owned(), subscription: 1, ..wire::Consume::default() });
    let _: wire::ConsumeAck = both.expect(Opcode::ConsumeAck);
    ask(&mut caller, 1, "q", b"x", 60_000);
    refused(&mut caller, 1, "no-responders");
    // A connection's subscriptions share their numbers, whatever their roles.
    both.send(Opcode::Consume, None, &consume_serve(1, "q", 1));
    both.expect_error("subscription-exists");
    serve(&mut both, 2, "q", 1);
    for role in [wire::Role::Serve, wire::Role::Consume] {
        both.send(Opcode::Consume, None, &wire::Consume { role: role as i32, ..consume_serve(2, "q", 1) });
        both.expect_error("subscription-exists");
    }
    ask(&mut caller, 2, "q", b"x", 60_000);
    let call: wire::Call = both.expect(Opcode::Call);
    assert_eq!(call.subscription, 2);
    answer(&mut both, &call, b"y");
    assert_eq!(outcome(&mut caller, 2).expect("a reply"), "y");
    assert_eq!(broker.metric("qwerq_queue_depth{queue=\"q\"}"), 0.0);
}

#[test]
fn credit_pauses_a_responder_and_unsubscribing_ends_it() {
    let broker = Broker::start(&[]);
    let (mut caller, mut responder) = (Raw::hello(broker.address), Raw::hello(broker.address));
    serve(&mut responder, 1, "q", 1);
    let credit = |prefetch| wire::Credit { subscription: 1, prefetch, ..wire::Credit::default() };
    responder.send(Opcode::Credit, None, &credit(0));
    // The answer to this says that the credit is known.
    responder.send(Opcode::QueueList, None, &wire::QueueList::default());
    let _: wire::QueueListResponse = responder.expect(Opcode::QueueListResponse);
    ask(&mut caller, 1, "q", b"1", 60_000);
    ask(&mut caller, 2, "q", b"2", 60_000);
    responder.send(Opcode::Credit, None, &credit(2));
    let first: wire::Call = responder.expect(Opcode::Call);
    let second: wire::Call = responder.expect(Opcode::Call);
    // Kept calls can still be replied to; nothing new comes.
    responder.send(Opcode::Unsubscribe, None, &wire::Unsubscribe { subscription: 1, keep_leases: true });
    let _: wire::SubscriptionEnded = responder.expect(Opcode::SubscriptionEnded);
    ask(&mut caller, 3, "q", b"3", 60_000);
    refused(&mut caller, 3, "no-responders");
    answer(&mut responder, &first, b"one");
    assert_eq!(outcome(&mut caller, 1).expect("a reply"), "one");
    // The number is free again; what is given up with the subscription is lost.
    serve(&mut responder, 1, "q", 1);
    ask(&mut caller, 4, "q", b"4", 60_000);
    let _: wire::Call = responder.expect(Opcode::Call);
    responder.send(Opcode::Unsubscribe, None, &wire::Unsubscribe { subscription: 1, keep_leases: false });
    let _: wire::SubscriptionEnded = responder.expect(Opcode::SubscriptionEnded);
    refused(&mut caller, 4, "responder-lost");
    answer(&mut responder, &second, b"two");
    assert_eq!(outcome(&mut caller, 2).expect("a reply"), "two");
    responder.send(Opcode::Unsubscribe, None, &wire::Unsubscribe { subscription: 1, keep_leases: false });
    responder.expect_error("unknown-subscription");
}

#[test]
fn a_call_must_be_correlated() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.send(Opcode::Call, None, &wire::Call { queue: "q".to_owned(), ..wire::Call::default() });
    raw.expect_error("correlation-required");
    assert!(raw.next().is_none(), "the connection closes");
}

#[test]
fn a_call_in_flight_is_finished_while_the_broker_drains() {
    let mut broker = Broker::start(&[]);
    let (mut caller, mut responder) = (Raw::hello(broker.address), Raw::hello(broker.address));
    serve(&mut responder, 1, "q", 2);
    ask(&mut caller, 1, "q", b"x", 60_000);
    ask(&mut caller, 2, "q", b"never", 60_000);
    let call: wire::Call = responder.expect(Opcode::Call);
    let _: wire::Call = responder.expect(Opcode::Call);
    let stopping = std::thread::spawn(move || broker.terminate());
    let _: wire::GoAway = responder.expect(Opcode::GoAway);
    let _: wire::GoAway = caller.expect(Opcode::GoAway);
    ask(&mut caller, 3, "q", b"too late", 60_000);
    refused(&mut caller, 3, "draining");
    answer(&mut responder, &call, b"y");
    assert_eq!(outcome(&mut caller, 1).expect("a reply"), "y");
    let name = outcome(&mut caller, 2).expect_err("nobody replies").name;
    assert!(name == "draining" || name == "responder-lost", "{name}");
    assert!(caller.next().is_none());
    assert!(stopping.join().expect("joined").success());
}

#[test]
fn a_service_becomes_one_queue_for_each_rpc() {
    let broker = Broker::start(&["--schema-mode", "strict"]);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pricing.proto");
    let register = |services: &str, flags: &[&str]| {
        std::fs::write(&path, format!("{PRICING}\n{services}")).expect("written");
        broker.run(&[&["schema", "register", "-p", &path.display().to_string()], flags].concat())
    };
    let pricing = "service Pricing { rpc GetQuote (QuoteRequest) returns (Quote); rpc Explain (Quote) returns (QuoteRequest); }";
    let flags = ["--service", "shop.v1.Pricing"];
    for _ in 0..2 {
        let output = register(pricing, &flags);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let output = register(pricing, &[&flags[..], &["-q", "eu"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list = String::from_utf8(broker.run(&["schema", "list", "--json"]).stdout).expect("JSON");
    let mut found: Vec<(String, String, String)> = list
        .lines()
        .map(|line| {
            let version: Value = serde_json::from_str(line).expect("an object a line");
            let text = |key: &str| version[key].as_str().expect("text").to_owned();
            (text("queue"), text("message_type"), text("reply_type"))
        })
        .collect();
    found.sort();
    let row = |queue: &str, request: &str, reply: &str| (queue.to_owned(), format!("shop.v1.{request}"), format!("shop.v1.{reply}"));
    let expected = [
        row("eu.explain", "Quote", "QuoteRequest"),
        row("eu.get_quote", "QuoteRequest", "Quote"),
        row("pricing.explain", "Quote", "QuoteRequest"),
        row("pricing.get_quote", "QuoteRequest", "Quote"),
    ];
    assert_eq!(found, expected);
    let output = register(
        "service Feed { rpc Get (QuoteRequest) returns (Quote); rpc Watch (QuoteRequest) returns (stream Quote); }",
        &["--service", "shop.v1.Feed"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Watch"));
    assert!(!queues(&broker).contains("feed"), "all of a service or nothing of it");
    assert_eq!(register(pricing, &["-q", "half"]).status.code(), Some(2), "a message or a service must be named");
}

#[test]
fn the_command_line_calls_and_prints_the_reply() {
    let broker = Broker::start(&[]);
    register(&broker, "pricing.get_quote", &["--reply", "shop.v1.Quote"]);
    let mut responder = Raw::hello(broker.address);
    serve(&mut responder, 1, "pricing.get_quote", 4);
    serve(&mut responder, 2, "echo", 4);
    let serving = std::thread::spawn(move || {
        // Until the test's last call, which nobody answers.
        loop {
            let call: wire::Call = responder.expect(Opcode::Call);
            match (call.subscription, &call.payload[..]) {
                (1, payload) => {
                    assert_eq!(payload, REQUEST);
                    answer(&mut responder, &call, QUOTE);
                }
                (_, b"silence") => return responder,
                (_, payload) => answer(&mut responder, &call, payload),
            }
        }
    });
    let article = ["call", "-q", "pricing.get_quote", "--body", "{\"article\": \"A-1\"}"];
    let output = broker.run(&article);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"cents\":\"1000\"}\n", "{}", String::from_utf8_lossy(&output.stderr));
    let output = broker.run(&[&article[..], &["--json", "--timeout", "20s"]].concat());
    let object: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(object, serde_json::json!({"body": {"cents": "1000"}, "headers": {}, "schema_version": 1}));
    let output = broker.run(&["call", "-q", "echo", "--body", "hello"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n");
    let output = broker.run(&["call", "-q", "echo", "--hex", "ff00", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(object["payload_base64"], "/wA=");

    for (args, code, says) in [
        (&["call", "-q", "pricing.get_quote", "--body", "{\"art\": 1}"][..], 1, "art"),
        (&["call", "-q", "nobody", "--body", "x"], 1, "no-responders"),
        (&["call", "-q", "echo", "--body", "x", "--timeout", "0"], 2, "no time"),
        (&["call", "-q", "echo", "--body", "x", "--broker", "127.0.0.1:1"], 3, "cannot reach"),
        (&["call", "-q", "echo", "--body", "silence", "--timeout", "50ms"], 1, "timeout"),
    ] {
        let output = broker.run(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(says), "{args:?}: {errors}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    drop(serving.join().expect("the responder served"));
}
