//! The features of editions, as options in .proto text.
//!
//! `prost-reflect` knows no editions, so the option `features` is an unknown field to it, unless the contract brings a `descriptor.proto`
//! that has it. Their numbers are those of `google/protobuf/descriptor.proto` of protobuf 35.

use prost_reflect::prost::encoding::{WireType, decode_key, decode_varint};
use prost_reflect::{DynamicMessage, ReflectMessage as _};

/// Each feature with the names of its values, from number 1; of those without a name nothing was ever released.
const FEATURES: &[(&str, &[&str])] = &[
    ("field_presence", &["EXPLICIT", "IMPLICIT", "LEGACY_REQUIRED"]),
    ("enum_type", &["OPEN", "CLOSED"]),
    ("repeated_field_encoding", &["PACKED", "EXPANDED"]),
    ("utf8_validation", &["", "VERIFY", "NONE"]),
    ("message_encoding", &["LENGTH_PREFIXED", "DELIMITED"]),
    ("json_format", &["ALLOW", "LEGACY_BEST_EFFORT"]),
    ("enforce_naming_style", &["STYLE2024", "STYLE_LEGACY"]),
    ("default_symbol_visibility", &["EXPORT_ALL", "EXPORT_TOP_LEVEL", "LOCAL_ALL", "STRICT"]),
];

/// The number of the field `features` in a type of options.
fn number(options: &str) -> Option<u32> {
    Some(match options {
        "google.protobuf.FileOptions" => 50,
        "google.protobuf.MessageOptions" => 12,
        "google.protobuf.FieldOptions" => 21,
        "google.protobuf.OneofOptions" => 1,
        "google.protobuf.EnumOptions" => 7,
        "google.protobuf.EnumValueOptions" => 2,
        "google.protobuf.ServiceOptions" => 34,
        "google.protobuf.MethodOptions" => 35,
        _ => return None,
    })
}

/// Features that the library left unread, as name and value of an option each.
pub(super) fn settings(options: &DynamicMessage) -> Result<Vec<(String, String)>, String> {
    let mut settings = Vec::new();
    let Some(number) = number(options.descriptor().full_name()) else { return Ok(settings) };
    for unknown in options.unknown_fields().filter(|unknown| unknown.number() == number) {
        let mut bytes = Vec::new();
        unknown.encode(&mut bytes);
        let mut rest = bytes.as_slice();
        settings.extend(read(&mut rest).ok_or("an option `features` in them cannot be read")??);
    }
    Ok(settings)
}

/// A whole field `features`; `None` where its bytes are broken.
fn read(rest: &mut &[u8]) -> Option<Result<Vec<(String, String)>, String>> {
    let mut settings = Vec::new();
    let (_, WireType::LengthDelimited) = decode_key(rest).ok()? else { return None };
    let _length = decode_varint(rest).ok()?;
    while !rest.is_empty() {
        let (number, wire_type) = decode_key(rest).ok()?;
        if wire_type != WireType::Varint {
            return Some(Err(format!("they set the feature {number}, which is an extension of a compiler that is not known here")));
        }
        let value = decode_varint(rest).ok()?;
        let feature = usize::try_from(number).ok()?.checked_sub(1).and_then(|at| FEATURES.get(at));
        let value_at = usize::try_from(value).ok()?.checked_sub(1);
        match feature.and_then(|(name, values)| value_at.and_then(|at| values.get(at)).map(|value| (name, value))) {
            Some((name, value)) => settings.push((format!("features.{name}"), (*value).to_owned())),
            None => return Some(Err(format!("they set the feature {number} to {value}, which is not known here"))),
        }
    }
    Some(Ok(settings))
}
