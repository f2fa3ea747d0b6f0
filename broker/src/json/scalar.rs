//! Numbers, text, bytes and enums: from JSON to the bytes of a value, and from a value to JSON.
//!
//! What JSON has no literal for is text: integers of 64 bits, NaN and the infinities, bytes as base64. Reading is more generous than
//! writing: numbers may be text, integers may be written like `1.0` or `1e3`, base64 may be of either alphabet, padded or not.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose};
use prost::encoding::encode_varint;
use prost_reflect::{EnumDescriptor, Kind, MapKey, Syntax, Value};

use super::error::JsonError;
use super::tree::Json;

/// Padding is optional, and nobody looks at the bits that the last character has too many.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The enum whose only value is `null`.
const NULL_VALUE: &str = "google.protobuf.NullValue";

/// Writes a value without its key, and says whether it is the default of its type (which is not that of the field, in proto2).
pub(super) fn put(kind: &Kind, json: &Json, out: &mut Vec<u8>) -> Result<bool, JsonError> {
    match kind {
        Kind::Double => {
            let value = float(json, "a number")?;
            out.extend_from_slice(&value.to_le_bytes());
            // Minus zero is not the default.
            Ok(value.to_bits() == 0)
        }
        Kind::Float => {
            let value = single(float(json, "a number of 32 bits")?, json)?;
            out.extend_from_slice(&value.to_le_bytes());
            Ok(value.to_bits() == 0)
        }
        Kind::String => {
            let text = text(json)?;
            put_content(text.as_bytes(), out);
            Ok(text.is_empty())
        }
        Kind::Bytes => {
            let bytes = bytes(json)?;
            put_content(&bytes, out);
            Ok(bytes.is_empty())
        }
        Kind::Bool => {
            let Json::Bool(value) = json else { return Err(expected("true or false", json)) };
            out.push(u8::from(*value));
            Ok(!value)
        }
        Kind::Enum(descriptor) => {
            let number = enum_number(descriptor, json)?;
            encode_varint(sign_extended(number), out);
            Ok(number == 0)
        }
        Kind::Message(_) => Err(JsonError::new("a message is not a scalar")),
        integer_kind => {
            let number = integer(integer_kind, json)?;
            put_integer(integer_kind, number, out);
            Ok(number == 0)
        }
    }
}

