//! `schema register`: a candidate becomes a queue's contract.

use clap::Args;
use qwerq_proto::ErrorCode;

use super::finding;
use super::source::SourceArgs;
use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(super) struct RegisterArgs {
    /// Queue that gets the contract; made if it does not exist
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    #[command(flatten)]
    source: SourceArgs,
    /// Register although the compatibility rule says no
    #[arg(long)]
    force: bool,
    /// One JSON object: the version, or what refuses it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(super) async fn run(args: RegisterArgs) -> Result<(), Failure> {
    let candidate = qwerq::NewSchema { force: args.force, ..args.source.compile(&args.queue)? };
    let client = args.broker.connect().await?;
    let mut output = Output::stdout();
    let registered = match client.register_schema(candidate.clone()).await {
        Ok(registered) => registered,
        Err(error) if args.json && error.code() == Some(ErrorCode::SchemaIncompatible) => {
            let judged = client.register_schema(qwerq::NewSchema { dry_run: true, ..candidate }).await?;
            output.json(&finding::verdict_json(&judged))?;
            output.flush()?;
            return Err(broker::failure(error, Some(&args.queue)));
        }
        Err(error) => return Err(broker::failure(error, Some(&args.queue))),
    };
    if args.json {
        output.json(&finding::verdict_json(&registered))?;
    } else {
        let version = &registered.version;
        let news = if registered.existed { "known before, now active" } else { "new" };
        output.line(format!("{}: {} is version {} ({news})", version.queue, version.message_type, version.version))?;
        finding::print(&registered.findings, &mut output)?;
    }
    output.flush()
}
