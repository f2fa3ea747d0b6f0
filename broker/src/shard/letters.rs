//! Dead letters: a message that failed moves to its queue's dead letter queue in one entry, with headers that say why.

use std::collections::BTreeMap;

use qwerq_core::dispatch::DeadLetter;
use qwerq_core::entry::{ItemHead, MESSAGES_PER_ENTRY_MAX, Origin};
use qwerq_core::stored::header;
use qwerq_core::{GroupId, Millis, QueueId};

use super::log::MovedMessage;
use super::{Fault, Shard};

/// Prefix of the headers that only the broker writes.
pub(super) const RESERVED_HEADER: &str = "qwerq-";

/// Why the message is a dead letter.
pub(super) const REASON: &str = "qwerq-reason";
/// The consumer's words, or the broker's.
pub(super) const ERROR: &str = "qwerq-error";
/// The message's position in its queue; absent: it had none.
pub(super) const SOURCE_SEQ: &str = "qwerq-source-seq";
/// The group that dead-lettered it; absent: no group did.
pub(super) const GROUP: &str = "qwerq-group";

/// Payload bytes after which an entry ends.
const ENTRY_BYTES: usize = 2 << 20;

/// Longest text of a header, in bytes; a consumer's reason may be any length.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// What a letter's headers say.
pub(super) struct Cause<'a> {
    pub(super) reason: &'a str,
    pub(super) error: &'a str,
    pub(super) queue: &'a str,
    pub(super) seq: Option<u64>,
    pub(super) group: Option<&'a str>,
    pub(super) attempts: u32,
    pub(super) first_at: Millis,
    pub(super) now: Millis,
}

impl Cause<'_> {
    /// Appends the headers to a stored form; says how many bytes they add to the message's size.
    pub(super) fn append(&self, stored: &mut Vec<u8>) -> usize {
        let mut size = 0;
        let mut put = |name: &str, value: &str| {
            header(stored, name, value);
            size += name.len() + value.len();
        };
        put(REASON, self.reason);
        put(ERROR, truncated(self.error));
        put("qwerq-source-queue", self.queue);
        if let Some(seq) = self.seq {
            put(SOURCE_SEQ, &seq.to_string());
        }
        if let Some(group) = self.group {
            put(GROUP, group);
        }
        put("qwerq-attempts", &self.attempts.to_string());
        put("qwerq-first-failed-at", &rfc3339(self.first_at));
        put("qwerq-failed-at", &rfc3339(self.now));
        size
    }
}

fn truncated(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// Always with three digits of a second, so that times sort as text.
fn rfc3339(at: Millis) -> String {
    let at = i64::try_from(at).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    format!("{:.3}", at.unwrap_or(jiff::Timestamp::MAX))
}

impl Shard {
    /// Writes the dead letters that dispatch has proposed into the batch. Nothing was committed since, so what they name is still there,
    /// but for what an entry of the same batch takes away first; that is passed over when it is applied.
    pub(super) fn bury(&mut self) -> Result<(), Fault> {
        let mut by_group: BTreeMap<(QueueId, Option<GroupId>), Vec<DeadLetter>> = BTreeMap::new();
        for letter in self.log.take_letters() {
            by_group.entry((letter.queue, letter.group)).or_default().push(letter);
        }
        for ((queue, group), letters) in by_group {
            let mut letters = letters.into_iter().peekable();
            while letters.peek().is_some() {
                self.bury_some(queue, group, &mut letters)?;
            }
        }
        Ok(())
    }

    fn bury_some(&mut self, queue: QueueId, group: Option<GroupId>, letters: &mut impl Iterator<Item = DeadLetter>) -> Result<(), Fault> {
        let now = self.clock.now();
        let (mut seqs, mut messages, mut bytes) = (Vec::new(), Vec::new(), 0);
        while seqs.len() < MESSAGES_PER_ENTRY_MAX && bytes < ENTRY_BYTES {
            let Some(letter) = letters.next() else { break };
            let Some(message) = self.letter(&letter, now)? else { continue };
            bytes += message.stored.len();
            seqs.push(letter.seq);
            messages.push(message);
        }
        if seqs.is_empty() {
            return Ok(());
        }
        if !self.log.has_room(bytes) {
            self.write()?;
        }
        self.log.push_moved(now, Origin::Failed { queue, group, seqs }, messages);
        Ok(())
    }

    /// The message with its headers; none when it is gone.
    fn letter(&mut self, letter: &DeadLetter, now: Millis) -> Result<Option<MovedMessage>, Fault> {
        let Some(queue) = self.state.queue(letter.queue) else { return Ok(None) };
        let Some(facts) = queue.messages().get(letter.seq) else { return Ok(None) };
        let mut stored = self.payloads.with(letter.queue, letter.seq, <[u8]>::to_vec)?;
        let cause = Cause {
            reason: letter.reason.word(),
            error: &letter.error,
            queue: &queue.name,
            seq: Some(letter.seq),
            group: letter.group.and_then(|group| queue.groups().get(&group)).map(|group| group.name.as_str()),
            attempts: letter.attempts,
            first_at: letter.first_at,
            now,
        };
        let added = cause.append(&mut stored);
        let size = facts.size.saturating_add(u32::try_from(added).unwrap_or(u32::MAX));
        Ok(Some(MovedMessage { head: ItemHead { size, key: facts.key, ..ItemHead::default() }, stored }))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use qwerq_core::MessageId;
    use qwerq_core::stored::Content;
    use qwerq_proto::wire;

    use super::*;

    #[test]
    fn headers_behind_a_stored_message_are_headers_of_it() {
        let mut stored = Vec::new();
        let headers = [("a", "1")].into_iter();
        Content { id: MessageId([7; 16]), published_at: 5, schema_version: 2, headers, ordering_key: "k", payload: b"p" }
            .encode(&mut stored);
        let cause = Cause {
            reason: "rejected",
            error: "no such customer",
            queue: "orders",
            seq: Some(3),
            group: Some("billing"),
            attempts: 2,
            first_at: 1_700_000_000_000,
            now: 1_700_000_001_500,
        };
        let added = cause.append(&mut stored);
        let letter = wire::Delivered::decode(stored.as_slice()).unwrap();
        let headers: Vec<_> = letter.headers.iter().map(|header| (header.name.as_str(), header.value.as_str())).collect();
        assert_eq!(
            headers,
            [
                ("a", "1"),
                ("qwerq-reason", "rejected"),
                ("qwerq-error", "no such customer"),
                ("qwerq-source-queue", "orders"),
                ("qwerq-source-seq", "3"),
                ("qwerq-group", "billing"),
                ("qwerq-attempts", "2"),
                ("qwerq-first-failed-at", "2023-11-14T22:13:20.000Z"),
                ("qwerq-failed-at", "2023-11-14T22:13:21.500Z"),
            ]
        );
        assert_eq!(added, headers[1..].iter().map(|(name, value)| name.len() + value.len()).sum::<usize>());
        assert_eq!((letter.payload.as_ref(), letter.ordering_key.as_str(), letter.published_at_ms), (b"p".as_slice(), "k", 5));
    }
}
