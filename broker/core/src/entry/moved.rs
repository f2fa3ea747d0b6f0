//! Messages that change their place: where they come from, and with that where they go.

use super::item::{Item, items};
use super::{put_seqs, queue, seqs};
use crate::codec::{DecodeError, Decoder, put_varint};
use crate::delayed::DelayedKey;
use crate::ids::{GroupId, QueueId, Seq};

/// Messages move, each in one step: what is not where it was any more does not arrive either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Where they come from, and with that where they go.
    pub origin: Origin,
    /// The messages in the form in which they arrive; one for each that the origin names.
    pub items: Vec<Item>,
}

/// Where moved messages come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// They fall due in their queue.
    Due {
        /// Which queue.
        queue: QueueId,
        /// The delayed messages.
        keys: Vec<DelayedKey>,
    },
    /// A group is done with them, and they go to the queue's dead letters.
    Failed {
        /// Which queue.
        queue: QueueId,
        /// Which group; none: the queue had none, and they go for good.
        group: Option<GroupId>,
        /// The messages.
        seqs: Vec<Seq>,
    },
    /// They break the contract and go to the queue's dead letters without having been in the queue.
    Invalid {
        /// Which queue.
        queue: QueueId,
        /// How many.
        count: usize,
    },
    /// Dead letters go to a queue again.
    Redriven {
        /// The dead letter queue.
        from: QueueId,
        /// The letters.
        seqs: Vec<Seq>,
        /// The queue that they go to.
        to: QueueId,
        /// The only group that gets them; none: all of them.
        only: Option<GroupId>,
    },
}

impl Origin {
    /// How many messages it names.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Origin::Due { keys, .. } => keys.len(),
            Origin::Failed { seqs, .. } | Origin::Redriven { seqs, .. } => seqs.len(),
            Origin::Invalid { count, .. } => *count,
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Origin::Due { queue, keys } => {
                out.push(1);
                put_varint(out, u64::from(queue.0));
                put_varint(out, keys.len() as u64);
                for key in keys {
                    put_varint(out, key.due);
                    put_varint(out, key.number);
                }
            }
            Origin::Failed { queue, group, seqs } => {
                out.push(2);
                put_varint(out, u64::from(queue.0));
                put_optional_group(out, *group);
                put_seqs(out, seqs);
            }
            Origin::Invalid { queue, count } => {
                out.push(3);
                put_varint(out, u64::from(queue.0));
                put_varint(out, *count as u64);
            }
            Origin::Redriven { from, seqs, to, only } => {
                out.push(4);
                put_varint(out, u64::from(from.0));
                put_seqs(out, seqs);
                put_varint(out, u64::from(to.0));
                put_optional_group(out, *only);
            }
        }
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Origin, DecodeError> {
        Ok(match from.byte()? {
            1 => {
                let queue = queue(from)?;
                let count = from.count("delayed messages")?;
                let keys = (0..count).map(|_| Ok(DelayedKey { due: from.varint()?, number: from.varint()? }));
                Origin::Due { queue, keys: keys.collect::<Result<_, DecodeError>>()? }
            }
            2 => Origin::Failed { queue: queue(from)?, group: optional_group(from)?, seqs: seqs(from)? },
            3 => Origin::Invalid { queue: queue(from)?, count: from.count("invalid messages")? },
            4 => Origin::Redriven { from: queue(from)?, seqs: seqs(from)?, to: queue(from)?, only: optional_group(from)? },
            other => return Err(DecodeError::Newer { what: "origin", number: u64::from(other) }),
        })
    }
}

fn put_optional_group(out: &mut Vec<u8>, group: Option<GroupId>) {
    put_varint(out, group.map_or(0, |group| u64::from(group.0) + 1));
}

fn optional_group(from: &mut Decoder<'_>) -> Result<Option<GroupId>, DecodeError> {
    let number = from.varint()?;
    let group = number.checked_sub(1).map(|group| u32::try_from(group).map(GroupId)).transpose();
    group.map_err(|_| DecodeError::Invalid { field: "group id", value: number })
}

impl Moved {
    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Moved, DecodeError> {
        let moved = Moved { origin: Origin::decode(from)?, items: items(from)? };
        if moved.items.len() != moved.origin.count() {
            return Err(DecodeError::Invalid { field: "moved messages", value: moved.items.len() as u64 });
        }
        Ok(moved)
    }
}
