//! What a cluster does when its nodes do not reach each other.

use qwerq_proto::{ErrorCode, wire};

use crate::checker::Load;
use crate::nodes::Nodes;
use crate::session::{Ended, Session};

fn item() -> wire::PublishItem {
    wire::PublishItem { payload: bytes::Bytes::from_static(b"cut off"), ..wire::PublishItem::default() }
}

#[test]
fn a_leader_that_is_cut_off_acknowledges_nothing_and_another_takes_over() {
    let nodes = Nodes::formed(3);
    let leader = nodes.leader();
    let mut stale = Session::open(nodes.client(leader), &[]).expect("it leads");
    nodes.isolate(leader);
    match stale.publish("orders", item()) {
        Err(Ended::Error(error)) => assert_eq!(error.known_code(), Some(ErrorCode::NotLeader), "{error:?}"),
        Err(Ended::Gone) => {}
        Ok(result) => panic!("a leader without a quorum acknowledges {result:?}"),
    }
    let next = nodes.leader_but(&[leader]);
    let mut session = Session::open(nodes.client(next), &[]).expect("it leads");
    session.publish("orders", item()).expect("it leads");
    nodes.mend_all();
    nodes.until("the old leader follows", |nodes| nodes.status(leader).is_some_and(|status| status.leader == Some(next)));
}

#[test]
fn nothing_is_lost_while_leaders_are_cut_off() {
    let nodes = Nodes::formed(3);
    let load = Load::begin(nodes.clients());
    for _ in 0..3 {
        load.go_on_for(100);
        let leader = nodes.leader();
        nodes.isolate(leader);
        nodes.leader_but(&[leader]);
        load.go_on_for(50);
        nodes.mend_all();
    }
    load.go_on_for(100);
    load.check();
}

#[test]
fn a_leader_that_hears_nobody_makes_way() {
    let nodes = Nodes::formed(3);
    let load = Load::begin(nodes.clients());
    load.go_on_for(100);
    let leader = nodes.leader();
    // It is heard: the others' ways to it are open. But what it sends, and so their answers, are lost.
    nodes.followers(leader).into_iter().for_each(|follower| nodes.link(leader, follower).cut());
    nodes.leader_but(&[leader]);
    load.go_on_for(50);
    nodes.mend_all();
    load.go_on_for(100);
    load.check();
}

#[test]
fn a_follower_that_hears_nobody_does_not_disturb_the_others() {
    let nodes = Nodes::formed(3);
    let leader = nodes.leader();
    let deaf = nodes.followers(leader)[0];
    let term = nodes.status(leader).expect("it answers").term;
    let load = Load::begin(nodes.clients());
    let complaints = |nodes: &Nodes| nodes.log(deaf).matches("this node hears no leader").count();
    let before = complaints(&nodes);
    nodes.link(leader, deaf).cut();
    nodes.until("the deaf node misses its leader", |nodes| complaints(nodes) > before);
    load.go_on_for(400);
    nodes.mend_all();
    load.go_on_for(100);
    load.check();
    for id in [1, 2, 3] {
        let status = nodes.status(id).expect("it answers");
        assert_eq!((status.leader, status.term), (Some(leader), term), "no node has asked for votes while the others hear a leader");
    }
}
