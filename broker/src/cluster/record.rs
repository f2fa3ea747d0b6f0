//! Raft's entries as records of the journal and as parts of a frame. Raft's index `i` is the journal's `i + 1`, whose first is 1.
//!
//! | kind | entry | payload |
//! |---|---|---|
//! | 64 | a leader has begun its term | nothing |
//! | 65 | membership | JSON |
//! | 66 | a turn of the leader's shard | the turn, see `shard/turn.rs` |
//!
//! The term is the record's own. Kinds below 64 are entries of a broker that ran alone; none is left behind a bootstrap.

use bytes::Bytes;
use openraft::{CommittedLeaderId, EntryPayload};

use super::raft::{Entry, LogId, Turn};
use crate::journal::{Batch, Record};

const BLANK: u8 = 64;
const MEMBERSHIP: u8 = 65;
const TURN: u8 = 66;

/// A record that is no entry of a cluster's log.
#[derive(Debug, thiserror::Error)]
#[error("record {index} of kind {kind} is no entry of a cluster's log: {reason}")]
pub(crate) struct NoEntry {
    index: u64,
    kind: u8,
    reason: String,
}

pub(crate) fn journal_index(raft: u64) -> u64 {
    raft + 1
}

/// The id of an entry by its place in the journal.
pub(crate) fn log_id(term: u64, journal_index: u64) -> LogId {
    // A term has one leader at most, and Raft's ids do not name it.
    LogId::new(CommittedLeaderId::new(term, 0), journal_index - 1)
}

/// An entry's kind and payload.
pub(crate) fn body(entry: &Entry) -> (u8, Bytes) {
    match &entry.payload {
        EntryPayload::Blank => (BLANK, Bytes::new()),
        EntryPayload::Membership(membership) => {
            (MEMBERSHIP, Bytes::from(serde_json::to_vec(membership).expect("a membership is numbers and text")))
        }
        EntryPayload::Normal(turn) => (TURN, turn.bytes.clone()),
    }
}

/// Adds an entry to a batch; returns where its body begins in the batch's buffer.
pub(crate) fn append(batch: &mut Batch, entry: &Entry) -> usize {
    let (kind, body) = body(entry);
    batch.begin_record(entry.log_id.leader_id.term, kind);
    let start = batch.buffer().len();
    batch.buffer().extend_from_slice(&body);
    batch.end_record();
    start
}

/// The term and index of a record's entry.
pub(crate) fn id_of(record: &Record<'_>) -> Result<(u64, u64), NoEntry> {
    log_id_of(record)?;
    Ok((record.term, record.index))
}

/// The id of a record's entry.
pub(crate) fn log_id_of(record: &Record<'_>) -> Result<LogId, NoEntry> {
    let Record { index, term, kind, .. } = *record;
    match kind {
        BLANK..=TURN => Ok(log_id(term, index)),
        _ => Err(NoEntry { index, kind, reason: "this kind is written by a broker that runs alone, or by a newer version".to_owned() }),
    }
}

/// Reads an entry whose id is known.
pub(crate) fn decode(log_id: LogId, kind: u8, body: Bytes) -> Result<Entry, NoEntry> {
    let no_entry = |reason: String| NoEntry { index: journal_index(log_id.index), kind, reason };
    let payload = match kind {
        BLANK => EntryPayload::Blank,
        MEMBERSHIP => EntryPayload::Membership(serde_json::from_slice(&body).map_err(|error| no_entry(error.to_string()))?),
        TURN => EntryPayload::Normal(Turn::new(body)),
        _ => return Err(no_entry("this version does not know it".to_owned())),
    };
    Ok(Entry { log_id, payload })
}
