//! Publishing against a scripted broker: what goes into which frame, what waits for what, what each caller gets back.

mod support;

use std::time::{Duration, UNIX_EPOCH};

use qwerq::proto::{ErrorCode, Opcode, wire};
use qwerq::{Client, Contract, Durability, Error, Message, MessageId, PublishOptions};
use support::{broker, connect, connected, hello_ack, message, payloads, publish_ack, refused, settle_down, stored};

#[tokio::test]
async fn publishes_that_wait_together_share_a_frame() {
    let (client, mut peer, _broker) = connected().await;
    let orders = client.publisher("orders");
    let mut receipts = Vec::new();
    for text in ["a", "b", "c"] {
        receipts.push(orders.submit(message(text)).await.unwrap());
    }
    let (id, publish) = peer.publish().await;
    assert_eq!((publish.queue.as_str(), payloads(&publish)), ("orders", vec!["a", "b", "c"]));
    assert!(!publish.atomic && publish.contract.is_empty());
    peer.publish_ack(id, 7, 3).await;
    for (receipt, seq) in receipts.into_iter().zip(7..) {
        let published = receipt.await.unwrap();
        assert_eq!((published.seq, published.durability), (Some(seq), Durability::Fsync));
        assert!(!published.duplicate && published.dead_lettered.is_none());
    }
}

#[tokio::test]
async fn a_frame_holds_256_messages_and_queues_do_not_mix() {
    let (client, mut peer, _broker) = connected().await;
    let many = client.publisher("many").submit_many((0..600).map(|i| message(&i.to_string()))).await;
    let other = client.submit("other", message("x")).await.unwrap();
    let mut sizes = Vec::new();
    let mut next = 0;
    for _ in 0..4 {
        let (id, publish) = peer.publish().await;
        sizes.push((publish.queue.clone(), publish.items.len()));
        if publish.queue == "many" {
            for text in payloads(&publish) {
                assert_eq!(text, next.to_string());
                next += 1;
            }
        }
        peer.publish_ack(id, next, publish.items.len()).await;
    }
    sizes.sort();
    let expected = [("many", 88), ("many", 256), ("many", 256), ("other", 1)];
    assert!(sizes.iter().map(|(queue, n)| (queue.as_str(), *n)).eq(expected));
    assert!(other.await.is_ok());
    let results = many.await;
    assert_eq!(results.len(), 600);
    assert!(results.iter().all(Result::is_ok));
}

#[tokio::test]
async fn everything_about_a_message_reaches_the_wire() {
    let (client, mut peer, _broker) = connected().await;
    let full = message("payload")
        .header("traceparent", "00-1")
        .header("tenant", "7")
        .ordering_key("customer-1")
        .idempotency_key("order-1")
        .delay(Duration::from_micros(1500))
        .deliver_at(UNIX_EPOCH + Duration::from_secs(9))
        .ttl(Duration::from_secs(60))
        .id(MessageId(*b"0123456789abcdef"));
    let _receipt = client.publisher_under("q", Some([9; 32])).submit(full).await.unwrap();
    let (_, publish) = peer.publish().await;
    assert_eq!(&publish.contract[..], [9; 32]);
    let header = |name: &str, value: &str| wire::Header { name: name.into(), value: value.into() };
    let expected = wire::PublishItem {
        payload: "payload".into(),
        headers: vec![header("traceparent", "00-1"), header("tenant", "7")],
        ordering_key: "customer-1".into(),
        idempotency_key: "order-1".into(),
        delay_ms: Some(2),
        deliver_at_ms: Some(9000),
        ttl_ms: Some(60_000),
        id: "0123456789abcdef".into(),
    };
    assert_eq!(publish.items, [expected]);
}

#[tokio::test]
async fn every_field_of_a_result_reaches_the_caller() {
    let (client, mut peer, _broker) = connected().await;
    let batch = client.publisher("q").submit_many(["a", "b", "c", "d"].map(message)).await;
    let (id, _) = peer.publish().await;
    let violation = || ErrorCode::SchemaViolation.with("no").detail("path", "a.b").detail("offset", 3);
    let results = vec![
        wire::PublishResult { schema_version: 4, duplicate: true, ..stored(1) },
        wire::PublishResult { seq: None, ..stored(2) },
        refused(violation()),
        wire::PublishResult { dead_lettered: true, error: Some(violation()), ..stored(3) },
    ];
    let ack = wire::PublishAck { contract_unknown: true, durability: wire::Durability::None.into(), results };
    peer.send(Opcode::PublishAck, id, &ack).await;

    let results = batch.await;
    let first = results[0].as_ref().unwrap();
    assert_eq!((first.seq, first.schema_version, first.duplicate), (Some(1), 4, true));
    assert_eq!((first.contract_unknown, first.durability), (true, Durability::None));
    assert_eq!(first.id, MessageId(1_u128.to_be_bytes()));
    assert_eq!(results[1].as_ref().unwrap().seq, None);
    let error = results[2].as_ref().unwrap_err();
    assert!(matches!(error, Error::Refused(_)));
    assert_eq!((error.code(), error.path(), error.offset()), (Some(ErrorCode::SchemaViolation), Some("a.b"), Some(3)));
    let dead = results[3].as_ref().unwrap();
    assert_eq!(dead.dead_lettered.as_ref().unwrap().path(), Some("a.b"));
}

