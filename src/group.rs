//! `qwer-q group list | create | info | seek | delete`: the consumer groups of a queue.

use clap::{Args, Subcommand};
use qwerq::{Client, GroupInfo, StartAt};
use serde_json::Value;

use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::output::Output;
use crate::start_at;
use crate::table::{Table, Way};

#[derive(Debug, Args)]
pub(crate) struct GroupArgs {
    #[command(subcommand)]
    command: GroupCommand,
}

#[derive(Debug, Subcommand)]
enum GroupCommand {
    /// List a queue's consumer groups
    #[command(after_help = "Examples:\n  qwer-q group list -q orders\n  qwer-q group list -q orders --json | jq -r .name")]
    List(ListArgs),
    /// Make a consumer group, so that it misses nothing before its first consumer comes
    #[command(after_help = "Examples:\n  qwer-q group create billing -q orders\n  qwer-q group create audit -q orders --from end\n  \
        qwer-q group create replay -q events --from time=2026-12-01T08:00:00Z")]
    Create(CreateArgs),
    /// Show how far a consumer group is
    #[command(after_help = "Examples:\n  qwer-q group info billing -q orders\n  qwer-q group info billing -q orders --json | jq .lag")]
    Info(InfoArgs),
    /// Move a consumer group; its leases and attempts end. On a queue it sees at most what is still stored
    #[command(after_help = "Examples:\n  qwer-q group seek audit -q events --from beginning\n  \
        qwer-q group seek audit -q events --from offset=1200")]
    Seek(SeekArgs),
    /// Delete a consumer group with its progress
    #[command(after_help = "Examples:\n  qwer-q group delete billing -q orders")]
    Delete(DeleteArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    queue: QueueArg,
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
    /// Where it begins
    #[arg(long, value_name = start_at::FORMS, value_parser = start_at::parse, default_value = "beginning")]
    from: StartAt,
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
struct SeekArgs {
    #[command(flatten)]
    name: NameArgs,
    /// Where it goes on
    #[arg(long, value_name = start_at::FORMS, value_parser = start_at::parse)]
    from: StartAt,
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

#[derive(Debug, Args)]
struct QueueArg {
    /// Queue or stream
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
}

#[derive(Debug, Args)]
struct NameArgs {
    /// Name of the consumer group
    #[arg(value_name = "GROUP", value_parser = valid_name)]
    name: String,
    #[command(flatten)]
    queue: QueueArg,
}

impl NameArgs {
    fn names(&self) -> (&str, &str) {
        (&self.queue.queue, &self.name)
    }
}

pub(crate) fn run(args: GroupArgs) -> Result<(), Failure> {
    broker::block_on(async {
        match args.command {
            GroupCommand::List(args) => list(args).await,
            GroupCommand::Create(args) => create(args).await,
            GroupCommand::Info(args) => info(args).await,
            GroupCommand::Seek(args) => seek(args).await,
            GroupCommand::Delete(args) => delete(args).await,
        }
    })
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let groups = groups(&client, &args.queue.queue).await?;
    let mut output = Output::stdout();
    if args.json {
        groups.iter().try_for_each(|group| output.json(&json(group)))?;
    } else {
        table(&groups).print(&mut output)?;
    }
    output.flush()
}

async fn create(args: CreateArgs) -> Result<(), Failure> {
    let (queue, group) = args.name.names();
    let client = args.broker.connect().await?;
    client.create_group(queue, group, args.from).await.map_err(|error| broker::failure(error, Some(queue)))?;
    say(format!("group {group} of {queue} is ready"))
}

async fn info(args: InfoArgs) -> Result<(), Failure> {
    let (queue, name) = args.name.names();
    let client = args.broker.connect().await?;
    let groups = groups(&client, queue).await?;
    let Some(group) = groups.iter().find(|group| group.name == name) else {
        return Err(Failure::failed(format!("group-not-found: the queue {queue} has no consumer group {name}"))
            .next_step(format!("`qwer-q group list -q {queue}` shows those that it has")));
    };
    let mut output = Output::stdout();
    match args.json {
        true => output.json(&json(group))?,
        false => table(std::slice::from_ref(group)).print(&mut output)?,
    }
    output.flush()
}

async fn seek(args: SeekArgs) -> Result<(), Failure> {
    let (queue, group) = args.name.names();
    let client = args.broker.connect().await?;
    client.seek_group(queue, group, args.from).await.map_err(|error| broker::failure(error, Some(queue)))?;
    say(format!("group {group} of {queue} goes on from there"))
}

async fn delete(args: DeleteArgs) -> Result<(), Failure> {
    let (queue, group) = args.name.names();
    let client = args.broker.connect().await?;
    client.delete_group(queue, group).await.map_err(|error| broker::failure(error, Some(queue)))?;
    say(format!("group {group} of {queue} is deleted"))
}

async fn groups(client: &Client, queue: &str) -> Result<Vec<GroupInfo>, Failure> {
    let info = client.queue_info(queue).await.map_err(|error| broker::failure(error, Some(queue)))?;
    Ok(info.groups)
}

fn say(text: String) -> Result<(), Failure> {
    let mut output = Output::stdout();
    output.line(text)?;
    output.flush()
}

/// Groups in a table, for people.
pub(crate) fn table(groups: &[GroupInfo]) -> Table {
    let columns = ["GROUP", ">ACK FLOOR", ">LAG", ">IN FLIGHT", ">BACKING OFF", ">CONSUMERS", ">BLOCKED KEYS"];
    let ways = [
        ("GROUP", Way::KeepStart(20)),
        ("BLOCKED KEYS", Way::Out),
        ("BACKING OFF", Way::Out),
        ("GROUP", Way::KeepStart(12)),
        ("ACK FLOOR", Way::Out),
    ];
    let mut table = Table::new(&columns).giving_way(&ways);
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

/// A group for programs.
pub(crate) fn json(group: &GroupInfo) -> Value {
    serde_json::json!({
        "name": group.name,
        "ack_floor": group.ack_floor,
        "lag": group.lag,
        "in_flight": group.in_flight,
        "backing_off": group.backing_off,
        "consumers": group.consumers,
        "blocked_keys": group.blocked_keys,
    })
}
