//! `qwer-q gen`: contracts in, typed clients out.
//!
//! The compiler is `qwerq-codegen`; here it is said what it works on. `plan` reads flags or qwerq.toml, `contracts` brings the contracts of a
//! broker, a folder or the lock, `emission` writes, compares or previews; `verify`, `push` and `proto_tree` are commands of their own.

mod contracts;
mod emission;
mod plan;
mod proto_tree;
mod push;
mod target;
mod verify;
mod watch;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use qwerq_codegen::config::CONFIG;
use qwerq_codegen::diagnostic::Diagnostics;

use crate::broker::BrokerArgs;
use crate::failure::Failure;
use crate::output;

use emission::Emission;
use plan::Plan;
use target::{Lang, Suffix};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct GenArgs {
    #[command(subcommand)]
    command: Option<GenCommand>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum GenCommand {
    /// Compare qwerq.lock with the broker's contracts
    #[command(after_help = "Exit codes: 0 the same, 1 failed, 2 wrong usage, 3 cannot reach the broker, \
        4 they differ and are compatible, 5 they differ and break the code that was made from the lock.\n\n\
        Examples:\n  qwer-q gen verify\n  qwer-q gen verify --config web/qwerq.toml --broker queue.example")]
    Verify(verify::VerifyArgs),
    /// Register the contracts of the folder that qwerq.toml names: all, or none if one would break its queue's rule
    #[command(after_help = "Exit codes: 0 registered or allowed, 1 failed or refused, 2 wrong usage, 3 cannot reach the broker.\n\n\
        Examples:\n  qwer-q gen push --check     # for CI: would the broker allow it?\n  qwer-q gen push")]
    Push(push::PushArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Language of the client; with --out instead of qwerq.toml
    #[arg(long, value_enum, requires = "out")]
    lang: Option<Lang>,
    /// Folder that is written to; files that gen did not make stay
    #[arg(long, value_name = "DIR", requires = "lang")]
    out: Option<PathBuf>,
    /// Folder of .proto files to use instead of a broker's contracts; its qwerq.toml names the queues
    #[arg(long, value_name = "DIR", requires = "lang")]
    from: Option<PathBuf>,
    /// Folder in which imports of --from are looked for; may be given several times
    #[arg(short = 'I', long = "include", value_name = "DIR", requires = "from")]
    includes: Vec<PathBuf>,
    /// TypeScript: how files are imported: js for Node and bundlers, ts for Deno, Bun and type stripping, none for bundlers that want none
    #[arg(long, value_enum, default_value_t, value_name = "SUFFIX")]
    import_suffix: Suffix,
    /// Go: import path of --out; without it, what the go.mod in or above that folder says
    #[arg(long, value_name = "PATH")]
    go_module: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Take the contracts from qwerq.lock, or fail if it would change; no broker is asked
    #[arg(long, conflicts_with = "from")]
    locked: bool,
    /// Write nothing; fail with a diff when what is there is stale. With qwerq.toml no broker is asked
    #[arg(long)]
    check: bool,
    /// Write nothing; show what would be written and removed
    #[arg(long, conflicts_with = "check")]
    dry_run: bool,
    /// Go on: generate again whenever qwerq.toml, a .proto file or a contract of the broker changes, until Ctrl-C
    #[arg(long, conflicts_with_all = ["check", "dry_run", "emit_proto", "locked", "lang"])]
    watch: bool,
    /// Write the contracts as .proto files into this folder, and nothing else; comments are not kept
    #[arg(long, value_name = "DIR", conflicts_with_all = ["check", "dry_run", "out"])]
    emit_proto: Option<PathBuf>,
    #[command(flatten)]
    broker: BrokerArgs,
}

/// Where qwerq.toml is.
#[derive(Debug, Args)]
struct ConfigArgs {
    /// The file that says what to generate; qwerq.lock is beside it
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
}

pub(crate) fn run(args: GenArgs) -> Result<(), Failure> {
    match args.command {
        Some(GenCommand::Verify(args)) => verify::run(&args),
        Some(GenCommand::Push(args)) => push::run(&args),
        None if args.run.watch => watch::run(&args.run),
        None => generate(&args.run),
    }
}

fn generate(args: &RunArgs) -> Result<(), Failure> {
    let plan = Plan::of(args)?;
    let contracts = plan.contracts(&args.broker)?;
    if let Some(folder) = &args.emit_proto {
        return proto_tree::write(&contracts.contracts, folder);
    }
    let emission = Emission::compile(&plan, &contracts)?;
    match (args.check, args.dry_run) {
        (true, _) => emission.check(),
        (false, true) => emission.preview(),
        (false, false) if args.locked => emission.write_locked(),
        (false, false) => emission.write(),
    }
}

fn failure(found: &Diagnostics) -> Failure {
    Failure::failed("the contracts cannot be compiled").context(found.to_string())
}

fn warn(found: &Diagnostics) {
    if !found.0.is_empty() {
        output::note(found.to_string());
    }
}
