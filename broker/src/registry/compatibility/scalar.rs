//! What a change of a field's type does: which types read each other's bytes, and which write the same JSON.
//!
//! Source: the table of docs/compatibility.md. Message and enum types by name are not decided here.

use super::change::{Breaks, Layer};
use super::rule::Rule;
use crate::registry::schema::Kind;

/// Types of one group read each other's bytes.
#[derive(PartialEq, Eq)]
enum WireGroup {
    /// A plain varint.
    Varint,
    /// A zigzag varint.
    Zigzag,
    Fixed32,
    Fixed64,
    Float,
    Double,
    Text,
    Message,
    Group,
}

/// Types of one form write the same JSON.
#[derive(PartialEq, Eq)]
enum JsonForm {
    Number32,
    Text64,
    Float,
    Bool,
    Name,
    Text,
    Base64,
    Object,
}

fn wire_group(kind: Kind) -> WireGroup {
    match kind {
        Kind::Int32 | Kind::Uint32 | Kind::Int64 | Kind::Uint64 | Kind::Bool | Kind::Enum(_) => WireGroup::Varint,
        Kind::Sint32 | Kind::Sint64 => WireGroup::Zigzag,
        Kind::Fixed32 | Kind::Sfixed32 => WireGroup::Fixed32,
        Kind::Fixed64 | Kind::Sfixed64 => WireGroup::Fixed64,
        Kind::Float => WireGroup::Float,
        Kind::Double => WireGroup::Double,
        Kind::String | Kind::Bytes => WireGroup::Text,
        Kind::Message(_) => WireGroup::Message,
        Kind::Group(_) => WireGroup::Group,
    }
}

fn json_form(kind: Kind) -> JsonForm {
    match kind {
        Kind::Int32 | Kind::Uint32 | Kind::Sint32 | Kind::Fixed32 | Kind::Sfixed32 => JsonForm::Number32,
        Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64 => JsonForm::Text64,
        Kind::Float | Kind::Double => JsonForm::Float,
        Kind::Bool => JsonForm::Bool,
        Kind::Enum(_) => JsonForm::Name,
        Kind::String => JsonForm::Text,
        Kind::Bytes => JsonForm::Base64,
        Kind::Message(_) | Kind::Group(_) => JsonForm::Object,
    }
}

fn same_kind(old: Kind, new: Kind) -> bool {
    std::mem::discriminant(&old) == std::mem::discriminant(&new)
}

/// The rule that a change of type falls under and whom it breaks; `None` when the type is of the same kind.
pub(super) fn type_change(old: Kind, new: Kind) -> Option<(Rule, Breaks)> {
    if same_kind(old, new) {
        return None;
    }
    if wire_group(old) != wire_group(new) {
        return Some((Rule::FieldTypeIncompatible, Breaks::both(Layer::Wire)));
    }
    Some(match (old, new) {
        // Old bytes need not be UTF-8, new text always is bytes.
        (Kind::Bytes, Kind::String) => (Rule::FieldTypeIncompatible, Breaks { backward: Some(Layer::Wire), forward: Some(Layer::Json) }),
        _ if json_form(old) != json_form(new) => (Rule::FieldJsonIncompatible, Breaks::both(Layer::Json)),
        _ => (Rule::FieldTypeChanged, Breaks::both(Layer::Source)),
    })
}

/// What deserves a word although the bytes are read.
pub(super) fn type_warning(old: Kind, new: Kind) -> Option<Rule> {
    if wire_group(old) != wire_group(new) {
        return None;
    }
    if matches!((old, new), (Kind::String, Kind::Bytes)) {
        return Some(Rule::StringBecameBytes);
    }
    (bits(old) != bits(new)).then_some(Rule::IntegerNarrowed)
}

fn bits(kind: Kind) -> u8 {
    match kind {
        Kind::Bool => 1,
        Kind::Int64 | Kind::Uint64 | Kind::Sint64 => 64,
        Kind::Int32 | Kind::Uint32 | Kind::Sint32 | Kind::Enum(_) => 32,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(old: Kind, new: Kind) -> (Option<Layer>, Option<Layer>) {
        type_change(old, new).map_or((None, None), |(_, breaks)| (breaks.backward, breaks.forward))
    }

    #[test]
    fn types_of_one_wire_group_read_each_other_and_others_do_not() {
        let (wire, json, source) = (Some(Layer::Wire), Some(Layer::Json), Some(Layer::Source));
        for (old, new, expected) in [
            (Kind::Int32, Kind::Int32, (None, None)),
            (Kind::Int32, Kind::Uint32, (source, source)),
            (Kind::Int64, Kind::Uint64, (source, source)),
            (Kind::Int32, Kind::Int64, (json, json)),
            (Kind::Int32, Kind::Bool, (json, json)),
            (Kind::Int32, Kind::Enum(0), (json, json)),
            (Kind::Sint32, Kind::Sint64, (json, json)),
            (Kind::Fixed32, Kind::Sfixed32, (source, source)),
            (Kind::Fixed64, Kind::Sfixed64, (source, source)),
            (Kind::String, Kind::Bytes, (json, json)),
            (Kind::Bytes, Kind::String, (wire, json)),
            (Kind::Bytes, Kind::Message(0), (wire, wire)),
            (Kind::Int32, Kind::Sint32, (wire, wire)),
            (Kind::Int32, Kind::Fixed32, (wire, wire)),
            (Kind::Fixed32, Kind::Float, (wire, wire)),
            (Kind::Float, Kind::Double, (wire, wire)),
            (Kind::Int32, Kind::String, (wire, wire)),
            (Kind::Message(0), Kind::Group(0), (wire, wire)),
        ] {
            assert_eq!(at(old, new), expected, "{} to {}", old.name(), new.name());
        }
    }

    #[test]
    fn what_is_read_but_not_whole_is_warned_of() {
        assert_eq!(type_warning(Kind::String, Kind::Bytes), Some(Rule::StringBecameBytes));
        assert_eq!(type_warning(Kind::Int32, Kind::Int64), Some(Rule::IntegerNarrowed));
        assert_eq!(type_warning(Kind::Int32, Kind::Uint32), None);
        assert_eq!(type_warning(Kind::Fixed32, Kind::Fixed64), None);
    }
}
