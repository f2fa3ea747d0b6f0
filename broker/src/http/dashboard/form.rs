//! The message types of a contract as views of a form: for each field what it is called, what it takes and how it is written.
//!
//! It reads descriptors and decides everything; the templates print, and `assets/message-form.js` copies and collects. Types refer to each
//! other by name, so a recursive type is no trouble.

use std::collections::{HashSet, VecDeque};

use prost_reflect::{Cardinality, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};

/// Types beyond this many are not reachable by any form that people fill in; they are written as JSON.
const TYPES_MAX: usize = 200;

/// A message type.
pub(super) struct MessageForm {
    pub(super) name: String,
    pub(super) parts: Vec<Part>,
}

/// Fields that stand alone, or the members of a oneof.
pub(super) struct Part {
    /// Empty for fields that stand alone.
    pub(super) oneof: String,
    pub(super) fields: Vec<FieldView>,
}

/// A field.
pub(super) struct FieldView {
    pub(super) name: String,
    pub(super) json: String,
    /// `one`, `many` or `map`.
    pub(super) card: &'static str,
    pub(super) type_words: String,
    pub(super) comment: String,
    /// A member of a oneof that is not chosen yet.
    pub(super) is_hidden: bool,
    pub(super) key: Option<ValueView>,
    pub(super) value: ValueView,
}

/// What takes one value.
pub(super) struct ValueView {
    /// `value`, or `key` for a map's.
    pub(super) class: &'static str,
    /// What message-form.js reads and writes it as.
    pub(super) kind: &'static str,
    /// Of a message.
    pub(super) type_name: String,
    /// What it is called where no visible label stands beside it; of a message also on its button.
    pub(super) label: String,
    /// A message that can be set and cleared.
    pub(super) has_switch: bool,
    /// What choosing nothing means.
    pub(super) unset: String,
    /// Names and numbers of an enum.
    pub(super) options: Vec<(String, i32)>,
    pub(super) is_long: bool,
    pub(super) placeholder: &'static str,
    pub(super) input_mode: &'static str,
}

/// `root` and every type that it reaches.
pub(super) fn forms(root: &MessageDescriptor) -> Vec<MessageForm> {
    let mut seen: HashSet<String> = HashSet::from([root.full_name().to_owned()]);
    let mut waiting = VecDeque::from([root.clone()]);
    let mut forms = Vec::new();
    while let Some(message) = waiting.pop_front() {
        let mut reached = Reached { seen: &mut seen, waiting: &mut waiting };
        forms.push(form(&message, &mut reached));
    }
    forms
}

/// The types that are still to be described.
struct Reached<'a> {
    seen: &'a mut HashSet<String>,
    waiting: &'a mut VecDeque<MessageDescriptor>,
}

impl Reached<'_> {
    /// Whether there is going to be a form of `message`.
    fn reach(&mut self, message: &MessageDescriptor) -> bool {
        if self.seen.contains(message.full_name()) {
            return true;
        }
        if self.seen.len() >= TYPES_MAX {
            return false;
        }
        self.seen.insert(message.full_name().to_owned());
        self.waiting.push_back(message.clone());
        true
    }
}

fn form(message: &MessageDescriptor, reached: &mut Reached<'_>) -> MessageForm {
    let mut parts: Vec<Part> = Vec::new();
    let mut fields: Vec<FieldDescriptor> = message.fields().collect();
    // In the order of the .proto, as its author wrote it.
    fields.sort_by_key(|field| field.path().last().copied());
    for field in fields {
        let oneof =
            field.containing_oneof().filter(|oneof| !oneof.is_synthetic()).map_or_else(String::new, |oneof| oneof.name().to_owned());
        let view = field_view(&field, !oneof.is_empty(), reached);
        match parts.iter_mut().find(|part| !oneof.is_empty() && part.oneof == oneof) {
            Some(part) => part.fields.push(view),
            None => match parts.last_mut().filter(|last| oneof.is_empty() && last.oneof.is_empty()) {
                Some(part) => part.fields.push(view),
                None => parts.push(Part { oneof, fields: vec![view] }),
            },
        }
    }
    MessageForm { name: message.full_name().to_owned(), parts }
}

