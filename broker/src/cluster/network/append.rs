//! APPEND: the entries that a leader sends, as they are stored. Everything else is small; this is the data.

use std::io;

use bytes::{Buf, BufMut, Bytes};
use openraft::raft::AppendEntriesRequest;
use openraft::{CommittedLeaderId, LeaderId};

use super::super::raft::{LogId, Raft, Vote};
use super::super::record;
use super::broken;

pub(crate) fn encode(request: &AppendEntriesRequest<Raft>, out: &mut Vec<u8>) {
    let Vote { leader_id, committed } = request.vote;
    out.put_u64_le(leader_id.term);
    out.put_u64_le(leader_id.voted_for.expect("a request is a candidate's that has won"));
    out.put_u8(u8::from(committed));
    for log_id in [request.prev_log_id, request.leader_commit] {
        out.put_u8(u8::from(log_id.is_some()));
        if let Some(log_id) = log_id {
            put_log_id(log_id, out);
        }
    }
    out.put_u32_le(u32::try_from(request.entries.len()).expect("openraft bounds the entries of a request"));
    for entry in &request.entries {
        let (kind, body) = record::body(entry);
        put_log_id(entry.log_id, out);
        out.put_u8(kind);
        out.put_u32_le(u32::try_from(body.len()).expect("an entry fits a segment"));
        out.put_slice(&body);
    }
}

fn put_log_id(log_id: LogId, out: &mut Vec<u8>) {
    out.put_u64_le(log_id.leader_id.term);
    out.put_u64_le(log_id.index);
}

pub(crate) fn decode(mut body: Bytes) -> io::Result<AppendEntriesRequest<Raft>> {
    let from = &mut body;
    let vote = Vote { leader_id: LeaderId::new(u64(from)?, u64(from)?), committed: u8(from)? == 1 };
    let prev_log_id = optional(from)?;
    let leader_commit = optional(from)?;
    let count = u32(from)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let log_id = log_id(from)?;
        let kind = u8(from)?;
        let length = u32(from)? as usize;
        if from.len() < length {
            return Err(short());
        }
        let entry = record::decode(log_id, kind, from.split_to(length));
        entries.push(entry.map_err(|error| broken(error.to_string()))?);
    }
    match from.is_empty() {
        true => Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit }),
        false => Err(broken("a request goes on behind its entries")),
    }
}

fn short() -> io::Error {
    broken("a request ends early")
}

fn u64(from: &mut Bytes) -> io::Result<u64> {
    from.try_get_u64_le().map_err(|_| short())
}

fn u32(from: &mut Bytes) -> io::Result<u32> {
    from.try_get_u32_le().map_err(|_| short())
}

fn u8(from: &mut Bytes) -> io::Result<u8> {
    from.try_get_u8().map_err(|_| short())
}

fn log_id(from: &mut Bytes) -> io::Result<LogId> {
    Ok(LogId::new(CommittedLeaderId::new(u64(from)?, 0), u64(from)?))
}

fn optional(from: &mut Bytes) -> io::Result<Option<LogId>> {
    match u8(from)? {
        0 => Ok(None),
        _ => log_id(from).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use openraft::EntryPayload;

    use super::super::super::raft::{Entry, Membership, Turn};
    use super::*;

    #[test]
    fn a_request_comes_as_it_was_sent_and_never_half() {
        let id = |term, index| LogId::new(CommittedLeaderId::new(term, 0), index);
        let membership = Membership::new(vec![BTreeSet::from([1])], BTreeSet::from([1, 2]));
        let request = AppendEntriesRequest::<Raft> {
            vote: Vote::new_committed(3, 2),
            prev_log_id: Some(id(2, 9)),
            entries: vec![
                Entry { log_id: id(3, 10), payload: EntryPayload::Blank },
                Entry { log_id: id(3, 11), payload: EntryPayload::Membership(membership) },
                Entry { log_id: id(3, 12), payload: EntryPayload::Normal(Turn::new(Bytes::from_static(b"a turn"))) },
            ],
            leader_commit: None,
        };
        let mut bytes = Vec::new();
        encode(&request, &mut bytes);
        let decoded = decode(Bytes::copy_from_slice(&bytes)).unwrap();
        assert_eq!((decoded.vote, decoded.prev_log_id, decoded.leader_commit), (request.vote, request.prev_log_id, None));
        assert_eq!(decoded.entries, request.entries);
        for cut in 0..bytes.len() {
            assert!(decode(Bytes::copy_from_slice(&bytes[..cut])).is_err(), "cut at {cut}");
        }
        bytes.push(0);
        assert!(decode(Bytes::from(bytes)).is_err());
    }
}
