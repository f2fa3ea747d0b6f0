//! What a broker holds besides messages: the memory of queues, of connections and of consumers that have nothing to do.

use qwerq::{ConsumeOptions, QueueOptions};

use super::process::{BrokerProcess, Launch};
use super::target::Target;
use crate::failure::Failure;

const QUEUES: usize = 10_000;

/// Few enough for a process that may have 1,024 descriptors.
const CONNECTIONS: usize = 500;

/// On each connection, each with a queue of its own.
const CONSUMERS: usize = 10;

/// Anonymous memory of one of each, in bytes.
pub(super) struct Holding {
    pub(super) queue: f64,
    pub(super) connection: f64,
    /// Its group is counted with it.
    pub(super) consumer: f64,
}

/// Makes them one after the other on a broker of its own.
pub(super) async fn run(launch: &Launch) -> Result<Holding, Failure> {
    let broker = BrokerProcess::start(&Launch { durability: "none".to_owned(), ..launch.clone() })?;
    let target = Target { address: broker.address(), http_address: None, token: None };
    let mut clients = vec![target.connect(1).await?];
    // What a first request makes once is not the queues'.
    clients[0].create_queue("first", QueueOptions::default()).await?;

    let before = broker.memory_bytes("RssAnon")?;
    for number in 0..QUEUES {
        clients[0].create_queue(&name(number), QueueOptions::default()).await?;
    }
    let with_queues = broker.memory_bytes("RssAnon")?;

    for _ in 0..CONNECTIONS {
        clients.push(target.connect(1).await?);
    }
    let with_connections = broker.memory_bytes("RssAnon")?;

    let mut subscriptions = Vec::new();
    for (connection, client) in clients[1..].iter().enumerate() {
        for consumer in 0..CONSUMERS {
            subscriptions.push(client.consume(&name(connection * CONSUMERS + consumer), ConsumeOptions::new()).await?);
        }
    }
    let with_consumers = broker.memory_bytes("RssAnon")?;

    let each = |before: u64, after: u64, count: usize| after.saturating_sub(before) as f64 / count as f64;
    Ok(Holding {
        queue: each(before, with_queues, QUEUES),
        connection: each(with_queues, with_connections, CONNECTIONS),
        consumer: each(with_connections, with_consumers, subscriptions.len()),
    })
}

fn name(number: usize) -> String {
    format!("a-queue-of-many.{number}")
}
