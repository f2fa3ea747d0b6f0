//! The nodes of a cluster: processes of this build on loopback, each with ports and a directory of its own that outlive a kill.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::broker::BINARY;
use super::http::{Answer, ask};

/// A node; killed when dropped.
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) client: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) raft: SocketAddr,
    data: PathBuf,
    flags: Vec<String>,
    child: Option<Child>,
}

/// Nodes that are started together.
pub(crate) struct Nodes {
    pub(crate) all: Vec<Node>,
    folder: tempfile::TempDir,
}

impl Nodes {
    /// Three nodes, all of which vote when this returns.
    pub(crate) fn three() -> Nodes {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut nodes = Nodes { all: Vec::new(), folder };
        for id in 1..=3 {
            nodes.add(id);
        }
        let peers: Vec<String> = nodes.all[1..].iter().map(|node| format!("{}={}", node.id, node.raft)).collect();
        nodes.all[0].flags.extend(["--cluster-bootstrap".to_owned(), "--cluster-peers".to_owned(), peers.join(",")]);
        nodes.all.iter_mut().for_each(Node::start);
        nodes.until(|status| {
            let members = status["members"].as_array().expect("members");
            members.len() == 3 && members.iter().all(|member| member["voter"] == true && !member["client_address"].is_null())
        });
        nodes
    }

    /// A node that has not been started.
    pub(crate) fn add(&mut self, id: u64) -> &mut Node {
        let [client, http, raft] = addresses();
        let data = self.folder.path().join(id.to_string());
        self.all.push(Node { id, client, http, raft, data, flags: Vec::new(), child: None });
        self.all.last_mut().expect("it was pushed")
    }

    pub(crate) fn node(&mut self, id: u64) -> &mut Node {
        self.all.iter_mut().find(|node| node.id == id).expect("a node of that number")
    }

    /// Waits until the leader sees the cluster so, and gives its number. Asks again and again: whoever leads may change meanwhile.
    pub(crate) fn until(&self, wanted: impl Fn(&Value) -> bool) -> u64 {
        loop {
            for node in self.all.iter().filter(|node| node.child.is_some()) {
                let answer = ask(node.http, "GET", "/api/v1/cluster", &[], b"");
                if answer.status != 200 {
                    continue;
                }
                let status = answer.json();
                if status["leader"] == node.id && wanted(&status) && node.get("/readyz?leader=true").status == 200 {
                    return node.id;
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until somebody leads.
    pub(crate) fn leader(&self) -> u64 {
        self.until(|_| true)
    }

    /// All of them, as clients are told.
    pub(crate) fn seeds(&self) -> String {
        self.all.iter().map(|node| node.client.to_string()).collect::<Vec<_>>().join(",")
    }

    /// A client command of the binary that knows all nodes.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        command(&self.seeds(), args).output().expect("the binary runs")
    }
}

impl Node {
    pub(crate) fn start(&mut self) {
        let mut command = Command::new(BINARY);
        command.args(["serve", "--port", &self.client.port().to_string(), "--metrics-port", &self.http.port().to_string()]);
        command.args(["--cluster-node-id", &self.id.to_string(), "--cluster-bind", &self.raft.to_string()]);
        command.arg("--data-dir").arg(&self.data).args(&self.flags).env_remove("QWERQ_AUTH_TOKEN");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
        // Once it has said its first line, it listens.
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("stdout is text");
        assert!(line.contains("broker "), "node {} says {line:?}", self.id);
        self.child = Some(child);
    }

    /// SIGKILL, at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("the node runs");
            child.wait().expect("the node was ours");
        }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        ask(self.http, "GET", path, &[], b"")
    }

    /// A client command of the binary that knows this node.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        command(&self.client.to_string(), args).output().expect("the binary runs")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(seeds: &str, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(args).env("QWERQ_BROKER", seeds).env_remove("QWERQ_AUTH_TOKEN").stdin(Stdio::null());
    command
}

/// Ports that nobody else has been given: they are held together, and let go together.
fn addresses() -> [SocketAddr; 3] {
    let held = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    held.map(|listener| listener.local_addr().expect("bound"))
}
