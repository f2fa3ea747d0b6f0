//! The pages say what happens: README, quickstart and the examples that are made of commands are run, and what they print is compared.
//!
//! How a page says what is run is in `support/page.rs`.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use support::broker::Broker;
use support::page::{Page, without_ids_and_times};
use support::tool;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_command_does_what_the_readme_shows() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let compared = Page::read("README.md").run(&Broker::start(&[]), folder.path(), |_| {});
    assert!(compared >= 6, "the README shows what its commands print, not only {compared} times");
}

#[test]
fn the_readme_s_rust_code_is_that_of_the_example() {
    let folder = root().join("examples/orders/src/bin");
    let source = ["publisher.rs", "consumer.rs"].map(|name| fs::read_to_string(folder.join(name)).expect("the example is there")).concat();
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let mut compared = 0;
    for block in Page::read("README.md").blocks().iter().filter(|block| block.language == "rust") {
        for line in block.text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            assert!(lines.contains(&line), "README.md:{}: the example has no line {line:?}", block.line);
            compared += 1;
        }
    }
    assert!(compared > 0);
}

#[test]
fn the_code_of_the_rust_page_is_compiled_and_tested() {
    let compiled = fs::read_to_string(root().join("sdk-templates/rust/runtime/tests/page.rs")).expect("the test is there");
    // The page's reader has the lock above, the test has it elsewhere, and modules that see each other.
    let compiled = compiled.replace(", schema = \"tests/contracts\"", "").replace("schema = \"tests/contracts\"", "");
    let lines: Vec<String> = compiled.lines().map(|line| line.trim().replace("pub(super) ", "")).collect();
    let mut compared = 0;
    for block in Page::read("docs/rust.md").code("rust") {
        for line in block.text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            assert!(lines.iter().any(|compiled| compiled == line), "docs/rust.md:{}: the test has no line {line:?}", block.line);
            compared += 1;
        }
    }
    assert!(compared > 80, "the page shows code, not {compared} lines");
}

#[test]
fn the_first_five_minutes_go_as_the_quickstart_shows() {
    let modules = root().join("sdk-templates/typescript/runtime/node_modules");
    let installed =
        || modules.is_dir() || tool::skipped(&format!("{} is not there: run `npm ci` in the folder above it", modules.display()));
    if !tool::are_installed(&["node", "npx", "go", "jq"]) || !installed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    bring_packages(folder.path(), &modules);
    let compared = Page::read("docs/quickstart.md").run(&Broker::start(&[]), folder.path(), |_| {});
    assert!(compared >= 8, "the quickstart shows what its commands print, not only {compared} times");
}

#[test]
fn the_quickstart_installs_what_the_tests_bring_along() {
    let page = fs::read_to_string(root().join("docs/quickstart.md")).expect("the page is there");
    let line = page.lines().find_map(|line| line.strip_prefix("npm install ")).expect("it installs packages");
    let pinned = fs::read_to_string(root().join("sdk-templates/typescript/runtime/package.json")).expect("the runtime is there");
    for package in line.split(' ') {
        let (name, major) = package.rsplit_once('@').expect("a version that will not change under the reader");
        assert!(pinned.contains(&format!("\"{name}\": \"{major}.")), "the tests run with another {name} than {major}");
    }
}

/// What the blocks that need the network would have installed.
fn bring_packages(folder: &Path, modules: &Path) {
    let (shop, billing) = (folder.join("shop"), folder.join("billing"));
    fs::create_dir_all(&shop).expect("the folder is ours");
    fs::write(shop.join("package.json"), "{ \"type\": \"module\" }\n").expect("the folder is ours");
    symlink(modules, shop.join("node_modules")).expect("the folder is ours");
    fs::create_dir_all(&billing).expect("the folder is ours");
    let example = root().join("examples/orders-go");
    let module = fs::read_to_string(example.join("go.mod")).expect("the example is there");
    fs::write(billing.join("go.mod"), module.replace("example.com/orders", "example.com/billing")).expect("the folder is ours");
    fs::copy(example.join("go.sum"), billing.join("go.sum")).expect("the example is there");
}

#[test]
fn a_contract_evolves_as_the_example_shows() {
    if !tool::are_installed(&["jq"]) {
        return;
    }
    let compared = Page::read("examples/evolution/README.md").run(&Broker::start(&[]), &root().join("examples/evolution"), |_| {});
    assert!(compared >= 6, "{compared}");
}

#[test]
fn a_stream_is_read_again_as_the_example_shows() {
    if !tool::are_installed(&["jq"]) {
        return;
    }
    let compared = Page::read("examples/replay/README.md").run(&Broker::start(&[]), &root().join("examples/replay"), |_| {});
    assert!(compared >= 5, "{compared}");
}

#[test]
fn only_ids_and_times_are_left_out_of_the_comparison() {
    let text = "published 01M8RVQ2PX0000000000000000 (seq 0), \"at\":\"2026-12-01T13:11:44.093Z\", at byte 5";
    assert_eq!(without_ids_and_times(text), "published ID (seq 0), \"at\":\"TIME\", at byte 5");
}
