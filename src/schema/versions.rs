//! `schema rollback`, `retire` and `delete`: what becomes of versions.

use clap::Args;

use super::finding;
use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(super) struct RollbackArgs {
    /// Queue whose contract it is
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// Version that becomes the active one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    version: u32,
    /// Although the compatibility rule says no
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
pub(super) struct RetireArgs {
    /// Queue whose contract it is
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// Version whose publishers are refused
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    version: u32,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
pub(super) struct DeleteArgs {
    /// Queue that loses its contract
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(super) async fn rollback(args: RollbackArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let active =
        client.activate_schema(&args.queue, args.version, args.force).await.map_err(|error| broker::failure(error, Some(&args.queue)))?;
    let mut output = Output::stdout();
    output.line(format!("{}: version {} is active", active.version.queue, active.version.version))?;
    finding::print(&active.findings, &mut output)?;
    output.flush()
}

pub(super) async fn retire(args: RetireArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let retired = client.retire_schema(&args.queue, args.version).await.map_err(|error| broker::failure(error, Some(&args.queue)))?;
    let mut output = Output::stdout();
    output.line(format!("{}: version {} is retired; its publishers are refused", retired.version.queue, retired.version.version))?;
    output.flush()
}

pub(super) async fn delete(args: DeleteArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    client.delete_schema(&args.queue).await.map_err(|error| broker::failure(error, Some(&args.queue)))?;
    let mut output = Output::stdout();
    output.line(format!("{}: the contract is deleted", args.queue))?;
    output.flush()
}
