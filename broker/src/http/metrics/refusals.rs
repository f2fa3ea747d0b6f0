//! How often the broker said no: by code, and for payloads that a contract judged, by queue too.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use qwerq_proto::{ErrorCode, wire};

use super::instrument::Counter;

/// Queues that are told apart; what further ones refuse is counted together.
const QUEUES_MAX: usize = 1_000;

/// Stands for all queues that are not told apart. No queue has this name: names begin with a letter or a digit.
const OTHER: &str = "_other";

/// Counts of refusals by code.
#[derive(Debug)]
pub(super) struct Refusals {
    /// In the order of [`ErrorCode::ALL`].
    counts: Box<[Counter]>,
}

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals { counts: ErrorCode::ALL.iter().map(|_| Counter::default()).collect() }
    }
}

impl Refusals {
    pub(super) fn add(&self, code: ErrorCode) {
        let at = ErrorCode::ALL.binary_search_by_key(&(code as u32), |code| *code as u32).expect("every code is in the list");
        self.counts[at].add(1);
    }

    /// Every code and how often it was said.
    pub(super) fn all(&self) -> impl Iterator<Item = (ErrorCode, u64)> {
        ErrorCode::ALL.iter().copied().zip(self.counts.iter().map(Counter::get))
    }
}

/// Counts of payloads that were not accepted because of a contract, by queue and code. A lock, since only what is refused comes here.
#[derive(Debug, Default)]
pub(super) struct Violations {
    queues: Mutex<BTreeMap<String, BTreeMap<&'static str, u64>>>,
}

impl Violations {
    pub(super) fn add(&self, queue: &str, error: &wire::Error) {
        let Some(code) = error.known_code().filter(|code| is_contracts(*code)) else { return };
        // A panic cannot leave a count half written.
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = if queues.len() < QUEUES_MAX || queues.contains_key(queue) { queue } else { OTHER };
        if !queues.contains_key(queue) {
            queues.insert(queue.to_owned(), BTreeMap::new());
        }
        let codes = queues.get_mut(queue).expect("just inserted");
        *codes.entry(code.name()).or_default() += 1;
    }

    /// Queue, code and count.
    pub(super) fn each(&self, mut each: impl FnMut(&str, &str, u64)) {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        for (queue, codes) in queues.iter() {
            for (code, count) in codes {
                each(queue, code, *count);
            }
        }
    }
}

/// Whether a contract is why a payload was refused.
fn is_contracts(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::SchemaViolation
            | ErrorCode::ContractRequired
            | ErrorCode::ContractUnknown
            | ErrorCode::VersionRetired
            | ErrorCode::ReplyTypeMissing
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_count_of_its_own() {
        let refusals = Refusals::default();
        for (n, code) in ErrorCode::ALL.iter().enumerate() {
            (0..=n).for_each(|_| refusals.add(*code));
        }
        for (n, (code, count)) in refusals.all().enumerate() {
            assert_eq!((code, count), (ErrorCode::ALL[n], n as u64 + 1));
        }
    }

    #[test]
    fn violations_are_counted_by_queue_and_no_more_queues_than_fit() {
        let violations = Violations::default();
        violations.add("orders", &ErrorCode::SchemaViolation.with("bad"));
        violations.add("orders", &ErrorCode::QueueFull.with("not the contract's doing"));
        for queue in 0..QUEUES_MAX + 5 {
            violations.add(&format!("q{queue}"), &ErrorCode::ContractRequired.with("none"));
        }
        let mut told = Vec::new();
        violations.each(|queue, code, count| told.push((queue.to_owned(), code.to_owned(), count)));
        assert_eq!(told.len(), QUEUES_MAX + 1);
        assert!(told.contains(&("orders".to_owned(), "schema-violation".to_owned(), 1)));
        assert!(told.contains(&("_other".to_owned(), "contract-required".to_owned(), 6)));
    }
}
