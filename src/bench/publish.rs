//! Publishing as fast as the window allows, or at a rate; every message is acknowledged durably before it counts.

use std::time::{Duration, Instant};

use qwerq::{BatchReceipt, Client};
use tokio::sync::mpsc;

use super::latency::Latency;
use super::load::{Load, Sample, Until};
use super::target::Target;
use crate::failure::Failure;

/// Messages handed to the client at once.
pub(super) const CHUNK: u64 = 128;

/// How long a broker is warmed up.
const WARM_UP: Duration = Duration::from_millis(700);

/// What a run of publishes gave.
pub(super) struct Publishes {
    pub(super) messages: u64,
    pub(super) elapsed: Duration,
    /// From due to acknowledged, one value a chunk.
    pub(super) latency: Latency,
    /// Messages in one durable commit, if the broker counts commits.
    pub(super) mean_batch: Option<f64>,
}

impl Publishes {
    pub(super) fn per_second(&self) -> f64 {
        self.messages as f64 / self.elapsed.as_secs_f64()
    }
}

/// Publishes to fresh queues, which are removed afterwards.
pub(super) async fn run(target: &Target, load: &Load, sample: &Sample, contract: bool) -> Result<Publishes, Failure> {
    load.prepare(target, sample, contract).await?;
    let mut clients = Vec::new();
    for _ in 0..load.connections {
        clients.push(target.connect(load.window).await?);
    }
    let commits = target.commits();
    let started = Instant::now();
    let outcome = publish(&clients, load, sample).await?;
    let elapsed = started.elapsed();
    let mean_batch = mean_batch(outcome.messages, commits, target.commits());
    for client in clients {
        client.close().await?;
    }
    load.clean_up(target).await?;
    Ok(Publishes { elapsed, mean_batch, ..outcome })
}

/// Publishes for a moment what is then deleted, so that the journal runs over recycled segments, as it does in use.
pub(super) async fn warm_up(target: &Target, load: &Load, sample: &Sample) -> Result<(), Failure> {
    let load = Load { queues: 1, connections: 1, rate: None, until: Until::Elapsed(WARM_UP), ..load.clone() };
    run(target, &load, sample, false).await.map(drop)
}

/// Publishes over all clients at once until the load says stop and every message is acknowledged.
pub(super) async fn publish(clients: &[Client], load: &Load, sample: &Sample) -> Result<Publishes, Failure> {
    let (sender, acknowledged) = mpsc::unbounded_channel();
    let queues = load.queue_names();
    let mut connections = tokio::task::JoinSet::new();
    for (index, client) in clients.iter().enumerate() {
        let publisher = client.publisher(&queues[index % queues.len()]);
        let (load, sample, sender) = (load.clone(), sample.clone(), sender.clone());
        connections.spawn(async move {
            let mut pace = load.pace();
            loop {
                let first = pace.sent;
                let count = pace.due(CHUNK).await;
                if count == 0 {
                    return Ok(());
                }
                let due = pace.due_at(first);
                let messages: Vec<_> = (first..first + count).map(|n| load.message(&sample, n)).collect();
                let receipt = publisher.submit_many(messages).await;
                if sender.send((due, receipt)).is_err() {
                    // The collector has met an error, which it reports.
                    return Ok(());
                }
            }
        });
    }
    drop(sender);
    let collected = collect(acknowledged).await;
    while let Some(ended) = connections.join_next().await {
        let ended: Result<(), qwerq::Error> = ended.map_err(|error| Failure::failed(error.to_string()))?;
        ended?;
    }
    let (messages, latency) = collected?;
    Ok(Publishes { messages, elapsed: Duration::ZERO, latency, mean_batch: None })
}

/// Waits for every receipt; one refusal ends the run, since it would be measuring refusals.
async fn collect(mut receipts: mpsc::UnboundedReceiver<(Instant, BatchReceipt)>) -> Result<(u64, Latency), Failure> {
    let (mut messages, mut latency) = (0, Latency::new());
    while let Some((due, receipt)) = receipts.recv().await {
        for result in receipt.await {
            result?;
            messages += 1;
        }
        latency.record(due.elapsed());
    }
    Ok((messages, latency))
}

fn mean_batch(messages: u64, before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let commits = after? - before?;
    (commits > 0.0).then(|| messages as f64 / commits)
}
