//! Which core a thread runs on, so that broker and bench do not share one.
//!
//! A thread's choice is inherited by the threads and processes that it starts afterwards.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that the broker and the bench have for themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cores {
    /// One each.
    Apart { broker: usize, bench: usize },
    /// The process may use one core only, or the system does not say: nothing is pinned.
    Shared,
}

impl Cores {
    /// The last core that this process may use is the broker's, the first is the bench's: interrupts mostly go to the first.
    pub(super) fn available() -> Cores {
        let Ok(allowed) = sched_getaffinity(None) else {
            return Cores::Shared;
        };
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        match (cores.next(), cores.next_back()) {
            (Some(bench), Some(broker)) => Cores::Apart { broker, bench },
            _ => Cores::Shared,
        }
    }

    /// Moves this thread to the broker's core while `work` runs (to start the broker, say), then to the bench's.
    pub(super) fn on_the_brokers<T>(self, work: impl FnOnce() -> T) -> T {
        if let Cores::Apart { broker, .. } = self {
            pin(broker);
        }
        let result = work();
        self.take_the_benchs();
        result
    }

    /// Moves this thread to the bench's core.
    pub(super) fn take_the_benchs(self) {
        if let Cores::Apart { bench, .. } = self {
            pin(bench);
        }
    }
}

/// A refusal leaves the thread where it is: the figures are noisier then, not wrong.
fn pin(core: usize) {
    let mut one = CpuSet::new();
    one.set(core);
    let _ = sched_setaffinity(None, &one);
}
