//! Rates over the last ten seconds, from counts that only rise. It knows neither the broker nor who watches.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use crate::http::Activity;

/// Samples that a rate is taken over, one more than there are seconds in the window.
const SAMPLES: usize = 11;

/// Messages a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct RatesOfQueue {
    pub(super) published: f64,
    pub(super) delivered: f64,
    pub(super) acked: f64,
    pub(super) dead_lettered: f64,
    /// So many messages became dead letters since the rate is taken.
    #[serde(skip)]
    pub(super) dead_lettered_lately: u64,
}

/// The last counts of every queue.
#[derive(Default)]
pub(super) struct Rates {
    times: VecDeque<Instant>,
    queues: HashMap<Arc<str>, VecDeque<Activity>>,
}

impl Rates {
    /// Takes the counts of a moment, later than all before; gives the rates in the same order.
    pub(super) fn advance<'a>(&mut self, now: Instant, counts: impl Iterator<Item = (&'a Arc<str>, Activity)>) -> Vec<RatesOfQueue> {
        let mut before = std::mem::take(&mut self.queues);
        let known = self.times.len();
        self.times.push_back(now);
        if self.times.len() > SAMPLES {
            self.times.pop_front();
        }
        let mut rates = Vec::new();
        for (name, activity) in counts {
            let mut samples = before.remove(name).unwrap_or_default();
            // A count that has fallen is another queue's of the same name.
            if samples.back().is_some_and(|last| last.published > activity.published || last.delivered > activity.delivered) {
                samples.clear();
            }
            // A queue that was not there a moment ago has had nothing then.
            if samples.is_empty() && known > 0 {
                samples.push_back(Activity::default());
            }
            samples.push_back(activity);
            while samples.len() > self.times.len() {
                samples.pop_front();
            }
            rates.push(self.rates_of(&samples, now));
            self.queues.insert(Arc::clone(name), samples);
        }
        rates
    }

    fn rates_of(&self, samples: &VecDeque<Activity>, now: Instant) -> RatesOfQueue {
        let (Some(first), Some(last)) = (samples.front(), samples.back()) else { return RatesOfQueue::default() };
        let since = self.times[self.times.len() - samples.len()];
        let seconds = now.duration_since(since).as_secs_f64();
        let rate = |count: fn(&Activity) -> u64| match seconds > 0.0 {
            true => rounded(count(last).saturating_sub(count(first)), seconds),
            false => 0.0,
        };
        RatesOfQueue {
            published: rate(|activity| activity.published),
            delivered: rate(|activity| activity.delivered),
            acked: rate(|activity| activity.acked),
            dead_lettered: rate(|activity| activity.dead_lettered),
            dead_lettered_lately: last.dead_lettered.saturating_sub(first.dead_lettered),
        }
    }
}

/// A tenth is as exact as anybody reads.
#[expect(clippy::cast_precision_loss, reason = "a rate for people needs no 64 bits")]
fn rounded(count: u64, seconds: f64) -> f64 {
    (count as f64 / seconds * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn published(published: u64) -> Activity {
        Activity { published, ..Activity::default() }
    }

    /// The rate of the only queue after samples a second apart.
    fn rate_after(counts: &[Option<u64>]) -> f64 {
        let (start, name) = (Instant::now(), Arc::from("a"));
        let mut rates = Rates::default();
        let mut last = 0.0;
        for (second, count) in counts.iter().enumerate() {
            let now = start + Duration::from_secs(second as u64);
            let of = rates.advance(now, count.iter().map(|count| (&name, published(*count))));
            last = of.first().map_or(0.0, |rates| rates.published);
        }
        last
    }

    #[test]
    fn a_rate_is_taken_over_ten_seconds_or_as_long_as_there_was_somebody_to_watch() {
        for (counts, rate) in [
            (vec![Some(500)], 0.0),
            (vec![Some(500), Some(505)], 5.0),
            (vec![Some(500), Some(505), Some(505)], 2.5),
            ((0..30).map(|second| Some(second * 7)).collect(), 7.0),
            ([Some(0), Some(100)].into_iter().chain(vec![Some(100); 9]).collect(), 10.0),
            ([Some(0), Some(100)].into_iter().chain(vec![Some(100); 10]).collect(), 0.0),
            // A queue that comes later, and one that was deleted and created again.
            (vec![None, None, Some(30)], 30.0),
            (vec![Some(900), Some(900), Some(4)], 4.0),
        ] {
            assert!((rate_after(&counts) - rate).abs() < 0.01, "{counts:?}: {} instead of {rate}", rate_after(&counts));
        }
    }

    #[test]
    fn queues_that_are_gone_are_forgotten() {
        let (now, name) = (Instant::now(), Arc::from("a"));
        let mut rates = Rates::default();
        rates.advance(now, [(&name, published(1))].into_iter());
        rates.advance(now, std::iter::empty());
        assert!(rates.queues.is_empty());
    }
}
