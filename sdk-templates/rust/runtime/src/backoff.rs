//! How long to wait before connecting again: exponential with full jitter. Knows no connection and no clock.

use std::time::Duration;

use crate::builder::Reconnect;

/// A connection that lasted so long was a good one; the waits start small again after it.
const GOOD_CONNECTION: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Backoff {
    policy: Reconnect,
    /// The wait is between zero and `first` times two to this.
    doublings: u32,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(policy: Reconnect) -> Backoff {
        Backoff { policy, doublings: 0, failures: 0 }
    }

    /// The wait before the next attempt; `None` when there have been enough.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        if self.policy.attempts.is_some_and(|attempts| self.failures >= attempts) {
            return None;
        }
        self.failures += 1;
        let longest = self.longest();
        self.doublings += 1;
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        Some(Duration::from_micros(rand::random_range(0..=micros)))
    }

    /// An attempt succeeded. The waits stay long until the connection has proved good.
    pub(crate) fn connected(&mut self) {
        self.failures = 0;
    }

    /// A connection ended after so long.
    pub(crate) fn connected_for(&mut self, lasted: Duration) {
        if lasted >= GOOD_CONNECTION {
            self.doublings = 0;
        }
    }

    fn longest(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.doublings).unwrap_or(u32::MAX);
        self.policy.first.saturating_mul(factor).min(self.policy.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(attempts: Option<u32>) -> Reconnect {
        Reconnect { first: Duration::from_millis(100), max: Duration::from_secs(10), attempts }
    }

    #[test]
    fn waits_double_up_to_the_limit_and_start_again_after_a_good_connection() {
        let mut backoff = Backoff::new(policy(None));
        for longest_ms in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
            assert_eq!(backoff.longest(), Duration::from_millis(longest_ms));
            assert!(backoff.next().expect("no limit") <= Duration::from_millis(longest_ms));
        }
        backoff.connected();
        backoff.connected_for(Duration::from_secs(1));
        assert_eq!(backoff.longest(), Duration::from_secs(10));
        backoff.connected_for(Duration::from_secs(6));
        assert_eq!(backoff.longest(), Duration::from_millis(100));
    }

    #[test]
    fn attempts_are_counted_between_connections() {
        let mut backoff = Backoff::new(policy(Some(2)));
        assert!(backoff.next().is_some() && backoff.next().is_some());
        assert!(backoff.next().is_none());
        backoff.connected();
        assert!(backoff.next().is_some());
        assert!(Backoff::new(policy(Some(0))).next().is_none());
    }
}
