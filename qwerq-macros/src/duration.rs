//! Durations as users write them: `500ms`, `30s`, `5m`, `2h`, `7d`; the same as on the command line (`src/duration.rs`).

/// The units with their milliseconds.
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a duration in milliseconds; the error is a sentence for the user.
pub(crate) fn parse_ms(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("`{text}` is no duration; write it as \"500ms\", \"30s\", \"5m\", \"2h\" or \"7d\"");
    let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(*unit_ms).ok_or_else(|| format!("`{text}` is longer than can be counted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_are_a_duration_and_nothing_else_is() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000), ("7d", 604_800_000)] {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
        }
        for text in ["", "5", "s", "1.5s", "-1s", "1 s", "1w", "99999999999999999d", "1h30m"] {
            assert!(parse_ms(text).is_err(), "{text}");
        }
    }
}
