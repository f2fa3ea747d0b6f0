//! A payload to JSON: fields in the order of their numbers, entries of maps in the order of their keys.

use std::collections::{BTreeMap, HashMap};

use prost_reflect::{DynamicMessage, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value};

use super::decode::any_type;
use super::error::JsonError;
use super::field::{Field, Shape};
use super::time::Time;
use super::tree::Json;
use super::well_known::WellKnown;
use super::{field_mask, scalar};

/// Messages inside each other, those inside of an `Any` among them: a payload of the right depth may hold another one.
const DEPTH_MAX: usize = 200;

pub(super) fn payload(descriptor: &MessageDescriptor, payload: &[u8], depth: usize) -> Result<Json, JsonError> {
    let decoded = DynamicMessage::decode(descriptor.clone(), payload);
    message(&decoded.map_err(|error| JsonError::new(format!("not a {}: {error}", descriptor.full_name())))?, depth)
}

/// A message, which is the `depth`th from the root.
fn message(message: &DynamicMessage, depth: usize) -> Result<Json, JsonError> {
    if depth > DEPTH_MAX {
        return Err(JsonError::new(format!("more than {DEPTH_MAX} messages inside each other")));
    }
    match WellKnown::of(&message.descriptor()) {
        None => Ok(Json::Object(entries(message, depth)?)),
        Some(WellKnown::Any) => any(message, depth),
        Some(WellKnown::Timestamp) => time(message).timestamp_text().map(Json::String),
        Some(WellKnown::Duration) => time(message).duration_text().map(Json::String),
        Some(WellKnown::FieldMask) => mask(message),
        Some(WellKnown::Struct) => structure(message, depth),
        Some(WellKnown::ListValue) => list_value(message, depth),
        Some(WellKnown::Value) => value(message, depth),
        Some(WellKnown::Wrapper) => Ok(wrapper(message)),
    }
}

/// The fields that are there, by their JSON names.
fn entries(message: &DynamicMessage, depth: usize) -> Result<Vec<(String, Json)>, JsonError> {
    let descriptor = message.descriptor();
    let mut by_number: BTreeMap<u32, (String, Json)> = BTreeMap::new();
    let fields = message.fields().map(|(field, value)| (Field::of(&field), value));
    let extensions = message.extensions().map(|(extension, value)| (Field::of_extension(&extension), value));
    for (field, value) in fields.chain(extensions) {
        let json = field_json(&field, value, depth).map_err(|error| error.under(&field.json_name))?;
        if let Some(json) = json {
            by_number.insert(field.number, (field.json_name, json));
        }
    }
    // The library takes minus zero for zero, and so for unset.
    for field in descriptor.fields().filter(|field| matches!(field.kind(), Kind::Double | Kind::Float) && !field.supports_presence()) {
        let minus_zero = match message.get_field(&field).as_ref() {
            Value::F32(value) => *value == 0.0 && value.is_sign_negative(),
            Value::F64(value) => *value == 0.0 && value.is_sign_negative(),
            _ => false,
        };
        if minus_zero && let Some(json) = Json::finite(-0.0) {
            by_number.insert(field.number(), (field.json_name().to_owned(), json));
        }
    }
    Ok(by_number.into_values().collect())
}

/// `None`: nothing of it is known, as with a number that a closed enum does not have.
fn field_json(field: &Field, value: &Value, depth: usize) -> Result<Option<Json>, JsonError> {
    match (value, field.shape) {
        (Value::Map(entries), _) => map(field, entries, depth),
        (Value::List(elements), Shape::List { .. }) => {
            let mut list = Vec::with_capacity(elements.len());
            for (index, element) in elements.iter().enumerate() {
                list.extend(one(&field.kind, element, depth).map_err(|error| error.at(index))?);
            }
            Ok(Some(Json::Array(list)).filter(|list| *list != Json::Array(Vec::new())))
        }
        (single, _) => one(&field.kind, single, depth),
    }
}

fn map(field: &Field, entries: &HashMap<MapKey, Value>, depth: usize) -> Result<Option<Json>, JsonError> {
    let Kind::Message(entry) = &field.kind else { return Ok(None) };
    let kind = entry.map_entry_value_field().kind();
    let sorted: BTreeMap<&MapKey, &Value> = entries.iter().collect();
    let mut object = Vec::with_capacity(sorted.len());
    for (key, value) in sorted {
        let key = scalar::shown_map_key(key);
        if let Some(json) = one(&kind, value, depth).map_err(|error| error.at(&key))? {
            object.push((key, json));
        }
    }
    Ok((!object.is_empty()).then_some(Json::Object(object)))
}

