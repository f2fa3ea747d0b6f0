//! Points in time as users name them: by RFC 3339, or as so long ago.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{duration, timestamp};

/// Reads `2026-12-01T11:48:03Z`; the error is a sentence for the user.
pub(crate) fn parse(text: &str) -> Result<SystemTime, String> {
    timestamp::parse_ms(text).map(at_ms)
}

/// Reads `2026-12-01T11:48:03Z`, or `10m` for ten minutes before now.
pub(crate) fn parse_past(text: &str) -> Result<SystemTime, String> {
    before(text, SystemTime::now())
}

fn before(text: &str, now: SystemTime) -> Result<SystemTime, String> {
    if let Ok(ago) = duration::parse(text) {
        return Ok(now.checked_sub(ago).filter(|time| *time >= UNIX_EPOCH).unwrap_or(UNIX_EPOCH));
    }
    parse(text).map_err(|_| format!("'{text}' is no time; write it as 2026-12-01T11:48:03Z, or as 10m for ten minutes ago"))
}

/// `2026-12-01T11:48:03.250Z`.
pub(crate) fn format(time: SystemTime) -> String {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    timestamp::format_ms(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

fn at_ms(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_or_ago() {
        let now = at_ms(1_796_125_683_250);
        for (text, ms) in [("10m", 1_796_125_083_250), ("0", 1_796_125_683_250), ("1970-01-01T00:00:01Z", 1_000), ("99999999d", 0)] {
            assert_eq!(before(text, now), Ok(at_ms(ms)), "{text}");
        }
        assert!(before("yesterday", now).is_err());
        assert!(parse("10m").is_err());
        assert_eq!(format(now), "2026-12-01T11:48:03.250Z");
    }
}
