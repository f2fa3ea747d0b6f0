//! Floating-point defaults, as `strconv.FormatFloat(f, 'g', -1, ...)` writes them.

/// A descriptor's text; what lies beyond the range of 32 bits is infinite, as protoc reads it.
#[expect(clippy::cast_possible_truncation, reason = "rounding to 32 bits is what is asked for")]
pub(super) fn parse_32(text: &str) -> f32 {
    text.parse().unwrap_or_else(|_| parse_64(text) as f32)
}

pub(super) fn parse_64(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

pub(super) fn text_32(text: &str) -> String {
    let value = parse_32(text);
    named(value.into()).unwrap_or_else(|| shortest(&format!("{value:e}")))
}

pub(super) fn text_64(text: &str) -> String {
    text_or_name(parse_64(text))
}

/// A finite number.
pub(super) fn text(value: f64) -> String {
    shortest(&format!("{value:e}"))
}

fn text_or_name(value: f64) -> String {
    named(value).unwrap_or_else(|| text(value))
}

fn named(value: f64) -> Option<String> {
    let name = if value.is_nan() {
        "nan"
    } else if value == f64::INFINITY {
        "inf"
    } else if value == f64::NEG_INFINITY {
        "-inf"
    } else {
        return None;
    };
    Some(name.to_owned())
}

/// From `d.ddde-7`, the shortest digits that give the number.
fn shortest(scientific: &str) -> String {
    let (mantissa, exponent) = scientific.split_once('e').expect("Rust writes an exponent");
    let exponent: i32 = exponent.parse().expect("Rust writes a whole exponent");
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if digits == "0" {
        return format!("{sign}0");
    }
    if !(-4..6).contains(&exponent) {
        let rest = &digits[1..];
        let point = if rest.is_empty() { String::new() } else { format!(".{rest}") };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{}{point}e{exponent_sign}{:02}", &digits[..1], exponent.abs());
    }
    if exponent < 0 {
        let zeros = "0".repeat(usize::try_from(-exponent - 1).expect("negative"));
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = usize::try_from(exponent + 1).expect("not negative");
    if digits.len() <= whole {
        return format!("{sign}{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "-0"),
            ("1.5", "1.5"),
            ("100000", "100000"),
            ("1000000", "1e+06"),
            ("1234567", "1.234567e+06"),
            ("123456.75", "123456.75"),
            ("1e-4", "0.0001"),
            ("0.00001", "1e-05"),
            ("1e100", "1e+100"),
            ("-2.5e-7", "-2.5e-07"),
            ("inf", "inf"),
            ("-inf", "-inf"),
            ("nan", "nan"),
        ] {
            assert_eq!(text_64(text), expected, "{text}");
        }
        assert_eq!(text_32("1.1"), "1.1");
        assert_eq!(text_32("1e39"), "inf");
        assert_eq!(text(f64::from(parse_32("1.1"))), "1.100000023841858");
    }
}
