//! A queue's line: the calls that wait while its responders are busy, and the responders that are not.

use std::collections::BTreeSet;

use super::responder::Rank;

/// Calls that may wait for the responders of one queue.
pub const LINE_CALLS_MAX: usize = 1_000;

/// Bytes that their requests may have together.
pub const LINE_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Default)]
pub(super) struct Line {
    /// Open responders, busy ones included.
    pub(super) responders: usize,
    /// Those that can take a call, least loaded first.
    pub(super) free: BTreeSet<Rank>,
    /// Numbers of the calls that wait, oldest first.
    pub(super) waiting: BTreeSet<u64>,
    pub(super) waiting_bytes: u64,
}

impl Line {
    /// Whether a call of that size may wait. One that is alone may.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.waiting.len() < LINE_CALLS_MAX && (self.waiting.is_empty() || self.waiting_bytes + bytes <= LINE_BYTES_MAX)
    }

    pub(super) fn wait(&mut self, counter: u64, bytes: u64) {
        self.waiting.insert(counter);
        self.waiting_bytes += bytes;
    }

    pub(super) fn leave(&mut self, counter: u64, bytes: u64) {
        if self.waiting.remove(&counter) {
            self.waiting_bytes -= bytes;
        }
    }
}
