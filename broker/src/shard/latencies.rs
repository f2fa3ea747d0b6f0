//! How long publishes and deliveries take, counted by the shard's thread alone and poured into the metrics once a turn.

use std::time::Instant;

use qwerq_core::{Delivery, Millis};

use crate::http::{Metrics, Tally};

pub(super) struct Latencies {
    publish_us: Tally,
    deliver_ms: Tally,
}

impl Latencies {
    pub(super) fn new(metrics: &Metrics) -> Latencies {
        Latencies { publish_us: metrics.publish_us.tally(), deliver_ms: metrics.deliver_ms.tally() }
    }

    /// A PUBLISH that arrived then is answered now.
    pub(super) fn published(&mut self, received: Instant, now: Instant) {
        self.publish_us.observe_duration(now.saturating_duration_since(received));
    }

    /// A message goes out; repeats say nothing about how long it waited.
    pub(super) fn delivered(&mut self, delivery: &Delivery, now: Millis) {
        if delivery.attempt == 1 {
            self.deliver_ms.observe(now.saturating_sub(delivery.at));
        }
    }

    pub(super) fn pour_into(&mut self, metrics: &Metrics) {
        self.publish_us.pour_into(&metrics.publish_us);
        self.deliver_ms.pour_into(&metrics.deliver_ms);
    }
}
