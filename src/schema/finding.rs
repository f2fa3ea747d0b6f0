//! What a compatibility check found, for people and for programs.

use qwerq::{Schema, SchemaFinding};
use qwerq_broker::registry::compatibility::{describe, is_break};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::Output;

/// Prints breaks and warnings, each under its heading.
pub(crate) fn print(findings: &[SchemaFinding], output: &mut Output) -> Result<(), Failure> {
    for finding in findings {
        let heading = if is_break(finding) { "break" } else { "warning" };
        output.line(format!("{heading}: {}", describe(finding)))?;
    }
    Ok(())
}

/// The verdict on a candidate for programs.
pub(super) fn verdict_json(schema: &Schema) -> Value {
    let (breaks, warnings) = findings_json(&schema.findings);
    json!({
        "queue": schema.version.queue,
        "allowed": !schema.refused,
        "compatibility": schema.compatibility,
        "version": schema.version.version,
        "existed": schema.existed,
        "breaks": breaks,
        "warnings": warnings,
    })
}

/// Breaks and warnings for programs.
pub(crate) fn findings_json(findings: &[SchemaFinding]) -> (Vec<Value>, Vec<Value>) {
    let (breaks, warnings): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| is_break(finding));
    (breaks.into_iter().map(finding_json).collect(), warnings.into_iter().map(finding_json).collect())
}

fn finding_json(finding: &SchemaFinding) -> Value {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "rule": finding.rule,
        "path": finding.path,
        "before": text(&finding.before),
        "after": text(&finding.after),
        "old_place": text(&finding.old_place),
        "new_place": text(&finding.new_place),
        "breaks_new_readers": finding.breaks_new_readers,
        "breaks_old_readers": finding.breaks_old_readers,
        "what": finding.what,
        "instead": finding.instead,
        "version": finding.version,
    })
}
