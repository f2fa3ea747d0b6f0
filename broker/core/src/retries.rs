//! Publishes that clients may send twice by themselves, when a leader is gone with its answer: remembered by client and number, and only
//! while the client has not heard of them. A few numbers for each client do for any number of messages, so these keys neither count
//! toward `dedup_max_keys` nor depend on `dedup_window`.
//!
//! A key is text like any idempotency key (docs/protocol.md, "Retried publishes"); users' own keys are `queue.rs`'s.

use std::collections::{BTreeMap, BTreeSet};

use crate::codec::{DecodeError, Decoder, put_varint};
use crate::ids::{MessageId, Millis, Seq};

const VERSION: u8 = 1;

/// What a key of this kind begins with.
const MARK: u8 = 1;

/// A client that has published nothing for so long does not retry any more.
const KEPT_MS: Millis = 5 * 60_000;

/// Numbers of one client that are kept at most, whatever it says of what is open.
const NUMBERS_MAX: u64 = 65_536;

/// Clients of one queue that are remembered at most; the one that was silent for longest goes first.
const CLIENTS_MAX: usize = 65_536;

/// Names a client for as long as it lives.
pub(crate) type ClientId = [u8; 8];

/// A key that a client made by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetryKey {
    pub(crate) client: ClientId,
    pub(crate) number: u64,
    /// Of that client everything before this number is answered and never comes again.
    pub(crate) open_from: u64,
}

impl RetryKey {
    /// Reads a key; `None`: it is a user's own.
    pub(crate) fn parse(key: &str) -> Option<RetryKey> {
        let (mark, rest) = key.as_bytes().split_first()?;
        if *mark != MARK {
            return None;
        }
        let (client, numbers) = rest.split_first_chunk()?;
        let (number, back) = std::str::from_utf8(numbers).ok()?.split_once('.')?;
        let number: u64 = number.parse().ok()?;
        let open_from = number.checked_sub(back.parse().ok()?)?;
        Some(RetryKey { client: *client, number, open_from })
    }
}

/// What a queue remembers of such publishes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Retries {
    clients: BTreeMap<ClientId, Client>,
    by_time: BTreeSet<(Millis, ClientId)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Client {
    published_at: Millis,
    numbers: BTreeMap<u64, (MessageId, Option<Seq>)>,
}

impl Retries {
    /// The message that was stored under a key.
    pub(crate) fn get(&self, key: &RetryKey, now: Millis) -> Option<(MessageId, Option<Seq>)> {
        let client = self.clients.get(&key.client).filter(|client| client.published_at.saturating_add(KEPT_MS) > now)?;
        client.numbers.get(&key.number).copied()
    }

    /// Remembers a message, and forgets what its client knows of by now.
    pub(crate) fn record(&mut self, key: &RetryKey, now: Millis, id: MessageId, seq: Option<Seq>) {
        let client = self.clients.entry(key.client).or_default();
        self.by_time.remove(&(client.published_at, key.client));
        self.by_time.insert((now, key.client));
        client.published_at = now;
        client.numbers.insert(key.number, (id, seq));
        let highest = client.numbers.last_key_value().map_or(key.number, |(number, _)| *number);
        let from = key.open_from.max((highest + 1).saturating_sub(NUMBERS_MAX));
        while client.numbers.first_key_value().is_some_and(|(number, _)| *number < from) {
            client.numbers.pop_first();
        }
    }

    /// Forgets clients that are silent for too long, or too many; gives them, for the store's rows.
    pub(crate) fn forget(&mut self, now: Millis) -> Vec<ClientId> {
        let mut forgotten = Vec::new();
        while let Some(&(published_at, client)) = self.by_time.first() {
            if published_at.saturating_add(KEPT_MS) > now && self.clients.len() <= CLIENTS_MAX {
                break;
            }
            self.by_time.pop_first();
            self.clients.remove(&client);
            forgotten.push(client);
        }
        forgotten
    }

    /// The value of a client's row; `false`: there is none.
    pub(crate) fn encode(&self, client: &ClientId, out: &mut Vec<u8>) -> bool {
        let Some(client) = self.clients.get(client) else { return false };
        out.push(VERSION);
        put_varint(out, client.published_at);
        for (number, (id, seq)) in &client.numbers {
            put_varint(out, *number);
            out.extend_from_slice(&id.0);
            put_varint(out, seq.map_or(0, |seq| seq + 1));
        }
        true
    }

    /// Takes in a client's row.
    pub(crate) fn decode(&mut self, client: ClientId, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        from.version("retry row version", VERSION)?;
        let mut read = Client { published_at: from.varint()?, numbers: BTreeMap::new() };
        while !from.is_empty() {
            read.numbers.insert(from.varint()?, (MessageId(from.array()?), from.varint()?.checked_sub(1)));
        }
        self.by_time.insert((read.published_at, client));
        self.clients.insert(client, read);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64, back: u64) -> RetryKey {
        RetryKey::parse(&format!("\u{1}client-1{number}.{back}")).expect("a key")
    }

    fn id(number: u64) -> MessageId {
        MessageId(u128::from(number).to_be_bytes())
    }

    #[test]
    fn only_what_has_the_form_is_a_clients_key() {
        assert_eq!(key(12, 3), RetryKey { client: *b"client-1", number: 12, open_from: 9 });
        for users_own in ["", "k", "\u{1}", "\u{1}client-1", "\u{1}client-112", "\u{1}client-11.2", "\u{1}client-1x.0", "client-11.0"] {
            assert_eq!(RetryKey::parse(users_own), None, "{users_own:?}");
        }
    }

    #[test]
    fn a_number_is_remembered_until_its_client_has_heard_of_it() {
        let mut retries = Retries::default();
        for (number, back) in [(1, 0), (2, 1), (3, 2), (5, 2)] {
            retries.record(&key(number, back), 0, id(number), Some(number + 10));
        }
        assert_eq!(retries.get(&key(3, 0), 1), Some((id(3), Some(13))));
        assert_eq!((retries.get(&key(2, 0), 1), retries.get(&key(4, 0), 1)), (None, None));
        let other = RetryKey { client: *b"client-2", ..key(3, 0) };
        assert_eq!(retries.get(&other, 1), None);
    }

    #[test]
    fn a_client_that_is_silent_is_forgotten_and_no_client_takes_more_than_its_share() {
        let mut retries = Retries::default();
        retries.record(&key(1, 0), 100, id(1), None);
        assert!(retries.get(&key(1, 0), 100 + KEPT_MS - 1).is_some() && retries.get(&key(1, 0), 100 + KEPT_MS).is_none());
        assert!(retries.forget(100 + KEPT_MS - 1).is_empty());
        assert_eq!((retries.forget(100 + KEPT_MS), retries), (vec![*b"client-1"], Retries::default()));

        let mut retries = Retries::default();
        (1..=NUMBERS_MAX + 1).for_each(|number| retries.record(&key(number, number), 0, id(number), None));
        assert!(retries.get(&key(1, 0), 1).is_none() && retries.get(&key(2, 0), 1).is_some());
    }

    #[test]
    fn a_row_brings_everything_back() {
        let mut retries = Retries::default();
        retries.record(&key(7, 0), 50, id(7), None);
        retries.record(&key(9, 2), 60, id(9), Some(0));
        let (mut row, mut loaded) = (Vec::new(), Retries::default());
        assert!(retries.encode(b"client-1", &mut row) && !retries.encode(b"client-2", &mut Vec::new()));
        loaded.decode(*b"client-1", &mut Decoder::new(&row)).expect("its own row");
        assert_eq!(loaded, retries);
    }
}
