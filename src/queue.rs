//! `qwer-q queue list | create | update | info | purge | delete`.
//!
//! The options are in `queue_option.rs`, how a queue is shown in `queue_view.rs`.

use clap::{Args, Subcommand};
use qwerq::QueueOptions;

use crate::broker::{self, BrokerArgs, valid_name};
use crate::confirmation::ConfirmationArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress;
use crate::queue_option::{QueueChangeArgs, QueueOptionArgs};
use crate::queue_view;

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
    /// Change options of a queue; those that are not named stay
    #[command(after_help = "Examples:\n  qwer-q queue update jobs --max-deliveries 10\n  \
        qwer-q queue update jobs --visibility-timeout 2m --on-failure drop")]
    Update(UpdateArgs),
    /// Show a queue's options, depth and consumer groups
    #[command(after_help = "Examples:\n  qwer-q queue info orders\n  qwer-q queue info orders --json | jq .depth")]
    Info(InfoArgs),
    /// Remove all messages of a queue, delayed and leased ones too; groups, options and contract stay
    #[command(after_help = "Examples:\n  qwer-q queue purge orders\n  qwer-q queue purge orders --yes      # in a script")]
    Purge(DestroyArgs),
    /// Delete a queue with its messages, consumer groups and contract
    #[command(after_help = "Examples:\n  qwer-q queue delete orders\n  qwer-q queue delete orders --yes     # in a script")]
    Delete(DestroyArgs),
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
struct UpdateArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    changes: QueueChangeArgs,
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
struct DestroyArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    confirmation: ConfirmationArgs,
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
            QueueCommand::Update(args) => update(args).await,
            QueueCommand::Info(args) => info(args).await,
            QueueCommand::Purge(args) => purge(args).await,
            QueueCommand::Delete(args) => delete(args).await,
        }
    })
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let queues = args.broker.connect().await?.list_queues().await?;
    let mut output = Output::stdout();
    if args.json {
        queues.iter().try_for_each(|queue| output.json(&queue_view::json(queue)))?;
    } else {
        queue_view::table(&queues).print(&mut output)?;
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

async fn update(args: UpdateArgs) -> Result<(), Failure> {
    let changes = *args.changes.0.0;
    if changes == QueueOptions::default() {
        return Err(
            Failure::usage("no option is named, so nothing would change").next_step("`qwer-q queue update --help` lists the options")
        );
    }
    let client = args.broker.connect().await?;
    let queue = client.update_queue(args.name.name(), changes).await?;
    let mut output = Output::stdout();
    output.line(format!("queue {} is updated", queue.name))?;
    output.flush()
}

async fn info(args: InfoArgs) -> Result<(), Failure> {
    let queue = args.broker.connect().await?.queue_info(args.name.name()).await?;
    let mut output = Output::stdout();
    if args.json {
        output.json(&queue_view::json(&queue))?;
    } else {
        queue_view::print(&queue, &mut output)?;
    }
    output.flush()
}

async fn purge(args: DestroyArgs) -> Result<(), Failure> {
    let name = args.name.name();
    args.confirmation.ask(&format!("remove all messages of queue {name}"))?;
    let client = args.broker.connect().await?;
    let progress = progress::spinner("{spinner} removing ({elapsed})");
    let removed = client.purge_queue(name).await?;
    progress.finish_and_clear();
    let noun = if removed == 1 { "message" } else { "messages" };
    let mut output = Output::stdout();
    output.line(format!("removed {removed} {noun} from queue {name}"))?;
    output.flush()
}

async fn delete(args: DestroyArgs) -> Result<(), Failure> {
    let name = args.name.name();
    args.confirmation.ask(&format!("delete queue {name} with its messages, consumer groups and contract"))?;
    args.broker.connect().await?.delete_queue(name).await?;
    let mut output = Output::stdout();
    output.line(format!("queue {name} is deleted"))?;
    output.flush()
}
