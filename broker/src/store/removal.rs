//! [`Removal`]: takes messages out of blocks.
//!
//! A block is deleted with its last message. Until then a bitmap says which of its messages are
//! gone; when most are, the block is rewritten with those that are left, so that a few old
//! messages do not hold the space of many.

use heed::RwTxn;

use super::block::{BLOCK_BYTES, Block, BlockBuilder};
use super::checkpoint::{RemovedRun, put_block};
use super::environment::{Environment, put_sealed, unseal};
use super::{MessageKey, StoreError};

/// A block is rewritten when fewer than one in this many of its bytes are in use.
const SPARSE: usize = 4;

/// A block below this size is not worth rewriting.
const SMALL: usize = BLOCK_BYTES / 8;

pub(super) struct Removal<'a, 'txn> {
    environment: &'a Environment,
    txn: &'a mut RwTxn<'txn>,
    open: Option<OpenBlock>,
}

/// A block that messages are being taken out of.
struct OpenBlock {
    first: MessageKey,
    end: u64,
    removed: RemovedMap,
    changed: bool,
}

impl<'a, 'txn> Removal<'a, 'txn> {
    pub(super) fn new(environment: &'a Environment, txn: &'a mut RwTxn<'txn>) -> Self {
        Self { environment, txn, open: None }
    }

    /// Removes the messages of these runs, which may overlap.
    pub(super) fn remove(mut self, mut runs: Vec<RemovedRun>) -> Result<(), StoreError> {
        runs.sort_unstable_by_key(|run| (run.queue, run.space, run.numbers.start));
        for run in runs {
            let mut key = MessageKey { queue: run.queue, space: run.space, number: run.numbers.start };
            while key.number < run.numbers.end {
                let Some(block) = self.block_at(key)? else {
                    break;
                };
                if block.first.number >= run.numbers.end {
                    break;
                }
                let from = key.number.max(block.first.number);
                let to = run.numbers.end.min(block.end);
                block.changed |= block.removed.set(block.first.number, from..to);
                key.number = block.end;
            }
        }
        self.close()
    }

    /// Opens the block that holds `key`, or else the next one of that numbering.
    fn block_at(&mut self, key: MessageKey) -> Result<Option<&mut OpenBlock>, StoreError> {
        let is_open = self.open.as_ref().is_some_and(|block| {
            // Runs come in order: an open block that starts behind `key` is the next one.
            block.first.is_beside(key) && key.number < block.end
        });
        if !is_open {
            self.close()?;
            self.open = self.find(key)?;
        }
        Ok(self.open.as_mut())
    }

    fn find(&self, key: MessageKey) -> Result<Option<OpenBlock>, StoreError> {
        let Some(block) = self.environment.block_from(self.txn, key)? else {
            return Ok(None);
        };
        let removed = match self.environment.removed_of(self.txn, &block)? {
            Some(bits) => RemovedMap(bits.to_vec()),
            None => RemovedMap::of_gaps(&block),
        };
        let (first, end) = (block.first(), block.end());
        Ok(Some(OpenBlock { first, end, removed, changed: false }))
    }

    /// Writes what has become of the open block.
    fn close(&mut self) -> Result<(), StoreError> {
        let Some(open) = self.open.take().filter(|open| open.changed) else {
            return Ok(());
        };
        let environment = self.environment;
        let fail = |error| environment.fail(error);
        let key = open.first.to_bytes();
        if open.removed.is_full(open.first.number..open.end) {
            environment.messages.delete(self.txn, &key).map_err(fail)?;
            environment.removed.delete(self.txn, &key).map_err(fail)?;
            return Ok(());
        }
        let block = environment.block_from(self.txn, open.first)?.expect("the block was just read");
        let left: usize = (0..block.count()).filter(|index| !open.removed.holds(*index)).map(|index| block.len_at(index)).sum();
        if block.payload_bytes() < SMALL || left * SPARSE >= block.payload_bytes() {
            return put_sealed(environment.removed, self.txn, &key, &open.removed.0).map_err(fail);
        }
        let mut rewritten = Vec::new();
        let mut builder = BlockBuilder::new();
        for index in (0..block.count()).filter(|index| !open.removed.holds(*index)) {
            let key = open.first.at(open.first.number + u64::from(index));
            let payload = block.get(key.number)?.expect("what is not removed is there");
            if !builder.fits(key, payload.len()) {
                rewritten.push(std::mem::replace(&mut builder, BlockBuilder::new()));
            }
            builder.push(key, payload);
        }
        rewritten.push(builder);
        environment.messages.delete(self.txn, &key).map_err(fail)?;
        environment.removed.delete(self.txn, &key).map_err(fail)?;
        rewritten.iter().try_for_each(|block| put_block(environment, self.txn, block))
    }
}

