//! What is around a cluster, with three real nodes: clients in three languages that follow the leader, the command line, REST, the dashboard,
//! metrics and probes. What the nodes themselves promise is tested elsewhere.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use qwerq::{Client, ConsumeOptions, Durability, Message, QueueOptions, StartAt};
use support::broker::Broker;
use support::cli::{contains_all, fails, stderr, stdout};
use support::http::ask;
use support::nodes::Nodes;
use support::{go, node};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Messages that each program publishes.
const COUNT: usize = 300;

/// Of those, how many are acknowledged before the leader is killed.
const BEFORE: usize = 100;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program that publishes and consumes; killed when dropped.
struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    acked: BTreeSet<String>,
}

impl Program {
    fn start(mut command: Command, seeds: &str) -> Program {
        let command = command.args(["log", &COUNT.to_string()]).env("QWERQ_BROKER", seeds);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        Program { child, lines, acked: BTreeSet::new() }
    }

    /// Reads until so many are acknowledged, or to the end.
    fn read(&mut self, acked: usize) {
        while self.acked.len() < acked {
            let line = self.lines.next().expect("the program goes on").expect("stdout is text");
            let said: Vec<&str> = line.split(' ').collect();
            let ["acked", text, durability, duplicate] = said[..] else { panic!("{line:?} is not what was asked for") };
            assert!(["quorum", "4"].contains(&durability) && duplicate == "false", "{line}");
            assert!(self.acked.insert(text.to_owned()), "{line} twice");
        }
    }

