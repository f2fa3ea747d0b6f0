//! `qwer-q schema`: contracts and their versions, one file per command.
//!
//! `.proto` files are compiled here, by `qwerq-codegen`; the broker gets descriptors and keeps the text beside them. What is shared:
//! `source` is the candidate on the command line, `finding` what a compatibility check found, `version` how versions are shown.

mod check;
mod clients;
mod diff;
mod edition;
mod features;
mod finding;
mod get;
mod list;
mod proto_text;
mod register;
mod service;
mod shadow;
mod source;
mod validate;
mod version;
mod versions;

use clap::{Args, Subcommand};

use crate::broker;
use crate::failure::Failure;

pub(crate) use finding::{findings_json, print as print_findings};
pub(crate) use proto_text::files as proto_files;
pub(crate) use service::contracts as service_contracts;
pub(crate) use version::version_json;

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    #[command(subcommand)]
    command: SchemaCommand,
}

#[derive(Debug, Subcommand)]
enum SchemaCommand {
    /// Make a message of a .proto file the contract of a queue, or each rpc of a service that of its own queue
    #[command(after_help = "Examples:\n  qwer-q schema register -q orders -p shop.proto -m shop.v1.Order\n  \
        qwer-q schema register -q pricing.quote -p pricing.proto -m shop.QuoteRequest --reply shop.Quote\n  \
        qwer-q schema register -p pricing.proto --service shop.Pricing      # rpc GetQuote: queue pricing.get_quote\n  \
        qwer-q schema register -q orders -p proto/shop/v1/order.proto -m shop.v1.Order -I proto -I vendor")]
    Register(register::RegisterArgs),
    /// List the contracts of all queues, or all versions of one
    #[command(after_help = "Examples:\n  qwer-q schema list\n  qwer-q schema list -q orders\n  \
        qwer-q schema list --json | jq -r .message_type")]
    List(list::ListArgs),
    /// Print a queue's contract
    #[command(after_help = "Examples:\n  qwer-q schema get -q orders\n  \
        qwer-q schema get -q orders --version 2 --format json\n  \
        qwer-q schema get -q orders --format descriptor > orders.binpb\n  \
        qwer-q schema get -q orders --output proto/")]
    Get(get::GetArgs),
    /// List all versions of a queue's contract
    #[command(after_help = "Examples:\n  qwer-q schema history -q orders\n  qwer-q schema history -q orders --json")]
    History(list::HistoryArgs),
    /// Say what a new version would break, without registering it
    #[command(after_help = "Examples:\n  qwer-q schema check -q orders -p shop.proto -m shop.v1.Order\n  \
        qwer-q schema check -q orders -p shop.proto -m shop.v1.Order --last 1000\n  \
        qwer-q schema check -q orders -p shop.proto -m shop.v1.Order --json\n\n\
        Exit code: 0 allowed, 1 refused.")]
    Check(check::CheckArgs),
    /// Say whether a queue would accept a message, without publishing it
    #[command(after_help = "Examples:\n  qwer-q schema validate -q orders --body '{\"id\":\"o-1\"}'\n  \
        qwer-q schema validate -q orders --hex 0a036f2d31\n  qwer-q schema validate -q orders --raw message.bin\n\n\
        Exit code: 0 accepted, 1 refused.")]
    Validate(validate::ValidateArgs),
    /// Show what changed between two versions
    #[command(after_help = "Examples:\n  qwer-q schema diff -q orders --from 1 --to 2\n  qwer-q schema diff -q orders --from 1")]
    Diff(diff::DiffArgs),
    /// Make an earlier version the active one again
    #[command(after_help = "Examples:\n  qwer-q schema rollback -q orders --version 1")]
    Rollback(versions::RollbackArgs),
    /// Refuse the publishers of a version from now on
    #[command(after_help = "Examples:\n  qwer-q schema retire -q orders --version 1\n\n\
        Rolling back to a retired version, or registering it again, takes it back.")]
    Retire(versions::RetireArgs),
    /// Take a queue's contract away, all versions of it; its messages stay
    #[command(after_help = "Examples:\n  qwer-q schema delete -q orders")]
    Delete(versions::DeleteArgs),
    /// Show who publishes to a queue and consumes from it, with which version
    #[command(after_help = "Examples:\n  qwer-q schema clients -q orders\n  qwer-q schema clients -q orders --json")]
    Clients(clients::ClientsArgs),
}

pub(crate) fn run(args: SchemaArgs) -> Result<(), Failure> {
    broker::block_on(async {
        match args.command {
            SchemaCommand::Register(args) => register::run(args).await,
            SchemaCommand::List(args) => list::run(args).await,
            SchemaCommand::Get(args) => get::run(args).await,
            SchemaCommand::History(args) => list::history(args).await,
            SchemaCommand::Check(args) => check::run(args).await,
            SchemaCommand::Validate(args) => validate::run(args).await,
            SchemaCommand::Diff(args) => diff::run(args).await,
            SchemaCommand::Rollback(args) => versions::rollback(args).await,
            SchemaCommand::Retire(args) => versions::retire(args).await,
            SchemaCommand::Delete(args) => versions::delete(args).await,
            SchemaCommand::Clients(args) => clients::run(args).await,
        }
    })
}
