//! The generated Go client against a real broker: contracts are registered, `gen` writes the client, and a Go program talks.
//!
//! What the generated text must be is decided in `codegen/tests/go.rs`; how the client behaves when connections break, in its own tests.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use support::broker::Broker;
use support::go;
use support::page::Page;
use support::project::broker_with_examples;

const TOKEN: &str = "a token";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(broker: &Broker, args: &[&str]) -> Output {
    let output = broker.command(args).env("QWERQ_AUTH_TOKEN", TOKEN).output().expect("the binary runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A broker with a contract on each queue that the conversation uses.
fn broker() -> Broker {
    let broker = Broker::start(&["--auth-token", TOKEN]);
    let proto = root().join("tests/data/go/shop.proto");
    let proto = proto.to_str().expect("a path in UTF-8");
    run(&broker, &["queue", "create", "log", "--mode", "stream"]);
    for queue in ["orders", "dedup", "many", "settled", "renewed", "fetched", "handled", "log"] {
        run(&broker, &["schema", "register", "-q", queue, "-p", proto, "-m", "shop.v1.Order"]);
    }
    run(&broker, &["schema", "register", "-p", proto, "--service", "shop.v1.Pricing"]);
    broker
}

/// A Go module with the generated client and the conversation.
fn module(broker: &Broker) -> (tempfile::TempDir, PathBuf) {
    let dir = go::module("example.com/shop");
    let path = dir.path().to_owned();
    fs::copy(root().join("tests/data/go/conversation_test.go"), path.join("conversation_test.go")).expect("copied");
    let out = path.join("queues");
    run(broker, &["gen", "--lang", "go", "--out", out.to_str().expect("a path in UTF-8")]);
    run(broker, &["gen", "--lang", "go", "--check", "--out", out.to_str().expect("a path in UTF-8")]);
    (dir, path)
}

#[test]
fn a_go_program_holds_every_conversation_with_the_broker() {
    if go::is_missing() {
        return;
    }
    let broker = broker();
    let (_dir, path) = module(&broker);
    let output = Command::new("go")
        .args(["test", "-race", "-count=1", "./..."])
        .current_dir(path)
        .env("GOFLAGS", "-mod=mod")
        .env("QWERQ_BROKER", broker.broker())
        .env("QWERQ_AUTH_TOKEN", TOKEN)
        .output()
        .expect("go starts");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("ok  \texample.com/shop"), "{text}");
}

/// A program that runs; killed when dropped.
struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(path: &Path, broker: &Broker, args: &[&str]) -> Program {
        let command = &mut Command::new(path);
        let mut child = command.args(args).env("QWERQ_BROKER", broker.broker()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        Program { child, lines: BufReader::new(stdout).lines() }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("the program says more").expect("stdout is text")
    }

    /// What it says until it ends by itself, which it does well.
    fn rest(mut self) -> Vec<String> {
        let lines = self.lines.by_ref().map(|line| line.expect("stdout is text")).collect();
        assert!(self.child.wait().expect("the program was ours").success());
        lines
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_commands_of_the_page_run_and_its_code_compiles() {
    // The function that the code stands in, whose errors it does not look at.
    const BEFORE: &str = "package main\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\n\t\"example.com/shop/queues\"\n\t\"example.com/shop/queues/qwerq\"\n\
        \tshopv1 \"example.com/shop/queues/shop/v1\"\n)\n\nfunc run(ctx context.Context, token string) error {\n";
    const BEHIND: &str =
        "\t_, _, _ = published, quote, err\n\treturn nil\n}\n\nfunc main() { fmt.Println(run(context.Background(), \"\")) }\n";
    if go::is_missing() {
        return;
    }
    let broker = broker_with_examples("orders.created");
    let (page, folder) = (Page::read("docs/sdk-go.md"), go::module("example.com/shop"));
    page.run(&broker, folder.path(), |_| {});
    let blocks = page.code("go");
    assert!(!blocks.is_empty(), "the page shows code");
    for block in blocks {
        fs::write(folder.path().join("main.go"), format!("{BEFORE}{}{BEHIND}", block.text)).expect("the folder is ours");
        let vetted = Command::new("go").args(["vet", "./..."]).current_dir(folder.path()).env("GOFLAGS", "-mod=mod").output();
        let vetted = vetted.expect("go starts");
        assert!(vetted.status.success(), "docs/sdk-go.md:{}: {}", block.line, String::from_utf8_lossy(&vetted.stderr));
    }
}

#[test]
fn the_example_bills_orders_and_its_committed_code_is_current() {
    if go::is_missing() {
        return;
    }
    let (broker, example) = (Broker::start(&[]), root().join("examples/orders-go"));
    let protos = root().join("examples/orders/proto");
    let (proto, include) = (protos.join("shop/v1/order.proto"), protos.to_str().expect("a path in UTF-8"));
    let proto = proto.to_str().expect("a path in UTF-8");
    let registered = broker.run(&["schema", "register", "-q", "orders", "-p", proto, "-m", "shop.v1.Order", "-I", include]);
    assert!(registered.status.success(), "{registered:?}");
    let config = example.join("qwerq.toml");
    let config = config.to_str().expect("a path in UTF-8");
    if std::env::var_os("QWERQ_BLESS").is_some() {
        assert!(broker.run(&["gen", "--config", config]).status.success());
    }
    for args in [&["gen", "--check", "--config", config][..], &["gen", "verify", "--config", config]] {
        let checked = broker.run(args);
        assert!(checked.status.success(), "run with QWERQ_BLESS=1: {}", String::from_utf8_lossy(&checked.stderr));
    }

    let programs = tempfile::tempdir().expect("a temporary directory");
    let built = Command::new("go").arg("build").arg("-o").arg(programs.path()).arg("./cmd/...").current_dir(&example).status();
    assert!(built.expect("go starts").success());
    let mut consumer = Program::start(&programs.path().join("consumer"), &broker, &[]);
    assert_eq!(consumer.line(), "waiting for orders");
    let published = Program::start(&programs.path().join("publisher"), &broker, &["3"]).rest();
    let [first, second, third, refused] = &published[..] else { panic!("{published:?}") };
    for (line, order) in [(first, "o-1"), (second, "o-2"), (third, "o-3")] {
        let id = line.strip_prefix(&format!("published {order} as ")).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(id.len(), 26, "an ULID: {line}");
    }
    assert!(refused.starts_with("refused: schema-violation (1101): field `id`"), "{refused}");
    let seen: Vec<String> = (0..4).map(|_| consumer.line()).collect();
    let slow = "cannot bill o-3, attempt 1: the payment provider wants more time";
    assert_eq!(seen, ["billed o-1, attempt 1", "billed o-2, attempt 1", slow, "billed o-3, attempt 2"]);
    let pid = rustix::process::Pid::from_child(&consumer.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("the program runs");
    assert_eq!(consumer.rest(), ["stopped"]);
    // Closing has the acks confirmed, so nothing is left.
    assert_eq!(broker.metric("qwerq_queue_depth{queue=\"orders\"}"), 0.0);
}

#[test]
fn without_a_go_mod_gen_asks_for_the_import_path() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("shop.proto"), "syntax = \"proto3\"; package shop.v1; message Order {}").expect("written");
    let (from, out) = (dir.path().to_str().expect("a path in UTF-8"), dir.path().join("out/queues"));
    let out = out.to_str().expect("a path in UTF-8");
    let gen_go = |more: &[&str]| {
        let args = [&["gen", "--lang", "go", "--from", from, "--out", out], more].concat();
        Command::new(support::broker::BINARY).args(args).output().expect("the binary runs")
    };
    let refused = gen_go(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(1) && said.contains("no go.mod in or above") && said.contains("next: run `go mod init`"),
        "{said}"
    );
    assert!(gen_go(&["--go-module", "example.com/x/queues"]).status.success());
    fs::write(dir.path().join("out/go.mod"), "// A comment.\nmodule \"example.com/x\"\n").expect("written");
    let same = gen_go(&["--check"]);
    assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stderr));
}
