//! Points in time as RFC 3339, from and to milliseconds since the Unix epoch.
//!
//! Writes UTC and reads any offset. It reads no clock and knows no time zone.

use jiff::Timestamp;

/// `2026-12-01T11:48:03.250Z`.
pub fn format_ms(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", time.unwrap_or(Timestamp::MAX))
}

/// Reads `2026-12-01T11:48:03Z`, with a fraction and another offset than Z if there is one; the error is a sentence for the user.
/// Beyond milliseconds a fraction is cut.
pub fn parse_ms(text: &str) -> Result<u64, String> {
    let time = text.parse::<Timestamp>().ok();
    time.and_then(|time| u64::try_from(time.as_millisecond()).ok())
        .ok_or_else(|| format!("'{text}' is no time; write it as 2026-12-01T11:48:03Z or 2026-12-01T12:48:03.250+01:00"))
}

#[cfg(test)]
mod tests {
    use super::{format_ms, parse_ms};

    #[test]
    fn times_are_written_and_read() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_001, "2024-02-29T23:59:59.001Z"),
            (1_796_125_683_250, "2026-12-01T11:48:03.250Z"),
        ] {
            assert_eq!(format_ms(ms), text);
            assert_eq!(parse_ms(text), Ok(ms));
        }
        assert_eq!(format_ms(u64::MAX), "9999-12-30T22:00:00.999Z", "later than any time that can be written");
    }

    #[test]
    fn offsets_and_fractions_are_read() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01t00:00:01.5z", 1_500),
            ("1970-01-01T00:00:00.1239999Z", 123),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1970-01-01T00:00:00-00:30", 1_800_000),
            ("2026-12-01T12:48:03.250+01:00", 1_796_125_683_250),
        ] {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "now", "2026-12-01", "2026-12-01T11:48:03", "2026-02-29T00:00:00Z", "2026-12-01T25:00:00Z", "1969-12-31T23:59:59Z"]
        {
            assert!(parse_ms(text).is_err(), "{text}");
        }
    }
}
