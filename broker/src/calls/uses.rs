//! Who calls a queue and who serves it, by connection, with the contract that each was generated from.
//!
//! It is what `schema clients` asks. Names and those who are gone are the shard's (`shard/clients.rs`), which takes a connection's
//! entries over when it closes.

use qwerq_core::SessionId;
use rustc_hash::FxHashMap;

/// Queues of one connection that are kept; beyond that a caller of everything is no news.
const QUEUES_MAX: usize = 1_000;

/// One thing that a connection does with a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallUse {
    /// It serves; else it calls.
    pub(crate) serves: bool,
    /// The fingerprint that it declares; `None`: none, or something that is not one.
    pub(crate) contract: Option<[u8; 32]>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Uses {
    of: FxHashMap<SessionId, FxHashMap<String, Vec<CallUse>>>,
}

impl Uses {
    pub(super) fn used(&mut self, session: SessionId, queue: &str, serves: bool, contract: &[u8]) {
        let what = CallUse { serves, contract: contract.try_into().ok() };
        let queues = self.of.entry(session).or_default();
        let room = queues.len() < QUEUES_MAX;
        match queues.get_mut(queue) {
            Some(uses) if uses.contains(&what) => {}
            Some(uses) => uses.push(what),
            None if room => {
                queues.insert(queue.to_owned(), vec![what]);
            }
            None => {}
        }
    }

    pub(super) fn of_queue(&self, queue: &str) -> Vec<(SessionId, CallUse)> {
        let of_session = |(session, queues): (&SessionId, &FxHashMap<String, Vec<CallUse>>)| {
            let uses: &[CallUse] = queues.get(queue).map_or(&[], Vec::as_slice);
            uses.iter().map(|what| (*session, *what)).collect::<Vec<_>>()
        };
        self.of.iter().flat_map(of_session).collect()
    }

    /// All that a connection did, by queue, which is forgotten here.
    pub(super) fn take(&mut self, session: SessionId) -> Vec<(String, CallUse)> {
        let queues = self.of.remove(&session).unwrap_or_default();
        queues.into_iter().flat_map(|(queue, uses)| uses.into_iter().map(move |what| (queue.clone(), what))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_told_once_for_each_thing_that_it_does() {
        let mut uses = Uses::default();
        for contract in [[7; 32], [7; 32], [8; 32]] {
            uses.used(SessionId(1), "pricing", false, &contract);
        }
        uses.used(SessionId(1), "pricing", true, b"no fingerprint");
        uses.used(SessionId(2), "orders", false, b"");
        assert_eq!(uses.of_queue("pricing").len(), 3);
        assert_eq!(uses.of_queue("orders"), [(SessionId(2), CallUse { serves: false, contract: None })]);
        assert_eq!(uses.take(SessionId(1)).len(), 3);
        assert_eq!(uses.of_queue("pricing"), []);
    }

    #[test]
    fn one_connection_is_remembered_with_so_many_queues_only() {
        let mut uses = Uses::default();
        (0..QUEUES_MAX + 5).for_each(|number| uses.used(SessionId(1), &format!("q{number}"), false, b""));
        assert_eq!(uses.take(SessionId(1)).len(), QUEUES_MAX);
    }
}
