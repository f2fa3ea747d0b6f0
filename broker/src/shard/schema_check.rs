//! The compatibility check at the moment of registration: which versions count now, and what the verdict says of them.
//!
//! Comparing is not done here: linking a large contract would hold up every queue. The shard hands out the versions, a blocking task
//! compares, and the command comes back with the verdict; if another version has become active meanwhile, once more.

use qwerq_core::Queue;
use qwerq_core::options::{Against, Level};
use qwerq_proto::{ErrorCode, wire};

use crate::registry::compatibility::{Candidate, Verdict, describe, is_break};

use super::Shard;
use super::command::Check;

/// Breaks that a refusal spells out at most; `schema check --json` lists the rest.
const SPELLED_OUT_MAX: usize = 1_000;

/// Where the check stands.
pub(super) enum Checked {
    /// Done: breaks and warnings.
    Findings(Vec<wire::SchemaFinding>),
    /// These versions are to be compared with.
    Compare(Vec<Candidate>),
}

impl Shard {
    /// Checks a candidate, which is the version `known` if it is registered already, against what the queue's rule names.
    pub(super) fn check(&self, queue: &Queue, known: Option<u32>, check: &Check) -> Checked {
        let versions = versions_that_count(queue, known);
        match &check.verdict {
            Some(verdict) if verdict.covers(&versions) => Checked::Findings(verdict.findings(&versions, queue.options.compatibility)),
            None if versions.is_empty() => Checked::Findings(Vec::new()),
            _ => Checked::Compare(versions.into_iter().map(|version| self.candidate(queue, version)).collect()),
        }
    }

    /// A stored version, for comparison.
    pub(super) fn candidate(&self, queue: &Queue, version: u32) -> Candidate {
        let record = queue.schemas().version(version).expect("the caller has it from the queue");
        Candidate {
            version,
            message_type: record.message_type.clone(),
            reply_type: record.reply_type.clone(),
            files: self.schema_files(record),
        }
    }
}

/// The versions that a candidate is compared with, the active one first.
fn versions_that_count(queue: &Queue, known: Option<u32>) -> Vec<u32> {
    let rule = queue.options.compatibility;
    let schemas = queue.schemas();
    let active = schemas.active().map(|record| record.version);
    if rule.level == Level::None || (active.is_some() && active == known) {
        return Vec::new();
    }
    let mut versions: Vec<u32> = active.into_iter().collect();
    if rule.against == Against::All {
        let others = schemas.versions().iter().rev().map(|record| record.version);
        versions.extend(others.filter(|version| Some(*version) != active && !schemas.is_retired(*version)));
    }
    versions.retain(|version| Some(*version) != known);
    versions
}

/// The refusal that findings amount to, if one of them is a break; `clients` are those that it would hit.
pub(super) fn refusal(queue: &Queue, findings: &[wire::SchemaFinding], clients: Option<String>) -> Option<wire::Error> {
    let breaks: Vec<_> = findings.iter().filter(|finding| is_break(finding)).collect();
    let first = breaks.first()?;
    let places = if breaks.len() == 1 { "one place".to_owned() } else { format!("{} places", breaks.len()) };
    let mut text = format!("the new version of `{}` breaks the rule {} in {places}:", queue.name, queue.options.compatibility);
    for finding in breaks.iter().take(SPELLED_OUT_MAX) {
        text.push_str("\n  ");
        text.push_str(&describe(finding));
    }
    if breaks.len() > SPELLED_OUT_MAX {
        text.push_str(&format!("\n  and {} more", breaks.len() - SPELLED_OUT_MAX));
    }
    if let Some(clients) = clients {
        text.push_str(&format!("\n  it would hit: {clients}"));
    }
    let error = ErrorCode::SchemaIncompatible.with(text);
    Some(error.detail("queue", &queue.name).detail("breaks", breaks.len()).detail("rule", &first.rule).detail("path", &first.path))
}

/// Compares what a shard wants compared; `own` is a candidate that the shard does not have.
///
/// # Errors
/// As [`Verdict::judge`].
pub fn compare(wanted: &super::Compare, own: Option<&Candidate>) -> Result<Verdict, crate::registry::SchemaError> {
    let candidate = wanted.candidate.as_ref().or(own).expect("a candidate comes from the shard or from the connection");
    Verdict::judge(candidate, &wanted.bases)
}
