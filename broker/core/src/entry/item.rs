//! A message inside an entry: what the state keeps of it, and its stored form, written straight into a journal batch.

use std::ops::Range;

use super::moved::Origin;
use super::put_head;
use crate::codec::{DecodeError, Decoder, put_bytes, put_varint};
use crate::ids::{MessageId, Millis, QueueId};

const ITEM_HAS_KEY: u8 = 1;
const ITEM_HAS_DEDUP: u8 = 2;
const ITEM_HAS_DUE: u8 = 4;
const ITEM_HAS_EXPIRY: u8 = 8;
const ITEM_FLAGS: u8 = ITEM_HAS_KEY | ITEM_HAS_DEDUP | ITEM_HAS_DUE | ITEM_HAS_EXPIRY;

/// What the state keeps of a message; the rest is in its stored form, which the journal holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Payload and headers, in bytes: what limits count.
    pub size: u32,
    /// Hash of the ordering key; 0: none.
    pub key: u64,
    /// When it falls due; 0: at once, and it gets its sequence with this entry.
    pub due: Millis,
    /// When it expires; 0: never.
    pub expires_at: Millis,
    /// Where the stored form lies in the record's payload.
    pub stored: Range<u32>,
    /// The idempotency key, with the id that a duplicate is answered with.
    pub dedup: Option<Box<(String, MessageId)>>,
}

/// What an item says of its message beside the stored form.
#[derive(Debug, Clone, Default)]
pub struct ItemHead {
    /// Payload and headers, in bytes.
    pub size: u32,
    /// Hash of the ordering key; 0: none.
    pub key: u64,
    /// When it falls due; 0: at once.
    pub due: Millis,
    /// When it expires; 0: never.
    pub expires_at: Millis,
    /// The idempotency key, with the id that a duplicate is answered with.
    pub dedup: Option<(String, MessageId)>,
}

/// Writes a Publish or Moved entry straight into a journal batch, so that a payload is copied once.
#[derive(Debug)]
pub struct ItemWriter {
    start: usize,
    items: Vec<Item>,
    /// Items that are not delayed.
    positioned: u32,
}

impl ItemWriter {
    /// Begins a Publish entry at the end of `out`.
    pub fn begin_publish(out: &mut Vec<u8>, now: Millis, queue: QueueId, capacity: usize) -> ItemWriter {
        let start = out.len();
        put_head(out, now);
        put_varint(out, u64::from(queue.0));
        ItemWriter { start, items: Vec::with_capacity(capacity), positioned: 0 }
    }

    /// Begins a Moved entry at the end of `out`; it needs an item for each message that the origin names, in that order.
    pub fn begin_moved(out: &mut Vec<u8>, now: Millis, origin: &Origin) -> ItemWriter {
        let start = out.len();
        put_head(out, now);
        origin.encode(out);
        ItemWriter { start, items: Vec::with_capacity(origin.count()), positioned: 0 }
    }

    /// Appends a message; `store` appends its stored form.
    ///
    /// # Panics
    /// When the entry grows to 4 GiB; frames are far smaller.
    pub fn item(&mut self, out: &mut Vec<u8>, head: ItemHead, store: impl FnOnce(&mut Vec<u8>)) {
        let ItemHead { size, key, due, expires_at, dedup } = head;
        let flag = |given: bool, flag: u8| if given { flag } else { 0 };
        out.push(
            flag(key != 0, ITEM_HAS_KEY)
                | flag(dedup.is_some(), ITEM_HAS_DEDUP)
                | flag(due != 0, ITEM_HAS_DUE)
                | flag(expires_at != 0, ITEM_HAS_EXPIRY),
        );
        put_varint(out, u64::from(size));
        if key != 0 {
            out.extend_from_slice(&key.to_le_bytes());
        }
        if due != 0 {
            put_varint(out, due);
        }
        if expires_at != 0 {
            put_varint(out, expires_at);
        }
        if let Some((text, id)) = &dedup {
            put_bytes(out, text.as_bytes());
            out.extend_from_slice(&id.0);
        }
        // The stored form's length is known only once it is written, so its four bytes are filled in afterwards.
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        let from = out.len();
        store(out);
        let length = u32::try_from(out.len() - from).expect("a stored message is far below 4 GiB");
        out[length_at..from].copy_from_slice(&length.to_le_bytes());
        let offset = u32::try_from(from - self.start).expect("an entry is far below 4 GiB");
        self.positioned += u32::from(due == 0);
        self.items.push(Item { size, key, due, expires_at, stored: offset..offset + length, dedup: dedup.map(Box::new) });
    }

    /// How many items so far get a position at once.
    #[must_use]
    pub fn positioned(&self) -> u32 {
        self.positioned
    }

    /// Whether there is no item yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items as [`Entry::decode`] would give them.
    #[must_use]
    pub fn finish(self) -> Vec<Item> {
        self.items
    }
}

/// The items up to the end of the entry.
pub(super) fn items(from: &mut Decoder<'_>) -> Result<Vec<Item>, DecodeError> {
    let mut items = Vec::new();
    while !from.is_empty() {
        let flags = from.byte()?;
        if flags & !ITEM_FLAGS != 0 {
            return Err(DecodeError::Newer { what: "message flag", number: u64::from(flags) });
        }
        let has = |flag: u8| flags & flag != 0;
        let size = from.u32("size")?;
        let key = if has(ITEM_HAS_KEY) { u64::from_le_bytes(from.array()?) } else { 0 };
        let due = if has(ITEM_HAS_DUE) { from.varint()? } else { 0 };
        let expires_at = if has(ITEM_HAS_EXPIRY) { from.varint()? } else { 0 };
        let dedup = if has(ITEM_HAS_DEDUP) { Some(Box::new((from.text()?.to_owned(), MessageId(from.array()?)))) } else { None };
        let length = u32::from_le_bytes(from.array()?);
        let start = u32::try_from(from.at()).map_err(|_| DecodeError::Truncated)?;
        from.take(length as usize)?;
        items.push(Item { size, key, due, expires_at, stored: start..start + length, dedup });
    }
    Ok(items)
}
