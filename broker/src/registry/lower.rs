//! Writes files of editions as the proto2 or proto3 files that say the same, for libraries that do not know editions.
//!
//! Only what is on the wire and in JSON has to survive: explicit presence becomes `optional`, LEGACY_REQUIRED `required`,
//! DELIMITED a group, packing explicit. The rewriting works on raw bytes, so that all else stays as it is, custom options
//! included. Files of proto2 and proto3 are not touched.

use bytes::Bytes;
use prost::Message as _;

use super::{
    contract::descriptor_set,
    descriptor::{FieldDescriptor, FileDescriptor, MessageDescriptor},
    error::SchemaError,
    link::{self, join},
    options::{Presence, RawFields, RawValue, joined, put},
    schema::{Enum, Field, Kind, Label, Schema, SymbolKind},
};

/// A FileDescriptorSet without editions. A set that has none comes back as it is.
///
/// # Errors
/// When the set does not hold together.
pub fn lowered(set: &[u8]) -> Result<Vec<u8>, SchemaError> {
    let raw_files = link::split(Bytes::copy_from_slice(set))?;
    let schema = link::link(&raw_files)?;
    let files: Vec<Bytes> = raw_files
        .iter()
        .enumerate()
        .map(|(index, raw)| match schema.files[index].syntax.is_edition() {
            true => Lower::new(&schema, index).file(raw).into(),
            false => raw.clone(),
        })
        .collect();
    Ok(descriptor_set(&files))
}

struct Lower<'a> {
    schema: &'a Schema,
    package: &'a str,
    /// proto3 knows fields without presence; proto2 knows enums that do not begin at 0.
    proto3: bool,
}

impl<'a> Lower<'a> {
    fn new(schema: &'a Schema, index: usize) -> Lower<'a> {
        let of_file = |enumeration: &&Enum| enumeration.file as usize == index;
        let begins_at_zero = |enumeration: &Enum| enumeration.values.first().is_some_and(|value| value.number == 0);
        Lower { schema, package: &schema.files[index].package, proto3: schema.enums.iter().filter(of_file).all(begins_at_zero) }
    }

    fn file(&self, raw: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(raw.len());
        for field in RawFields::new(raw) {
            match (field.number, field.value) {
                (4, RawValue::Bytes(message)) => self.message(&mut out, 4, self.package, message),
                (7, RawValue::Bytes(extension)) => self.extension(&mut out, 7, self.package, extension),
                // Syntax and edition.
                (12 | 14, _) => {}
                (number, value) => put(&mut out, number, value),
            }
        }
        put(&mut out, 12, RawValue::Bytes(if self.proto3 { b"proto3" } else { b"proto2" }));
        debug_assert!(FileDescriptor::decode(out.as_slice()).is_ok());
        out
    }

    fn message(&self, out: &mut Vec<u8>, number: u32, scope: &str, raw: &[u8]) {
        let Ok(descriptor) = MessageDescriptor::decode(raw) else { return put(out, number, RawValue::Bytes(raw)) };
        let full_name = join(scope, &descriptor.name);
        let linked = match self.schema.symbols.get(&full_name).map(|symbol| symbol.kind) {
            Some(SymbolKind::Message(index)) => self.schema.message(index),
            _ => return put(out, number, RawValue::Bytes(raw)),
        };
        let mut lowered = Vec::with_capacity(raw.len());
        let mut oneofs: Vec<String> = Vec::new();
        for field in RawFields::new(raw) {
            match (field.number, field.value) {
                (2, RawValue::Bytes(field)) => {
                    let declared = FieldDescriptor::decode(field).ok();
                    let linked_field = declared.as_ref().and_then(|declared| linked.field(declared.number.unsigned_abs()));
                    match (declared, linked_field) {
                        (Some(declared), Some(linked_field)) => {
                            let oneof = self.needs_oneof(linked_field, linked.map_entry).then(|| {
                                let taken = |name: &str| linked.oneofs.iter().any(|oneof| oneof.name == name);
                                oneofs.push(synthetic_name(&linked_field.name, taken));
                                descriptor.oneof_decl.len() + oneofs.len() - 1
                            });
                            put(&mut lowered, 2, RawValue::Bytes(&field_lowered(field, &declared, linked_field, oneof)));
                        }
                        _ => put(&mut lowered, 2, RawValue::Bytes(field)),
                    }
                }
                (3, RawValue::Bytes(nested)) => self.message(&mut lowered, 3, &full_name, nested),
                (6, RawValue::Bytes(extension)) => self.extension(&mut lowered, 6, &full_name, extension),
                (number, value) => put(&mut lowered, number, value),
            }
        }
        for name in oneofs {
            let mut oneof = Vec::new();
            put(&mut oneof, 1, RawValue::Bytes(name.as_bytes()));
            put(&mut lowered, 8, RawValue::Bytes(&oneof));
        }
        put(out, number, RawValue::Bytes(&lowered));
    }

    fn extension(&self, out: &mut Vec<u8>, number: u32, scope: &str, raw: &[u8]) {
        let declared = FieldDescriptor::decode(raw).ok();
        let linked = declared.as_ref().and_then(|declared| {
            let full_name = join(scope, &declared.name);
            self.schema.messages.iter().flat_map(|message| &message.extensions).find(|extension| extension.name == full_name)
        });
        match (declared, linked) {
            (Some(declared), Some(linked)) => put(out, number, RawValue::Bytes(&field_lowered(raw, &declared, linked, None))),
            _ => put(out, number, RawValue::Bytes(raw)),
        }
    }

    /// Whether the field's presence takes a proto3 `optional`.
    fn needs_oneof(&self, field: &Field, in_map_entry: bool) -> bool {
        self.proto3
            && !in_map_entry
            && field.features.presence == Presence::Explicit
            && field.label == Label::Optional
            && field.oneof.is_none()
            && !matches!(field.kind, Kind::Message(_) | Kind::Group(_))
    }
}

/// The field with label, type, packing and presence as its features say; `oneof` is the index of its synthetic oneof.
fn field_lowered(raw: &[u8], declared: &FieldDescriptor, linked: &Field, oneof: Option<usize>) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len() + 16);
    for field in RawFields::new(raw) {
        match (field.number, field.value) {
            (4 | 5 | 8, _) => {}
            (number, value) => put(&mut out, number, value),
        }
    }
    let label = match linked.label {
        Label::Optional => 1,
        Label::Required => 2,
        Label::Repeated => 3,
    };
    let kind = if matches!(linked.kind, Kind::Group(_)) { 10 } else { declared.r#type };
    put(&mut out, 4, RawValue::Varint(label));
    put(&mut out, 5, RawValue::Varint(u64::from(kind.unsigned_abs())));
    let mut options = joined(&declared.options).to_vec();
    if linked.label == Label::Repeated && linked.kind.packable() {
        put(&mut options, 2, RawValue::Varint(u64::from(linked.features.packed)));
    }
    if !options.is_empty() {
        put(&mut out, 8, RawValue::Bytes(&options));
    }
    if let Some(oneof) = oneof {
        put(&mut out, 9, RawValue::Varint(oneof as u64));
        put(&mut out, 17, RawValue::Varint(1));
    }
    out
}

/// The name that protoc gives the oneof of a proto3 `optional`.
fn synthetic_name(field: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = format!("_{field}");
    while taken(&name) {
        name.insert(0, 'X');
    }
    name
}
