//! `cargo xtask simulate`: the seeded simulation of the core by itself, with other seeds than CI's, or one seed with its steps printed.
//!
//! What a seed does, and what is held against what, is in docs/simulation.md.

use anyhow::{Result, ensure};

use crate::step::{Outcome, Step};

/// Arguments of `simulate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Replays this seed and prints its steps.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Tries so many seeds, from 0 [default: as many as CI].
    #[arg(long)]
    seeds: Option<u64>,
}

/// Runs the simulation.
///
/// # Errors
/// When a seed breaks a rule; the output says which.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut step = Step::cargo("simulation", &["test", "--package", "qwerq-core", "--test", "simulation", "--", "--nocapture"]);
    for (name, value) in [("QWERQ_SIM_SEED", args.seed), ("QWERQ_SIM_SEEDS", args.seeds)] {
        if let Some(value) = value {
            step = step.env(name, &value.to_string());
        }
    }
    ensure!(step.run()? == Outcome::Passed, "a rule is broken: the seed is named above");
    Ok(())
}
