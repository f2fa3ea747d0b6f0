//! `schema validate`: would the queue accept this message?
//!
//! The broker's own validator judges, here, by the version and mode that the queue has now; nothing is published.

use std::path::PathBuf;

use clap::Args;
use qwerq_broker::registry::{Contract, Unknown};
use serde_json::json;

use crate::broker::{self, BrokerArgs, valid_name};
use crate::contract;
use crate::failure::Failure;
use crate::output::Output;
use crate::publish::{Bytes, parse_hex, read_raw};

#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    /// Queue whose contract judges
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// Version number [default: the active one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    version: Option<u32>,
    #[command(flatten)]
    message: MessageArgs,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct MessageArgs {
    /// The message as JSON
    #[arg(long, value_name = "JSON")]
    body: Option<String>,
    /// The message's bytes in hexadecimal; '' is zero bytes
    #[arg(long, value_name = "HEX", value_parser = parse_hex)]
    hex: Option<Bytes>,
    /// A file with the message's bytes
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
}

pub(super) async fn run(args: ValidateArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let refused = |error| broker::failure(error, Some(&args.queue));
    let schema = client.schema(&args.queue, args.version).await.map_err(refused)?;
    let options = client.queue_info(&args.queue).await.map_err(refused)?.options.unwrap_or_default();
    let unknown = if options.schema_mode.as_deref() == Some("strict") { Unknown::Refuse } else { Unknown::Accept };
    let (set, version) = (&schema.descriptor_set, &schema.version);
    let contract = Contract::restore(set, &version.message_type, None)
        .map_err(|error| Failure::failed(format!("cannot read the contract of {}: {error}", args.queue)))?;
    let payload = args.message.payload(|json| contract::Contract::new(set, &version.message_type)?.encode(json))?;
    let verdict = contract.validate(&payload, unknown);
    if args.json {
        let violation = verdict.as_ref().err();
        let mut output = Output::stdout();
        output.json(&json!({
            "queue": args.queue,
            "accepted": verdict.is_ok(),
            "version": version.version,
            "violation": violation.map(|violation| violation.kind.name()),
            "path": violation.map(|violation| &violation.path),
            "offset": violation.map(|violation| violation.offset),
            "message": violation.map(|violation| &violation.message),
        }))?;
        output.flush()?;
    }
    match verdict {
        Err(violation) => Err(Failure::failed(format!("schema-violation: {violation} (contract version {})", version.version))
            .context(format!("path: {}", violation.path))
            .context(format!("offset: {}", violation.offset))
            .next_step(format!("correct the message; `qwer-q schema get -q {}` shows the contract", args.queue))),
        Ok(()) if args.json => Ok(()),
        Ok(()) => {
            let mut output = Output::stdout();
            output.line(format!("{}: accepted as {} by version {}", args.queue, version.message_type, version.version))?;
            output.flush()
        }
    }
}

impl MessageArgs {
    fn payload(&self, encode: impl Fn(&str) -> Result<Vec<u8>, String>) -> Result<Vec<u8>, Failure> {
        match (&self.body, &self.hex, &self.raw) {
            (Some(json), _, _) => encode(json).map_err(Failure::failed),
            (None, Some(bytes), _) => Ok(bytes.0.clone()),
            (None, None, Some(path)) => read_raw(path),
            (None, None, None) => unreachable!("clap requires one of them"),
        }
    }
}
