//! The Rust client against the real broker: pulling, leases, readers, groups and dead letters, as a service uses them.
//!
//! What reaches the wire is tested in the crate against a scripted broker; here counts that the two understand each other.

mod support;

use std::time::Duration;

use qwerq::{
    Client, ConsumeOptions, DeadLetterFilter, Delivery, Error, ErrorCode, FetchOptions, Message, PublishOptions, QueueOptions, RedriveTo,
    Settlement, StartAt, Subscription,
};
use support::broker::Broker;

async fn connect(broker: &Broker) -> Client {
    Client::connect(broker.broker()).await.expect("the broker is there")
}

async fn publish(client: &Client, queue: &str, count: usize) {
    for result in client.publish_batch(queue, (0..count).map(|number| Message::new(format!("m{number}")))).await {
        result.expect("the queue takes it");
    }
}

async fn next(subscription: &mut Subscription) -> Delivery {
    subscription.next().await.expect("it goes on").expect("it is open")
}

async fn fetch(client: &Client, queue: &str, options: FetchOptions) -> Vec<Delivery> {
    client.fetch(queue, options).await.expect("a fetch is answered")
}

fn text(delivery: &Delivery) -> &str {
    std::str::from_utf8(&delivery.payload).expect("text")
}

fn stream() -> QueueOptions {
    QueueOptions { mode: Some("stream".to_owned()), ..QueueOptions::default() }
}

#[tokio::test]
async fn every_way_to_settle_does_what_it_says() {
    let broker = Broker::start(&[]);
    let client = connect(&broker).await;
    publish(&client, "q", 4).await;
    let mut subscription = client.consume("q", ConsumeOptions::new()).await.expect("a queue to consume");
    let mut taken = Vec::new();
    while taken.len() < 4 {
        subscription.next_batch(&mut taken).await.expect("it goes on").expect("it is open");
    }
    for (delivery, settlement) in taken.into_iter().zip([
        Settlement::Ack,
        Settlement::Nack { delay: Some(Duration::ZERO), reason: "busy".to_owned() },
        Settlement::Reject { reason: "hopeless".to_owned() },
        Settlement::Release,
    ]) {
        delivery.settle_confirmed(settlement).await.expect("the lease is good");
    }
    let mut again = [next(&mut subscription).await, next(&mut subscription).await];
    again.sort_by_key(|delivery| delivery.seq);
    let seen: Vec<_> = again.iter().map(|delivery| (text(delivery), delivery.attempt)).collect();
    assert_eq!(seen, [("m1", 2), ("m3", 1)], "a nack counts, a release does not");
    let letters = client.dead_letters("q", &DeadLetterFilter::default(), 0).await.expect("it has letters").letters;
    assert_eq!((letters.len(), letters[0].headers.get("qwerq-error")), (1, Some("hopeless")));
    // A close gives back uncounted.
    subscription.close().await.expect("connected");
    let stale = again.map(|delivery| delivery.ack().expect_err("the lease has ended").code());
    assert_eq!(stale, [Some(ErrorCode::StaleLease); 2]);
    let attempts: Vec<_> =
        fetch(&client, "q", FetchOptions { max: 9, ..FetchOptions::default() }).await.iter().map(|d| d.attempt).collect();
    assert_eq!(attempts, [2, 1]);
}

