//! JSON to a payload, written straight to the wire: fields in the order of their numbers, entries of maps in the order of their keys.
//!
//! `null` stands for a field that is not there, except where it is a value of its own.

use std::collections::{BTreeMap, HashMap, HashSet};

use prost::encoding::encode_key;
use prost_reflect::{Kind, MapKey, MessageDescriptor};

use super::error::JsonError;
use super::field::{Field, Shape};
use super::field_mask;
use super::scalar::{self, expected, text};
use super::time::Time;
use super::tree::Json;
use super::well_known::WellKnown;
use super::wire::{Fields, put_bytes, put_double, put_group, put_varint};

/// Messages inside each other, the root among them.
const DEPTH_MAX: usize = 100;

/// Names that an error offers for one that is not there.
const NAMED_MAX: usize = 12;

/// The key of an `Any` that names its type.
const TYPE: &str = "@type";

/// The bytes of a message, which is the `depth`th from the root.
pub(super) fn message(descriptor: &MessageDescriptor, json: &Json, depth: usize) -> Result<Vec<u8>, JsonError> {
    if depth > DEPTH_MAX {
        return Err(JsonError::new(format!("more than {DEPTH_MAX} messages inside each other")));
    }
    match WellKnown::of(descriptor) {
        None => regular(descriptor, object(json, || format!("an object, a {}", descriptor.full_name()))?, depth),
        Some(WellKnown::Any) => any(descriptor, json, depth),
        Some(WellKnown::Timestamp) => {
            let what = "a time such as \"2026-01-31T09:30:00Z\"";
            time(Time::timestamp(text(json).map_err(|_| expected(what, json))?).ok_or_else(|| expected(what, json))?)
        }
        Some(WellKnown::Duration) => {
            let what = "a duration such as \"1.5s\"";
            time(Time::duration(text(json).map_err(|_| expected(what, json))?).ok_or_else(|| expected(what, json))?)
        }
        Some(WellKnown::FieldMask) => mask(json),
        Some(WellKnown::Struct) => structure(descriptor, json, depth),
        Some(WellKnown::ListValue) => list_value(descriptor, json, depth),
        Some(WellKnown::Value) => value(descriptor, json, depth),
        Some(WellKnown::Wrapper) => wrapper(descriptor, json),
    }
}

fn object(json: &Json, what: impl Fn() -> String) -> Result<&[(String, Json)], JsonError> {
    match json {
        Json::Object(entries) => Ok(entries),
        other => Err(expected(&what(), other)),
    }
}

fn array(json: &Json) -> Result<&[Json], JsonError> {
    match json {
        Json::Array(elements) => Ok(elements),
        other => Err(expected("an array", other)),
    }
}

fn regular<'a>(
    descriptor: &MessageDescriptor,
    entries: impl IntoIterator<Item = &'a (String, Json)>,
    depth: usize,
) -> Result<Vec<u8>, JsonError> {
    let mut fields = Fields::default();
    let mut given = HashSet::new();
    let mut oneofs: HashMap<String, &str> = HashMap::new();
    for (key, json) in entries {
        let field = Field::find(descriptor, key).ok_or_else(|| unknown(descriptor).under(key))?;
        if !given.insert(field.number) {
            return Err(JsonError::new("the field is given twice").under(key));
        }
        let Some(encoded) = encoded(&field, json, depth).map_err(|error| error.under(key))? else { continue };
        if let Some(oneof) = &field.oneof
            && let Some(other) = oneofs.insert(oneof.clone(), key)
        {
            return Err(JsonError::new(format!("`{other}` is given too, and of the oneof `{oneof}` only one may be")).under(key));
        }
        fields.put(field.number, encoded);
    }
    Ok(fields.into_bytes())
}

fn unknown(descriptor: &MessageDescriptor) -> JsonError {
    let mut names: Vec<String> = descriptor.fields().take(NAMED_MAX + 1).map(|field| field.json_name().to_owned()).collect();
    if names.len() > NAMED_MAX {
        names[NAMED_MAX] = "others".to_owned();
    }
    let has = if names.is_empty() { "no fields".to_owned() } else { names.join(", ") };
    JsonError::new(format!("{} has no such field; it has {has}", descriptor.full_name()))
}

/// A field with its key, as often as it has values. `None`: it is not there.
fn encoded(field: &Field, json: &Json, depth: usize) -> Result<Option<Vec<u8>>, JsonError> {
    let null_is_a_value = field.shape == Shape::Single && (WellKnown::takes_null(&field.kind) || scalar::is_null_value(&field.kind));
    if *json == Json::Null && !null_is_a_value {
        return Ok(None);
    }
    match field.shape {
        Shape::Map => map(field, json, depth).map(Some),
        Shape::List { packed } => list(field, packed, json, depth).map(Some),
        Shape::Single => single(field, json, depth),
    }
}

