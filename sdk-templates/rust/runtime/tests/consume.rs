//! Consuming against a scripted broker: what is delivered, what is said about it and when, and how subscriptions end.

#![expect(clippy::unwrap_used, reason = "tests panic when something is not as scripted")]

mod support;

use std::time::Duration;

use qwerq::proto::{ErrorCode, Opcode, wire};
use qwerq::{Client, ConsumeOptions, Contract, Delivery, Error, FetchOptions, ReceiveError, Settlement, StartAt, Subscription};
use support::{Peer, broker, bytes_of, connect, connected, delivered, seqs, settle_down};

async fn consume(client: &Client, peer: &mut Peer) -> (Subscription, u32) {
    let (subscription, consume) = tokio::join!(client.consume("q", ConsumeOptions::new()), peer.consume_ack());
    (subscription.unwrap(), consume.subscription)
}

async fn next(subscription: &mut Subscription) -> Delivery {
    subscription.next().await.unwrap().unwrap()
}

#[tokio::test]
async fn options_reach_the_wire_and_the_answer_reaches_the_caller() {
    let (client, mut peer, _broker) = connected().await;
    let options = ConsumeOptions::new()
        .group("billing")
        .prefetch(5)
        .prefetch_bytes(500)
        .concurrency(3)
        .visibility_timeout(Duration::from_secs(9))
        .start_at(StartAt::End);
    let (subscription, consume) = tokio::join!(client.consume("q", options), peer.consume_ack());
    let expected = wire::Consume {
        subscription: consume.subscription,
        queue: "q".into(),
        group: "billing".into(),
        prefetch: 5,
        prefetch_bytes: 500,
        concurrency: 3,
        visibility_timeout_ms: 9000,
        start_at: Some(wire::StartAt { at: Some(wire::start_at::At::End(true)) }),
        role: wire::Role::Consume.into(),
        contract: qwerq::Bytes::new(),
    };
    assert_eq!(consume, expected);
    assert_eq!(subscription.unwrap().group(), "default");
}

#[tokio::test]
async fn a_delivery_carries_what_the_broker_sent() {
    let (client, mut peer, _broker) = connected().await;
    let (mut subscription, number) = consume(&client, &mut peer).await;
    let message = wire::Delivered {
        attempt: 2,
        skipped: 4,
        schema_version: 3,
        headers: vec![wire::Header { name: "a".into(), value: "b".into() }],
        ordering_key: "k".into(),
        ..delivered(9)
    };
    peer.send(Opcode::Message, None, &wire::Deliver { subscription: number, messages: vec![message] }).await;
    let delivery = next(&mut subscription).await;
    assert_eq!((delivery.queue(), delivery.seq, delivery.attempt, delivery.skipped), ("q", 9, 2, 4));
    assert_eq!((&delivery.payload[..], delivery.schema_version), (&b"message 9"[..], 3));
    assert_eq!((delivery.headers.get("a"), delivery.ordering_key.as_deref()), (Some("b"), Some("k")));
    assert_eq!(delivery.published_at, std::time::UNIX_EPOCH + Duration::from_millis(1_700_000_000_000));
    delivery.ack().unwrap();
}