#[tokio::test]
async fn a_detached_lease_outlives_its_connection_and_whoever_has_its_id_settles_it() {
    let broker = Broker::start(&[]);
    let client = connect(&broker).await;
    publish(&client, "q", 2).await;
    let first = connect(&broker).await;
    let detached = fetch(&first, "q", FetchOptions { max: 1, detached: true, ..FetchOptions::default() }).await;
    let attached = fetch(&first, "q", FetchOptions { max: 1, ..FetchOptions::default() }).await;
    let lease = *detached[0].lease_id().expect("it is leased");
    assert_eq!((text(&detached[0]), text(&attached[0])), ("m0", "m1"));
    first.close().await.expect("connected");

    let options = FetchOptions { max: 9, wait: Duration::from_secs(60), ..FetchOptions::default() };
    let back = fetch(&client, "q", options).await;
    let seen: Vec<_> = back.iter().map(|delivery| (text(delivery), delivery.attempt)).collect();
    assert_eq!(seen, [("m1", 1)], "the attached one came back uncounted, the other is held");
    let results = client.settle_leases(Settlement::Ack, &[lease, [0; 24]]).await.expect("connected");
    assert!(results[0].is_ok());
    assert_eq!(results[1].as_ref().expect_err("no such lease").code(), Some(ErrorCode::StaleLease));
    assert_eq!(client.queue_info("q").await.expect("it exists").depth, 1);
}

#[tokio::test]
async fn a_lease_is_extended_and_renewed_for_as_long_as_the_delivery_lives() {
    let broker = Broker::start(&[]);
    let client = connect(&broker).await;
    let options = QueueOptions { visibility_timeout_ms: Some(1_500), ..QueueOptions::default() };
    client.create_queue("q", options).await.expect("a new queue");
    publish(&client, "q", 2).await;
    let mut held = fetch(&client, "q", FetchOptions { max: 2, ..FetchOptions::default() }).await;
    let dropped = held.remove(1);
    held[0].extend(Duration::from_secs(3600)).await.expect("the lease is good");
    drop(dropped);
    // The dropped one runs out and comes again, which takes longer than the first lease would have lasted.
    let options = FetchOptions { wait: Duration::from_secs(3600), ..FetchOptions::default() };
    let again = fetch(&client, "q", options).await;
    assert_eq!((text(&again[0]), again[0].attempt), ("m1", 2));
    held.remove(0).ack_confirmed().await.expect("it is still leased");
}

#[tokio::test]
async fn a_reader_without_a_group_is_never_starved_of_credit() {
    let broker = Broker::start(&[]);
    let client = connect(&broker).await;
    client.create_queue("events", stream()).await.expect("a new stream");
    const MESSAGES: usize = 100;
    let bodies = (0..MESSAGES).map(|number| Message::new(vec![b'x'; if number % 3 == 0 { 900 } else { 10 }]));
    for result in client.publish_batch("events", bodies).await {
        result.expect("the stream takes it");
    }
    for (prefetch, bytes) in [(1, 0), (2, 0), (7, 0), (0, 0), (50, 1_000), (50, 1)] {
        let options = ConsumeOptions::new().prefetch(prefetch).prefetch_bytes(bytes).start_at(StartAt::Beginning);
        let mut reader = client.consume("events", options).await.expect("a stream to read");
        for seq in 0..MESSAGES as u64 {
            let delivery = next(&mut reader).await;
            assert_eq!((delivery.seq, delivery.lease_id()), (seq, None), "prefetch {prefetch}, {bytes} bytes");
            delivery.ack_confirmed().await.expect("there is nothing to confirm");
        }
        reader.close().await.expect("connected");
    }
    assert_eq!(client.queue_info("events").await.expect("it exists").groups, []);
}

