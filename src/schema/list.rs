//! `schema list` and `schema history`: versions as a table or as lines of JSON.

use clap::Args;

use super::version::{version_json, version_table};
use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// All versions of this queue's contract instead of the active one of every queue
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: Option<String>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
pub(super) struct HistoryArgs {
    /// Queue whose contract is asked for
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(super) async fn run(args: ListArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let versions = match &args.queue {
        Some(queue) => client.schema_versions(queue).await?,
        None => client.list_schemas().await?,
    };
    print(&versions, args.json)
}

/// A queue without a contract is an error here, since it was asked for by name.
pub(super) async fn history(args: HistoryArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let versions = client.schema_versions(&args.queue).await?;
    if versions.is_empty() {
        client.schema(&args.queue, None).await.map_err(|error| broker::failure(error, Some(&args.queue)))?;
    }
    print(&versions, args.json)
}

fn print(versions: &[qwerq::SchemaVersion], json: bool) -> Result<(), Failure> {
    let mut output = Output::stdout();
    if json {
        versions.iter().try_for_each(|version| output.json(&version_json(version)))?;
    } else {
        version_table(versions).print(&mut output)?;
    }
    output.flush()
}
