//! Compares two messages: fields by number, oneofs, reservations, extension ranges.

use std::collections::BTreeMap;

use super::change::{Breaks, Layer};
use super::declaration;
use super::field;
use super::oneof;
use super::reserved::Numbers;
use super::rule::Rule;
use super::walk::Walk;
use crate::registry::options;
use crate::registry::schema::{Field, Label, Message};

/// `message_set_wire_format` in MessageOptions.
const MESSAGE_SET_OPTION: u32 = 1;

pub(super) fn compare(walk: &mut Walk<'_>, old: u32, new: u32) {
    let (old, new) = (walk.old_message(old), walk.new_message(new));
    json_form(walk, old, new);
    let (before, after) = (by_number(old), by_number(new));
    for (number, field) in &before {
        match after.get(number) {
            Some(now) => field::compare(walk, old, new, field, now),
            None => removed(walk, old, new, field),
        }
    }
    for (number, after) in after.iter().filter(|(_, field)| field.label == Label::Required) {
        if !before.contains_key(number) {
            let path = field::path(new, after);
            let declarations = (String::new(), declaration::field(walk.new, new, after));
            walk.add(Rule::RequiredAdded, &path, declarations, field::REQUIRED_ADDED, (&old.full_name, &path));
        }
    }
    oneof::compare(walk, old, new);
    reservations(walk, old, new);
    let set = |message: &Message| options::flag(&message.options, MESSAGE_SET_OPTION);
    if set(old) != set(new) {
        let word = |message: &Message| format!("message_set_wire_format = {}", set(message));
        let breaks = Breaks::both(Layer::Wire);
        walk.add(Rule::MessageSetChanged, &old.full_name, (word(old), word(new)), breaks, (&old.full_name, &new.full_name));
    }
}

fn by_number(message: &Message) -> BTreeMap<u32, &Field> {
    message.all_fields().map(|field| (field.number, field)).collect()
}

/// A field of that number is gone.
fn removed(walk: &mut Walk<'_>, old: &Message, new: &Message, field: &Field) {
    let path = field::path(old, field);
    let before = declaration::field(walk.old, old, field);
    let renumbered = new.all_fields().find(|other| other.name == field.name);
    let number_reserved = Numbers::of_message(&new.reserved_ranges).contains(i64::from(field.number));
    let name_reserved = new.reserved_names.contains(&field.name);
    let (rule, layer) = match (renumbered, number_reserved, name_reserved) {
        (Some(_), false, _) => (Rule::FieldRenumbered, Layer::Wire),
        (Some(_), true, _) => (Rule::FieldRenumbered, Layer::Json),
        (None, false, _) => (Rule::FieldNumberNotReserved, Layer::Wire),
        (None, true, false) => (Rule::FieldNameNotReserved, Layer::Json),
        (None, true, true) => (Rule::FieldRemoved, Layer::Source),
    };
    let after = renumbered.map(|other| declaration::field(walk.new, new, other)).unwrap_or_default();
    let new_symbol = renumbered.map_or_else(|| new.full_name.clone(), |other| field::path(new, other));
    if field.label == Label::Required {
        let declarations = (before.clone(), after.clone());
        walk.add(Rule::RequiredRemoved, &path, declarations, field::REQUIRED_REMOVED, (&path, &new_symbol));
    }
    walk.add(rule, &path, (before, after), Breaks::both(layer), (&path, &new_symbol));
}

fn reservations(walk: &mut Walk<'_>, old: &Message, new: &Message) {
    let symbols = (old.full_name.as_str(), new.full_name.as_str());
    let released = Numbers::of_message(&old.reserved_ranges).minus(&Numbers::of_message(&new.reserved_ranges));
    if !released.is_empty() {
        let declarations = (format!("reserved {released}"), String::new());
        walk.add(Rule::ReservedNumberReleased, &old.full_name, declarations, Breaks::both(Layer::Wire), symbols);
    }
    for name in old.reserved_names.iter().filter(|name| !new.reserved_names.contains(name)) {
        let declarations = (format!("reserved \"{name}\""), String::new());
        walk.add(Rule::ReservedNameReleased, &old.full_name, declarations, Breaks::both(Layer::Json), symbols);
    }
    let gone = Numbers::of_message(&old.extension_ranges).minus(&Numbers::of_message(&new.extension_ranges));
    if !gone.is_empty() {
        let declarations = (format!("extensions {gone}"), String::new());
        walk.add(Rule::ExtensionRangeRemoved, &old.full_name, declarations, Breaks::both(Layer::Source), symbols);
    }
}

/// Well-known types with a JSON form that is not an object of their fields.
const OWN_JSON: [&str; 15] = [
    "Any",
    "BoolValue",
    "BytesValue",
    "DoubleValue",
    "Duration",
    "FieldMask",
    "FloatValue",
    "Int32Value",
    "Int64Value",
    "ListValue",
    "StringValue",
    "Struct",
    "Timestamp",
    "UInt32Value",
    "UInt64Value",
];

fn has_own_json(message: &Message) -> bool {
    message.full_name.strip_prefix("google.protobuf.").is_some_and(|name| name == "Value" || OWN_JSON.contains(&name))
}

fn json_form(walk: &mut Walk<'_>, old: &Message, new: &Message) {
    if old.full_name != new.full_name && (has_own_json(old) || has_own_json(new)) {
        let names = (old.full_name.clone(), new.full_name.clone());
        walk.add(Rule::JsonFormChanged, &old.full_name, names, Breaks::both(Layer::Json), (&old.full_name, &new.full_name));
    }
}
