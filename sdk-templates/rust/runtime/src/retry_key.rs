//! Keys of a client's own, for publishes that may have to go out twice: in a cluster the leader may be gone with the answer on its way.
//!
//! The broker tells such keys from the users' and keeps them in another memory: a few for each client instead of one for each message.
//! docs/protocol.md has their form. The caller's own idempotency keys are not this file's.

use std::collections::VecDeque;
use std::time::Duration;

use crate::lock::Lock;

/// What such a key begins with.
const MARK: char = '\u{1}';

/// Characters that name a client; as many are random.
const CLIENT_CHARS: usize = 8;

/// The broker keeps so many of a client's latest numbers at most; what is older may be stored twice.
const NUMBERS_KEPT: u64 = 65_536;

/// How long a publish whose connection was lost is retried. The broker remembers its key for longer.
pub(crate) const RETRY_BUDGET: Duration = Duration::from_secs(120);

/// Numbers a client's publishes.
#[derive(Debug)]
pub(crate) struct RetryKeys {
    client: String,
    numbers: Lock<Numbers>,
}

/// The numbers from the first that is not settled to the last that was given.
#[derive(Debug)]
struct Numbers {
    first: u64,
    settled: VecDeque<bool>,
}

/// The key of one publish.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RetryKey {
    pub(crate) number: u64,
    pub(crate) text: String,
}

impl RetryKeys {
    /// Keys that no other client has.
    pub(crate) fn new() -> RetryKeys {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let random: [u8; CLIENT_CHARS] = rand::random();
        RetryKeys {
            client: random.map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).iter().collect(),
            numbers: Lock::new(Numbers { first: 1, settled: VecDeque::new() }),
        }
    }

    /// The next key. It says how far back the oldest publish is whose outcome is open, so that the broker can forget those before it.
    pub(crate) fn take(&self) -> RetryKey {
        let mut numbers = self.numbers.lock();
        let back = numbers.settled.len() as u64;
        let number = numbers.first + back;
        numbers.settled.push_back(false);
        drop(numbers);
        RetryKey { number, text: format!("{MARK}{}{number}.{back}", self.client) }
    }

    /// The outcome of those is known: they will never be sent again.
    pub(crate) fn settle(&self, settled: impl Iterator<Item = u64>) {
        let mut numbers = self.numbers.lock();
        for number in settled {
            let at = usize::try_from(number - numbers.first).expect("numbers in between are in memory");
            numbers.settled[at] = true;
        }
        while numbers.settled.front() == Some(&true) {
            numbers.settled.pop_front();
            numbers.first += 1;
        }
    }

    /// Whether the broker still knows that number, if it ever saw it.
    pub(crate) fn is_kept(&self, number: u64) -> bool {
        let numbers = self.numbers.lock();
        numbers.first + numbers.settled.len() as u64 - number <= NUMBERS_KEPT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_client_its_number_and_how_far_back_the_oldest_open_one_is() {
        let keys = RetryKeys::new();
        let parts = |key: RetryKey| key.text[1 + CLIENT_CHARS..].to_owned();
        assert!(keys.take().text.starts_with(&format!("{MARK}{}", keys.client)));
        assert_eq!((parts(keys.take()), parts(keys.take())), ("2.1".to_owned(), "3.2".to_owned()));
        keys.settle([2].into_iter());
        assert_eq!(parts(keys.take()), "4.3");
        keys.settle([1].into_iter());
        assert_eq!(parts(keys.take()), "5.2");
        keys.settle([3, 5, 4].into_iter());
        assert_eq!(parts(keys.take()), "6.0");
        assert_ne!(keys.client, RetryKeys::new().client);
    }

    #[test]
    fn what_the_broker_has_forgotten_is_not_retried() {
        let keys = RetryKeys::new();
        let first = keys.take().number;
        (1..NUMBERS_KEPT).for_each(|_| drop(keys.take()));
        assert!(keys.is_kept(first));
        keys.take();
        assert!(!keys.is_kept(first) && keys.is_kept(first + 1));
    }
}
