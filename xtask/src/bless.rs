//! `cargo xtask bless`: runs the tests that compare committed files with fresh ones, and lets them write the fresh ones.
//!
//! Such a test rewrites its file when `QWERQ_BLESS` is set; insta's snapshots follow `INSTA_UPDATE`. Read the diff before
//! committing it.

use anyhow::Result;

use crate::step::{Step, run_all};

/// The packages whose tests have committed expectations.
const GOLDENS: &[&str] = &["test", "-p", "qwerq-proto", "-p", "qwerq-codegen", "-p", "qwerq-sdk-templates"];

/// The command line's reference is compared by the binary's own tests; those in tests/ have no expectations.
const REFERENCE: &[&str] = &["test", "-p", "qwer-q", "--bin", "qwer-q"];

/// Rewrites every committed expectation.
///
/// # Errors
/// When a test fails for another reason than a stale file.
pub(crate) fn run() -> Result<()> {
    let steps = [("bless", GOLDENS), ("bless the command line", REFERENCE)];
    run_all(steps.map(|(name, arguments)| Step::cargo(name, arguments).env("QWERQ_BLESS", "1").env("INSTA_UPDATE", "always")).into())
}
