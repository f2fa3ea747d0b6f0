//! Times and durations as the wire writes them: whole milliseconds, times since the Unix epoch. Reads no clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Whole milliseconds, rounded up, so that "at least so long" stays true on the wire.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Milliseconds since the Unix epoch; a time before it is the epoch.
pub(crate) fn epoch_millis(time: SystemTime) -> u64 {
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The time that many milliseconds after the Unix epoch; the epoch itself when no clock reaches that far.
pub(crate) fn from_epoch_millis(ms: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(UNIX_EPOCH)
}
