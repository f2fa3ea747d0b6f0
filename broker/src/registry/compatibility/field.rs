//! Compares two fields of one number.

use super::change::{Breaks, Layer};
use super::rule::Rule;
use super::scalar;
use super::walk::{Pair, Walk};
use super::{declaration, oneof};
use crate::registry::canonical::{canonical_default, default_json_name};
use crate::registry::options::{self, Presence};
use crate::registry::schema::{Field, Kind, Label, Message, Schema};

/// New readers refuse what old writers left out; to old readers the field is nothing new.
pub(super) const REQUIRED_ADDED: Breaks = Breaks { backward: Some(Layer::Wire), forward: Some(Layer::Source) };

/// Old readers refuse what new writers may leave out.
pub(super) const REQUIRED_REMOVED: Breaks = Breaks { backward: Some(Layer::Source), forward: Some(Layer::Wire) };

/// `jstype` in FieldOptions.
const JSTYPE_OPTION: u32 = 6;

/// Full name of the message plus the field; an extension in brackets.
pub(super) fn path(message: &Message, field: &Field) -> String {
    match field.name.contains('.') || is_extension(message, field) {
        true => format!("{}.[{}]", message.full_name, field.name),
        false => format!("{}.{}", message.full_name, field.name),
    }
}

/// An extension of a file without a package has a name without a dot.
fn is_extension(message: &Message, field: &Field) -> bool {
    message.extensions.iter().any(|extension| extension.number == field.number)
}

/// How often a field may stand in a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cardinality {
    Singular,
    Repeated,
    Map,
}

fn cardinality(schema: &Schema, field: &Field) -> Cardinality {
    match (field.label, field.kind) {
        (Label::Repeated, Kind::Message(target)) if schema.message(target).map_entry => Cardinality::Map,
        (Label::Repeated, _) => Cardinality::Repeated,
        _ => Cardinality::Singular,
    }
}

/// Whether code can tell unset from default.
fn has_presence(field: &Field) -> bool {
    field.label == Label::Optional
        && (field.features.presence == Presence::Explicit
            || field.proto3_optional
            || field.oneof.is_some()
            || matches!(field.kind, Kind::Message(_) | Kind::Group(_)))
}

/// A change of one field is said with these.
struct Spot<'a> {
    old: &'a Message,
    new: &'a Message,
    before: &'a Field,
    after: &'a Field,
    path: String,
    new_symbol: String,
}

impl Spot<'_> {
    fn add(&self, walk: &mut Walk<'_>, rule: Rule, breaks: Breaks) {
        let declarations = (declaration::field(walk.old, self.old, self.before), declaration::field(walk.new, self.new, self.after));
        walk.add(rule, &self.path, declarations, breaks, (&self.path, &self.new_symbol));
    }
}

pub(super) fn compare(walk: &mut Walk<'_>, old: &Message, new: &Message, before: &Field, after: &Field) {
    let spot = Spot { old, new, before, after, path: path(old, before), new_symbol: path(new, after) };
    if names(walk, &spot) {
        // The name stands for another number now, which says more than what this number became.
        return;
    }
    let (was, is) = (cardinality(walk.old, before), cardinality(walk.new, after));
    if was == is {
        requirement(walk, &spot);
    } else {
        let repeated_messages = was != Cardinality::Singular
            && is != Cardinality::Singular
            && matches!((before.kind, after.kind), (Kind::Message(_), Kind::Message(_)));
        // A map is a repeated message on the wire, and an object in JSON.
        let layer = if repeated_messages { Layer::Json } else { Layer::Wire };
        spot.add(walk, Rule::FieldCardinalityChanged, Breaks::both(layer));
    }
    types(walk, &spot);
    default(walk, &spot);
    let jstype = |field: &Field| options::varint(&field.options, JSTYPE_OPTION).unwrap_or(0);
    if jstype(before) != jstype(after) {
        spot.add(walk, Rule::JsTypeChanged, Breaks::both(Layer::Source));
    }
}

/// Whether the field is one whose name moved to another number.
fn names(walk: &mut Walk<'_>, spot: &Spot<'_>) -> bool {
    let (before, after) = (spot.before, spot.after);
    if before.name != after.name {
        let moved = spot.new.all_fields().find(|field| field.name == before.name);
        if let Some(moved) = moved {
            let declarations = (declaration::field(walk.old, spot.old, before), declaration::field(walk.new, spot.new, moved));
            let symbol = path(spot.new, moved);
            walk.add(Rule::FieldRenumbered, &spot.path, declarations, Breaks::both(Layer::Wire), (&spot.path, &symbol));
            return true;
        }
        spot.add(walk, Rule::FieldRenamed, Breaks::both(Layer::Json));
    } else if json_name(before) != json_name(after) {
        spot.add(walk, Rule::JsonNameChanged, Breaks::both(Layer::Json));
    }
    false
}

fn json_name(field: &Field) -> String {
    // The JSON name of an extension is its full name in brackets, whatever the descriptor says.
    field.json_name.clone().filter(|_| !field.name.contains('.')).unwrap_or_else(|| default_json_name(&field.name))
}

fn requirement(walk: &mut Walk<'_>, spot: &Spot<'_>) {
    match (spot.before.label, spot.after.label) {
        (Label::Required, Label::Optional) => spot.add(walk, Rule::RequiredRemoved, REQUIRED_REMOVED),
        (Label::Optional, Label::Required) => spot.add(walk, Rule::RequiredAdded, REQUIRED_ADDED),
        (Label::Optional, Label::Optional) => {
            let in_oneof = |message, field| oneof::of(message, field).is_some();
            // A field that enters or leaves a oneof is reported as that.
            let moved = in_oneof(spot.old, spot.before) != in_oneof(spot.new, spot.after);
            let messages = matches!(spot.before.kind, Kind::Message(_) | Kind::Group(_))
                || matches!(spot.after.kind, Kind::Message(_) | Kind::Group(_));
            if !moved && !messages && has_presence(spot.before) != has_presence(spot.after) {
                spot.add(walk, Rule::PresenceChanged, Breaks::both(Layer::Source));
            }
        }
        _ => {}
    }
}

fn types(walk: &mut Walk<'_>, spot: &Spot<'_>) {
    let (before, after) = (spot.before.kind, spot.after.kind);
    match (before, after) {
        (Kind::Message(old), Kind::Message(new)) | (Kind::Group(old), Kind::Group(new)) => {
            walk.pair(Pair::Messages(old, new), &spot.path, (&spot.path, &spot.new_symbol));
        }
        (Kind::Enum(old), Kind::Enum(new)) => {
            walk.pair(Pair::Enums(old, new), &spot.path, (&spot.path, &spot.new_symbol));
        }
        _ => {
            if let Some((rule, breaks)) = scalar::type_change(before, after) {
                spot.add(walk, rule, breaks);
            }
            if let Some(rule) = scalar::type_warning(before, after) {
                spot.add(walk, rule, Breaks::NOTHING);
            }
        }
    }
}

fn default(walk: &mut Walk<'_>, spot: &Spot<'_>) {
    let value = |field: &Field| field.default.as_deref().map(|text| canonical_default(field.kind, text));
    let (before, after) = (value(spot.before), value(spot.after));
    let same_type = std::mem::discriminant(&spot.before.kind) == std::mem::discriminant(&spot.after.kind);
    if same_type && before != after && spot.before.label == Label::Optional && spot.after.label == Label::Optional {
        spot.add(walk, Rule::DefaultChanged, Breaks::both(Layer::Wire));
    }
}
