//! `qwer-q consume`: messages to stdout, one JSON object a line, each settled after its line was written.
//!
//! How a message becomes a line is in `message_json.rs`, what becomes of it in `fate.rs`.

use std::time::Duration;

use clap::Args;
use qwerq::{Client, ConsumeOptions, Delivery, ErrorCode, FetchOptions, LeaseId, Settlement, StartAt, Subscription};

use crate::broker::{self, BrokerArgs, ReconnectArgs, valid_name};
use crate::failure::Failure;
use crate::fate::{Fate, FateArgs};
use crate::interruption::interruption;
use crate::message_json::Contracts;
use crate::output::{self, Output};
use crate::{duration, setting, start_at};

/// Messages held at once. Few, since another consumer cannot have what waits here.
const PREFETCH: u32 = 64;

/// How long one FETCH waits when the user sets no limit.
const FETCH_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct ConsumeArgs {
    /// Queue to consume from
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// Consumer group; made if it does not exist [default: a queue's group `default`; none on a stream]
    #[arg(short, long, value_name = "GROUP", value_parser = valid_name)]
    group: Option<String>,
    /// End after so many messages
    #[arg(short = 'n', long = "count", value_name = "N", value_parser = setting::count::<u64>)]
    count: Option<u64>,
    /// End when no message has come for so long, such as 5s
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// Where a new group begins, or a stream's reader without one [default: beginning; end for such a reader]
    #[arg(long, value_name = start_at::FORMS, value_parser = start_at::parse)]
    from: Option<StartAt>,
    /// Follow what is published from now on, without a group and without taking anything from anybody
    #[arg(long, conflicts_with_all = ["group", "from", "fate"])]
    tail: bool,
    /// One JSON object a message, which is what it prints anyway
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fate: FateArgs,
    #[command(flatten)]
    broker: BrokerArgs,
    #[command(flatten)]
    reconnect: ReconnectArgs,
}

pub(crate) fn run(args: ConsumeArgs) -> Result<(), Failure> {
    broker::block_on(consume(args))
}

async fn consume(args: ConsumeArgs) -> Result<(), Failure> {
    let client = args.broker.builder().reconnect(args.reconnect.policy()).connect().await?;
    let outcome = match args.fate.fate() {
        Fate::Settled(settlement) => subscribe(&client, &args, &settlement).await,
        Fate::Left => fetch_and_leave(&client, &args).await,
    };
    // If the connection is gone, the leases have ended with it.
    let _ = client.close().await;
    outcome
}

async fn subscribe(client: &Client, args: &ConsumeArgs, settlement: &Settlement) -> Result<(), Failure> {
    let options = ConsumeOptions {
        group: args.group.clone().unwrap_or_default(),
        prefetch: args.count.map_or(PREFETCH, prefetch),
        start_at: args.from,
        tail: args.tail,
        ..ConsumeOptions::new()
    };
    let opened = client.consume(&args.queue, options).await;
    let mut subscription = opened.map_err(|error| broker::failure(error, Some(&args.queue)))?;
    if args.from.is_some() && subscription.group_existed() {
        say_that_from_is_ignored(args, subscription.group());
    }
    let outcome = match subscription.group().is_empty() && *settlement != Settlement::Ack {
        true => Err(Failure::usage(format!("a reader of {} without a consumer group has nothing to settle", args.queue))
            .next_step("name a group with --group")),
        false => print_and_settle(client, &mut subscription, settlement, args).await,
    };
    // Gives back uncounted what was held and not settled.
    let _ = subscription.close().await;
    outcome
}

fn say_that_from_is_ignored(args: &ConsumeArgs, group: &str) {
    output::note(format!(
        "note: the group {group} exists and goes on where it was, so --from is ignored; \
         `qwer-q group seek {group} -q {} --from ...` moves it",
        args.queue
    ));
}

/// Messages to hold when so many are left to print.
fn prefetch(left: u64) -> u32 {
    u32::try_from(left).unwrap_or(PREFETCH).min(PREFETCH)
}

