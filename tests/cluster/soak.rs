//! Whatever may happen to a cluster, one thing after another, under load: a few rounds in every test run, and for as long as
//! `cargo xtask soak` says.

use std::time::{Duration, Instant};

use crate::checker::Load;
use crate::nodes::Nodes;
use crate::rng::Rng;

/// Rounds where nobody says for how long.
const ROUNDS: u64 = 5;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
}

/// Something happens to the cluster, publishes go on where they can, and all is well again.
fn round(rng: &mut Rng, nodes: &mut Nodes, load: &Load) -> String {
    let all: Vec<u64> = (1..=nodes.count()).collect();
    let leader = nodes.leader();
    let followers = nodes.followers(leader);
    let follower = rng.pick(&followers);
    match rng.below(10) {
        0 => {
            nodes.kill(leader);
            load.nodes(nodes.clients());
            load.go_on_for(50);
            nodes.start(leader);
            format!("kill -9 of {leader}, which leads")
        }
        1 => {
            nodes.kill(follower);
            load.go_on_for(100);
            nodes.start(follower);
            format!("kill -9 of {follower}")
        }
        2 => {
            all.iter().for_each(|id| nodes.kill(*id));
            all.iter().for_each(|id| nodes.start(*id));
            "kill -9 of all".to_owned()
        }
        3 => {
            nodes.pause(leader);
            nodes.leader_but(&[leader]);
            load.go_on_for(30);
            nodes.resume(leader);
            format!("SIGSTOP of {leader}, which leads")
        }
        4 => {
            nodes.pause(follower);
            load.go_on_for(100);
            nodes.resume(follower);
            format!("SIGSTOP of {follower}")
        }
        5 => {
            nodes.isolate(leader);
            nodes.leader_but(&[leader]);
            load.go_on_for(30);
            format!("{leader}, which leads, is cut off")
        }
        6 => {
            nodes.isolate(leader);
            nodes.leader_but(&[leader]);
            nodes.kill(leader);
            load.nodes(nodes.clients());
            load.go_on_for(30);
            nodes.start(leader);
            format!("{leader}, which leads, is cut off and killed")
        }
        7 => {
            followers.iter().for_each(|follower| nodes.link(leader, *follower).cut());
            nodes.leader_but(&[leader]);
            load.go_on_for(30);
            format!("{leader}, which leads, hears nobody")
        }
        8 => {
            let other = rng.pick(&all.iter().copied().filter(|id| *id != follower).collect::<Vec<_>>());
            nodes.link(follower, other).cut();
            load.go_on_for(100);
            format!("{follower} does not reach {other}")
        }
        _ => {
            // Refused while the other is behind, which is as well.
            nodes.run(leader, &["cluster", "transfer", &follower.to_string()]);
            format!("{leader} is to hand over to {follower}")
        }
    }
}

#[test]
fn nothing_is_lost_whatever_happens() {
    let seed = variable("QWERQ_SOAK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let count = variable("QWERQ_SOAK_NODES").unwrap_or(3);
    let seconds = variable("QWERQ_SOAK_SECONDS").map(Duration::from_secs);
    println!("seed {seed}, {count} nodes");
    let mut rng = Rng::new(seed);
    let mut nodes = Nodes::formed(count);
    let load = Load::begin(nodes.clients());
    load.go_on_for(100);
    let began = Instant::now();
    let mut rounds = 0;
    while seconds.map_or(rounds < ROUNDS, |seconds| began.elapsed() < seconds) {
        let what = round(&mut rng, &mut nodes, &load);
        nodes.mend_all();
        load.nodes(nodes.clients());
        load.go_on_for(50);
        rounds += 1;
        println!("{:>6.1} s  {what}", began.elapsed().as_secs_f64());
    }
    let acknowledged = load.acknowledged();
    let gap = load.check();
    println!("{rounds} rounds, {acknowledged} acknowledged publishes, none lost, twice or out of order; the longest gap was {gap:.1?}");
}
