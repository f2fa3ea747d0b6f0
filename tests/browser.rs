//! What runs in a browser, in one: the tests of `tests/browser/` against a real broker.

mod support;

use std::fs;
use std::path::Path;

use support::broker::Broker;
use support::browser;

/// An origin whose pages the broker lets in.
const ALLOWED_ORIGIN: &str = "http://localhost:4321";

fn register(broker: &Broker, arguments: &[&str]) {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/typescript/kitchen.proto");
    let mut command = broker.command(&["schema", "register", "-p", proto.to_str().expect("a path in UTF-8")]);
    let done = command.args(arguments).output().expect("the binary runs");
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn the_generated_client_works_in_a_page() {
    if !browser::is_ready() {
        return;
    }
    let broker = Broker::start(&["--allowed-origins", ALLOWED_ORIGIN]);
    register(&broker, &["-q", "everything", "-m", "kitchen.v1.Everything"]);
    register(&broker, &["-q", "kitchen.ask_cook", "-m", "kitchen.v1.Question", "--reply", "kitchen.v1.Answer"]);
    let project = tempfile::tempdir().expect("a temporary directory");
    // The generated code's one dependency, where a bundler looks for it.
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk-templates/typescript/runtime/node_modules");
    std::os::unix::fs::symlink(runtime, project.path().join("node_modules")).expect("a link");
    let out = project.path().join("queues");
    let generated = broker.run(&["gen", "--lang", "typescript", "--out", out.to_str().expect("a path in UTF-8")]);
    assert!(generated.status.success(), "{generated:?}");
    let page = project.path().join("page.ts");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/typescript/page.ts"), &page).expect("copied");
    let page = page.to_str().expect("a path in UTF-8");
    browser::run(&broker, "client.test.js", "", &[("QWERQ_PAGE", page), ("QWERQ_ALLOWED_ORIGIN", ALLOWED_ORIGIN)]);
}
