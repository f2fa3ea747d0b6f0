//! Runs the tests of `tests/browser/` against a broker: each is a file for `node --test` that drives the system's Chromium.
//!
//! Without Node, Chromium or the pinned packages they are skipped by name; in CI that is a failure.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::broker::Broker;
use super::corpus::say;

/// Where the tests and their packages are.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser")
}

/// Chromium's path.
fn chromium() -> PathBuf {
    std::env::var_os("QWERQ_CHROMIUM").map_or_else(|| PathBuf::from("/usr/bin/chromium"), PathBuf::from)
}

/// Whether there is all that a browser test needs; says so if not.
pub(crate) fn is_ready() -> bool {
    let packages = folder().join("node_modules/playwright-core");
    let protobuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk-templates/typescript/runtime");
    let missing = if !chromium().is_file() {
        format!("{} is not there: install chromium, or set QWERQ_CHROMIUM", chromium().display())
    } else if !packages.is_dir() {
        format!("playwright-core is not installed: run `npm ci --ignore-scripts` in {}", folder().display())
    } else if !protobuf.join("node_modules/@bufbuild/protobuf").is_dir() {
        format!("@bufbuild/protobuf is not installed: run `npm ci` in {}", protobuf.display())
    } else {
        return true;
    };
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!in_ci, "{missing}");
    say(&format!("Skipped: {missing}"));
    false
}

/// Runs a file of tests against the broker, with `token` if it has one, and further environment variables.
pub(crate) fn run(broker: &Broker, test: &str, token: &str, environment: &[(&str, &str)]) {
    let done = Command::new("node")
        .args(["--test", test])
        .current_dir(folder())
        .env("QWERQ_BROKER", broker.broker())
        .env("QWERQ_HTTP", broker.http.to_string())
        .env("QWERQ_TOKEN", token)
        .env("QWERQ_CHROMIUM", chromium())
        // What this test is run by must not reach the inner runner.
        .env_remove("NODE_TEST_CONTEXT")
        .envs(environment.iter().copied())
        .output()
        .expect("node runs");
    assert!(done.status.success(), "{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
}
