//! Numbers, sizes and times as pages show them. `assets/live.js` writes the same forms when they change.

use crate::timestamp;

/// `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1,234 messages`, `1 message`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// `832 B`, `1.2 MiB`.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut unit = 0;
    let mut tenths = u128::from(number) * 10 / 1024;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A time in UTC as a row of a table has it; nothing for the epoch itself, which nobody means.
pub(crate) fn time_short(ms: u64) -> String {
    match ms {
        0 => String::new(),
        ms => timestamp::format_ms(ms).chars().take(SECONDS).collect::<String>().replace('T', " "),
    }
}

/// Characters of a time in RFC 3339 up to its seconds.
const SECONDS: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_easily() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567"), (u64::MAX, "18,446,744,073,709,551,615")]
        {
            assert_eq!(count(number), text);
        }
        assert_eq!(counted(1, "queue", "queues"), "1 queue");
        assert_eq!(counted(1_200, "queue", "queues"), "1,200 queues");
    }

    #[test]
    fn sizes_have_one_digit_after_the_point() {
        for (number, text) in
            [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (1_536, "1.5 KiB"), (1 << 20, "1.0 MiB"), (u64::MAX, "16383.9 PiB")]
        {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn times_are_in_utc() {
        assert_eq!(time_short(1_700_000_000_005), "2023-11-14 22:13:20");
        assert_eq!(time_short(0), "");
    }
}
