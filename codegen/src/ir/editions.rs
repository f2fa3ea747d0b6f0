//! Files written in an edition, in the words of proto3: what their features say becomes labels, `optional` and packing.
//!
//! prost's descriptor types know no features, so they are read from the raw file beside the decoded one. EXPLICIT presence is proto3's
//! `optional`, LEGACY_REQUIRED is `required`, DELIMITED is a group, and the packing of every repeated field is written out. Whether an
//! enum is open decides nothing here: generated code holds numbers.

use prost::{Message, bytes::Bytes};
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

/// `google.protobuf.Edition`: the last one whose defaults are known here, 2024.
const EDITION_MAX: i32 = 1001;

/// `FeatureSet.field_presence`.
const IMPLICIT: i32 = 2;
const LEGACY_REQUIRED: i32 = 3;
/// `FeatureSet.repeated_field_encoding`.
const EXPANDED: i32 = 2;
/// `FeatureSet.message_encoding`.
const DELIMITED: i32 = 2;

/// `google.protobuf.FeatureSet`, as far as it changes generated code.
#[derive(Clone, Copy, PartialEq, Message)]
struct Features {
    #[prost(int32, optional, tag = "1")]
    field_presence: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    repeated_field_encoding: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    message_encoding: Option<i32>,
}

impl Features {
    /// What an element has whose surroundings have `self`.
    fn with(self, own: Option<Features>) -> Features {
        let own = own.unwrap_or_default();
        Features {
            field_presence: own.field_presence.or(self.field_presence),
            repeated_field_encoding: own.repeated_field_encoding.or(self.repeated_field_encoding),
            message_encoding: own.message_encoding.or(self.message_encoding),
        }
    }
}

/// The features of a FileDescriptorProto.
#[derive(Clone, PartialEq, Message)]
struct FileFeatures {
    #[prost(message, repeated, tag = "4")]
    message_type: Vec<MessageFeatures>,
    #[prost(message, optional, tag = "8")]
    options: Option<FileOptions>,
    #[prost(int32, tag = "14")]
    edition: i32,
}

#[derive(Clone, PartialEq, Message)]
struct FileOptions {
    #[prost(message, optional, tag = "50")]
    features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
struct MessageFeatures {
    #[prost(message, repeated, tag = "2")]
    field: Vec<FieldFeatures>,
    #[prost(message, repeated, tag = "3")]
    nested_type: Vec<MessageFeatures>,
    #[prost(message, optional, tag = "7")]
    options: Option<MessageOptions>,
    #[prost(message, repeated, tag = "8")]
    oneof_decl: Vec<OneofFeatures>,
}

#[derive(Clone, PartialEq, Message)]
struct MessageOptions {
    #[prost(message, optional, tag = "12")]
    features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
struct FieldFeatures {
    #[prost(message, optional, tag = "8")]
    options: Option<FieldOptions>,
}

#[derive(Clone, PartialEq, Message)]
struct FieldOptions {
    #[prost(message, optional, tag = "21")]
    features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
struct OneofFeatures {
    #[prost(message, optional, tag = "2")]
    options: Option<OneofOptions>,
}

#[derive(Clone, PartialEq, Message)]
struct OneofOptions {
    #[prost(message, optional, tag = "1")]
    features: Option<Features>,
}

/// Rewrites `file`, which was decoded from `raw`. A file without an edition stays as it is.
///
/// # Errors
/// What is wrong with the edition, to be followed by the file's name.
pub(super) fn lower(file: &mut FileDescriptorProto, raw: &Bytes) -> Result<(), String> {
    if file.syntax() != "editions" {
        return Ok(());
    }
    let features = FileFeatures::decode(raw.clone()).map_err(|error| format!("its features do not decode: {error}"))?;
    if features.edition > EDITION_MAX {
        return Err(format!("its edition (number {}) is newer than this qwer-q", features.edition));
    }
    let of_file = Features::default().with(features.options.and_then(|options| options.features));
    for (message, features) in file.message_type.iter_mut().zip(&features.message_type) {
        lower_message(message, features, of_file);
    }
    file.syntax = Some("proto3".to_owned());
    Ok(())
}

fn lower_message(message: &mut DescriptorProto, features: &MessageFeatures, around: Features) {
    let around = around.with(features.options.as_ref().and_then(|options| options.features));
    let is_entry = |message: &DescriptorProto| message.options.as_ref().is_some_and(|options| options.map_entry());
    let in_map_entry = is_entry(message);
    let entries: Vec<String> =
        message.nested_type.iter().filter(|nested| is_entry(nested)).map(|nested| nested.name().to_owned()).collect();
    for (field, own) in message.field.iter_mut().zip(&features.field) {
        let oneof = field.oneof_index.and_then(|at| usize::try_from(at).ok()).and_then(|at| features.oneof_decl.get(at));
        let of_oneof = oneof.and_then(|oneof| oneof.options.as_ref()).and_then(|options| options.features);
        let own = own.options.as_ref().and_then(|options| options.features);
        let type_name = field.type_name().rsplit('.').next().unwrap_or_default();
        // Maps keep their own encoding, whatever the file says.
        let of_map = in_map_entry || entries.iter().any(|entry| entry == type_name);
        lower_field(field, around.with(of_oneof).with(own), of_map, in_map_entry);
    }
    for (nested, features) in message.nested_type.iter_mut().zip(&features.nested_type) {
        lower_message(nested, features, around);
    }
}

fn lower_field(field: &mut FieldDescriptorProto, features: Features, of_map: bool, in_map_entry: bool) {
    if field.r#type() == Type::Message && features.message_encoding == Some(DELIMITED) && !of_map {
        field.set_type(Type::Group);
    }
    if field.label() == Label::Repeated {
        if !matches!(field.r#type(), Type::String | Type::Bytes | Type::Message | Type::Group) {
            field.options.get_or_insert_default().packed = Some(features.repeated_field_encoding != Some(EXPANDED));
        }
        return;
    }
    if in_map_entry || field.oneof_index.is_some() {
        return;
    }
    match features.field_presence {
        Some(LEGACY_REQUIRED) => field.set_label(Label::Required),
        // Messages have presence anyway; that groups have it must be said.
        _ if field.r#type() == Type::Message => {}
        Some(IMPLICIT) if field.r#type() != Type::Group => {}
        // EXPLICIT is the default of every edition.
        _ => field.proto3_optional = Some(true),
    }
}
