//! The batch that a turn collects, in one of two forms: records for this broker's own journal, or, in a cluster, one proposal whose entries
//! become durable, are committed and are applied together.
//!
//! A proposal is `term u64 | serial u64`, then per entry `kind u8 | length u32 | payload`, little-endian. The term is that of the leader who
//! admitted the entries: Raft may take a proposal up in a later term of the same node, when they would not fit any more.

use bytes::{Buf, Bytes};

use crate::journal::Batch;

/// Records of a broker that runs alone carry no Raft term.
const ALONE: u64 = 0;

/// Bytes of a proposal before its first entry.
const HEAD: usize = 16;

/// Bytes before an entry's payload.
const ENTRY_HEAD: usize = 5;

/// A batch that is being collected.
#[derive(Debug)]
pub(crate) enum Draft {
    Records(Batch),
    Proposal { buffer: Vec<u8>, open: Option<usize> },
}

impl Draft {
    /// An empty batch of records.
    pub(crate) fn records() -> Draft {
        Draft::Records(Batch::new())
    }

    /// An empty proposal that uses this memory.
    pub(crate) fn proposal(mut buffer: Vec<u8>) -> Draft {
        buffer.clear();
        buffer.resize(HEAD, 0);
        Draft::Proposal { buffer, open: None }
    }

    /// The same, for the next batch.
    pub(crate) fn next(&self, buffer: Vec<u8>) -> Draft {
        match self {
            Draft::Records(_) => Draft::Records(Batch::with_buffer(buffer)),
            Draft::Proposal { .. } => Draft::proposal(buffer),
        }
    }

    /// Begins an entry, whose payload the caller appends to the buffer.
    pub(crate) fn begin_entry(&mut self, kind: u8) {
        match self {
            Draft::Records(batch) => batch.begin_record(ALONE, kind),
            Draft::Proposal { buffer, open } => {
                *open = Some(buffer.len());
                buffer.extend_from_slice(&[kind, 0, 0, 0, 0]);
            }
        }
    }

    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        match self {
            Draft::Records(batch) => batch.buffer(),
            Draft::Proposal { buffer, .. } => buffer,
        }
    }

    pub(crate) fn end_entry(&mut self) {
        match self {
            Draft::Records(batch) => batch.end_record(),
            Draft::Proposal { buffer, open } => {
                let start = open.take().expect("an entry was begun");
                let length = u32::try_from(buffer.len() - start - ENTRY_HEAD).expect("a batch is smaller than 4 GiB");
                buffer[start + 1..start + ENTRY_HEAD].copy_from_slice(&length.to_le_bytes());
            }
        }
    }

    /// Takes back the entry that was begun.
    pub(crate) fn abandon_entry(&mut self) {
        match self {
            Draft::Records(batch) => batch.abandon_record(),
            Draft::Proposal { buffer, open } => {
                if let Some(start) = open.take() {
                    buffer.truncate(start);
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Draft::Records(batch) => batch.len(),
            Draft::Proposal { buffer, .. } => buffer.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Draft::Records(batch) => batch.is_empty(),
            Draft::Proposal { buffer, .. } => buffer.len() == HEAD,
        }
    }
}

/// Ends a proposal.
pub(crate) fn seal(mut buffer: Vec<u8>, term: u64, serial: u64) -> Bytes {
    buffer[..8].copy_from_slice(&term.to_le_bytes());
    buffer[8..HEAD].copy_from_slice(&serial.to_le_bytes());
    Bytes::from(buffer)
}

/// A proposal that was committed.
pub(crate) struct Turn {
    /// The term of the leader who admitted it.
    pub(crate) term: u64,
    /// What that leader tells its proposals apart by.
    pub(crate) serial: u64,
    rest: Bytes,
    length: usize,
}

impl Turn {
    /// Reads the head; `None`: it is none.
    pub(crate) fn read(bytes: &Bytes) -> Option<Turn> {
        let mut rest = bytes.clone();
        let (term, serial) = (rest.try_get_u64_le().ok()?, rest.try_get_u64_le().ok()?);
        Some(Turn { term, serial, rest, length: bytes.len() })
    }

    /// The next entry: its kind, where its payload begins in the proposal, and the payload. `None` in it: it does not decode.
    pub(crate) fn next_entry(&mut self) -> Option<Option<(u8, usize, Bytes)>> {
        if self.rest.is_empty() {
            return None;
        }
        let (Ok(kind), Ok(length)) = (self.rest.try_get_u8(), self.rest.try_get_u32_le()) else { return Some(None) };
        let at = self.length - self.rest.len();
        let whole = length as usize <= self.rest.len();
        Some(whole.then(|| (kind, at, self.rest.split_to(length as usize))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_proposal_come_back_with_their_places() {
        let mut draft = Draft::proposal(vec![9; 3]);
        assert!(draft.is_empty());
        for (kind, payload) in [(1, &b"one"[..]), (2, b""), (7, b"seven")] {
            draft.begin_entry(kind);
            draft.buffer().extend_from_slice(payload);
            draft.end_entry();
            draft.begin_entry(99);
            draft.buffer().extend_from_slice(b"not this");
            draft.abandon_entry();
        }
        assert!(!draft.is_empty());
        let Draft::Proposal { buffer, .. } = draft else { unreachable!() };
        let bytes = seal(buffer, 5, 77);
        let mut turn = Turn::read(&bytes).unwrap();
        assert_eq!((turn.term, turn.serial), (5, 77));
        let mut found = Vec::new();
        while let Some(entry) = turn.next_entry() {
            let (kind, at, payload) = entry.unwrap();
            assert_eq!(bytes[at..at + payload.len()], payload);
            found.push((kind, payload));
        }
        assert_eq!(found, [(1, Bytes::from("one")), (2, Bytes::new()), (7, Bytes::from("seven"))]);
        let mut cut = Turn::read(&bytes.slice(..bytes.len() - 1)).unwrap();
        assert_eq!(std::iter::from_fn(|| cut.next_entry()).find(Option::is_none), Some(None));
    }
}
