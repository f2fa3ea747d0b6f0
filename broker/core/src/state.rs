//! The durable machine: queues, groups, contracts. It changes only by [`State::apply`].
//!
//! It knows nothing of leases, connections or files. What changed since the last checkpoint is taken with [`State::take_changes`].
//! Messages that change their place (due, dead-lettered, redriven, purged) and groups that do are in `state/moves.rs`.

mod moves;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::delayed::{DelayedKey, DelayedMessage};
use crate::entry::{Applied, AttemptEnded, Body, Cause, Entry, Item, Publish, Settle};
use crate::group::{Attempt, Group};
use crate::ids::{GroupId, Millis, QueueId, Seq};
use crate::interval::IntervalSet;
use crate::messages::{CHUNK, Facts};
use crate::options::{Mode, QueueOptions};
use crate::queue::{Queue, Remembered};
use crate::retries::{ClientId, RetryKey};
use crate::row::{self, RowChange};
use crate::schema::{SchemaFile, SchemaRecord};

/// Everything durable of one shard.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub(crate) clock: Millis,
    pub(crate) epoch: u64,
    pub(crate) next_queue: u32,
    pub(crate) next_group: u32,
    /// Messages ever admitted; the counter of ULIDs.
    pub(crate) admitted: u64,
    pub(crate) queues: FxHashMap<QueueId, Queue>,
    pub(crate) names: BTreeMap<Arc<str>, QueueId>,
    pub(crate) files: BTreeMap<[u8; 32], SchemaFile>,
    /// When each queue's first delayed message falls due; follows from the queues.
    pub(crate) dues: BTreeSet<(Millis, QueueId)>,
    dirty: Dirty,
}

/// What the next checkpoint must write.
#[derive(Debug, Clone, Default)]
struct Dirty {
    queues: BTreeSet<QueueId>,
    groups: BTreeSet<(QueueId, GroupId)>,
    chunks: BTreeSet<(QueueId, u64)>,
    dedup: Vec<(QueueId, Arc<str>)>,
    retries: BTreeSet<(QueueId, ClientId)>,
    schemas: BTreeSet<(QueueId, u32)>,
    schema_marks: BTreeSet<QueueId>,
    files: BTreeSet<[u8; 32]>,
    delayed: BTreeSet<(QueueId, DelayedKey)>,
    removed: BTreeMap<(QueueId, Space), IntervalSet>,
    dropped: Vec<QueueId>,
}

/// Which of a queue's two numberings a payload is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// By sequence.
    Live,
    /// By [`DelayedKey::number`].
    Delayed,
}

/// What changed since the last call: the rows to write and the messages that are gone.
#[derive(Debug, Default)]
pub struct Changes {
    /// Rows of the store.
    pub rows: Vec<RowChange>,
    /// Messages that were removed, by queue and numbering.
    pub removed: Vec<(QueueId, Space, Range<u64>)>,
    /// Queues that are gone, with all that they held.
    pub dropped: Vec<QueueId>,
}

impl State {
    /// The last recorded time.
    #[must_use]
    pub fn clock(&self) -> Millis {
        self.clock
    }

    /// The current epoch; 0 before the first start.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Messages ever admitted.
    #[must_use]
    pub fn admitted(&self) -> u64 {
        self.admitted
    }

    /// A queue by number.
    #[must_use]
    pub fn queue(&self, id: QueueId) -> Option<&Queue> {
        self.queues.get(&id)
    }

    /// A queue by name.
    #[must_use]
    pub fn queue_named(&self, name: &str) -> Option<&Queue> {
        self.queues.get(self.names.get(name)?)
    }