fn put_content(content: &[u8], out: &mut Vec<u8>) {
    encode_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

/// A key of a map: all keys are text in JSON.
pub(super) fn map_key(kind: &Kind, key: &str) -> Result<MapKey, JsonError> {
    let whole = || integer(kind, &Json::string(key));
    let fits = "the range was checked";
    Ok(match kind {
        Kind::Bool => match key {
            "true" => MapKey::Bool(true),
            "false" => MapKey::Bool(false),
            _ => return Err(JsonError::new(format!("expected the key to be \"true\" or \"false\", found {key:?}"))),
        },
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => MapKey::I32(i32::try_from(whole()?).expect(fits)),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => MapKey::I64(i64::try_from(whole()?).expect(fits)),
        Kind::Uint32 | Kind::Fixed32 => MapKey::U32(u32::try_from(whole()?).expect(fits)),
        Kind::Uint64 | Kind::Fixed64 => MapKey::U64(u64::try_from(whole()?).expect(fits)),
        _ => MapKey::String(key.to_owned()),
    })
}

/// Writes a key of a map as a value without its own key.
pub(super) fn put_map_key(kind: &Kind, key: &MapKey, out: &mut Vec<u8>) {
    match key {
        MapKey::Bool(value) => out.push(u8::from(*value)),
        MapKey::I32(value) => put_integer(kind, i128::from(*value), out),
        MapKey::I64(value) => put_integer(kind, i128::from(*value), out),
        MapKey::U32(value) => put_integer(kind, i128::from(*value), out),
        MapKey::U64(value) => put_integer(kind, i128::from(*value), out),
        MapKey::String(text) => put_content(text.as_bytes(), out),
    }
}

/// A key of a map as JSON writes it.
pub(super) fn shown_map_key(key: &MapKey) -> String {
    match key {
        MapKey::Bool(value) => value.to_string(),
        MapKey::I32(value) => value.to_string(),
        MapKey::I64(value) => value.to_string(),
        MapKey::U32(value) => value.to_string(),
        MapKey::U64(value) => value.to_string(),
        MapKey::String(text) => text.clone(),
    }
}

/// A value as JSON. `None`: a number that a closed enum does not have, which therefore counts as an unknown field.
pub(super) fn json(kind: &Kind, value: &Value) -> Option<Json> {
    Some(match (value, kind) {
        (Value::Bool(value), _) => Json::Bool(*value),
        (Value::I32(value), _) => Json::Number((*value).into()),
        (Value::U32(value), _) => Json::Number((*value).into()),
        (Value::I64(value), _) => Json::string(value.to_string()),
        (Value::U64(value), _) => Json::string(value.to_string()),
        // The shortest text that is the same of 32 bits, read as one of 64.
        (Value::F32(value), _) if value.is_finite() => float_json(value.to_string().parse().unwrap_or_else(|_| f64::from(*value))),
        (Value::F32(value), _) => float_json(f64::from(*value)),
        (Value::F64(value), _) => float_json(*value),
        (Value::String(text), _) => Json::string(text.as_str()),
        (Value::Bytes(bytes), _) => Json::String(general_purpose::STANDARD.encode(bytes)),
        (Value::EnumNumber(_), Kind::Enum(descriptor)) if descriptor.full_name() == NULL_VALUE => Json::Null,
        (Value::EnumNumber(number), Kind::Enum(descriptor)) => match first_of_number(descriptor, *number) {
            Some(name) => Json::String(name),
            None if is_closed(descriptor) => return None,
            None => Json::Number((*number).into()),
        },
        _ => return None,
    })
}

fn float_json(value: f64) -> Json {
    Json::finite(value).unwrap_or_else(|| {
        Json::string(match (value.is_nan(), value > 0.0) {
            (true, _) => "NaN",
            (false, true) => "Infinity",
            (false, false) => "-Infinity",
        })
    })
}

/// Of names that share a number the first one counts.
fn first_of_number(descriptor: &EnumDescriptor, number: i32) -> Option<String> {
    let values = &descriptor.enum_descriptor_proto().value;
    values.iter().find(|value| value.number() == number).map(|value| value.name().to_owned())
}

fn is_closed(descriptor: &EnumDescriptor) -> bool {
    descriptor.parent_file().syntax() == Syntax::Proto2
}

pub(super) fn is_null_value(kind: &Kind) -> bool {
    kind.as_enum().is_some_and(|descriptor| descriptor.full_name() == NULL_VALUE)
}

pub(super) fn expected(what: &str, json: &Json) -> JsonError {
    JsonError::new(format!("expected {what}, found {}", json.shown()))
}

pub(super) fn text(json: &Json) -> Result<&str, JsonError> {
    match json {
        Json::String(text) => Ok(text),
        other => Err(expected("a string", other)),
    }
}

fn bytes(json: &Json) -> Result<Vec<u8>, JsonError> {
    let Json::String(text) = json else { return Err(expected("bytes as a base64 string", json)) };
    let standard: Vec<u8> = text
        .bytes()
        .map(|letter| match letter {
            b'-' => b'+',
            b'_' => b'/',
            other => other,
        })
        .collect();
    BASE64.decode(standard).map_err(|_| expected("bytes as a base64 string", json))
}

/// A number, or its text.
fn float(json: &Json, what: &str) -> Result<f64, JsonError> {
    let number = match json {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => match text.as_str() {
            "NaN" => return Ok(f64::NAN),
            "Infinity" => return Ok(f64::INFINITY),
            "-Infinity" => return Ok(f64::NEG_INFINITY),
            text => decimal(text),
        },
        _ => None,
    };
    number.ok_or_else(|| expected(what, json))
}

/// The nearest `f32`, if there is one that is finite.
fn single(value: f64, json: &Json) -> Result<f32, JsonError> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest is what the type asks for")]
    let single = value as f32;
    match single.is_infinite() && value.is_finite() {
        true => Err(expected("a number of 32 bits", json)),
        false => Ok(single),
    }
}

/// Text as a finite number; words such as `inf` are none.
fn decimal(text: &str) -> Option<f64> {
    let digits = text.bytes().all(|letter| matches!(letter, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    text.parse().ok().filter(|number: &f64| digits && number.is_finite())
}

/// An integer in the range of its type.
fn integer(kind: &Kind, json: &Json) -> Result<i128, JsonError> {
    let (min, max) = match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
        Kind::Uint32 | Kind::Fixed32 => (0, i128::from(u32::MAX)),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => (i128::from(i64::MIN), i128::from(i64::MAX)),
        _ => (0, i128::from(u64::MAX)),
    };
    let number = match json {
        Json::Number(number) => number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from))
            // Integers below the range have been rounded to its end.
            .or_else(|| number.as_f64().filter(|number| *number > i64::MIN as f64).and_then(whole)),
        Json::String(text) => text.parse().ok().or_else(|| decimal(text).and_then(whole)),
        _ => None,
    };
    number.filter(|number| (min..=max).contains(number)).ok_or_else(|| expected(&format!("an integer from {min} to {max}"), json))
}

