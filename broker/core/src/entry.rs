//! The durable entries: what the journal (or the Raft log) holds and [`crate::State::apply`] takes.
//!
//! An entry is one journal record: the kind is the record's kind byte, the payload starts with a format version. Every entry is bounded;
//! bulk work is a series of entries. Leases, credits, CALLs and metrics are never in here.

mod item;
mod moved;

use crate::codec::{DecodeError, Decoder, put_bytes, put_varint};
use crate::ids::{GroupId, Millis, QueueId, Seq};
use crate::options::QueueOptions;
use crate::schema::SchemaRecord;

use item::items;
pub use item::{Item, ItemHead, ItemWriter};
pub use moved::{Moved, Origin};

/// Newest format of an entry's payload.
const VERSION: u8 = 1;

/// Most messages that one entry names.
pub const MESSAGES_PER_ENTRY_MAX: usize = 1_000;

/// A durable change, with the logical time at which it was admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it was admitted.
    pub now: Millis,
    /// What changes.
    pub body: Body,
}

/// What changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A start or a new leadership: all leases of earlier epochs are void.
    Epoch {
        /// The new epoch.
        epoch: u64,
    },
    /// Messages enter a queue.
    Publish(Publish),
    /// A group is done with messages.
    Settle(Settle),
    /// Deliveries ended without being settled, and counted.
    AttemptEnded(AttemptEnded),
    /// Everything below a sequence goes, for all groups.
    Floor {
        /// Which queue.
        queue: QueueId,
        /// The first sequence that stays.
        to: Seq,
    },
    /// A queue appears.
    QueueCreated {
        /// Its number, never used before; when an entry of the same batch takes it first, the next free one.
        queue: QueueId,
        /// Its name.
        name: String,
        /// Its options.
        options: QueueOptions,
    },
    /// A queue's options change.
    QueueUpdated {
        /// Which queue.
        queue: QueueId,
        /// All its options from now on.
        options: QueueOptions,
    },
    /// A queue goes, with its messages, groups and contract.
    QueueDeleted {
        /// Which queue.
        queue: QueueId,
    },
    /// A consumer group appears.
    GroupCreated {
        /// Which queue.
        queue: QueueId,
        /// Its number, never used before; when an entry of the same batch takes it first, the next free one.
        group: GroupId,
        /// Its name.
        name: String,
        /// The first sequence that it has not settled.
        floor: Seq,
    },
    /// A consumer group goes; what only it had not settled is removed.
    GroupDeleted {
        /// Which queue.
        queue: QueueId,
        /// Which group.
        group: GroupId,
    },
    /// A descriptor file, or the text of a source file, that contracts refer to by content.
    SchemaFile {
        /// SHA-256 of the bytes.
        hash: [u8; 32],
        /// The FileDescriptorProto, or the text.
        bytes: Vec<u8>,
    },
    /// A new version of a queue's contract, which becomes active.
    SchemaVersion {
        /// Which queue.
        queue: QueueId,
        /// The version.
        record: SchemaRecord,
    },
    /// Another version becomes active; it is no longer retired.
    SchemaActive {
        /// Which queue.
        queue: QueueId,
        /// The active version from now on.
        version: u32,
    },
    /// A version's publishers are refused from now on, until it becomes active again.
    SchemaRetired {
        /// Which queue.
        queue: QueueId,
        /// The version.
        version: u32,
    },
    /// A queue loses its contract, all versions of it; their numbers are not used again.
    SchemaDeleted {
        /// Which queue.
        queue: QueueId,
    },
    /// A version's files and sources are replaced by others of the same content: names, comments and text.
    SchemaRefreshed {
        /// Which queue.
        queue: QueueId,
        /// The version, with what is new.
        record: SchemaRecord,
    },
    /// Messages move to where they are delivered next: they fall due, are dead-lettered or redriven.
    Moved(Moved),
    /// Messages go for all groups: they expired or made room.
    Removed {
        /// Which queue.
        queue: QueueId,
        /// Which messages.
        seqs: Vec<Seq>,
    },
    /// Everything that a queue holds goes, what is delayed included.
    Purged {
        /// Which queue.
        queue: QueueId,
        /// The first sequence that stays.
        to: Seq,
        /// The number of the first delayed message that stays.
        delayed_to: u64,
    },
    /// A group begins anew somewhere else.
    Sought {
        /// Which queue.
        queue: QueueId,
        /// Which group.
        group: GroupId,
        /// The first sequence that it has not settled from now on.
        to: Seq,
    },
    /// A group is done with everything up to an offset.
    SettledThrough {
        /// Which queue.
        queue: QueueId,
        /// Which group.
        group: GroupId,
        /// The last sequence that it is done with.
        through: Seq,
    },
}

