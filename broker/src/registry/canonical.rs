//! The canonical form of a contract: equal for schemas that say the same, whoever compiled them and however their
//! files are named, ordered, commented or split.
//!
//! In it: the types that the contract reaches, by full name, each with package, syntax, file options, fields by number,
//! extensions, oneofs, ranges, reserved names, and all options, custom ones included. Not in it: files, source text,
//! source locations, default `json_name`s, services, and everything that is not reached. The order of enum values is
//! in it only where it means something: the first value of a closed enum is its default.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::encoding::encode_varint;
use sha2::{Digest as _, Sha256};

use super::{
    Fingerprint,
    descriptor::Range,
    options::{RawFields, RawValue, put, take_varint},
    schema::{Enum, Field, Kind, Label, Message, Schema},
};

/// Names the rules below; other rules are other fingerprints.
const FORM: &str = "qwerq-canonical-1";

/// Options nest no deeper than this in the canonical form; what is deeper stays as it is.
const DEPTH_MAX: u32 = 100;

/// The fingerprint of a contract: SHA-256 of its canonical form.
pub(crate) fn fingerprint(schema: &Schema, message: u32, reply: Option<u32>) -> Fingerprint {
    Sha256::digest(form(schema, message, reply)).into()
}

/// The canonical form.
pub(crate) fn form(schema: &Schema, message: u32, reply: Option<u32>) -> Vec<u8> {
    let roots: Vec<u32> = [Some(message), reply].into_iter().flatten().collect();
    let closure = schema.closure(&roots);
    let mut form = Form { schema, bytes: Vec::new() };
    form.text(FORM);
    form.text(&schema.message(message).full_name);
    form.optional(reply.map(|reply| schema.message(reply).full_name.as_str()));

    let mut messages: Vec<&Message> = closure.messages.iter().map(|index| schema.message(*index)).collect();
    messages.sort_unstable_by_key(|message| &message.full_name);
    form.list(messages, |form, message| form.message(message));

    let mut enums: Vec<&Enum> = closure.enums.iter().map(|index| schema.enumeration(*index)).collect();
    enums.sort_unstable_by_key(|enumeration| &enumeration.full_name);
    form.list(enums, |form, enumeration| form.enumeration(enumeration));
    form.bytes
}

struct Form<'a> {
    schema: &'a Schema,
    bytes: Vec<u8>,
}

