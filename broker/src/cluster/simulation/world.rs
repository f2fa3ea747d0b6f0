//! A run: a cluster, its clients, and a while of everything going wrong; then everything goes well, and what was promised must be there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openraft::ChangeMembers;
use tempfile::TempDir;

use super::clients::Clients;
use super::disk::Failure;
use super::ledger::{Covered, Ledger};
use super::network::{Net, Weather};
use super::node::{Node, address};
use super::runtime::{self, WORLD, dice, spawn_on, up_to};

/// What clocks may differ by, in millionths, either way.
const DRIFT: usize = 40_000;

/// How long a run may take to do what is left once all is well.
const RECOVERY: Duration = Duration::from_secs(120);

/// How long a cluster may take to find another leader, when a majority is well.
const SIEGE_MAX: Duration = Duration::from_secs(20);

/// The number of the publisher that publishes then.
const SIEGE: u64 = 9;

pub(super) struct World {
    home: TempDir,
    ledger: Ledger,
    net: Net,
    clients: Clients,
    nodes: Vec<Node>,
    /// Nodes that are no members any more.
    removed: Arc<Mutex<BTreeSet<u64>>>,
    next_node: u64,
    /// What comes back when, by true time.
    returns: Vec<(Duration, Return)>,
    /// A change of the members is under way.
    changing: Arc<AtomicBool>,
    fails: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Return {
    Node(u64),
    Awake(u64),
    /// The second half of [`World::ambush`].
    Ambush(u64),
    /// A disk is as fast as before.
    Swift(u64),
    Weather,
}

fn home() -> TempDir {
    // Nothing here survives the run, so memory is as good as a disk.
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// A run of a seed: what it covered, and its trace.
pub(super) fn run(seed: u64, prints: bool, fails: bool) -> (Covered, Vec<String>) {
    let _ending = runtime::begin(seed);
    let mut world = World::new(prints, fails);
    world.storm();
    if fails {
        world.siege();
    }
    world.recover();
    world.judge();
    let outcome = (world.ledger.covered(), world.ledger.trace());
    for node in &mut world.nodes {
        node.crash(false);
    }
    outcome
}

impl World {
    fn new(prints: bool, fails: bool) -> World {
        let ledger = Ledger::new(prints);
        let net = Net::new(ledger.clone());
        let clients = Clients {
            net: net.clone(),
            publishing: Arc::default(),
            calm: Arc::new(AtomicBool::new(!fails)),
            sessions: Arc::new(AtomicU64::new(1)),
        };
        let home = home();
        let size = dice(|rng| rng.pick(&[3, 3, 3, 4, 5]));
        let members: BTreeSet<u64> = (1..=size).collect();
        let mut world = World {
            home,
            ledger,
            net,
            clients,
            nodes: Vec::new(),
            removed: Arc::default(),
            next_node: size + 1,
            returns: Vec::new(),
            changing: Arc::default(),
            fails,
        };
        for id in &members {
            let mut node = world.make(*id);
            node.found(&members);
            node.start();
            world.nodes.push(node);
        }
        let publishers = dice(|rng| 2 + rng.below(3));
        for publisher in 0..u64::try_from(publishers).expect("few") {
            let count = dice(|rng| u64::try_from(8 + rng.below(25)).expect("few"));
            world.clients.publishing.fetch_add(1, Ordering::Relaxed);
            spawn_on(WORLD, world.clients.clone().publish(publisher + 1, publisher * 1_000, count));
        }
        for _ in 0..dice(|rng| 2 + rng.below(2)) {
            spawn_on(WORLD, world.clients.clone().consume());
        }
        spawn_on(WORLD, world.clients.clone().look());
        world
    }

    fn make(&self, id: u64) -> Node {
        let drift = dice(|rng| rng.below(2 * DRIFT + 1));
        runtime::drift(id, i64::try_from(drift).expect("small") - i64::try_from(DRIFT).expect("small"));
        Node::new(id, &self.net, self.home.path())
    }

    /// Lets time pass.
    fn pass(&mut self, duration: Duration) {
        let until = runtime::now() + duration;
        loop {
            while runtime::step() {
                self.look_after_nodes();
            }
            self.look_after_nodes();
            if runtime::step() {
                continue;
            }
            let at = self.returns.iter().map(|(at, _)| *at).min();
            if at.is_some_and(|at| at <= runtime::now()) {
                self.come_back();
                continue;
            }
            if !runtime::advance(at.map_or(until, |at| at.min(until))) && runtime::now() >= until {
                return;
            }
        }
    }

    fn look_after_nodes(&mut self) {
        for at in 0..self.nodes.len() {
            self.nodes[at].serve_disk();
            if let Some(why) = self.nodes[at].is_over() {
                let node = &mut self.nodes[at];
                self.ledger.note(node.id, why);
                if why.contains("snapshot") {
                    node.crash(false);
                    node.start();
                } else {
                    if why.contains("disk") {
                        self.ledger.count(|covered| &mut covered.failed_syncs);
                    }
                    node.crash(why.contains("write"));
                    let id = node.id;
                    self.returns.push((runtime::now() + up_to(10, 1_000), Return::Node(id)));
                }
            }
        }
    }

    fn come_back(&mut self) {
        let now = runtime::now();
        let due: Vec<Return> = self.returns.extract_if(.., |(at, _)| *at <= now).map(|(_, what)| what).collect();
        for what in due {
            match what {
                Return::Node(id) => {
                    if let Some(node) = self.nodes.iter_mut().find(|node| node.id == id && node.up.is_none()) {
                        node.start();
                    }
                }
                Return::Awake(id) => {
                    self.ledger.note(id, "goes on");
                    runtime::pause(id, false);
                }
                Return::Ambush(id) => {
                    let slow = self.nodes.iter().position(|node| node.id == id && node.up.is_some());
                    for (at, power) in [(slow, true), (self.leader(), false)] {
                        if let Some(at) = at.filter(|at| self.nodes[*at].up.is_some()) {
                            self.crash(at, power);
                        }
                    }
                }
                Return::Swift(id) => self.nodes.iter_mut().filter(|node| node.id == id).for_each(|node| node.slow = false),
                Return::Weather => {
                    self.ledger.note(WORLD, "has fair weather");
                    self.net.set_weather(Weather::fair());
                }
            }
        }
    }

    /// The while of everything going wrong.
    fn storm(&mut self) {
        let until = Duration::from_secs(dice(|rng| u64::try_from(6 + rng.below(8)).expect("few")));
        // A cluster that has nothing yet is dull.
        self.pass(up_to(500, 2_500));
        while runtime::now() < until {
            if self.fails {
                self.go_wrong();
            }
            self.pass(up_to(50, 900));
        }
    }

    fn later(&mut self, from_ms: usize, to_ms: usize, what: Return) {
        self.returns.push((runtime::now() + up_to(from_ms, to_ms), what));
    }

    /// A node that is up.
    fn somebody(&self) -> Option<usize> {
        let up: Vec<usize> = (0..self.nodes.len()).filter(|at| self.nodes[*at].up.is_some()).collect();
        (!up.is_empty()).then(|| up[dice(|rng| rng.below(up.len()))])
    }

    /// Lets those go that were removed, as an operator would.
    fn let_go(&mut self) {
        let removed = std::mem::take(&mut *self.removed.lock().unwrap());
        self.nodes.retain_mut(|node| {
            let stays = !removed.contains(&node.id);
            if !stays {
                self.ledger.note(node.id, "is let go");
                node.crash(false);
            }
            stays
        });
    }

    fn go_wrong(&mut self) {
        self.let_go();
        let Some(at) = self.somebody() else { return };
        let id = self.nodes[at].id;
        if let Some(slow) = self.nodes.iter().position(|node| node.slow && node.up.is_some())
            && dice(|rng| rng.percent(30))
        {
            return self.lose_what_is_not_synced(slow);
        }
        match dice(|rng| rng.below(100)) {
            0..18 => self.cut(id),
            18..26 => {
                self.ledger.note(id, "has a slow disk");
                self.ledger.count(|covered| &mut covered.slow_disks);
                self.nodes[at].slow = true;
                self.later(500, 4_000, Return::Swift(id));
            }
            26..31 => self.ambush(),
            31..37 => {
                let mut weather = self.net.weather();
                (weather.loss, weather.repeats) = dice(|rng| (rng.below(25), rng.below(20)));
                weather.delay_ms = dice(|rng| rng.pick(&[2, 10, 60]));
                self.ledger.note(WORLD, format!("has bad weather: {weather:?}"));
                self.net.set_weather(weather);
                self.later(200, 3_000, Return::Weather);
            }
            37..47 => {
                self.ledger.note(id, "is paused");
                self.ledger.count(|covered| &mut covered.pauses);
                runtime::pause(id, true);
                self.later(50, 3_000, Return::Awake(id));
            }
            47..63 => {
                let power = dice(|rng| rng.percent(60));
                self.crash(at, power);
            }
            63..70 => {
                // All at once.
                self.ledger.note(WORLD, "loses its power");
                for at in 0..self.nodes.len() {
                    if self.nodes[at].up.is_some() {
                        self.crash(at, true);
                    }
                }
            }
            70..78 => {
                let (after, how) = dice(|rng| (u64::try_from(rng.below(30)).expect("few"), rng.pick(&[Failure::Crash, Failure::Sync])));
                self.ledger.note(id, format!("is to fail by {how:?} after {after} steps of its disk"));
                self.nodes[at].journal.arm(after, how);
            }
            78..84 => self.damage(at),
            84..88 => {
                if let Some(end) = self.net.end(id) {
                    self.ledger.note(id, "is told to ask for votes");
                    spawn_on(id, async move { drop(end.raft.trigger().elect().await) });
                }
            }
            _ => self.change_members(),
        }
    }

    /// The node that serves.
    fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(|node| node.up.is_some() && node.shown().serving.is_some())
    }

    /// The worst moment for a node that promises what it has not synced: it has a slow disk, the leader needs it, since another one is away; then
    /// it loses its power, and the leader is killed.
    fn ambush(&mut self) {
        let Some(leader) = self.leader() else { return };
        let others: Vec<usize> = (0..self.nodes.len()).filter(|at| *at != leader && self.nodes[*at].up.is_some()).collect();
        if others.len() < 2 {
            return;
        }
        let first = dice(|rng| rng.below(others.len()));
        let (slow, away) = (others[first], others[(first + 1) % others.len()]);
        let id = self.nodes[slow].id;
        self.ledger.note(id, "has a slow disk, and the leader needs it");
        self.ledger.count(|covered| &mut covered.slow_disks);
        self.nodes[slow].slow = true;
        self.crash(away, false);
        self.later(50, 900, Return::Ambush(id));
        self.later(1_000, 4_000, Return::Swift(id));
    }

    /// A node with a slow disk loses its power, and another one is not there to say what that had.
    fn lose_what_is_not_synced(&mut self, slow: usize) {
        self.crash(slow, true);
        let Some(other) = self.somebody() else { return };
        match dice(|rng| rng.below(3)) {
            0 => self.crash(other, false),
            1 => self.cut(self.nodes[other].id),
            _ => {}
        }
    }

    fn crash(&mut self, at: usize, power: bool) {
        let node = &mut self.nodes[at];
        let id = node.id;
        self.ledger.note(id, if power { "loses its power" } else { "is killed" });
        self.ledger.count(|covered| &mut covered.crashes);
        node.crash(power);
        self.later(0, 2_500, Return::Node(id));
    }

    /// Cuts a node off, or some links of it, or the links of one direction; its clients too, or not.
    fn cut(&mut self, id: u64) {
        let mut weather = self.net.weather();
        let (to, from, all, clients) = dice(|rng| (rng.percent(75), rng.percent(75), rng.percent(70), rng.percent(30)));
        for other in self.net.nodes() {
            if other == id || !(all || dice(|rng| rng.percent(50))) {
                continue;
            }
            if to {
                weather.cut.insert((other, id));
            }
            if from {
                weather.cut.insert((id, other));
            }
        }
        if clients {
            weather.cut.extend([(WORLD, id), (id, WORLD)]);
        }
        self.ledger.note(WORLD, format!("cuts links: {:?}", weather.cut));
        self.ledger.count(|covered| &mut covered.cuts);
        self.net.set_weather(weather);
        self.later(200, 4_000, Return::Weather);
    }

    /// Damages a node's journal. Not two at a time: what two of three have lost is lost.
    fn damage(&mut self, at: usize) {
        if self.is_weakened() || self.changing.load(Ordering::Relaxed) {
            return;
        }
        let node = &mut self.nodes[at];
        let id = node.id;
        node.crash(false);
        if dice(|rng| rng.percent(30)) {
            self.ledger.note(id, "has an empty disk");
            self.ledger.count(|covered| &mut covered.lost_disks);
            node.lose_disk();
        } else if node.damage() {
            self.ledger.note(id, "has damaged files");
        }
        // At once: while it is away it counts as nobody's damage.
        node.start();
    }

    /// Takes a node up, lets one go, or both.
    fn change_members(&mut self) {
        if self.changing.load(Ordering::Relaxed) || self.is_weakened() {
            return;
        }
        let Some(leader) = self.nodes.iter().find(|node| node.shown().serving.is_some()).map(|node| node.id) else { return };
        let Some(end) = self.net.end(leader) else { return };
        let voters: BTreeSet<u64> = end.raft.metrics().borrow().membership_config.membership().voter_ids().collect();
        let shrinks = voters.len() > 3 && dice(|rng| rng.percent(50));
        let grows = voters.len() < 5 && !shrinks;
        let leaves = (shrinks || dice(|rng| rng.percent(50))).then(|| {
            let others: Vec<u64> = voters.iter().copied().filter(|id| *id != leader).collect();
            others[dice(|rng| rng.below(others.len()))]
        });
        let joins = grows.then(|| {
            let id = self.next_node;
            self.next_node += 1;
            let mut node = self.make(id);
            node.start();
            self.nodes.push(node);
            id
        });
        let leaves = leaves.filter(|_| voters.len() > 3 || joins.is_some());
        self.ledger.note(WORLD, format!("changes the members at node {leader}: {joins:?} joins, {leaves:?} leaves"));
        self.changing.store(true, Ordering::Relaxed);
        let (ledger, removed, done) = (self.ledger.clone(), Arc::clone(&self.removed), Finish(Arc::clone(&self.changing)));
        spawn_on(leader, async move {
            // However it ends.
            let _done = done;
            if let Some(id) = joins {
                let added = end.raft.add_learner(id, address(id), false).await.is_ok();
                runtime::sleep(Duration::from_millis(300)).await;
                if !added || end.raft.change_membership(ChangeMembers::AddVoterIds([id].into()), true).await.is_err() {
                    return;
                }
                ledger.note(id, "votes now");
                ledger.count(|covered| &mut covered.joined);
            }
            if let Some(id) = leaves
                && end.raft.change_membership(ChangeMembers::RemoveVoters([id].into()), false).await.is_ok()
            {
                ledger.note(id, "was removed");
                ledger.count(|covered| &mut covered.left);
                removed.lock().unwrap().insert(id);
            }
        });
    }

    /// All is well but that the leader is cut off, or heard by nobody, or its disk hangs, while it has more than the others, and one of those more than the rest:
    /// another one must lead soon.
    fn siege(&mut self) {
        self.calm_down();
        let until = runtime::now() + RECOVERY;
        let leader = loop {
            if let Some(leader) = self.leader()
                && !self.changing.load(Ordering::Relaxed)
                && !self.is_weakened()
            {
                break self.nodes[leader].id;
            }
            assert!(runtime::now() < until, "no node leads, though all is well");
            self.pass(Duration::from_millis(100));
        };
        let others: Vec<u64> = self.voters(leader).into_iter().filter(|id| *id != leader).collect();
        self.clients.publishing.fetch_add(1, Ordering::Relaxed);
        spawn_on(WORLD, self.clients.clone().publish(SIEGE, SIEGE * 1_000, 30));
        self.pass(up_to(0, 400));
        let mut weather = Weather::fair();
        weather.cut.insert((leader, others[dice(|rng| rng.below(others.len()))]));
        self.net.set_weather(weather);
        self.pass(up_to(0, 600));
        let mut weather = Weather::fair();
        match dice(|rng| rng.below(3)) {
            0 => drop(weather.mute.insert(leader)),
            1 => weather.cut.extend(self.nodes.iter().flat_map(|other| [(leader, other.id), (other.id, leader)])),
            _ => self.nodes.iter_mut().filter(|node| node.id == leader).for_each(|node| node.hangs = true),
        }
        self.ledger.note(leader, format!("is under siege: {weather:?}"));
        self.ledger.count(|covered| &mut covered.sieges);
        self.net.set_weather(weather);
        // A disk that was to fail may do so now; the node is back within a second.
        let until = runtime::now() + SIEGE_MAX;
        while !self.nodes.iter().any(|node| node.id != leader && node.up.is_some() && node.shown().serving.is_some()) {
            assert!(runtime::now() < until, "no other node leads while node {leader} is under siege");
            self.pass(Duration::from_millis(100));
        }
        self.pass(up_to(0, 3_000));
    }

    /// What went wrong does not any more.
    fn calm_down(&mut self) {
        self.returns.clear();
        self.net.set_weather(Weather::fair());
        for node in &mut self.nodes {
            runtime::pause(node.id, false);
            (node.slow, node.hangs) = (false, false);
            if node.up.is_none() {
                node.start();
            }
        }
    }

    /// Whether a node is down or heals. One that was never taken up, because its leader fell in the middle of that, does not count.
    fn is_weakened(&mut self) -> bool {
        let voters = self.leader().map(|at| self.nodes[at].id).map(|leader| self.voters(leader));
        let counts = |id: u64| voters.as_ref().is_none_or(|voters| voters.contains(&id));
        self.nodes.iter_mut().any(|node| counts(node.id) && (node.up.is_none() || node.is_healing()))
    }

    /// Who votes, as a node sees it.
    fn voters(&self, id: u64) -> Vec<u64> {
        let Some(end) = self.net.end(id) else { return Vec::new() };
        let metrics = end.raft.metrics();
        let metrics = metrics.borrow();
        metrics.membership_config.membership().voter_ids().collect()
    }

    /// Lets everything go well until all is done.
    fn recover(&mut self) {
        self.ledger.note(WORLD, "is well from now on");
        self.clients.calm.store(true, Ordering::Relaxed);
        self.calm_down();
        let until = runtime::now() + RECOVERY;
        while !self.is_done() {
            let missing = (self.ledger.open(), self.ledger.undelivered());
            assert!(
                runtime::now() < until,
                "the cluster does not recover: {} publishers wait, acknowledged and never settled: {:?}, stored and never settled: {:?}, nodes: {:?}",
                self.clients.publishing.load(Ordering::Relaxed),
                missing.0,
                missing.1,
                self.nodes.iter().map(|node| (node.id, node.shown().applied, node.shown().serving)).collect::<Vec<_>>()
            );
            self.pass(Duration::from_millis(500));
        }
    }

    /// The members, once nothing changes them any more.
    fn members(&self) -> Option<BTreeSet<u64>> {
        let leader = self.nodes.iter().find(|node| node.shown().serving.is_some())?;
        let end = self.net.end(leader.id)?;
        let metrics = end.raft.metrics();
        let metrics = metrics.borrow();
        Some(metrics.membership_config.membership().nodes().map(|(id, _)| *id).collect())
    }

    fn is_done(&mut self) -> bool {
        for node in &mut self.nodes {
            node.is_healing();
        }
        if self.clients.publishing.load(Ordering::Relaxed) > 0 || self.changing.load(Ordering::Relaxed) {
            return false;
        }
        let Some(members) = self.members() else { return false };
        // Of changes that were cut short.
        let strangers = self.nodes.iter().map(|node| node.id).filter(|id| !members.contains(id));
        self.removed.lock().unwrap().extend(strangers);
        self.let_go();
        if !self.ledger.undelivered().is_empty() {
            return false;
        }
        let shown: Vec<_> = self.nodes.iter().map(|node| node.shown().applied).collect();
        shown.iter().all(|applied| *applied == shown[0] && *applied > 0)
    }

    /// What must hold at the end.
    fn judge(&mut self) {
        let open = self.ledger.open();
        assert!(open.is_empty(), "acknowledged and not delivered: {open:?}");
        let states: Vec<_> = self.nodes.iter().map(|node| (node.id, node.shown())).collect();
        for (id, shown) in &states {
            let (first, other) = &states[0];
            assert!(shown.state == other.state, "nodes {first} and {id} disagree:\n{}\n{}", other.state, shown.state);
        }
        self.ledger.note(WORLD, format!("agrees on {}", states[0].1.state));
    }
}

/// Says that a change has ended when it is dropped.
struct Finish(Arc<AtomicBool>);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
