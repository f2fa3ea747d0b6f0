//! [`StoreReader`] reads messages in short transactions; [`Snapshot`] reads everything as of one
//! moment.
//!
//! An open read transaction keeps LMDB from reusing pages, so a reader's ends with the call.
//! A snapshot's lasts as long as it does: it is for copying a store to another replica.

use std::ops::Bound;
use std::sync::Arc;

use heed::{RoTxn, WithoutTls};

use super::block::Block;
use super::environment::{Environment, unseal};
use super::removal::is_removed;
use super::{Applied, MessageKey, StoreError};

/// Reads messages, from any thread.
#[derive(Debug, Clone)]
pub struct StoreReader {
    pub(super) environment: Arc<Environment>,
}

impl StoreReader {
    /// One message's bytes; `None` when the store does not have it.
    ///
    /// # Errors
    /// When the message fails its checksum, or LMDB fails.
    pub fn read(&self, key: MessageKey) -> Result<Option<Vec<u8>>, StoreError> {
        let txn = self.environment.read()?;
        let block = self.environment.block_from(&txn, key)?;
        let Some(block) = block.filter(|block| block.first().number <= key.number) else {
            return Ok(None);
        };
        let removed = self.environment.removed_of(&txn, &block)?;
        if removed.is_some_and(|bits| is_removed(bits, index_of(&block, key.number))) {
            return Ok(None);
        }
        Ok(block.get(key.number)?.map(<[u8]>::to_vec))
    }

    /// Gives `each` the messages of one queue and space in order, from `from.number` on, until
    /// `bytes_max` bytes have been given; at least one, if there is one. Returns the number to go
    /// on from, `None` at the end. `each` should be quick: a transaction is open.
    ///
    /// # Errors
    /// When a message fails its checksum, or LMDB fails.
    pub fn read_many(&self, from: MessageKey, bytes_max: usize, each: &mut dyn FnMut(u64, &[u8])) -> Result<Option<u64>, StoreError> {
        let txn = self.environment.read()?;
        let end = Bound::Included(from.at(u64::MAX));
        let each = &mut |key: MessageKey, payload: &[u8]| each(key.number, payload);
        let next = scan_messages(&self.environment, &txn, from, end, bytes_max, each)?;
        Ok(next.map(|key| key.number))
    }
}

/// Everything in the store as of one moment. While it lives the store's file cannot reuse space.
pub struct Snapshot {
    txn: RoTxn<'static, WithoutTls>,
    environment: Arc<Environment>,
}

impl Snapshot {
    pub(super) fn new(environment: Arc<Environment>) -> Result<Self, StoreError> {
        let txn = environment.env.clone().static_read_txn();
        let txn = txn.map_err(|error| environment.fail(error))?;
        Ok(Self { txn, environment })
    }

    /// The journal entry that the snapshot reaches.
    ///
    /// # Errors
    /// When the record of it is corrupt.
    pub fn applied(&self) -> Result<Applied, StoreError> {
        self.environment.applied(&self.txn)
    }

    /// Gives `each` the rows in key order from the key `from` on, until `bytes_max` bytes have
    /// been given; at least one, if there is one. Returns the key to go on from, `None` at the
    /// end.
    ///
    /// # Errors
    /// When a row fails its checksum, or LMDB fails.
    pub fn rows(&self, from: &[u8], bytes_max: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<Option<Vec<u8>>, StoreError> {
        let mut bytes = 0;
        let mut next = None;
        scan_rows(&self.environment, &self.txn, from, |key, value| {
            if bytes > 0 && bytes >= bytes_max {
                next = Some(key.to_vec());
                return Ok(false);
            }
            bytes += key.len() + value.len();
            each(key, value);
            Ok(true)
        })?;
        Ok(next)
    }

    /// Gives `each` the messages of all queues in key order from `from` on, as
    /// [`rows`](Self::rows) does.
    ///
    /// # Errors
    /// When a message fails its checksum, or LMDB fails.
    pub fn messages(
        &self,
        from: MessageKey,
        bytes_max: usize,
        each: &mut dyn FnMut(MessageKey, &[u8]),
    ) -> Result<Option<MessageKey>, StoreError> {
        let end = Bound::Unbounded;
        scan_messages(&self.environment, &self.txn, from, end, bytes_max, each)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("transaction", &self.txn.id()).finish_non_exhaustive()
    }
}

/// Gives `each` the rows in key order until it answers `false`.
pub(super) fn scan_rows(
    environment: &Environment,
    txn: &RoTxn<'_>,
    from: &[u8],
    mut each: impl FnMut(&[u8], &[u8]) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    // LMDB has no empty key and seeks none: the least one is a zero byte.
    let from = if from.is_empty() { &[0] } else { from };
    let range = (Bound::Included(from), Bound::Unbounded);
    let rows = environment.rows.range(txn, &range).map_err(|error| environment.fail(error))?;
    for row in rows {
        let (key, sealed) = row.map_err(|error| environment.fail(error))?;
        let corrupt = || StoreError::CorruptRow { table: "rows", key: key.to_owned() };
        if !each(key, unseal(key, sealed).ok_or_else(corrupt)?)? {
            break;
        }
    }
    Ok(())
}

fn scan_messages(
    environment: &Environment,
    txn: &RoTxn<'_>,
    from: MessageKey,
    end: Bound<MessageKey>,
    bytes_max: usize,
    each: &mut dyn FnMut(MessageKey, &[u8]),
) -> Result<Option<MessageKey>, StoreError> {
    let start = environment.block_from(txn, from)?.map_or(from, |block| block.first());
    let start = start.to_bytes();
    let end = end.map(MessageKey::to_bytes);
    let range = (Bound::Included(&start[..]), end.as_ref().map(|end| &end[..]));
    let blocks = environment.messages.range(txn, &range);
    let mut bytes = 0;
    for found in blocks.map_err(|error| environment.fail(error))? {
        let (first, value) = found.map_err(|error| environment.fail(error))?;
        let corrupt = || StoreError::CorruptRow { table: "messages", key: first.to_owned() };
        let first = MessageKey::from_bytes(first).ok_or_else(corrupt)?;
        let block = Block::parse(first, value)?;
        let removed = environment.removed_of(txn, &block)?;
        let start = if first.is_beside(from) { from.number.max(first.number) } else { first.number };
        for number in start..block.end() {
            if removed.is_some_and(|bits| is_removed(bits, index_of(&block, number))) {
                continue;
            }
            let Some(payload) = block.get(number)? else {
                continue;
            };
            if bytes > 0 && bytes >= bytes_max {
                return Ok(Some(first.at(number)));
            }
            bytes += payload.len();
            each(first.at(number), payload);
        }
    }
    Ok(None)
}

fn index_of(block: &Block<'_>, number: u64) -> u32 {
    u32::try_from(number - block.first().number).expect("a number inside the block")
}
