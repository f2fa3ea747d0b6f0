//! `cargo xtask bless`: runs the tests that compare committed files with fresh ones, and lets them write the fresh ones.
//!
//! Such a test rewrites its file when `QWERQ_BLESS` is set; insta's snapshots follow `INSTA_UPDATE`. Read the diff before
//! committing it.

use anyhow::Result;

use crate::step::{Step, run_all};

/// The packages whose tests have committed expectations.
const GOLDENS: &[&str] = &["test", "-p", "qwerq-proto", "-p", "qwerq-codegen", "-p", "qwerq-sdk-templates"];

/// Rewrites every committed expectation.
///
/// # Errors
/// When a test fails for another reason than a stale file.
pub(crate) fn run() -> Result<()> {
    let step = Step::cargo("bless", GOLDENS).env("QWERQ_BLESS", "1").env("INSTA_UPDATE", "always");
    run_all(vec![step])
}
