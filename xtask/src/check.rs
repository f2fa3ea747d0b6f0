//! `cargo xtask check`: formatting and lints. What it refuses, CI refuses.

use anyhow::Result;

use crate::step::{Step, root, run_all};
use crate::test::GO_CLIENT;

/// Runs every check, also after one has failed.
///
/// # Errors
/// Names the checks that failed.
pub(crate) fn run() -> Result<()> {
    run_all(vec![
        Step::cargo("format", &["fmt", "--all", "--check"]),
        Step::cargo("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        Step::new("go vet", "go", &["vet", "./..."]).directory(&root().join(GO_CLIENT)),
    ])
}
