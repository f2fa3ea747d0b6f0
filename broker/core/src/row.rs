//! The rows of the store: what each key holds, and how it is read back. This page is the whole format; messages' payloads are elsewhere.
//!
//! | key | value |
//! |---|---|
//! | `S` | shard: clock, epoch, next queue id, next group id, admitted |
//! | `F` hash | a descriptor file |
//! | `Q` queue `0` | queue: name, options, next_seq, active schema version |
//! | `Q` queue `1` version | a schema version |
//! | `Q` queue `2` group | group: floor, settled intervals, attempts |
//! | `Q` queue `3` chunk | sizes, times and key hashes of 1,024 sequences |
//! | `Q` queue `4` key | an idempotency key |
//! | `Q` queue `30` | contract: retired versions, how many were deleted |
//! | `Q` queue `5` due number | a delayed message |
//! | `Q` queue `6` client | publishes that a client may send again |
//!
//! Numbers in keys are big-endian, so that a queue's rows are neighbours and load in this order.

use std::sync::Arc;

use crate::codec::{DecodeError, Decoder, put_varint};
use crate::delayed::DelayedKey;
use crate::group::Group;
use crate::ids::{GroupId, MessageId, QueueId};
use crate::queue::{Queue, Remembered};
use crate::retries::ClientId;
use crate::schema::{SchemaFile, SchemaRecord};
use crate::state::State;

const VERSION: u8 = 1;

/// A change of one row of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowChange {
    /// The row has this value now.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// The row is gone.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
    /// All rows whose key starts so are gone. Comes before the puts of the same checkpoint.
    DeletePrefix {
        /// The start of their keys.
        prefix: Vec<u8>,
    },
}

fn queue_key(id: QueueId, part: u8) -> Vec<u8> {
    let mut key = Vec::with_capacity(16);
    key.push(b'Q');
    key.extend_from_slice(&id.0.to_be_bytes());
    key.push(part);
    key
}

fn keyed(id: QueueId, part: u8, rest: &[u8]) -> Vec<u8> {
    let mut key = queue_key(id, part);
    key.extend_from_slice(rest);
    key
}

fn put(key: Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) -> RowChange {
    let mut value = Vec::new();
    encode(&mut value);
    RowChange::Put { key, value }
}

pub(crate) fn shard(state: &State) -> RowChange {
    put(vec![b'S'], |out| {
        out.push(VERSION);
        for value in [state.clock, state.epoch, u64::from(state.next_queue), u64::from(state.next_group), state.admitted] {
            put_varint(out, value);
        }
    })
}

pub(crate) fn dropped(id: QueueId) -> RowChange {
    let mut prefix = queue_key(id, 0);
    prefix.pop();
    RowChange::DeletePrefix { prefix }
}

pub(crate) fn queue(queue: &Queue) -> RowChange {
    put(queue_key(queue.id, 0), |out| queue.encode(out))
}

pub(crate) fn schema(queue: &Queue, version: u32) -> RowChange {
    let key = keyed(queue.id, 1, &version.to_be_bytes());
    match queue.schemas.version(version) {
        Some(record) => put(key, |out| record.encode(out)),
        None => RowChange::Delete { key },
    }
}

pub(crate) fn schema_marks(queue: &Queue) -> RowChange {
    put(queue_key(queue.id, 30), |out| queue.schemas.encode_marks(out))
}

pub(crate) fn group(queue: &Queue, group: GroupId) -> RowChange {
    let key = keyed(queue.id, 2, &group.0.to_be_bytes());
    match queue.groups.get(&group) {
        Some(group) => put(key, |out| group.encode(out)),
        None => RowChange::Delete { key },
    }
}

pub(crate) fn chunk(queue: &Queue, number: u64) -> RowChange {
    let key = keyed(queue.id, 3, &number.to_be_bytes());
    if queue.messages.chunk_is_live(number) { put(key, |out| queue.messages.encode_chunk(number, out)) } else { RowChange::Delete { key } }
}

/// LMDB keys are at most 511 bytes, an idempotency key may be longer: the row's key is then its beginning and a hash.
fn dedup_key(id: QueueId, text: &str) -> Vec<u8> {
    const PLAIN_BYTES_MAX: usize = 400;
    if text.len() <= PLAIN_BYTES_MAX {
        return keyed(id, 4, text.as_bytes());
    }
    let mut key = keyed(id, 4, &text.as_bytes()[..PLAIN_BYTES_MAX]);
    key.extend_from_slice(&crate::stored::key_hash(text).to_be_bytes());
    key.extend_from_slice(&(text.len() as u64).to_be_bytes());
    key
}

