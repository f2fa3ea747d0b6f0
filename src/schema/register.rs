//! `schema register`: a candidate becomes a queue's contract, or a service the contracts of several.

use clap::Args;
use qwerq::{Client, ErrorCode, NewSchema, Schema};

use super::finding;
use super::source::FileArgs;
use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(super) struct RegisterArgs {
    /// Queue that gets the contract; made if it does not exist. With --service: instead of the service's name before the dot
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name, required_unless_present = "service")]
    queue: Option<String>,
    #[command(flatten)]
    file: FileArgs,
    /// Full name of the message type, such as shop.v1.Order
    #[arg(short, long, value_name = "TYPE", required_unless_present = "service")]
    message: Option<String>,
    /// Full name of the reply type, for a queue that can be called
    #[arg(long, value_name = "TYPE")]
    reply: Option<String>,
    /// Full name of a service, such as shop.Pricing: each rpc becomes the contract of a queue that can be called
    #[arg(long, value_name = "SERVICE", conflicts_with_all = ["message", "reply"])]
    service: Option<String>,
    /// Register although the compatibility rule says no
    #[arg(long)]
    force: bool,
    /// One JSON object a contract: the version, or what refuses it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(super) async fn run(args: RegisterArgs) -> Result<(), Failure> {
    let candidates = candidates(&args)?;
    let client = args.broker.connect().await?;
    let mut output = Output::stdout();
    if candidates.len() > 1 && !args.force {
        judge_all(&client, &candidates).await?;
    }
    for candidate in candidates {
        let candidate = NewSchema { force: args.force, ..candidate };
        let registered = match client.register_schema(candidate.clone()).await {
            Ok(registered) => registered,
            Err(error) => {
                let incompatible = error.code() == Some(ErrorCode::SchemaIncompatible);
                let failure = broker::failure(error, Some(&candidate.queue));
                if args.json && incompatible {
                    let judged = client.register_schema(NewSchema { dry_run: true, ..candidate }).await?;
                    output.json(&finding::verdict_json(&judged))?;
                }
                output.flush()?;
                return Err(failure);
            }
        };
        say(&registered, args.json, &mut output)?;
    }
    output.flush()
}

fn candidates(args: &RegisterArgs) -> Result<Vec<NewSchema>, Failure> {
    match (&args.service, &args.queue, &args.message) {
        (Some(service), prefix, _) => args.file.service(service, prefix.as_deref()),
        (None, Some(queue), Some(message)) => Ok(vec![args.file.message(queue, message, args.reply.as_deref())?]),
        (None, ..) => unreachable!("clap requires them without --service"),
    }
}

/// A service is registered as a whole or not at all: what the broker would refuse is found before the first rpc is registered.
async fn judge_all(client: &Client, candidates: &[NewSchema]) -> Result<(), Failure> {
    let mut output = Output::stdout();
    for candidate in candidates {
        let dry_run = NewSchema { dry_run: true, ..candidate.clone() };
        let judged = client.register_schema(dry_run).await.map_err(|error| broker::failure(error, Some(&candidate.queue)))?;
        if judged.refused {
            finding::print(&judged.findings, &mut output)?;
            output.flush()?;
            return Err(Failure::failed(format!("the contract of {} would break the rule {}", candidate.queue, judged.compatibility))
                .next_step("nothing is registered; change it as `instead` says, or register it with --force if nobody is left to break"));
        }
    }
    Ok(())
}

fn say(registered: &Schema, json: bool, output: &mut Output) -> Result<(), Failure> {
    if json {
        return output.json(&finding::verdict_json(registered));
    }
    let version = &registered.version;
    let news = if registered.existed { "known before, now active" } else { "new" };
    output.line(format!("{}: {} is version {} ({news})", version.queue, version.message_type, version.version))?;
    finding::print(&registered.findings, output)
}
