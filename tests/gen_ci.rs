//! docs/ci.md: its jobs do what the page says, run as they stand there.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use support::broker::{BINARY, Broker};
use support::cli::{contains_all, done, stdout};

const ORDER: &str = "syntax = \"proto3\";\npackage shop.v1;\nmessage Order {\n  string id = 1;\n  string note = 2;\n}\n";

/// The texts of the page's blocks in a language, of those before and those behind the second heading.
fn jobs(language: &str) -> [Vec<String>; 2] {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ci.md")).expect("docs/ci.md is there");
    let (brokers, own) = page.split_once("\n## Contracts of the repository\n").expect("the page has this heading");
    [brokers, own].map(|part| {
        let fence = format!("```{language}\n");
        let blocks = part.split(&*fence).skip(1);
        blocks.map(|block| block.split("```").next().expect("a part").to_owned()).collect()
    })
}

/// A shell with the binary on its path, in a folder.
fn shell(folder: &Path, broker: &Broker, script: &str) -> Output {
    let binaries = Path::new(BINARY).parent().expect("the binary is in a folder").display();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(folder).env("PATH", format!("{binaries}:{path}"));
    command.env("QWERQ_BROKER", broker.broker()).env_remove("QWERQ_AUTH_TOKEN").output().expect("sh runs")
}

fn passes(folder: &Path, broker: &Broker, script: &str) -> String {
    let output = shell(folder, broker, script);
    assert!(output.status.success(), "{script}: {output:?}");
    stdout(&output)
}

fn register(folder: &Path, broker: &Broker, proto: &str) {
    fs::write(folder.join("order.proto"), proto).expect("the file can be written");
    let path = folder.join("order.proto");
    let path = path.to_str().expect("a path in UTF-8");
    done(broker, &["schema", "register", "-q", "orders", "-p", path, "-m", "shop.v1.Order", "--force"]);
}

#[test]
fn jobs_of_a_repository_with_a_brokers_contracts() {
    let [scripts, _] = jobs("sh");
    let [check, verify] = &scripts[..] else { panic!("{scripts:?}") };
    let (folder, protos) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let broker = Broker::start(&[]);
    register(protos.path(), &broker, ORDER);
    fs::write(folder.path().join("qwerq.toml"), "[[output]]\nlang = \"rust\"\nout = \"queues\"\n").expect("the file can be written");
    assert!(!shell(folder.path(), &broker, check).status.success(), "nothing is generated yet");
    passes(folder.path(), &broker, "qwer-q gen");
    passes(folder.path(), &broker, check);
    assert_eq!(passes(folder.path(), &broker, verify), "orders: the same, version 1\n");
    register(protos.path(), &broker, &ORDER.replace("}", "  int32 count = 3;\n}"));
    contains_all(&passes(folder.path(), &broker, verify), &["compatible\n", "the contracts are newer"]);
    register(protos.path(), &broker, &ORDER.replace("string note", "int32 note"));
    assert_eq!(shell(folder.path(), &broker, verify).status.code(), Some(5));
    passes(folder.path(), &broker, check);
}

#[test]
fn jobs_of_a_repository_with_contracts_of_its_own() {
    let [_, scripts] = jobs("sh");
    let [pull_request, merged] = &scripts[..] else { panic!("{scripts:?}") };
    let folder = tempfile::tempdir().expect("a folder");
    let config = "[[queue]]\nname = \"orders\"\nmessage = \"shop.v1.Order\"\n\n[[output]]\nlang = \"rust\"\nout = \"queues\"\n";
    fs::write(folder.path().join("qwerq.toml"), config).expect("the file can be written");
    fs::write(folder.path().join("order.proto"), ORDER).expect("the file can be written");
    let broker = Broker::start(&[]);
    passes(folder.path(), &broker, "qwer-q gen");
    passes(folder.path(), &broker, pull_request);
    passes(folder.path(), &broker, merged);
    passes(folder.path(), &broker, pull_request);
    fs::write(folder.path().join("order.proto"), ORDER.replace("string note", "int32 note")).expect("the file can be written");
    assert_eq!(shell(folder.path(), &broker, pull_request).status.code(), Some(1), "nobody ran gen");
    passes(folder.path(), &broker, "qwer-q gen");
    let refused = shell(folder.path(), &broker, pull_request);
    assert_eq!(refused.status.code(), Some(1), "it breaks whoever reads orders");
    contains_all(&stdout(&refused), &["queues is up to date", "break: shop.v1.Order.note:"]);
}

#[test]
fn workflows_run_the_same_commands() {
    for (scripts, workflows) in jobs("sh").iter().zip(&jobs("yaml")) {
        let [workflow] = &workflows[..] else { panic!("{workflows:?}") };
        let commands: Vec<&str> = workflow.lines().filter_map(|line| line.split_once("run: qwer-q ")).map(|(_, command)| command).collect();
        assert!(commands.len() >= 2, "{workflow}");
        for command in commands {
            assert!(scripts.iter().any(|script| script.contains(&format!("qwer-q {command}"))), "{command}");
        }
    }
}
