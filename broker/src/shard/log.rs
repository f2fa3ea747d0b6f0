//! The batch being collected and the journal that it goes to. Entries are written straight into the batch's buffer; acks of one group
//! share an entry.

use qwerq_core::dispatch::GroupKey;
use qwerq_core::entry::{AttemptEnded, Ended, MESSAGES_PER_ENTRY_MAX, PUBLISH_KIND, Publish, PublishWriter, Settle};
use qwerq_core::{Body, Entry, Millis, Proposal, QueueId, Seq};
use rustc_hash::FxHashMap;

use crate::files::DiskFiles;
use crate::journal::{Appended, Batch, Journal, JournalError};

/// Records carry no Raft term on a single node.
const TERM: u64 = 0;

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
    journal: Journal<DiskFiles>,
    batch: Batch,
    entries: Vec<Logged>,
    settles: FxHashMap<GroupKey, Vec<Seq>>,
    ended: FxHashMap<GroupKey, Vec<Ended>>,
    /// Groups with settles or ended attempts, in the order in which they came up.
    groups: Vec<GroupKey>,
}

impl Log {
    pub(super) fn new(journal: Journal<DiskFiles>) -> Log {
        Log {
            journal,
            batch: Batch::new(),
            entries: Vec::new(),
            settles: FxHashMap::default(),
            ended: FxHashMap::default(),
            groups: Vec::new(),
        }
    }

    pub(super) fn journal(&mut self) -> &mut Journal<DiskFiles> {
        &mut self.journal
    }

    /// Entries so far.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing to commit.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.groups.is_empty()
    }

    /// Bytes of the batch so far.
    pub(super) fn bytes(&self) -> usize {
        self.batch.len()
    }

    /// Whether another `bytes` fit into the batch.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        // A record's own header and the entry's varints are small beside this.
        const SLACK: usize = 64 << 10;
        self.batch.len() + bytes + SLACK <= self.journal.batch_bytes_max()
    }

    /// Adds an entry that carries no payloads.
    pub(super) fn push(&mut self, now: Millis, body: Body) {
        self.batch.begin_record(TERM, body.kind());
        let payload_at = self.batch.buffer().len();
        let entry = Entry { now, body };
        entry.encode(self.batch.buffer());
        self.batch.end_record();
        self.entries.push(Logged { now, body: entry.body, payload_at });
    }

    /// Begins a Publish entry; [`Log::end_publish`] ends it.
    pub(super) fn begin_publish(&mut self, now: Millis, queue: QueueId, items: usize) -> (PublishWriter, usize) {
        self.batch.begin_record(TERM, PUBLISH_KIND);
        let payload_at = self.batch.buffer().len();
        (PublishWriter::begin(self.batch.buffer(), now, queue, items), payload_at)
    }

    /// The batch's buffer, for the items of a Publish entry.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        self.batch.buffer()
    }

    /// Ends a Publish entry; one without items leaves no trace.
    pub(super) fn end_publish(&mut self, now: Millis, writer: PublishWriter, payload_at: usize) {
        if writer.is_empty() {
            self.batch.abandon_record();
            return;
        }
        self.batch.end_record();
        let publish: Publish = writer.finish();
        self.entries.push(Logged { now, body: Body::Publish(publish), payload_at });
    }

    /// Adds what dispatch proposes.
    pub(super) fn propose(&mut self, proposal: Proposal) {
        let (Proposal::Settle { group, .. } | Proposal::AttemptEnded { group, .. }) = proposal;
        if self.settles.get(&group).is_none_or(Vec::is_empty) && self.ended.get(&group).is_none_or(Vec::is_empty) {
            self.groups.push(group);
        }
        match proposal {
            Proposal::Settle { seq, .. } => self.settles.entry(group).or_default().push(seq),
            Proposal::AttemptEnded { ended, .. } => self.ended.entry(group).or_default().push(ended),
        }
    }

    /// Writes the batch; with the durability mode `fsync` it is on the disk when this returns. `None`: there was nothing to write.
    pub(super) fn commit(&mut self, now: Millis) -> Result<Option<Committed>, JournalError> {
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
        if self.entries.is_empty() {
            return Ok(None);
        }
        let batch = std::mem::take(&mut self.batch);
        let appended = self.journal.append(batch)?;
        Ok(Some(Committed { appended, entries: std::mem::take(&mut self.entries) }))
    }

    /// Lets the next batch use this memory.
    pub(super) fn reuse(&mut self, buffer: Vec<u8>) {
        if self.batch.is_empty() {
            self.batch = Batch::with_buffer(buffer);
        }
    }
}
