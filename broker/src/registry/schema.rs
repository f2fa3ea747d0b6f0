//! The linked form of a descriptor set: messages and enums by index, every type name resolved, features decided.
//!
//! `link.rs` makes it; `table.rs` compiles the validator's tables from it and `canonical.rs` the fingerprint. It lives
//! while a contract is compiled or compared and is then dropped: what stays in memory are the tables.

use std::collections::HashMap;

use bytes::Bytes;

use super::{descriptor::Range, options::Features};

/// All files of one descriptor set.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) files: Vec<SchemaFile>,
    pub(crate) messages: Vec<Message>,
    pub(crate) enums: Vec<Enum>,
    pub(crate) symbols: HashMap<String, Symbol>,
}

#[derive(Debug)]
pub(crate) struct SchemaFile {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) syntax: Syntax,
    pub(crate) options: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    Proto2,
    Proto3,
    Edition2023,
    Edition2024,
}

impl Syntax {
    pub(crate) fn is_edition(self) -> bool {
        matches!(self, Syntax::Edition2023 | Syntax::Edition2024)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Syntax::Proto2 => "proto2",
            Syntax::Proto3 => "proto3",
            Syntax::Edition2023 => "edition 2023",
            Syntax::Edition2024 => "edition 2024",
        }
    }
}

/// What a full name stands for, and in which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) file: u32,
    pub(crate) kind: SymbolKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SymbolKind {
    Package,
    Message(u32),
    Enum(u32),
    Service,
    Extension,
}

#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) full_name: String,
    pub(crate) file: u32,
    /// In the order of the file.
    pub(crate) fields: Vec<Field>,
    /// Fields that any file of the set adds to this message.
    pub(crate) extensions: Vec<Field>,
    pub(crate) oneofs: Vec<Oneof>,
    pub(crate) extension_ranges: Vec<Range>,
    pub(crate) reserved_ranges: Vec<Range>,
    pub(crate) reserved_names: Vec<String>,
    pub(crate) map_entry: bool,
    pub(crate) options: Bytes,
}

#[derive(Debug)]
pub(crate) struct Oneof {
    pub(crate) name: String,
    /// Made by the compiler for a proto3 `optional`; not a oneof in any other sense.
    pub(crate) synthetic: bool,
    pub(crate) options: Bytes,
}

#[derive(Debug)]
pub(crate) struct Field {
    /// The name; of an extension the full name.
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) label: Label,
    /// Index into the message's oneofs, synthetic ones included.
    pub(crate) oneof: Option<u32>,
    pub(crate) proto3_optional: bool,
    pub(crate) features: Features,
    pub(crate) default: Option<String>,
    pub(crate) json_name: Option<String>,
    pub(crate) options: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    Optional,
    Required,
    Repeated,
}

/// A field's type; messages, groups and enums by index into the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Double,
    Float,
    Int64,
    Uint64,
    Int32,
    Fixed64,
    Fixed32,
    Bool,
    String,
    Group(u32),
    Message(u32),
    Bytes,
    Uint32,
    Enum(u32),
    Sfixed32,
    Sfixed64,
    Sint32,
    Sint64,
}

#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) full_name: String,
    pub(crate) file: u32,
    pub(crate) closed: bool,
    /// In the order of the file.
    pub(crate) values: Vec<EnumValue>,
    pub(crate) reserved_ranges: Vec<Range>,
    pub(crate) reserved_names: Vec<String>,
    pub(crate) options: Bytes,
}

#[derive(Debug)]
pub(crate) struct EnumValue {
    pub(crate) name: String,
    pub(crate) number: i32,
    pub(crate) options: Bytes,
}

/// The messages and enums that some messages reach through their fields and extensions, themselves included.
#[derive(Debug)]
pub(crate) struct Closure {
    /// The roots come first, in their own order.
    pub(crate) messages: Vec<u32>,
    pub(crate) enums: Vec<u32>,
}

impl Schema {
    pub(crate) fn message(&self, index: u32) -> &Message {
        &self.messages[index as usize]
    }

    pub(crate) fn enumeration(&self, index: u32) -> &Enum {
        &self.enums[index as usize]
    }

    pub(crate) fn file(&self, index: u32) -> &SchemaFile {
        &self.files[index as usize]
    }

    /// The index of the message of that full name.
    pub(crate) fn find_message(&self, name: &str) -> Option<u32> {
        match self.symbols.get(name)?.kind {
            SymbolKind::Message(index) if !self.message(index).map_entry => Some(index),
            _ => None,
        }
    }

    /// What the roots reach, breadth first from the roots.
    pub(crate) fn closure(&self, roots: &[u32]) -> Closure {
        let mut message_seen = vec![false; self.messages.len()];
        let mut enum_seen = vec![false; self.enums.len()];
        let mut closure = Closure { messages: Vec::new(), enums: Vec::new() };
        for &root in roots {
            reach(root, &mut message_seen, &mut closure.messages);
        }
        let mut next = 0;
        while let Some(&index) = closure.messages.get(next) {
            next += 1;
            for field in self.message(index).all_fields() {
                match field.kind {
                    Kind::Message(target) | Kind::Group(target) => {
                        reach(target, &mut message_seen, &mut closure.messages);
                    }
                    Kind::Enum(target) => reach(target, &mut enum_seen, &mut closure.enums),
                    _ => {}
                }
            }
        }
        closure
    }
}

/// Adds what is met for the first time.
fn reach(index: u32, seen: &mut [bool], reached: &mut Vec<u32>) {
    if !std::mem::replace(&mut seen[index as usize], true) {
        reached.push(index);
    }
}

impl Message {
    /// Declared fields, then extensions.
    pub(crate) fn all_fields(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().chain(&self.extensions)
    }

    /// A map entry's key or value field.
    pub(crate) fn field(&self, number: u32) -> Option<&Field> {
        self.fields.iter().find(|field| field.number == number)
    }
}

impl Kind {
    /// The type's name as a .proto spells it; messages and enums by what they are.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Double => "double",
            Kind::Float => "float",
            Kind::Int64 => "int64",
            Kind::Uint64 => "uint64",
            Kind::Int32 => "int32",
            Kind::Fixed64 => "fixed64",
            Kind::Fixed32 => "fixed32",
            Kind::Bool => "bool",
            Kind::String => "string",
            Kind::Group(_) => "group",
            Kind::Message(_) => "message",
            Kind::Bytes => "bytes",
            Kind::Uint32 => "uint32",
            Kind::Enum(_) => "enum",
            Kind::Sfixed32 => "sfixed32",
            Kind::Sfixed64 => "sfixed64",
            Kind::Sint32 => "sint32",
            Kind::Sint64 => "sint64",
        }
    }

    /// Whether a repeated field of this type may be packed.
    pub(crate) fn packable(self) -> bool {
        !matches!(self, Kind::String | Kind::Bytes | Kind::Message(_) | Kind::Group(_))
    }
}
