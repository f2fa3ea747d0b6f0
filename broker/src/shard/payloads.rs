//! Where payloads are: in the tail cache, in the journal, or in the store. Memory holds positions until the next checkpoint, then nothing.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use qwerq_core::{QueueId, Seq, Space};
use rustc_hash::FxHashMap;

use crate::files::{DiskFiles, Files};
use crate::journal::{Appended, Applied, Position, Reader};
use crate::store::{Location, MessageKey, MessageRun, StoreReader};

use super::fault::Fault;

/// How many bytes of the last batches are kept in memory.
const TAIL_BYTES_MAX: usize = 8 << 20;

/// How much is read from the store at once, when somebody works through a backlog.
const AHEAD_BYTES: usize = 256 << 10;

/// Finds the stored form of messages.
pub(super) struct Payloads {
    pub(super) locations: Locations,
    tail: Tail,
    journal: Reader<<DiskFiles as Files>::File>,
    store: StoreReader,
    ahead: Ahead,
}

/// Where messages are that are not in the store yet.
#[derive(Default)]
pub(super) struct Locations {
    /// Messages of the running generation.
    fresh: FxHashMap<(QueueId, Space), Positions>,
    /// Messages of the generation that a checkpoint is writing.
    frozen: FxHashMap<(QueueId, Space), Positions>,
}

/// The name of a numbering in the store.
pub(super) fn store_space(space: Space) -> u8 {
    match space {
        Space::Live => MessageKey::LIVE,
        Space::Delayed => MessageKey::DELAYED,
    }
}

/// Positions of consecutive messages of a queue; a length of 0 marks one that is gone.
#[derive(Clone, Default)]
struct Positions {
    first: Seq,
    locations: VecDeque<Location>,
}

impl Positions {
    fn index(&self, seq: Seq) -> Option<usize> {
        usize::try_from(seq.checked_sub(self.first)?).ok().filter(|index| *index < self.locations.len())
    }

    fn get(&self, seq: Seq) -> Option<Location> {
        self.locations.get(self.index(seq)?).copied().filter(|location| location.len > 0)
    }

    fn remove(&mut self, range: Range<Seq>) {
        let end = range.end.min(self.first + self.locations.len() as u64);
        for seq in range.start.max(self.first)..end {
            if let Some(index) = self.index(seq) {
                self.locations[index].len = 0;
            }
        }
        while self.locations.front().is_some_and(|location| location.len == 0) {
            self.locations.pop_front();
            self.first += 1;
        }
    }
}

/// The last batches, as they were written.
#[derive(Default)]
struct Tail {
    batches: VecDeque<(Position, Bytes)>,
    bytes: usize,
}

impl Tail {
    /// Keeps a batch; gives back the memory of an old one, if it can be reused.
    fn push(&mut self, appended: &Appended) -> Option<Vec<u8>> {
        self.bytes += appended.buffer.len();
        self.batches.push_back((appended.position(0), appended.buffer.clone()));
        let mut reusable = None;
        while self.bytes > TAIL_BYTES_MAX {
            let (_, old) = self.batches.pop_front()?;
            self.bytes -= old.len();
            reusable = old.try_into_mut().ok().map(Vec::from);
        }
        reusable
    }

    fn get(&self, location: Location) -> Option<&[u8]> {
        let at = Position { segment: location.segment, offset: location.offset };
        let after = self.batches.partition_point(|(position, _)| *position <= at);
        let (position, bytes) = self.batches.get(after.checked_sub(1)?)?;
        if position.segment != at.segment {
            return None;
        }
        let start = (at.offset - position.offset) as usize;
        bytes.get(start..start + location.len as usize)
    }
}

/// Messages read from the store together with the one that was asked for.
#[derive(Default)]
struct Ahead {
    of: Option<(QueueId, Space)>,
    messages: VecDeque<(u64, Vec<u8>)>,
}

impl Locations {
    fn get(&self, at: (QueueId, Space), number: u64) -> Option<Location> {
        let find = |generation: &FxHashMap<(QueueId, Space), Positions>| generation.get(&at).and_then(|positions| positions.get(number));
        find(&self.fresh).or_else(|| find(&self.frozen))
    }

    /// Takes note of where new messages of a queue are; `first` follows the last one's number.
    pub(super) fn add(&mut self, at: (QueueId, Space), first: u64, locations: impl Iterator<Item = Location>) {
        let positions = self.fresh.entry(at).or_default();
        if positions.locations.is_empty() {
            positions.first = first;
        }
        debug_assert_eq!(positions.first + positions.locations.len() as u64, first, "sequences are given without gaps");
        positions.locations.extend(locations);
    }

