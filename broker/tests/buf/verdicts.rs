//! What we say of a pair, and the disagreements with buf that docs/compatibility.md explains.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use qwerq_broker::registry::compatibility::{Change, Version, compare};
use qwerq_core::options::{Direction, Level};

use crate::mutate::{Pair, encoded};

/// A level of ours and the category of buf's that stands against it.
pub(crate) struct Against {
    pub(crate) level: Level,
    pub(crate) name: &'static str,
    pub(crate) category: &'static str,
}

pub(crate) const LEVELS: [Against; 3] = [
    Against { level: Level::Wire, name: "wire", category: "WIRE" },
    Against { level: Level::WireJson, name: "wire-json", category: "WIRE_JSON" },
    Against { level: Level::Source, name: "source", category: "PACKAGE" },
];

/// Everything that we say of a pair.
pub(crate) fn changes(pair: &Pair) -> Vec<Change> {
    let version = |files| Version::compile(&encoded(files), &pair.message, None).unwrap_or_else(|error| panic!("{}: {error}", pair.story));
    compare(&version(&pair.old), &version(&pair.new))
}

/// The rules that refuse at a level.
pub(crate) fn ours(changes: &[Change], level: Level) -> BTreeSet<String> {
    changes.iter().filter(|change| change.breaks.refused(level, Direction::Full)).map(|change| change.rule.id().to_owned()).collect()
}

/// One side refuses by a rule, the other allows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Disagreement {
    level: String,
    change: String,
    ours: String,
    buf: String,
}

impl Disagreement {
    /// Every rule of the side that refuses must be explained, since each would refuse alone.
    pub(crate) fn of(level: &str, change: &str, ours: &BTreeSet<String>, theirs: &BTreeSet<String>) -> Vec<Disagreement> {
        let said = |ours: &str, buf: &str| Disagreement {
            level: level.to_owned(),
            change: change.to_owned(),
            ours: ours.to_owned(),
            buf: buf.to_owned(),
        };
        match ours.is_empty() {
            true => theirs.iter().map(|rule| said("allow", rule)).collect(),
            false => ours.iter().map(|rule| said(rule, "allow")).collect(),
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} | {} | {} | {} |", self.level, self.change, self.ours, self.buf)
    }
}

/// The table of the chapter on buf: levels, changes, ours, buf's, reason. A row may name several levels and changes.
pub(crate) fn documented() -> BTreeSet<Disagreement> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/compatibility.md");
    let text = std::fs::read_to_string(page).expect("docs/compatibility.md is there");
    let (_, chapter) = text.split_once("\n## Where buf says otherwise\n").expect("a chapter on buf");
    let rows = chapter.lines().skip_while(|line| !line.starts_with("|---")).skip(1).take_while(|line| line.starts_with('|'));
    let mut known = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [levels, changes, ours, buf, reason] = cells[..] else { panic!("five cells: {row}") };
        assert!(!reason.is_empty(), "a reason: {row}");
        for level in levels.split(", ") {
            for change in changes.split(", ") {
                let (level, change) = (level.trim_matches('`').to_owned(), change.to_owned());
                known.insert(Disagreement { level, change, ours: ours.to_owned(), buf: buf.to_owned() });
            }
        }
    }
    known
}
