//! The one task that samples the broker, for as long as somebody watches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::http::trouble::{Judged, judge};
use crate::http::{GroupsOf, QueueStats, Stats};
use crate::net::Shared;

use super::Newest;
use super::rates::{Rates, RatesOfQueue};

/// Between two samples.
const PERIOD: Duration = Duration::from_secs(1);

/// Changes of contracts that one sample tells at most.
const CHANGES_MAX: usize = 100;

/// The broker at one moment.
pub(super) struct Sample {
    /// Milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
    pub(super) stats: Stats,
    /// In the order of the queues of `stats`.
    pub(super) rates: Vec<RatesOfQueue>,
    /// In the same order.
    pub(super) judged: Vec<Judged>,
    /// Contracts that have changed since the sample before.
    pub(super) changes: Vec<SchemaChange>,
}

/// Another version of a contract is active.
pub(super) struct SchemaChange {
    pub(super) queue: Arc<str>,
    /// The one that is active now; 0: none.
    pub(super) version: u32,
    /// The one before; 0: none.
    pub(super) before: u32,
}

/// Where samples are to be had.
#[derive(Default, Clone)]
pub(in crate::http) struct Feed(Arc<Mutex<Option<watch::Sender<Newest>>>>);

impl Feed {
    /// The newest sample from now on; there is none at first.
    pub(super) fn subscribe(&self, broker: &Arc<Shared>) -> watch::Receiver<Newest> {
        let mut running = self.lock();
        if let Some(sender) = &*running {
            let mut receiver = sender.subscribe();
            // The one that is there is news to whoever has just come.
            receiver.mark_changed();
            return receiver;
        }
        let (sender, receiver) = watch::channel(None);
        *running = Some(sender);
        tokio::spawn(run(self.clone(), Arc::clone(broker)));
        receiver
    }

    /// Messages that became dead letters in the last ten seconds, by queue. Known only while somebody watches.
    pub(in crate::http) fn dead_lettered_lately(&self) -> HashMap<Arc<str>, u64> {
        let newest = self.lock().as_ref().and_then(|sender| sender.borrow().clone());
        let rates = newest.iter().flat_map(|sample| sample.stats.queues.iter().zip(&sample.rates));
        let lately = rates.map(|(queue, rates)| (Arc::clone(&queue.name), rates.dead_lettered_lately));
        lately.filter(|(_, count)| *count > 0).collect()
    }

    /// Passes a sample on; says no, and forgets the feed, when nobody watches any more.
    fn publish(&self, sample: Arc<Sample>) -> bool {
        let mut running = self.lock();
        let sent = running.as_ref().is_some_and(|sender| sender.send(Some(sample)).is_ok());
        if !sent {
            *running = None;
        }
        sent
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<watch::Sender<Newest>>> {
        // Nothing in here can be half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(feed: Feed, broker: Arc<Shared>) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sampler = Sampler::default();
    loop {
        ticks.tick().await;
        let stats = broker.stats(GroupsOf::None).await;
        let sample = sampler.sample(stats, Instant::now().into_std());
        if !feed.publish(Arc::new(sample)) {
            return;
        }
    }
}

/// What is remembered from sample to sample.
#[derive(Default)]
struct Sampler {
    rates: Rates,
    /// Active versions by queue, once there was a sample.
    versions: Option<HashMap<Arc<str>, u32>>,
}

impl Sampler {
    fn sample(&mut self, stats: Stats, now: std::time::Instant) -> Sample {
        let rates = self.rates.advance(now, stats.queues.iter().map(|queue| (&queue.name, queue.activity)));
        let changes = self.changes(&stats.queues);
        let judged = judge(&stats.queues, |at| rates[at].dead_lettered_lately);
        Sample { at_ms: unix_ms(), stats, rates, judged, changes }
    }

    fn changes(&mut self, queues: &[QueueStats]) -> Vec<SchemaChange> {
        let versions = queues.iter().filter(|queue| queue.schema_version != 0).map(|queue| (Arc::clone(&queue.name), queue.schema_version));
        let now: HashMap<_, _> = versions.collect();
        let Some(before) = self.versions.replace(now) else { return Vec::new() };
        let change = |queue: &QueueStats| {
            let before = before.get(&queue.name).copied().unwrap_or(0);
            (before != queue.schema_version).then(|| SchemaChange { queue: Arc::clone(&queue.name), version: queue.schema_version, before })
        };
        queues.iter().filter_map(change).take(CHANGES_MAX).collect()
    }
}

fn unix_ms() -> u64 {
    // A clock before 1970 is a clock that is not set.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn stats(versions: &[(&str, u32)]) -> Stats {
        let queue = |(name, version): &(&str, u32)| QueueStats { name: (*name).into(), schema_version: *version, ..QueueStats::default() };
        Stats { queues: versions.iter().map(queue).collect(), ..Stats::default() }
    }

    #[test]
    fn a_sample_tells_which_contracts_have_changed_since_the_one_before() {
        let (mut sampler, now) = (Sampler::default(), Instant::now());
        let told = |sample: Sample| -> Vec<(String, u32, u32)> {
            sample.changes.iter().map(|change| (change.queue.to_string(), change.before, change.version)).collect()
        };
        assert_eq!(told(sampler.sample(stats(&[("a", 1), ("b", 0), ("c", 4)]), now)), []);
        let changed = sampler.sample(stats(&[("a", 2), ("b", 1), ("c", 4), ("d", 0)]), now);
        assert_eq!(told(changed), [("a".to_owned(), 1, 2), ("b".to_owned(), 0, 1)]);
        assert_eq!(told(sampler.sample(stats(&[("a", 2), ("b", 0)]), now)), [("b".to_owned(), 1, 0)]);
    }
}