/// Messages enter a queue, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// Which queue.
    pub queue: QueueId,
    /// The messages.
    pub items: Vec<Item>,
}

/// A group is done with messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// Which queue.
    pub queue: QueueId,
    /// Which group.
    pub group: GroupId,
    /// Which messages, in the order of their acks.
    pub seqs: Vec<Seq>,
}

/// Why a delivery ended unsettled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The consumer said so.
    Nack,
    /// The lease ran out.
    Expired,
    /// The connection went.
    Disconnected,
}

/// Deliveries ended without being settled, and counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptEnded {
    /// Which queue.
    pub queue: QueueId,
    /// Which group.
    pub group: GroupId,
    /// Which messages.
    pub ended: Vec<Ended>,
}

/// One delivery that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The message.
    pub seq: Seq,
    /// Attempts of it that have ended now.
    pub attempts: u32,
    /// Why.
    pub cause: Cause,
    /// Earliest next delivery.
    pub not_before: Millis,
}

/// What an entry did. Whatever leaves the process is made of this, so nothing is said before it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// Messages have their positions.
    Published {
        /// Which queue.
        queue: QueueId,
        /// The first one's position; the others follow.
        first: Seq,
        /// How many got a position; delayed ones did not.
        count: u32,
        /// The number of the first delayed one; the others follow.
        first_delayed: u64,
        /// The earliest expiry among those with a position.
        expiry: Option<Millis>,
    },
    /// Messages moved.
    Moved {
        /// Where they came from.
        origin: Origin,
        /// The queue that they are in now.
        to: QueueId,
        /// The first one's position there; the others follow.
        first: Seq,
        /// Which of the entry's items moved; the others were not there any more.
        moved: Vec<usize>,
        /// The earliest expiry among them.
        expiry: Option<Millis>,
    },
    /// Messages went for all groups.
    Removed {
        /// Which queue.
        queue: QueueId,
        /// Which messages.
        seqs: Vec<Seq>,
        /// Streams: how many of them each group had not settled.
        skipped: Vec<(GroupId, u64)>,
    },
    /// Messages are settled for a group.
    Settled(Settle),
    /// Attempts are counted.
    AttemptEnded(AttemptEnded),
    /// A queue lost everything below a position.
    Floored {
        /// Which queue.
        queue: QueueId,
        /// The first sequence that stays.
        to: Seq,
        /// The number of the first delayed message that stays; 0: they all do.
        delayed_to: u64,
        /// How many messages went, delayed ones included.
        messages: u64,
        /// Streams, unless it was a purge: how many of them each group had not settled.
        skipped: Vec<(GroupId, u64)>,
    },
    /// A group begins anew: its leases, attempts and key locks are void.
    Sought(QueueId, GroupId),
    /// A group is done with everything below its floor.
    SettledThrough(QueueId, GroupId),
    /// A queue appeared, changed or went.
    Queue(QueueId),
    /// A group appeared or went.
    Group(QueueId, GroupId),
    /// A contract changed.
    Schema(QueueId),
    /// Nothing: nobody waits for it, or what it was for went just before it.
    Nothing,
}

impl Body {
    /// The kind byte of the entry's record. Numbers are never reused.
    #[must_use]
    pub fn kind(&self) -> u8 {
        match self {
            Body::Epoch { .. } => 1,
            Body::Publish(_) => PUBLISH_KIND,
            Body::Settle(_) => 3,
            Body::AttemptEnded(_) => 4,
            Body::Floor { .. } => 5,
            Body::QueueCreated { .. } => 6,
            Body::QueueUpdated { .. } => 7,
            Body::QueueDeleted { .. } => 8,
            Body::GroupCreated { .. } => 9,
            Body::GroupDeleted { .. } => 10,
            Body::SchemaFile { .. } => 11,
            Body::SchemaVersion { .. } => 12,
            Body::SchemaActive { .. } => 13,
            Body::SchemaRetired { .. } => 30,
            Body::SchemaDeleted { .. } => 31,
            Body::SchemaRefreshed { .. } => 32,
            Body::Moved(_) => MOVED_KIND,
            Body::Removed { .. } => 15,
            Body::Purged { .. } => 16,
            Body::Sought { .. } => 17,
            Body::SettledThrough { .. } => 18,
        }
    }
}

