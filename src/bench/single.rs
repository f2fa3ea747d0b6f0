//! One message in flight: from handing it to the publisher until the consumer has it. With a rate, from when it was due.

use std::collections::VecDeque;
use std::time::Instant;

use qwerq::{ConsumeOptions, Publisher, Subscription};

use super::latency::Latency;
use super::load::{Load, Sample};
use super::target::Target;
use crate::failure::Failure;

/// Measures publish to deliver on one queue with a connection each for the publisher and the consumer.
pub(super) async fn run(target: &Target, load: &Load, sample: &Sample, contract: bool) -> Result<Latency, Failure> {
    let load = Load { queues: 1, connections: 1, ..load.clone() };
    load.prepare(target, sample, contract).await?;
    let queue = load.queue_names().remove(0);
    let (publishing, consuming) = (target.connect(load.window).await?, target.connect(1).await?);
    let mut subscription = consuming.consume(&queue, ConsumeOptions::new()).await?;
    let publisher = publishing.publisher(&queue);
    let latency = match load.rate {
        None => one_at_a_time(&publisher, &mut subscription, &load, sample).await?,
        Some(_) => at_a_rate(&publisher, &mut subscription, &load, sample).await?,
    };
    subscription.close().await?;
    publishing.close().await?;
    consuming.close().await?;
    load.clean_up(target).await?;
    Ok(latency)
}

async fn one_at_a_time(publisher: &Publisher, subscription: &mut Subscription, load: &Load, sample: &Sample) -> Result<Latency, Failure> {
    let mut latency = Latency::new();
    let mut pace = load.pace();
    while pace.due(1).await > 0 {
        let message = load.message(sample, pace.sent);
        let started = Instant::now();
        let receipt = publisher.submit(message).await?;
        let delivery = next(subscription).await?;
        latency.record(started.elapsed());
        receipt.await?;
        delivery.ack_confirmed().await?;
    }
    Ok(latency)
}

/// Sends when due, whether or not earlier messages have arrived: a stall shows in all that it held up.
async fn at_a_rate(publisher: &Publisher, subscription: &mut Subscription, load: &Load, sample: &Sample) -> Result<Latency, Failure> {
    let mut latency = Latency::new();
    let (sender, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let sending = async move {
        let mut pace = load.pace();
        while pace.due(1).await > 0 {
            let due = pace.due_at(pace.sent - 1);
            let receipt = publisher.submit(load.message(sample, pace.sent)).await?;
            if sender.send((due, receipt)).is_err() {
                break;
            }
        }
        drop(sender);
        Ok::<(), Failure>(())
    };
    let receiving = async {
        let mut receipts = VecDeque::new();
        while let Some((due, receipt)) = sent.recv().await {
            let delivery = next(subscription).await?;
            latency.record(Instant::now().saturating_duration_since(due));
            delivery.ack()?;
            receipts.push_back(receipt);
            if receipts.len() > load.window {
                receipts.pop_front().expect("it is longer than the window").await?;
            }
        }
        for receipt in receipts {
            receipt.await?;
        }
        Ok::<(), Failure>(())
    };
    tokio::try_join!(sending, receiving)?;
    Ok(latency)
}

async fn next(subscription: &mut Subscription) -> Result<qwerq::Delivery, Failure> {
    match subscription.next().await {
        Some(delivery) => Ok(delivery?),
        None => Err(Failure::failed("the subscription ended before the run did")),
    }
}
