//! `cargo xtask fuzz`: mutated descriptor sets against registration, by seed. docs/contracts.md says what is tried.
//!
//! The test itself (`broker/tests/registration`) runs a few thousand mutants in CI; this runs as many as one has patience for.

use anyhow::Result;

use crate::step::{Step, run_all};

/// Arguments of `fuzz`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many mutants.
    #[arg(long, default_value_t = 1_000_000)]
    mutants: u64,
    /// Decides what is mutated how.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the mutants.
///
/// # Errors
/// When one of them makes registration panic; the test prints it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let test = ["test", "--package", "qwerq-broker", "--test", "registration", "--", "--nocapture"];
    let step = Step::cargo("mutated descriptor sets", &test);
    run_all(vec![step.env("QWERQ_FUZZ_MUTANTS", &args.mutants.to_string()).env("QWERQ_FUZZ_SEED", &args.seed.to_string())])
}