    /// All queues in the order of their names.
    pub fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.names.values().map(|id| &self.queues[id])
    }

    /// Those behind a name, in the same order.
    pub fn queues_after(&self, name: &str) -> impl Iterator<Item = &Queue> {
        self.names.range::<str, _>((Bound::Excluded(name), Bound::Unbounded)).map(|(_, id)| &self.queues[id])
    }

    /// How many queues there are.
    #[must_use]
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// When the next delayed message falls due.
    #[must_use]
    pub fn next_due(&self) -> Option<Millis> {
        self.dues.first().map(|(at, _)| *at)
    }

    /// The queues in which something is due at `now`.
    pub fn due_queues(&self, now: Millis) -> impl Iterator<Item = &Queue> {
        self.dues.iter().take_while(move |(at, _)| *at <= now).map(|(_, id)| &self.queues[id])
    }

    /// A descriptor file by content.
    #[must_use]
    pub fn schema_file(&self, hash: &[u8; 32]) -> Option<&SchemaFile> {
        self.files.get(hash)
    }

    /// The entry that creates a queue.
    #[must_use]
    pub fn create_queue(&self, name: &str, options: QueueOptions) -> Body {
        Body::QueueCreated { queue: QueueId(self.next_queue), name: name.to_owned(), options }
    }

    /// The entry that creates a group which starts at `floor`.
    #[must_use]
    pub fn create_group(&self, queue: QueueId, name: &str, floor: Seq) -> Body {
        Body::GroupCreated { queue, group: GroupId(self.next_group), name: name.to_owned(), floor }
    }

    /// Applies one durable entry. Same state and same entry give the same state, on every replica; `now` travels in the entry.
    ///
    /// What was admitted may meet what another entry of the same batch did before it: an entry for a queue or group that is gone changes
    /// nothing, a name that is taken stays whose it is, and a number that is taken becomes the next free one. `Applied` tells.
    pub fn apply(&mut self, entry: Entry) -> Applied {
        self.clock = self.clock.max(entry.now);
        let now = self.clock;
        match entry.body {
            Body::Epoch { epoch } => {
                self.epoch = self.epoch.max(epoch);
                Applied::Nothing
            }
            Body::Publish(publish) => self.publish(now, publish),
            Body::Settle(settle) => self.settle(settle),
            Body::AttemptEnded(attempt) => self.attempt_ended(now, attempt),
            Body::Floor { queue, to } => self.floor(queue, to),
            Body::QueueCreated { queue, name, options } => self.queue_created(now, queue, &name, options),
            Body::QueueUpdated { queue, options } => self.queue_updated(queue, options),
            Body::QueueDeleted { queue } => self.queue_deleted(queue),
            Body::GroupCreated { queue, group, name, floor } => self.group_created(queue, group, name, floor),
            Body::GroupDeleted { queue, group } => self.group_deleted(queue, group),
            Body::SchemaFile { hash, bytes } => {
                self.files.entry(hash).or_insert_with(|| SchemaFile { bytes: bytes.into() });
                self.dirty.files.insert(hash);
                Applied::Nothing
            }
            Body::SchemaVersion { queue, record } => self.schema_version(queue, record),
            Body::SchemaActive { queue, version } => self.schema_active(queue, version),
            Body::SchemaRetired { queue, version } => self.schema_retired(queue, version),
            Body::SchemaDeleted { queue } => self.schema_deleted(queue),
            Body::SchemaRefreshed { queue, record } => self.schema_refreshed(queue, record),
            Body::Moved(moved) => self.moved(now, moved),
            Body::Removed { queue, seqs } => self.removed(queue, seqs),
            Body::Purged { queue, to, delayed_to } => self.purged(queue, to, delayed_to),
            Body::Sought { queue, group, to } => self.sought(queue, group, to),
            Body::SettledThrough { queue, group, through } => self.settled_through(queue, group, through),
        }
    }

    fn publish(&mut self, now: Millis, publish: Publish) -> Applied {
        let id = publish.queue;
        self.admitted += publish.items.len() as u64;
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        let (first, first_delayed) = (queue.next_seq, queue.next_delayed);
        let due_before = queue.delayed.first();
        let mut expiry = None;
        for item in &publish.items {
            let seq = if item.due == 0 {
                expiry = earlier(expiry, item.expires_at);
                Some(queue.push(now, item))
            } else {
                self.dirty.delayed.insert((id, queue.delay(item)));
                None
            };
            if let Some(dedup) = &item.dedup {
                if let Some(key) = RetryKey::parse(&dedup.0) {
                    queue.retries.record(&key, now, dedup.1, seq);
                    self.dirty.retries.insert((id, key.client));
                    continue;
                }
                let until = now.saturating_add(queue.options.dedup_window_ms);
                queue.dedup.record(&dedup.0, Remembered { id: dedup.1, seq, until });
                self.dirty.dedup.push((id, dedup.0.as_str().into()));
            }
        }
        if !queue.dedup.is_empty() {
            self.dirty.dedup.extend(queue.dedup.forget(now).into_iter().map(|key| (id, key)));
        }
        self.dirty.retries.extend(queue.retries.forget(now).into_iter().map(|client| (id, client)));
        self.dirty.added(id, first..queue.next_seq);
        let count = u32::try_from(queue.next_seq - first).expect("an entry is bounded");
        if queue.next_delayed > first_delayed {
            self.reschedule_due(id, due_before);
        }
        Applied::Published { queue: id, first, count, first_delayed, expiry }
    }

    fn settle(&mut self, settle: Settle) -> Applied {
        let Some(queue) = self.queues.get_mut(&settle.queue) else { return Applied::Nothing };
        let Some(group) = queue.groups.get_mut(&settle.group) else { return Applied::Nothing };
        self.dirty.groups.insert((settle.queue, settle.group));
        let mut removal = Removal::new(settle.queue);
        let alone = queue.group_names.len() == 1 && queue.options.mode == Mode::Queue;
        for &seq in &settle.seqs {
            if group.settle(seq) && alone && queue.messages.remove(seq) {
                removal.push(seq, &mut self.dirty);
            }
        }
        removal.flush(&mut self.dirty);
        if !alone {
            self.remove_settled(settle.queue, settle.seqs.iter().copied());
        }
        Applied::Settled(settle)
    }

    /// Removes those of `seqs` that every group of the queue has settled.
    fn remove_settled(&mut self, id: QueueId, seqs: impl Iterator<Item = Seq>) {
        let queue = self.queues.get_mut(&id).expect("the caller has just used it");
        if queue.options.mode == Mode::Stream || queue.groups.is_empty() {
            return;
        }
        let mut removal = Removal::new(id);
        for seq in seqs {
            if queue.groups.values().all(|group| group.is_settled(seq)) && queue.messages.remove(seq) {
                removal.push(seq, &mut self.dirty);
            }
        }
        removal.flush(&mut self.dirty);
    }

    fn attempt_ended(&mut self, now: Millis, attempt: AttemptEnded) -> Applied {
        let Some(queue) = self.queues.get_mut(&attempt.queue) else { return Applied::Nothing };
        let Some(group) = queue.groups.get_mut(&attempt.group) else { return Applied::Nothing };
        for ended in &attempt.ended {
            if group.is_settled(ended.seq) {
                continue;
            }
            let before = group.attempts.get(&ended.seq);
            let suspect = ended.cause != Cause::Nack || before.is_some_and(|before| before.suspect);
            let first_at = before.map_or(now, |before| before.first_at);
            group.attempts.insert(ended.seq, Attempt { ended: ended.attempts, not_before: ended.not_before, first_at, suspect });
        }
        self.dirty.groups.insert((attempt.queue, attempt.group));
        Applied::AttemptEnded(attempt)
    }

    fn floor(&mut self, id: QueueId, to: Seq) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        let to = to.min(queue.next_seq);
        let mut skipped = Vec::new();
        let (next_seq, is_stream) = (queue.next_seq, queue.options.mode == Mode::Stream);
        for group in queue.groups.values_mut() {
            let before = group.lag(next_seq);
            group.raise_floor(to);
            if is_stream && group.lag(next_seq) < before {
                skipped.push((group.id, before - group.lag(next_seq)));
            }
            self.dirty.groups.insert((id, group.id));
        }
        let before = queue.messages.count();
        let mut removal = Removal::new(id);
        let mut next = queue.messages.next_at(0);
        while let Some(seq) = next.filter(|seq| *seq < to) {
            queue.messages.remove(seq);
            removal.push(seq, &mut self.dirty);
            next = queue.messages.next_at(seq + 1);
        }
        removal.flush(&mut self.dirty);
        Applied::Floored { queue: id, to, delayed_to: 0, messages: before - queue.messages.count(), skipped }
    }

    fn queue_created(&mut self, now: Millis, id: QueueId, name: &str, options: QueueOptions) -> Applied {
        if let Some(existing) = self.names.get(name) {
            return Applied::Queue(*existing);
        }
        let id = QueueId(id.0.max(self.next_queue));
        self.next_queue = id.0 + 1;
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name), id);
        self.queues.insert(id, Queue::new(id, name, options, now));
        self.dirty.queues.insert(id);
        Applied::Queue(id)
    }

    fn queue_updated(&mut self, id: QueueId, options: QueueOptions) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        queue.options = options;
        self.dirty.queues.insert(id);
        Applied::Queue(id)
    }

    fn queue_deleted(&mut self, id: QueueId) -> Applied {
        let Some(queue) = self.queues.remove(&id) else { return Applied::Nothing };
        self.names.remove(&queue.name);
        let dirty = &mut self.dirty;
        dirty.queues.remove(&id);
        dirty.groups.retain(|(queue, _)| *queue != id);
        dirty.chunks.retain(|(queue, _)| *queue != id);
        dirty.schemas.retain(|(queue, _)| *queue != id);
        dirty.schema_marks.remove(&id);
        dirty.dedup.retain(|(queue, _)| *queue != id);
        dirty.retries.retain(|(queue, _)| *queue != id);
        dirty.delayed.retain(|(queue, _)| *queue != id);
        dirty.removed.retain(|(queue, _), _| *queue != id);
        dirty.dropped.push(id);
        if let Some(first) = queue.delayed.first() {
            self.dues.remove(&(first.due, id));
        }
        self.drop_orphans(queue.schemas.versions.iter().flat_map(|record| record.contents().copied()).collect());
        Applied::Queue(id)
    }

    /// Removes those of these files that no version refers to any more.
    fn drop_orphans(&mut self, hashes: BTreeSet<[u8; 32]>) {
        for hash in hashes {
            if !self.queues_use_file(&hash) && self.files.remove(&hash).is_some() {
                self.dirty.files.insert(hash);
            }
        }
    }

    fn queues_use_file(&self, hash: &[u8; 32]) -> bool {
        self.queues().any(|queue| queue.schemas.versions.iter().any(|record| record.contents().any(|content| content == hash)))
    }

    fn group_created(&mut self, id: QueueId, group: GroupId, name: String, floor: Seq) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        if let Some(existing) = queue.group_names.get(&name) {
            return Applied::Group(id, *existing);
        }
        let group = GroupId(group.0.max(self.next_group));
        self.next_group = group.0 + 1;
        queue.group_names.insert(name.clone(), group);
        let mut new = Group::new(group, name, 0);
        queue.begin_group(&mut new, floor);
        queue.groups.insert(group, new);
        self.dirty.groups.insert((id, group));
        Applied::Group(id, group)
    }

    fn group_deleted(&mut self, id: QueueId, group: GroupId) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        let Some(gone) = queue.groups.remove(&group) else { return Applied::Nothing };
        queue.group_names.remove(&gone.name);
        let rest: Vec<Seq> = std::iter::successors(queue.messages.next_at(0), |seq| queue.messages.next_at(seq + 1)).collect();
        self.dirty.groups.insert((id, group));
        self.remove_settled(id, rest.into_iter());
        Applied::Group(id, group)
    }

    fn schema_version(&mut self, id: QueueId, mut record: SchemaRecord) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        let known = queue.schemas.by_fingerprint(&record.fingerprint).map(|known| known.version);
        if let Some(version) = known {
            return self.schema_active(id, version);
        }
        let version = queue.schemas.next_version();
        record.version = version;
        queue.schemas.versions.push(Arc::new(record));
        queue.schemas.active = version;
        self.dirty.schemas.insert((id, version));
        self.dirty.queues.insert(id);
        Applied::Schema(id)
    }

    fn schema_active(&mut self, id: QueueId, version: u32) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        queue.schemas.active = version;
        if queue.schemas.retired.remove(&version) {
            self.dirty.schema_marks.insert(id);
        }
        self.dirty.queues.insert(id);
        Applied::Schema(id)
    }

    fn schema_retired(&mut self, id: QueueId, version: u32) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        let schemas = &mut queue.schemas;
        // An entry of the same batch may have made it active, or removed it.
        if schemas.active == version || schemas.version(version).is_none() {
            return Applied::Nothing;
        }
        schemas.retired.insert(version);
        self.dirty.schema_marks.insert(id);
        Applied::Schema(id)
    }

    fn schema_deleted(&mut self, id: QueueId) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        let gone = queue.schemas.delete();
        self.dirty.schemas.extend(gone.iter().map(|record| (id, record.version)));
        self.dirty.schema_marks.insert(id);
        self.dirty.queues.insert(id);
        self.drop_orphans(gone.iter().flat_map(|record| record.contents().copied()).collect());
        Applied::Schema(id)
    }

    fn schema_refreshed(&mut self, id: QueueId, record: SchemaRecord) -> Applied {
        let Some(queue) = self.queues.get_mut(&id) else { return Applied::Nothing };
        let Some(known) = queue.schemas.version(record.version) else { return Applied::Nothing };
        let former = known.contents().copied().collect();
        self.dirty.schemas.insert((id, record.version));
        queue.schemas.replace(record);
        self.drop_orphans(former);
        Applied::Schema(id)
    }

    /// What changed since the last call, as rows of the store.
    pub fn take_changes(&mut self) -> Changes {
        let dirty = std::mem::take(&mut self.dirty);
        let mut rows = vec![row::shard(self)];
        rows.extend(dirty.dropped.iter().map(|id| row::dropped(*id)));
        for id in dirty.queues {
            rows.push(row::queue(&self.queues[&id]));
        }
        for (id, group) in dirty.groups {
            rows.push(row::group(&self.queues[&id], group));
        }
        for (id, chunk) in dirty.chunks {
            rows.push(row::chunk(&self.queues[&id], chunk));
        }
        for (id, key) in dirty.dedup {
            rows.push(row::dedup(&self.queues[&id], &key));
        }
        for (id, client) in dirty.retries {
            rows.push(row::retries(&self.queues[&id], client));
        }
        for (id, version) in dirty.schemas {
            rows.push(row::schema(&self.queues[&id], version));
        }
        for id in dirty.schema_marks {
            rows.push(row::schema_marks(&self.queues[&id]));
        }
        for hash in dirty.files {
            rows.push(row::file(hash, self.files.get(&hash)));
        }
        for (id, key) in dirty.delayed {
            rows.push(row::delayed(&self.queues[&id], key));
        }
        let ranges = |((id, space), set): ((QueueId, Space), IntervalSet)| set.iter().map(|range| (id, space, range)).collect::<Vec<_>>();
        let removed = dirty.removed.into_iter().flat_map(ranges).collect();
        Changes { rows, removed, dropped: dirty.dropped }
    }

    /// The invariants of docs/architecture.md, as far as the durable state can see them.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn check_invariants(&self) {
        assert_eq!(self.names.len(), self.queues.len(), "queues and their names differ");
        for queue in self.queues() {
            queue.check_invariants();
        }
        let first_dues = self.queues().filter_map(|queue| queue.delayed.first().map(|first| (first.due, queue.id)));
        assert_eq!(self.dues, first_dues.collect(), "the queues' first delayed messages are listed");
    }

    /// The first delayed message of a queue may be another one than `before`.
    fn reschedule_due(&mut self, id: QueueId, before: Option<DelayedKey>) {
        let after = self.queues.get(&id).and_then(|queue| queue.delayed.first());
        if before.map(|first| first.due) == after.map(|first| first.due) {
            return;
        }
        if let Some(before) = before {
            self.dues.remove(&(before.due, id));
        }
        if let Some(after) = after {
            self.dues.insert((after.due, id));
        }
    }
}

