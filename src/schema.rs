//! `qwer-q schema register | list | get`.
//!
//! `.proto` files are compiled here, by `qwerq-codegen`; the broker gets descriptors and keeps the text beside them.

mod service;

use std::path::PathBuf;

use base64::Engine;
use clap::{Args, Subcommand, ValueEnum};
use qwerq::{Client, NewSchema, Schema, SchemaVersion, SourceFile};
use serde_json::{Value, json};

use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::output::Output;
use crate::table::Table;
use crate::timestamp;

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    #[command(subcommand)]
    command: SchemaCommand,
}

#[derive(Debug, Subcommand)]
enum SchemaCommand {
    /// Make a message of a .proto file the contract of a queue, or each rpc of a service that of its own queue
    #[command(after_help = "Examples:\n  qwer-q schema register -q orders -p shop.proto -m shop.v1.Order\n  \
        qwer-q schema register -q pricing.quote -p pricing.proto -m shop.QuoteRequest --reply shop.Quote\n  \
        qwer-q schema register -p pricing.proto --service shop.Pricing      # rpc GetQuote: queue pricing.get_quote\n  \
        qwer-q schema register -q orders -p proto/shop/v1/order.proto -m shop.v1.Order -I proto -I vendor")]
    Register(RegisterArgs),
    /// List the contracts of all queues, or all versions of one
    #[command(after_help = "Examples:\n  qwer-q schema list\n  qwer-q schema list -q orders\n  \
        qwer-q schema list --json | jq -r .message_type")]
    List(ListArgs),
    /// Print a queue's contract
    #[command(after_help = "Examples:\n  qwer-q schema get -q orders\n  \
        qwer-q schema get -q orders --version 2 --format json\n  \
        qwer-q schema get -q orders --format descriptor > orders.binpb")]
    Get(GetArgs),
}

#[derive(Debug, Args)]
struct RegisterArgs {
    /// Queue that gets the contract; made if it does not exist. With --service: instead of the service's name before the dot
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name, required_unless_present = "service")]
    queue: Option<String>,
    /// The .proto file, or a descriptor set made by protoc or buf
    #[arg(short, long, value_name = "FILE")]
    proto: PathBuf,
    /// Full name of the message type, such as shop.v1.Order
    #[arg(short, long, value_name = "TYPE", required_unless_present = "service")]
    message: Option<String>,
    /// Full name of the reply type, for a queue that can be called
    #[arg(long, value_name = "TYPE")]
    reply: Option<String>,
    /// Full name of a service, such as shop.Pricing: each rpc becomes the contract of a queue that can be called
    #[arg(long, value_name = "SERVICE", conflicts_with_all = ["message", "reply"])]
    service: Option<String>,
    /// Folder in which imports are looked for; may be given several times
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    includes: Vec<PathBuf>,
    /// Register although the compatibility rule says no
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// All versions of this queue's contract instead of the active one of every queue
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: Option<String>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
struct GetArgs {
    /// Queue whose contract is asked for
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// Version number [default: the active one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    version: Option<u32>,
    /// The .proto text as registered, the binary FileDescriptorSet, or everything as one JSON object
    #[arg(long, value_enum, default_value_t = Format::Proto)]
    format: Format,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Proto,
    Descriptor,
    Json,
}

pub(crate) fn run(args: SchemaArgs) -> Result<(), Failure> {
    broker::block_on(async {
        match args.command {
            SchemaCommand::Register(args) => register(args).await,
            SchemaCommand::List(args) => list(args).await,
            SchemaCommand::Get(args) => get(args).await,
        }
    })
}

async fn register(args: RegisterArgs) -> Result<(), Failure> {
    let schemas = compile(&args)?;
    let client = args.broker.connect().await?;
    if schemas.len() > 1 {
        judge_all(&client, &schemas).await?;
    }
    let mut output = Output::stdout();
    for schema in schemas {
        let queue = schema.queue.clone();
        let registered = client.register_schema(schema).await.map_err(|error| broker::failure(error, Some(&queue)))?;
        let version = &registered.version;
        let news = if registered.existed { "known before, now active" } else { "new" };
        output.line(format!("{}: {} is version {} ({news})", version.queue, version.message_type, version.version))?;
    }
    output.flush()
}

/// A service is registered as a whole or not at all: what the broker would refuse is found before the first rpc is registered.
async fn judge_all(client: &Client, schemas: &[NewSchema]) -> Result<(), Failure> {
    for schema in schemas {
        let dry_run = NewSchema { dry_run: true, ..schema.clone() };
        match client.register_schema(dry_run).await {
            Ok(_) => {}
            // A queue that does not exist yet has no contract that could be broken.
            Err(error) if error.code() == Some(qwerq::ErrorCode::QueueNotFound) => {}
            Err(error) => return Err(broker::failure(error, Some(&schema.queue))),
        }
    }
    Ok(())
}

