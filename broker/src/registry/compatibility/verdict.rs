//! What a candidate would break, version by version, with places; and what of it a queue's rule refuses.
//!
//! A verdict is made away from the shard, since large contracts take a while; the shard asks it for the versions that count by then.

use bytes::Bytes;
use qwerq_core::options::{Compatibility, Direction};
use qwerq_proto::wire;

use super::{Change, Place, Version, compare};
use crate::registry::SchemaError;

/// A version as it is stored: raw files and the names of its types.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its number; of one that is not registered yet 0.
    pub version: u32,
    /// Full name of the message type.
    pub message_type: String,
    /// Full name of the reply type.
    pub reply_type: Option<String>,
    /// Raw FileDescriptorProtos, imports included.
    pub files: Vec<Bytes>,
}

impl Candidate {
    fn link(&self) -> Result<Version, SchemaError> {
        Version::link(self.files.clone(), &self.message_type, self.reply_type.as_deref())
    }
}

/// A change with its places.
#[derive(Debug, Clone)]
struct Finding {
    change: Change,
    old_place: Option<Place>,
    new_place: Option<Place>,
}

/// What a candidate would break, by the version that it was compared with.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    compared: Vec<(u32, Vec<Finding>)>,
}

impl Verdict {
    /// Compares a candidate with versions.
    ///
    /// # Errors
    /// When one of them does not link.
    pub fn judge(candidate: &Candidate, bases: &[Candidate]) -> Result<Verdict, SchemaError> {
        let new = candidate.link()?;
        let mut new_places = None;
        let mut compared = Vec::with_capacity(bases.len());
        for base in bases {
            let old = base.link()?;
            let changes = compare(&old, &new);
            let mut findings = Vec::with_capacity(changes.len());
            if !changes.is_empty() {
                let old_places = old.places();
                let new_places = new_places.get_or_insert_with(|| new.places());
                findings.extend(changes.into_iter().map(|change| Finding {
                    old_place: change.old_place(&old_places),
                    new_place: change.new_place(new_places),
                    change,
                }));
            }
            compared.push((base.version, findings));
        }
        Ok(Verdict { compared })
    }

    /// Whether it was compared with all of these versions.
    #[must_use]
    pub fn covers(&self, versions: &[u32]) -> bool {
        versions.iter().all(|version| self.compared.iter().any(|(compared, _)| compared == version))
    }

    /// What matters under a rule, in comparison with `versions`: breaks first, then warnings. The same change is told once, against the
    /// first of the versions that shows it.
    #[must_use]
    pub fn findings(&self, versions: &[u32], rule: Compatibility) -> Vec<wire::SchemaFinding> {
        let mut told = std::collections::HashSet::new();
        let mut findings = Vec::new();
        for version in versions {
            let Some((_, found)) = self.compared.iter().find(|(compared, _)| compared == version) else { continue };
            for finding in found {
                let change = &finding.change;
                if let Some(said) = finding.on_wire(rule, *version)
                    && told.insert((change.rule, &change.path, &change.before, &change.after))
                {
                    findings.push(said);
                }
            }
        }
        findings.sort_by_key(|finding| !is_break(finding));
        findings
    }
}

impl Finding {
    /// The finding under a rule; `None`: the rule does not care.
    fn on_wire(&self, rule: Compatibility, version: u32) -> Option<wire::SchemaFinding> {
        let change = &self.change;
        let (backward, forward) = change.breaks.sides(rule.level);
        let breaks_new_readers = backward && rule.direction != Direction::Forward;
        let breaks_old_readers = forward && rule.direction != Direction::Backward;
        let matters = breaks_new_readers || breaks_old_readers || change.rule.is_warning();
        let place = |place: &Option<Place>| place.as_ref().map(Place::to_string).unwrap_or_default();
        matters.then(|| wire::SchemaFinding {
            rule: change.rule.id().to_owned(),
            path: change.path.clone(),
            before: change.before.clone(),
            after: change.after.clone(),
            old_place: place(&self.old_place),
            new_place: place(&self.new_place),
            breaks_new_readers,
            breaks_old_readers,
            what: change.rule.what().to_owned(),
            instead: change.rule.instead().to_owned(),
            version,
        })
    }
}

/// Whether somebody breaks; a finding that breaks nobody is a warning.
#[must_use]
pub fn is_break(finding: &wire::SchemaFinding) -> bool {
    finding.breaks_new_readers || finding.breaks_old_readers
}

/// A finding as people read it, on several lines.
#[must_use]
pub fn describe(finding: &wire::SchemaFinding) -> String {
    let or = |text: &str, otherwise: &str| if text.is_empty() { otherwise.to_owned() } else { text.to_owned() };
    let at = |place: &str| if place.is_empty() { String::new() } else { format!("  ({place})") };
    let breaks = match (finding.breaks_new_readers, finding.breaks_old_readers) {
        (true, true) => "new readers of old messages, old readers of new messages",
        (true, false) => "new readers of old messages",
        (false, true) => "old readers of new messages",
        (false, false) => "nobody for sure",
    };
    format!(
        "{}: {} [{}]\n    version {}: {}{}\n    now: {}{}\n    breaks: {breaks}\n    instead: {}",
        finding.path,
        finding.what,
        finding.rule,
        finding.version,
        or(&finding.before, "nothing"),
        at(&finding.old_place),
        or(&finding.after, "nothing"),
        at(&finding.new_place),
        finding.instead,
    )
}
