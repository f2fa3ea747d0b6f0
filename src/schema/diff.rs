//! `schema diff`: what changed between two versions: the texts, and what that breaks at which level.

use clap::Args;
use qwerq::{Client, Schema};
use qwerq_broker::registry::compatibility::{Change, Layer, Version, compare};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// Queue whose contract it is
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// Earlier version
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    from: u32,
    /// Later version [default: the active one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    to: Option<u32>,
    /// One JSON object: the changes that break at some level
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(super) async fn run(args: DiffArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let from = fetch(&client, &args.queue, Some(args.from)).await?;
    let to = fetch(&client, &args.queue, args.to).await?;
    let (old, new) = (linked(&from)?, linked(&to)?);
    let changes = compare(&old, &new);
    let mut output = Output::stdout();
    if args.json {
        output.json(&json!({
            "queue": args.queue,
            "from": from.version.version,
            "to": to.version.version,
            "changes": changes.iter().map(change_json).collect::<Vec<_>>(),
        }))?;
    } else {
        print_texts(&from, &to, &mut output)?;
        for change in &changes {
            output.line(change_words(change))?;
        }
        if changes.is_empty() {
            output.line("nothing that breaks anybody at any level")?;
        }
    }
    output.flush()
}

async fn fetch(client: &Client, queue: &str, version: Option<u32>) -> Result<Schema, Failure> {
    client.schema(queue, version).await.map_err(|error| broker::failure(error, Some(queue)))
}

fn linked(schema: &Schema) -> Result<Version, Failure> {
    let reply = Some(schema.version.reply_type.as_str()).filter(|reply| !reply.is_empty());
    Version::compile(&schema.descriptor_set, &schema.version.message_type, reply)
        .map_err(|error| Failure::failed(format!("cannot read version {}: {error}", schema.version.version)))
}

/// The texts' differences, file by file, as `diff -u` shows them.
fn print_texts(from: &Schema, to: &Schema, output: &mut Output) -> Result<(), Failure> {
    let mut paths: Vec<&str> = from.sources.iter().chain(&to.sources).map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let text =
            |schema: &'_ Schema| schema.sources.iter().find(|file| file.path == path).map(|file| file.text.clone()).unwrap_or_default();
        let (old, new) = (text(from), text(to));
        if old != new {
            let heads = (format!("{path} (version {})", from.version.version), format!("{path} (version {})", to.version.version));
            let diff = TextDiff::from_lines(&old, &new);
            output.bytes(diff.unified_diff().header(&heads.0, &heads.1).to_string().as_bytes())?;
        }
    }
    Ok(())
}

fn level(layer: Option<Layer>) -> Option<&'static str> {
    layer.map(|layer| match layer {
        Layer::Wire => "wire",
        Layer::Json => "wire-json",
        Layer::Source => "source",
    })
}

fn change_words(change: &Change) -> String {
    let side = |name: &str, layer| level(layer).map(|level| format!("{name} at {level}"));
    let sides: Vec<_> =
        [side("new readers", change.breaks.backward), side("old readers", change.breaks.forward)].into_iter().flatten().collect();
    let sides = if sides.is_empty() { "nobody for sure".to_owned() } else { sides.join(", ") };
    format!("{}: {} [{}] breaks {sides}", change.path, change.rule.what(), change.rule)
}

fn change_json(change: &Change) -> Value {
    json!({
        "rule": change.rule.id(),
        "path": change.path,
        "before": (!change.before.is_empty()).then_some(&change.before),
        "after": (!change.after.is_empty()).then_some(&change.after),
        "breaks_new_readers_at": level(change.breaks.backward),
        "breaks_old_readers_at": level(change.breaks.forward),
        "what": change.rule.what(),
        "instead": change.rule.instead(),
    })
}