#[tokio::test]
async fn settlements_of_many_deliveries_share_frames() {
    let (client, mut peer, _broker) = connected().await;
    let (mut subscription, number) = consume(&client, &mut peer).await;
    peer.deliver(number, 0..8).await;
    let mut deliveries = Vec::new();
    while deliveries.len() < 8 {
        subscription.next_batch(&mut deliveries).await.unwrap().unwrap();
    }
    for delivery in deliveries {
        match delivery.seq {
            3 => delivery.nack().unwrap(),
            4 => delivery.nack_after(Duration::ZERO).unwrap(),
            5 => delivery.reject("bad").unwrap(),
            6 => delivery.release().unwrap(),
            _ => delivery.ack().unwrap(),
        }
    }
    let (id, acks) = peer.expect::<wire::Settle>(Opcode::Ack).await;
    assert_eq!((id, acks.confirm, seqs(&acks)), (None, false, vec![0, 1, 2, 7]));
    let (_, nacks) = peer.expect::<wire::Settle>(Opcode::Nack).await;
    assert_eq!((seqs(&nacks), nacks.delay_ms), (vec![3], None));
    let (_, nacks) = peer.expect::<wire::Settle>(Opcode::Nack).await;
    assert_eq!((seqs(&nacks), nacks.delay_ms), (vec![4], Some(0)));
    let (_, rejects) = peer.expect::<wire::Settle>(Opcode::Reject).await;
    assert_eq!((seqs(&rejects), rejects.reason.as_str()), (vec![5], "bad"));
    let (_, releases) = peer.expect::<wire::Settle>(Opcode::Release).await;
    assert_eq!(seqs(&releases), [6]);
}