    /// Forgets messages; those in the store leave with the next checkpoint.
    pub(super) fn remove(&mut self, at: (QueueId, Space), range: Range<u64>) {
        if let Some(positions) = self.fresh.get_mut(&at) {
            positions.remove(range);
        }
    }

    /// Forgets a queue's messages that are not to be kept.
    pub(super) fn retain(&mut self, at: (QueueId, Space), keep: impl Fn(u64) -> bool) {
        if let Some(positions) = self.fresh.get_mut(&at) {
            let gone: Vec<_> = (positions.first..).take(positions.locations.len()).filter(|seq| !keep(*seq)).collect();
            gone.into_iter().for_each(|seq| positions.remove(seq..seq + 1));
        }
    }

    /// Forgets a queue.
    pub(super) fn drop_queue(&mut self, queue: QueueId) {
        for space in [Space::Live, Space::Delayed] {
            self.fresh.remove(&(queue, space));
            self.frozen.remove(&(queue, space));
        }
    }

    /// Ends the generation: what a checkpoint must write.
    pub(super) fn freeze(&mut self) -> Vec<MessageRun> {
        debug_assert!(self.frozen.is_empty(), "one checkpoint at a time");
        self.fresh.retain(|_, positions| !positions.locations.is_empty());
        self.frozen = std::mem::take(&mut self.fresh);
        let run = |((queue, space), positions): (&(QueueId, Space), &Positions)| MessageRun {
            first: MessageKey { queue: queue.0, space: store_space(*space), number: positions.first },
            locations: positions.locations.iter().copied().collect(),
        };
        self.frozen.iter().map(run).collect()
    }

    /// The checkpoint is durable: the frozen generation is in the store.
    pub(super) fn thaw(&mut self) {
        self.frozen.clear();
    }
}

impl Payloads {
    pub(super) fn new(locations: Locations, journal: Reader<<DiskFiles as Files>::File>, store: StoreReader) -> Payloads {
        Payloads { locations, tail: Tail::default(), journal, store, ahead: Ahead::default() }
    }

    /// Takes note of a written batch; gives back a buffer for the next one, when there is one.
    pub(super) fn keep(&mut self, appended: &Appended) -> Option<Vec<u8>> {
        self.tail.push(appended)
    }

    /// What a checkpoint keeps of the journal's record at `index`.
    pub(super) fn applied(&self, index: u64) -> Result<Applied, Fault> {
        Ok(self.journal.applied(index)?)
    }

    /// Bytes of the last batches in memory.
    pub(super) fn tail_bytes(&self) -> u64 {
        self.tail.bytes as u64
    }

    /// Calls `each` with a message's stored form.
    pub(super) fn with<T>(&mut self, queue: QueueId, seq: Seq, each: impl FnOnce(&[u8]) -> T) -> Result<T, Fault> {
        self.with_in((queue, Space::Live), seq, each)
    }

    /// As [`Payloads::with`], by the number of either numbering.
    pub(super) fn with_in<T>(&mut self, at: (QueueId, Space), number: u64, each: impl FnOnce(&[u8]) -> T) -> Result<T, Fault> {
        let Some(location) = self.locations.get(at, number) else {
            return self.with_stored(at, number, each);
        };
        if let Some(bytes) = self.tail.get(location) {
            return Ok(each(bytes));
        }
        let position = Position { segment: location.segment, offset: location.offset };
        let bytes = self.journal.read(position, location.len as usize)?;
        Ok(each(&bytes))
    }

    fn with_stored<T>(&mut self, at: (QueueId, Space), seq: u64, each: impl FnOnce(&[u8]) -> T) -> Result<T, Fault> {
        let (queue, space) = at;
        let ahead = &mut self.ahead;
        if ahead.of == Some(at) {
            while ahead.messages.front().is_some_and(|(number, _)| *number < seq) {
                ahead.messages.pop_front();
            }
        } else {
            ahead.messages.clear();
        }
        if ahead.messages.front().is_none_or(|(number, _)| *number != seq) {
            ahead.of = Some(at);
            ahead.messages.clear();
            let messages = &mut ahead.messages;
            let first = MessageKey { queue: queue.0, space: store_space(space), number: seq };
            self.store.read_many(first, AHEAD_BYTES, &mut |number, bytes| messages.push_back((number, bytes.to_vec())))?;
        }
        match ahead.messages.front() {
            Some((number, bytes)) if *number == seq => Ok(each(bytes)),
            _ => Err(Fault::MissingMessage { queue: queue.0, seq }),
        }
    }
}