fn single(field: &Field, json: &Json, depth: usize) -> Result<Option<Vec<u8>>, JsonError> {
    let mut out = Vec::new();
    let default = put(field.number, &field.kind, field.group, json, depth, &mut out)?;
    Ok((field.presence || !default).then_some(out))
}

/// Writes key and value, and says whether the value is its type's default.
fn put(number: u32, kind: &Kind, group: bool, json: &Json, depth: usize, out: &mut Vec<u8>) -> Result<bool, JsonError> {
    match kind {
        Kind::Message(descriptor) => {
            let content = message(descriptor, json, depth + 1)?;
            if group {
                put_group(number, &content, out)
            } else {
                put_bytes(number, &content, out)
            }
            Ok(false)
        }
        scalar_kind => {
            encode_key(number, scalar_kind.wire_type(), out);
            if scalar::is_null_value(scalar_kind) && *json == Json::Null {
                out.push(0);
                return Ok(true);
            }
            scalar::put(scalar_kind, json, out)
        }
    }
}

fn list(field: &Field, packed: bool, json: &Json, depth: usize) -> Result<Vec<u8>, JsonError> {
    let mut out = Vec::new();
    for (index, element) in array(json)?.iter().enumerate() {
        if *element == Json::Null && !WellKnown::takes_null(&field.kind) {
            return Err(JsonError::new("expected a value, found null: lists have no unset elements").at(index));
        }
        let done = match packed {
            true => scalar::put(&field.kind, element, &mut out),
            false => put(field.number, &field.kind, field.group, element, depth, &mut out),
        };
        done.map_err(|error| error.at(index))?;
    }
    if packed && !out.is_empty() {
        let mut run = Vec::with_capacity(out.len() + 8);
        put_bytes(field.number, &out, &mut run);
        return Ok(run);
    }
    Ok(out)
}

fn map(field: &Field, json: &Json, depth: usize) -> Result<Vec<u8>, JsonError> {
    let Kind::Message(entry) = &field.kind else { return Err(JsonError::new("the map has no entries")) };
    let (key_kind, value_kind) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
    let mut entries: BTreeMap<MapKey, Vec<u8>> = BTreeMap::new();
    for (key, json) in object(json, || "an object, a map".to_owned())? {
        let (key, encoded) = map_entry(&key_kind, key, &value_kind, json, depth).map_err(|error| error.at(key))?;
        let shown = scalar::shown_map_key(&key);
        if entries.insert(key, encoded).is_some() {
            return Err(JsonError::new("the key is given twice").at(shown));
        }
    }
    let mut out = Vec::new();
    entries.values().for_each(|entry| put_bytes(field.number, entry, &mut out));
    Ok(out)
}

/// Key and value of a map's entry: both are written, defaults too.
fn map_entry(key_kind: &Kind, key: &str, value_kind: &Kind, json: &Json, depth: usize) -> Result<(MapKey, Vec<u8>), JsonError> {
    let key = scalar::map_key(key_kind, key)?;
    if *json == Json::Null && !WellKnown::takes_null(value_kind) {
        return Err(JsonError::new("expected a value, found null: maps have no unset values"));
    }
    let mut out = Vec::new();
    encode_key(1, key_kind.wire_type(), &mut out);
    scalar::put_map_key(key_kind, &key, &mut out);
    put(2, value_kind, false, json, depth, &mut out)?;
    Ok((key, out))
}

fn time(time: Time) -> Result<Vec<u8>, JsonError> {
    let mut out = Vec::new();
    for (number, value) in [(1, time.seconds), (2, i64::from(time.nanos))] {
        if value != 0 {
            put_varint(number, value.cast_unsigned(), &mut out);
        }
    }
    Ok(out)
}

fn mask(json: &Json) -> Result<Vec<u8>, JsonError> {
    let Json::String(paths) = json else { return Err(expected("field paths, joined by commas", json)) };
    let mut out = Vec::new();
    for path in paths.split(',').filter(|_| !paths.is_empty()) {
        put_bytes(1, field_mask::snake_case(path)?.as_bytes(), &mut out);
    }
    Ok(out)
}

