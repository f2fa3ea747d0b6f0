//! [`Nodes`]: a cluster's processes, each on a directory of its own, and the links between them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use qwerq_proto::{Opcode, wire};
use rustix::process::{Pid, Signal, kill_process};

use crate::links::Link;
use crate::session::Session;
use crate::support::broker::BINARY;

/// How many entries a node may be behind under load.
const CLOSE: u64 = 8;

/// How often something is looked at that takes its time.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A running node's ports.
struct Running {
    child: Child,
    client: SocketAddr,
    http: SocketAddr,
}

/// A cluster.
pub(crate) struct Nodes {
    directory: tempfile::TempDir,
    running: BTreeMap<u64, Running>,
    links: BTreeMap<(u64, u64), Link>,
    ids: Vec<u64>,
    members: Vec<u64>,
}

impl Nodes {
    /// So many nodes, with links between all of them, none of which runs yet. The first `members` are the cluster that node 1 is to begin.
    pub(crate) fn new(count: u64, members: u64) -> Nodes {
        let ids: Vec<u64> = (1..=count).collect();
        let pairs = ids.iter().flat_map(|from| ids.iter().map(move |to| (*from, *to))).filter(|(from, to)| from != to);
        let links = pairs.map(|pair| (pair, Link::new())).collect();
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        Nodes { directory, running: BTreeMap::new(), links, ids, members: (1..=members).collect() }
    }

    /// So many nodes that have formed a cluster.
    pub(crate) fn formed(count: u64) -> Nodes {
        let mut nodes = Nodes::new(count, count);
        for id in 2..=count {
            nodes.start(id);
        }
        nodes.start_with(1, &["--cluster-bootstrap"]);
        nodes.until_members_are(&(1..=count).collect::<Vec<_>>());
        nodes
    }

    /// How many there are, running or not.
    pub(crate) fn count(&self) -> u64 {
        self.ids.len() as u64
    }

    pub(crate) fn data(&self, id: u64) -> PathBuf {
        self.directory.path().join(format!("node-{id}"))
    }

    pub(crate) fn start(&mut self, id: u64) {
        self.start_with(id, &[]);
    }

