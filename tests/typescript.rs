//! Generated TypeScript against a real broker: `tests/data/typescript/conversation.test.ts` is compiled with what `gen` makes of the broker's
//! contracts, and run by Node; so are the services of the example.
//!
//! tsc and Node's types are those that sdk-templates/typescript/runtime pins. Without them the tests are skipped by name; in CI they fail.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use support::broker::Broker;
use support::node::{compile, node_modules, project};
use support::page::Page;
use support::project::broker_with_examples;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Registers a contract of kitchen.proto.
fn register(broker: &Broker, token: &str, arguments: &[&str]) {
    let proto = root().join("tests/data/typescript/kitchen.proto");
    let mut command = broker.command(&["schema", "register", "-p", proto.to_str().expect("a path in UTF-8")]);
    let done = command.args(arguments).env("QWERQ_AUTH_TOKEN", token).output().expect("the binary runs");
    assert!(done.status.success(), "{done:?}");
}

fn generate(broker: &Broker, token: &str, out: &Path, further: &[&str]) -> std::process::Output {
    let mut command = broker.command(&["gen", "--lang", "typescript", "--out", out.to_str().expect("a path in UTF-8")]);
    command.args(further).env("QWERQ_AUTH_TOKEN", token).output().expect("the binary runs")
}

#[test]
fn generated_clients_and_a_broker_understand_each_other() {
    let Some(modules) = node_modules() else { return };
    let token = "s3cret";
    let broker = Broker::start_with(&[], &[("QWERQ_AUTH_TOKEN", token)]);
    register(&broker, token, &["-q", "everything", "-m", "kitchen.v1.Everything"]);
    register(&broker, token, &["-q", "bulk", "-m", "kitchen.v1.Everything"]);
    register(&broker, token, &["-q", "kitchen.ask_cook", "-m", "kitchen.v1.Question", "--reply", "kitchen.v1.Answer"]);

    let folder = project(&modules);
    let src = folder.path().join("src");
    let generated = generate(&broker, token, &src.join("queues"), &[]);
    assert!(generated.status.success(), "{generated:?}");
    fs::copy(root().join("tests/data/typescript/conversation.test.ts"), src.join("conversation.test.ts")).expect("copied");
    compile(&modules, folder.path());

    let test = Command::new("node")
        .args(["--test", "build/conversation.test.js"])
        .current_dir(folder.path())
        .env("QWERQ_BROKER", broker.broker())
        .env("QWERQ_TOKEN", token)
        .output()
        .expect("node runs");
    assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stdout));
}

