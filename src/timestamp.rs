//! Points in time as RFC 3339, from and to milliseconds since the Unix epoch.
//!
//! Writes UTC and reads any offset. It reads no clock and knows no time zone.

/// `2026-12-01T11:48:03.250Z`.
pub(crate) fn format_ms(ms: u64) -> String {
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Reads `2026-12-01T11:48:03Z`, with a fraction and another offset than Z if there is one; the error is a sentence for the user.
/// Beyond milliseconds a fraction is cut.
pub(crate) fn parse_ms(text: &str) -> Result<u64, String> {
    parts_ms(text.as_bytes())
        .ok_or_else(|| format!("'{text}' is no time; write it as 2026-12-01T11:48:03Z or 2026-12-01T12:48:03.250+01:00"))
}

fn parts_ms(text: &[u8]) -> Option<u64> {
    let (date_time, rest) = text.split_at_checked(19)?;
    let mask = |byte: &u8| if byte.is_ascii_digit() { b'0' } else { byte.to_ascii_uppercase() };
    if !date_time.iter().map(mask).eq(*b"0000-00-00T00:00:00") {
        return None;
    }
    let part = |from: usize, to: usize| number(&date_time[from..to]);
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    let days = days(year, month, day)?;
    if civil(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (milli, offset) = fraction(rest)?;
    let local = days * 86_400_000 + hour * 3_600_000 + minute * 60_000 + second * 1_000 + milli;
    let (ahead, offset_ms) = offset_ms(offset)?;
    if ahead { local.checked_sub(offset_ms) } else { local.checked_add(offset_ms) }
}

/// The milliseconds of `.250+01:00`, and what is behind them.
fn fraction(rest: &[u8]) -> Option<(u64, &[u8])> {
    let Some(behind) = rest.strip_prefix(b".") else {
        return Some((0, rest));
    };
    let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (fraction, offset) = behind.split_at(digits);
    let milli: Vec<u8> = fraction.iter().copied().chain(*b"00").take(3).collect();
    (digits > 0).then(|| Some((number(&milli)?, offset)))?
}

/// Whether the offset is ahead of UTC, and how far it is from it.
fn offset_ms(offset: &[u8]) -> Option<(bool, u64)> {
    match offset {
        b"Z" | b"z" => Some((true, 0)),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            (hours <= 23 && minutes <= 59).then_some((*sign == b'+', hours * 3_600_000 + minutes * 60_000))
        }
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, digit| Some(number * 10 + u64::from(char::from(*digit).to_digit(10)?)))
}

/// The inverse of [`civil`], for dates from 1970 on; wrong dates give days of another date.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * month_from_march + 2) / 5 + day.checked_sub(1)?;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    (era * 146_097 + of_era).checked_sub(719_468)
}

/// Year, month and day of a number of days since 1970-01-01. Counts in eras of 400 years that begin on 1 March, so that the leap
/// day is the last of a year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::{format_ms, parse_ms};

    #[test]
    fn dates_are_right_around_leap_days_and_ends_of_years() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_001, "2024-02-29T23:59:59.001Z"),
            (1_796_125_683_250, "2026-12-01T11:48:03.250Z"),
            (1_798_761_599_000, "2026-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(format_ms(ms), text);
            assert_eq!(parse_ms(text), Ok(ms));
        }
    }

    #[test]
    fn offsets_and_fractions_are_read() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01t00:00:01.5z", 1_500),
            ("1970-01-01T00:00:00.1239999Z", 123),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1969-12-31T23:30:00-00:30", 0),
            ("2026-12-01T12:48:03.250+01:00", 1_796_125_683_250),
        ] {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "now",
            "2026-12-01",
            "2026-12-01T11:48:03",
            "2026-12-01 11:48:03Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-12-00T00:00:00Z",
            "2026-12-01T24:00:00Z",
            "2026-12-01T11:48:03.Z",
            "2026-12-01T11:48:03+1:00",
            "2026-12-01T11:48:03+01:00x",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(parse_ms(text).is_err(), "{text}");
        }
    }
}
