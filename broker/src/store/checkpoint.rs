//! [`Checkpoint`]: what a frozen generation changes, and how it is written.
//!
//! Payloads are streamed from the journal into blocks. A large checkpoint is several durable
//! transactions, because LMDB keeps what a transaction wrote in memory until it commits: all but
//! the last write only messages, which no row names yet and which `unfinished` records, so that
//! a crash between them leaves nothing behind. The last one changes the rows and `applied`.

use std::io::Write as _;
use std::ops::{Bound, Range};
use std::time::{Duration, Instant};

use heed::RwTxn;

use super::block::BlockBuilder;
use super::environment::{Environment, Table, put_sealed};
use super::payloads::{Location, Payloads, SpanReader};
use super::removal::Removal;
use super::{Applied, MessageKey, RowChange, StoreError};

/// Messages of one queue with consecutive numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRun {
    /// The key of the first.
    pub first: MessageKey,
    /// Where the payloads lie: of `first`, of the number after it, and so on.
    pub locations: Vec<Location>,
}

/// Consecutive numbers whose messages are to be removed; they need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedRun {
    /// The queue's id.
    pub queue: u32,
    /// The numbering, see [`MessageKey::space`].
    pub space: u8,
    /// The numbers.
    pub numbers: Range<u64>,
}

/// What a frozen generation changes. Messages are added first, then removed, then queues are
/// dropped, then rows change in the order given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// Changes of the core's rows.
    pub rows: Vec<RowChange>,
    /// Messages to add. A number is added once in the life of its queue.
    pub messages: Vec<MessageRun>,
    /// Messages to remove.
    pub removed: Vec<RemovedRun>,
    /// Queues whose messages all go. Their ids do not come back.
    pub dropped_queues: Vec<u32>,
    /// The last journal entry that this checkpoint includes.
    pub applied: Applied,
}

/// What a checkpoint cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checkpointed {
    /// The entry that the store reaches now.
    pub applied: Applied,
    /// Messages added.
    pub messages: u64,
    /// Bytes of messages and rows written, LMDB's own not counted.
    pub bytes: u64,
    /// Durable transactions.
    pub commits: u32,
    /// Time from start to the last commit's return.
    pub duration: Duration,
}

/// Writes a checkpoint; on return it is durable.
pub(super) fn write(
    environment: &Environment,
    mut checkpoint: Checkpoint,
    payloads: &dyn Payloads,
    chunk_bytes: usize,
) -> Result<Checkpointed, StoreError> {
    let start = Instant::now();
    let mut txn = environment.write()?;
    sweep_unfinished(environment, &mut txn)?;

    checkpoint.messages.sort_unstable_by_key(|run| run.first);
    let mut adder = Adder::new(environment, chunk_bytes);
    txn = adder.add(txn, &checkpoint.messages, payloads)?;
    let mut done = adder.done;
    drop(checkpoint.messages);

    Removal::new(environment, &mut txn).remove(checkpoint.removed)?;
    for queue in checkpoint.dropped_queues {
        drop_queue(environment, &mut txn, queue)?;
    }
    for change in &checkpoint.rows {
        done.bytes += change_row(environment, &mut txn, change)?;
    }
    environment.unfinished.clear(&mut txn).map_err(|error| environment.fail(error))?;
    environment.put_applied(&mut txn, checkpoint.applied)?;
    txn.commit().map_err(|error| environment.fail(error))?;

    done.applied = checkpoint.applied;
    done.commits += 1;
    done.duration = start.elapsed();
    Ok(done)
}

/// Adds messages, block by block, committing whenever a transaction holds enough.
struct Adder<'a> {
    environment: &'a Environment,
    /// Bytes of messages that a transaction holds before it is committed.
    chunk_bytes: usize,
    /// Bytes of messages in the open transaction.
    pending_bytes: usize,
    /// First key and last number of what is in the open transaction.
    pending: Vec<(MessageKey, u64)>,
    block: BlockBuilder,
    done: Checkpointed,
}

impl<'a> Adder<'a> {
    fn new(environment: &'a Environment, chunk_bytes: usize) -> Self {
        Self { environment, chunk_bytes, pending_bytes: 0, pending: Vec::new(), block: BlockBuilder::new(), done: Checkpointed::default() }
    }