/// The earlier of two expiries, the second of which may be 0: never.
fn earlier(expiry: Option<Millis>, other: Millis) -> Option<Millis> {
    if other == 0 { expiry } else { Some(expiry.map_or(other, |expiry| expiry.min(other))) }
}

impl Queue {
    /// Stores a message under the next sequence.
    fn push(&mut self, now: Millis, item: &Item) -> Seq {
        let seq = self.next_seq;
        self.messages.push(seq, Facts { size: item.size, key: item.key, at: now, expires_at: item.expires_at });
        self.next_seq += 1;
        seq
    }

    /// Stores a message until it falls due.
    fn delay(&mut self, item: &Item) -> DelayedKey {
        let key = DelayedKey { due: item.due, number: self.next_delayed };
        self.delayed.insert(key, DelayedMessage { size: item.size, key: item.key, expires_at: item.expires_at });
        self.next_delayed += 1;
        key
    }

    /// Lets a group begin at `floor`. What others settled is gone; for this group it counts as settled, so that whatever it has not
    /// settled is stored.
    fn begin_group(&self, group: &mut Group, floor: Seq) {
        group.restart(floor.min(self.next_seq));
        group.raise_floor(self.messages.next_at(group.floor).unwrap_or(self.next_seq));
        let mut gap = group.floor;
        while let Some(stored) = self.messages.next_at(gap) {
            group.settled.insert(gap..stored);
            gap = stored + 1;
        }
        if gap < self.next_seq {
            group.settled.insert(gap..self.next_seq);
        }
    }
}

