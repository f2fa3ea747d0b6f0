//! `qwer-q call`: one request, and its reply on stdout.
//!
//! Text goes in and comes out as the contract says (`contract.rs`), the reply by the version that accepted it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use clap::Args;
use qwerq::{Client, Message, Replied};
use serde_json::{Value, json};

use crate::broker::{self, BrokerArgs, valid_name};
use crate::contract::Contract;
use crate::duration;
use crate::failure::Failure;
use crate::output::Output;
use crate::publish::{Bytes, parse_header, parse_hex, read_raw};

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Queue whose responders are called
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// The request: JSON where the queue has a contract, plain text otherwise [default: all of stdin]
    #[arg(long, value_name = "TEXT", group = "source")]
    body: Option<String>,
    /// The request: bytes in hexadecimal, sent as they are; '' is zero bytes
    #[arg(long, value_name = "HEX", group = "source", value_parser = parse_hex)]
    hex: Option<Bytes>,
    /// The request: a file's bytes, sent as they are
    #[arg(long, value_name = "FILE", group = "source")]
    raw: Option<PathBuf>,
    /// Header of the request; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,
    /// How long to wait for the reply
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = positive)]
    timeout: Duration,
    /// The reply as one JSON object: body or payload_base64, headers, schema_version
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(crate) fn run(args: CallArgs) -> Result<(), Failure> {
    broker::block_on(call(args))
}

async fn call(args: CallArgs) -> Result<(), Failure> {
    // What is wrong with the request's source is said before a broker is looked for.
    let source = source(&args)?;
    let client = args.broker.connect().await?;
    let payload = match source {
        Source::Payload(payload) => payload,
        Source::Text(text) => match Contract::fetch(&client, &args.queue, None).await? {
            Some(contract) => contract.encode(&text).map_err(Failure::failed)?,
            None => text.into_bytes(),
        },
    };
    let mut message = Message::new(payload);
    for (name, value) in &args.headers {
        message = message.header(name, value);
    }
    let replied = client.call(&args.queue, message, args.timeout).await;
    let replied = replied.map_err(|error| broker::failure(error, Some(&args.queue)))?;
    print(&client, &args, &replied).await?;
    // The reply is printed; a connection that ends badly now changes nothing.
    let _ = client.close().await;
    Ok(())
}

enum Source {
    Text(String),
    Payload(Vec<u8>),
}

fn source(args: &CallArgs) -> Result<Source, Failure> {
    Ok(match (&args.hex, &args.raw, &args.body) {
        (Some(bytes), ..) => Source::Payload(bytes.0.clone()),
        (None, Some(path), _) => Source::Payload(read_raw(path)?),
        (None, None, Some(text)) => Source::Text(text.clone()),
        (None, None, None) => {
            let mut text = String::new();
            let read = std::io::stdin().lock().read_to_string(&mut text);
            read.map_err(|error| {
                Failure::failed(format!("cannot read the request from stdin: {error}"))
                    .next_step("bytes that are no text go with --raw FILE")
            })?;
            Source::Text(text)
        }
    })
}

/// The reply as JSON where a contract decodes it and JSON can hold it, as the bytes that it is otherwise.
async fn print(client: &Client, args: &CallArgs, replied: &Replied) -> Result<(), Failure> {
    let body = body(client, &args.queue, replied).await?;
    let mut output = Output::stdout();
    match (args.json, body) {
        (true, body) => output.json(&object(body, replied))?,
        (false, Some(body)) => output.line(body)?,
        (false, None) => {
            output.bytes(&replied.payload)?;
            output.line("")?;
        }
    }
    output.flush()
}

/// The reply as protobuf JSON, fields in the order of their declaration.
async fn body(client: &Client, queue: &str, replied: &Replied) -> Result<Option<String>, Failure> {
    if replied.schema_version == 0 {
        return Ok(None);
    }
    let contract = Contract::fetch_reply(client, queue, replied.schema_version).await?;
    Ok(contract.and_then(|contract| contract.decode(&replied.payload).ok()).and_then(|message| serde_json::to_string(&message).ok()))
}

fn object(body: Option<String>, replied: &Replied) -> Value {
    let headers: BTreeMap<_, _> = replied.headers.iter().collect();
    let mut object = json!({ "headers": headers, "schema_version": replied.schema_version });
    match body.and_then(|text| serde_json::from_str::<Value>(&text).ok()) {
        Some(body) => object["body"] = body,
        None => object["payload_base64"] = base64::engine::general_purpose::STANDARD.encode(&replied.payload).into(),
    }
    object
}

/// 0 would be the broker's default, which is not what it says.
fn positive(text: &str) -> Result<Duration, String> {
    let timeout = duration::parse(text)?;
    if timeout.is_zero() {
        return Err("nobody can reply in no time; write it as 500ms, 5s or 2m".to_owned());
    }
    Ok(timeout)
}
