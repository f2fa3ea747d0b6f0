//! Nodes come and go.

use qwerq_proto::{Opcode, wire};

use crate::checker::Load;
use crate::nodes::Nodes;
use crate::session::Session;

#[test]
fn a_broker_that_ran_alone_grows_to_three_nodes_with_all_that_it_has() {
    let mut nodes = Nodes::new(3, 3);
    let data = nodes.data(1);
    {
        let flags = ["--data-dir", data.to_str().expect("text"), "--port", "0", "--metrics-port", "0"];
        let mut alone = std::process::Command::new(crate::support::broker::BINARY);
        let mut alone = alone.arg("serve").args(flags).stdout(std::process::Stdio::piped()).spawn().expect("the binary starts");
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(alone.stdout.take().expect("piped")), &mut line).expect("text");
        let address = line.split_once("broker ").and_then(|(_, rest)| rest.split(',').next()).expect("an address");
        let mut session = Session::open(address.parse().expect("an address"), &[]).expect("it serves");
        for number in 0..500 {
            let item = wire::PublishItem { payload: format!("old {number}").into(), ..wire::PublishItem::default() };
            session.publish("old", item).expect("it serves");
        }
        alone.kill().expect("it runs");
        alone.wait().expect("it was ours");
    }
    nodes.start(2);
    nodes.start(3);
    nodes.start_with(1, &["--cluster-bootstrap"]);
    nodes.until_members_are(&[1, 2, 3]);
    let first = nodes.leader();
    nodes.kill(first);
    let next = nodes.leader();
    let mut session = Session::open(nodes.client(next), &[]).expect("it leads");
    let info: wire::QueueInfo =
        session.ask(Opcode::QueueInfo, &wire::QueueName { name: "old".to_owned() }, Opcode::QueueInfoResponse).expect("it leads");
    assert_eq!(info.depth, 500);
    let fetch = wire::Fetch { queue: "old".to_owned(), max: 500, ..wire::Fetch::default() };
    let fetched: wire::Fetched = session.ask(Opcode::Fetch, &fetch, Opcode::Fetched).expect("it leads");
    assert!(!fetched.messages.is_empty());
    for (number, message) in fetched.messages.iter().enumerate() {
        assert_eq!(message.payload, format!("old {number}"));
    }
}

#[test]
fn a_dead_node_is_replaced_under_load() {
    let mut nodes = Nodes::new(4, 3);
    nodes.start(2);
    nodes.start(3);
    nodes.start_with(1, &["--cluster-bootstrap"]);
    nodes.until_members_are(&[1, 2, 3]);
    let load = Load::begin(nodes.clients());
    load.go_on_for(100);
    let dead = nodes.followers(nodes.leader())[0];
    nodes.kill(dead);
    load.go_on_for(50);
    let leader = nodes.leader();
    // It is a member still, so it need not be added: what is wrong with it is said.
    let address = nodes.link(leader, dead).address;
    nodes.until("adding the dead node is refused", |nodes| {
        let added = nodes.run(leader, &["cluster", "add", &format!("{dead}={address}")]);
        String::from_utf8_lossy(&added.stderr).contains("is a member already and does not answer")
    });
    // Nor can it lead, and the one that does goes on.
    let handed = nodes.run(leader, &["cluster", "transfer", &dead.to_string()]);
    assert!(String::from_utf8_lossy(&handed.stderr).contains("does not answer, so it cannot lead"), "{handed:?}");
    assert!(!nodes.log(leader).contains("this node hands over"), "{}", nodes.log(leader));
    nodes.succeed(leader, &["cluster", "remove", &dead.to_string(), "--yes"]);
    nodes.start(4);
    let address = nodes.link(leader, 4).address;
    nodes.succeed(leader, &["cluster", "add", &format!("4={address}")]);
    let mut expected: Vec<u64> = [1, 2, 3, 4].into_iter().filter(|id| *id != dead).collect();
    expected.sort_unstable();
    nodes.until_members_are(&expected);
    load.nodes(nodes.clients());
    load.go_on_for(50);
    // The new node has all of it: with the old leader gone, a quorum needs it.
    nodes.kill(leader);
    load.nodes(nodes.clients());
    load.go_on_for(50);
    load.check();
}