impl Dirty {
    /// Messages were added to a queue.
    fn added(&mut self, id: QueueId, seqs: Range<Seq>) {
        self.queues.insert(id);
        if !seqs.is_empty() {
            self.chunks.extend((seqs.start / CHUNK..=(seqs.end - 1) / CHUNK).map(|chunk| (id, chunk)));
        }
    }
}

/// Collects removed sequences into runs, so that the common case (acks in order) costs one insertion a batch.
struct Removal {
    queue: QueueId,
    run: Range<Seq>,
}

impl Removal {
    fn new(queue: QueueId) -> Removal {
        Removal { queue, run: 0..0 }
    }

    fn push(&mut self, seq: Seq, dirty: &mut Dirty) {
        if seq == self.run.end && !self.run.is_empty() {
            self.run.end += 1;
        } else {
            self.flush(dirty);
            self.run = seq..seq + 1;
        }
    }

    fn flush(&mut self, dirty: &mut Dirty) {
        if self.run.is_empty() {
            return;
        }
        for chunk in self.run.start / CHUNK..=(self.run.end - 1) / CHUNK {
            dirty.chunks.insert((self.queue, chunk));
        }
        dirty.removed.entry((self.queue, Space::Live)).or_default().insert(self.run.clone());
        self.run = 0..0;
    }
}
