//! Compares two enums: values by number, with their names, aliases included.

use std::collections::BTreeMap;

use super::change::{Breaks, Layer};
use super::reserved::Numbers;
use super::rule::Rule;
use super::walk::Walk;
use crate::registry::schema::Enum;

/// Number -> names, in the order of the file: the first is the one that JSON writes.
type ByNumber<'a> = BTreeMap<i32, Vec<&'a str>>;

fn by_number(enumeration: &Enum) -> ByNumber<'_> {
    let mut values = ByNumber::new();
    for value in &enumeration.values {
        values.entry(value.number).or_default().push(&value.name);
    }
    values
}

pub(super) fn compare(walk: &mut Walk<'_>, old: u32, new: u32) {
    let (old, new) = (walk.old_enum(old), walk.new_enum(new));
    let (before, after) = (by_number(old), by_number(new));
    for (&number, names) in &before {
        match after.get(&number) {
            Some(now) => same_number(walk, old, new, number, (names, now)),
            None => names.iter().for_each(|name| removed(walk, old, new, number, name)),
        }
    }
    let symbols = (old.full_name.as_str(), new.full_name.as_str());
    if old.closed != new.closed {
        let word = |enumeration: &Enum| if enumeration.closed { "closed" } else { "open" }.to_owned();
        walk.add(Rule::EnumOpennessChanged, &old.full_name, (word(old), word(new)), Breaks::both(Layer::Source), symbols);
    }
    if old.closed {
        for (&number, names) in after.iter().filter(|(number, _)| !before.contains_key(number)) {
            let (path, added) = (format!("{}.{}", new.full_name, names[0]), (String::new(), declaration(names[0], number)));
            walk.add(Rule::ClosedEnumValueAdded, &path, added, Breaks::NOTHING, (&old.full_name, &path));
        }
    }
    let released = Numbers::of_enum(&old.reserved_ranges).minus(&Numbers::of_enum(&new.reserved_ranges));
    if !released.is_empty() {
        let declarations = (format!("reserved {released}"), String::new());
        walk.add(Rule::ReservedNumberReleased, &old.full_name, declarations, Breaks::both(Layer::Wire), symbols);
    }
    for name in old.reserved_names.iter().filter(|name| !new.reserved_names.contains(name)) {
        let declarations = (format!("reserved \"{name}\""), String::new());
        walk.add(Rule::ReservedNameReleased, &old.full_name, declarations, Breaks::both(Layer::Json), symbols);
    }
}

fn declaration(name: &str, number: i32) -> String {
    format!("{name} = {number}")
}

/// The number is in both: whoever reads JSON looks for the names.
fn same_number(walk: &mut Walk<'_>, old: &Enum, new: &Enum, number: i32, (before, after): (&[&str], &[&str])) {
    let mut gone = false;
    for name in before.iter().filter(|name| !after.contains(name)) {
        gone = true;
        let path = format!("{}.{name}", old.full_name);
        let moved = new.values.iter().find(|value| value.name == **name);
        let (rule, layer, now) = match moved {
            Some(value) => (Rule::EnumValueRenumbered, Layer::Wire, declaration(&value.name, value.number)),
            None => (Rule::EnumValueRenamed, Layer::Json, declaration(after[0], number)),
        };
        let new_symbol = format!("{}.{}", new.full_name, moved.map_or(after[0], |value| &value.name));
        walk.add(rule, &path, (declaration(name, number), now), Breaks::both(layer), (&path, &new_symbol));
    }
    if !gone && !before.contains(&after[0]) {
        // New writers say a name in JSON that old readers do not know; the old name is still read.
        let path = format!("{}.{}", old.full_name, before[0]);
        let new_symbol = format!("{}.{}", new.full_name, after[0]);
        let breaks = Breaks { backward: None, forward: Some(Layer::Json) };
        let declarations = (declaration(before[0], number), declaration(after[0], number));
        walk.add(Rule::EnumValueRenamed, &path, declarations, breaks, (&path, &new_symbol));
    }
}

fn removed(walk: &mut Walk<'_>, old: &Enum, new: &Enum, number: i32, name: &str) {
    let path = format!("{}.{name}", old.full_name);
    let moved = new.values.iter().find(|value| value.name == name);
    let number_reserved = Numbers::of_enum(&new.reserved_ranges).contains(i64::from(number));
    let name_reserved = new.reserved_names.iter().any(|reserved| reserved == name);
    let (rule, layer) = match (moved, number_reserved, name_reserved) {
        (Some(_), false, _) => (Rule::EnumValueRenumbered, Layer::Wire),
        (Some(_), true, _) => (Rule::EnumValueRenumbered, Layer::Json),
        (None, false, _) => (Rule::EnumValueNumberNotReserved, Layer::Wire),
        (None, true, false) => (Rule::EnumValueNameNotReserved, Layer::Json),
        (None, true, true) => (Rule::EnumValueRemoved, Layer::Source),
    };
    let after = moved.map(|value| declaration(&value.name, value.number)).unwrap_or_default();
    let new_symbol = moved.map_or_else(|| new.full_name.clone(), |value| format!("{}.{}", new.full_name, value.name));
    walk.add(rule, &path, (declaration(name, number), after), Breaks::both(layer), (&path, &new_symbol));
}