impl Form<'_> {
    fn message(&mut self, message: &Message) {
        self.text(&message.full_name);
        self.scope(message.file);
        self.options("MessageOptions", &message.options);

        let mut oneofs: Vec<_> = message.oneofs.iter().filter(|oneof| !oneof.synthetic).collect();
        oneofs.sort_unstable_by_key(|oneof| &oneof.name);
        self.list(oneofs, |form, oneof| {
            form.text(&oneof.name);
            form.options("OneofOptions", &oneof.options);
        });
        for fields in [&message.fields, &message.extensions] {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|field| field.number);
            self.list(fields, |form, field| form.field(message, field));
        }
        self.ranges(&message.extension_ranges);
        self.ranges(&message.reserved_ranges);
        self.names(&message.reserved_names);
    }

    fn field(&mut self, message: &Message, field: &Field) {
        self.text(&field.name);
        self.number(u64::from(field.number));
        self.text(field.kind.name());
        self.optional(match field.kind {
            Kind::Message(target) | Kind::Group(target) => Some(self.schema.message(target).full_name.as_str()),
            Kind::Enum(target) => Some(self.schema.enumeration(target).full_name.as_str()),
            _ => None,
        });
        self.number(match field.label {
            Label::Optional => 1,
            Label::Required => 2,
            Label::Repeated => 3,
        });
        self.number(u64::from(field.proto3_optional));
        let oneof = field.oneof.map(|oneof| &message.oneofs[oneof as usize]).filter(|oneof| !oneof.synthetic);
        self.optional(oneof.map(|oneof| oneof.name.as_str()));
        match &field.default {
            None => self.number(0),
            Some(default) => {
                self.number(1);
                self.blob(&canonical_default(field.kind, default));
            }
        }
        let short = field.name.rsplit('.').next().unwrap_or_default();
        let json_name = field.json_name.as_deref().filter(|name| *name != default_json_name(short));
        self.optional(json_name);
        self.options("FieldOptions", &field.options);
    }

    fn enumeration(&mut self, enumeration: &Enum) {
        self.text(&enumeration.full_name);
        self.scope(enumeration.file);
        self.options("EnumOptions", &enumeration.options);
        if enumeration.closed {
            self.optional(enumeration.values.first().map(|value| value.name.as_str()));
        }
        let mut values: Vec<_> = enumeration.values.iter().collect();
        values.sort_unstable_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        self.list(values, |form, value| {
            form.text(&value.name);
            form.signed(value.number);
            form.options("EnumValueOptions", &value.options);
        });
        self.ranges(&enumeration.reserved_ranges);
        self.names(&enumeration.reserved_names);
    }

    /// What a type has from its file.
    fn scope(&mut self, file: u32) {
        let file = self.schema.file(file);
        self.text(&file.package);
        self.text(file.syntax.name());
        // Compilers bring their own edition of the well-known types, and these differ in nothing but file options.
        if file.package != "google.protobuf" {
            self.options("FileOptions", &file.options);
        }
    }

    fn ranges(&mut self, ranges: &[Range]) {
        let mut ranges: Vec<_> = ranges.iter().collect();
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        self.list(ranges, |form, range| {
            form.signed(range.start);
            form.signed(range.end);
            form.options("ExtensionRangeOptions", &range.options.concat().into());
        });
    }

    fn names(&mut self, names: &[String]) {
        let mut names: Vec<_> = names.iter().collect();
        names.sort_unstable();
        self.list(names, |form, name| form.text(name));
    }

    fn options(&mut self, kind: &str, options: &Bytes) {
        let message = self.schema.find_message(&format!("google.protobuf.{kind}")).map(|index| self.schema.message(index));
        let canonical = canonical_options(self.schema, message, options, DEPTH_MAX);
        self.blob(&canonical);
    }

    fn list<T>(&mut self, items: Vec<T>, mut item: impl FnMut(&mut Self, T)) {
        self.number(items.len() as u64);
        for each in items {
            item(self, each);
        }
    }

    fn optional(&mut self, text: Option<&str>) {
        self.number(u64::from(text.is_some()));
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn text(&mut self, text: &str) {
        self.blob(text.as_bytes());
    }

    fn blob(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    fn signed(&mut self, number: i32) {
        self.bytes.extend_from_slice(&number.to_be_bytes());
    }

    fn number(&mut self, number: u64) {
        encode_varint(number, &mut self.bytes);
    }
}

/// An options message with its fields ordered by number, parts of singular messages merged, the last of a singular
/// scalar kept, and nothing packed: compilers disagree in all of these. What the schema does not know stays as it is.
fn canonical_options(schema: &Schema, message: Option<&Message>, bytes: &[u8], depth: u32) -> Vec<u8> {
    let Some(depth) = depth.checked_sub(1) else {
        return bytes.to_vec();
    };
    let mut by_number: BTreeMap<u32, Vec<RawValue<'_>>> = BTreeMap::new();
    let mut fields = RawFields::new(bytes);
    for field in fields.by_ref() {
        by_number.entry(field.number).or_default().push(field.value);
    }
    let mut out = Vec::with_capacity(bytes.len());
    for (number, values) in by_number {
        let field = message.and_then(|message| message.all_fields().find(|field| field.number == number));
        let Some(field) = field else {
            values.iter().for_each(|value| put(&mut out, number, *value));
            continue;
        };
        match (field.kind, field.label) {
            (Kind::Message(target) | Kind::Group(target), label) => {
                let target = Some(schema.message(target));
                let parts = values.iter().filter_map(|value| match value {
                    RawValue::Bytes(part) | RawValue::Group(part) => Some(*part),
                    _ => None,
                });
                if label == Label::Repeated {
                    for part in parts {
                        put(&mut out, number, RawValue::Bytes(&canonical_options(schema, target, part, depth)));
                    }
                } else {
                    let merged = parts.collect::<Vec<_>>().concat();
                    put(&mut out, number, RawValue::Bytes(&canonical_options(schema, target, &merged, depth)));
                }
            }
            (kind, Label::Repeated) if kind.packable() => {
                for value in values {
                    put_unpacked(&mut out, number, kind, value);
                }
            }
            (_, Label::Repeated) => values.iter().for_each(|value| put(&mut out, number, *value)),
            (_, Label::Optional | Label::Required) => {
                if let Some(last) = values.last() {
                    put(&mut out, number, *last);
                }
            }
        }
    }
    out.extend_from_slice(fields.rest());
    out
}

fn put_unpacked(out: &mut Vec<u8>, number: u32, kind: Kind, value: RawValue<'_>) {
    let RawValue::Bytes(mut run) = value else {
        return put(out, number, value);
    };
    while !run.is_empty() {
        let element = match kind {
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => run.split_first_chunk().map(|(element, rest)| {
                run = rest;
                RawValue::Fixed64(*element)
            }),
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => run.split_first_chunk().map(|(element, rest)| {
                run = rest;
                RawValue::Fixed32(*element)
            }),
            _ => take_varint(&mut run).map(RawValue::Varint),
        };
        match element {
            Some(element) => put(out, number, element),
            None => return put(out, number, RawValue::Bytes(run)),
        }
    }
}

/// A default value without the freedom that its text has.
pub(super) fn canonical_default(kind: Kind, text: &str) -> Vec<u8> {
    match kind {
        Kind::Double => text.parse::<f64>().map_or_else(|_| text.into(), |value| value.to_bits().to_be_bytes().into()),
        Kind::Float => text.parse::<f32>().map_or_else(|_| text.into(), |value| value.to_bits().to_be_bytes().into()),
        Kind::Bytes => unescaped(text),
        _ => text.into(),
    }
}

/// A bytes default: the descriptor holds it C-escaped.
fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&escape, after)) = rest.split_first() else {
            out.push(byte);
            break;
        };
        rest = after;
        let digits = |rest: &mut &[u8], first: Option<u8>, radix: u32, max: usize| {
            let mut value = first.map_or(0, u32::from);
            for _ in 0..max {
                let Some(digit) = rest.first().and_then(|byte| char::from(*byte).to_digit(radix)) else {
                    break;
                };
                value = value * radix + digit;
                *rest = &rest[1..];
            }
            u8::try_from(value & 0xff).unwrap_or_default()
        };
        out.push(match escape {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'x' | b'X' => digits(&mut rest, None, 16, 2),
            b'0'..=b'7' => digits(&mut rest, Some(escape - b'0'), 8, 2),
            other => other,
        });
    }
    out
}

/// The JSON name that a field has without a `json_name` of its own.
pub(super) fn default_json_name(name: &str) -> String {
    let mut json_name = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        if c == '_' {
            upper = true;
        } else {
            json_name.push(if upper { c.to_ascii_uppercase() } else { c });
            upper = false;
        }
    }
    json_name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_compared_by_value() {
        let same = |kind, a, b| assert_eq!(canonical_default(kind, a), canonical_default(kind, b), "{a} {b}");
        same(Kind::Double, "1.50", "1.5");
        same(Kind::Float, "1e+10", "10000000000");
        same(Kind::Double, "inf", "inf");
        same(Kind::Bytes, r"\001\x02\\\n", "\\1\\2\\\\\\012");
        assert_ne!(canonical_default(Kind::Double, "0"), canonical_default(Kind::Double, "-0"));
        assert_ne!(canonical_default(Kind::String, "1.50"), canonical_default(Kind::String, "1.5"));
    }

    #[test]
    fn json_names_follow_protoc() {
        for (name, json_name) in [("foo_bar", "fooBar"), ("_foo", "Foo"), ("foo__b", "fooB"), ("FOO_b1", "FOOB1")] {
            assert_eq!(default_json_name(name), json_name);
        }
    }
}