async fn print_and_settle(
    client: &Client,
    subscription: &mut Subscription,
    settlement: &Settlement,
    args: &ConsumeArgs,
) -> Result<(), Failure> {
    let mut output = Output::stdout();
    let mut contracts = Contracts::default();
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut interrupted = std::pin::pin!(interruption());
    let mut unread = std::pin::pin!(output::stdout_closed());
    while left > 0 {
        // What was printed is settled too: an interrupt counts between batches.
        let next = tokio::select! {
            next = next_batch(subscription, args.wait) => next?,
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
            output.line(contracts.delivery_line(client, delivery).await?)?;
        }
        output.flush()?;
        if left < u64::from(PREFETCH) && batch.iter().any(|delivery| delivery.lease_id().is_some()) {
            // Settling makes room; what comes in it and is not wanted would be taken from other consumers for nothing.
            subscription.set_prefetch(prefetch(left), 0)?;
        }
        settle(client, batch, settlement).await?;
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

/// Returns when the broker has confirmed all of them. What has no lease needs no settlement.
async fn settle(client: &Client, batch: Vec<Delivery>, settlement: &Settlement) -> Result<(), Failure> {
    let (seqs, leases): (Vec<u64>, Vec<LeaseId>) =
        batch.iter().filter_map(|delivery| delivery.lease_id().map(|lease| (delivery.seq, *lease))).unzip();
    if leases.is_empty() {
        return Ok(());
    }
    let results = client.settle_leases(settlement.clone(), &leases).await?;
    for (seq, result) in seqs.into_iter().zip(results) {
        match result {
            Ok(()) => {}
            // At least once: it is printed again when it comes again.
            Err(error) if error.code() == Some(ErrorCode::StaleLease) || error.is_retryable() => {
                output::note(format!("note: seq {seq} was not {} and comes again: {error}", past(settlement)));
            }
            Err(error) => return Err(Failure::from(error).context(format!("seq {seq} was not {} and comes again", past(settlement)))),
        }
    }
    Ok(())
}

fn past(settlement: &Settlement) -> &'static str {
    match settlement {
        Settlement::Ack => "acknowledged",
        Settlement::Nack { .. } => "put back",
        Settlement::Reject { .. } => "rejected",
        _ => "settled",
    }
}

/// Fetches messages under leases that outlive this process.
async fn fetch_and_leave(client: &Client, args: &ConsumeArgs) -> Result<(), Failure> {
    if args.from.is_some()
        && let Some(group) = existing_group(client, args).await?
    {
        say_that_from_is_ignored(args, &group);
    }
    let mut output = Output::stdout();
    let mut contracts = Contracts::default();
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut interrupted = std::pin::pin!(interruption());
    let mut unread = std::pin::pin!(output::stdout_closed());
    while left > 0 {
        let options = FetchOptions {
            group: args.group.clone().unwrap_or_default(),
            max: prefetch(left),
            wait: args.wait.unwrap_or(FETCH_WAIT),
            detached: true,
            start_at: args.from,
            ..FetchOptions::default()
        };
        // A fetch that is given up releases what still comes.
        let fetched = tokio::select! {
            fetched = client.fetch(&args.queue, options) => fetched.map_err(|error| broker::failure(error, Some(&args.queue)))?,
            () = &mut interrupted => return Ok(()),
            gone = &mut unread => return Err(gone),
        };
        if fetched.is_empty() && args.wait.is_some() {
            return Ok(());
        }
        left = left.saturating_sub(u64::try_from(fetched.len()).expect("no more than was asked for"));
        for delivery in &fetched {
            output.line(contracts.leased_line(client, delivery).await?)?;
        }
        output.flush()?;
    }
    Ok(())
}

/// The group that would be consumed in, if it is there.
async fn existing_group(client: &Client, args: &ConsumeArgs) -> Result<Option<String>, Failure> {
    let queue = match client.queue_info(&args.queue).await {
        Ok(queue) => queue,
        Err(error) if error.code() == Some(ErrorCode::QueueNotFound) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let name = args.group.as_deref().unwrap_or("default");
    Ok(queue.groups.into_iter().map(|group| group.name).find(|group| group == name))
}
