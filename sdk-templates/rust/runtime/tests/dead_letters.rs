//! Dead letters against a scripted broker: what is asked, and that bulk work goes on until all is done.

mod support;

use std::time::{Duration, UNIX_EPOCH};

use qwerq::proto::{ErrorCode, Opcode, wire};
use qwerq::{DeadLetterFilter, MessageId, RedriveTo};
use support::{Peer, connected, delivered};

fn leaseless(seq: u64) -> wire::Delivered {
    wire::Delivered { lease_id: qwerq::Bytes::new(), lease_ms: 0, ..delivered(seq) }
}

/// Answers a REDRIVE; what it asked.
async fn redriven(peer: &mut Peer, redriven: u64, refused: u64, next_seq: Option<u64>) -> wire::Redrive {
    let (id, redrive) = peer.expect::<wire::Redrive>(Opcode::Redrive).await;
    let refusal = (refused > 0).then(|| ErrorCode::SchemaViolation.with(format!("{refused} broken")));
    peer.send(Opcode::Redriven, id, &wire::Redriven { redriven, refused, refusal, next_seq }).await;
    redrive
}

async fn purged(peer: &mut Peer, messages: u64, next_seq: Option<u64>) -> wire::DeadLetters {
    let (id, letters) = peer.expect::<wire::DeadLetters>(Opcode::DeadLettersPurge).await;
    peer.send(Opcode::QueuePurged, id, &wire::Purged { messages, next_seq }).await;
    letters
}

#[tokio::test]
async fn every_part_of_a_filter_reaches_the_wire() {
    let (client, mut peer, _broker) = connected().await;
    let filter = DeadLetterFilter {
        group: Some("billing".into()),
        id: Some(MessageId([7; 16])),
        reason: Some("rejected".into()),
        since: Some(UNIX_EPOCH + Duration::from_millis(1000)),
        until: Some(UNIX_EPOCH + Duration::from_millis(2000)),
        max: Some(9),
    };
    let (letters, asked) = tokio::join!(client.dead_letters("q", &filter, 4), async {
        let (id, asked) = peer.expect::<wire::DeadLetters>(Opcode::DeadLetters).await;
        peer.send(Opcode::Fetched, id, &wire::Fetched { messages: vec![leaseless(5)], next_seq: Some(6) }).await;
        asked
    });
    let expected = wire::DeadLetters {
        queue: "q".into(),
        group: "billing".into(),
        id: vec![7; 16].into(),
        reason: "rejected".into(),
        since_ms: Some(1000),
        until_ms: Some(2000),
        max: 9,
        from_seq: 4,
    };
    assert_eq!(asked, expected);
    let page = letters.unwrap();
    assert_eq!((page.letters.len(), page.letters[0].seq, &page.letters[0].payload[..]), (1, 5, &b"message 5"[..]));
    assert_eq!(page.next_seq, Some(6));
}

#[tokio::test]
async fn a_redrive_goes_on_where_the_broker_stopped_and_adds_up() {
    let (client, mut peer, _broker) = connected().await;
    let filter = DeadLetterFilter::default();
    let (total, asked) = tokio::join!(client.redrive("q", &filter, &RedriveTo::Group), async {
        [redriven(&mut peer, 1000, 0, Some(1000)).await, redriven(&mut peer, 0, 2, Some(3000)).await, redriven(&mut peer, 5, 1, None).await]
    });
    let total = total.unwrap();
    assert_eq!((total.redriven, total.refused), (1005, 3));
    assert_eq!(total.refusal.unwrap().message, "2 broken", "the first refusal counts");
    let from: Vec<u64> = asked.into_iter().map(|redrive| redrive.letters.unwrap().from_seq).collect();
    assert_eq!(from, [0, 1000, 3000]);
}

#[tokio::test]
async fn a_redrive_says_where_to() {
    let (client, mut peer, _broker) = connected().await;
    for (to, queue, all_groups) in
        [(RedriveTo::Group, "", false), (RedriveTo::AllGroups, "", true), (RedriveTo::Queue("fixed".into()), "fixed", false)]
    {
        let filter = DeadLetterFilter::default();
        let (total, asked) = tokio::join!(client.redrive("q", &filter, &to), redriven(&mut peer, 1, 0, None));
        assert_eq!(total.unwrap().redriven, 1);
        assert_eq!((asked.to.as_str(), asked.all_groups), (queue, all_groups));
    }
}

#[tokio::test]
async fn a_limit_counts_over_all_pieces() {
    let (client, mut peer, _broker) = connected().await;
    let filter = DeadLetterFilter { max: Some(1500), ..DeadLetterFilter::default() };
    let (removed, asked) = tokio::join!(client.purge_dead_letters("q", &filter), async {
        [purged(&mut peer, 1000, Some(1000)).await, purged(&mut peer, 500, Some(1500)).await]
    });
    assert_eq!(removed.unwrap(), 1500);
    assert_eq!(asked.map(|letters| (letters.from_seq, letters.max)), [(0, 1500), (1000, 500)]);
    let none = DeadLetterFilter { max: Some(0), ..DeadLetterFilter::default() };
    assert_eq!(client.purge_dead_letters("q", &none).await.unwrap(), 0, "nobody is asked");
}

#[tokio::test]
async fn a_broker_that_does_not_move_on_is_not_asked_for_ever() {
    let (client, mut peer, _broker) = connected().await;
    let filter = DeadLetterFilter::default();
    let (removed, _) = tokio::join!(client.purge_dead_letters("q", &filter), purged(&mut peer, 0, Some(0)));
    assert!(matches!(removed, Err(qwerq::Error::Protocol(_))), "{removed:?}");
}