/// A number without a fraction, as an integer.
fn whole(number: f64) -> Option<i128> {
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates beyond every range that is checked after it")]
    (number.fract() == 0.0).then_some(number as i128)
}

fn put_integer(kind: &Kind, number: i128, out: &mut Vec<u8>) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked: these are the two's complement")]
    let low = number as u64;
    let signed = low.cast_signed();
    match kind {
        Kind::Sint32 | Kind::Sint64 => encode_varint(((signed << 1) ^ (signed >> 63)).cast_unsigned(), out),
        Kind::Fixed32 | Kind::Sfixed32 => out.extend_from_slice(&low.to_le_bytes()[..4]),
        Kind::Fixed64 | Kind::Sfixed64 => out.extend_from_slice(&low.to_le_bytes()),
        _ => encode_varint(low, out),
    }
}

fn sign_extended(number: i32) -> u64 {
    i64::from(number).cast_unsigned()
}

fn enum_number(descriptor: &EnumDescriptor, json: &Json) -> Result<i32, JsonError> {
    let what = || format!("a value of the enum {}", descriptor.full_name());
    if let Json::String(name) = json
        && let Some(value) = descriptor.get_value_by_name(name)
    {
        return Ok(value.number());
    }
    let number = integer(&Kind::Int32, json).ok().and_then(|number| i32::try_from(number).ok());
    let known = |number: &i32| !is_closed(descriptor) || descriptor.get_value(*number).is_some();
    number.filter(known).ok_or_else(|| expected(&what(), json))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Json {
        Json::parse(text.as_bytes()).expect("it is JSON")
    }

    #[test]
    fn integers_are_numbers_or_text_and_stay_in_their_range() {
        for (kind, json, value) in [
            (Kind::Int32, "-2147483648", i128::from(i32::MIN)),
            (Kind::Int32, "1e3", 1_000),
            (Kind::Int32, "\"1.0\"", 1),
            (Kind::Uint32, "4.294967295e9", i128::from(u32::MAX)),
            (Kind::Int64, "\"9223372036854775807\"", i128::from(i64::MAX)),
            (Kind::Uint64, "18446744073709551615", i128::from(u64::MAX)),
            (Kind::Uint64, "\"18446744073709551615\"", i128::from(u64::MAX)),
        ] {
            assert_eq!(integer(&kind, &number(json)), Ok(value), "{json}");
        }
        for (kind, json) in [
            (Kind::Int32, "2147483648"),
            (Kind::Int32, "0.5"),
            (Kind::Int32, "true"),
            (Kind::Int32, "\"\""),
            (Kind::Int32, "\" 1\""),
            (Kind::Int32, "\"0x1\""),
            (Kind::Uint32, "-1"),
            (Kind::Int64, "9223372036854775808"),
            (Kind::Int64, "-9223372036854775809"),
            (Kind::Uint64, "18446744073709551616"),
            (Kind::Uint64, "\"1e400\""),
        ] {
            assert!(integer(&kind, &number(json)).is_err(), "{json}");
        }
    }

    #[test]
    fn floats_know_three_words_and_their_range() {
        for (kind, json, good) in [
            (Kind::Float, "3.4028235e38", true),
            (Kind::Float, "3.5e38", false),
            (Kind::Float, "\"-Infinity\"", true),
            (Kind::Double, "\"NaN\"", true),
            (Kind::Double, "\"inf\"", false),
            (Kind::Double, "\"nan\"", false),
            (Kind::Double, "\"1e999\"", false),
            (Kind::Double, "true", false),
            (Kind::Double, "\"1.5\"", true),
        ] {
            assert_eq!(put(&kind, &number(json), &mut Vec::new()).is_ok(), good, "{json}");
        }
    }

    #[test]
    fn base64_is_read_in_both_alphabets_with_and_without_padding() {
        for (text, expected) in [("-_", &[0xfb_u8][..]), ("+/A=", &[0xfb, 0xf0]), ("-_A", &[0xfb, 0xf0]), ("", &[])] {
            assert_eq!(bytes(&Json::string(text)).as_deref(), Ok(expected), "{text}");
        }
        for text in ["a", "a$==", "YQ\n==", "YQ=a"] {
            assert!(bytes(&Json::string(text)).is_err(), "{text}");
        }
    }
}
