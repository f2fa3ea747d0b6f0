//! `qwer-q queue list | create | info | delete`.
//!
//! Tables for people, JSON lines for programs; the options are in `queue_option.rs`.

use clap::{Args, Subcommand};
use qwerq_proto::wire::{GroupInfo, QueueInfo, SchemaVersion};
use serde_json::{Value, json};

use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::output::Output;
use crate::queue_option::{self, QueueOptionArgs};
use crate::table::Table;
use crate::{size, timestamp};

#[derive(Debug, Args)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    command: QueueCommand,
}

#[derive(Debug, Subcommand)]
enum QueueCommand {
    /// List all queues
    #[command(after_help = "Examples:\n  qwer-q queue list\n  qwer-q queue list --json | jq -r .name")]
    List(ListArgs),
    /// Make a queue; one that exists with the same options is not an error
    #[command(after_help = "Examples:\n  qwer-q queue create orders\n  \
        qwer-q queue create audit --mode stream --max-age 7d --max-bytes 10GiB\n  \
        qwer-q queue create jobs --max-deliveries 10 --retry-backoff 2s..5m")]
    Create(CreateArgs),
    /// Show a queue's options, depth and consumer groups
    #[command(after_help = "Examples:\n  qwer-q queue info orders\n  qwer-q queue info orders --json | jq .depth")]
    Info(InfoArgs),
    /// Delete a queue with its messages, consumer groups and contract
    #[command(after_help = "Examples:\n  qwer-q queue delete orders")]
    Delete(DeleteArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
struct CreateArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    options: QueueOptionArgs,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
struct InfoArgs {
    #[command(flatten)]
    name: NameArgs,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    broker: BrokerArgs,
}

/// The queue by position, or by `-q` as the other commands take it.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct NameArgs {
    /// Name of the queue
    #[arg(value_name = "QUEUE", value_parser = valid_name)]
    name: Option<String>,
    #[arg(short, long = "queue", value_name = "QUEUE", value_parser = valid_name, hide = true)]
    queue: Option<String>,
}

impl NameArgs {
    fn name(&self) -> &str {
        self.name.as_deref().or(self.queue.as_deref()).expect("clap requires one of the two")
    }
}

pub(crate) fn run(args: QueueArgs) -> Result<(), Failure> {
    broker::block_on(async {
        match args.command {
            QueueCommand::List(args) => list(args).await,
            QueueCommand::Create(args) => create(args).await,
            QueueCommand::Info(args) => info(args).await,
            QueueCommand::Delete(args) => delete(args).await,
        }
    })
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let queues = args.broker.connect().await?.list_queues().await?;
    let mut output = Output::stdout();
    if args.json {
        queues.iter().try_for_each(|queue| output.json(&queue_json(queue)))?;
    } else {
        queue_table(&queues).print(&mut output)?;
    }
    output.flush()
}

async fn create(args: CreateArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let queue = client.create_queue(args.name.name(), *args.options.0).await?;
    let mut output = Output::stdout();
    output.line(format!("queue {} is ready", queue.name))?;
    output.flush()
}

async fn info(args: InfoArgs) -> Result<(), Failure> {
    let queue = args.broker.connect().await?.queue_info(args.name.name()).await?;
    let mut output = Output::stdout();
    if args.json {
        output.json(&queue_json(&queue))?;
    } else {
        print_info(&queue, &mut output)?;
    }
    output.flush()
}

async fn delete(args: DeleteArgs) -> Result<(), Failure> {
    args.broker.connect().await?.delete_queue(args.name.name()).await?;
    let mut output = Output::stdout();
    output.line(format!("queue {} is deleted", args.name.name()))?;
    output.flush()
}

fn queue_table(queues: &[QueueInfo]) -> Table {
    let mut table = Table::new(&["QUEUE", "MODE", ">DEPTH", ">BYTES", ">IN FLIGHT", ">DELAYED", ">GROUPS", "CONTRACT"]);
    for queue in queues {
        let mode = queue.options.as_ref().and_then(|options| options.mode.clone());
        table.row(vec![
            queue.name.clone(),
            mode.unwrap_or_default(),
            queue.depth.to_string(),
            queue.bytes.to_string(),
            queue.in_flight.to_string(),
            queue.delayed.to_string(),
            queue.groups.len().to_string(),
            queue.contract.as_ref().map(contract_words).unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}

fn print_info(queue: &QueueInfo, output: &mut Output) -> Result<(), Failure> {
    let contract = queue.contract.as_ref().map_or_else(|| "none".to_owned(), contract_words);
    let mut facts = vec![
        ("queue", queue.name.clone()),
        ("contract", contract),
        ("created_at", timestamp::format_ms(queue.created_at_ms)),
        ("depth", queue.depth.to_string()),
        ("bytes", size::format(queue.bytes)),
        ("ready", queue.ready.to_string()),
        ("delayed", queue.delayed.to_string()),
        ("backing_off", queue.backing_off.to_string()),
        ("in_flight", queue.in_flight.to_string()),
        ("first_seq", queue.first_seq.to_string()),
        ("next_seq", queue.next_seq.to_string()),
    ];
    facts.extend(queue.options.as_ref().map(queue_option::shown).unwrap_or_default());
    let mut table = Table::new(&["FACT", "VALUE"]);
    for (name, value) in facts {
        table.row(vec![name.to_owned(), value]);
    }
    table.print(output)?;
    if queue.groups.is_empty() {
        return Ok(());
    }
    output.line("")?;
    group_table(&queue.groups).print(output)
}

fn group_table(groups: &[GroupInfo]) -> Table {
    let mut table = Table::new(&["GROUP", ">ACK FLOOR", ">LAG", ">IN FLIGHT", ">BACKING OFF", ">CONSUMERS", ">BLOCKED KEYS"]);
    for group in groups {
        table.row(vec![
            group.name.clone(),
            group.ack_floor.to_string(),
            group.lag.to_string(),
            group.in_flight.to_string(),
            group.backing_off.to_string(),
            group.consumers.to_string(),
            group.blocked_keys.to_string(),
        ]);
    }
    table
}

fn contract_words(version: &SchemaVersion) -> String {
    format!("{} v{}", version.message_type, version.version)
}

fn queue_json(queue: &QueueInfo) -> Value {
    let groups: Vec<Value> = queue.groups.iter().map(group_json).collect();
    json!({
        "name": queue.name,
        "depth": queue.depth,
        "bytes": queue.bytes,
        "ready": queue.ready,
        "delayed": queue.delayed,
        "backing_off": queue.backing_off,
        "in_flight": queue.in_flight,
        "first_seq": queue.first_seq,
        "next_seq": queue.next_seq,
        "created_at": timestamp::format_ms(queue.created_at_ms),
        "contract": queue.contract.as_ref().map(crate::schema::version_json),
        "groups": groups,
        "options": queue.options.as_ref().map(queue_option::json),
    })
}

fn group_json(group: &GroupInfo) -> Value {
    json!({
        "name": group.name,
        "ack_floor": group.ack_floor,
        "lag": group.lag,
        "in_flight": group.in_flight,
        "backing_off": group.backing_off,
        "consumers": group.consumers,
        "blocked_keys": group.blocked_keys,
    })
}
