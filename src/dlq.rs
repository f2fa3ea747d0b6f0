//! `qwer-q dlq list | peek | redrive | purge`: the dead letters of a queue.
//!
//! Which letters are meant is in `dlq/choice.rs`, what a letter tells about itself in `dlq/letter.rs`.

mod choice;
mod letter;

use clap::{Args, Subcommand};
use qwerq::{Client, RedriveTo, Redriven};
use serde_json::json;

use crate::broker::{self, BrokerArgs, valid_name};
use crate::confirmation::ConfirmationArgs;
use crate::failure::Failure;
use crate::message_json::Contracts;
use crate::output::Output;
use crate::progress;
use choice::{ChoiceArgs, Letters};

#[derive(Debug, Args)]
pub(crate) struct DlqArgs {
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Debug, Subcommand)]
enum DlqCommand {
    /// List dead letters: why, when and by which group
    #[command(
        after_help = "Examples:\n  qwer-q dlq list -q orders\n  qwer-q dlq list -q orders -g billing --reason rejected --since 10m\n  \
        qwer-q dlq list -q orders --json | jq -r .error"
    )]
    List(ListArgs),
    /// Print dead letters with their payloads, one JSON object a line
    #[command(after_help = "Examples:\n  qwer-q dlq peek -q orders -n 1 | jq .body\n  \
        qwer-q dlq peek -q orders --id 01KBM2Q8ZC3F8H4T0V5W6X7Y8Z")]
    Peek(PeekArgs),
    /// Send dead letters back to the group that each comes from, or elsewhere; attempts start again
    #[command(
        after_help = "Examples:\n  qwer-q dlq redrive -q orders\n  qwer-q dlq redrive -q orders -g billing --reason max-deliveries\n  \
        qwer-q dlq redrive -q orders --to orders.repaired -n 100\n  qwer-q dlq redrive -q orders --all-groups"
    )]
    Redrive(RedriveArgs),
    /// Remove dead letters for good
    #[command(after_help = "Examples:\n  qwer-q dlq purge -q orders --until 30d\n  \
        qwer-q dlq purge -q orders --id 01KBM2Q8ZC3F8H4T0V5W6X7Y8Z --yes")]
    Purge(PurgeArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
struct PeekArgs {
    /// One JSON object a message, which is what it prints anyway
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
struct RedriveArgs {
    /// To another queue, for all of its groups
    #[arg(long, value_name = "QUEUE", conflicts_with = "all_groups", value_parser = valid_name)]
    to: Option<String>,
    /// To every group of the queue that they come from: published anew
    #[arg(long)]
    all_groups: bool,
    /// One JSON object: redriven, refused, refusal
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
struct PurgeArgs {
    #[command(flatten)]
    confirmation: ConfirmationArgs,
    /// One JSON object: purged
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(crate) fn run(args: DlqArgs) -> Result<(), Failure> {
    broker::block_on(async {
        match args.command {
            DlqCommand::List(args) => list(args).await,
            DlqCommand::Peek(args) => peek(args).await,
            DlqCommand::Redrive(args) => redrive(args).await,
            DlqCommand::Purge(args) => purge(args).await,
        }
    })
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let mut output = Output::stdout();
    let mut table = letter::table();
    let mut letters = Letters::new(&args.choice);
    while let Some(page) = letters.next_page(&client).await? {
        if args.json {
            page.iter().try_for_each(|letter| output.json(&letter::json(letter)))?;
            output.flush()?;
        } else {
            page.iter().for_each(|letter| table.row(letter::row(letter)));
        }
    }
    if !args.json {
        table.print(&mut output)?;
    }
    output.flush()
}

async fn peek(args: PeekArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let mut output = Output::stdout();
    let mut contracts = Contracts::default();
    let queue = args.choice.dead_letter_queue();
    let mut letters = Letters::new(&args.choice);
    while let Some(page) = letters.next_page(&client).await? {
        for letter in &page {
            output.line(contracts.peeked_line(&client, &queue, letter).await?)?;
        }
        output.flush()?;
    }
    Ok(())
}

async fn redrive(args: RedriveArgs) -> Result<(), Failure> {
    let to = match (&args.to, args.all_groups) {
        (Some(queue), _) => RedriveTo::Queue(queue.clone()),
        (None, true) => RedriveTo::AllGroups,
        (None, false) => RedriveTo::Group,
    };
    let client = args.broker.connect().await?;
    let queue = args.choice.queue();
    let progress = progress::spinner("{spinner} redriving ({elapsed})");
    let done = client.redrive(queue, &args.choice.filter(), &to).await.map_err(|error| broker::failure(error, Some(queue)))?;
    progress.finish_and_clear();
    let mut output = Output::stdout();
    match args.json {
        true => output.json(&json!({
            "redriven": done.redriven,
            "refused": done.refused,
            "refusal": done.refusal.as_ref().map(ToString::to_string),
        }))?,
        false => output.line(redriven_words(&done, queue, &to))?,
    }
    output.flush()?;
    refused(&done, queue)
}

fn redriven_words(done: &Redriven, queue: &str, to: &RedriveTo) -> String {
    let noun = if done.redriven == 1 { "dead letter" } else { "dead letters" };
    let place = match to {
        RedriveTo::Group => "where they come from".to_owned(),
        RedriveTo::AllGroups => format!("all groups of {queue}"),
        RedriveTo::Queue(to) => format!("queue {to}"),
    };
    format!("redrove {} {noun} of {queue} to {place}", done.redriven)
}

/// Letters that stay make the command fail, with what keeps the first of them.
fn refused(done: &Redriven, queue: &str) -> Result<(), Failure> {
    if done.refused == 0 {
        return Ok(());
    }
    let noun = if done.refused == 1 { "dead letter stays" } else { "dead letters stay" };
    let failure = Failure::failed(format!("{} {noun}, since the broker refused to move what it holds", done.refused));
    let failure = match &done.refusal {
        Some(refusal) => failure.context(format!("the first: {refusal}")),
        None => failure,
    };
    Err(failure.next_step(format!("`qwer-q dlq peek -q {queue}` shows them; purge them, or redrive them --to a queue that takes them")))
}

async fn purge(args: PurgeArgs) -> Result<(), Failure> {
    let queue = args.choice.queue();
    args.confirmation.ask_people(&format!("remove {} of queue {queue} for good", args.choice.words()))?;
    let client: Client = args.broker.connect().await?;
    let progress = progress::spinner("{spinner} removing ({elapsed})");
    let purged = client.purge_dead_letters(queue, &args.choice.filter()).await.map_err(|error| broker::failure(error, Some(queue)))?;
    progress.finish_and_clear();
    let noun = if purged == 1 { "dead letter" } else { "dead letters" };
    let mut output = Output::stdout();
    match args.json {
        true => output.json(&json!({ "purged": purged }))?,
        false => output.line(format!("removed {purged} {noun} of {queue}"))?,
    }
    output.flush()
}