/// The kind byte of [`Body::Publish`], which is written by [`ItemWriter`].
pub const PUBLISH_KIND: u8 = 2;

/// The kind byte of [`Body::Moved`], which is written by [`ItemWriter`] too.
pub const MOVED_KIND: u8 = 14;

fn put_head(out: &mut Vec<u8>, now: Millis) {
    out.push(VERSION);
    put_varint(out, now);
}

/// Sequences as a first value and zigzag differences: acks mostly come in order, so each takes a byte.
fn put_seqs(out: &mut Vec<u8>, seqs: &[Seq]) {
    put_varint(out, seqs.len() as u64);
    let mut last = 0;
    for &seq in seqs {
        let delta = seq.wrapping_sub(last).cast_signed();
        put_varint(out, (delta << 1 ^ delta >> 63).cast_unsigned());
        last = seq;
    }
}

fn seqs(from: &mut Decoder<'_>) -> Result<Vec<Seq>, DecodeError> {
    let count = from.count("sequences")?;
    let mut seqs = Vec::with_capacity(count);
    let mut last: Seq = 0;
    for _ in 0..count {
        let zigzag = from.varint()?;
        let delta = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        last = last.wrapping_add(delta);
        seqs.push(last);
    }
    Ok(seqs)
}

impl Entry {
    /// Appends the record payload. A Publish or Moved goes through [`ItemWriter`] instead.
    ///
    /// # Panics
    /// On [`Body::Publish`] and [`Body::Moved`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_head(out, self.now);
        match &self.body {
            Body::Publish(_) | Body::Moved(_) => panic!("an entry with messages is written by ItemWriter, which has the payloads"),
            Body::Epoch { epoch } => put_varint(out, *epoch),
            Body::Settle(settle) => {
                put_varint(out, u64::from(settle.queue.0));
                put_varint(out, u64::from(settle.group.0));
                put_seqs(out, &settle.seqs);
            }
            Body::AttemptEnded(attempt) => {
                put_varint(out, u64::from(attempt.queue.0));
                put_varint(out, u64::from(attempt.group.0));
                put_varint(out, attempt.ended.len() as u64);
                for ended in &attempt.ended {
                    put_varint(out, ended.seq);
                    put_varint(out, u64::from(ended.attempts));
                    out.push(match ended.cause {
                        Cause::Nack => 0,
                        Cause::Expired => 1,
                        Cause::Disconnected => 2,
                    });
                    put_varint(out, ended.not_before);
                }
            }
            Body::Floor { queue, to } => {
                put_varint(out, u64::from(queue.0));
                put_varint(out, *to);
            }
            Body::QueueCreated { queue, name, options } => {
                put_varint(out, u64::from(queue.0));
                put_bytes(out, name.as_bytes());
                options.encode(out);
            }
            Body::QueueUpdated { queue, options } => {
                put_varint(out, u64::from(queue.0));
                options.encode(out);
            }
            Body::QueueDeleted { queue } => put_varint(out, u64::from(queue.0)),
            Body::GroupCreated { queue, group, name, floor } => {
                put_varint(out, u64::from(queue.0));
                put_varint(out, u64::from(group.0));
                put_bytes(out, name.as_bytes());
                put_varint(out, *floor);
            }
            Body::GroupDeleted { queue, group } => {
                put_varint(out, u64::from(queue.0));
                put_varint(out, u64::from(group.0));
            }
            Body::SchemaFile { hash, bytes } => {
                out.extend_from_slice(hash);
                put_bytes(out, bytes);
            }
            Body::SchemaVersion { queue, record } | Body::SchemaRefreshed { queue, record } => {
                put_varint(out, u64::from(queue.0));
                record.encode(out);
            }
            Body::SchemaDeleted { queue } => put_varint(out, u64::from(queue.0)),
            Body::SchemaActive { queue, version } | Body::SchemaRetired { queue, version } => {
                put_varint(out, u64::from(queue.0));
                put_varint(out, u64::from(*version));
            }
            Body::Removed { queue, seqs } => {
                put_varint(out, u64::from(queue.0));
                put_seqs(out, seqs);
            }
            Body::Purged { queue, to, delayed_to } => {
                put_varint(out, u64::from(queue.0));
                put_varint(out, *to);
                put_varint(out, *delayed_to);
            }
            Body::Sought { queue, group, to: seq } | Body::SettledThrough { queue, group, through: seq } => {
                put_varint(out, u64::from(queue.0));
                put_varint(out, u64::from(group.0));
                put_varint(out, *seq);
            }
        }
    }

    /// Reads a record's payload.
    ///
    /// # Errors
    /// [`DecodeError`]; an unknown kind or version means that a newer qwer-q wrote the journal, and must stop the start.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Entry, DecodeError> {
        let from = &mut Decoder::new(payload);
        from.version("entry version", VERSION)?;
        let now = from.varint()?;
        let body = match kind {
            1 => Body::Epoch { epoch: from.varint()? },
            PUBLISH_KIND => Body::Publish(Publish::decode(from)?),
            3 => Body::Settle(Settle { queue: queue(from)?, group: group(from)?, seqs: seqs(from)? }),
            4 => Body::AttemptEnded(AttemptEnded { queue: queue(from)?, group: group(from)?, ended: ended(from)? }),
            5 => Body::Floor { queue: queue(from)?, to: from.varint()? },
            6 => Body::QueueCreated { queue: queue(from)?, name: from.text()?.to_owned(), options: QueueOptions::decode(from)? },
            7 => Body::QueueUpdated { queue: queue(from)?, options: QueueOptions::decode(from)? },
            8 => Body::QueueDeleted { queue: queue(from)? },
            9 => Body::GroupCreated { queue: queue(from)?, group: group(from)?, name: from.text()?.to_owned(), floor: from.varint()? },
            10 => Body::GroupDeleted { queue: queue(from)?, group: group(from)? },
            11 => Body::SchemaFile { hash: from.array()?, bytes: from.bytes()?.to_vec() },
            12 => Body::SchemaVersion { queue: queue(from)?, record: SchemaRecord::decode(from)? },
            13 => Body::SchemaActive { queue: queue(from)?, version: from.u32("version")? },
            30 => Body::SchemaRetired { queue: queue(from)?, version: from.u32("version")? },
            31 => Body::SchemaDeleted { queue: queue(from)? },
            32 => Body::SchemaRefreshed { queue: queue(from)?, record: SchemaRecord::decode(from)? },
            MOVED_KIND => Body::Moved(Moved::decode(from)?),
            15 => Body::Removed { queue: queue(from)?, seqs: seqs(from)? },
            16 => Body::Purged { queue: queue(from)?, to: from.varint()?, delayed_to: from.varint()? },
            17 => Body::Sought { queue: queue(from)?, group: group(from)?, to: from.varint()? },
            18 => Body::SettledThrough { queue: queue(from)?, group: group(from)?, through: from.varint()? },
            _ => return Err(DecodeError::Newer { what: "entry type", number: u64::from(kind) }),
        };
        from.finish()?;
        Ok(Entry { now, body })
    }
}

