//! The messages of `google.protobuf` that have a JSON form of their own.

use prost_reflect::{Kind, MessageDescriptor};

/// A type with a form of its own. `Empty` is an object like others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WellKnown {
    Any,
    Timestamp,
    Duration,
    FieldMask,
    Struct,
    Value,
    ListValue,
    /// The wrapper of a scalar, which is its only field.
    Wrapper,
}

impl WellKnown {
    /// By the type's full name, if it has the fields that the form takes: somebody may have written another one of that name.
    pub(super) fn of(message: &MessageDescriptor) -> Option<WellKnown> {
        let name = message.full_name().strip_prefix("google.protobuf.")?;
        let known = match name {
            "Any" => WellKnown::Any,
            "Timestamp" => WellKnown::Timestamp,
            "Duration" => WellKnown::Duration,
            "FieldMask" => WellKnown::FieldMask,
            "Struct" => WellKnown::Struct,
            "Value" => WellKnown::Value,
            "ListValue" => WellKnown::ListValue,
            "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value" | "UInt32Value" | "BoolValue" | "StringValue"
            | "BytesValue" => WellKnown::Wrapper,
            _ => return None,
        };
        known.has_its_fields(message).then_some(known)
    }

    fn has_its_fields(self, message: &MessageDescriptor) -> bool {
        let kind = |number| message.get_field(number).map(|field| field.kind());
        let is = |number, scalar: Kind| kind(number) == Some(scalar);
        let refers = |number, name: &str| kind(number).and_then(|kind| kind.as_message().map(|m| m.full_name() == name)) == Some(true);
        let repeats = |number| message.get_field(number).is_some_and(|field| field.is_list());
        match self {
            WellKnown::Any => is(1, Kind::String) && is(2, Kind::Bytes),
            WellKnown::Timestamp | WellKnown::Duration => is(1, Kind::Int64) && is(2, Kind::Int32),
            WellKnown::FieldMask => is(1, Kind::String) && repeats(1),
            WellKnown::Struct => {
                message.get_field(1).is_some_and(|field| field.is_map()) && refers(1, "google.protobuf.Struct.FieldsEntry")
            }
            WellKnown::Value => {
                let number = kind(1).is_some_and(|kind| kind.as_enum().is_some());
                let scalars = is(2, Kind::Double) && is(3, Kind::String) && is(4, Kind::Bool);
                number && scalars && refers(5, "google.protobuf.Struct") && refers(6, "google.protobuf.ListValue")
            }
            WellKnown::ListValue => refers(1, "google.protobuf.Value") && repeats(1),
            WellKnown::Wrapper => kind(1).is_some_and(|kind| !matches!(kind, Kind::Message(_) | Kind::Enum(_))) && !repeats(1),
        }
    }

    /// Whether a message of this type takes `null` as a value of its own.
    pub(super) fn takes_null(kind: &Kind) -> bool {
        kind.as_message().is_some_and(|message| WellKnown::of(message) == Some(WellKnown::Value))
    }
}