#[tokio::test(start_paused = true)]
async fn a_full_window_holds_publishers_back() {
    let (dial, broker) = broker();
    let (client, mut peer, _broker) = connect(Client::builder("test").dial(dial).publish_window(2), broker).await;
    let q = client.publisher("q");
    let first = q.submit(message("1")).await.unwrap();
    let second = q.submit(message("2")).await.unwrap();
    assert_eq!(q.try_submit(message("3")).unwrap().unwrap_err().payload, "3");
    let third = tokio::spawn({
        let q = q.clone();
        async move { q.publish(message("3")).await }
    });
    let (id, publish) = peer.publish().await;
    assert_eq!(payloads(&publish), ["1", "2"]);
    settle_down().await;
    assert!(!third.is_finished());
    peer.publish_ack(id, 0, 2).await;
    let (id, publish) = peer.publish().await;
    assert_eq!(payloads(&publish), ["3"]);
    peer.publish_ack(id, 2, 1).await;
    assert_eq!(third.await.unwrap().unwrap().seq, Some(2));
    assert!(first.await.is_ok() && second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_window_counts_bytes_and_one_message_may_fill_it() {
    let (dial, broker) = broker();
    let builder = Client::builder("test").dial(dial).publish_window_bytes(10);
    let (client, mut peer, _broker) = connect(builder, broker).await;
    let q = client.publisher("q");
    let batch = tokio::spawn({
        let q = q.clone();
        async move { q.publish_batch(["0123456789abc", "01234", "56789", "x"].map(message)).await }
    });
    for expected in [&["0123456789abc"][..], &["01234", "56789"], &["x"]] {
        let (id, publish) = peer.publish().await;
        assert_eq!(payloads(&publish), expected);
        settle_down().await;
        peer.publish_ack(id, 0, expected.len()).await;
    }
    assert!(batch.await.unwrap().iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn the_brokers_window_is_kept_too() {
    let (dial, mut broker) = broker();
    let ack = wire::HelloAck { publish_window_requests: 1, ..hello_ack() };
    let (client, mut peer) = tokio::join!(Client::builder("test").dial(dial).connect(), broker.accept_with(ack));
    let client = client.unwrap();
    let a = client.submit("a", message("1")).await.unwrap();
    let (id, _) = peer.publish().await;
    let b = client.submit("b", message("2")).await.unwrap();
    let info = tokio::spawn({
        let client = client.clone();
        async move { client.queue_info("a").await }
    });
    // A request overtakes the publish that has to wait.
    let (info_id, _) = peer.expect::<wire::QueueName>(Opcode::QueueInfo).await;
    peer.publish_ack(id, 0, 1).await;
    let (id, publish) = peer.publish().await;
    assert_eq!(publish.queue, "b");
    peer.publish_ack(id, 0, 1).await;
    peer.send(Opcode::QueueInfoResponse, info_id, &wire::QueueInfo::default()).await;
    assert!(a.await.is_ok() && b.await.is_ok() && info.await.unwrap().is_ok());
}

#[tokio::test]
async fn replies_may_come_out_of_order() {
    let (client, mut peer, _broker) = connected().await;
    let a = client.submit("a", message("1")).await.unwrap();
    let (a_id, _) = peer.publish().await;
    let b = client.submit("b", message("2")).await.unwrap();
    let (b_id, _) = peer.publish().await;
    peer.publish_ack(b_id, 20, 1).await;
    assert_eq!(b.await.unwrap().seq, Some(20));
    peer.publish_ack(a_id, 10, 1).await;
    assert_eq!(a.await.unwrap().seq, Some(10));
}

#[tokio::test]
async fn an_error_frame_fails_every_message_of_its_frame() {
    let (client, mut peer, _broker) = connected().await;
    let batch = client.publisher("q").submit_many(["a", "b"].map(message)).await;
    let (id, _) = peer.publish().await;
    peer.error(id, ErrorCode::ContractRequired.with("strict")).await;
    let results = batch.await;
    let codes = results.iter().map(|result| result.as_ref().unwrap_err().code());
    assert!(codes.eq([Some(ErrorCode::ContractRequired); 2]));
    // The connection is fine.
    let next = client.submit("q", message("c")).await.unwrap();
    let (id, _) = peer.publish().await;
    peer.publish_ack(id, 0, 1).await;
    assert!(next.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn overloaded_is_tried_again_when_the_broker_says() {
    let (client, mut peer, _broker) = connected().await;
    let batch = client.publisher("q").submit_many(["a", "b", "c"].map(message)).await;
    let overloaded = || ErrorCode::Overloaded.with("busy").retry_after_ms(200);
    // The whole frame.
    let (id, _) = peer.publish().await;
    let began = tokio::time::Instant::now();
    peer.error(id, overloaded()).await;
    let (id, publish) = peer.publish().await;
    assert_eq!(payloads(&publish), ["a", "b", "c"]);
    assert!((200..300).contains(&began.elapsed().as_millis()));
    // One of its messages.
    let results = vec![stored(1), refused(overloaded()), stored(2)];
    peer.send(Opcode::PublishAck, id, &publish_ack(results)).await;
    let (id, publish) = peer.publish().await;
    assert_eq!(payloads(&publish), ["b"]);
    peer.publish_ack(id, 3, 1).await;
    let seqs: Vec<_> = batch.await.into_iter().map(|result| result.unwrap().seq).collect();
    assert_eq!(seqs, [Some(1), Some(3), Some(2)]);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_stays_overloaded_is_reported() {
    let (client, mut peer, _broker) = connected().await;
    let publish = tokio::spawn(async move { client.publish("q", message("a")).await });
    let mut tries = 0;
    while let Some(frame) = peer.frame().await {
        if frame.opcode != Opcode::Publish as u8 {
            break;
        }
        tries += 1;
        peer.error(frame.request_id, ErrorCode::Overloaded.with("busy")).await;
    }
    let error = publish.await.unwrap().unwrap_err();
    assert_eq!((tries, error.code(), error.is_retryable()), (11, Some(ErrorCode::Overloaded), true));
}

#[tokio::test]
async fn an_atomic_batch_is_a_frame_of_its_own() {
    let (dial, broker) = broker();
    // Larger than the window, which it then fills.
    let (client, mut peer, _broker) = connect(Client::builder("test").dial(dial).publish_window(2), broker).await;
    let q = client.publisher("q");
    let before = q.submit(message("0")).await.unwrap();
    let (id, publish) = peer.publish().await;
    assert!(!publish.atomic);
    peer.publish_ack(id, 0, 1).await;
    before.await.unwrap();

    let (results, ()) = tokio::join!(q.publish_atomic(["a", "b", "c"].map(message)), async {
        let (id, publish) = peer.publish().await;
        assert_eq!((publish.atomic, payloads(&publish)), (true, vec!["a", "b", "c"]));
        peer.publish_ack(id, 1, 3).await;
    });
    assert_eq!(results.unwrap().len(), 3);

    let (results, ()) = tokio::join!(q.publish_atomic(["a", "b"].map(message)), async {
        let (id, _) = peer.publish().await;
        let bad = || refused(ErrorCode::SchemaViolation.with("b is bad"));
        let results = vec![refused(ErrorCode::AtomicRefused.with("because of b")), bad()];
        peer.send(Opcode::PublishAck, id, &publish_ack(results)).await;
    });
    assert_eq!(results.unwrap_err().code(), Some(ErrorCode::SchemaViolation));
    assert!(q.publish_atomic([]).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_no_frame_can_carry_fails_alone_and_at_once() {
    let (client, mut peer, _broker) = connected().await;
    let huge = Message::new(vec![0; 16 * 1024 * 1024]);
    let error = client.publish("q", huge.clone()).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::MessageTooLarge));
    let batch = client.publisher("q").submit_many([message("a"), huge.clone(), message("b")]).await;
    let (id, first) = peer.publish().await;
    peer.publish_ack(id, 0, first.items.len()).await;
    if first.items.len() == 1 {
        let (id, _) = peer.publish().await;
        peer.publish_ack(id, 1, 1).await;
    }
    assert!(matches!(&batch.await[..], [Ok(_), Err(_), Ok(_)]));
    assert!(client.publish_atomic("q", [huge]).await.is_err());
}

#[tokio::test]
async fn an_acknowledgement_of_the_wrong_length_ends_the_connection() {
    let (client, mut peer, mut broker) = connected().await;
    let batch = client.publisher("q").submit_many(["a", "b"].map(message)).await;
    let (id, _) = peer.publish().await;
    peer.publish_ack(id, 0, 1).await;
    peer.expect_end().await;
    assert!(batch.await.iter().all(|result| matches!(result, Err(Error::Disconnected { maybe_stored: true }))));
    broker.accept().await;
}

struct Orders;

impl Contract for Orders {
    const QUEUE: &'static str = "orders.created";
    const MESSAGE_TYPE: &'static str = "qwerq.v1.Header";
    const FINGERPRINT: [u8; 32] = [7; 32];
    const VERSION: u32 = 3;
    type Message = wire::Header;
}

#[tokio::test]
async fn a_typed_queue_publishes_under_its_contract() {
    let (client, mut peer, _broker) = connected().await;
    let orders: qwerq::Queue<wire::Header> = client.queue::<Orders>();
    let order = wire::Header { name: "n".into(), value: "v".into() };
    let options = PublishOptions::new().ordering_key("k");
    let (published, ()) = tokio::join!(orders.publish_with(&order, options), async {
        let (id, publish) = peer.publish().await;
        assert_eq!((publish.queue.as_str(), &publish.contract[..]), ("orders.created", &[7; 32][..]));
        assert_eq!(publish.items[0].payload, support::bytes_of(&order));
        assert_eq!(publish.items[0].ordering_key, "k");
        peer.publish_ack(id, 0, 1).await;
    });
    published.unwrap();
}
