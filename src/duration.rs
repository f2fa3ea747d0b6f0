//! Durations as users write them: `500ms`, `30s`, `5m`, `2h`, `7d`, and a bare `0`.
//!
//! One number and one unit; it knows no clock and no setting.

use std::time::Duration;

/// The units, smallest first, with their milliseconds.
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a duration; the error is a sentence for the user.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    parse_ms(text).map(Duration::from_millis)
}

/// Reads a duration in milliseconds.
pub(crate) fn parse_ms(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("'{text}' is no duration; write it as 500ms, 30s, 5m, 2h or 7d");
    let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(*unit_ms).ok_or_else(|| format!("'{text}' is longer than can be counted"))
}

/// Writes milliseconds in the largest unit that divides them.
pub(crate) fn format_ms(ms: u64) -> String {
    if ms == 0 {
        return "0".to_owned();
    }
    let (unit, unit_ms) =
        UNITS.iter().rev().find(|(_, unit_ms)| ms.is_multiple_of(*unit_ms)).expect("every number of milliseconds is a multiple of 1 ms");
    format!("{}{unit}", ms / unit_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        for (text, ms) in [("0", 0), ("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000), ("7d", 604_800_000)] {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
            assert_eq!(format_ms(ms), text);
        }
        assert_eq!(format_ms(90_000), "90s");
        assert_eq!(parse("1500ms"), Ok(Duration::from_millis(1_500)));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "5", "s", "1.5s", "-1s", "1 s", "1w", "99999999999999999d", "1h30m"] {
            assert!(parse_ms(text).is_err(), "{text}");
        }
    }
}
