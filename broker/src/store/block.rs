//! Blocks: consecutive messages of one queue, packed into one LMDB value of about 32 KiB.
//!
//! A tree entry per message costs more than the message: blocks make a checkpoint a sequence of
//! large writes, and dropping a queue a walk over few keys. A block's key names its first
//! message. Its value is `head: count u32, crc u32 | count x (end u32, crc u32) | payloads`, all
//! little-endian; `end` counts from the start of the payloads, and a number without a message is
//! a gap of no bytes. Each checksum covers the key too, so that a misplaced value is caught.

use super::{MessageKey, StoreError};

/// Size at which a block is closed: eight pages of 4 KiB less LMDB's page header, so that the
/// pages of a full block have no slack.
pub(super) const BLOCK_BYTES: usize = 8 * 4096 - 16;

/// Numbers without a message that a block spans before a new one is cheaper.
const GAP_MAX: u64 = 64;

const HEAD: usize = 8;
const ENTRY: usize = 8;

/// Collects consecutive messages until a block is full.
#[derive(Debug)]
pub(super) struct BlockBuilder {
    first: MessageKey,
    /// Numbers covered so far, the trailing gap not included.
    count: u32,
    table: Vec<u8>,
    payloads: Vec<u8>,
}

impl BlockBuilder {
    pub(super) fn new() -> Self {
        Self { first: MessageKey { queue: 0, space: 0, number: 0 }, count: 0, table: Vec::new(), payloads: Vec::with_capacity(BLOCK_BYTES) }
    }

    /// Whether `key` with a payload of this length belongs into the block as it stands: it
    /// follows closely, and there is room. Anything fits into an empty block.
    pub(super) fn fits(&self, key: MessageKey, payload_bytes: usize) -> bool {
        let Some(gap) = self.gap_before(key) else {
            return self.count == 0;
        };
        let entries = usize::try_from(gap + 1).expect("a gap is short") * ENTRY;
        let bytes = self.value_bytes() + entries + payload_bytes;
        self.count == 0 || (bytes <= BLOCK_BYTES && gap <= GAP_MAX)
    }

    /// Adds a message, which must fit, see [`fits`](Self::fits).
    pub(super) fn push(&mut self, key: MessageKey, payload: &[u8]) {
        if self.count == 0 {
            self.first = key;
        }
        let gap = self.gap_before(key).expect("messages are pushed in order");
        for number in key.number - gap..key.number {
            self.push_entry(key.at(number), &[]);
        }
        self.payloads.extend_from_slice(payload);
        self.push_entry(key, payload);
    }

    /// The numbers between the block's last message and `key`; `None` when `key` does not
    /// follow.
    fn gap_before(&self, key: MessageKey) -> Option<u64> {
        if self.count == 0 {
            return Some(0);
        }
        let next = self.first.number + u64::from(self.count);
        let follows = self.first.is_beside(key) && key.number >= next;
        follows.then(|| key.number - next).filter(|gap| *gap <= GAP_MAX)
    }

    fn push_entry(&mut self, key: MessageKey, payload: &[u8]) {
        let end = u32::try_from(self.payloads.len()).expect("a block is far below 4 GiB");
        self.table.extend_from_slice(&end.to_le_bytes());
        self.table.extend_from_slice(&checksum(key, payload).to_le_bytes());
        self.count += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The block's key.
    pub(super) fn first(&self) -> MessageKey {
        self.first
    }

    /// The last number of the block.
    pub(super) fn last(&self) -> u64 {
        self.first.number + u64::from(self.count.saturating_sub(1))
    }

    /// Length of the value, in bytes.
    pub(super) fn value_bytes(&self) -> usize {
        HEAD + self.table.len() + self.payloads.len()
    }

    /// The value, in three parts to be written one after the other.
    pub(super) fn value(&self) -> ([u8; HEAD], &[u8], &[u8]) {
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&self.count.to_le_bytes());
        let crc = checksum(self.first, &self.count.to_le_bytes());
        head[4..].copy_from_slice(&crc.to_le_bytes());
        (head, &self.table, &self.payloads)
    }

    /// Empties the builder, keeping its memory unless one large message made it grow.
    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.table.clear();
        self.payloads.clear();
        self.payloads.shrink_to(BLOCK_BYTES);
    }
}

/// A block as read from the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    first: MessageKey,
    count: u32,
    table: &'a [u8],
    payloads: &'a [u8],
}