fn one(kind: &Kind, value: &Value, depth: usize) -> Result<Option<Json>, JsonError> {
    match value {
        Value::Message(inner) => message(inner, depth + 1).map(Some),
        scalar => Ok(scalar::json(kind, scalar)),
    }
}

fn time(message: &DynamicMessage) -> Time {
    let seconds = message.get_field_by_number(1).and_then(|value| value.as_i64()).unwrap_or_default();
    let nanos = message.get_field_by_number(2).and_then(|value| value.as_i32()).unwrap_or_default();
    Time { seconds, nanos }
}

fn mask(message: &DynamicMessage) -> Result<Json, JsonError> {
    let paths = message.get_field_by_number(1);
    let paths = paths.as_ref().and_then(|value| value.as_list()).unwrap_or_default();
    let camel: Vec<String> = paths.iter().filter_map(Value::as_str).map(field_mask::camel_case).collect::<Result<_, _>>()?;
    Ok(Json::String(camel.join(",")))
}

fn any(message: &DynamicMessage, depth: usize) -> Result<Json, JsonError> {
    let type_url = message.get_field_by_number(1);
    let type_url = type_url.as_ref().and_then(|value| value.as_str()).unwrap_or_default();
    let content = message.get_field_by_number(2);
    let content = content.as_ref().and_then(|value| value.as_bytes()).cloned().unwrap_or_default();
    if type_url.is_empty() && content.is_empty() {
        return Ok(Json::Object(Vec::new()));
    }
    let inner = any_type(&message.descriptor(), type_url)?;
    let mut object = vec![("@type".to_owned(), Json::string(type_url))];
    match (payload(&inner, &content, depth + 1)?, WellKnown::of(&inner)) {
        (Json::Object(fields), None) => object.extend(fields),
        (value, _) => object.push(("value".to_owned(), value)),
    }
    Ok(Json::Object(object))
}

fn structure(message: &DynamicMessage, depth: usize) -> Result<Json, JsonError> {
    let fields = message.get_field_by_number(1);
    let Some(entries) = fields.as_ref().and_then(|value| value.as_map()) else { return Ok(Json::Object(Vec::new())) };
    let sorted: BTreeMap<&MapKey, &Value> = entries.iter().collect();
    let mut object = Vec::with_capacity(sorted.len());
    for (key, inner) in sorted {
        let (Some(key), Some(inner)) = (key.as_str(), inner.as_message()) else { continue };
        object.push((key.to_owned(), value(inner, depth + 1).map_err(|error| error.under(key))?));
    }
    Ok(Json::Object(object))
}

fn list_value(message: &DynamicMessage, depth: usize) -> Result<Json, JsonError> {
    let values = message.get_field_by_number(1);
    let values = values.as_ref().and_then(|value| value.as_list()).unwrap_or_default();
    let elements = values.iter().filter_map(Value::as_message).enumerate();
    elements.map(|(index, element)| value(element, depth + 1).map_err(|error| error.at(index))).collect::<Result<_, _>>().map(Json::Array)
}

/// Any JSON at all; one of which nothing is set counts as null.
fn value(message: &DynamicMessage, depth: usize) -> Result<Json, JsonError> {
    let Some((_, set)) = message.fields().next() else { return Ok(Json::Null) };
    Ok(match set {
        Value::F64(number) => Json::finite(*number)
            .ok_or_else(|| JsonError::new(format!("{number} in a google.protobuf.Value has no JSON form: it would be read as text")))?,
        Value::String(text) => Json::string(text.as_str()),
        Value::Bool(value) => Json::Bool(*value),
        Value::Message(inner) => self::message(inner, depth + 1)?,
        _ => Json::Null,
    })
}

fn wrapper(message: &DynamicMessage) -> Json {
    let Some(field) = message.descriptor().get_field(1) else { return Json::Null };
    // An unset scalar is its default.
    scalar::json(&field.kind(), &message.get_field(&field)).unwrap_or(Json::Null)
}
