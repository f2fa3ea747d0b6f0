//! Timestamps and durations as text: `1970-01-01T00:00:00.000000001Z`, `-3.100s`.
//!
//! Written with 0, 3, 6 or 9 digits of a second's fraction; read with up to 9, timestamps in any time zone.

use super::error::JsonError;

/// The start of year 1 and the end of year 9999, in seconds since 1970.
const TIMESTAMP_SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// 10,000 years.
const DURATION_SECONDS_MAX: i64 = 315_576_000_000;

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;

/// Seconds and nanoseconds, as both messages hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time {
    pub(super) seconds: i64,
    pub(super) nanos: i32,
}

impl Time {
    pub(super) fn timestamp_text(self) -> Result<String, JsonError> {
        if !TIMESTAMP_SECONDS.contains(&self.seconds) || !(0..1_000_000_000).contains(&self.nanos) {
            return Err(self.refused("timestamp", "it is outside of the years 1 to 9999, or its nanos are not from 0 to 999999999"));
        }
        let (days, second) = (self.seconds.div_euclid(SECONDS_PER_DAY), self.seconds.rem_euclid(SECONDS_PER_DAY));
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        let fraction = fraction(self.nanos.unsigned_abs());
        Ok(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z"))
    }

    pub(super) fn duration_text(self) -> Result<String, JsonError> {
        if !self.is_duration() {
            return Err(self.refused("duration", "it is over 10,000 years, its nanos are over 999999999, or their signs differ"));
        }
        let sign = if self.seconds < 0 || self.nanos < 0 { "-" } else { "" };
        Ok(format!("{sign}{}{}s", self.seconds.unsigned_abs(), fraction(self.nanos.unsigned_abs())))
    }

    fn is_duration(self) -> bool {
        let same_sign = self.seconds == 0 || self.nanos == 0 || (self.seconds < 0) == (self.nanos < 0);
        self.seconds.unsigned_abs() <= DURATION_SECONDS_MAX.unsigned_abs() && self.nanos.unsigned_abs() < 1_000_000_000 && same_sign
    }

    fn refused(self, what: &str, why: &str) -> JsonError {
        JsonError::new(format!("the {what} of {} s and {} ns has no JSON form: {why}", self.seconds, self.nanos))
    }

    /// RFC 3339, upper-case, with a time zone, up to 9 digits of a fraction.
    pub(super) fn timestamp(text: &str) -> Option<Time> {
        let (local, rest) = text.split_at_checked("1970-01-01T00:00:00".len())?;
        let parts = local.as_bytes();
        let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        if separators.iter().any(|(at, separator)| parts[*at] != *separator) {
            return None;
        }
        let (year, month, day) = (digits(&local[0..4])?, digits(&local[5..7])?, digits(&local[8..10])?);
        let (hour, minute, second) = (digits(&local[11..13])?, digits(&local[14..16])?, digits(&local[17..19])?);
        let days = days(year, month, day)?;
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let (nanos, zone) = match rest.strip_prefix('.') {
            Some(rest) => {
                let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
                (nanos(&rest[..end])?, &rest[end..])
            }
            None => (0, rest),
        };
        let seconds = days * SECONDS_PER_DAY + hour * 3_600 + minute * 60 + second - zone_seconds(zone)?;
        TIMESTAMP_SECONDS.contains(&seconds).then_some(Time { seconds, nanos })
    }

    /// Seconds with up to 9 digits of a fraction, and an `s`.
    pub(super) fn duration(text: &str) -> Option<Time> {
        let number = text.strip_suffix('s')?;
        let (negative, number) = match number.strip_prefix('-') {
            Some(number) => (true, number),
            None => (false, number),
        };
        let (whole, nanos) = match number.split_once('.') {
            Some((whole, fraction)) => (whole, nanos(fraction)?),
            None => (number, 0),
        };
        let seconds = digits(whole)?;
        let time = if negative { Time { seconds: -seconds, nanos: -nanos } } else { Time { seconds, nanos } };
        time.is_duration().then_some(time)
    }
}

/// A number of digits alone, too few for an overflow.
fn digits(text: &str) -> Option<i64> {
    let good = !text.is_empty() && text.len() <= 18 && text.bytes().all(|letter| letter.is_ascii_digit());
    good.then(|| text.parse().ok()).flatten()
}

/// The digits behind the point of a second.
fn nanos(fraction: &str) -> Option<i32> {
    let value = i32::try_from(digits(fraction).filter(|_| fraction.len() <= 9)?).ok()?;
    Some(value * 10_i32.pow(9 - u32::try_from(fraction.len()).ok()?))
}

/// `Z`, or what the zone is ahead of it.
fn zone_seconds(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let (sign, offset) = match zone.strip_prefix('+') {
        Some(offset) => (1, offset),
        None => (-1, zone.strip_prefix('-')?),
    };
    let (hours, minutes) = offset.split_once(':').filter(|(hours, minutes)| hours.len() == 2 && minutes.len() == 2)?;
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// The fraction of a second with its point, in 0, 3, 6 or 9 digits.
fn fraction(nanos: u32) -> String {
    match nanos {
        0 => String::new(),
        nanos if nanos.is_multiple_of(1_000_000) => format!(".{:03}", nanos / 1_000_000),
        nanos if nanos.is_multiple_of(1_000) => format!(".{:06}", nanos / 1_000),
        nanos => format!(".{nanos:09}"),
    }
}

/// Days since 1970 as year, month and day, in the Gregorian calendar for all times. Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms".
fn date(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the leap day is the last one.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + next_year, month, day)
}

/// The reverse of `date`; `None` for a day that the calendar does not have.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let (march_year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (march_year.div_euclid(400), march_year.rem_euclid(400));
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    (date(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_go_both_ways() {
        for (text, seconds, nanos) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("0001-01-01T00:00:00Z", -62_135_596_800, 0),
            ("9999-12-31T23:59:59.999999999Z", 253_402_300_799, 999_999_999),
            ("2024-02-29T12:30:45.010Z", 1_709_209_845, 10_000_000),
            ("1969-12-31T23:59:59.000001Z", -1, 1_000),
        ] {
            assert_eq!(Time::timestamp(text), Some(Time { seconds, nanos }));
            assert_eq!(Time { seconds, nanos }.timestamp_text().as_deref(), Ok(text));
        }
        assert_eq!(Time::timestamp("1970-01-01T01:30:00.5+01:30"), Some(Time { seconds: 0, nanos: 500_000_000 }));
    }

    #[test]
    fn what_is_no_timestamp_is_refused() {
        for text in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-01-01t00:00:00Z",
            "1970-01-01T00:00:00z",
            "1970-01-01 00:00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00.1234567891Z",
            "1970-01-01T00:00:00+1:00",
            "1970-01-01T00:00:00+24:00",
            "1970-01-01T00:00:00ZZ",
            "2023-02-29T00:00:00Z",
            "1970-13-01T00:00:00Z",
            "1970-00-01T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:60Z",
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-00:01",
            "+970-01-01T00:00:00Z",
            "1970-01-01T00:00:0\u{e9}",
        ] {
            assert_eq!(Time::timestamp(text), None, "{text}");
        }
        assert!(Time { seconds: 0, nanos: -1 }.timestamp_text().is_err());
        assert!(Time { seconds: i64::MIN, nanos: 0 }.timestamp_text().is_err());
    }

    #[test]
    fn durations_go_both_ways() {
        for (text, seconds, nanos) in [
            ("0s", 0, 0),
            ("1.010s", 1, 10_000_000),
            ("-3.100s", -3, -100_000_000),
            ("-0.000000001s", 0, -1),
            ("315576000000s", 315_576_000_000, 0),
        ] {
            assert_eq!(Time::duration(text), Some(Time { seconds, nanos }));
            assert_eq!(Time { seconds, nanos }.duration_text().as_deref(), Ok(text));
        }
        for text in ["", "s", "1", "1S", "1.s", ".5s", "--1s", "+1s", "1.1234567891s", "315576000001s", "99999999999999999999s", "1.-5s"] {
            assert_eq!(Time::duration(text), None, "{text}");
        }
        assert!(Time { seconds: 1, nanos: -1 }.duration_text().is_err());
        assert!(Time { seconds: i64::MIN, nanos: i32::MIN }.duration_text().is_err());
    }
}