impl<'a> Block<'a> {
    /// Checks the head; each message is checked when it is read.
    pub(super) fn parse(first: MessageKey, value: &'a [u8]) -> Result<Self, StoreError> {
        let corrupt = || StoreError::CorruptMessage(first);
        let (count, rest) = value.split_first_chunk::<4>().ok_or_else(corrupt)?;
        let (crc, rest) = rest.split_first_chunk::<4>().ok_or_else(corrupt)?;
        if u32::from_le_bytes(*crc) != checksum(first, count) {
            return Err(corrupt());
        }
        let count = u32::from_le_bytes(*count);
        let table_bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(ENTRY));
        let (table, payloads) = table_bytes.and_then(|bytes| rest.split_at_checked(bytes)).ok_or_else(corrupt)?;
        Ok(Self { first, count, table, payloads })
    }

    pub(super) fn first(&self) -> MessageKey {
        self.first
    }

    /// Numbers that the block covers, gaps included.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// One past the block's last number.
    pub(super) fn end(&self) -> u64 {
        self.first.number + u64::from(self.count)
    }

    /// Bytes of all payloads, removed ones included.
    pub(super) fn payload_bytes(&self) -> usize {
        self.payloads.len()
    }

    /// Length of one payload by its place in the block, without reading it; 0 is a gap.
    pub(super) fn len_at(&self, index: u32) -> usize {
        let (start, end, _) = self.entry(index);
        usize::try_from(end.saturating_sub(start)).expect("usize holds a u32")
    }

    /// The message with this number, its checksum verified; `None` for a gap or a number
    /// outside the block.
    pub(super) fn get(&self, number: u64) -> Result<Option<&'a [u8]>, StoreError> {
        let index = number.checked_sub(self.first.number);
        let Some(index) = index.and_then(|index| u32::try_from(index).ok()) else {
            return Ok(None);
        };
        if index >= self.count {
            return Ok(None);
        }
        let key = self.first.at(number);
        let corrupt = || StoreError::CorruptMessage(key);
        let (start, end, crc) = self.entry(index);
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let payload = range.and_then(|(start, end)| self.payloads.get(start..end)).ok_or_else(corrupt)?;
        if checksum(key, payload) != crc {
            return Err(corrupt());
        }
        Ok((!payload.is_empty()).then_some(payload))
    }

    fn entry(&self, index: u32) -> (u32, u32, u32) {
        let at = usize::try_from(index).expect("usize holds a u32") * ENTRY;
        let word = |at: usize| {
            let bytes = self.table[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(bytes)
        };
        let start = if index == 0 { 0 } else { word(at - ENTRY) };
        (start, word(at), word(at + 4))
    }
}

/// CRC-32C over a key and what is stored under it.
pub(super) fn checksum(key: MessageKey, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&key.to_bytes()), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> MessageKey {
        MessageKey { queue: 7, space: MessageKey::LIVE, number }
    }

    fn value_of(builder: &BlockBuilder) -> Vec<u8> {
        let (head, table, payloads) = builder.value();
        [&head[..], table, payloads].concat()
    }

    fn sample() -> Vec<u8> {
        let mut builder = BlockBuilder::new();
        for (number, payload) in [(10, "ten"), (11, "eleven"), (14, "fourteen")] {
            assert!(builder.fits(key(number), payload.len()));
            builder.push(key(number), payload.as_bytes());
        }
        assert_eq!((builder.first(), builder.last()), (key(10), 14));
        value_of(&builder)
    }

    #[test]
    fn messages_come_back_and_gaps_stay_empty() {
        let value = sample();
        let block = Block::parse(key(10), &value).unwrap();
        assert_eq!((block.count(), block.end()), (5, 15));
        let read: Vec<_> = (9..=15).map(|number| block.get(number).unwrap()).collect();
        let expected = [None, Some("ten"), Some("eleven"), None, None, Some("fourteen"), None];
        assert_eq!(read, expected.map(|text| text.map(str::as_bytes)));
    }

    #[test]
    fn any_flipped_byte_is_detected() {
        let value = sample();
        for at in 0..value.len() {
            for bit in 0..8 {
                let mut bad = value.clone();
                bad[at] ^= 1 << bit;
                let caught = match Block::parse(key(10), &bad) {
                    Err(_) => true,
                    Ok(block) => (10..15).any(|number| block.get(number).is_err()),
                };
                assert!(caught, "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_value_under_another_key_is_detected() {
        assert!(Block::parse(key(11), &sample()).is_err());
    }

    #[test]
    fn a_block_closes_when_full_or_far() {
        let mut builder = BlockBuilder::new();
        assert!(builder.fits(key(5), 10 * BLOCK_BYTES), "a large message has its own block");
        builder.push(key(5), b"five");
        assert!(builder.fits(key(6), 1000));
        assert!(!builder.fits(key(6), BLOCK_BYTES));
        assert!(builder.fits(key(6 + GAP_MAX), 1));
        assert!(!builder.fits(key(7 + GAP_MAX), 1));
        assert!(!builder.fits(key(5), 1), "numbers rise");
        assert!(!builder.fits(MessageKey { queue: 8, ..key(6) }, 1));
        assert!(!builder.fits(MessageKey { space: 1, ..key(6) }, 1));
        builder.clear();
        assert!(builder.is_empty() && builder.fits(key(0), 1));
    }
}