    fn end(mut self) -> BTreeSet<String> {
        self.read(COUNT);
        let line = self.lines.next().expect("the program goes on").expect("stdout is text");
        assert_eq!(line, "done");
        assert!(self.child.wait().expect("the program was ours").success());
        std::mem::take(&mut self.acked)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Copies the sources of a runtime.
fn copy(from: &Path, to: &Path, wanted: impl Fn(&str) -> bool) {
    fs::create_dir_all(to).expect("the folder can be made");
    for entry in fs::read_dir(from).expect("the runtime is there") {
        let entry = entry.expect("the folder can be listed");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        if wanted(&name) {
            fs::copy(entry.path(), to.join(&name)).expect("copied");
        }
    }
}

fn typescript(seeds: &str) -> Option<(Program, tempfile::TempDir)> {
    let modules = node::node_modules()?;
    let folder = node::project(&modules);
    let src = folder.path().join("src");
    copy(&root().join("sdk-templates/typescript/runtime/src"), &src.join("qwerq"), |name| name.ends_with(".ts"));
    fs::copy(root().join("tests/data/cluster/failover.ts"), src.join("failover.ts")).expect("copied");
    node::compile(&modules, folder.path());
    let mut command = Command::new("node");
    command.arg(folder.path().join("build/failover.js"));
    Some((Program::start(command, seeds), folder))
}

fn go(seeds: &str) -> Option<(Program, tempfile::TempDir)> {
    if go::is_missing() {
        return None;
    }
    let folder = go::module("example.com/failover");
    let is_source = |name: &str| name.ends_with(".go") && !name.ends_with("_test.go");
    copy(&root().join("sdk-templates/go/runtime"), &folder.path().join("qwerq"), is_source);
    fs::copy(root().join("tests/data/cluster/failover.go"), folder.path().join("main.go")).expect("copied");
    let built = Command::new("go").args(["build", "-o", "failover", "."]).current_dir(folder.path()).env("GOFLAGS", "-mod=mod").output();
    let built = built.expect("go starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some((Program::start(Command::new(folder.path().join("failover")), seeds), folder))
}

/// The same as the programs do, by the crate: publishes, and consumes in a group of its own.
async fn rust(client: Client, reached: tokio::sync::oneshot::Sender<()>) -> BTreeSet<String> {
    let mut subscription = client.consume("log", ConsumeOptions::new().group("rust")).await.expect("the stream is there");
    let consuming = tokio::spawn(async move {
        let mut missing: BTreeSet<String> = (0..COUNT).map(|at| format!("rust-{at}")).collect();
        while !missing.is_empty() {
            let delivery = subscription.next().await.expect("it goes on").expect("no error ends it");
            missing.remove(std::str::from_utf8(&delivery.payload).expect("text"));
            // A lease that ended with its leader is stale; the message comes again.
            let _ = delivery.ack();
        }
    });
    let mut reached = Some(reached);
    let mut acked = BTreeSet::new();
    for at in (0..COUNT).step_by(10) {
        let texts: Vec<String> = (at..at + 10).map(|at| format!("rust-{at}")).collect();
        let messages: Vec<Message> = texts.iter().cloned().map(Message::new).collect();
        for (text, published) in texts.iter().zip(client.publish_batch("log", messages).await) {
            let published = published.expect("it is stored in the end");
            assert!(published.durability == Durability::Quorum && !published.duplicate, "{published:?}");
            acked.insert(text.clone());
        }
        if acked.len() >= BEFORE
            && let Some(reached) = reached.take()
        {
            reached.send(()).expect("the test waits");
        }
    }
    consuming.await.expect("it consumed everything");
    acked
}

/// How often each message is in the stream.
async fn stored(client: &Client) -> BTreeMap<String, usize> {
    let end = client.queue_info("log").await.expect("the stream is there").next_seq;
    let options = ConsumeOptions::new().start_at(StartAt::Beginning);
    let mut reader = client.consume("log", options).await.expect("the stream is there");
    let mut counts = BTreeMap::new();
    for seq in 0..end {
        let delivery = reader.next().await.expect("it goes on").expect("no error ends it");
        assert_eq!(delivery.seq, seq);
        *counts.entry(String::from_utf8(delivery.payload.to_vec()).expect("text")).or_default() += 1;
        // The leader may have changed; a reader has no leases anyway.
        let _ = delivery.ack();
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn three_languages_go_on_when_the_leader_is_killed_and_what_they_published_is_there_once() {
    let mut nodes = Nodes::three();
    let seeds = nodes.seeds();
    let client = Client::connect(&seeds).await.expect("a leader is found");
    client.create_queue("log", QueueOptions { mode: Some("stream".to_owned()), ..QueueOptions::default() }).await.expect("made");
    let mut programs: Vec<_> = [typescript(&seeds), go(&seeds)].into_iter().flatten().collect();
    let (reach, reached) = tokio::sync::oneshot::channel();
    let rust = tokio::spawn(rust(client.clone(), reach));

    programs.iter_mut().for_each(|(program, _)| program.read(BEFORE));
    reached.await.expect("it publishes");
    let first = nodes.leader();
    nodes.node(first).kill();
    let mut acked = rust.await.expect("it goes on");
    for (program, _folder) in programs {
        acked.extend(program.end());
    }
    assert_ne!(nodes.leader(), first);
    let stored = stored(&client).await;
    let lost: Vec<_> = acked.iter().filter(|text| !stored.contains_key(*text)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let twice: Vec<_> = stored.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "stored more than once: {twice:?}");
    client.close().await.expect("everything is said");
}

fn ended(output: &Output, exit: i32) -> String {
    assert_eq!(output.status.code(), Some(exit), "{}{}", stdout(output), stderr(output));
    stdout(output)
}

#[test]
fn a_cluster_is_shown_and_changed_from_every_side() {
    let mut nodes = Nodes::three();
    let leader = nodes.leader();
    let follower = (1..=3).find(|id| *id != leader).expect("there are three");
    let third = (1..=3).find(|id| ![leader, follower].contains(id)).expect("there are three");
    let leader_http = nodes.node(leader).http.to_string();

    // The command line: any node answers, and asks the leader unless told not to.
    for id in 1..=3 {
        let text = ended(&nodes.node(id).run(&["cluster", "status"]), 0);
        contains_all(&text, &[&format!("node {leader} leads; seen by node {leader}"), "follower", "LAG"]);
        let local = ended(&nodes.node(id).run(&["cluster", "status", "--local", "--json"]), 0);
        let local: serde_json::Value = serde_json::from_str(&local).expect("JSON");
        assert_eq!((&local["node_id"], &local["leader"]), (&id.into(), &leader.into()));
        let lags = local["members"].as_array().expect("members").iter().filter(|member| member["lag"].is_u64()).count();
        assert_eq!(lags > 0, id == leader, "{local}");
    }

    // Probes: a follower is ready, but does not lead.
    for id in 1..=3 {
        assert_eq!(nodes.node(id).get("/readyz").status, 200);
        assert_eq!(nodes.node(id).get("/readyz?leader=true").status, if id == leader { 200 } else { 503 });
    }

    // REST: every node shows the cluster, the leader alone changes it and serves.
    let node = nodes.node(follower);
    let shown = node.get("/api/v1/cluster").ok();
    assert_eq!((&shown["role"], &shown["leader"]), (&"follower".into(), &leader.into()));
    let body = serde_json::json!({ "id": follower }).to_string();
    for (method, path, body) in [("POST", "/api/v1/cluster/transfer", body.as_str()), ("GET", "/api/v1/queues", "")] {
        let problem = ask(node.http, method, path, &[JSON], body.as_bytes()).problem(503, "not-leader");
        assert_eq!(problem["details"]["leader_http"], leader_http.as_str(), "{path}");
    }

    // The dashboard: a follower has the cluster's page and a way to the leader.
    let html = |node: &support::nodes::Node, path: &str| ask(node.http, "GET", path, &[("accept", "text/html")], b"");
    let page = html(node, "/cluster");
    assert_eq!(page.status, 200);
    contains_all(page.text(), &[&format!("href=\"http://{leader_http}/cluster\""), "This node follows", "aria-current=\"page\">Cluster"]);
    let page = html(node, "/");
    assert_eq!(page.status, 503);
    contains_all(page.text(), &["Another node leads", &format!("href=\"http://{leader_http}/\"")]);
    let page = html(nodes.node(leader), "/cluster");
    assert!(!page.text().contains("This node follows") && page.text().contains("<strong>leader</strong>"), "{}", page.text());

    // Metrics: one leader, which knows how far the others are.
    let metrics: Vec<String> = (1..=3).map(|id| nodes.node(id).get("/metrics").text().to_owned()).collect();
    let leads = metrics.iter().filter(|page| page.contains("\nqwerq_cluster_is_leader 1\n")).count();
    assert_eq!(leads, 1);
    for page in &metrics {
        contains_all(page, &["\nqwerq_cluster_has_leader 1\n", "\nqwerq_cluster_members{voter=\"true\"} 3\n"]);
        let knows = page.contains(&format!("\nqwerq_cluster_replication_lag{{node=\"{follower}\"}} "));
        assert_eq!(knows, page.contains("\nqwerq_cluster_is_leader 1\n"));
    }

    // Leadership moves, by a command that was given to a node that does not lead.
    let said = ended(&nodes.node(third).run(&["cluster", "transfer", &follower.to_string()]), 0);
    assert_eq!(said, format!("node {follower} leads\n"));
    assert_eq!(nodes.leader(), follower);

    // A node goes, and another one comes.
    let unasked = nodes.run(&["cluster", "remove", &third.to_string()]);
    ended(&unasked, 2);
    contains_all(&stderr(&unasked), &["remove node", "--yes"]);
    ended(&nodes.run(&["cluster", "remove", &third.to_string(), "--yes"]), 0);
    nodes.node(third).kill();
    nodes.all.retain(|node| node.id != third);
    let fourth = nodes.add(4);
    fourth.start();
    let target = format!("4={}", fourth.raft);
    assert_eq!(ended(&nodes.run(&["cluster", "add", &target]), 0), format!("node 4 at {} is a voting member\n", &target[2..]));
    let voters = |status: &serde_json::Value| status["members"].as_array().expect("members").iter().filter(|m| m["voter"] == true).count();
    nodes.until(|status| voters(status) == 3);

    // Nonsense is told with a next step.
    let refused = nodes.run(&["cluster", "transfer", "77"]);
    ended(&refused, 1);
    contains_all(&stderr(&refused), &["error: invalid-argument", "77", "next: `qwer-q cluster status`"]);

    // Without a majority nobody leads, which is not the same as nobody being there.
    let (left, gone) = nodes.all.split_first_mut().expect("there are three");
    gone.iter_mut().for_each(support::nodes::Node::kill);
    let said = loop {
        let listed = left.run(&["queue", "list"]);
        if listed.status.code() == Some(3) {
            break stderr(&listed);
        }
    };
    contains_all(&said, &["cannot reach a node that leads", "not-leader", "next: ", "`qwer-q cluster status`"]);
}

#[test]
fn a_broker_that_runs_alone_says_so() {
    let broker = Broker::start(&[]);
    contains_all(&fails(&broker, 1, &["cluster", "status"]), &["runs alone", "--cluster-node-id"]);
    contains_all(&fails(&broker, 1, &["cluster", "transfer", "2"]), &["runs alone"]);
    contains_all(&fails(&broker, 2, &["cluster", "add", "node4:9878"]), &["ID=HOST:PORT"]);
    ask(broker.http, "GET", "/api/v1/cluster", &[], b"").problem(404, "unsupported");
    assert_eq!(ask(broker.http, "GET", "/readyz?leader=true", &[], b"").status, 200);
    let page = ask(broker.http, "GET", "/", &[("accept", "text/html")], b"");
    assert!(!page.text().contains("href=\"/cluster\""));
    assert_eq!(ask(broker.http, "GET", "/cluster", &[("accept", "text/html")], b"").status, 404);
    assert!(!broker.get("/metrics").1.contains("qwerq_cluster_"));
}