fn queue(from: &mut Decoder<'_>) -> Result<QueueId, DecodeError> {
    Ok(QueueId(from.u32("queue id")?))
}

fn group(from: &mut Decoder<'_>) -> Result<GroupId, DecodeError> {
    Ok(GroupId(from.u32("group id")?))
}

fn ended(from: &mut Decoder<'_>) -> Result<Vec<Ended>, DecodeError> {
    let count = from.count("attempts")?;
    (0..count)
        .map(|_| {
            Ok(Ended {
                seq: from.varint()?,
                attempts: from.u32("attempts")?,
                cause: match from.byte()? {
                    0 => Cause::Nack,
                    1 => Cause::Expired,
                    2 => Cause::Disconnected,
                    other => return Err(DecodeError::Invalid { field: "cause", value: u64::from(other) }),
                },
                not_before: from.varint()?,
            })
        })
        .collect()
}

impl Publish {
    fn decode(from: &mut Decoder<'_>) -> Result<Publish, DecodeError> {
        Ok(Publish { queue: queue(from)?, items: items(from)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delayed::DelayedKey;
    use crate::ids::MessageId;

    /// Version 1 of a contract without name, file, source and client, at time 9.
    const RECORD: [u8; 40] = {
        let mut bytes = [0; 40];
        bytes[0] = 2;
        bytes[1] = 1;
        bytes[38] = 9;
        bytes
    };

    #[test]
    fn entries_round_trip() {
        let bodies = [
            Body::Epoch { epoch: 3 },
            Body::Settle(Settle { queue: QueueId(1), group: GroupId(2), seqs: vec![5, 6, 7, 3, u64::MAX, 0] }),
            Body::AttemptEnded(AttemptEnded {
                queue: QueueId(1),
                group: GroupId(2),
                ended: vec![Ended { seq: 9, attempts: 2, cause: Cause::Expired, not_before: 77 }],
            }),
            Body::Floor { queue: QueueId(1), to: 12 },
            Body::QueueCreated { queue: QueueId(1), name: "orders".to_owned(), options: QueueOptions::default() },
            Body::QueueUpdated { queue: QueueId(1), options: QueueOptions::default() },
            Body::QueueDeleted { queue: QueueId(1) },
            Body::GroupCreated { queue: QueueId(1), group: GroupId(4), name: "billing".to_owned(), floor: 8 },
            Body::GroupDeleted { queue: QueueId(1), group: GroupId(4) },
            Body::SchemaFile { hash: [7; 32], bytes: vec![1, 2, 3] },
            Body::SchemaActive { queue: QueueId(1), version: 2 },
            Body::SchemaRetired { queue: QueueId(1), version: 2 },
            Body::SchemaDeleted { queue: QueueId(1) },
            Body::SchemaRefreshed { queue: QueueId(1), record: SchemaRecord::decode(&mut Decoder::new(&RECORD)).unwrap() },
            Body::Removed { queue: QueueId(1), seqs: vec![4, 9] },
            Body::Purged { queue: QueueId(1), to: 7, delayed_to: 3 },
            Body::Sought { queue: QueueId(1), group: GroupId(4), to: 5 },
            Body::SettledThrough { queue: QueueId(1), group: GroupId(4), through: 5 },
        ];
        for body in bodies {
            let entry = Entry { now: 1_700_000_000_000, body };
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            assert_eq!(Entry::decode(entry.body.kind(), &bytes).unwrap(), entry);
            for cut in 0..bytes.len() {
                assert!(Entry::decode(entry.body.kind(), &bytes[..cut]).is_err(), "{entry:?} cut at {cut}");
            }
        }
        assert!(matches!(Entry::decode(200, &[1, 0]), Err(DecodeError::Newer { .. })));
        assert!(matches!(Entry::decode(1, &[9, 0, 0]), Err(DecodeError::Newer { .. })));
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let origins = [
            None,
            Some(Origin::Due { queue: QueueId(7), keys: vec![DelayedKey { due: 5, number: 0 }, DelayedKey { due: 4, number: 9 }] }),
            Some(Origin::Failed { queue: QueueId(7), group: Some(GroupId(0)), seqs: vec![8, 3] }),
            Some(Origin::Failed { queue: QueueId(7), group: None, seqs: vec![8, 3] }),
            Some(Origin::Invalid { queue: QueueId(7), count: 2 }),
            Some(Origin::Redriven { from: QueueId(8), seqs: vec![1, 2], to: QueueId(7), only: Some(GroupId(3)) }),
        ];
        for origin in origins {
            let mut bytes = vec![0xee; 3];
            let start = bytes.len();
            let mut writer = match &origin {
                None => ItemWriter::begin_publish(&mut bytes, 99, QueueId(7), 2),
                Some(origin) => ItemWriter::begin_moved(&mut bytes, 99, origin),
            };
            writer.item(&mut bytes, ItemHead { size: 3, ..ItemHead::default() }, |out| out.extend_from_slice(b"abc"));
            let dedup = Some(("once".to_owned(), MessageId([1; 16])));
            writer.item(&mut bytes, ItemHead { size: 0, key: 42, due: 1_000, expires_at: 2_000, dedup }, |_| ());
            assert_eq!(writer.positioned(), 1);
            let items = writer.finish();
            let stored = items[0].stored.clone();
            let (kind, body) = match origin {
                None => (PUBLISH_KIND, Body::Publish(Publish { queue: QueueId(7), items })),
                Some(origin) => (MOVED_KIND, Body::Moved(Moved { origin, items })),
            };
            let payload = &bytes[start..];
            assert_eq!(Entry::decode(kind, payload).unwrap(), Entry { now: 99, body });
            assert_eq!(&payload[stored.start as usize..stored.end as usize], b"abc");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_decode_or_err(kind in 0u8..40, bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let _ = Entry::decode(kind, &bytes);
        }
    }
}