/// `{"@type": "prefix/full.Name", ...fields}`, or with one field `value` for a type that has a form of its own.
fn any(descriptor: &MessageDescriptor, json: &Json, depth: usize) -> Result<Vec<u8>, JsonError> {
    let entries = object(json, || format!("an object with {TYPE:?}"))?;
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let mut types = entries.iter().filter(|(key, _)| key == TYPE);
    let (Some((_, type_url)), None) = (types.next(), types.next()) else {
        return Err(JsonError::new(format!("expected {TYPE:?} once, with a URL that ends in the type's full name")));
    };
    let type_url = text(type_url).map_err(|error| error.under(TYPE))?;
    let inner = any_type(descriptor, type_url).map_err(|error| error.under(TYPE))?;
    let rest = || entries.iter().filter(|(key, _)| key != TYPE);
    let content = match WellKnown::of(&inner) {
        None => regular(&inner, rest(), depth)?,
        Some(_) => {
            let mut values = rest();
            let (Some((key, value)), None) = (values.next(), values.next()) else {
                return Err(JsonError::new(format!("expected one more key, \"value\", which is a {}", inner.full_name())));
            };
            if key != "value" {
                return Err(JsonError::new(format!("expected \"value\", which is a {}", inner.full_name())).under(key));
            }
            message(&inner, value, depth + 1).map_err(|error| error.under(key))?
        }
    };
    let mut out = Vec::new();
    for (number, field) in [(1, type_url.as_bytes()), (2, &content)] {
        if !field.is_empty() {
            put_bytes(number, field, &mut out);
        }
    }
    Ok(out)
}

/// The type that an `Any` holds: one of the contract's own files.
pub(super) fn any_type(descriptor: &MessageDescriptor, type_url: &str) -> Result<MessageDescriptor, JsonError> {
    let name = type_url.rsplit('/').next().unwrap_or_default();
    descriptor.parent_pool().get_message_by_name(name).ok_or_else(|| {
        JsonError::new(format!("the contract's files have no message {name:?}, which {type_url:?} names; import the file that has it"))
    })
}

/// Of the types that hold each other, by the number of the field: descriptors were looked at by `WellKnown::of`.
fn inner(descriptor: &MessageDescriptor, number: u32) -> Result<MessageDescriptor, JsonError> {
    let kind = descriptor.get_field(number).map(|field| field.kind());
    kind.and_then(|kind| kind.as_message().cloned()).ok_or_else(|| JsonError::new(format!("{} is not what it was", descriptor.full_name())))
}

fn structure(descriptor: &MessageDescriptor, json: &Json, depth: usize) -> Result<Vec<u8>, JsonError> {
    let entry = inner(descriptor, 1)?;
    let values = inner(&entry, 2)?;
    let mut entries: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for (key, json) in object(json, || "an object".to_owned())? {
        let content = message(&values, json, depth + 1).map_err(|error| error.under(key))?;
        let mut encoded = Vec::new();
        put_bytes(1, key.as_bytes(), &mut encoded);
        put_bytes(2, &content, &mut encoded);
        if entries.insert(key, encoded).is_some() {
            return Err(JsonError::new("the key is given twice").under(key));
        }
    }
    let mut out = Vec::new();
    entries.values().for_each(|entry| put_bytes(1, entry, &mut out));
    Ok(out)
}

fn list_value(descriptor: &MessageDescriptor, json: &Json, depth: usize) -> Result<Vec<u8>, JsonError> {
    let values = inner(descriptor, 1)?;
    let mut out = Vec::new();
    for (index, element) in array(json)?.iter().enumerate() {
        put_bytes(1, &message(&values, element, depth + 1).map_err(|error| error.at(index))?, &mut out);
    }
    Ok(out)
}

/// Any JSON at all.
fn value(descriptor: &MessageDescriptor, json: &Json, depth: usize) -> Result<Vec<u8>, JsonError> {
    let mut out = Vec::new();
    match json {
        Json::Null => put_varint(1, 0, &mut out),
        // Numbers of a tree are finite, and the largest integers have a nearest one.
        Json::Number(number) => put_double(2, number.as_f64().unwrap_or_default(), &mut out),
        Json::String(text) => put_bytes(3, text.as_bytes(), &mut out),
        Json::Bool(value) => put_varint(4, u64::from(*value), &mut out),
        Json::Object(_) => put_bytes(5, &message(&inner(descriptor, 5)?, json, depth + 1)?, &mut out),
        Json::Array(_) => put_bytes(6, &message(&inner(descriptor, 6)?, json, depth + 1)?, &mut out),
    }
    Ok(out)
}

fn wrapper(descriptor: &MessageDescriptor, json: &Json) -> Result<Vec<u8>, JsonError> {
    let field = descriptor.get_field(1).ok_or_else(|| JsonError::new(format!("{} is not what it was", descriptor.full_name())))?;
    // It holds a scalar, so how deep it is does not matter.
    Ok(single(&Field::of(&field), json, 0)?.unwrap_or_default())
}
