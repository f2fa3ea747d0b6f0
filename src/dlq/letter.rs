//! What a dead letter tells about itself, in the headers that the broker gave it: a row for people, an object for programs.

use qwerq::Peeked;
use serde_json::{Value, json};

use crate::moment;
use crate::table::{Table, Way};

/// Characters of an error that a row shows.
const ERROR_CHARS: usize = 60;

/// The headers of a letter.
mod header {
    pub(super) const REASON: &str = "qwerq-reason";
    pub(super) const ERROR: &str = "qwerq-error";
    pub(super) const SOURCE_QUEUE: &str = "qwerq-source-queue";
    pub(super) const SOURCE_SEQ: &str = "qwerq-source-seq";
    pub(super) const GROUP: &str = "qwerq-group";
    pub(super) const ATTEMPTS: &str = "qwerq-attempts";
    pub(super) const FIRST_FAILED_AT: &str = "qwerq-first-failed-at";
    pub(super) const FAILED_AT: &str = "qwerq-failed-at";
}

/// A table for rows.
pub(super) fn table() -> Table {
    // The id is what `--id` takes.
    let ways = [
        ("ERROR", Way::KeepStart(20)),
        ("FAILED AT", Way::Out),
        ("ATTEMPTS", Way::Out),
        ("GROUP", Way::KeepStart(12)),
        ("SEQ", Way::Out),
        ("ERROR", Way::KeepStart(8)),
    ];
    Table::new(&[">SEQ", "ID", "REASON", "GROUP", ">ATTEMPTS", "FAILED AT", "ERROR"]).giving_way(&ways)
}

/// A letter for people; what it does not tell is a dash.
pub(super) fn row(letter: &Peeked) -> Vec<String> {
    let told = |name| letter.headers.get(name).filter(|value| !value.is_empty()).unwrap_or("-").to_owned();
    vec![
        letter.seq.to_string(),
        letter.id.to_string(),
        told(header::REASON),
        told(header::GROUP),
        told(header::ATTEMPTS),
        told(header::FAILED_AT),
        shortened(&told(header::ERROR)),
    ]
}

/// A letter for programs; what it does not tell is null.
pub(super) fn json(letter: &Peeked) -> Value {
    let told = |name| letter.headers.get(name).filter(|value| !value.is_empty());
    let number = |name| told(name).and_then(|value| value.parse::<u64>().ok());
    json!({
        "id": letter.id.to_string(),
        "seq": letter.seq,
        "reason": told(header::REASON),
        "error": told(header::ERROR),
        "source_queue": told(header::SOURCE_QUEUE),
        "source_seq": number(header::SOURCE_SEQ),
        "group": told(header::GROUP),
        "attempts": number(header::ATTEMPTS),
        "first_failed_at": told(header::FIRST_FAILED_AT),
        "failed_at": told(header::FAILED_AT),
        "published_at": moment::format(letter.published_at),
    })
}

/// One line that fits a terminal; `--json` has the rest.
fn shortened(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let mut chars = text.chars().map(printable);
    let short: String = chars.by_ref().take(ERROR_CHARS).collect();
    if chars.next().is_some() { format!("{}...", short.trim_end()) } else { short }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn an_error_becomes_one_short_line_without_control_characters() {
        assert_eq!(shortened("a\nb\u{1b}[31mc"), "a b [31mc");
        assert_eq!(shortened(&"x".repeat(60)), "x".repeat(60));
        assert_eq!(shortened(&"ä".repeat(61)), format!("{}...", "ä".repeat(60)));
    }
}
