//! `cargo xtask`: the development tasks, one command and one file each. CI calls the same commands (`.ci/run`).
//!
//! This crate knows how tools are started and how their results are counted; it knows nothing of the broker.
//! Read on in [`step`], which every command is made of.

mod asyncapi;
mod bless;
mod browser;
mod check;
mod corpus;
mod faults;
mod fuzz;
mod image;
mod npm;
mod python;
mod simulate;
mod soak;
mod step;
mod tally;
mod test;
mod typescript;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development tasks of QWER-Q.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Formatting, lints and dependencies, warnings refused.
    Check,
    /// Every test: the crates with debug assertions, then the real binary in release.
    Test,
    /// Rewrites the committed files that tests compare with (golden output, snapshots).
    Bless,
    /// Downloads the public schemas that corpus tests read, into target/corpus.
    Corpus(corpus::Args),
    /// Plants each known fault in a copy of the sources and expects a test to notice it.
    Faults,
    /// Mutated descriptor sets against registration: nothing may panic.
    Fuzz(fuzz::Args),
    /// The seeded simulation of the core, or of a cluster: all of CI's seeds, or one with its steps.
    Simulate(simulate::Args),
    /// A cluster of real processes under load while they are killed, paused and cut off, for as long as wanted.
    Soak(soak::Args),
    /// Builds the container image without a container engine and tries what it promises.
    Image(image::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Check => check::run(),
        Task::Test => test::run(),
        Task::Bless => bless::run(),
        Task::Corpus(args) => corpus::run_task(&args),
        Task::Faults => faults::run(),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Simulate(args) => simulate::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::Image(args) => image::run_task(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
