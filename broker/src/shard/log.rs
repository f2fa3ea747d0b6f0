//! The batch being collected and the journal that it goes to. Entries are written straight into the batch's buffer; acks of one group
//! share an entry.

use bytes::Bytes;
use qwerq_core::dispatch::{DeadLetter, GroupKey};
use qwerq_core::entry::{
    AttemptEnded, Ended, ItemHead, ItemWriter, MESSAGES_PER_ENTRY_MAX, MOVED_KIND, Moved, Origin, PUBLISH_KIND, Publish, Settle,
};
use qwerq_core::{Body, Entry, Millis, Proposal, QueueId, Seq};
use rustc_hash::FxHashMap;

use crate::files::DiskFiles;
use crate::journal::{Appended, Journal, JournalError};

use super::turn::{self, Draft};

/// An entry of the batch, and where its payload begins in the buffer.
#[derive(Debug)]
pub(super) struct Logged {
    pub(super) now: Millis,
    pub(super) body: Body,
    pub(super) payload_at: usize,
}

/// A batch that is durable as far as the durability mode goes.
pub(super) struct Committed {
    pub(super) appended: Appended,
    pub(super) entries: Vec<Logged>,
}

/// The journal and the batch that is being collected for it.
pub(super) struct Log {
    /// Raft's log thread has it in a cluster.
    journal: Option<Journal<DiskFiles>>,
    batch_bytes_max: usize,
    batch: Draft,
    entries: Vec<Logged>,
    settles: FxHashMap<GroupKey, Vec<Seq>>,
    ended: FxHashMap<GroupKey, Vec<Ended>>,
    /// Groups with settles or ended attempts, in the order in which they came up.
    groups: Vec<GroupKey>,
    /// Dead letters, whose payloads have to be read before they can be written.
    letters: Vec<DeadLetter>,
}

/// A message that moves, in the form in which it arrives.
pub(super) struct MovedMessage {
    pub(super) head: ItemHead,
    pub(super) stored: Vec<u8>,
}

impl Log {
    pub(super) fn new(journal: Journal<DiskFiles>) -> Log {
        Log::with(journal.batch_bytes_max(), Some(journal), Draft::records())
    }

    /// A log whose batches are proposed to a cluster, whose journals take as much.
    pub(super) fn proposing(batch_bytes_max: usize) -> Log {
        Log::with(batch_bytes_max, None, Draft::proposal(Vec::new()))
    }

    fn with(batch_bytes_max: usize, journal: Option<Journal<DiskFiles>>, batch: Draft) -> Log {
        Log {
            journal,
            batch_bytes_max,
            batch,
            entries: Vec::new(),
            settles: FxHashMap::default(),
            ended: FxHashMap::default(),
            groups: Vec::new(),
            letters: Vec::new(),
        }
    }

    /// The journal, of a broker that runs alone.
    pub(super) fn journal(&mut self) -> Option<&mut Journal<DiskFiles>> {
        self.journal.as_mut()
    }

    /// What the journal takes on the disk, of a broker that runs alone.
    pub(super) fn journal_bytes(&self) -> Option<u64> {
        self.journal.as_ref().map(Journal::disk_bytes)
    }