    /// Returns the transaction that is open at the end.
    fn add(&mut self, mut txn: RwTxn<'a>, runs: &[MessageRun], payloads: &dyn Payloads) -> Result<RwTxn<'a>, StoreError> {
        let mut reader = SpanReader::new(payloads);
        for run in runs {
            let mut key = run.first;
            for (at, location) in run.locations.iter().enumerate() {
                if location.len > 0 {
                    let payload = reader.read(&run.locations[at..])?;
                    if !self.block.fits(key, payload.len()) {
                        txn = self.close_block(txn)?;
                    }
                    self.block.push(key, payload);
                    self.done.messages += 1;
                }
                key.number += 1;
            }
        }
        self.close_block(txn)
    }

    fn close_block(&mut self, mut txn: RwTxn<'a>) -> Result<RwTxn<'a>, StoreError> {
        if self.block.is_empty() {
            return Ok(txn);
        }
        if self.pending_bytes >= self.chunk_bytes {
            txn = self.commit_chunk(txn)?;
        }
        put_block(self.environment, &mut txn, &self.block)?;
        let (first, last) = (self.block.first(), self.block.last());
        match self.pending.last_mut() {
            Some((start, end)) if start.is_beside(first) => *end = last,
            _ => self.pending.push((first, last)),
        }
        self.pending_bytes += self.block.value_bytes();
        self.done.bytes += u64::try_from(self.block.value_bytes()).expect("a length fits");
        self.block.clear();
        Ok(txn)
    }

    fn commit_chunk(&mut self, mut txn: RwTxn<'a>) -> Result<RwTxn<'a>, StoreError> {
        let fail = |error| self.environment.fail(error);
        let unfinished = self.environment.unfinished;
        for (first, last) in self.pending.drain(..) {
            unfinished.put(&mut txn, &first.to_bytes(), &last.to_le_bytes()).map_err(fail)?;
        }
        txn.commit().map_err(fail)?;
        self.pending_bytes = 0;
        self.done.commits += 1;
        self.environment.write()
    }
}

/// Writes a block, replacing one of the same first number.
pub(super) fn put_block(environment: &Environment, txn: &mut RwTxn<'_>, block: &BlockBuilder) -> Result<(), StoreError> {
    let (head, table, payloads) = block.value();
    let key = block.first().to_bytes();
    environment
        .messages
        .put_reserved(txn, &key, block.value_bytes(), |space| {
            space.write_all(&head)?;
            space.write_all(table)?;
            space.write_all(payloads)
        })
        .map_err(|error| environment.fail(error))
}

/// Removes what a checkpoint that never ended has left.
pub(super) fn sweep_unfinished(environment: &Environment, txn: &mut RwTxn<'_>) -> Result<bool, StoreError> {
    let fail = |error| environment.fail(error);
    let mut swept = false;
    while let Some((first, last)) = environment.unfinished.first(txn).map_err(fail)? {
        let (key, last) = (first.to_vec(), last.try_into().ok().map(u64::from_le_bytes));
        let corrupt = || StoreError::CorruptRow { table: "unfinished", key: key.clone() };
        let first = MessageKey::from_bytes(&key).ok_or_else(corrupt)?;
        let last = first.at(last.ok_or_else(corrupt)?).to_bytes();
        let range = (Bound::Included(&key[..]), Bound::Included(&last[..]));
        environment.messages.delete_range(txn, &range).map_err(fail)?;
        environment.unfinished.delete(txn, &key).map_err(fail)?;
        swept = true;
    }
    Ok(swept)
}

fn drop_queue(environment: &Environment, txn: &mut RwTxn<'_>, queue: u32) -> Result<(), StoreError> {
    for table in [environment.messages, environment.removed] {
        delete_prefix(table, txn, &queue.to_be_bytes()).map_err(|e| environment.fail(e))?;
    }
    Ok(())
}

/// Returns the bytes written.
fn change_row(environment: &Environment, txn: &mut RwTxn<'_>, change: &RowChange) -> Result<u64, StoreError> {
    let rows = environment.rows;
    let bytes = match change {
        RowChange::Put { key, value } => put_sealed(rows, txn, key, value).map(|()| key.len() + value.len()),
        RowChange::Delete { key } => rows.delete(txn, key).map(|_| 0),
        RowChange::DeletePrefix { prefix } => delete_prefix(rows, txn, prefix).map(|()| 0),
    };
    let bytes = bytes.map_err(|error| environment.fail(error))?;
    Ok(u64::try_from(bytes).expect("a length fits"))
}

fn delete_prefix(table: Table, txn: &mut RwTxn<'_>, prefix: &[u8]) -> heed::Result<()> {
    if prefix.is_empty() {
        return table.clear(txn);
    }
    let mut end = prefix.to_vec();
    // The first key behind the prefix: drop what cannot be raised, raise the byte before it.
    while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
    let end = match end.last_mut() {
        Some(byte) => {
            *byte += 1;
            Bound::Excluded(&end[..])
        }
        None => Bound::Unbounded,
    };
    table.delete_range(txn, &(Bound::Included(prefix), end)).map(|_| ())
}
