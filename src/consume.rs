//! `qwer-q consume`: messages to stdout, one JSON object a line, each acknowledged after its line was written.
//!
//! How a message becomes a line is in `message_json.rs`.

use std::time::Duration;

use clap::Args;
use qwerq::{Client, ConsumeOptions, Delivery, Reconnect, Subscription};

use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::interruption::interruption;
use crate::message_json::Contracts;
use crate::output::{self, Output};
use crate::{duration, setting};

/// Messages held at once. Few, since another consumer cannot have what waits here.
const PREFETCH: u32 = 64;

#[derive(Debug, Args)]
pub(crate) struct ConsumeArgs {
    /// Queue to consume from
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// Consumer group; made if it does not exist [default: the queue's default group]
    #[arg(short, long, value_name = "GROUP", value_parser = valid_name)]
    group: Option<String>,
    /// End after so many messages
    #[arg(short = 'n', long = "count", value_name = "N", value_parser = setting::count::<u64>)]
    count: Option<u64>,
    /// End when no message has come for so long, such as 5s
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(crate) fn run(args: ConsumeArgs) -> Result<(), Failure> {
    broker::block_on(consume(args))
}

async fn consume(args: ConsumeArgs) -> Result<(), Failure> {
    let reconnect = Reconnect { attempts: Some(20), ..Reconnect::default() };
    let client = args.broker.builder().reconnect(reconnect).connect().await?;
    let options = ConsumeOptions::new().group(args.group.unwrap_or_default()).prefetch(args.count.map_or(PREFETCH, prefetch));
    let mut subscription = client.consume(&args.queue, options).await?;
    let end = End { count: args.count, quiet: args.wait };
    let outcome = print_messages(&client, &mut subscription, end).await;
    // Gives back uncounted what was held and not acknowledged. If the connection is gone, the leases have ended with it.
    let _ = subscription.close().await;
    let _ = client.close().await;
    outcome
}

/// Messages to hold when so many are left to print.
fn prefetch(left: u64) -> u32 {
    u32::try_from(left).unwrap_or(PREFETCH).min(PREFETCH)
}

/// When to stop: after so many messages, or when none came for so long; otherwise never.
#[derive(Debug, Clone, Copy)]
struct End {
    count: Option<u64>,
    quiet: Option<Duration>,
}

async fn print_messages(client: &Client, subscription: &mut Subscription, end: End) -> Result<(), Failure> {
    let mut output = Output::stdout();
    let mut contracts = Contracts::default();
    let mut left = end.count.unwrap_or(u64::MAX);
    let mut interrupted = std::pin::pin!(interruption());
    let mut unread = std::pin::pin!(output::stdout_closed());
    while left > 0 {
        // What was printed is acknowledged too: an interrupt counts between batches.
        let next = tokio::select! {
            next = next_batch(subscription, end.quiet) => next?,
            () = &mut interrupted => None,
            gone = &mut unread => return Err(gone),
        };
        let Some(mut batch) = next else {
            return Ok(());
        };
        // What is beyond the count goes back when the subscription closes.
        batch.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        left -= u64::try_from(batch.len()).expect("no more than is left");
        for delivery in &batch {
            let line = contracts.line(client, delivery).await?;
            output.line(line)?;
        }
        output.flush()?;
        if left < u64::from(PREFETCH) {
            // An ack makes room; what comes in it and is not wanted would be taken from other consumers for nothing.
            subscription.set_prefetch(prefetch(left), 0)?;
        }
        acknowledge(batch).await?;
    }
    Ok(())
}

/// What is there, waiting for the first; none when the subscription ended or all was quiet for so long.
async fn next_batch(subscription: &mut Subscription, quiet: Option<Duration>) -> Result<Option<Vec<Delivery>>, Failure> {
    let mut batch = Vec::new();
    let next = subscription.next_batch(&mut batch);
    let arrived = match quiet {
        Some(limit) => match tokio::time::timeout(limit, next).await {
            Ok(arrived) => arrived,
            Err(_) => return Ok(None),
        },
        None => next.await,
    };
    match arrived {
        Some(Ok(_)) => Ok(Some(batch)),
        Some(Err(error)) => Err(error.into()),
        None => Ok(None),
    }
}

/// Returns when the broker has confirmed the last of them, and so the ones before it.
async fn acknowledge(batch: Vec<Delivery>) -> Result<(), Failure> {
    let last = batch.len().saturating_sub(1);
    for (index, delivery) in batch.into_iter().enumerate() {
        let seq = delivery.seq;
        let acked = if index == last { delivery.ack_confirmed().await } else { delivery.ack() };
        match acked {
            Ok(()) => {}
            // At least once: it is printed again when it comes again.
            Err(error) if error.refusal().is_some() || error.is_retryable() => {
                output::note(format!("seq {seq} was not acknowledged: {error}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
