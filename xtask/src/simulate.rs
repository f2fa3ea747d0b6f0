//! `cargo xtask simulate`: a seeded simulation by itself, of the core or of a whole cluster, with other seeds than CI's, or one seed with its
//! steps printed.
//!
//! What a seed does, and what is held against what, is in docs/simulation.md.

use anyhow::{Result, ensure};

use crate::step::{Outcome, Step};

/// Arguments of `simulate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The cluster's simulation instead of the core's.
    #[arg(long)]
    cluster: bool,
    /// Replays this seed and prints its steps.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Tries so many seeds, from 0 [default: 10,000 of the core's, 500 of the cluster's].
    #[arg(long)]
    seeds: Option<u64>,
}

/// What CI tries of the cluster's.
const CLUSTER_SEEDS: u64 = 500;

/// Runs the simulation.
///
/// # Errors
/// When a seed breaks a rule; the output says which.
pub(crate) fn run(args: &Args) -> Result<()> {
    let (arguments, seeds) = match args.cluster {
        false => (&["test", "--package", "qwerq-core", "--test", "simulation", "--", "--nocapture"][..], args.seeds),
        true => (
            &["test", "--package", "qwerq-broker", "--lib", "cluster::simulation::tests::a_cluster", "--", "--nocapture"][..],
            Some(args.seeds.unwrap_or(CLUSTER_SEEDS)),
        ),
    };
    let mut step = Step::cargo("simulation", arguments);
    for (name, value) in [("QWERQ_SIM_SEED", args.seed), ("QWERQ_SIM_SEEDS", seeds)] {
        if let Some(value) = value {
            step = step.env(name, &value.to_string());
        }
    }
    ensure!(step.run()? == Outcome::Passed, "a rule is broken: the seed is named above");
    Ok(())
}
