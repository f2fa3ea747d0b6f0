//! What a cluster does when its leader goes.

use qwerq_proto::{ErrorCode, wire};

use crate::checker::Load;
use crate::nodes::Nodes;
use crate::session::{Ended, Session};

fn payload(text: &str) -> wire::PublishItem {
    wire::PublishItem { payload: bytes::Bytes::copy_from_slice(text.as_bytes()), ..wire::PublishItem::default() }
}

#[test]
fn a_follower_sends_clients_to_the_leader() {
    let nodes = Nodes::formed(3);
    let leader = nodes.leader();
    for follower in nodes.followers(leader) {
        nodes.until("the follower knows the leader", |nodes| nodes.status(follower).is_some_and(|status| status.leader == Some(leader)));
        let Err(Ended::Error(error)) = Session::open(nodes.client(follower), &[]) else { panic!("a follower serves nobody") };
        assert_eq!(error.known_code(), Some(ErrorCode::NotLeader));
        assert_eq!(error.details["leader"], nodes.client(leader).to_string());
        assert_eq!(error.details["leader_http"], nodes.http(leader).to_string());
    }
}

#[test]
fn what_a_killed_leader_has_acknowledged_is_delivered_by_the_next() {
    let mut nodes = Nodes::formed(3);
    let load = Load::begin(nodes.clients());
    for _ in 0..3 {
        load.go_on_for(200);
        let leader = nodes.leader();
        nodes.kill(leader);
        load.nodes(nodes.clients());
        load.go_on_for(100);
        nodes.start(leader);
        load.nodes(nodes.clients());
    }
    load.go_on_for(100);
    let gap = load.check();
    println!("the longest gap between two acknowledgements was {gap:?}");
}

#[test]
fn all_nodes_may_be_killed_at_once() {
    let mut nodes = Nodes::formed(3);
    let load = Load::begin(nodes.clients());
    for _ in 0..2 {
        load.go_on_for(200);
        (1..=3).for_each(|id| nodes.kill(id));
        (1..=3).for_each(|id| nodes.start(id));
        load.nodes(nodes.clients());
    }
    load.go_on_for(100);
    load.check();
}

#[test]
fn five_nodes_go_on_without_two() {
    let mut nodes = Nodes::formed(5);
    let load = Load::begin(nodes.clients());
    load.go_on_for(100);
    for _ in 0..2 {
        let leader = nodes.leader();
        nodes.kill(leader);
        load.nodes(nodes.clients());
        load.go_on_for(100);
    }
    load.check();
}

#[test]
fn a_leader_that_was_paused_serves_nobody_when_it_wakes() {
    let nodes = Nodes::formed(3);
    let leader = nodes.leader();
    let mut stale = Session::open(nodes.client(leader), &[]).expect("it leads");
    stale.publish("orders", payload("before")).expect("it leads");
    nodes.pause(leader);
    let next = nodes.leader_but(&[leader]);
    let mut session = Session::open(nodes.client(next), &[]).expect("it leads");
    session.publish("orders", payload("meanwhile")).expect("it leads");
    nodes.resume(leader);
    // Whether it hears of the other leader first or not: this publish is not acknowledged.
    match stale.publish("orders", payload("stale")) {
        Err(Ended::Error(error)) => assert_eq!(error.known_code(), Some(ErrorCode::NotLeader), "{error:?}"),
        Err(Ended::Gone) => {}
        Ok(result) => panic!("a stale leader acknowledges {result:?}"),
    }
    nodes.until("the old leader follows", |nodes| nodes.status(leader).is_some_and(|status| status.leader == Some(next)));
}

#[test]
fn nothing_is_lost_while_leaders_are_paused() {
    let nodes = Nodes::formed(3);
    let load = Load::begin(nodes.clients());
    for _ in 0..3 {
        load.go_on_for(100);
        let leader = nodes.leader();
        nodes.pause(leader);
        nodes.leader_but(&[leader]);
        load.go_on_for(50);
        nodes.resume(leader);
    }
    load.go_on_for(100);
    load.check();
}
