//! `qwer-q gen`: contracts in, typed clients out.
//!
//! The pipeline is `qwerq-codegen`; this file brings it the contracts, of a broker or of a folder, and reports what it did.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::broker::BrokerArgs;
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct GenArgs {
    /// Language of the client
    #[arg(long, value_enum)]
    lang: Language,
    /// Folder that is written to; files that gen did not make stay
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Folder of .proto files to use instead of a broker's contracts
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Write nothing; fail when the output is stale
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Language {
    Rust,
}

pub(crate) fn run(args: GenArgs) -> Result<(), Failure> {
    let Language::Rust = args.lang;
    Err(Failure::failed(format!("nothing generates {} yet", args.out.display())))
}
