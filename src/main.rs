//! QWER-Q, the one binary: the broker, and everything that an operator or a shell script does with one.
//!
//! `main` parses, runs one command, and turns its end into an exit code. One file per command; what commands share is in
//! `broker.rs` (reaching one), `contract.rs` (JSON in and out), `failure.rs` and `output.rs` (what is said, and where).

mod arguments;
mod bench;
mod broker;
mod call;
mod cluster;
mod completions;
mod confirmation;
mod consume;
mod contract;
mod dlq;
mod duration;
mod explain;
mod failure;
mod fate;
mod generate;
mod group;
mod health;
mod interruption;
mod manual;
mod message_json;
mod moment;
mod output;
mod peek;
mod progress;
mod publish;
mod queue;
mod queue_option;
mod queue_view;
mod receipt;
mod schema;
mod serve;
mod setting;
mod size;
mod start_at;
mod suggestion;
mod table;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use arguments::{Arguments, Command};
use qwerq_broker::timestamp;

fn main() -> ExitCode {
    let matches = Arguments::command().get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut Arguments::command()).exit());
    let outcome = match arguments.command {
        Command::Serve(args) => serve::run(args),
        Command::Queue(args) => queue::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Publish(args) => publish::run(args),
        Command::Consume(args) => consume::run(args),
        Command::Peek(args) => peek::run(args),
        Command::Group(args) => group::run(args),
        Command::Dlq(args) => dlq::run(args),
        Command::Call(args) => call::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Cluster(args) => cluster::run(args),
        Command::Gen(args) => generate::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Health(args) => health::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => manual::run(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let failure = suggestion::add_to(failure, &matches);
            if !failure.is_silent() {
                output::note(failure.report().trim_end());
            }
            failure.exit_code()
        }
    }
}