pub(crate) fn dedup(queue: &Queue, text: &Arc<str>) -> RowChange {
    let key = dedup_key(queue.id, text);
    // A key that has run out at the shard's clock is gone for good, whatever its entry still says.
    match queue.dedup.get(text, 0) {
        Some(remembered) => put(key, |out| {
            out.push(VERSION);
            out.extend_from_slice(&remembered.id.0);
            put_varint(out, remembered.seq.map_or(0, |seq| seq + 1));
            put_varint(out, remembered.until);
            out.extend_from_slice(text.as_bytes());
        }),
        None => RowChange::Delete { key },
    }
}

pub(crate) fn retries(queue: &Queue, client: ClientId) -> RowChange {
    let key = keyed(queue.id, 6, &client);
    let mut value = Vec::new();
    if queue.retries.encode(&client, &mut value) { RowChange::Put { key, value } } else { RowChange::Delete { key } }
}

pub(crate) fn delayed(queue: &Queue, at: DelayedKey) -> RowChange {
    let mut rest = at.due.to_be_bytes().to_vec();
    rest.extend_from_slice(&at.number.to_be_bytes());
    let key = keyed(queue.id, 5, &rest);
    match queue.delayed.get(at) {
        Some(_) => put(key, |out| {
            out.push(VERSION);
            queue.delayed.encode(at, out);
        }),
        None => RowChange::Delete { key },
    }
}

pub(crate) fn file(hash: [u8; 32], file: Option<&SchemaFile>) -> RowChange {
    let mut key = vec![b'F'];
    key.extend_from_slice(&hash);
    match file {
        Some(file) => put(key, |out| out.extend_from_slice(&file.bytes)),
        None => RowChange::Delete { key },
    }
}

impl State {
    /// Takes in one row, at start. Rows come in the order of their keys; [`State::loaded`] follows the last.
    ///
    /// # Errors
    /// [`DecodeError`] when the row is corrupt or from a newer version.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), DecodeError> {
        let mut at = Decoder::new(key);
        let mut from = Decoder::new(value);
        match at.byte()? {
            b'S' => {
                from.version("shard row version", VERSION)?;
                self.clock = from.varint()?;
                self.epoch = from.varint()?;
                self.next_queue = from.u32("next queue")?;
                self.next_group = from.u32("next group")?;
                self.admitted = from.varint()?;
            }
            b'F' => {
                let bytes = from.rest().into();
                self.files.insert(at.array()?, SchemaFile { bytes });
            }
            b'Q' => {
                let id = QueueId(u32::from_be_bytes(at.array()?));
                let part = at.byte()?;
                if part == 0 {
                    let queue = Queue::decode(id, &mut from)?;
                    self.names.insert(Arc::clone(&queue.name), id);
                    self.queues.insert(id, queue);
                } else {
                    let queue = self.queues.get_mut(&id).ok_or(DecodeError::Invalid { field: "queue of a row", value: u64::from(id.0) })?;
                    load_part(queue, part, &mut at, &mut from)?;
                }
            }
            other => return Err(DecodeError::Newer { what: "row type", number: u64::from(other) }),
        }
        from.finish()
    }

    /// Ends the loading of rows.
    ///
    /// # Panics
    /// When the rows contradict each other: going on would lose messages.
    pub fn loaded(&mut self) {
        self.dues = self.queues().filter_map(|queue| queue.delayed.first().map(|first| (first.due, queue.id))).collect();
        self.check_invariants();
    }
}

fn load_part(queue: &mut Queue, part: u8, at: &mut Decoder<'_>, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
    match part {
        1 => queue.schemas.versions.push(Arc::new(SchemaRecord::decode(from)?)),
        2 => {
            let group = Group::decode(GroupId(u32::from_be_bytes(at.array()?)), from)?;
            queue.group_names.insert(group.name.clone(), group.id);
            queue.groups.insert(group.id, group);
        }
        3 => queue.messages.decode_chunk(u64::from_be_bytes(at.array()?), from)?,
        4 => {
            from.version("idempotency row version", VERSION)?;
            let remembered = Remembered { id: MessageId(from.array()?), seq: from.varint()?.checked_sub(1), until: from.varint()? };
            let rest = from.rest();
            queue.dedup.record(std::str::from_utf8(rest).map_err(|_| DecodeError::Utf8)?, remembered);
        }
        30 => queue.schemas.decode_marks(from)?,
        5 => {
            from.version("delayed message version", VERSION)?;
            let key = DelayedKey { due: u64::from_be_bytes(at.array()?), number: u64::from_be_bytes(at.array()?) };
            queue.delayed.decode(key, from)?;
        }
        6 => queue.retries.decode(at.array()?, from)?,
        other => return Err(DecodeError::Newer { what: "queue row", number: u64::from(other) }),
    }
    Ok(())
}
