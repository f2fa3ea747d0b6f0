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
