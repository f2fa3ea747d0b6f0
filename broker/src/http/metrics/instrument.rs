//! What counting is done with: relaxed atomics that any thread adds to, and a tally that one thread fills and pours out now and then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only rises while the process lives.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// One more.
    pub fn inc(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; each pairs with an [`inc`](Gauge::inc).
    pub fn dec(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often values fell into each of a few fixed ranges, and their sum.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds, inclusive and ascending; what is above the last falls into the extra bucket.
    pub(super) bounds: &'static [u64],
    pub(super) buckets: Box<[AtomicU64]>,
    pub(super) sum: AtomicU64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [u64]) -> Histogram {
        Histogram { bounds, buckets: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    /// Counts one value, in the histogram's unit.
    pub fn observe(&self, value: u64) {
        self.buckets[bucket_of(self.bounds, value)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Counts one duration, in a histogram of microseconds.
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(microseconds(duration));
    }

    /// An empty tally for this histogram.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally { bounds: self.bounds, buckets: vec![0; self.buckets.len()].into(), sum: 0, is_empty: true }
    }
}

/// What one thread observes, without atomics: for what happens a million times a second.
#[derive(Debug)]
pub struct Tally {
    bounds: &'static [u64],
    buckets: Box<[u64]>,
    sum: u64,
    is_empty: bool,
}

impl Tally {
    /// Counts one value, in the histogram's unit.
    pub fn observe(&mut self, value: u64) {
        self.buckets[bucket_of(self.bounds, value)] += 1;
        self.sum = self.sum.wrapping_add(value);
        self.is_empty = false;
    }

    /// Counts one duration, in a histogram of microseconds.
    pub fn observe_duration(&mut self, duration: Duration) {
        self.observe(microseconds(duration));
    }

    /// Adds everything to the histogram that this is a tally of, and begins anew.
    pub fn pour_into(&mut self, histogram: &Histogram) {
        if std::mem::replace(&mut self.is_empty, true) {
            return;
        }
        debug_assert_eq!(self.bounds, histogram.bounds, "a tally belongs to one histogram");
        for (count, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            if *count > 0 {
                bucket.fetch_add(std::mem::take(count), Ordering::Relaxed);
            }
        }
        histogram.sum.fetch_add(std::mem::take(&mut self.sum), Ordering::Relaxed);
    }
}

fn bucket_of(bounds: &[u64], value: u64) -> usize {
    bounds.partition_point(|bound| *bound < value)
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
