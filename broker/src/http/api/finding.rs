//! What a compatibility check found, in JSON.

use qwerq_proto::wire;
use serde::Serialize;
use utoipa::ToSchema;

use crate::registry::compatibility::{Change, Layer, is_break};

/// The verdict on a candidate.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Verdict {
    queue: String,
    /// The rule lets it pass.
    allowed: bool,
    /// The rule, such as `wire-json,full,last`.
    #[schema(example = "wire-json,full,last")]
    compatibility: String,
    /// The version that it is, or would be.
    version: u32,
    /// The content was known, so it makes no new version.
    existed: bool,
    breaks: Vec<Finding>,
    warnings: Vec<Finding>,
}

impl From<wire::SchemaResponse> for Verdict {
    fn from(response: wire::SchemaResponse) -> Verdict {
        let version = response.version.unwrap_or_default();
        let (breaks, warnings): (Vec<_>, Vec<_>) = response.findings.into_iter().partition(is_break);
        Verdict {
            queue: version.queue,
            allowed: !response.refused,
            compatibility: response.compatibility,
            version: version.version,
            existed: response.existed,
            breaks: breaks.into_iter().map(Finding::from).collect(),
            warnings: warnings.into_iter().map(Finding::from).collect(),
        }
    }
}

/// A difference between two versions that breaks somebody, or may surprise somebody.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Finding {
    /// A heading of docs/compatibility.md.
    rule: String,
    /// The declaring message and field, the enum and value, or the type itself.
    path: String,
    before: Option<String>,
    after: Option<String>,
    /// `file:line:column`
    old_place: Option<String>,
    new_place: Option<String>,
    breaks_new_readers: bool,
    breaks_old_readers: bool,
    /// What the rule is about.
    what: String,
    /// How to do it.
    instead: String,
    /// The version that was compared with.
    version: u32,
}

impl From<wire::SchemaFinding> for Finding {
    fn from(finding: wire::SchemaFinding) -> Finding {
        let text = |text: String| Some(text).filter(|text| !text.is_empty());
        Finding {
            rule: finding.rule,
            path: finding.path,
            before: text(finding.before),
            after: text(finding.after),
            old_place: text(finding.old_place),
            new_place: text(finding.new_place),
            breaks_new_readers: finding.breaks_new_readers,
            breaks_old_readers: finding.breaks_old_readers,
            what: finding.what,
            instead: finding.instead,
            version: finding.version,
        }
    }
}

/// A change between two versions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SchemaChange {
    /// A heading of docs/compatibility.md.
    rule: String,
    path: String,
    before: Option<String>,
    after: Option<String>,
    /// The lowest level at which it breaks new readers of old messages: `wire`, `wire-json` or `source`.
    breaks_new_readers_at: Option<&'static str>,
    /// The same of old readers of new messages.
    breaks_old_readers_at: Option<&'static str>,
    /// What the rule is about.
    what: String,
    /// How to do it.
    instead: String,
}

impl From<&Change> for SchemaChange {
    fn from(change: &Change) -> SchemaChange {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        SchemaChange {
            rule: change.rule.id().to_owned(),
            path: change.path.clone(),
            before: text(&change.before),
            after: text(&change.after),
            breaks_new_readers_at: change.breaks.backward.map(level),
            breaks_old_readers_at: change.breaks.forward.map(level),
            what: change.rule.what().to_owned(),
            instead: change.rule.instead().to_owned(),
        }
    }
}

fn level(layer: Layer) -> &'static str {
    match layer {
        Layer::Wire => "wire",
        Layer::Json => "wire-json",
        Layer::Source => "source",
    }
}
