//! JSON Schema (draft 7) of protobuf's JSON: what a message of a contract looks like, for documents and tools.
//!
//! It describes what comes out and what may go in. It does not replace `decode`, which is exact: names as in the .proto file go in too, and
//! what JSON Schema cannot say, such as one field of a oneof at most, is not in it.

use std::collections::BTreeMap;

use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

/// Schemas of a message and all that it holds, by full name. `reference` writes how one refers to another.
pub fn schemas(root: &MessageDescriptor, reference: &dyn Fn(&str) -> String) -> BTreeMap<String, Value> {
    let mut schemas = BTreeMap::new();
    let mut waiting = vec![root.clone()];
    while let Some(message) = waiting.pop() {
        if schemas.contains_key(message.full_name()) {
            continue;
        }
        let mut writer = Writer { reference, held: Vec::new() };
        let schema = well_known(&message).unwrap_or_else(|| writer.message(&message));
        waiting.append(&mut writer.held);
        schemas.insert(message.full_name().to_owned(), schema);
    }
    schemas
}

struct Writer<'a> {
    reference: &'a dyn Fn(&str) -> String,
    /// Messages that were referred to.
    held: Vec<MessageDescriptor>,
}

impl Writer<'_> {
    fn message(&mut self, message: &MessageDescriptor) -> Value {
        let mut properties = Map::new();
        for field in message.fields() {
            properties.insert(field.json_name().to_owned(), self.field(&field));
        }
        let mut schema = json!({ "type": "object", "title": message.full_name(), "properties": properties });
        let required: Vec<_> = message.fields().filter(|field| field.cardinality() == Cardinality::Required).collect();
        if !required.is_empty() {
            schema["required"] = required.iter().map(|field| Value::from(field.json_name())).collect();
        }
        schema
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                json!({ "type": "object", "additionalProperties": self.value(&entry.map_entry_value_field().kind()) })
            }
            kind if field.is_list() => json!({ "type": "array", "items": self.value(&kind) }),
            kind => self.value(&kind),
        }
    }

    fn value(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::String => json!({ "type": "string" }),
            Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX }),
            Kind::Uint32 | Kind::Fixed32 => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => integer_of_64_bits("^-?[0-9]+$"),
            Kind::Uint64 | Kind::Fixed64 => integer_of_64_bits("^[0-9]+$"),
            Kind::Float | Kind::Double => json!({ "type": ["number", "string"], "description": "or NaN, Infinity, -Infinity" }),
            Kind::Enum(values) => enumeration(values),
            Kind::Message(message) => match well_known(message) {
                Some(schema) => schema,
                None => {
                    self.held.push(message.clone());
                    json!({ "$ref": (self.reference)(message.full_name()) })
                }
            },
        }
    }
}

fn integer_of_64_bits(pattern: &str) -> Value {
    json!({ "type": ["string", "integer"], "pattern": pattern })
}

fn enumeration(values: &EnumDescriptor) -> Value {
    if values.full_name() == "google.protobuf.NullValue" {
        return json!({ "type": "null" });
    }
    let names: Vec<_> = values.values().map(|value| Value::from(value.name())).collect();
    json!({ "anyOf": [{ "type": "string", "enum": names }, { "type": "integer" }] })
}

/// The messages that JSON has a form of its own for.
fn well_known(message: &MessageDescriptor) -> Option<Value> {
    Some(match message.full_name().strip_prefix("google.protobuf.")? {
        "Timestamp" => json!({ "type": "string", "format": "date-time" }),
        "Duration" => json!({ "type": "string", "pattern": "^-?[0-9]+(\\.[0-9]{1,9})?s$" }),
        "FieldMask" | "StringValue" => json!({ "type": "string" }),
        "BytesValue" => json!({ "type": "string", "contentEncoding": "base64" }),
        "BoolValue" => json!({ "type": "boolean" }),
        "Int32Value" => json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX }),
        "UInt32Value" => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        "Int64Value" => integer_of_64_bits("^-?[0-9]+$"),
        "UInt64Value" => integer_of_64_bits("^[0-9]+$"),
        "FloatValue" | "DoubleValue" => json!({ "type": ["number", "string"] }),
        "Struct" | "Empty" => json!({ "type": "object" }),
        "Any" => json!({ "type": "object", "properties": { "@type": { "type": "string" } } }),
        "ListValue" => json!({ "type": "array" }),
        "Value" => json!({}),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_and_what_it_holds_have_schemas_by_name() {
        let mut file = tempfile::Builder::new().suffix(".proto").tempfile().unwrap();
        let text = "syntax = \"proto3\"; import \"google/protobuf/timestamp.proto\"; enum E { ZERO = 0; }
            message Node { uint64 id = 1; repeated Node children = 2; map<string, E> by_name = 3; google.protobuf.Timestamp at_time = 4; }";
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        let name = file.path().file_name().unwrap().to_str().unwrap().to_owned();
        let set = protox::compile([&name], [file.path().parent().unwrap()]).unwrap();
        let pool = prost_reflect::DescriptorPool::from_file_descriptor_set(set).unwrap();
        let schemas = schemas(&pool.get_message_by_name("Node").unwrap(), &|name| format!("#/{name}"));
        let expected = json!({
            "type": "object",
            "title": "Node",
            "properties": {
                "id": { "type": ["string", "integer"], "pattern": "^[0-9]+$" },
                "children": { "type": "array", "items": { "$ref": "#/Node" } },
                "byName": {
                    "type": "object",
                    "additionalProperties": { "anyOf": [{ "type": "string", "enum": ["ZERO"] }, { "type": "integer" }] },
                },
                "atTime": { "type": "string", "format": "date-time" },
            },
        });
        assert_eq!(schemas, BTreeMap::from([("Node".to_owned(), expected)]));
    }
}
