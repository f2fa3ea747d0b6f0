//! When a shard serves: the rules of a reign, without the shard. `shard/reign.rs` lives by them, and so does the simulation's shard.

use std::time::{Duration, Instant};

use super::link::PATIENCE;

/// Where a shard stands between two reigns or within one.
#[derive(Debug)]
pub(crate) struct Tenure {
    /// The term in which the shard serves.
    serving: Option<u64>,
    /// What the last proposal was told apart by. Begins at random, so that those of an earlier run are not taken for this one's.
    serial: u64,
    /// The Epoch that is to begin a reign.
    asked: Option<Asked>,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    term: u64,
    serial: u64,
    at: Instant,
}

/// What follows from an entry that was applied and that the shard's turn has not proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// Nothing.
    None,
    /// The reign of this term.
    Begins(u64),
    /// The end of the reign: somebody else has written.
    Ends,
}

impl Tenure {
    pub(crate) fn new(serial: u64) -> Tenure {
        Tenure { serving: None, serial, asked: None }
    }

    /// The term in which the shard serves.
    pub(crate) fn serving(&self) -> Option<u64> {
        self.serving
    }

    /// A number for the next proposal.
    pub(crate) fn number(&mut self) -> u64 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Whether to propose the Epoch that begins a reign, and by which term and number, given the term that this node leads in and may
    /// serve in.
    pub(crate) fn seeks(&mut self, term: Option<u64>, now: Instant) -> Option<(u64, u64)> {
        let term = term.filter(|_| self.serving.is_none())?;
        let waits = |asked: Asked| asked.term == term && now.saturating_duration_since(asked.at) < PATIENCE;
        if self.asked.is_some_and(waits) {
            return None;
        }
        let serial = self.number();
        self.asked = Some(Asked { term, serial, at: now });
        Some((term, serial))
    }

    /// Whether a turn that was admitted in the term `admitted` counts although it was committed as an entry of `term`: Raft may take it up
    /// in a later term of the same node, when it would not fit any more.
    pub(crate) fn counts(admitted: u64, term: u64) -> bool {
        admitted == term
    }

    /// What follows from a turn that was applied, given the term that this node leads in.
    pub(crate) fn applied(&self, serial: u64, leads: Option<u64>) -> Consequence {
        match self.asked {
            _ if self.serving.is_some() => Consequence::Ends,
            Some(asked) if asked.serial == serial && leads == Some(asked.term) => Consequence::Begins(asked.term),
            _ => Consequence::None,
        }
    }

    /// The reign of `term` begins.
    pub(crate) fn begin(&mut self, term: u64) {
        self.asked = None;
        self.serving = Some(term);
    }

    /// The reign ends.
    pub(crate) fn end(&mut self) {
        self.asked = None;
        self.serving = None;
    }

    /// Whether a leader that waits for its proposal since `since` waits on, given the term that Raft leads in.
    pub(crate) fn waits(&self, since: Instant, now: Instant, raft_term: Option<u64>) -> bool {
        raft_term == self.serving && now.saturating_duration_since(since) < PATIENCE
    }
}

/// How often a node that leads and does not serve yet looks whether it may.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_counts_only_in_the_term_that_it_was_admitted_in() {
        assert!(Tenure::counts(3, 3));
        assert!(!Tenure::counts(3, 5));
    }

    #[test]
    fn a_reign_begins_with_its_own_epoch_and_ends_with_anybody_elses_turn() {
        let mut tenure = Tenure::new(u64::MAX);
        let now = Instant::now();
        let (term, serial) = tenure.seeks(Some(4), now).expect("it leads and does not serve");
        assert_eq!(term, 4);
        assert_eq!(tenure.applied(serial.wrapping_add(1), Some(4)), Consequence::None, "somebody else's");
        assert_eq!(tenure.applied(serial, Some(6)), Consequence::None, "won again in the meantime");
        assert_eq!(tenure.applied(serial, None), Consequence::None, "lost in the meantime");
        assert_eq!(tenure.applied(serial, Some(4)), Consequence::Begins(4));
        tenure.begin(4);
        assert_eq!(tenure.serving(), Some(4));
        assert_eq!(tenure.applied(serial, Some(4)), Consequence::Ends);
        tenure.end();
        assert_eq!(tenure.serving(), None);
    }

    #[test]
    fn an_epoch_is_sought_once_until_patience_ends_or_the_term_changes() {
        let mut tenure = Tenure::new(0);
        let now = Instant::now();
        assert_eq!(tenure.seeks(None, now), None);
        assert!(tenure.seeks(Some(1), now).is_some());
        assert_eq!(tenure.seeks(Some(1), now), None);
        assert!(tenure.seeks(Some(1), now + PATIENCE).is_some());
        assert!(tenure.seeks(Some(2), now + PATIENCE).is_some());
        tenure.begin(2);
        assert_eq!(tenure.seeks(Some(2), now + 2 * PATIENCE), None);
    }

    #[test]
    fn a_leader_waits_for_its_proposal_only_while_raft_leads_in_its_term() {
        let mut tenure = Tenure::new(0);
        tenure.begin(2);
        let now = Instant::now();
        assert!(tenure.waits(now, now, Some(2)));
        assert!(!tenure.waits(now, now + PATIENCE, Some(2)));
        assert!(!tenure.waits(now, now, Some(3)));
        assert!(!tenure.waits(now, now, None));
    }
}