#[test]
fn a_second_run_writes_nothing_and_check_says_so() {
    let broker = Broker::start(&[]);
    register(&broker, "", &["-q", "everything", "-m", "kitchen.v1.Everything"]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (further, said) in [(&[][..], "0 removed, 0 unchanged\n"), (&[], "0 written, 0 removed, "), (&["--check"], "is up to date\n")] {
        let done = generate(&broker, "", folder.path(), further);
        assert!(done.status.success() && String::from_utf8_lossy(&done.stdout).contains(said), "{done:?}");
    }
    // A project that wants another suffix gets it everywhere.
    let done = generate(&broker, "", folder.path(), &["--import-suffix", "ts"]);
    assert!(done.status.success());
    for entry in fs::read_dir(folder.path().join("qwerq")).expect("the runtime") {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("text");
        assert!(!text.lines().any(|line| line.contains("from \"./") && line.ends_with(".js\";")), "{text}");
    }
}

#[test]
fn the_commands_of_the_page_run_and_its_code_compiles() {
    // What the first block has made, for the others; and what the text calls by name.
    const GIVEN: &str = "import { connect } from \"./queues/index.js\";\nawait using q = await connect(\"localhost:9876\");\n\
        declare const orders: { id: string }[];\n";
    let Some(modules) = node_modules() else { return };
    let broker = broker_with_examples("orders");
    let (page, folder) = (Page::read("docs/sdk-typescript.md"), project(&modules));
    page.run(&broker, folder.path(), |_| {});
    let blocks = page.code("ts");
    assert!(blocks.len() >= 3, "the page shows code");
    for (at, block) in blocks.iter().enumerate() {
        let given = if at == 0 { "" } else { GIVEN };
        let file = format!("src/line-{}.ts", block.line);
        fs::write(folder.path().join(file), format!("{given}{}", block.text)).expect("the folder is ours");
    }
    compile(&modules, folder.path());
}

#[test]
fn the_examples_code_is_what_the_compiler_makes_and_its_services_do_what_they_say() {
    let example = root().join("examples/orders-typescript");
    let broker = Broker::start(&[]);
    let folder = root().join("examples/orders/proto");
    let (proto, include) = (folder.join("shop/v1/order.proto"), folder.to_str().expect("a path in UTF-8"));
    let proto = proto.to_str().expect("a path in UTF-8");
    let done = broker.run(&["schema", "register", "-q", "orders", "-p", proto, "-m", "shop.v1.Order", "-I", include]);
    assert!(done.status.success(), "{done:?}");
    let config = example.join("qwerq.toml");
    let config = config.to_str().expect("a path in UTF-8");
    if std::env::var_os("QWERQ_BLESS").is_some() {
        assert!(broker.run(&["gen", "--config", config]).status.success());
    }
    for args in [&["gen", "--check", "--config", config][..], &["gen", "verify", "--config", config]] {
        let checked = broker.run(args);
        assert!(checked.status.success(), "run with QWERQ_BLESS=1: {}", String::from_utf8_lossy(&checked.stderr));
    }

    let Some(modules) = node_modules() else { return };
    let project = project(&modules);
    copy_folder(&example.join("src"), &project.path().join("src"));
    compile(&modules, project.path());
    let start = |service: &str, argument: &str| {
        let mut command = Command::new("node");
        command.args([&format!("build/{service}.js"), argument]).current_dir(project.path()).env("QWERQ_BROKER", broker.broker());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("node runs")
    };
    let mut consumer = start("consumer", "");
    let mut lines = BufReader::new(consumer.stdout.take().expect("piped")).lines().map(|line| line.expect("text"));
    assert_eq!(lines.next().as_deref(), Some("waiting for orders"));
    let published = start("publisher", "3").wait_with_output().expect("the publisher ends");
    assert!(published.status.success());
    let published = String::from_utf8_lossy(&published.stdout).into_owned();
    let [first, second, third, refused] = published.lines().collect::<Vec<_>>()[..] else { panic!("{published}") };
    for (line, order) in [(first, "o-1"), (second, "o-2"), (third, "o-3")] {
        assert!(line.starts_with(&format!("published {order} as ")), "{line}");
    }
    assert!(refused.starts_with("refused: schema-violation: field `id` (string) has wire type 0"), "{refused}");
    let seen: Vec<String> = lines.by_ref().take(4).collect();
    let problem = "cannot bill o-3, attempt 1: the payment provider wants more time";
    assert_eq!(seen, ["billed o-1, attempt 1", "billed o-2, attempt 1", problem, "billed o-3, attempt 2"]);
    let pid = rustix::process::Pid::from_child(&consumer);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("the consumer runs");
    assert_eq!(lines.collect::<Vec<_>>(), ["stopped"]);
    assert!(consumer.wait().expect("the consumer was ours").success());
    // Closing has the acks confirmed, so nothing is left.
    assert_eq!(broker.metric("qwerq_queue_depth{queue=\"orders\"}"), 0.0);
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the copy's folder can be made");
    for entry in fs::read_dir(from).expect("the folder is there") {
        let from = entry.expect("the folder can be listed").path();
        let to = to.join(from.file_name().expect("an entry has a name"));
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            fs::copy(&from, &to).expect("the file can be copied");
        }
    }
}