    /// Entries so far.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing to commit.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.groups.is_empty() && self.letters.is_empty()
    }

    /// Takes the dead letters that wait to be written.
    pub(super) fn take_letters(&mut self) -> Vec<DeadLetter> {
        std::mem::take(&mut self.letters)
    }

    /// Bytes of the batch so far.
    pub(super) fn bytes(&self) -> usize {
        self.batch.len()
    }

    /// Whether another `bytes` fit into the batch.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        // A record's own header and the entry's varints are small beside this.
        const SLACK: usize = 64 << 10;
        self.batch.len() + bytes + SLACK <= self.batch_bytes_max
    }

    /// Adds an entry that carries no payloads.
    pub(super) fn push(&mut self, now: Millis, body: Body) {
        self.batch.begin_entry(body.kind());
        let payload_at = self.batch.buffer().len();
        let entry = Entry { now, body };
        entry.encode(self.batch.buffer());
        self.batch.end_entry();
        self.entries.push(Logged { now, body: entry.body, payload_at });
    }

    /// Begins a Publish entry; [`Log::end_publish`] ends it.
    pub(super) fn begin_publish(&mut self, now: Millis, queue: QueueId, items: usize) -> (ItemWriter, usize) {
        self.batch.begin_entry(PUBLISH_KIND);
        let payload_at = self.batch.buffer().len();
        (ItemWriter::begin_publish(self.batch.buffer(), now, queue, items), payload_at)
    }

    /// The batch's buffer, for the items of a Publish entry.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        self.batch.buffer()
    }

    /// Ends a Publish entry; one without items leaves no trace.
    pub(super) fn end_publish(&mut self, now: Millis, queue: QueueId, writer: ItemWriter, payload_at: usize) {
        if writer.is_empty() {
            self.batch.abandon_entry();
            return;
        }
        self.batch.end_entry();
        self.entries.push(Logged { now, body: Body::Publish(Publish { queue, items: writer.finish() }), payload_at });
    }

    /// Adds a Moved entry, with a message for each that the origin names.
    pub(super) fn push_moved(&mut self, now: Millis, origin: Origin, messages: Vec<MovedMessage>) {
        self.batch.begin_entry(MOVED_KIND);
        let payload_at = self.batch.buffer().len();
        let mut writer = ItemWriter::begin_moved(self.batch.buffer(), now, &origin);
        for MovedMessage { head, stored } in messages {
            writer.item(self.batch.buffer(), head, |out| out.extend_from_slice(&stored));
        }
        self.batch.end_entry();
        self.entries.push(Logged { now, body: Body::Moved(Moved { origin, items: writer.finish() }), payload_at });
    }

    /// Adds what dispatch proposes.
    pub(super) fn propose(&mut self, now: Millis, proposal: Proposal) {
        match proposal {
            Proposal::Settle { group, seq, .. } => {
                self.note_group(group);
                self.settles.entry(group).or_default().push(seq);
            }
            Proposal::AttemptEnded { group, ended } => {
                self.note_group(group);
                self.ended.entry(group).or_default().push(ended);
            }
            Proposal::DeadLetter(letter) => self.letters.push(*letter),
            Proposal::Remove { queue, seqs, .. } => self.push(now, Body::Removed { queue, seqs }),
            Proposal::Floor { queue, to } => self.push(now, Body::Floor { queue, to }),
            Proposal::DeleteGroup { group: GroupKey { queue, group } } => self.push(now, Body::GroupDeleted { queue, group }),
        }
    }

    fn note_group(&mut self, group: GroupKey) {
        if self.settles.get(&group).is_none_or(Vec::is_empty) && self.ended.get(&group).is_none_or(Vec::is_empty) {
            self.groups.push(group);
        }
    }

    /// Writes the batch; with the durability mode `fsync` it is on the disk when this returns. `None`: there was nothing to write.
    pub(super) fn commit(&mut self, now: Millis) -> Result<Option<Committed>, JournalError> {
        self.gather(now);
        if self.entries.is_empty() {
            return Ok(None);
        }
        let Draft::Records(batch) = std::mem::replace(&mut self.batch, Draft::records()) else {
            unreachable!("a batch that is to be proposed is not written");
        };
        let appended = self.journal.as_mut().expect("a broker that runs alone has its journal").append(batch)?;
        Ok(Some(Committed { appended, entries: std::mem::take(&mut self.entries) }))
    }

    /// The batch as a proposal to the cluster. `None`: there was nothing to propose.
    pub(super) fn proposal(&mut self, now: Millis, term: u64, serial: u64) -> Option<(Bytes, Vec<Logged>)> {
        self.gather(now);
        if self.entries.is_empty() {
            return None;
        }
        let next = self.batch.next(Vec::new());
        let Draft::Proposal { buffer, .. } = std::mem::replace(&mut self.batch, next) else {
            unreachable!("a batch that is to be written is not proposed");
        };
        Some((turn::seal(buffer, term, serial), std::mem::take(&mut self.entries)))
    }

    /// Forgets the batch.
    pub(super) fn discard(&mut self) {
        self.batch = self.batch.next(Vec::new());
        self.entries.clear();
        self.settles.clear();
        self.ended.clear();
        self.groups.clear();
        self.letters.clear();
    }

    /// Makes entries of what groups have to say.
    fn gather(&mut self, now: Millis) {
        for group in std::mem::take(&mut self.groups) {
            let settles = self.settles.get_mut(&group).map(std::mem::take).unwrap_or_default();
            for seqs in settles.chunks(MESSAGES_PER_ENTRY_MAX) {
                self.push(now, Body::Settle(Settle { queue: group.queue, group: group.group, seqs: seqs.to_vec() }));
            }
            let ended = self.ended.get_mut(&group).map(std::mem::take).unwrap_or_default();
            for ended in ended.chunks(MESSAGES_PER_ENTRY_MAX) {
                self.push(now, Body::AttemptEnded(AttemptEnded { queue: group.queue, group: group.group, ended: ended.to_vec() }));
            }
        }
    }

    /// Lets the next batch use this memory.
    pub(super) fn reuse(&mut self, buffer: Vec<u8>) {
        if self.batch.is_empty() {
            self.batch = self.batch.next(buffer);
        }
    }
}
