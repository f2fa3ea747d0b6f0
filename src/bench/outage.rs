//! A backlog after an outage: every message was nacked four times before its consumers could work again.
//!
//! The same backlog without an outage is drained beside it, so that the figure is a ratio.

use std::time::{Duration, Instant};

use qwerq::{Client, ConsumeOptions};

use super::load::{Load, Sample, Until};
use super::publish;
use super::target::Target;
use crate::failure::Failure;

/// Messages of the backlog.
pub(super) const MESSAGES: u64 = 10_000;

/// How often each was nacked; once more and it were a dead letter.
const NACKS: u32 = 4;

const PREFETCH: u32 = 1_024;

/// How long the drains took.
pub(super) struct Drains {
    pub(super) after_outage: Duration,
    pub(super) fresh: Duration,
}

impl Drains {
    pub(super) fn per_second(&self) -> f64 {
        MESSAGES as f64 / self.after_outage.as_secs_f64()
    }

    /// The rate after the outage as a multiple of the rate without one.
    pub(super) fn ratio(&self) -> f64 {
        self.fresh.as_secs_f64() / self.after_outage.as_secs_f64()
    }
}

/// Fills a queue, drains it; fills it again, nacks everything four times, drains it.
pub(super) async fn run(target: &Target, load: &Load, sample: &Sample, contract: bool) -> Result<Drains, Failure> {
    let load = Load { until: Until::Messages(MESSAGES), connections: 1, queues: 1, rate: None, ..load.clone() };
    load.prepare(target, sample, contract).await?;
    let queue = load.queue_names().remove(0);
    let client = target.connect(load.window).await?;
    let publishers = [client];
    publish::publish(&publishers, &load, sample).await?;
    let client = &publishers[0];
    let fresh = drain(client, &queue).await?;
    publish::publish(&publishers, &load, sample).await?;
    fail(client, &queue).await?;
    let after_outage = drain(client, &queue).await?;
    client.close().await?;
    load.clean_up(target).await?;
    Ok(Drains { after_outage, fresh })
}

/// Nacks every message as often as it may be without becoming a dead letter, and leaves the last delivery of each to the next consumer.
async fn fail(client: &Client, queue: &str) -> Result<(), Failure> {
    let all = u32::try_from(MESSAGES).expect("a few");
    let mut subscription = client.consume(queue, ConsumeOptions::new().prefetch(all)).await?;
    let mut held = Vec::new();
    let mut batch = Vec::new();
    while held.len() < all as usize {
        let Some(arrived) = subscription.next_batch(&mut batch).await else { break };
        arrived?;
        for delivery in batch.drain(..) {
            if delivery.attempt <= NACKS {
                delivery.nack_after(Duration::ZERO)?;
            } else {
                held.push(delivery);
            }
        }
    }
    drop(held);
    Ok(subscription.close().await?)
}

/// Acknowledges everything; gives the time that it took.
async fn drain(client: &Client, queue: &str) -> Result<Duration, Failure> {
    let started = Instant::now();
    let mut subscription = client.consume(queue, ConsumeOptions::new().prefetch(PREFETCH)).await?;
    let mut left = MESSAGES;
    let mut batch = Vec::new();
    while left > 0 {
        let Some(arrived) = subscription.next_batch(&mut batch).await else { break };
        arrived?;
        left -= u64::try_from(batch.len()).expect("a batch fits in memory");
        let last = batch.pop();
        for delivery in batch.drain(..) {
            delivery.ack()?;
        }
        if let Some(last) = last {
            last.ack_confirmed().await?;
        }
    }
    let elapsed = started.elapsed();
    subscription.close().await?;
    Ok(elapsed)
}
