//! Publishes of one queue on their way out: they are encoded where they are made and collect in batches, one batch becoming one PUBLISH.
//!
//! Knows no socket; `session` takes batches off lanes whenever the connection can carry them, so nothing waits for a timer.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use crate::lock::Lock;
use crate::message::{Message, Published};
use crate::outcome::Outcome;
use crate::publish_frame::Item;
use crate::retry_key::RetryKeys;

/// Messages of one PUBLISH frame at most.
pub(crate) const BATCH_MESSAGES_MAX: usize = 256;

/// Encoded bytes of one PUBLISH frame at most, unless a single message is larger.
pub(crate) const BATCH_BYTES_MAX: usize = 256 * 1024;

/// The way out of one queue, under one contract.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) queue: String,
    pub(crate) contract: Option<[u8; 32]>,
    state: Lock<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    batches: VecDeque<Batch>,
    /// The lane is in the connection's list of lanes with work.
    listed: bool,
}

/// One PUBLISH frame's worth of messages.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The `items` fields, encoded.
    pub(crate) items: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) atomic: bool,
    /// How often the broker has answered `overloaded`.
    pub(crate) refused: u32,
    /// When a connection was first lost on which it may have been stored.
    pub(crate) lost_at: Option<Instant>,
    pub(crate) outcome: Arc<Outcome<Published>>,
    /// More messages may join.
    open: bool,
}

/// One message of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// Where it ends in `items`.
    pub(crate) end: u32,
    /// Its place in the outcome.
    pub(crate) index: u32,
    /// Messages that it took from the window: 1, except in an atomic batch larger than the window.
    pub(crate) window_messages: u32,
    /// Payload bytes that it took from the window.
    pub(crate) window_bytes: u32,
    pub(crate) key: Key,
}

/// What lets a message be sent twice: an idempotency key, and whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    None,
    Caller,
    /// One of the client's own, by its number; see `retry_key`.
    Client(u64),
}

/// Where a message's result will be.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) outcome: Arc<Outcome<Published>>,
    pub(crate) index: u32,
}

impl Lane {
    pub(crate) fn new(queue: String, contract: Option<[u8; 32]>) -> Lane {
        Lane { queue, contract, state: Lock::default() }
    }

    /// Appends messages, each with what it took from the window, to batches of at most `frame_room` bytes; calls `placed` with each one's
    /// place. With `keys`, those without an idempotency key get one. Says whether the lane must be listed.
    pub(crate) fn push(
        &self,
        messages: impl Iterator<Item = (Message, u32)>,
        frame_room: usize,
        keys: Option<&RetryKeys>,
        mut placed: impl FnMut(&Arc<Outcome<Published>>, u32),
    ) -> bool {
        let mut state = self.state.lock();
        for (message, window_bytes) in messages {
            let item = Item::new(&message, keys);
            let bytes = item.encoded_len();
            if !state.batches.back().is_some_and(|batch| batch.has_room(bytes, frame_room)) {
                state.batches.push_back(Batch::new(false));
            }
            let batch = state.batches.back_mut().expect("one was pushed if there was none");
            let index = batch.append(&item, window_bytes);
            placed(&batch.outcome, index);
        }
        debug_assert!(!state.batches.is_empty());
        !std::mem::replace(&mut state.listed, true)
    }

    /// Appends messages that go out in a frame of their own, all or nothing. Says whether the lane must be listed.
    pub(crate) fn push_atomic(&self, batch: Batch) -> bool {
        let mut state = self.state.lock();
        state.batches.push_back(batch);
        !std::mem::replace(&mut state.listed, true)
    }

    /// Puts batches back in front of all others, in their order. Says whether the lane must be listed.
    pub(crate) fn push_front(&self, batches: impl DoubleEndedIterator<Item = Batch>) -> bool {
        let mut state = self.state.lock();
        for mut batch in batches.rev() {
            batch.open = false;
            state.batches.push_front(batch);
        }
        !state.batches.is_empty() && !std::mem::replace(&mut state.listed, true)
    }

    /// Takes the next batch; without one the lane is no longer listed.
    pub(crate) fn take(&self) -> Option<Batch> {
        let mut state = self.state.lock();
        let batch = state.batches.pop_front();
        state.listed = batch.is_some();
        batch
    }
}

impl Batch {
    fn new(atomic: bool) -> Batch {
        Batch {
            items: Vec::new(),
            entries: Vec::new(),
            atomic,
            refused: 0,
            lost_at: None,
            outcome: Arc::new(Outcome::new()),
            open: !atomic,
        }
    }

    /// A batch that is stored as a whole or not at all.
    pub(crate) fn atomic(messages: impl Iterator<Item = Message>, keys: Option<&RetryKeys>) -> Batch {
        let mut batch = Batch::new(true);
        for message in messages {
            batch.append(&Item::new(&message, keys), 0);
        }
        batch
    }

    /// Writes down what the batch as a whole took from the window.
    pub(crate) fn charge(&mut self, messages: u32, bytes: u32) {
        for (position, entry) in self.entries.iter_mut().enumerate() {
            entry.window_messages = u32::from(position < messages as usize);
            entry.window_bytes = if position == 0 { bytes } else { 0 };
        }
    }

    fn has_room(&self, bytes: usize, frame_room: usize) -> bool {
        self.open && self.entries.len() < BATCH_MESSAGES_MAX && self.items.len() + bytes <= BATCH_BYTES_MAX.min(frame_room)
    }

    fn append(&mut self, item: &Item<'_>, window_bytes: u32) -> u32 {
        let index = u32::try_from(self.entries.len()).expect("a batch holds far fewer than 4 G messages");
        item.encode(&mut self.items);
        let end = u32::try_from(self.items.len()).expect("a frame is far below 4 GiB");
        self.entries.push(Entry { end, index, window_messages: 1, window_bytes, key: item.key() });
        index
    }

    /// The part of the batch whose entries satisfy `keep`, still answering to the same places.
    pub(crate) fn filter(&self, mut keep: impl FnMut(usize, &Entry) -> bool) -> Option<Batch> {
        let mut part = Batch {
            outcome: Arc::clone(&self.outcome),
            refused: self.refused,
            lost_at: self.lost_at,
            open: false,
            ..Batch::new(self.atomic)
        };
        let mut start = 0;
        for (position, entry) in self.entries.iter().enumerate() {
            let end = entry.end as usize;
            if keep(position, entry) {
                part.items.extend_from_slice(&self.items[start..end]);
                let end = u32::try_from(part.items.len()).expect("a part is no longer than the whole");
                part.entries.push(Entry { end, ..*entry });
            }
            start = end;
        }
        (!part.entries.is_empty()).then_some(part)
    }
}
