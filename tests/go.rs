//! The generated Go client against a real broker: contracts are registered, `gen` writes the client, and a Go program talks.
//!
//! What the generated text must be is decided in `codegen/tests/go.rs`; how the client behaves when connections break, in its own tests.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::broker::Broker;

const TOKEN: &str = "a token";

/// Go is needed; on a laptop without it the test says so and passes, in CI it fails.
fn go_is_missing() -> bool {
    let missing = Command::new("go").arg("version").output().is_err();
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!(missing && in_ci), "`go` is not installed");
    if missing {
        eprintln!("skipped: `go` is not installed");
    }
    missing
}

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
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_owned();
    let runtime = root().join("sdk-templates/go/runtime");
    let pinned = fs::read_to_string(runtime.join("go.mod")).expect("go.mod");
    let requirement = pinned.lines().find(|line| line.starts_with("require google.golang.org/protobuf ")).expect("the one dependency");
    fs::write(path.join("go.mod"), format!("module example.com/shop\n\ngo 1.24\n\n{requirement}\n")).expect("written");
    fs::copy(runtime.join("go.sum"), path.join("go.sum")).expect("copied");
    fs::copy(root().join("tests/data/go/conversation_test.go"), path.join("conversation_test.go")).expect("copied");
    let out = path.join("queues");
    run(broker, &["gen", "--lang", "go", "--out", out.to_str().expect("a path in UTF-8")]);
    run(broker, &["gen", "--lang", "go", "--check", "--out", out.to_str().expect("a path in UTF-8")]);
    (dir, path)
}

#[test]
fn a_go_program_holds_every_conversation_with_the_broker() {
    if go_is_missing() {
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
