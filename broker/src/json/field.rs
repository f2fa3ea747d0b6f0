//! A field or an extension, as the mapping sees both: what it is called in JSON, and what its value looks like.

use prost_reflect::{ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor};

/// What the mapping asks of a field.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// The key in JSON that is written.
    pub(super) json_name: String,
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    /// Whether unset and default are two things.
    pub(super) presence: bool,
    pub(super) group: bool,
    /// The oneof that it is a member of, by its place in the message.
    pub(super) oneof: Option<String>,
}

/// How many values a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Single,
    List { packed: bool },
    Map,
}

impl Field {
    /// The field of this JSON name, original name or, in brackets, full name of an extension.
    pub(super) fn find(message: &MessageDescriptor, key: &str) -> Option<Field> {
        let field = message.get_field_by_json_name(key).or_else(|| message.get_field_by_name(key));
        field.as_ref().map(Field::of).or_else(|| message.get_extension_by_json_name(key).as_ref().map(Field::of_extension))
    }

    pub(super) fn of(field: &FieldDescriptor) -> Field {
        Field {
            number: field.number(),
            json_name: field.json_name().to_owned(),
            kind: field.kind(),
            shape: Shape::new(field.is_map(), field.is_list(), field.is_packed()),
            presence: field.supports_presence(),
            group: field.is_group(),
            oneof: field.containing_oneof().map(|oneof| oneof.name().to_owned()),
        }
    }

    pub(super) fn of_extension(extension: &ExtensionDescriptor) -> Field {
        Field {
            number: extension.number(),
            json_name: extension.json_name().to_owned(),
            kind: extension.kind(),
            shape: Shape::new(extension.is_map(), extension.is_list(), extension.is_packed()),
            presence: extension.supports_presence(),
            group: extension.is_group(),
            oneof: None,
        }
    }
}

impl Shape {
    fn new(map: bool, list: bool, packed: bool) -> Shape {
        match (map, list) {
            (true, _) => Shape::Map,
            (false, true) => Shape::List { packed },
            (false, false) => Shape::Single,
        }
    }
}
