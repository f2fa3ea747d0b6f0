//! Nodes that lose files, and nodes that are far behind.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};

use crate::checker::Load;
use crate::nodes::Nodes;
use crate::session::Session;

/// Publishes so much that logs are purged: a checkpoint is due at 64 MiB, and 160 MiB of the log are kept.
fn publish_much(nodes: &Nodes, leader: u64) -> u64 {
    const PAYLOAD_BYTES: usize = 512 << 10;
    const COUNT: u64 = 560;
    let mut session = Session::open(nodes.client(leader), &[]).expect("it leads");
    for number in 0..COUNT {
        let mut payload = vec![0; PAYLOAD_BYTES];
        payload[..8].copy_from_slice(&number.to_be_bytes());
        let item = wire::PublishItem { payload: Bytes::from(payload), ..wire::PublishItem::default() };
        session.publish("bulk", item).expect("it leads");
    }
    COUNT
}

#[test]
fn a_node_that_is_far_behind_gets_a_snapshot() {
    let mut nodes = Nodes::formed(3);
    let leader = nodes.leader();
    let behind = nodes.followers(leader)[0];
    nodes.kill(behind);
    let count = publish_much(&nodes, leader);
    nodes.until("the log is purged", |nodes| nodes.status(leader).is_some_and(|status| status.purged_index > 100));
    nodes.start(behind);
    nodes.until("the node has caught up", |nodes| {
        let status = nodes.status(leader);
        let member = status.and_then(|status| status.members.into_iter().find(|member| member.id == behind));
        member.is_some_and(|member| member.lag == Some(0))
    });
    nodes.until("the snapshot is in its place", |nodes| nodes.log(behind).contains("has taken the place of this node's files"));
    assert!(!nodes.log(behind).contains("DAMAGED"), "{}", nodes.log(behind));
    // Only it and one more are left; whoever leads, the messages are there.
    nodes.kill(leader);
    let next = nodes.leader();
    nodes.succeed(next, &["cluster", "status"]);
    if next != behind {
        nodes.succeed(next, &["cluster", "transfer", &behind.to_string()]);
    }
    let mut session = Session::open(nodes.client(behind), &[]).expect("it leads");
    let info: wire::QueueInfo =
        session.ask(Opcode::QueueInfo, &wire::QueueName { name: "bulk".to_owned() }, Opcode::QueueInfoResponse).expect("it leads");
    assert_eq!(info.depth, count);
    let fetch = wire::Fetch { queue: "bulk".to_owned(), max: 3, ..wire::Fetch::default() };
    let fetched: wire::Fetched = session.ask(Opcode::Fetch, &fetch, Opcode::Fetched).expect("it leads");
    for (number, message) in (0u64..).zip(&fetched.messages) {
        assert_eq!(message.payload[..8], number.to_be_bytes());
    }
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[offset] ^= 0x55;
    fs::write(path, bytes).expect("a file");
}

#[test]
fn a_node_whose_journal_is_damaged_says_so_and_heals() {
    let mut nodes = Nodes::formed(3);
    let load = Load::begin(nodes.clients());
    load.go_on_for(300);
    let leader = nodes.leader();
    let damaged = nodes.followers(leader)[0];
    // The first time was when it joined.
    let caught_up = |nodes: &Nodes| nodes.log(damaged).matches("this node has everything that was committed, and may vote").count();
    let before = caught_up(&nodes);
    nodes.kill(damaged);
    let journal = nodes.data(damaged).join("journal");
    let mut segments: Vec<_> = fs::read_dir(&journal).expect("a journal").map(|entry| entry.expect("an entry").path()).collect();
    segments.sort();
    // Beyond the headers of the segment: an early batch, which later ones prove to have been there.
    let segment = segments
        .iter()
        .find(|path| fs::read(path).is_ok_and(|bytes| bytes.len() > 8_192 && bytes[4_200..8_192].iter().any(|byte| *byte != 0)));
    flip(segment.expect("a segment with records"), 4_300);
    load.go_on_for(50);
    nodes.start(damaged);
    load.nodes(nodes.clients());
    nodes.until("the node heals", |nodes| caught_up(nodes) > before);
    let log = nodes.log(damaged);
    assert!(log.contains("THIS NODE'S FILES ARE DAMAGED"), "{log}");
    assert!(log.contains("is corrupt at byte"), "{log}");
    // Without the leader, the two that are left need each other.
    nodes.kill(leader);
    load.nodes(nodes.clients());
    load.go_on_for(50);
    load.check();
}

#[test]
fn a_node_whose_votes_are_damaged_does_not_start() {
    let mut nodes = Nodes::formed(3);
    let follower = nodes.followers(nodes.leader())[0];
    nodes.kill(follower);
    let points = nodes.data(follower).join("cluster.json");
    flip(&points, 20);
    let output = std::process::Command::new(crate::support::broker::BINARY)
        .args(["serve", "--port", "0", "--metrics-port", "0", "--cluster-bind", "127.0.0.1:0", "--cluster-node-id"])
        .arg(follower.to_string())
        .arg("--data-dir")
        .arg(nodes.data(follower))
        .output()
        .expect("the binary runs");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cluster.json is damaged") && said.contains("qwer-q cluster remove"), "{said}");
}
