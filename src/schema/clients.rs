//! `schema clients`: who publishes to a queue and consumes from it, with which version.

use clap::Args;
use qwerq::SchemaClient;
use serde_json::{Value, json};

use super::version::hex;
use crate::broker::{self, BrokerArgs, valid_name};
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, Way};
use crate::timestamp;

#[derive(Debug, Args)]
pub(super) struct ClientsArgs {
    /// Queue that is asked about
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(super) async fn run(args: ClientsArgs) -> Result<(), Failure> {
    let client = args.broker.connect().await?;
    let clients = client.schema_clients(&args.queue).await.map_err(|error| broker::failure(error, Some(&args.queue)))?;
    let mut output = Output::stdout();
    if args.json {
        clients.iter().try_for_each(|client| output.json(&client_json(client)))?;
    } else {
        client_table(&clients).print(&mut output)?;
    }
    output.flush()
}

fn client_table(clients: &[SchemaClient]) -> Table {
    let ways = [("CLIENT", Way::KeepStart(20)), ("GROUP", Way::KeepStart(12)), ("LAST SEEN", Way::Out), ("CLIENT", Way::KeepStart(12))];
    let mut table = Table::new(&["CLIENT", "ROLE", "GROUP", "VERSION", "CONNECTED", "LAST SEEN"]).giving_way(&ways);
    for client in clients {
        table.row(vec![
            client.client.clone(),
            client.role.clone(),
            if client.group.is_empty() { "-".to_owned() } else { client.group.clone() },
            version_words(client),
            if client.connected { "yes" } else { "no" }.to_owned(),
            timestamp::format_ms(client.last_seen_ms),
        ]);
    }
    table
}

fn version_words(client: &SchemaClient) -> String {
    match (client.version, client.contract.is_empty()) {
        (0, true) => "-".to_owned(),
        (0, false) => "unknown".to_owned(),
        (version, _) => version.to_string(),
    }
}

fn client_json(client: &SchemaClient) -> Value {
    json!({
        "client": client.client,
        "role": client.role,
        "group": (!client.group.is_empty()).then_some(&client.group),
        "version": (client.version != 0).then_some(client.version),
        "contract": (!client.contract.is_empty()).then(|| hex(&client.contract)),
        "connected": client.connected,
        "last_seen": timestamp::format_ms(client.last_seen_ms),
    })
}
