//! Compares which fields of a message exclude each other.
//!
//! Names of oneofs are not on the wire: what counts is which fields may be set together. A synthetic oneof is none.

use std::collections::{BTreeMap, HashMap};

use super::change::{Breaks, Layer};
use super::declaration;
use super::field;
use super::rule::Rule;
use super::walk::Walk;
use crate::registry::schema::{Field, Label, Message};

/// The real oneof of a field.
pub(super) fn of<'a>(message: &'a Message, field: &Field) -> Option<&'a str> {
    let oneof = message.oneofs.get(usize::try_from(field.oneof?).ok()?)?;
    (!oneof.synthetic).then_some(oneof.name.as_str())
}

/// A field that both versions have and that is singular in both.
struct Shared<'a> {
    before: &'a Field,
    after: &'a Field,
}

pub(super) fn compare(walk: &mut Walk<'_>, old: &Message, new: &Message) {
    if old.oneofs.iter().chain(&new.oneofs).all(|oneof| oneof.synthetic) {
        return;
    }
    let after: HashMap<u32, &Field> = new.all_fields().map(|field| (field.number, field)).collect();
    let mut shared: Vec<Shared<'_>> = old
        .all_fields()
        .filter_map(|before| {
            let after = *after.get(&before.number)?;
            let singular = before.label != Label::Repeated && after.label != Label::Repeated;
            singular.then_some(Shared { before, after })
        })
        .collect();
    shared.sort_by_key(|shared| shared.before.number);
    let oneof_before = |shared: &Shared<'_>| of(old, shared.before);
    let oneof_after = |shared: &Shared<'_>| of(new, shared.after);
    // Old messages may hold several fields of which a new reader keeps one.
    let joined = strays(&shared, oneof_after, oneof_before);
    // New messages may hold several fields of which an old reader keeps one.
    let left = strays(&shared, oneof_before, oneof_after);
    for (at, each) in shared.iter().enumerate() {
        let path = field::path(old, each.before);
        let new_symbol = field::path(new, each.after);
        let declarations = || (declaration::field(walk.old, old, each.before), declaration::field(walk.new, new, each.after));
        let (rule, breaks) = if joined.contains(&at) {
            (Rule::OneofJoined, Breaks { backward: Some(Layer::Wire), forward: Some(Layer::Source) })
        } else if left.contains(&at) {
            (Rule::OneofLeft, Breaks { backward: Some(Layer::Source), forward: Some(Layer::Wire) })
        } else if oneof_before(each) != oneof_after(each) {
            (Rule::OneofChanged, Breaks::both(Layer::Source))
        } else {
            continue;
        };
        let declarations = declarations();
        walk.add(rule, &path, declarations, breaks, (&path, &new_symbol));
    }
}

/// Of each group by `here`, the fields that come from another place by `there` than the rest. When none of them were together
/// before, all of them are strays.
fn strays<'a>(
    shared: &[Shared<'a>],
    here: impl Fn(&Shared<'a>) -> Option<&'a str>,
    there: impl Fn(&Shared<'a>) -> Option<&'a str>,
) -> Vec<usize> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, each) in shared.iter().enumerate() {
        if let Some(oneof) = here(each) {
            groups.entry(oneof).or_default().push(at);
        }
    }
    let mut strays = Vec::new();
    for (name, members) in groups {
        let mut origins: BTreeMap<&str, usize> = BTreeMap::new();
        for oneof in members.iter().filter_map(|at| there(&shared[*at])) {
            *origins.entry(oneof).or_default() += 1;
        }
        let home = if origins.contains_key(name) {
            Some(name)
        } else {
            // The first of the largest ones.
            origins.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(**name))).map(|(name, _)| *name)
        };
        let together = home.is_some() && members.iter().all(|at| there(&shared[*at]) == home);
        if !together && members.len() > 1 {
            strays.extend(members.into_iter().filter(|at| home.is_none() || there(&shared[*at]) != home));
        }
    }
    strays
}