#[tokio::test]
async fn groups_are_made_moved_committed_and_deleted() {
    let broker = Broker::start(&[]);
    let client = connect(&broker).await;
    client.create_queue("events", stream()).await.expect("a new stream");
    publish(&client, "events", 5).await;
    client.create_group("events", "g", StartAt::Offset(1)).await.expect("a new group");
    let floor = async || client.queue_info("events").await.expect("it exists").groups[0].ack_floor;
    assert_eq!(floor().await, 1);
    client.ack_through("events", "g", 3).await.expect("a stream");
    assert_eq!(floor().await, 4);
    client.seek_group("events", "g", StartAt::Beginning).await.expect("it exists");
    assert_eq!(floor().await, 0);
    let peeked = client.peek("events", 3, 9).await.expect("it exists");
    assert_eq!(peeked.iter().map(|message| message.seq).collect::<Vec<_>>(), [3, 4]);
    client.delete_group("events", "g").await.expect("it exists");
    publish(&client, "jobs", 1).await;
    client.create_group("jobs", "g", StartAt::End).await.expect("a new group");
    let code = |result: Result<(), Error>| result.expect_err("it is refused").code();
    assert_eq!(code(client.create_group("jobs", "g", StartAt::End).await), Some(ErrorCode::GroupExists));
    assert_eq!(code(client.ack_through("jobs", "g", 0).await), Some(ErrorCode::WrongMode));
    assert_eq!(code(client.seek_group("events", "g", StartAt::End).await), Some(ErrorCode::GroupNotFound));
    assert_eq!(code(client.delete_queue("nothing").await), Some(ErrorCode::QueueNotFound));
    assert_eq!(client.purge_queue("jobs").await.expect("it exists"), 1);
}

#[tokio::test]
async fn what_a_publisher_asks_for_is_kept() {
    let broker = Broker::start(&[]);
    let client = connect(&broker).await;
    let publisher = client.publisher("q");
    let options = || PublishOptions::new().header("tenant", "eu").ordering_key("k").idempotency_key("once");
    let first = publisher.publish(Message::new("a").with(options())).await.expect("a first one");
    let second = publisher.publish(Message::new("b").with(options())).await.expect("a second one");
    assert_eq!((first.duplicate, second.duplicate, second.id), (false, true, first.id));
    let delivery = fetch(&client, "q", FetchOptions::default()).await.remove(0);
    assert_eq!((text(&delivery), delivery.headers.get("tenant"), delivery.ordering_key.as_deref()), ("a", Some("eu"), Some("k")));
    delivery.ack().expect("the lease is good");

    let later = std::time::SystemTime::now() + Duration::from_secs(3600);
    let delayed = publisher.publish(Message::new("later").deliver_at(later)).await.expect("it may wait");
    assert_eq!(delayed.seq, None);
    let too_large = Message::new(vec![0; 2 * 1024 * 1024]);
    let refused = publisher.publish_atomic([Message::new("good"), too_large]).await.expect_err("all or none");
    assert_eq!(refused.code(), Some(ErrorCode::MessageTooLarge));
    assert_eq!(client.queue_info("q").await.expect("it exists").depth, 1, "the delayed one");
}

#[tokio::test]
async fn dead_letters_are_redriven_and_purged_by_what_they_say() {
    let broker = Broker::start(&[]);
    let client = connect(&broker).await;
    publish(&client, "q", 3).await;
    for (delivery, reason) in fetch(&client, "q", FetchOptions { max: 3, ..FetchOptions::default() }).await.into_iter().zip(["a", "b", "c"])
    {
        delivery.settle_confirmed(Settlement::Reject { reason: reason.to_owned() }).await.expect("the lease is good");
    }
    let all = DeadLetterFilter::default();
    let page = client.dead_letters("q", &all, 0).await.expect("it has letters");
    assert_eq!((page.letters.len(), page.next_seq), (3, None));
    let one = DeadLetterFilter { id: Some(page.letters[1].id), ..all.clone() };
    let done = client.redrive("q", &one, &RedriveTo::Group).await.expect("it goes back");
    assert_eq!((done.redriven, done.refused), (1, 0));
    assert_eq!(text(&fetch(&client, "q", FetchOptions::default()).await[0]), "m1");
    let oldest = DeadLetterFilter { max: Some(1), ..all.clone() };
    assert_eq!(client.purge_dead_letters("q", &oldest).await.expect("it has letters"), 1);
    let left = client.dead_letters("q", &all, 0).await.expect("it has one left").letters;
    assert_eq!((left.len(), &left[0].payload[..]), (1, &b"m2"[..]));
}