    /// Starts a node with further flags, and waits until it is ready.
    pub(crate) fn start_with(&mut self, id: u64, flags: &[&str]) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.directory.path().join(format!("node-{id}.log")));
        let others = if flags.contains(&"--cluster-bootstrap") { &self.members } else { &self.ids };
        let peers: Vec<String> =
            others.iter().filter(|to| **to != id).map(|to| format!("{to}={}", self.links[&(id, *to)].address)).collect();
        let mut command = Command::new(BINARY);
        command.args(["serve", "--port", "0", "--metrics-port", "0", "--cluster-bind", "127.0.0.1:0"]);
        command.arg("--cluster-node-id").arg(id.to_string()).arg("--data-dir").arg(self.data(id)).args(flags);
        if !peers.is_empty() {
            command.arg("--cluster-peers").arg(peers.join(","));
        }
        command.env_remove("QWERQ_AUTH_TOKEN").env_remove("RUST_LOG");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.expect("a log")).spawn().expect("the binary starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut line).expect("stdout is text");
        let address = |after: &str| -> SocketAddr {
            let rest = line.split_once(after).unwrap_or_else(|| panic!("node {id} is ready, not {line:?}\n{}", self.log(id))).1;
            rest.split([',', '\n']).next().and_then(|text| text.trim().parse().ok()).expect("an address")
        };
        let (client, http, raft) = (address("broker "), address("http "), address("cluster "));
        for ((_, to), link) in &self.links {
            if *to == id {
                link.lead_to(raft);
            }
        }
        self.running.insert(id, Running { child, client, http });
    }

    /// What a node has logged.
    pub(crate) fn log(&self, id: u64) -> String {
        std::fs::read_to_string(self.directory.path().join(format!("node-{id}.log"))).unwrap_or_default()
    }

    pub(crate) fn client(&self, id: u64) -> SocketAddr {
        self.running[&id].client
    }

    pub(crate) fn http(&self, id: u64) -> SocketAddr {
        self.running[&id].http
    }

    /// Where the clients of running nodes connect.
    pub(crate) fn clients(&self) -> Vec<SocketAddr> {
        self.running.values().map(|running| running.client).collect()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, id: u64) {
        let mut running = self.running.remove(&id).expect("it runs");
        running.child.kill().expect("it runs");
        running.child.wait().expect("it was ours");
    }

    /// SIGTERM, and waits for the end, which must be a good one.
    pub(crate) fn stop(&mut self, id: u64) {
        self.signal(id, Signal::TERM);
        let mut running = self.running.remove(&id).expect("it runs");
        let status = running.child.wait().expect("it was ours");
        assert!(status.success(), "node {id} ends with {status}\n{}", self.log(id));
    }

    fn signal(&self, id: u64, signal: Signal) {
        kill_process(Pid::from_child(&self.running[&id].child), signal).expect("it runs");
    }

    pub(crate) fn pause(&self, id: u64) {
        self.signal(id, Signal::STOP);
    }

    pub(crate) fn resume(&self, id: u64) {
        self.signal(id, Signal::CONT);
    }

    /// The way from a node to another.
    pub(crate) fn link(&self, from: u64, to: u64) -> &Link {
        &self.links[&(from, to)]
    }

    /// Cuts a node off from all others, both ways.
    pub(crate) fn isolate(&self, id: u64) {
        self.links.iter().filter(|((from, to), _)| *from == id || *to == id).for_each(|(_, link)| link.cut());
    }

    pub(crate) fn mend_all(&self) {
        self.links.values().for_each(Link::mend);
    }

    /// The cluster as a node sees it; `None` while it does not answer.
    pub(crate) fn status(&self, id: u64) -> Option<wire::ClusterStatusResponse> {
        let address = self.running.get(&id)?.client;
        let mut session = Session::open(address, &["any-node"]).ok()?;
        session.ask(Opcode::ClusterStatus, &wire::ClusterStatus {}, Opcode::ClusterStatusResponse).ok()
    }

    /// The same as the leader sees it.
    pub(crate) fn status_anywhere(&self) -> Option<wire::ClusterStatusResponse> {
        self.running.keys().filter_map(|id| self.status(*id)).find(|status| status.leader == Some(status.node_id))
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Nodes) -> bool) {
        // A loop without end would hide what is wrong; the logs tell.
        const LOOKS: u32 = 3_000;
        for _ in 0..LOOKS {
            if is_so(self) {
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        let logs: Vec<String> = self.ids.iter().map(|id| format!("node {id}:\n{}", self.log(*id))).collect();
        panic!("it never comes to this: {what}\n{}", logs.join("\n"));
    }

    /// Waits until each of these nodes knows that they are the voters, and has all that there is.
    pub(crate) fn until_members_are(&self, ids: &[u64]) {
        self.until("these are the voters", |nodes| {
            let Some(status) = nodes.status_anywhere() else { return false };
            status.members.iter().all(|member| member.lag.is_some_and(|lag| lag <= CLOSE)) && ids.iter().all(|id| nodes.voters(*id) == ids)
        });
    }

    /// Who votes, as a node sees it.
    pub(crate) fn voters(&self, id: u64) -> Vec<u64> {
        let members = self.status(id).map(|status| status.members).unwrap_or_default();
        members.iter().filter(|member| member.voter).map(|member| member.id).collect()
    }

    /// Waits for a leader among the nodes that run, but for these, and says which it is.
    pub(crate) fn leader_but(&self, not: &[u64]) -> u64 {
        let leader = std::cell::Cell::new(None);
        self.until("a node leads", |nodes| {
            let mut candidates = nodes.running.keys().filter(|id| !not.contains(id));
            leader.set(candidates.find(|id| nodes.status(**id).is_some_and(|status| status.leader == Some(**id))).copied());
            leader.get().is_some()
        });
        leader.get().expect("just found")
    }

    pub(crate) fn leader(&self) -> u64 {
        self.leader_but(&[])
    }

    /// The other running nodes.
    pub(crate) fn followers(&self, leader: u64) -> Vec<u64> {
        self.running.keys().copied().filter(|id| *id != leader).collect()
    }

    /// A client command of the binary, addressed to a node.
    pub(crate) fn run(&self, id: u64, args: &[&str]) -> Output {
        Command::new(BINARY).args(args).env("QWERQ_BROKER", self.client(id).to_string()).output().expect("the binary runs")
    }

    /// The same, which must succeed.
    pub(crate) fn succeed(&self, id: u64, args: &[&str]) -> String {
        let output = self.run(id, args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {text}{}\n{}", String::from_utf8_lossy(&output.stderr), self.log(id));
        text
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for running in self.running.values_mut() {
            // A stopped process is killed as well; it may have ended already.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
        if std::thread::panicking() {
            for id in &self.ids {
                eprintln!("node {id}:\n{}", self.log(*id));
            }
        }
    }
}
