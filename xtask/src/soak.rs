//! `cargo xtask soak`: a cluster of real processes under load while they are killed, paused and cut off from each other, for as long as wanted.
//! Books outside of the brokers say whether anything acknowledged was lost, came twice or out of order (`tests/cluster/soak.rs`).

use anyhow::{Result, ensure};

use crate::step::{Outcome, Step};

/// Arguments of `soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// For how long.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Nodes of the cluster.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(3..=9))]
    nodes: u64,
    /// What happens follows from it, as far as processes are on time [default: another one each time].
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs it on a release build.
///
/// # Errors
/// When the cluster broke its word; the output says how, with the nodes' logs.
pub(crate) fn run(args: &Args) -> Result<()> {
    let arguments = [
        "test",
        "--release",
        "--package",
        "qwer-q",
        "--test",
        "cluster",
        "--",
        "--nocapture",
        "--exact",
        "soak::nothing_is_lost_whatever_happens",
    ];
    let mut step = Step::cargo("soak", &arguments)
        .env("QWERQ_SOAK_SECONDS", &(args.minutes * 60).to_string())
        .env("QWERQ_SOAK_NODES", &args.nodes.to_string());
    if let Some(seed) = args.seed {
        step = step.env("QWERQ_SOAK_SEED", &seed.to_string());
    }
    ensure!(step.run()? == Outcome::Passed, "the cluster broke its word: see above");
    Ok(())
}
