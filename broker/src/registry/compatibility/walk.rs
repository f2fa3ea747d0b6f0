//! Pairs the types of two versions, from the roots through every field, and collects what the comparisons of the pairs say.
//!
//! Types are paired by where they stand, not by name: names of types are not on the wire. A pair is compared once.

use std::collections::{HashMap, HashSet};

use super::change::{Breaks, Change, Layer};
use super::rule::Rule;
use super::{Version, enumeration, message};
use crate::registry::schema::{Enum, Message, Schema};

/// Two types that stand in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pair {
    Messages(u32, u32),
    Enums(u32, u32),
}

/// What a comparison finds, in order.
enum Finding {
    Change(Change),
    /// The type has another name here; whether that is more than a name depends on what the pair's comparison says.
    Renamed {
        change: Change,
        pair: usize,
    },
}

#[derive(Default)]
struct Node {
    findings: Vec<Finding>,
    children: Vec<usize>,
}

/// A comparison under way.
pub(super) struct Walk<'a> {
    pub(super) old: &'a Schema,
    pub(super) new: &'a Schema,
    pairs: Vec<Pair>,
    numbers: HashMap<Pair, usize>,
    nodes: Vec<Node>,
    /// The node that findings go to.
    current: usize,
}

pub(super) fn walk(old: &Version, new: &Version) -> Vec<Change> {
    let mut walk =
        Walk { old: &old.schema, new: &new.schema, pairs: Vec::new(), numbers: HashMap::new(), nodes: vec![Node::default()], current: 0 };
    walk.root(old.message, new.message);
    match (old.reply, new.reply) {
        (Some(old), Some(new)) => walk.root(old, new),
        (Some(reply), None) => {
            let name = &old.schema.message(reply).full_name;
            let after = String::new();
            let root = &new.schema.message(new.message).full_name;
            walk.add(Rule::ReplyTypeRemoved, name, (name.clone(), after), Breaks::both(Layer::Wire), (name, root));
        }
        (None, _) => {}
    }
    // Node 0 holds what is said of the roots; pair n has node n + 1.
    let mut next = 0;
    while let Some(&pair) = walk.pairs.get(next) {
        next += 1;
        walk.current = next;
        match pair {
            Pair::Messages(old, new) => message::compare(&mut walk, old, new),
            Pair::Enums(old, new) => enumeration::compare(&mut walk, old, new),
        }
    }
    walk.finish()
}

impl<'a> Walk<'a> {
    pub(super) fn old_message(&self, index: u32) -> &'a Message {
        self.old.message(index)
    }

    pub(super) fn new_message(&self, index: u32) -> &'a Message {
        self.new.message(index)
    }

    pub(super) fn old_enum(&self, index: u32) -> &'a Enum {
        self.old.enumeration(index)
    }

    pub(super) fn new_enum(&self, index: u32) -> &'a Enum {
        self.new.enumeration(index)
    }

    fn root(&mut self, old: u32, new: u32) {
        let path = self.old.message(old).full_name.clone();
        self.pair(Pair::Messages(old, new), &path, (&path, &self.new.message(new).full_name));
    }

    /// Has a pair compared, once. `path` is where it stands, and `symbols` what stands there in either version.
    pub(super) fn pair(&mut self, pair: Pair, path: &str, symbols: (&str, &str)) {
        let node = *self.numbers.entry(pair).or_insert_with(|| {
            self.pairs.push(pair);
            self.nodes.push(Node::default());
            self.pairs.len()
        });
        self.nodes[self.current].children.push(node);
        let (before, after) = match pair {
            Pair::Messages(old, new) => (&self.old.message(old).full_name, &self.new.message(new).full_name),
            Pair::Enums(old, new) => (&self.old.enumeration(old).full_name, &self.new.enumeration(new).full_name),
        };
        if before == after || self.is_map_entry(pair) {
            return;
        }
        let change = Change {
            rule: Rule::TypeRenamed,
            path: path.to_owned(),
            before: before.clone(),
            after: after.clone(),
            breaks: Breaks::both(Layer::Source),
            old_symbol: symbols.0.to_owned(),
            new_symbol: symbols.1.to_owned(),
        };
        self.nodes[self.current].findings.push(Finding::Renamed { change, pair: node });
    }

    /// A map entry is named after its field, and nobody sees the name.
    fn is_map_entry(&self, pair: Pair) -> bool {
        matches!(pair, Pair::Messages(old, new) if self.old.message(old).map_entry && self.new.message(new).map_entry)
    }

    /// Notes a change; `declarations` are before and after, `symbols` the definitions in the old and the new version.
    pub(super) fn add(&mut self, rule: Rule, path: &str, declarations: (String, String), breaks: Breaks, symbols: (&str, &str)) {
        let (before, after) = declarations;
        let (old_symbol, new_symbol) = (symbols.0.to_owned(), symbols.1.to_owned());
        let change = Change { rule, path: path.to_owned(), before, after, breaks, old_symbol, new_symbol };
        self.nodes[self.current].findings.push(Finding::Change(change));
    }

    fn finish(self) -> Vec<Change> {
        let mut seen = HashSet::new();
        let mut changes = Vec::new();
        for node in &self.nodes {
            for finding in &node.findings {
                let change = match finding {
                    Finding::Change(change) => change.clone(),
                    Finding::Renamed { change, pair } => self.judge_rename(change, *pair),
                };
                if seen.insert((change.rule, change.path.clone(), change.before.clone(), change.after.clone())) {
                    changes.push(change);
                }
            }
        }
        changes
    }

    /// A type of another name is a renamed one as long as nothing below it breaks payloads, and otherwise a replaced one.
    fn judge_rename(&self, renamed: &Change, pair: usize) -> Change {
        let below = self.breaks_below(pair);
        let payloads = [below.backward, below.forward].into_iter().flatten().any(|layer| layer < Layer::Source);
        let is_message = matches!(self.pairs[pair - 1], Pair::Messages(..));
        let rule = if payloads && is_message { Rule::MessageTypeReplaced } else { renamed.rule };
        let breaks = if payloads { below.with(renamed.breaks) } else { renamed.breaks };
        Change { rule, breaks, ..renamed.clone() }
    }

    fn breaks_below(&self, pair: usize) -> Breaks {
        let mut breaks = Breaks::NOTHING;
        let mut seen = HashSet::from([pair]);
        let mut stack = vec![pair];
        while let Some(node) = stack.pop().map(|node| &self.nodes[node]) {
            for finding in &node.findings {
                if let Finding::Change(change) = finding {
                    breaks = breaks.with(change.breaks);
                }
            }
            stack.extend(node.children.iter().copied().filter(|child| seen.insert(*child)));
        }
        breaks
    }
}
