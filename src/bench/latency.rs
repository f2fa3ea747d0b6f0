//! Latencies in an HdrHistogram, from nanoseconds to a minute at three digits.
//!
//! With a rate, callers measure from the moment a message was due, not from when it was sent: a stall then shows in every message
//! that waited for it.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Recorded latencies.
pub(super) struct Latency {
    nanoseconds: Histogram<u64>,
}

impl Latency {
    pub(super) fn new() -> Latency {
        let nanoseconds = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order and the digits at most five");
        Latency { nanoseconds }
    }

    /// Beyond a minute it counts as a minute.
    pub(super) fn record(&mut self, latency: Duration) {
        self.nanoseconds.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn count(&self) -> u64 {
        self.nanoseconds.len()
    }

    /// The latency that so many percent stay within, in microseconds.
    pub(super) fn percentile_us(&self, percentile: f64) -> f64 {
        let nanoseconds = self.nanoseconds.value_at_percentile(percentile);
        Duration::from_nanos(nanoseconds).as_secs_f64() * 1e6
    }

    pub(super) fn p50_us(&self) -> f64 {
        self.percentile_us(50.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_recorded() {
        let mut latency = Latency::new();
        for us in 1..=1_000 {
            latency.record(Duration::from_micros(us));
        }
        assert_eq!(latency.count(), 1_000);
        assert!((latency.p50_us() - 500.0).abs() < 1.0);
        assert!((latency.percentile_us(99.9) - 999.0).abs() < 1.5);
        latency.record(Duration::from_secs(3_600));
        assert!(latency.percentile_us(100.0) > 59e6);
    }
}
