//! A field as its author wrote it, near enough to be found: `repeated shop.Line lines = 3`.

use super::oneof;
use crate::registry::schema::{Field, Kind, Label, Message, Schema, Syntax};

pub(super) fn field(schema: &Schema, message: &Message, field: &Field) -> String {
    let name = field.name.rsplit('.').next().unwrap_or_default();
    let mut text = match map_of(schema, field) {
        Some((key, value)) => format!("map<{key}, {value}>"),
        None => format!("{}{}", label(schema, message, field), type_name(schema, field.kind)),
    };
    text.push_str(&format!(" {name} = {}", field.number));
    let mut options = Vec::new();
    if let Some(default) = &field.default {
        options.push(match field.kind {
            Kind::String | Kind::Bytes => format!("default = \"{default}\""),
            _ => format!("default = {default}"),
        });
    }
    let own_json_name = |json: &&String| **json != crate::registry::canonical::default_json_name(name);
    if let Some(json_name) = field.json_name.as_ref().filter(own_json_name) {
        options.push(format!("json_name = \"{json_name}\""));
    }
    if !options.is_empty() {
        text.push_str(&format!(" [{}]", options.join(", ")));
    }
    if let Some(oneof) = oneof::of(message, field) {
        text.push_str(&format!(" in oneof {oneof}"));
    }
    text
}

fn label(schema: &Schema, message: &Message, field: &Field) -> &'static str {
    match field.label {
        Label::Repeated => "repeated ",
        Label::Required => "required ",
        Label::Optional => {
            let proto2 = schema.file(message.file).syntax == Syntax::Proto2;
            if field.proto3_optional || (proto2 && field.oneof.is_none() && !message.map_entry) { "optional " } else { "" }
        }
    }
}

fn map_of(schema: &Schema, field: &Field) -> Option<(String, String)> {
    let Kind::Message(target) = field.kind else { return None };
    let entry = Some(schema.message(target)).filter(|target| target.map_entry)?;
    Some((type_name(schema, entry.field(1)?.kind), type_name(schema, entry.field(2)?.kind)))
}

fn type_name(schema: &Schema, kind: Kind) -> String {
    match kind {
        Kind::Message(target) => schema.message(target).full_name.clone(),
        Kind::Group(target) => format!("group {}", schema.message(target).full_name),
        Kind::Enum(target) => schema.enumeration(target).full_name.clone(),
        scalar => scalar.name().to_owned(),
    }
}
