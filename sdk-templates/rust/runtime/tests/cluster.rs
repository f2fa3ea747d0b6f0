//! What a client does when brokers are nodes of a cluster: it finds the leader, follows it, and what it publishes is stored once.

mod support;

use std::time::Duration;

use qwerq::proto::{ErrorCode, Opcode, wire};
use qwerq::{Client, ConsumeOptions, Dial, Error, Message, Reconnect};
use support::{Broker, Peer, broker, connect, hello_ack, message, payloads, settle_down};
use tokio::time::Instant;

/// What a node of a cluster agrees to.
fn node_ack() -> wire::HelloAck {
    wire::HelloAck { features: vec!["cluster".to_owned()], ..hello_ack() }
}

fn not_leader(leader: Option<&str>) -> wire::Error {
    let error = ErrorCode::NotLeader.with("this node does not lead");
    match leader {
        Some(leader) => error.detail("leader", leader),
        None => error.retry_after_ms(250),
    }
}

/// A connection arrives at that address, and hears that this node does not lead.
async fn redirect(broker: &mut Broker, leader: Option<&str>) -> String {
    let (address, mut peer) = broker.arrival().await;
    peer.expect::<wire::Hello>(Opcode::Hello).await;
    peer.error(None, not_leader(leader)).await;
    address
}

/// A connection arrives and is accepted.
async fn lead(broker: &mut Broker) -> (String, Peer) {
    let (address, mut peer) = broker.arrival().await;
    peer.hello(node_ack()).await;
    (address, peer)
}

/// A client of a cluster, and its connection to the node `a:1`.
async fn connected() -> (Client, Peer, Broker) {
    let (dial, mut broker) = broker();
    let (client, (_, peer)) = tokio::join!(Client::builder("a:1").dial(dial).connect(), lead(&mut broker));
    (client.expect("the node accepts it"), peer, broker)
}

fn key(publish: &wire::Publish, at: usize) -> &str {
    &publish.items[at].idempotency_key
}

