//! The life of a connection against a scripted broker: HELLO, heartbeats, loss and return, GOAWAY, graceful close.

mod support;

use std::time::Duration;

use qwerq::proto::{ErrorCode, MAX_FRAME_BYTES, Opcode, wire};
use qwerq::{Client, ConsumeOptions, Dial, Error, Reconnect};
use support::{Peer, broker, broker_with, connect, connected, delivered, hello_ack, message, payloads, settle_down};
use tokio::time::Instant;

#[tokio::test]
async fn hello_says_who_is_there() {
    let (dial, mut broker) = broker();
    let builder = Client::builder("test").dial(dial).token("secret").name("billing").version("1.2");
    let (client, (address, hello)) = tokio::join!(builder.connect(), async {
        let (address, mut peer) = broker.arrival().await;
        (address, peer.hello(hello_ack()).await)
    });
    client.unwrap();
    assert_eq!(address, "test");
    assert_eq!((hello.min_protocol, hello.max_protocol), (1, 1));
    assert_eq!((hello.token.as_str(), hello.client_name.as_str(), hello.client_version.as_str()), ("secret", "billing", "1.2"));
}

#[tokio::test]
async fn a_refused_or_senseless_hello_is_reported() {
    let refused = ErrorCode::Unauthorized.with("the token is wrong");
    let version = ErrorCode::VersionUnsupported.with("this broker speaks 7 to 9");
    let draining = ErrorCode::Draining.with("going down");
    let cases = [(refused, "refused"), (version, "protocol"), (draining, "connect")];
    for (error, expected) in cases {
        let (dial, mut broker) = broker();
        let (client, ()) = tokio::join!(Client::builder("test").dial(dial).connect(), async {
            let (_, mut peer) = broker.arrival().await;
            peer.expect::<wire::Hello>(Opcode::Hello).await;
            peer.error(None, error.clone()).await;
        });
        let kind = match client.unwrap_err() {
            Error::Refused(_) => "refused",
            Error::Protocol(_) => "protocol",
            Error::Connect(_) => "connect",
            other => panic!("{other}"),
        };
        assert_eq!(kind, expected, "{}", error.name);
    }

    let (dial, mut broker) = broker();
    let (client, _peer) =
        tokio::join!(Client::builder("test").dial(dial).connect(), broker.accept_with(wire::HelloAck { protocol: 9, ..hello_ack() }));
    assert!(matches!(client.unwrap_err(), Error::Protocol(_)));
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_reported_with_what_was_tried() {
    let nobody = Dial::new(|address: String| async move {
        let kind = if address == "b:2" { std::io::ErrorKind::TimedOut } else { std::io::ErrorKind::ConnectionRefused };
        Err::<tokio::io::DuplexStream, _>(std::io::Error::from(kind))
    });
    let error = Client::builder("a:1").address("b:2").dial(nobody).connect().await.unwrap_err();
    let text = error.to_string();
    for part in ["a:1: connection refused", "b:2: timed out", "is it running"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn the_next_address_is_tried_and_the_token_is_not_printed() {
    let (dial, mut broker) = broker();
    let dial = Dial::new(move |address: String| {
        let dial = dial.clone();
        async move {
            if address == "a:1" {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
            }
            dial.open(&address).await
        }
    });
    let builder = Client::builder("a:1").address("b:2").dial(dial).token("hush");
    assert!(!format!("{builder:?}").contains("hush"));
    let (client, address) = tokio::join!(builder.connect(), async {
        let (address, mut peer) = broker.arrival().await;
        peer.hello(hello_ack()).await;
        address
    });
    assert_eq!(address, "b:2");
    assert!(!format!("{:?}", client.unwrap()).contains("hush"));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_answer_hello_times_out() {
    let (dial, mut broker) = broker();
    let began = Instant::now();
    let (client, _peer) = tokio::join!(Client::builder("test").dial(dial).connect(), broker.arrival());
    assert!(matches!(client.unwrap_err(), Error::Connect(_)));
    assert_eq!(began.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_sends_heartbeats_and_a_silent_broker_is_left() {
    let (_client, mut peer, mut broker) = connected().await;
    let began = Instant::now();
    let beat = peer.any_frame().await.unwrap();
    assert_eq!((beat.opcode, began.elapsed().as_secs()), (Opcode::Heartbeat as u8, 10));
    // A word from the broker, and all is well for another 20 s.
    peer.send(Opcode::Heartbeat, None, &wire::Heartbeat {}).await;
    peer.drain().await;
    assert_eq!(began.elapsed().as_secs(), 30);
    broker.accept().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_publish_is_reported_unless_it_is_keyed() {
    let (client, mut peer, mut broker) = connected().await;
    let q = client.publisher("q");
    let plain = q.submit(message("plain")).await.unwrap();
    let keyed = q.submit(message("keyed").idempotency_key("k")).await.unwrap();
    let other = q.submit(message("other")).await.unwrap();
    peer.publish().await;
    drop(peer);
    let mut peer = broker.accept().await;
    let (id, publish) = peer.publish().await;
    assert_eq!(payloads(&publish), ["keyed"]);
    peer.publish_ack(id, 5, 1).await;
    assert!(matches!(plain.await, Err(Error::Disconnected { maybe_stored: true })));
    assert!(matches!(other.await, Err(Error::Disconnected { maybe_stored: true })));
    assert_eq!(keyed.await.unwrap().seq, Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_publish_that_was_never_written_goes_out_on_the_next_connection_in_order() {
    let (dial, broker) = broker_with(64);
    let (client, peer, mut broker) = connect(Client::builder("test").dial(dial), broker).await;
    // The first frame is larger than the stream holds, so that its end never leaves the client.
    let large = "x".repeat(100);
    let first = client.submit("q", message(&large)).await.unwrap();
    settle_down().await;
    let second = client.submit("q", message("2")).await.unwrap();
    settle_down().await;
    drop(peer);
    let mut peer = broker.accept().await;
    for expected in [large.as_str(), "2"] {
        let (id, publish) = peer.publish().await;
        assert_eq!(payloads(&publish), [expected]);
        peer.publish_ack(id, 0, 1).await;
    }
    assert!(first.await.is_ok() && second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_atomic_batch_is_retried_as_a_whole_or_not_at_all() {
    let (client, peer, mut broker) = connected().await;
    let q = client.publisher("q");
    let publish = |keys: [Option<&'static str>; 2]| {
        let q = q.clone();
        tokio::spawn(async move {
            let messages = keys.map(|key| key.map_or(message("m"), |key| message("m").idempotency_key(key)));
            q.publish_atomic(messages).await
        })
    };
    let (half, whole) = (publish([Some("a"), None]), publish([Some("b"), Some("c")]));
    let mut peer = peer;
    peer.publish().await;
    peer.publish().await;
    drop(peer);
    let mut peer = broker.accept().await;
    let (id, again) = peer.publish().await;
    let keys: Vec<&str> = again.items.iter().map(|item| item.idempotency_key.as_str()).collect();
    assert_eq!((again.atomic, keys), (true, vec!["b", "c"]));
    peer.publish_ack(id, 0, 2).await;
    assert!(matches!(half.await.unwrap(), Err(Error::Disconnected { maybe_stored: true })));
    assert_eq!(whole.await.unwrap().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn requests_that_change_nothing_twice_are_repeated_and_others_are_reported() {
    let (client, mut peer, mut broker) = connected().await;
    let (reader, writer) = (client.clone(), client.clone());
    let info = tokio::spawn(async move { reader.queue_info("q").await });
    peer.expect::<wire::QueueName>(Opcode::QueueInfo).await;
    let purge = tokio::spawn(async move { writer.purge_queue("q").await });
    peer.expect::<wire::QueueName>(Opcode::QueuePurge).await;
    drop(peer);
    let mut peer = broker.accept().await;
    let (id, _) = peer.expect::<wire::QueueName>(Opcode::QueueInfo).await;
    peer.send(Opcode::QueueInfoResponse, id, &wire::QueueInfo { depth: 3, ..Default::default() }).await;
    assert_eq!(info.await.unwrap().unwrap().depth, 3);
    assert!(matches!(purge.await.unwrap(), Err(Error::Disconnected { maybe_stored: true })));
}

#[tokio::test(start_paused = true)]
async fn subscriptions_come_back_and_leases_do_not() {
    let (client, mut peer, mut broker) = connected().await;
    let (named, consume) = tokio::join!(client.consume("q", ConsumeOptions::new().group("g")), peer.consume_ack());
    let mut named = named.unwrap();
    let (reader, reading) = tokio::join!(client.consume("s", ConsumeOptions::new()), peer.consume_ack());
    let mut reader = reader.unwrap();
    peer.deliver(consume.subscription, [1, 2]).await;
    peer.deliver(reading.subscription, [40, 41]).await;
    let held = named.next().await.unwrap().unwrap();
    reader.next().await.unwrap().unwrap().ack().unwrap();
    settle_down().await;
    drop(peer);

    let mut peer = broker.accept().await;
    let again = peer.consume_ack().await;
    assert_eq!(again, consume);
    let reading_again = peer.consume_ack().await;
    // A reader without a group goes on where it was.
    let position = wire::StartAt { at: Some(wire::start_at::At::Offset(42)) };
    assert_eq!(reading_again, wire::Consume { start_at: Some(position), ..reading });
    assert!(held.is_stale());
    assert_eq!(held.ack().unwrap_err().code(), Some(ErrorCode::StaleLease));
    // The second delivery of the lost connection has vanished.
    peer.deliver(consume.subscription, [7]).await;
    let delivery = named.next().await.unwrap().unwrap();
    assert_eq!(delivery.seq, 7);
    delivery.ack().unwrap();
    peer.expect::<wire::Settle>(Opcode::Ack).await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_without_leases_loses_nothing_with_its_connection() {
    let (client, mut peer, mut broker) = connected().await;
    let (reader, reading) = tokio::join!(client.consume("s", ConsumeOptions::new()), peer.consume_ack());
    let mut reader = reader.unwrap();
    let leaseless = |seq| wire::Delivered { lease_id: qwerq::Bytes::new(), lease_ms: 0, ..delivered(seq) };
    peer.send(Opcode::Message, None, &wire::Deliver { subscription: reading.subscription, messages: vec![leaseless(0), leaseless(1)] })
        .await;
    settle_down().await;
    drop(peer);
    let mut peer = broker.accept().await;
    let again = peer.consume_ack().await;
    let position = wire::StartAt { at: Some(wire::start_at::At::Offset(2)) };
    assert_eq!(again.start_at, Some(position));
    peer.send(Opcode::Message, None, &wire::Deliver { subscription: again.subscription, messages: vec![leaseless(2)] }).await;
    for seq in 0..3 {
        let delivery = reader.next().await.unwrap().unwrap();
        assert_eq!(delivery.seq, seq);
        delivery.ack().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_ack_that_was_lost_says_so() {
    let (client, mut peer, _broker) = connected().await;
    let (subscription, consume) = tokio::join!(client.consume("q", ConsumeOptions::new()), peer.consume_ack());
    peer.deliver(consume.subscription, [1]).await;
    let delivery = subscription.unwrap().next().await.unwrap().unwrap();
    let ack = tokio::spawn(delivery.ack_confirmed());
    loop {
        let frame = peer.frame().await.unwrap();
        if frame.opcode == Opcode::Ack as u8 {
            break;
        }
    }
    drop(peer);
    assert!(matches!(ack.await.unwrap(), Err(Error::Disconnected { maybe_stored: true })));
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_refused_after_a_reconnect_ends_or_waits() {
    let (client, mut peer, mut broker) = connected().await;
    let (subscription, _) = tokio::join!(client.consume("q", ConsumeOptions::new()), peer.consume_ack());
    let mut subscription = subscription.unwrap();
    drop(peer);
    let mut peer = broker.accept().await;
    let (id, _) = peer.expect::<wire::Consume>(Opcode::Consume).await;
    peer.error(id, ErrorCode::StorageFull.with("not now")).await;
    let (id, _) = peer.expect::<wire::Consume>(Opcode::Consume).await;
    peer.error(id, ErrorCode::QueueNotFound.with("deleted")).await;
    let error = subscription.next().await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::QueueNotFound));
    assert!(subscription.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_client_out_of_patience_ends_everything() {
    let (dial, broker) = broker();
    let policy = Reconnect { attempts: Some(3), ..Reconnect::default() };
    let (client, mut peer, broker) = connect(Client::builder("test").dial(dial).reconnect(policy), broker).await;
    let (subscription, _) = tokio::join!(client.consume("q", ConsumeOptions::new()), peer.consume_ack());
    drop((peer, broker));
    let error = client.queue_info("q").await.unwrap_err();
    assert!(matches!(error, Error::Connect(_)), "{error}");
    let mut subscription = subscription.unwrap();
    assert!(matches!(subscription.next().await, Some(Err(Error::Connect(_)))));
    assert!(subscription.next().await.is_none());
    assert!(matches!(client.publish("q", message("m")).await, Err(Error::Closed)));
    assert!(matches!(client.queue_info("q").await, Err(Error::Closed)));
    assert!(client.close().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_after_a_reconnect_ends_the_client() {
    let (client, peer, mut broker) = connected().await;
    let receipt = client.submit("q", message("m").idempotency_key("k")).await.unwrap();
    drop(peer);
    let (_, mut peer) = broker.arrival().await;
    peer.expect::<wire::Hello>(Opcode::Hello).await;
    peer.error(None, ErrorCode::Unauthorized.with("changed")).await;
    assert_eq!(receipt.await.unwrap_err().code(), Some(ErrorCode::Unauthorized));
}

#[tokio::test(start_paused = true)]
async fn goaway_finishes_what_is_in_flight_and_leads_to_the_leader() {
    let (client, mut peer, mut broker) = connected().await;
    let first = client.submit("q", message("1")).await.unwrap();
    let (id, _) = peer.publish().await;
    peer.send(Opcode::GoAway, None, &wire::GoAway { reason: "drain".into(), leader: "leader:1".into() }).await;
    settle_down().await;
    let second = client.submit("q", message("2")).await.unwrap();
    settle_down().await;
    peer.publish_ack(id, 0, 1).await;
    peer.expect_end().await;
    assert!(first.await.is_ok());
    let (address, mut leader) = broker.arrival().await;
    assert_eq!(address, "leader:1");
    leader.hello(hello_ack()).await;
    let (id, publish) = leader.publish().await;
    assert_eq!(payloads(&publish), ["2"]);
    leader.publish_ack(id, 0, 1).await;
    assert!(second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn goaway_waits_a_while_for_leases_that_are_held() {
    let (client, mut peer, mut broker) = connected().await;
    let (subscription, consume) = tokio::join!(client.consume("q", ConsumeOptions::new()), peer.consume_ack());
    let mut subscription = subscription.unwrap();
    peer.deliver(consume.subscription, [1]).await;
    let held = subscription.next().await.unwrap().unwrap();
    let began = Instant::now();
    peer.send(Opcode::GoAway, None, &wire::GoAway::default()).await;
    settle_down().await;
    held.ack().unwrap();
    peer.expect::<wire::Settle>(Opcode::Ack).await;
    peer.expect_end().await;
    assert!(began.elapsed() < Duration::from_secs(1));
    let mut peer = broker.accept().await;
    peer.consume_ack().await;
    peer.deliver(consume.subscription, [2]).await;
    let _held = subscription.next().await.unwrap().unwrap();
    let began = Instant::now();
    peer.send(Opcode::GoAway, None, &wire::GoAway::default()).await;
    peer.drain().await;
    assert_eq!(began.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn close_sends_and_confirms_everything_first() {
    let (client, mut peer, _broker) = connected().await;
    let (subscription, consume) = tokio::join!(client.consume("q", ConsumeOptions::new()), peer.consume_ack());
    let mut subscription = subscription.unwrap();
    peer.deliver(consume.subscription, [1, 2]).await;
    subscription.next().await.unwrap().unwrap().ack().unwrap();
    let receipt = client.submit("q", message("last")).await.unwrap();
    let closing = tokio::spawn({
        let client = client.clone();
        async move { client.close().await }
    });
    peer.expect::<wire::Settle>(Opcode::Ack).await;
    let (id, _) = peer.publish().await;
    settle_down().await;
    assert!(!closing.is_finished());
    peer.publish_ack(id, 0, 1).await;
    let (id, nothing) = peer.expect::<wire::Settle>(Opcode::Ack).await;
    assert_eq!((nothing.confirm, nothing.lease_ids.len()), (true, 0));
    peer.send(Opcode::Settled, id, &wire::Settled::default()).await;
    assert!(!peer.unsubscribe().await.keep_leases);
    peer.expect_end().await;
    closing.await.unwrap().unwrap();
    assert!(receipt.await.is_ok());
    assert!(matches!(client.publish("q", message("m")).await, Err(Error::Closed)));
    assert!(client.close().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_client_still_sends_what_was_submitted() {
    let (client, mut peer, _broker) = connected().await;
    let receipt = client.submit("q", message("last")).await.unwrap();
    drop(client);
    let (id, publish) = peer.publish().await;
    assert_eq!(payloads(&publish), ["last"]);
    peer.publish_ack(id, 3, 1).await;
    assert_eq!(receipt.await.unwrap().seq, Some(3));
    peer.expect_end().await;
}

#[tokio::test(start_paused = true)]
async fn close_without_a_connection_says_what_is_lost() {
    for unsent in [false, true] {
        let (client, peer, broker) = connected().await;
        drop((peer, broker));
        settle_down().await;
        let receipt = if unsent { Some(client.submit("q", message("m")).await.unwrap()) } else { None };
        assert_eq!(client.close().await.is_err(), unsent);
        if let Some(receipt) = receipt {
            assert!(matches!(receipt.await, Err(Error::Closed)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nonsense_from_the_broker_ends_the_connection() {
    let (_client, mut peer, mut broker) = connected().await;
    // A reply to nothing is ignored, an unknown opcode too; a MESSAGE that is none is not.
    peer.send(Opcode::Done, Some(999), &wire::Done {}).await;
    peer.send(Opcode::Message, None, &wire::GoAway { reason: "\u{7}".into(), ..Default::default() }).await;
    peer.expect_end().await;
    let mut peer = broker.accept_with(wire::HelloAck { max_frame_bytes: 100, ..hello_ack() }).await;
    assert_eq!(MAX_FRAME_BYTES, hello_ack().max_frame_bytes);
    peer.send(Opcode::Heartbeat, None, &wire::GoAway { reason: "x".repeat(200), ..Default::default() }).await;
    peer.expect_end().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_what_wants_no_answer_does_not_end_the_connection() {
    let (client, mut peer, _broker) = connected().await;
    peer.error(None, ErrorCode::Unsupported.with("CREDIT is unknown to this broker")).await;
    let receipt = client.submit("q", message("m")).await.unwrap();
    let (id, _) = peer.publish().await;
    peer.publish_ack(id, 1, 1).await;
    assert!(receipt.await.is_ok());
    peer.error(None, ErrorCode::MalformedFrame.with("nonsense")).await;
    peer.expect_end().await;
}

#[tokio::test]
async fn tcp_is_the_default() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (client, mut peer) = tokio::join!(Client::connect(&address), async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut peer = Peer::new(stream);
        peer.hello(hello_ack()).await;
        peer
    });
    let client = client.unwrap();
    let large = "x".repeat(3 * 1024 * 1024);
    let receipt = client.submit("q", message(&large)).await.unwrap();
    let (id, publish) = peer.publish().await;
    assert_eq!(payloads(&publish), [large]);
    peer.publish_ack(id, 1, 1).await;
    assert!(receipt.await.is_ok());
}
