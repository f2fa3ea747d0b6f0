//! How a queue is shown: a table or its facts for people, an object for programs.
//!
//! Asking for it is `queue.rs`'s business.

use qwerq::{QueueInfo, SchemaVersion};
use serde_json::Value;

use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, Way};
use crate::{group, queue_option, size, timestamp};

/// Queues in a table, for people.
pub(crate) fn table(queues: &[QueueInfo]) -> Table {
    let ways = [
        ("CONTRACT", Way::KeepEnd(16)),
        ("BYTES", Way::Out),
        ("DELAYED", Way::Out),
        ("QUEUE", Way::KeepStart(20)),
        ("GROUPS", Way::Out),
        ("MODE", Way::Out),
    ];
    let columns = ["QUEUE", "MODE", ">DEPTH", ">BYTES", ">IN FLIGHT", ">DELAYED", ">GROUPS", "CONTRACT"];
    let mut table = Table::new(&columns).giving_way(&ways);
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

/// One queue for people: its facts and options, then its groups.
pub(crate) fn print(queue: &QueueInfo, output: &mut Output) -> Result<(), Failure> {
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
    group::table(&queue.groups).print(output)
}

fn contract_words(version: &SchemaVersion) -> String {
    format!("{} v{}", version.message_type, version.version)
}

/// A queue for programs.
pub(crate) fn json(queue: &QueueInfo) -> Value {
    let groups: Vec<Value> = queue.groups.iter().map(group::json).collect();
    serde_json::json!({
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
