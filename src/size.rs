//! Sizes as users write them: `64KiB`, `1MiB`, `1GiB`, or plain bytes.
//!
//! Only binary units: a limit that reads as 1 MB and means 1,048,576 would lie.

/// The units, smallest first, with their bytes.
const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// Reads a size in bytes; the error is a sentence for the user.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("'{text}' is no size; write it as 64KiB, 1MiB, 1GiB or plain bytes");
    let unit_bytes = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, bytes)) => *bytes,
        None if unit.is_empty() => 1,
        None => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(unit_bytes).ok_or_else(|| format!("'{text}' is more than can be counted"))
}

/// Writes bytes in the largest unit that divides them.
pub(crate) fn format(bytes: u64) -> String {
    match UNITS.iter().rev().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_trip() {
        for (text, bytes) in
            [("0", 0), ("1000", 1_000), ("64KiB", 65_536), ("1MiB", 1_048_576), ("1GiB", 1_073_741_824), ("2TiB", 2_199_023_255_552)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text}");
            assert_eq!(format(bytes), text);
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "KiB", "1MB", "1kib", "1.5MiB", "-1", "1 MiB", "99999999999TiB"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