#[test]
fn a_node_that_was_removed_and_runs_on_is_not_ready() {
    let nodes = Nodes::formed(3);
    let leader = nodes.leader();
    let removed = nodes.followers(leader)[0];
    let health = |nodes: &Nodes| nodes.run(removed, &["health", "--address", &nodes.http(removed).to_string()]);
    nodes.until("the follower is ready", |nodes| health(nodes).status.success());
    nodes.succeed(leader, &["cluster", "remove", &removed.to_string(), "--yes"]);
    nodes.until("the removed node is not ready", |nodes| String::from_utf8_lossy(&health(nodes).stderr).contains("no leader"));
}

#[test]
fn leadership_is_handed_over_without_a_loss() {
    let nodes = Nodes::formed(3);
    let load = Load::begin(nodes.clients());
    for _ in 0..2 {
        load.go_on_for(100);
        let leader = nodes.leader();
        let next = nodes.followers(leader)[0];
        nodes.succeed(leader, &["cluster", "transfer", &next.to_string()]);
        assert_eq!(nodes.leader(), next);
    }
    load.go_on_for(100);
    load.check();
}

#[test]
fn a_leader_that_is_told_to_stop_hands_over_first() {
    let mut nodes = Nodes::formed(3);
    let load = Load::begin(nodes.clients());
    load.go_on_for(100);
    let leader = nodes.leader();
    nodes.stop(leader);
    load.nodes(nodes.clients());
    load.go_on_for(100);
    let told = nodes.followers(leader).into_iter().filter(|id| nodes.log(*id).contains("the leader hands over to this node")).count();
    assert_eq!(told, 1, "{}", nodes.log(leader));
    nodes.start(leader);
    load.nodes(nodes.clients());
    load.go_on_for(50);
    load.check();
}

#[test]
fn a_leader_that_is_told_to_stop_hands_over_past_a_dead_node() {
    let mut nodes = Nodes::formed(3);
    let leader = nodes.leader();
    // Of two that are level the lower number comes first.
    let (dead, next) = (nodes.followers(leader)[0], nodes.followers(leader)[1]);
    nodes.kill(dead);
    nodes.stop(leader);
    assert!(nodes.log(next).contains("the leader hands over to this node"), "{}", nodes.log(leader));
}

#[test]
fn a_node_that_died_before_its_leader_is_shown_as_silent() {
    let mut nodes = Nodes::formed(3);
    let before = nodes.leader();
    nodes.kill(before);
    let leader = nodes.leader();
    nodes.until("the dead node is silent", |nodes| {
        let shown = nodes.succeed(leader, &["cluster", "status"]);
        let row = shown.lines().find(|line| line.trim_start().starts_with(&before.to_string()));
        row.is_some_and(|row| row.ends_with("no answer"))
    });
}

#[test]
fn one_node_alone_is_a_cluster_too() {
    let mut nodes = Nodes::new(1, 1);
    nodes.start_with(1, &["--cluster-bootstrap"]);
    let load = Load::begin(nodes.clients());
    load.go_on_for(100);
    nodes.kill(1);
    nodes.start(1);
    load.nodes(nodes.clients());
    load.go_on_for(100);
    load.check();
}

#[test]
fn directories_are_not_mixed_up() {
    let mut nodes = Nodes::new(1, 1);
    nodes.start_with(1, &["--cluster-bootstrap"]);
    nodes.leader();
    nodes.kill(1);
    let data = nodes.data(1);
    let refusal = |flags: &[&str]| {
        let output = std::process::Command::new(crate::support::broker::BINARY)
            .args(["serve", "--port", "0", "--metrics-port", "0", "--data-dir", data.to_str().expect("text")])
            .args(flags)
            .output()
            .expect("the binary runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let alone = refusal(&[]);
    assert!(alone.contains("--cluster flags"), "{alone}");
    let other = refusal(&["--cluster-node-id", "2", "--cluster-bind", "127.0.0.1:0"]);
    assert!(other.contains("--cluster-node-id 1"), "{other}");
}