fn field_view(field: &FieldDescriptor, is_member: bool, reached: &mut Reached<'_>) -> FieldView {
    let entry = match field.kind() {
        Kind::Message(entry) if field.is_map() => Some(entry),
        _ => None,
    };
    let (card, prefix) = match &entry {
        Some(_) => ("map", String::new()),
        None if field.is_list() => ("many", "repeated ".to_owned()),
        None if field.cardinality() == Cardinality::Required => ("one", "required ".to_owned()),
        None => ("one", String::new()),
    };
    let (key, value, type_words) = match &entry {
        Some(entry) => {
            let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
            let words = format!("map of {} to {}", kind_words(&key.kind()), kind_words(&value.kind()));
            let key = ValueView { class: "key", label: format!("Key in {}", field.name()), ..value_view(&key, reached) };
            (Some(key), ValueView { label: format!("Value in {}", field.name()), has_switch: false, ..value_view(&value, reached) }, words)
        }
        None => {
            let value = value_view(field, reached);
            let value = match card {
                "many" => ValueView { label: format!("One of {}", field.name()), has_switch: false, ..value },
                _ if value.kind == "message" => ValueView { label: field.name().to_owned(), has_switch: !is_member, ..value },
                _ => value,
            };
            (None, value, format!("{prefix}{}", kind_words(&field.kind())))
        }
    };
    FieldView {
        name: field.name().to_owned(),
        json: field.json_name().to_owned(),
        card,
        type_words,
        comment: comment(&field.parent_file(), field.path()),
        is_hidden: is_member,
        key,
        value,
    }
}

fn kind_words(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(enumeration) => enumeration.full_name().to_owned(),
        Kind::Double => "double".into(),
        Kind::Float => "float".into(),
        Kind::Int32 => "int32".into(),
        Kind::Int64 => "int64".into(),
        Kind::Uint32 => "uint32".into(),
        Kind::Uint64 => "uint64".into(),
        Kind::Sint32 => "sint32".into(),
        Kind::Sint64 => "sint64".into(),
        Kind::Fixed32 => "fixed32".into(),
        Kind::Fixed64 => "fixed64".into(),
        Kind::Sfixed32 => "sfixed32".into(),
        Kind::Sfixed64 => "sfixed64".into(),
        Kind::Bool => "bool".into(),
        Kind::String => "string".into(),
        Kind::Bytes => "bytes".into(),
    }
}

fn value_view(field: &FieldDescriptor, reached: &mut Reached<'_>) -> ValueView {
    let view = |kind: &'static str| ValueView {
        class: "value",
        kind,
        type_name: String::new(),
        label: String::new(),
        has_switch: false,
        unset: String::new(),
        options: Vec::new(),
        is_long: false,
        placeholder: "",
        input_mode: "text",
    };
    let number = |kind| ValueView { input_mode: "numeric", placeholder: "0", ..view(kind) };
    let unset = |default: &str| if field.supports_presence() { "not set".to_owned() } else { format!("{default} (default)") };
    match field.kind() {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => number("int32"),
        Kind::Uint32 | Kind::Fixed32 => number("uint32"),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => number("int64"),
        Kind::Uint64 | Kind::Fixed64 => number("uint64"),
        Kind::Float => ValueView { input_mode: "decimal", placeholder: "0.0", ..view("float") },
        Kind::Double => ValueView { input_mode: "decimal", placeholder: "0.0", ..view("double") },
        Kind::Bool => ValueView { unset: unset("false"), ..view("bool") },
        Kind::String => ValueView { is_long: true, ..view("string") },
        Kind::Bytes => ValueView { is_long: true, placeholder: "base64", ..view("bytes") },
        Kind::Enum(enumeration) if enumeration.full_name() == "google.protobuf.NullValue" => {
            ValueView { is_long: true, placeholder: "null", ..view("json") }
        }
        Kind::Enum(enumeration) => ValueView {
            unset: unset(enumeration.default_value().name()),
            options: enumeration.values().map(|value| (value.name().to_owned(), value.number())).collect(),
            ..view("enum")
        },
        Kind::Message(message) => match well_known(&message) {
            Some((kind, placeholder)) => {
                ValueView { is_long: kind == "json" || kind == "string" || kind == "bytes", placeholder, ..view(kind) }
            }
            None if reached.reach(&message) => ValueView { type_name: message.full_name().to_owned(), ..view("message") },
            None => ValueView { is_long: true, placeholder: "{}", ..view("json") },
        },
    }
}