#[tokio::test]
async fn a_confirmed_ack_waits_for_the_broker_and_learns_of_a_stale_lease() {
    let (client, mut peer, _broker) = connected().await;
    let (mut subscription, number) = consume(&client, &mut peer).await;
    peer.deliver(number, 0..2).await;
    let (first, second) = (next(&mut subscription).await, next(&mut subscription).await);
    let (first, second, ()) = tokio::join!(first.ack_confirmed(), second.ack_confirmed(), async {
        let (id, acks) = peer.expect::<wire::Settle>(Opcode::Ack).await;
        assert_eq!((acks.confirm, seqs(&acks)), (true, vec![0, 1]));
        let stale = wire::RefusedLease { index: 1, error: Some(ErrorCode::StaleLease.with("expired")) };
        peer.send(Opcode::Settled, id, &wire::Settled { settled: 1, refused: vec![stale] }).await;
    });
    assert!(first.is_ok());
    assert_eq!(second.unwrap_err().code(), Some(ErrorCode::StaleLease));
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_in_time_until_they_are_settled_or_dropped() {
    let (client, mut peer, _broker) = connected().await;
    let (mut subscription, number) = consume(&client, &mut peer).await;
    let began = tokio::time::Instant::now();
    peer.deliver(number, 0..4).await;
    let (running, acked) = (next(&mut subscription).await, next(&mut subscription).await);
    let dropped = next(&mut subscription).await;
    // 0 is being worked on, 3 waits in the subscription: both are held.
    acked.ack().unwrap();
    peer.expect::<wire::Settle>(Opcode::Ack).await;
    drop(dropped);
    for _ in 0..3 {
        let renewed_at = began.elapsed();
        let (id, extend) = peer.expect::<wire::Settle>(Opcode::ExtendVisibility).await;
        assert_eq!((id, seqs(&extend), extend.visibility_timeout_ms), (None, vec![0, 3], 30_000));
        assert!(began.elapsed() - renewed_at <= Duration::from_secs(10));
    }
    assert!(began.elapsed() > Duration::from_secs(10));
    drop(running);
    next(&mut subscription).await.ack().unwrap();
    peer.expect::<wire::Settle>(Opcode::Ack).await;
    peer.send(Opcode::Heartbeat, None, &wire::Heartbeat {}).await;
    let silence = tokio::time::timeout(Duration::from_secs(15), peer.frame()).await;
    assert!(silence.is_err(), "nothing is left to renew");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_renewed_beyond_the_limit() {
    let (dial, broker) = broker();
    let builder = Client::builder("test").dial(dial).max_lease(Duration::from_secs(12));
    let (client, mut peer, _broker) = connect(builder, broker).await;
    let (mut subscription, number) = consume(&client, &mut peer).await;
    peer.deliver(number, [1]).await;
    let _held = next(&mut subscription).await;
    let mut renewals = 0;
    let count = async {
        loop {
            peer.expect::<wire::Settle>(Opcode::ExtendVisibility).await;
            renewals += 1;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(19), count).await.is_err());
    assert_eq!(renewals, 2, "at 5 and 10 s, not at 15 s");
}

#[tokio::test]
async fn extend_asks_for_a_length_and_waits() {
    let (client, mut peer, _broker) = connected().await;
    let (mut subscription, number) = consume(&client, &mut peer).await;
    peer.deliver(number, [1]).await;
    let delivery = next(&mut subscription).await;
    let (extended, ()) = tokio::join!(delivery.extend(Duration::from_secs(90)), async {
        let (id, extend) = peer.expect::<wire::Settle>(Opcode::ExtendVisibility).await;
        assert_eq!((extend.visibility_timeout_ms, extend.confirm), (90_000, true));
        peer.send(Opcode::ExtendVisibilityAck, id, &wire::Settled { settled: 1, refused: Vec::new() }).await;
    });
    extended.unwrap();
}

#[tokio::test]
async fn closing_a_subscription_says_what_was_settled_and_gives_the_rest_back() {
    let (client, mut peer, _broker) = connected().await;
    let (mut subscription, number) = consume(&client, &mut peer).await;
    peer.deliver(number, 0..3).await;
    let (acked, kept) = (next(&mut subscription).await, next(&mut subscription).await);
    acked.ack().unwrap();
    let (closed, ()) = tokio::join!(subscription.close(), async {
        let (_, acks) = peer.expect::<wire::Settle>(Opcode::Ack).await;
        assert_eq!(seqs(&acks), [0]);
        let unsubscribe = peer.unsubscribe().await;
        assert_eq!((unsubscribe.subscription, unsubscribe.keep_leases), (number, false));
    });
    closed.unwrap();
    assert_eq!(kept.ack().unwrap_err().code(), Some(ErrorCode::StaleLease));
}

#[tokio::test]
async fn draining_a_subscription_keeps_what_is_being_worked_on() {
    let (client, mut peer, _broker) = connected().await;
    let (mut subscription, number) = consume(&client, &mut peer).await;
    peer.deliver(number, 0..3).await;
    let kept = next(&mut subscription).await;
    let (drained, ()) = tokio::join!(subscription.drain(), async {
        let (_, released) = peer.expect::<wire::Settle>(Opcode::Release).await;
        assert_eq!(seqs(&released), [1, 2]);
        // Crosses the UNSUBSCRIBE; goes back as well.
        peer.deliver(number, [3]).await;
        assert!(peer.unsubscribe().await.keep_leases);
    });
    drained.unwrap();
    let (_, released) = peer.expect::<wire::Settle>(Opcode::Release).await;
    assert_eq!(seqs(&released), [3]);
    kept.ack().unwrap();
    let (_, acks) = peer.expect::<wire::Settle>(Opcode::Ack).await;
    assert_eq!(seqs(&acks), [0]);
}

#[tokio::test]
async fn a_dropped_subscription_unsubscribes() {
    let (client, mut peer, _broker) = connected().await;
    let (subscription, number) = consume(&client, &mut peer).await;
    drop(subscription);
    let unsubscribe = peer.unsubscribe().await;
    assert_eq!((unsubscribe.subscription, unsubscribe.keep_leases), (number, true));
}

#[tokio::test]
async fn the_broker_may_refuse_or_end_a_subscription() {
    let (client, mut peer, _broker) = connected().await;
    let (refused, ()) = tokio::join!(client.consume("q", ConsumeOptions::new()), async {
        let (id, _) = peer.expect::<wire::Consume>(Opcode::Consume).await;
        peer.error(id, ErrorCode::GroupRequired.with("say which")).await;
    });
    assert_eq!(refused.unwrap_err().code(), Some(ErrorCode::GroupRequired));

    let (mut subscription, number) = consume(&client, &mut peer).await;
    peer.deliver(number, [1]).await;
    let reason = Some(ErrorCode::QueueNotFound.with("deleted"));
    peer.send(Opcode::SubscriptionEnded, None, &wire::SubscriptionEnded { subscription: number, reason }).await;
    let mut got = Vec::new();
    while let Some(item) = subscription.next().await {
        got.push(item.map(|delivery| delivery.seq).map_err(|error| error.code()));
    }
    // The delivery's lease ended with the subscription.
    assert_eq!(got.last(), Some(&Err(Some(ErrorCode::QueueNotFound))));
    assert!(subscription.next().await.is_none());
}

#[tokio::test]
async fn a_reader_of_the_tail_has_nothing_to_settle() {
    let (client, mut peer, _broker) = connected().await;
    let (subscription, consume) = tokio::join!(client.consume("q", ConsumeOptions::new().tail()), peer.consume_ack());
    assert_eq!(consume.role(), wire::Role::Tail);
    let messages = vec![leaseless(1)];
    peer.send(Opcode::Message, None, &wire::Deliver { subscription: consume.subscription, messages }).await;
    let delivery = next(&mut subscription.unwrap()).await;
    assert!(delivery.lease_id().is_none() && !delivery.is_stale());
    delivery.ack_confirmed().await.unwrap();
}

fn leaseless(seq: u64) -> wire::Delivered {
    wire::Delivered { lease_id: qwerq::Bytes::new(), lease_ms: 0, ..delivered(seq) }
}

/// A subscription without leases.
async fn tail(client: &Client, peer: &mut Peer, options: ConsumeOptions) -> (Subscription, u32) {
    let (subscription, consume) = tokio::join!(client.consume("q", options.tail()), peer.consume_ack());
    (subscription.unwrap(), consume.subscription)
}

/// Delivers messages of those seqs and takes them.
async fn follow(peer: &mut Peer, (subscription, number): &mut (Subscription, u32), seqs: std::ops::Range<u64>) {
    let messages = seqs.clone().map(leaseless).collect();
    peer.send(Opcode::Message, None, &wire::Deliver { subscription: *number, messages }).await;
    for seq in seqs {
        assert_eq!(next(subscription).await.seq, seq);
    }
}

async fn credit(peer: &mut Peer) -> (u32, u32, u64) {
    let (id, credit) = peer.expect::<wire::Credit>(Opcode::Credit).await;
    assert_eq!(id, None);
    (credit.subscription, credit.prefetch, credit.prefetch_bytes)
}

#[tokio::test]
async fn a_reader_without_leases_gives_credit_when_half_of_it_is_used() {
    let (client, mut peer, _broker) = connected().await;
    let mut reader = tail(&client, &mut peer, ConsumeOptions::new().prefetch(8).prefetch_bytes(1000)).await;
    // The fourth is half of the messages.
    follow(&mut peer, &mut reader, 0..4).await;
    assert_eq!(credit(&mut peer).await, (reader.1, 8, 1000));
    // Nine bytes are no half of anything, but the reader waits: perhaps the next message did not fit.
    follow(&mut peer, &mut reader, 4..5).await;
    let (waited, given) = tokio::join!(tokio::time::timeout(Duration::ZERO, reader.0.next()), credit(&mut peer));
    assert!(waited.is_err());
    assert_eq!(given, (reader.1, 8, 1000));
    // 600 bytes are.
    let large = wire::Delivered { payload: vec![0; 600].into(), ..leaseless(5) };
    peer.send(Opcode::Message, None, &wire::Deliver { subscription: reader.1, messages: vec![large] }).await;
    next(&mut reader.0).await.ack().unwrap();
    assert_eq!(credit(&mut peer).await, (reader.1, 8, 1000));
    // What the holder says last counts.
    reader.0.set_prefetch(2, 0).unwrap();
    assert_eq!(credit(&mut peer).await, (reader.1, 2, 0));
    follow(&mut peer, &mut reader, 6..7).await;
    assert_eq!(credit(&mut peer).await, (reader.1, 2, 16 * 1024 * 1024));
}

#[tokio::test]
async fn a_paused_reader_and_one_with_leases_give_no_credit() {
    let (client, mut peer, _broker) = connected().await;
    let mut paused = tail(&client, &mut peer, ConsumeOptions::new().prefetch(2)).await;
    paused.0.set_prefetch(0, 0).unwrap();
    assert_eq!(credit(&mut peer).await.1, 0);
    follow(&mut peer, &mut paused, 0..2).await;
    let (mut leased, number) = consume(&client, &mut peer).await;
    peer.deliver(number, 0..40).await;
    for _ in 0..40 {
        next(&mut leased).await.release().unwrap();
    }
    peer.expect::<wire::Settle>(Opcode::Release).await;
}

#[tokio::test(start_paused = true)]
async fn fetched_messages_are_leased_and_renewed_like_others() {
    let (client, mut peer, _broker) = connected().await;
    let options = FetchOptions { max: 2, wait: Duration::from_secs(5), ..FetchOptions::default() };
    let (fetched, ()) = tokio::join!(client.fetch("q", options), async {
        let (id, fetch) = peer.expect::<wire::Fetch>(Opcode::Fetch).await;
        assert_eq!((fetch.max, fetch.wait_ms, fetch.detached), (2, 5000, false));
        peer.send(Opcode::Fetched, id, &wire::Fetched { messages: [1, 2].map(delivered).into(), next_seq: None }).await;
    });
    let mut fetched = fetched.unwrap();
    let (_, extend) = peer.expect::<wire::Settle>(Opcode::ExtendVisibility).await;
    assert_eq!(seqs(&extend), [1, 2]);
    fetched.remove(0).ack().unwrap();
    let (_, acks) = peer.expect::<wire::Settle>(Opcode::Ack).await;
    assert_eq!(seqs(&acks), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_fetch_is_cancelled_and_a_late_answer_goes_back() {
    let (client, mut peer, _broker) = connected().await;
    let fetch = tokio::time::timeout(Duration::from_secs(1), client.fetch("q", FetchOptions::default()));
    assert!(fetch.await.is_err());
    let (id, _) = peer.expect::<wire::Fetch>(Opcode::Fetch).await;
    let (_, cancel) = peer.expect::<wire::Cancel>(Opcode::Cancel).await;
    assert_eq!(Some(cancel.request_id), id);
    peer.send(Opcode::Fetched, id, &wire::Fetched { messages: vec![delivered(1)], next_seq: None }).await;
    let (_, released) = peer.expect::<wire::Settle>(Opcode::Release).await;
    assert_eq!(seqs(&released), [1]);
}

#[tokio::test]
async fn closing_gives_back_what_was_fetched_but_not_what_is_detached() {
    let (client, mut peer, _broker) = connected().await;
    for (detached, seq) in [(false, 1), (true, 2)] {
        let options = FetchOptions { detached, ..FetchOptions::default() };
        let (fetched, ()) = tokio::join!(client.fetch("q", options), async {
            let (id, fetch) = peer.expect::<wire::Fetch>(Opcode::Fetch).await;
            assert_eq!(fetch.detached, detached);
            peer.send(Opcode::Fetched, id, &wire::Fetched { messages: vec![delivered(seq)], next_seq: None }).await;
        });
        // Held until the test ends.
        std::mem::forget(fetched.unwrap());
    }
    let (closed, ()) = tokio::join!(client.close(), async {
        let (_, released) = peer.expect::<wire::Settle>(Opcode::Release).await;
        assert_eq!(seqs(&released), [1]);
        let (id, all) = peer.expect::<wire::Settle>(Opcode::Ack).await;
        assert!(all.lease_ids.is_empty() && all.confirm);
        peer.send(Opcode::Settled, id, &wire::Settled::default()).await;
        peer.expect_end().await;
    });
    closed.unwrap();
}

#[tokio::test]
async fn leases_can_be_settled_by_their_ids() {
    let (client, mut peer, _broker) = connected().await;
    let leases = [[1; 24], [2; 24]];
    let (results, ()) = tokio::join!(client.settle_leases(Settlement::Ack, &leases), async {
        let (id, settle) = peer.expect::<wire::Settle>(Opcode::Ack).await;
        assert_eq!(settle.lease_ids.len(), 2);
        let stale = wire::RefusedLease { index: 0, error: Some(ErrorCode::StaleLease.with("expired")) };
        peer.send(Opcode::Settled, id, &wire::Settled { settled: 1, refused: vec![stale] }).await;
    });
    assert!(matches!(results.unwrap()[..], [Err(_), Ok(())]));
}

struct Orders;

impl Contract for Orders {
    const QUEUE: &'static str = "q";
    const MESSAGE_TYPE: &'static str = "qwerq.v1.Header";
    const FINGERPRINT: [u8; 32] = [7; 32];
    const VERSION: u32 = 3;
    type Message = wire::Header;
}

#[tokio::test]
async fn a_typed_subscription_decodes_and_hands_over_what_does_not_decode() {
    let (client, mut peer, _broker) = connected().await;
    let orders = client.queue::<Orders>();
    let (subscription, consume) = tokio::join!(orders.consume(ConsumeOptions::new()), peer.consume_ack());
    let mut subscription = subscription.unwrap();
    assert_eq!(&consume.contract[..], [7; 32]);
    let order = wire::Header { name: "n".into(), value: "v".into() };
    let good = wire::Delivered { payload: bytes_of(&order), ..delivered(1) };
    let bad = wire::Delivered { payload: "\u{1}".into(), ..delivered(2) };
    let deliver = wire::Deliver { subscription: consume.subscription, messages: vec![good, bad] };
    peer.send(Opcode::Message, None, &deliver).await;

    let typed = subscription.next().await.unwrap().unwrap();
    assert_eq!((&typed.body, typed.delivery.seq), (&order, 1));
    typed.ack().unwrap();
    match subscription.next().await.unwrap() {
        Err(ReceiveError::Undecodable(undecodable)) => {
            assert!(undecodable.to_string().contains("qwerq.v1.Header"), "{undecodable}");
            undecodable.reject().unwrap();
        }
        other => panic!("{other:?}"),
    }
    peer.expect::<wire::Settle>(Opcode::Ack).await;
    let (_, reject) = peer.expect::<wire::Settle>(Opcode::Reject).await;
    assert!(reject.reason.contains("seq 2"), "{}", reject.reason);
}

#[tokio::test]
async fn a_typed_fetch_decodes_under_its_contract_and_keeps_what_does_not_decode_in_its_place() {
    let (client, mut peer, _broker) = connected().await;
    let orders = client.queue::<Orders>();
    let order = wire::Header { name: "n".into(), value: "v".into() };
    let (fetched, ()) = tokio::join!(orders.fetch(FetchOptions { max: 2, ..FetchOptions::default() }), async {
        let (id, fetch) = peer.expect::<wire::Fetch>(Opcode::Fetch).await;
        assert_eq!(&fetch.contract[..], [7; 32]);
        let bad = wire::Delivered { payload: "\u{1}".into(), ..delivered(1) };
        let good = wire::Delivered { payload: bytes_of(&order), ..delivered(2) };
        peer.send(Opcode::Fetched, id, &wire::Fetched { messages: vec![bad, good], next_seq: None }).await;
    });
    let mut fetched = fetched.unwrap();
    assert_eq!(fetched.pop().unwrap().unwrap().body, order);
    fetched.pop().unwrap().unwrap_err().reject().unwrap();
    let (_, reject) = peer.expect::<wire::Settle>(Opcode::Reject).await;
    assert_eq!(seqs(&reject), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_consume_leaves_no_subscription_behind() {
    let (client, mut peer, _broker) = connected().await;
    let opening = tokio::time::timeout(Duration::from_secs(1), client.consume("q", ConsumeOptions::new()));
    assert!(opening.await.is_err());
    let consume = peer.consume_ack().await;
    assert_eq!(peer.unsubscribe().await.subscription, consume.subscription);
    settle_down().await;
    assert!(matches!(client.close().await, Ok(()) | Err(Error::Closed)));
}