#[tokio::test]
async fn hello_asks_whether_there_is_a_cluster_and_any_node_only_when_told() {
    for (any_node, features) in [(false, vec!["cluster"]), (true, vec!["cluster", "any-node"])] {
        let (dial, mut broker) = broker();
        let builder = Client::builder("a:1").dial(dial);
        let builder = if any_node { builder.any_node() } else { builder };
        let (client, hello) = tokio::join!(builder.connect(), async {
            let (_, mut peer) = broker.arrival().await;
            peer.hello(node_ack()).await
        });
        client.unwrap();
        assert_eq!(hello.features, features);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_lead_sends_the_client_to_the_one_that_does() {
    let (dial, mut broker) = broker();
    let began = Instant::now();
    let builder = Client::builder("a:1, b:1").address("c:1").dial(dial);
    let (client, (first, leader)) = tokio::join!(builder.connect(), async {
        let first = redirect(&mut broker, Some("leader:1")).await;
        (first, lead(&mut broker).await.0)
    });
    client.unwrap();
    assert!(["a:1", "b:1", "c:1"].contains(&&*first), "{first}");
    assert_eq!((leader.as_str(), began.elapsed()), ("leader:1", Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_gone_does_not_keep_the_client_from_the_other_nodes() {
    let (dial, mut broker) = broker();
    let dial = Dial::new(move |address: String| {
        let dial = dial.clone();
        async move {
            if address == "gone:1" {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
            }
            dial.open(&address).await
        }
    });
    // Both still believe in it, and then one of them leads.
    let (client, (first, second)) = tokio::join!(Client::builder("a:1,b:1").dial(dial).connect(), async {
        let first = redirect(&mut broker, Some("gone:1")).await;
        let second = redirect(&mut broker, Some("gone:1")).await;
        lead(&mut broker).await;
        (first, second)
    });
    client.unwrap();
    assert_ne!(first, second);
}

#[tokio::test(start_paused = true)]
async fn while_nobody_leads_the_first_connection_is_patient_and_says_at_the_end_what_it_tried() {
    let (dial, mut broker) = broker();
    let began = Instant::now();
    let nobody = async {
        loop {
            redirect(&mut broker, None).await;
        }
    };
    let error = tokio::select! {
        client = Client::builder("a:1,b:1").dial(dial).connect() => client.unwrap_err(),
        () = nobody => unreachable!("it never ends"),
    };
    let text = error.to_string();
    assert!(matches!(error, Error::Connect(_)) && text.contains("a:1: not-leader") && text.contains("b:1: not-leader"), "{text}");
    assert!((9..=10).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_connection_the_last_leader_is_asked_first() {
    let (dial, mut broker) = broker();
    let (client, (_, peer)) = tokio::join!(Client::builder("a:1,b:1,c:1").dial(dial).connect(), async {
        redirect(&mut broker, Some("d:1")).await;
        lead(&mut broker).await
    });
    let _client = client.unwrap();
    drop(peer);
    assert_eq!(redirect(&mut broker, Some("b:1")).await, "d:1");
    assert_eq!(lead(&mut broker).await.0, "b:1");
}

#[tokio::test(start_paused = true)]
async fn a_publish_whose_leader_is_lost_is_sent_again_under_the_same_key() {
    let (client, mut peer, mut broker) = connected().await;
    let plain = client.submit("q", message("plain")).await.unwrap();
    let keyed = client.submit("q", message("keyed").idempotency_key("k")).await.unwrap();
    let (_, first) = peer.publish().await;
    assert!(key(&first, 0).starts_with('\u{1}'));
    assert_eq!(key(&first, 1), "k");
    drop(peer);
    let (_, mut peer) = lead(&mut broker).await;
    let (id, again) = peer.publish().await;
    assert_eq!(again, first);
    let stored = |seq, duplicate| wire::PublishResult { duplicate, ..support::stored(seq) };
    peer.send(Opcode::PublishAck, id, &support::publish_ack(vec![stored(4, true), stored(5, true)])).await;
    // The caller published it once; what its own key says is its own affair.
    let plain = plain.await.unwrap();
    assert_eq!((plain.seq, plain.duplicate), (Some(4), false));
    assert!(keyed.await.unwrap().duplicate);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_gives_up_says_of_what_it_has_sent_that_it_may_be_stored() {
    let (dial, mut broker) = broker();
    let builder = Client::builder("a:1").reconnect(Reconnect::never()).dial(dial);
    let (client, (_, mut peer)) = tokio::join!(builder.connect(), lead(&mut broker));
    let client = client.expect("the node accepts it");
    let receipt = client.submit("q", message("m")).await.unwrap();
    peer.publish().await;
    drop(peer);
    assert!(matches!(receipt.await, Err(Error::Disconnected { maybe_stored: true })));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_a_node_that_leads_no_more_is_no_answer() {
    for by_item in [false, true] {
        let (client, mut peer, mut broker) = connected().await;
        let receipt = client.submit("q", message("m")).await.unwrap();
        let (id, first) = peer.publish().await;
        let error = not_leader(Some("b:1"));
        if by_item {
            peer.send(Opcode::PublishAck, id, &support::publish_ack(vec![support::refused(error)])).await;
        } else {
            peer.error(id, error).await;
        }
        peer.expect_end().await;
        let (address, mut peer) = lead(&mut broker).await;
        assert_eq!(address, "b:1");
        let (id, again) = peer.publish().await;
        assert_eq!(again, first);
        peer.publish_ack(id, 7, 1).await;
        assert_eq!(receipt.await.unwrap().seq, Some(7));
    }
}

#[tokio::test(start_paused = true)]
async fn an_atomic_batch_is_sent_again_as_a_whole() {
    let (client, mut peer, mut broker) = connected().await;
    let publishing = tokio::spawn(async move { client.publish_atomic("q", [message("1"), message("2")]).await });
    let (_, first) = peer.publish().await;
    drop(peer);
    let (_, mut peer) = lead(&mut broker).await;
    let (id, again) = peer.publish().await;
    assert!(again == first && again.atomic && !key(&again, 0).is_empty() && key(&again, 0) != key(&again, 1));
    peer.publish_ack(id, 0, 2).await;
    assert_eq!(publishing.await.unwrap().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_the_broker_may_have_forgotten_is_not_sent_again() {
    let (client, mut peer, mut broker) = connected().await;
    let receipt = client.submit("q", message("m")).await.unwrap();
    peer.publish().await;
    drop(peer);
    settle_down().await;
    tokio::time::advance(Duration::from_secs(121)).await;
    let (_, mut peer) = lead(&mut broker).await;
    let later = client.submit("q", message("later")).await.unwrap();
    let (id, publish) = peer.publish().await;
    assert_eq!(payloads(&publish), ["later"]);
    peer.publish_ack(id, 1, 1).await;
    assert!(matches!(receipt.await, Err(Error::Disconnected { maybe_stored: true })));
    assert!(later.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_runs_alone_is_sent_no_keys_of_the_clients_own() {
    let (dial, broker) = broker();
    let (client, mut peer, _broker) = connect(Client::builder("a:1").dial(dial), broker).await;
    let _receipt = client.submit("q", Message::new("m")).await.unwrap();
    assert_eq!(key(&peer.publish().await.1, 0), "");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_leader_is_lost_says_that_nobody_knows_whether_it_ran() {
    let (client, mut peer, mut broker) = connected().await;
    let caller = client.clone();
    let calling = tokio::spawn(async move { caller.call("q", message("m"), Duration::from_secs(30)).await });
    peer.expect::<wire::Call>(Opcode::Call).await;
    peer.error(None, not_leader(Some("b:1"))).await;
    peer.expect_end().await;
    lead(&mut broker).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(error.code() == Some(ErrorCode::ResponderLost) && error.is_retryable(), "{error}");
    assert!(error.to_string().contains("whether it ran is not known"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn subscriptions_move_to_the_new_leader_and_old_leases_are_stale() {
    let (client, mut peer, mut broker) = connected().await;
    let (subscription, consume) = tokio::join!(client.consume("q", ConsumeOptions::new().group("g")), peer.consume_ack());
    let mut subscription = subscription.unwrap();
    peer.deliver(consume.subscription, [1]).await;
    let held = subscription.next().await.unwrap().unwrap();
    peer.error(None, not_leader(Some("b:1"))).await;
    peer.expect_end().await;
    let (_, mut peer) = lead(&mut broker).await;
    assert_eq!(peer.consume_ack().await, consume);
    assert_eq!(held.ack().unwrap_err().code(), Some(ErrorCode::StaleLease));
    peer.deliver(consume.subscription, [1]).await;
    assert_eq!(subscription.next().await.unwrap().unwrap().seq, 1);
}

#[tokio::test(start_paused = true)]
async fn any_node_answers_about_the_cluster_and_refuses_the_rest() {
    let (dial, mut broker) = broker();
    let (client, (_, mut peer)) = tokio::join!(Client::builder("a:1").any_node().dial(dial).connect(), lead(&mut broker));
    let client = client.unwrap();
    let (status, ()) = tokio::join!(client.cluster_status(), async {
        let (id, _) = peer.expect::<wire::ClusterStatus>(Opcode::ClusterStatus).await;
        peer.send(Opcode::ClusterStatusResponse, id, &wire::ClusterStatusResponse { term: 3, ..Default::default() }).await;
    });
    assert_eq!(status.unwrap().term, 3);
    let (refused, ()) = tokio::join!(client.queue_info("q"), async {
        let (id, _) = peer.expect::<wire::QueueName>(Opcode::QueueInfo).await;
        peer.error(id, not_leader(Some("b:1"))).await;
    });
    assert_eq!(refused.unwrap_err().code(), Some(ErrorCode::NotLeader));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_costs_its_leader_the_lead_is_asked_of_the_next_one() {
    let (client, mut peer, mut broker) = connected().await;
    let transferring = tokio::spawn(async move { client.transfer_leadership(2).await });
    let (_, change) = peer.expect::<wire::ClusterChange>(Opcode::ClusterChange).await;
    assert_eq!(change.change, Some(wire::cluster_change::Change::Transfer(2)));
    peer.error(None, not_leader(Some("b:1"))).await;
    let (_, mut peer) = lead(&mut broker).await;
    let (id, again) = peer.expect::<wire::ClusterChange>(Opcode::ClusterChange).await;
    assert_eq!(again, change);
    peer.send(Opcode::Done, id, &wire::Done {}).await;
    transferring.await.unwrap().unwrap();
}
