//! `google/protobuf/descriptor.proto` as the registry reads it: structure decoded, options left as bytes.
//!
//! Options stay raw because custom options are extensions that a typed decode would drop; an options message that
//! arrives in several parts is kept as its parts, whose concatenation is their merge. Names are checked in `schema.rs`.

use bytes::Bytes;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FileDescriptorSet {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) file: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FileDescriptor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) package: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) dependency: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) message_type: Vec<MessageDescriptor>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) enum_type: Vec<EnumDescriptor>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) service: Vec<ServiceDescriptor>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) extension: Vec<FieldDescriptor>,
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub(crate) options: Vec<Bytes>,
    #[prost(string, tag = "12")]
    pub(crate) syntax: String,
    #[prost(int32, tag = "14")]
    pub(crate) edition: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MessageDescriptor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) field: Vec<FieldDescriptor>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) nested_type: Vec<MessageDescriptor>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) enum_type: Vec<EnumDescriptor>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) extension_range: Vec<Range>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) extension: Vec<FieldDescriptor>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub(crate) options: Vec<Bytes>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) oneof_decl: Vec<OneofDescriptor>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) reserved_range: Vec<Range>,
    #[prost(string, repeated, tag = "10")]
    pub(crate) reserved_name: Vec<String>,
}

/// An extension range or a reserved range. The end is exclusive in messages, inclusive in enums.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Range {
    #[prost(int32, tag = "1")]
    pub(crate) start: i32,
    #[prost(int32, tag = "2")]
    pub(crate) end: i32,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(crate) options: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FieldDescriptor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) extendee: String,
    #[prost(int32, tag = "3")]
    pub(crate) number: i32,
    #[prost(int32, tag = "4")]
    pub(crate) label: i32,
    #[prost(int32, tag = "5")]
    pub(crate) r#type: i32,
    #[prost(string, tag = "6")]
    pub(crate) type_name: String,
    #[prost(string, optional, tag = "7")]
    pub(crate) default_value: Option<String>,
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub(crate) options: Vec<Bytes>,
    #[prost(int32, optional, tag = "9")]
    pub(crate) oneof_index: Option<i32>,
    #[prost(string, optional, tag = "10")]
    pub(crate) json_name: Option<String>,
    #[prost(bool, tag = "17")]
    pub(crate) proto3_optional: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OneofDescriptor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) options: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EnumDescriptor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) value: Vec<EnumValueDescriptor>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(crate) options: Vec<Bytes>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) reserved_range: Vec<Range>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) reserved_name: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EnumValueDescriptor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, tag = "2")]
    pub(crate) number: i32,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(crate) options: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServiceDescriptor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}
