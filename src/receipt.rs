//! What became of published messages, for people and for programs.
//!
//! Publishing itself is `publish.rs`'s; here are only the words.

use qwerq::{Durability, Published};
use serde::Serialize;

/// A published message for programs, in the order of its keys.
#[derive(Debug, Serialize)]
pub(crate) struct ReceiptLine {
    id: String,
    /// None while the message is delayed.
    seq: Option<u64>,
    duplicate: bool,
    durability: &'static str,
    /// Of the contract; none on a queue without one.
    version: Option<u32>,
    /// The violation of a message that went to the dead letter queue instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_lettered: Option<String>,
}

impl ReceiptLine {
    pub(crate) fn of(published: &Published) -> ReceiptLine {
        ReceiptLine {
            id: published.id.to_string(),
            seq: published.seq,
            duplicate: published.duplicate,
            durability: durability_word(published.durability),
            version: Some(published.schema_version).filter(|version| *version > 0),
            dead_lettered: published.dead_lettered.as_ref().map(|violation| violation.message.clone()),
        }
    }
}

/// One message for people.
pub(crate) fn words(published: &Published) -> String {
    let durability = durability_word(published.durability);
    if let Some(violation) = &published.dead_lettered {
        return format!("{} went to the dead letter queue ({durability}): {}", published.id, violation.message);
    }
    let place = match published.seq {
        Some(seq) => format!("seq {seq}"),
        None => "delayed".to_owned(),
    };
    match published.duplicate {
        true => format!("{} was published before ({place}, {durability}): the idempotency key is known", published.id),
        false => format!("published {} ({place}, {durability})", published.id),
    }
}

/// Many messages for people.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// All that the broker accepted.
    pub(crate) published: u64,
    duplicates: u64,
    dead_lettered: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, published: &Published) {
        self.published += 1;
        self.duplicates += u64::from(published.duplicate);
        self.dead_lettered += u64::from(published.dead_lettered.is_some());
    }

    pub(crate) fn words(&self) -> String {
        let noun = if self.published == 1 { "message" } else { "messages" };
        let mut words = format!("published {} {noun}", self.published);
        for (count, what) in [(self.duplicates, "known by the idempotency key"), (self.dead_lettered, "to the dead letter queue")] {
            if count > 0 {
                words.push_str(&format!(", {count} of them {what}"));
            }
        }
        words
    }
}

fn durability_word(durability: Durability) -> &'static str {
    match durability {
        Durability::Unspecified => "unspecified",
        Durability::Fsync => "fsync",
        Durability::Interval => "interval",
        Durability::None => "none",
        Durability::Quorum => "quorum",
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn only_what_happened_is_told() {
        for (published, duplicates, dead_lettered, words) in [
            (1, 0, 0, "published 1 message"),
            (3, 1, 0, "published 3 messages, 1 of them known by the idempotency key"),
            (9, 2, 3, "published 9 messages, 2 of them known by the idempotency key, 3 of them to the dead letter queue"),
        ] {
            assert_eq!(Tally { published, duplicates, dead_lettered }.words(), words);
        }
    }
}