fn compile(args: &RegisterArgs) -> Result<Vec<NewSchema>, Failure> {
    let shown = args.proto.display();
    let compiled = qwerq_codegen::compile::compile(&args.proto, &args.includes)
        .map_err(|error| Failure::failed(format!("{shown} does not compile")).context(error.to_string()))?;
    for name in [args.message.as_ref(), args.reply.as_ref()].into_iter().flatten() {
        if !compiled.has_message(name) {
            let failure = Failure::failed(format!("{shown} has no message `{name}`"));
            return Err(failure.next_step(format!("it has {}", compiled.messages.join(", "))));
        }
    }
    let sources = compiled.sources.iter().map(|(path, text)| SourceFile { path: path.clone(), text: text.clone() });
    let schema = NewSchema {
        descriptor_set: compiled.descriptor_set.clone().into(),
        sources: sources.collect(),
        force: args.force,
        ..NewSchema::default()
    };
    let Some(service) = &args.service else {
        let (queue, message_type) = (args.queue.clone().unwrap_or_default(), args.message.clone().unwrap_or_default());
        return Ok(vec![NewSchema { queue, message_type, reply_type: args.reply.clone(), ..schema }]);
    };
    let contracts = service::contracts(&compiled, service, args.queue.as_deref())?;
    let of = |contract: service::RpcContract| NewSchema {
        queue: contract.queue,
        message_type: contract.message_type,
        reply_type: Some(contract.reply_type),
        ..schema.clone()
    };
    Ok(contracts.into_iter().map(of).collect())
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let versions = match &args.queue {
        Some(queue) => client.schema_versions(queue).await?,
        None => client.list_schemas().await?,
    };
    let mut output = Output::stdout();
    if args.json {
        versions.iter().try_for_each(|version| output.json(&version_json(version)))?;
    } else {
        version_table(&versions).print(&mut output)?;
    }
    output.flush()
}

async fn get(args: GetArgs) -> Result<(), Failure> {
    let schema = args.broker.connect().await?.schema(&args.queue, args.version).await?;
    let mut output = Output::stdout();
    match args.format {
        Format::Proto => print_sources(&schema, &mut output)?,
        Format::Descriptor => output.bytes(&schema.descriptor_set)?,
        Format::Json => output.json(&schema_json(&schema))?,
    }
    output.flush()
}

/// One file's text as it is; several with their names between them, as comments.
fn print_sources(schema: &Schema, output: &mut Output) -> Result<(), Failure> {
    match schema.sources.as_slice() {
        [] => Err(Failure::failed("the contract was registered from descriptors, without text")
            .next_step("use --format descriptor or --format json")),
        [file] => output.bytes(file.text.as_bytes()),
        files => files.iter().try_for_each(|file| {
            output.line(format!("// {}", file.path))?;
            output.line(file.text.trim_end())?;
            output.line("")
        }),
    }
}

fn version_table(versions: &[SchemaVersion]) -> Table {
    let columns = ["QUEUE", ">VERSION", "MESSAGE", "REPLY", "STATE", "REGISTERED", "FINGERPRINT"];
    let mut table = Table::new(&columns);
    for version in versions {
        let reply = if version.reply_type.is_empty() { "-" } else { &version.reply_type };
        table.row(vec![
            version.queue.clone(),
            version.version.to_string(),
            version.message_type.clone(),
            reply.to_owned(),
            state(version).to_owned(),
            timestamp::format_ms(version.registered_at_ms),
            hex(&version.fingerprint)[..12.min(2 * version.fingerprint.len())].to_owned(),
        ]);
    }
    table
}

fn state(version: &SchemaVersion) -> &'static str {
    match (version.active, version.retired) {
        (true, _) => "active",
        (false, true) => "retired",
        (false, false) => "",
    }
}

/// A version for programs.
pub(crate) fn version_json(version: &SchemaVersion) -> Value {
    json!({
        "queue": version.queue,
        "version": version.version,
        "message_type": version.message_type,
        "reply_type": (!version.reply_type.is_empty()).then_some(&version.reply_type),
        "fingerprint": hex(&version.fingerprint),
        "registered_at": timestamp::format_ms(version.registered_at_ms),
        "registered_by": version.registered_by,
        "active": version.active,
        "retired": version.retired,
    })
}

fn schema_json(schema: &Schema) -> Value {
    let mut object = version_json(&schema.version);
    let base64 = base64::engine::general_purpose::STANDARD.encode(&schema.descriptor_set);
    let sources: Vec<Value> = schema.sources.iter().map(|file| json!({"path": file.path, "text": file.text})).collect();
    object["descriptor_set_base64"] = base64.into();
    object["sources"] = sources.into();
    object
}

/// Bytes in lower-case hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> SchemaVersion {
        SchemaVersion {
            queue: "orders".into(),
            version: 2,
            message_type: "shop.v1.Order".into(),
            fingerprint: vec![0xab; 32].into(),
            active: true,
            ..SchemaVersion::default()
        }
    }

    #[test]
    fn a_version_has_the_same_keys_with_and_without_a_reply() {
        let object = version_json(&version());
        assert_eq!(object["reply_type"], Value::Null);
        assert_eq!(object["fingerprint"], "ab".repeat(32));
        let reply = SchemaVersion { reply_type: "shop.v1.Receipt".into(), ..version() };
        assert_eq!(version_json(&reply)["reply_type"], "shop.v1.Receipt");
    }

    #[test]
    fn a_version_without_a_fingerprint_can_be_listed() {
        version_table(&[version(), SchemaVersion::default()]);
    }
}
