//! What the journal must hold: the states that a crash may leave, given what was acknowledged and synced.
//!
//! A naive list of records per state. The oldest is what a power loss must leave at least; each operation adds one.

use std::rc::Rc;

use qwerq_broker::journal::Applied;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) term: u64,
    pub(crate) kind: u8,
    pub(crate) payload: Vec<u8>,
}

/// All records ever, as of some operation; record `i` has index `i + 1`.
pub(crate) type Log = Vec<Rc<Entry>>;

pub(crate) struct Model {
    /// What a power loss may leave; the last one is what the running process sees.
    states: Vec<Log>,
    /// Whether the last state is of an operation that has not returned.
    is_pending: bool,
    /// What the checkpoint holds, durably.
    pub(crate) checkpoint: Applied,
}

impl Model {
    pub(crate) fn new() -> Model {
        Model { states: vec![Vec::new()], is_pending: false, checkpoint: Applied::default() }
    }

    pub(crate) fn log(&self) -> &Log {
        self.states.last().expect("there is a state")
    }

    pub(crate) fn last_index(&self) -> u64 {
        u64::try_from(self.log().len()).expect("a log is short")
    }

    pub(crate) fn checkpointed(&self) -> usize {
        usize::try_from(self.checkpoint.index).expect("a log is short")
    }

    /// An operation is about to happen that would leave this.
    pub(crate) fn attempt(&mut self, log: Log) {
        assert!(!self.is_pending);
        self.states.push(log);
        self.is_pending = true;
    }

    /// It returned, which acknowledges it.
    pub(crate) fn done(&mut self, synced: bool) {
        self.is_pending = false;
        if synced {
            self.synced();
        }
    }

    /// A failure came while the log stood as it does.
    pub(crate) fn synced(&mut self) {
        let last = self.states.len() - 1;
        self.states.drain(..last);
    }

    /// Checks what a start found above the checkpoint; it is now the only state.
    pub(crate) fn recovered(&mut self, found: &[Entry], lost_power: bool) {
        let oldest = match (lost_power, self.is_pending) {
            (true, _) => 0,
            // A killed process loses nothing that returned.
            (false, true) => self.states.len().saturating_sub(2),
            (false, false) => self.states.len() - 1,
        };
        let from = self.checkpointed();
        let same = |log: &Log| log.len() == from + found.len() && log[from..].iter().zip(found).all(|(a, b)| **a == *b);
        let allowed = &self.states[oldest..];
        let Some(state) = allowed.iter().rposition(same) else {
            let lengths: Vec<_> = allowed.iter().map(Vec::len).collect();
            panic!(
                "the journal holds records {} to {}, none of the {} allowed states (which end at {lengths:?})",
                from + 1,
                from + found.len(),
                allowed.len(),
            );
        };
        self.states = vec![self.states.swap_remove(oldest + state)];
        self.is_pending = false;
    }
}
