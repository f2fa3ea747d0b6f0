//! The rules of readers: a position of their own, credit that is used up, no leases, nothing left behind.

use qwerq_core::dispatch::{Bounds, Reading};
use qwerq_core::options::Mode;
use qwerq_core::{QueueId, Rejection, Seq, SubscriptionKey};

use super::Model;

pub(crate) struct Reader {
    pub(crate) key: SubscriptionKey,
    queue: QueueId,
    next: Seq,
    credit: Bounds,
}

impl Model {
    pub(super) fn is_reader(&self, key: SubscriptionKey) -> bool {
        self.readers.iter().any(|reader| reader.key == key)
    }

    pub(crate) fn read(&mut self, key: SubscriptionKey, queue: QueueId, from: Seq, credit: Bounds) -> Result<(), Rejection> {
        if self.open(key).is_some() || self.is_reader(key) {
            return Err(Rejection::SubscriptionExists { number: key.number });
        }
        self.readers.push(Reader { key, queue, next: from, credit });
        Ok(())
    }

    pub(super) fn grant(&mut self, key: SubscriptionKey, credit: Bounds) -> bool {
        self.readers.iter_mut().find(|reader| reader.key == key).map(|reader| reader.credit = credit).is_some()
    }

    pub(super) fn close_reader(&mut self, key: SubscriptionKey) -> bool {
        let before = self.readers.len();
        self.readers.retain(|reader| reader.key != key);
        self.readers.len() < before
    }

    pub(super) fn end_readers(&mut self, queue: QueueId) {
        let ended = self.readers.extract_if(.., |reader| reader.queue == queue);
        self.ended_readers.extend(ended.map(|reader| reader.key));
    }

    /// Readers whose queue is gone since the last call, sorted.
    pub(crate) fn take_ended_readers(&mut self) -> Vec<SubscriptionKey> {
        self.ended_readers.sort_unstable();
        std::mem::take(&mut self.ended_readers)
    }

    /// What a reader with credit reads next, and how much of a stream it has missed.
    fn next_of(&self, reader: &Reader) -> Option<(Seq, u64)> {
        let queue = &self.queues[&reader.queue];
        let (seq, _) = queue.stored.range(reader.next..).next()?;
        let missed = if queue.options.mode == Mode::Stream { seq - reader.next } else { 0 };
        (reader.credit.messages > 0 && reader.credit.bytes > 0).then_some((*seq, missed))
    }

    /// Holds a reading against the rules and takes note of it.
    pub(crate) fn reads(&mut self, reading: &Reading) {
        let at = self.readers.iter().position(|reader| reader.key == reading.subscription).expect("a reading goes to a reader");
        let reader = &self.readers[at];
        assert_eq!(
            (reading.queue, Some((reading.seq, reading.skipped))),
            (reader.queue, self.next_of(reader)),
            "what {:?} reads",
            reader.key
        );
        let size = self.queues[&reading.queue].stored[&reading.seq].size;
        let reader = &mut self.readers[at];
        reader.next = reading.seq + 1;
        reader.credit.messages -= 1;
        reader.credit.bytes = reader.credit.bytes.saturating_sub(size.into());
    }

    pub(crate) fn check_nothing_is_unread(&self) {
        for reader in &self.readers {
            assert_eq!(self.next_of(reader), None, "{:?} has credit, and this waits to be read", reader.key);
        }
    }
}
