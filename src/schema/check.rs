//! `schema check`: what a candidate would break, in other versions and in stored messages.

use clap::Args;

use super::source::FileArgs;
use super::{finding, shadow};
use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Queue that the candidate is for
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    #[command(flatten)]
    file: FileArgs,
    /// Full name of the message type, such as shop.v1.Order
    #[arg(short, long, value_name = "TYPE")]
    message: String,
    /// Full name of the reply type, for a queue that can be called
    #[arg(long, value_name = "TYPE")]
    reply: Option<String>,
    /// Also judge so many of the newest stored messages and dead letters by the candidate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(super) async fn run(args: CheckArgs) -> Result<(), Failure> {
    let candidate = qwerq::NewSchema { dry_run: true, ..args.file.message(&args.queue, &args.message, args.reply.as_deref())? };
    let client = args.broker.connect().await?;
    let judged = client.register_schema(candidate.clone()).await.map_err(|error| broker::failure(error, Some(&args.queue)))?;
    let shadow = match args.last {
        Some(last) => Some(shadow::run(&client, &candidate, last).await?),
        None => None,
    };
    let mut output = Output::stdout();
    if args.json {
        let mut object = finding::verdict_json(&judged);
        if let Some(shadow) = &shadow {
            object["stored"] = shadow.json();
        }
        output.json(&object)?;
    } else {
        finding::print(&judged.findings, &mut output)?;
        if let Some(shadow) = &shadow {
            shadow.print(&mut output)?;
        }
        if !judged.refused {
            let version = &judged.version;
            let news = if judged.existed { "which is known" } else { "a new one" };
            let rule = &judged.compatibility;
            output.line(format!("{}: allowed by {rule}; it would be version {}, {news}", version.queue, version.version))?;
        }
    }
    output.flush()?;
    let refused_messages = shadow.map_or(0, |shadow| shadow.refused());
    match (judged.refused, refused_messages) {
        (true, _) => Err(Failure::failed(format!("the candidate breaks the rule {}", judged.compatibility))
            .next_step("change it as `instead` says, or register it with --force if nobody is left to break")),
        (false, 0) => Ok(()),
        (false, refused) => Err(Failure::failed(format!("{refused} of the stored messages would be refused"))
            .next_step("whoever reads them with the new version must cope with them, or they must go first")),
    }
}
