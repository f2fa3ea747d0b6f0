//! Messages, fields and enums as a contract says them, with every type resolved and editions told in the words of proto2 and proto3.
//!
//! These words are also the words of errors. Where they come from is in `descriptor`; what Rust they ask for is not known here.

use std::fmt;

/// The types of one .proto file, nested ones as well.
#[derive(Debug, Default)]
pub(crate) struct File {
    /// Its messages without map entries.
    pub(crate) messages: Vec<Message>,
    /// Its enums.
    pub(crate) enums: Vec<Enum>,
}

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The full name, without a dot in front.
    pub(crate) name: String,
    /// In the order of the text.
    pub(crate) fields: Vec<Field>,
    /// The names of its oneofs; those that proto3's `optional` implies are left out.
    pub(crate) oneofs: Vec<String>,
}

impl Message {
    /// The fields of one of its oneofs.
    pub(crate) fn members<'m>(&'m self, oneof: &'m str) -> impl Iterator<Item = &'m Field> {
        self.fields.iter().filter(move |field| field.oneof.as_deref() == Some(oneof))
    }
}

/// A field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name in the .proto.
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) cardinality: Cardinality,
    pub(crate) kind: Kind,
    /// The oneof that it is a member of.
    pub(crate) oneof: Option<String>,
    /// Whether its elements share one length; only where it is repeated.
    pub(crate) packed: bool,
    /// A default that proto2 says, in its own spelling.
    pub(crate) default: Option<String>,
}

/// How often a field stands in a message, and whether its absence can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cardinality {
    /// Once; absence is the default value (proto3 without a label).
    Implicit,
    /// At most once, and absence can be told: `optional`, messages, members of oneofs.
    Optional,
    /// Exactly once (proto2).
    Required,
    /// Any number; a map as well.
    Repeated,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar(Scalar),
    /// A message in a length-prefixed field, by its full name.
    Message(String),
    /// A message between group tags.
    Group(String),
    /// An enum, by its full name.
    Enum(String),
    /// A map: key and value.
    Map(Scalar, Box<Kind>),
}

/// A scalar type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    String,
    Bytes,
}

impl Scalar {
    /// All of them.
    pub(crate) const ALL: [Scalar; 15] = [
        Scalar::Double,
        Scalar::Float,
        Scalar::Int32,
        Scalar::Int64,
        Scalar::Uint32,
        Scalar::Uint64,
        Scalar::Sint32,
        Scalar::Sint64,
        Scalar::Fixed32,
        Scalar::Fixed64,
        Scalar::Sfixed32,
        Scalar::Sfixed64,
        Scalar::Bool,
        Scalar::String,
        Scalar::Bytes,
    ];

    /// Its name, the same in .proto text and in prost's attributes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scalar::Double => "double",
            Scalar::Float => "float",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Uint32 => "uint32",
            Scalar::Uint64 => "uint64",
            Scalar::Sint32 => "sint32",
            Scalar::Sint64 => "sint64",
            Scalar::Fixed32 => "fixed32",
            Scalar::Fixed64 => "fixed64",
            Scalar::Sfixed32 => "sfixed32",
            Scalar::Sfixed64 => "sfixed64",
            Scalar::Bool => "bool",
            Scalar::String => "string",
            Scalar::Bytes => "bytes",
        }
    }

    /// The scalar type of that name.
    pub(crate) fn named(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|scalar| scalar.name() == name)
    }

    /// Whether it can be packed.
    pub(crate) fn is_numeric(self) -> bool {
        !matches!(self, Scalar::String | Scalar::Bytes)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// As .proto text says it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Scalar(scalar) => scalar.fmt(f),
            Kind::Message(name) => f.write_str(name),
            Kind::Group(name) => write!(f, "group {name}"),
            Kind::Enum(name) => write!(f, "enum {name}"),
            Kind::Map(key, value) => write!(f, "map<{key}, {value}>"),
        }
    }
}

/// The label and the kind.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = match (&self.kind, self.cardinality) {
            (Kind::Map(..), _) | (_, Cardinality::Implicit) => "",
            (Kind::Message(_), Cardinality::Optional) => "",
            (_, Cardinality::Optional) if self.oneof.is_some() => "",
            (_, Cardinality::Optional) => "optional ",
            (_, Cardinality::Required) => "required ",
            (_, Cardinality::Repeated) => "repeated ",
        };
        write!(f, "{label}{}", self.kind)
    }
}

/// An enum.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Enum {
    /// The full name, without a dot in front.
    pub(crate) name: String,
    /// Names and numbers in the order of the text.
    pub(crate) values: Vec<(String, i32)>,
}
