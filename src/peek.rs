//! `qwer-q peek`: stored messages to stdout, one JSON object a line, without leasing them.

use clap::Args;

use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::message_json::Contracts;
use crate::output::Output;
use crate::setting;

/// Messages of one request.
const PAGE: u64 = 256;

#[derive(Debug, Args)]
pub(crate) struct PeekArgs {
    /// Queue to look into; a dead letter queue too
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// Messages to show at most
    #[arg(short = 'n', long = "count", value_name = "N", default_value = "10", value_parser = setting::count::<u64>)]
    count: u64,
    /// Begin at that position
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    from_seq: u64,
    /// One JSON object a message, which is what it prints anyway
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(crate) fn run(args: PeekArgs) -> Result<(), Failure> {
    broker::block_on(peek(args))
}

async fn peek(args: PeekArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let mut output = Output::stdout();
    let mut contracts = Contracts::default();
    let (mut from_seq, mut left) = (args.from_seq, args.count);
    while left > 0 {
        let max = u32::try_from(left.min(PAGE)).expect("a page is small");
        let messages = client.peek(&args.queue, from_seq, max).await.map_err(|error| broker::failure(error, Some(&args.queue)))?;
        let Some(last) = messages.last() else {
            break;
        };
        from_seq = last.seq + 1;
        left = left.saturating_sub(u64::try_from(messages.len()).expect("a page is small"));
        for message in &messages {
            output.line(contracts.peeked_line(&client, &args.queue, message).await?)?;
        }
        output.flush()?;
    }
    Ok(())
}
