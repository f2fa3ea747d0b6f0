//! `qwer-q explain`: why a message, an ordering key or a consumer group does not move. The broker finds the words; this prints them.

use std::collections::BTreeMap;

use clap::Args;
use qwerq::{Explain, Explanation, MessageId};
use serde_json::json;

use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Queue to ask about
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// Consumer group to ask about [default: each one]
    #[arg(short, long, value_name = "GROUP", value_parser = valid_name)]
    group: Option<String>,
    /// Ask about the message with that id
    #[arg(long, value_name = "ID", conflicts_with_all = ["seq", "key"])]
    id: Option<MessageId>,
    /// Ask about the message at that position
    #[arg(long, value_name = "SEQ", conflicts_with = "key")]
    seq: Option<u64>,
    /// Ask about an ordering key: what its next message waits for
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// One JSON object an explanation
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(crate) fn run(args: ExplainArgs) -> Result<(), Failure> {
    broker::block_on(explain(args))
}

async fn explain(args: ExplainArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let request = Explain {
        queue: args.queue.clone(),
        group: args.group.unwrap_or_default(),
        id: args.id.map(|id| id.as_bytes().to_vec().into()).unwrap_or_default(),
        seq: args.seq,
        ordering_key: args.key.unwrap_or_default(),
    };
    let explanations = client.explain(request).await.map_err(|error| broker::failure(error, Some(&args.queue)))?;
    let mut output = Output::stdout();
    for (at, explanation) in explanations.iter().enumerate() {
        if args.json {
            let Explanation { group, cause, text, details } = explanation;
            let details: BTreeMap<_, _> = details.iter().collect();
            output.json(&json!({"cause": cause, "text": text, "group": group, "details": details}))?;
        } else {
            if at > 0 {
                output.line("")?;
            }
            print(explanation, &mut output)?;
        }
    }
    output.flush()
}

/// The sentence, then what programs would read.
fn print(explanation: &Explanation, output: &mut Output) -> Result<(), Failure> {
    output.line(&explanation.text)?;
    output.line(format!("  cause: {}", explanation.cause))?;
    if !explanation.group.is_empty() {
        output.line(format!("  group: {}", explanation.group))?;
    }
    let details: BTreeMap<_, _> = explanation.details.iter().collect();
    details.into_iter().try_for_each(|(name, value)| output.line(format!("  {name}: {value}")))
}