/// One bit per number of a block, set when it has no message any more.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RemovedMap(Vec<u8>);

impl RemovedMap {
    /// Gaps count as removed, so that a block without messages is known by a full map.
    fn of_gaps(block: &Block<'_>) -> Self {
        let bytes = usize::try_from(block.count().div_ceil(8)).expect("usize holds a u32");
        let mut map = Self(vec![0; bytes]);
        for index in (0..block.count()).filter(|index| block.len_at(*index) == 0) {
            map.set_index(index);
        }
        map
    }

    /// Sets the bits of these numbers; says whether any was not set before.
    fn set(&mut self, first: u64, numbers: std::ops::Range<u64>) -> bool {
        let mut changed = false;
        for number in numbers {
            let index = u32::try_from(number - first).expect("a number inside the block");
            changed |= !self.holds(index);
            self.set_index(index);
        }
        changed
    }

    fn set_index(&mut self, index: u32) {
        let at = usize::try_from(index / 8).expect("usize holds a u32");
        self.0[at] |= 1 << (index % 8);
    }

    fn holds(&self, index: u32) -> bool {
        is_removed(&self.0, index)
    }

    fn is_full(&self, numbers: std::ops::Range<u64>) -> bool {
        let count = u32::try_from(numbers.end - numbers.start).expect("a block's count is a u32");
        (0..count).all(|index| self.holds(index))
    }
}

/// Reads a row of the table `removed`.
pub(super) fn is_removed(bits: &[u8], index: u32) -> bool {
    let at = usize::try_from(index / 8).expect("usize holds a u32");
    bits.get(at).is_some_and(|byte| byte & (1 << (index % 8)) != 0)
}

impl Environment {
    /// The block that holds `key`, or else the first one behind it of the same numbering.
    pub(super) fn block_from<'txn>(&self, txn: &'txn heed::RoTxn<'_>, key: MessageKey) -> Result<Option<Block<'txn>>, StoreError> {
        let fail = |error| self.fail(error);
        let bytes = key.to_bytes();
        let before = self.messages.get_lower_than_or_equal_to(txn, &bytes).map_err(fail)?;
        if let Some(block) = parse_beside(key, before)?.filter(|block| key.number < block.end()) {
            return Ok(Some(block));
        }
        let behind = self.messages.get_greater_than(txn, &bytes).map_err(fail)?;
        parse_beside(key, behind)
    }

    /// The bitmap of a block's removed messages; `None` when none has been removed.
    pub(super) fn removed_of<'txn>(&self, txn: &'txn heed::RoTxn<'_>, block: &Block<'_>) -> Result<Option<&'txn [u8]>, StoreError> {
        let key = block.first().to_bytes();
        let sealed = self.removed.get(txn, &key).map_err(|error| self.fail(error))?;
        let bytes = usize::try_from(block.count().div_ceil(8)).expect("usize holds a u32");
        sealed
            .map(|sealed| {
                let bits = unseal(&key, sealed).filter(|bits| bits.len() == bytes);
                let corrupt = || StoreError::CorruptRow { table: "removed", key: key.to_vec() };
                bits.ok_or_else(corrupt)
            })
            .transpose()
    }
}

fn parse_beside<'txn>(key: MessageKey, found: Option<(&'txn [u8], &'txn [u8])>) -> Result<Option<Block<'txn>>, StoreError> {
    let Some((first, value)) = found else {
        return Ok(None);
    };
    let corrupt = || StoreError::CorruptRow { table: "messages", key: first.to_vec() };
    let first = MessageKey::from_bytes(first).ok_or_else(corrupt)?;
    first.is_beside(key).then(|| Block::parse(first, value)).transpose()
}
