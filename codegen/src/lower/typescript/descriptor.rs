//! Descriptors as this language reads them: with features and editions, which prost's own types leave out.
//!
//! Field numbers are those of google/protobuf/descriptor.proto; what no output needs is not declared.

use prost::Message;

/// `FieldDescriptorProto.type`.
pub(super) const TYPE_GROUP: i32 = 10;
pub(super) const TYPE_MESSAGE: i32 = 11;
pub(super) const TYPE_STRING: i32 = 9;
pub(super) const TYPE_BYTES: i32 = 12;
pub(super) const TYPE_ENUM: i32 = 14;

/// `FieldDescriptorProto.label`.
pub(super) const LABEL_OPTIONAL: i32 = 1;
pub(super) const LABEL_REQUIRED: i32 = 2;
pub(super) const LABEL_REPEATED: i32 = 3;

/// `FieldOptions.jstype` JS_STRING.
pub(super) const JS_STRING: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct File {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) package: String,
    #[prost(message, repeated, tag = "4")]
    pub(super) messages: Vec<MessageType>,
    #[prost(message, repeated, tag = "5")]
    pub(super) enums: Vec<EnumType>,
    #[prost(message, repeated, tag = "6")]
    pub(super) services: Vec<Service>,
    #[prost(message, repeated, tag = "7")]
    pub(super) extensions: Vec<Field>,
    #[prost(message, optional, tag = "8")]
    pub(super) options: Option<FileOptions>,
    #[prost(message, optional, tag = "9")]
    pub(super) source: Option<prost_types::SourceCodeInfo>,
    #[prost(string, tag = "12")]
    pub(super) syntax: String,
    #[prost(int32, tag = "14")]
    pub(super) edition: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MessageType {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) fields: Vec<Field>,
    #[prost(message, repeated, tag = "3")]
    pub(super) messages: Vec<MessageType>,
    #[prost(message, repeated, tag = "4")]
    pub(super) enums: Vec<EnumType>,
    #[prost(message, repeated, tag = "6")]
    pub(super) extensions: Vec<Field>,
    #[prost(message, optional, tag = "7")]
    pub(super) options: Option<MessageOptions>,
    #[prost(message, repeated, tag = "8")]
    pub(super) oneofs: Vec<Oneof>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Field {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) extendee: String,
    #[prost(int32, tag = "3")]
    pub(super) number: i32,
    #[prost(int32, tag = "4")]
    pub(super) label: i32,
    #[prost(int32, tag = "5")]
    pub(super) kind: i32,
    #[prost(string, tag = "6")]
    pub(super) type_name: String,
    #[prost(string, optional, tag = "7")]
    pub(super) default: Option<String>,
    #[prost(message, optional, tag = "8")]
    pub(super) options: Option<FieldOptions>,
    #[prost(int32, optional, tag = "9")]
    pub(super) oneof: Option<i32>,
    #[prost(string, optional, tag = "10")]
    pub(super) json_name: Option<String>,
    #[prost(bool, tag = "17")]
    pub(super) proto3_optional: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Oneof {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EnumType {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) values: Vec<EnumValue>,
    #[prost(message, optional, tag = "3")]
    pub(super) options: Option<EnumOptions>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EnumValue {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "2")]
    pub(super) number: i32,
    #[prost(message, optional, tag = "3")]
    pub(super) options: Option<EnumValueOptions>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Service {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) methods: Vec<Method>,
    #[prost(message, optional, tag = "3")]
    pub(super) options: Option<MethodOptions>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Method {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) input: String,
    #[prost(string, tag = "3")]
    pub(super) output: String,
    #[prost(message, optional, tag = "4")]
    pub(super) options: Option<MethodOptions>,
    #[prost(bool, tag = "5")]
    pub(super) client_streaming: bool,
    #[prost(bool, tag = "6")]
    pub(super) server_streaming: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FileOptions {
    #[prost(bool, tag = "23")]
    pub(super) deprecated: bool,
    #[prost(message, optional, tag = "50")]
    pub(super) features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MessageOptions {
    #[prost(bool, tag = "3")]
    pub(super) deprecated: bool,
    #[prost(bool, tag = "7")]
    pub(super) map_entry: bool,
    #[prost(message, optional, tag = "12")]
    pub(super) features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FieldOptions {
    #[prost(bool, optional, tag = "2")]
    pub(super) packed: Option<bool>,
    #[prost(bool, optional, tag = "3")]
    pub(super) deprecated: Option<bool>,
    #[prost(int32, optional, tag = "6")]
    pub(super) jstype: Option<i32>,
    #[prost(message, optional, tag = "21")]
    pub(super) features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EnumOptions {
    #[prost(bool, tag = "3")]
    pub(super) deprecated: bool,
    #[prost(message, optional, tag = "7")]
    pub(super) features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EnumValueOptions {
    #[prost(bool, tag = "1")]
    pub(super) deprecated: bool,
}

/// Of services and of methods, which have the same number for it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MethodOptions {
    #[prost(bool, tag = "33")]
    pub(super) deprecated: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Features {
    #[prost(int32, optional, tag = "1")]
    pub(super) field_presence: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(super) enum_type: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) repeated_field_encoding: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub(super) utf8_validation: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub(super) message_encoding: Option<i32>,
    #[prost(int32, optional, tag = "6")]
    pub(super) json_format: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub(super) enforce_naming_style: Option<i32>,
    #[prost(int32, optional, tag = "8")]
    pub(super) default_symbol_visibility: Option<i32>,
}

impl File {
    /// Nothing but proto2 files leave their syntax out.
    pub(super) fn is_proto2(&self) -> bool {
        matches!(self.syntax.as_str(), "" | "proto2")
    }

    pub(super) fn is_proto3(&self) -> bool {
        self.syntax == "proto3"
    }

    pub(super) fn is_deprecated(&self) -> bool {
        self.options.as_ref().is_some_and(|options| options.deprecated)
    }
}

impl MessageType {
    pub(super) fn is_map_entry(&self) -> bool {
        self.options.as_ref().is_some_and(|options| options.map_entry)
    }

    pub(super) fn is_deprecated(&self) -> bool {
        self.options.as_ref().is_some_and(|options| options.deprecated)
    }

    /// Nested messages that are emitted; map entries are not.
    pub(super) fn real_messages(&self) -> impl Iterator<Item = &MessageType> {
        self.messages.iter().filter(|nested| !nested.is_map_entry())
    }
}

impl EnumType {
    pub(super) fn is_deprecated(&self) -> bool {
        self.options.as_ref().is_some_and(|options| options.deprecated)
    }
}

impl Field {
    pub(super) fn is_deprecated(&self) -> bool {
        self.options.as_ref().is_some_and(|options| options.deprecated == Some(true))
    }

    /// The index of the oneof that it is written in, if any.
    pub(super) fn real_oneof(&self) -> Option<usize> {
        self.oneof.filter(|_| !self.proto3_optional).and_then(|at| usize::try_from(at).ok())
    }

    /// Whether 64-bit integers were asked for as strings.
    pub(super) fn long_as_string(&self) -> bool {
        self.options.as_ref().is_some_and(|options| options.jstype == Some(JS_STRING))
    }
}
