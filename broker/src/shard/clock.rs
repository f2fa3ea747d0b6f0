//! The core's logical clock: it advances with the monotonic clock and starts at the later of the last recorded time and the wall clock,
//! so a step of the wall clock changes nothing.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use qwerq_core::Millis;

/// Gives `now`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    started: Instant,
    base: Millis,
}

impl Clock {
    pub(super) fn starting_after(recorded: Millis) -> Clock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Clock { started: Instant::now(), base: recorded.max(wall) }
    }

    pub(super) fn now(&self) -> Millis {
        self.base + u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