/// Types with a JSON form of their own: what reads it, and an example.
fn well_known(message: &MessageDescriptor) -> Option<(&'static str, &'static str)> {
    Some(match message.full_name().strip_prefix("google.protobuf.")? {
        "Timestamp" => ("timestamp", "2026-01-31T12:00:00Z"),
        "Duration" => ("duration", "1.5s"),
        "FieldMask" => ("fieldmask", "name,address.city"),
        "Struct" | "Empty" => ("json", "{}"),
        "Value" => ("json", "any JSON"),
        "ListValue" => ("json", "[]"),
        "Any" => ("json", "{\"@type\": \"type.googleapis.com/...\"}"),
        "DoubleValue" => ("double", "not set"),
        "FloatValue" => ("float", "not set"),
        "Int64Value" => ("int64", "not set"),
        "UInt64Value" => ("uint64", "not set"),
        "Int32Value" => ("int32", "not set"),
        "UInt32Value" => ("uint32", "not set"),
        "BoolValue" => ("bool", ""),
        "StringValue" => ("string", "not set"),
        "BytesValue" => ("bytes", "base64"),
        _ => return None,
    })
}

/// The comment that stands above a definition.
fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let file = file.file_descriptor_proto();
    let locations = file.source_code_info.iter().flat_map(|info| &info.location);
    let comments = locations.filter(|location| location.path == path).map(|location| {
        let leading = location.leading_comments();
        if leading.trim().is_empty() { location.trailing_comments() } else { leading }
    });
    comments
        .map(|comment| comment.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n"))
        .find(|comment| !comment.is_empty())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;

    fn pool(text: &str) -> DescriptorPool {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.proto"), text).unwrap();
        let mut compiler = protox::Compiler::new([folder.path()]).unwrap();
        compiler.include_source_info(true).include_imports(true).open_file("a.proto").unwrap();
        DescriptorPool::decode(compiler.encode_file_descriptor_set().as_slice()).unwrap()
    }

    fn described(text: &str) -> Vec<String> {
        let forms = forms(&pool(text).get_message_by_name("t.A").unwrap());
        let fields = forms.iter().flat_map(|form| form.parts.iter().map(move |part| (form, part)));
        fields
            .flat_map(|(form, part)| {
                part.fields.iter().map(move |field| {
                    let key = field.key.as_ref().map_or("", |key| key.kind);
                    format!("{} {}.{} {} {key}{}", form.name, part.oneof, field.name, field.card, field.value.kind)
                })
            })
            .collect()
    }

    #[test]
    fn every_kind_of_field_has_an_input() {
        let text = r#"syntax = "proto3"; package t;
            import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto";
            enum E { E_ZERO = 0; }
            message A { string s = 9; sfixed64 big = 1; repeated E es = 2; map<string, A> by = 3; A again = 4;
                oneof pay { B card = 5; bool cash = 6; } google.protobuf.Timestamp at = 7; google.protobuf.BoolValue maybe = 8;
                google.protobuf.Struct more = 10; }
            message B { bytes b = 1; }"#;
        assert_eq!(
            described(text),
            [
                "t.A .s one string",
                "t.A .big one int64",
                "t.A .es many enum",
                "t.A .by map stringmessage",
                "t.A .again one message",
                "t.A pay.card one message",
                "t.A pay.cash one bool",
                "t.A .at one timestamp",
                "t.A .maybe one bool",
                "t.A .more one json",
                "t.B .b one bytes",
            ]
        );
    }

    #[test]
    fn comments_of_fields_are_shown() {
        let pool = pool(
            "syntax = \"proto3\"; package t;\nmessage A {\n  // What it <costs>,\n  // in cents.\n  int32 price = 1;\n int32 n = 2; // how many\n}",
        );
        let form = &forms(&pool.get_message_by_name("t.A").unwrap())[0];
        let comments: Vec<_> = form.parts[0].fields.iter().map(|field| field.comment.as_str()).collect();
        assert_eq!(comments, ["What it <costs>,\nin cents.", "how many"]);
    }
}
