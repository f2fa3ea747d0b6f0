//! Publish, deliver and acknowledge, all at once: each lease is settled individually, and the last of each batch of acks is confirmed.

use std::time::{Duration, Instant};

use qwerq::{Client, ConsumeOptions, Delivery};
use tokio::sync::mpsc;

use super::load::{Load, Sample};
use super::publish;
use super::target::Target;
use crate::failure::Failure;

/// Unsettled messages of one subscription.
const PREFETCH: u32 = 4_096;

/// What a run gave.
pub(super) struct RoundTrips {
    /// Messages that went all the way, in every group.
    pub(super) messages: u64,
    pub(super) elapsed: Duration,
}

impl RoundTrips {
    pub(super) fn per_second(&self) -> f64 {
        self.messages as f64 / self.elapsed.as_secs_f64()
    }
}

/// Publishes on some connections and consumes on as many others, until what was published has been acknowledged by every group.
pub(super) async fn run(target: &Target, load: &Load, sample: &Sample, contract: bool) -> Result<RoundTrips, Failure> {
    load.prepare(target, sample, contract).await?;
    let mut publishers = Vec::new();
    for _ in 0..load.connections {
        publishers.push(target.connect(load.window).await?);
    }
    let (sender, settled) = mpsc::unbounded_channel();
    let mut consumers = tokio::task::JoinSet::new();
    for index in 0..load.connections.max(load.queues) {
        for group in 0..load.groups {
            let client = target.connect(1).await?;
            let queue = load.queue_names()[index % load.queues].clone();
            consumers.spawn(consume(client, queue, format!("group-{group}"), sender.clone()));
        }
    }
    drop(sender);
    let started = Instant::now();
    let (published_sender, published) = tokio::sync::oneshot::channel();
    let publishing = async {
        let published = publish::publish(&publishers, load, sample).await?;
        // The counter has gone only if it failed, and says so itself.
        let _ = published_sender.send(published.messages);
        Ok::<u64, Failure>(published.messages)
    };
    let groups = u64::try_from(load.groups).expect("a flag's number");
    let (messages, counted) = tokio::join!(publishing, count(settled, published, groups, &mut consumers));
    let messages = messages?;
    counted?;
    let elapsed = started.elapsed();
    consumers.shutdown().await;
    for client in publishers {
        client.close().await?;
    }
    load.clean_up(target).await?;
    Ok(RoundTrips { messages, elapsed })
}

/// Counts settled messages until every group has settled all that were published. A consumer that ends is an error: none should.
async fn count(
    mut settled: mpsc::UnboundedReceiver<u64>,
    mut published: tokio::sync::oneshot::Receiver<u64>,
    groups: u64,
    consumers: &mut tokio::task::JoinSet<Result<(), Failure>>,
) -> Result<(), Failure> {
    let (mut count, mut goal) = (0, None);
    while goal.is_none_or(|goal| count < goal) {
        tokio::select! {
            Some(n) = settled.recv() => count += n,
            messages = &mut published, if goal.is_none() => match messages {
                Ok(messages) => goal = Some(messages * groups),
                // Publishing failed, which is reported there.
                Err(_) => return Ok(()),
            },
            Some(ended) = consumers.join_next() => {
                ended.map_err(|error| Failure::failed(error.to_string()))??;
                return Err(Failure::failed("a consumer ended before the run did"));
            }
        }
    }
    Ok(())
}

/// Acknowledges whatever comes and says how many when that is confirmed.
async fn consume(client: Client, queue: String, group: String, settled: mpsc::UnboundedSender<u64>) -> Result<(), Failure> {
    let options = ConsumeOptions::new().group(group).prefetch(PREFETCH);
    let mut subscription = client.consume(&queue, options).await?;
    let (sender, mut confirmations) = mpsc::unbounded_channel::<(u64, Delivery)>();
    let confirming = async {
        while let Some((count, last)) = confirmations.recv().await {
            last.ack_confirmed().await?;
            if settled.send(count).is_err() {
                break;
            }
        }
        Ok::<(), Failure>(())
    };
    let acknowledging = async {
        let mut batch = Vec::new();
        while let Some(arrived) = subscription.next_batch(&mut batch).await {
            arrived?;
            let count = u64::try_from(batch.len()).expect("a batch fits in memory");
            let last = batch.pop();
            for delivery in batch.drain(..) {
                delivery.ack()?;
            }
            if let Some(last) = last
                && sender.send((count, last)).is_err()
            {
                break;
            }
        }
        Ok::<(), Failure>(())
    };
    tokio::select! {
        ended = confirming => ended,
        ended = acknowledging => ended,
    }
}
