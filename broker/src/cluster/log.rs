//! The journal as Raft's log.
//!
//! One thread owns the journal: it writes and syncs what has arrived at once, so that entries that come while it syncs share the next sync.
//! What is not yet applied stays in memory, from where it is replicated and applied; older entries are read back from the files.
//!
//! A leader's own entries are reported to Raft before they are synced, so that its followers write them at the same time. Nobody is told
//! that they are committed before this node has synced them too: the state machine waits for [`Log::synced`], and `network/` tells
//! followers of no commit beyond it.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{EntryPayload, LogState, OptionalSend, RaftLogReader, StorageIOError};
use tokio::sync::{oneshot, watch};

use super::points::{Points, PointsError};
use super::raft::{Entry, LogId, Raft, StorageError, Vote};
use super::record::{self, NoEntry, journal_index};
use super::runtime::blocking;
use super::trailing::Trailing;
use crate::files::Files;
use crate::journal::{Applied, Batch, Journal, JournalError, Reader, Spare};

/// Bytes of entries that stay in memory although they are applied, for followers that are a little behind.
const CACHE_BYTES_MAX: usize = 24 << 20;

/// Bytes of entries that one request to a follower carries, roughly.
const REQUEST_BYTES_MAX: usize = 2 << 20;

/// Bytes of a batch after which it takes no more entries.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Memory that an entry takes besides its bytes.
const ENTRY_BYTES: usize = 128;

/// Why the log failed; then the node must stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The files failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The points failed.
    #[error(transparent)]
    Points(#[from] PointsError),
    /// A record cannot be read.
    #[error(transparent)]
    NoEntry(#[from] NoEntry),
    /// The thread is gone.
    #[error("the log's thread has stopped")]
    Stopped,
}

/// How far the log is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Synced {
    /// Up to this entry.
    Through(Option<LogId>),
    /// It failed.
    Failed,
}

/// A Raft log; clones are the same one.
pub(crate) struct Log<F: Files> {
    shared: Arc<Shared>,
    jobs: Sender<Job<F>>,
    reader: Reader<F::File>,
}

impl<F: Files> Clone for Log<F> {
    fn clone(&self) -> Log<F> {
        Log { shared: Arc::clone(&self.shared), jobs: self.jobs.clone(), reader: self.reader.clone() }
    }
}

struct Shared {
    node_id: u64,
    cache: Mutex<Cache>,
    synced: watch::Sender<Synced>,
    disk_bytes: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
    trailing: Trailing,
}

struct Cache {
    /// Consecutive, up to `last`.
    entries: VecDeque<Entry>,
    bytes: usize,
    last: Option<LogId>,
    /// What is below this index has been applied.
    applied: u64,
    points: Points,
}

enum Job<F: Files> {
    Append { entries: Vec<Entry>, done: Option<LogFlushed<Raft>> },
    Truncate { index: u64, done: Done },
    Purge { through: LogId, done: Done },
    Change { change: Box<dyn FnOnce(&mut Points) + Send>, done: Done },
    Spare(Result<Spare<F::File>, JournalError>),
    Stop,
}

type Done = oneshot::Sender<Result<(), LogError>>;

pub(crate) fn bytes_of(entry: &Entry) -> usize {
    ENTRY_BYTES
        + match &entry.payload {
            EntryPayload::Normal(turn) => turn.bytes.len(),
            EntryPayload::Blank | EntryPayload::Membership(_) => 0,
        }
}

fn on_write(error: &(impl std::error::Error + 'static)) -> StorageError {
    StorageIOError::write_logs(error).into()
}

fn on_read(error: &(impl std::error::Error + 'static)) -> StorageError {
    StorageIOError::read_logs(error).into()
}

impl Shared {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        // Nothing that holds the lock can leave the cache half changed.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// The index of the first entry held.
    fn first(&self) -> u64 {
        self.entries.front().map_or_else(|| next(self.last), |entry| entry.log_id.index)
    }

    fn push(&mut self, entry: Entry) {
        self.bytes += bytes_of(&entry);
        self.last = Some(entry.log_id);
        self.entries.push_back(entry);
    }

    fn truncate(&mut self, index: u64) {
        while let Some(entry) = self.entries.pop_back_if(|entry| entry.log_id.index >= index) {
            self.bytes -= bytes_of(&entry);
        }
    }

    /// Lets go of what is applied and on the disk, once it is much.
    fn trim(&mut self, synced: u64) {
        let below = self.applied.min(synced);
        while self.bytes > CACHE_BYTES_MAX
            && let Some(entry) = self.entries.pop_front_if(|entry| entry.log_id.index < below)
        {
            self.bytes -= bytes_of(&entry);
        }
    }
}

/// The index that follows an entry.
pub(crate) fn next(log_id: Option<LogId>) -> u64 {
    log_id.map_or(0, |log_id| log_id.index + 1)
}

impl<F: Files> Log<F> {
    /// Takes over an open journal whose last entry is `last`. What is applied ends below `applied`.
    pub(crate) fn start(journal: Journal<F>, files: F, points: Points, last: Option<LogId>, applied: u64) -> io::Result<Log<F>> {
        let (log, writer, inbox) = Log::new(journal, files, points, last, applied);
        let thread = std::thread::Builder::new().name("raft log".to_owned()).spawn(move || writer.run(&inbox))?;
        *log.shared.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(log)
    }

    fn new(journal: Journal<F>, files: F, mut points: Points, last: Option<LogId>, applied: u64) -> (Log<F>, Writer<F>, Receiver<Job<F>>) {
        points.resign();
        let (jobs, inbox) = channel();
        let reader = journal.reader();
        let node_id = points.node_id;
        let cache = Cache { entries: VecDeque::new(), bytes: 0, last, applied, points };
        let shared = Arc::new(Shared {
            node_id,
            cache: Mutex::new(cache),
            synced: watch::Sender::new(Synced::Through(last)),
            disk_bytes: AtomicU64::new(journal.disk_bytes()),
            thread: Mutex::default(),
            trailing: Trailing::default(),
        });
        let writer = Writer { journal, files, shared: Arc::clone(&shared), back: jobs.clone(), spare: None, failed: false };
        (Log { shared, jobs, reader }, writer, inbox)
    }

    /// Writes what is there and lets the files go. Raft must have stopped.
    pub(crate) fn stop(&self) {
        let thread = self.shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that is gone has said so.
        let _ = self.jobs.send(Job::Stop);
        let _ = thread.map(JoinHandle::join);
    }

    /// For whose sake the log keeps what it could lose.
    pub(crate) fn trailing(&self) -> &Trailing {
        &self.shared.trailing
    }

    /// How far the log is on the disk.
    pub(crate) fn synced(&self) -> watch::Receiver<Synced> {
        self.shared.synced.subscribe()
    }

    /// What a checkpoint would keep of a record of the journal.
    #[cfg(test)]
    pub(crate) fn journal_applied(&self, index: u64) -> Option<Applied> {
        self.reader.applied(index).ok()
    }

    /// Says that the disk is further than it is.
    #[cfg(test)]
    pub(crate) fn pretend_synced(&self, log_id: LogId) {
        self.shared.synced.send_replace(Synced::Through(Some(log_id)));
    }

    /// The last entry that is on the disk, at most `log_id`.
    pub(crate) fn at_most_synced(&self, log_id: Option<LogId>) -> Option<LogId> {
        match *self.shared.synced.borrow() {
            Synced::Through(synced) => log_id.min(synced),
            Synced::Failed => None,
        }
    }

    /// The last entry.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.shared.cache().last
    }

    /// Takes note that everything below `index` is applied.
    pub(crate) fn applied(&self, index: u64) {
        self.shared.cache().applied = index;
    }

    /// Who this node is and what it has promised.
    pub(crate) fn points(&self) -> Points {
        self.shared.cache().points.clone()
    }

    /// Whether the node has lost its files and has not caught up yet.
    pub(crate) fn is_healing(&self) -> bool {
        self.shared.cache().points.healing.is_some()
    }

    /// What the journal takes on the disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes.load(Ordering::Relaxed)
    }

    /// Changes the points; durable on return.
    pub(crate) async fn change_points(&self, change: impl FnOnce(&mut Points) + Send + 'static) -> Result<(), LogError> {
        self.job(|done| Job::Change { change: Box::new(change), done }).await
    }

    async fn job(&self, job: impl FnOnce(Done) -> Job<F>) -> Result<(), LogError> {
        let (done, outcome) = oneshot::channel();
        self.jobs.send(job(done)).map_err(|_| LogError::Stopped)?;
        outcome.await.map_err(|_| LogError::Stopped)?
    }

    /// Whether these are entries that this node proposes as the leader that it is.
    fn are_own(&self, cache: &Cache, entries: &[Entry]) -> bool {
        let Some(vote) = cache.points.vote.filter(|vote| vote.committed && vote.leader_id.voted_for == Some(self.shared.node_id)) else {
            return false;
        };
        entries.iter().all(|entry| entry.log_id.leader_id.term == vote.leader_id.term)
    }

    /// Whether the log has this entry, or had it and let it go since it was applied.
    pub(crate) async fn holds(&self, log_id: LogId) -> Result<bool, StorageError> {
        let (applied, purged) = {
            let cache = self.shared.cache();
            (cache.applied, next(cache.points.purged))
        };
        if log_id.index < applied.max(purged) {
            return Ok(true);
        }
        let found = self.read(log_id.index, log_id.index + 1, 1).await?;
        Ok(found.first().is_some_and(|entry| entry.log_id == log_id))
    }

    /// The last index that is not among the last `segments` segments of the journal.
    pub(crate) fn last_before(&self, segments: usize) -> Option<u64> {
        self.reader.last_before(segments).checked_sub(1)
    }

    /// Entries from `start` until `end` or `bytes_max` bytes; at least one, if there is one.
    async fn read(&self, start: u64, end: u64, bytes_max: usize) -> Result<Vec<Entry>, StorageError> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        let cached_from = {
            let cache = self.shared.cache();
            let first = cache.first();
            if start >= first {
                let skipped = usize::try_from(start - first).unwrap_or(usize::MAX);
                for entry in cache.entries.iter().skip(skipped).take_while(|entry| entry.log_id.index < end) {
                    if bytes >= bytes_max {
                        break;
                    }
                    bytes += bytes_of(entry);
                    entries.push(entry.clone());
                }
                return Ok(entries);
            }
            first
        };
        let (reader, until) = (self.reader.clone(), end.min(cached_from));
        let read = blocking(move || read_journal(&reader, start, until, bytes_max)).await;
        let mut entries = read.ok_or_else(|| on_read(&LogError::Stopped))?.map_err(|error| on_read(&error))?;
        let so_far: usize = entries.iter().map(bytes_of).sum();
        // What was in memory then may be in the files only now.
        if so_far < bytes_max && cached_from < end {
            entries.extend(Box::pin(self.read(cached_from, end, bytes_max - so_far)).await?);
        }
        Ok(entries)
    }
}

fn read_journal<H: crate::files::File>(reader: &Reader<H>, start: u64, end: u64, bytes_max: usize) -> Result<Vec<Entry>, LogError> {
    let mut entries = Vec::new();
    let mut bytes = 0;
    let mut broken = None;
    let (first, last) = reader.bounds();
    let range = journal_index(start).max(first)..=end.min(last);
    reader.records(range, |record| {
        if bytes >= bytes_max && !entries.is_empty() {
            return ControlFlow::Break(());
        }
        let entry = record::log_id_of(&record).and_then(|log_id| {
            let body = Bytes::copy_from_slice(record.payload);
            record::decode(log_id, record.kind, body)
        });
        match entry {
            Ok(entry) => {
                if let EntryPayload::Normal(turn) = &entry.payload {
                    let position = record.position;
                    turn.position.get_or_init(|| position);
                }
                bytes += bytes_of(&entry);
                entries.push(entry);
                ControlFlow::Continue(())
            }
            Err(error) => {
                broken = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    match broken {
        Some(error) => Err(error.into()),
        None => Ok(entries),
    }
}

fn bounds(range: impl RangeBounds<u64>) -> (u64, u64) {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end + 1,
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    (start, end)
}

impl<F: Files> RaftLogReader<Raft> for Log<F> {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        let (start, end) = bounds(range);
        let kept = next(self.shared.cache().points.purged);
        self.read(start.max(kept), end, usize::MAX).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, StorageError> {
        self.read(start, end, REQUEST_BYTES_MAX).await
    }
}

impl<F: Files> RaftLogStorage<Raft> for Log<F> {
    type LogReader = Log<F>;

    async fn get_log_state(&mut self) -> Result<LogState<Raft>, StorageError> {
        let cache = self.shared.cache();
        Ok(LogState { last_purged_log_id: cache.points.purged, last_log_id: cache.last })
    }

    async fn get_log_reader(&mut self) -> Log<F> {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let vote = *vote;
        let saved = self.change_points(move |points| points.vote = Some(vote)).await;
        saved.map_err(|error| StorageIOError::write_vote(&error).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(self.shared.cache().points.vote)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Raft>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let own = {
            let mut cache = self.shared.cache();
            entries.iter().for_each(|entry| cache.push(entry.clone()));
            self.are_own(&cache, &entries)
        };
        let (done, early) = if own { (None, Some(callback)) } else { (Some(callback), None) };
        self.jobs.send(Job::Append { entries, done }).map_err(|_| on_write(&LogError::Stopped))?;
        if let Some(early) = early {
            early.log_io_completed(Ok(()));
        }
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        self.job(|done| Job::Truncate { index: log_id.index, done }).await.map_err(|error| on_write(&error))
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        self.job(|done| Job::Purge { through: log_id, done }).await.map_err(|error| on_write(&error))
    }
}

/// The thread that owns the journal.
struct Writer<F: Files> {
    journal: Journal<F>,
    files: F,
    shared: Arc<Shared>,
    back: Sender<Job<F>>,
    /// What writes a spare segment, while that is under way.
    spare: Option<JoinHandle<()>>,
    failed: bool,
}

impl<F: Files> Writer<F> {
    fn run(mut self, inbox: &Receiver<Job<F>>) {
        let mut ahead = None;
        while let Some(job) = ahead.take().or_else(|| inbox.recv().ok()) {
            if matches!(job, Job::Stop) {
                // It holds the directory, too. One that panicked has said so.
                let _ = self.spare.map(JoinHandle::join);
                return;
            }
            ahead = self.work(job, inbox);
            self.ask_for_spare();
        }
    }

    /// Does a job, and with an append those that have arrived since; returns a job that came behind them.
    fn work(&mut self, job: Job<F>, inbox: &Receiver<Job<F>>) -> Option<Job<F>> {
        let mut behind = None;
        match job {
            Job::Append { entries, done } => behind = self.append(entries, done, inbox),
            Job::Truncate { index, done } => {
                let outcome = self.truncate(index);
                self.answer(done, outcome);
            }
            Job::Purge { through, done } => {
                let outcome = self.purge(through);
                self.answer(done, outcome);
            }
            Job::Change { change, done } => {
                let outcome = self.change(change);
                self.answer(done, outcome);
            }
            Job::Spare(outcome) => {
                if let Err(error) = self.journal.add_spare(outcome) {
                    tracing::warn!(%error, "no spare journal segment; the next one is written when it is needed");
                }
            }
            Job::Stop => {}
        }
        self.shared.disk_bytes.store(self.journal.disk_bytes(), Ordering::Relaxed);
        behind
    }

    fn answer(&mut self, done: Done, outcome: Result<(), LogError>) {
        if outcome.is_err() {
            self.fail();
        }
        // Whoever asked may have given up; it is done all the same.
        let _ = done.send(outcome);
    }

    fn fail(&mut self) {
        self.failed = true;
        self.shared.synced.send_replace(Synced::Failed);
    }

    /// Writes these entries and those that have arrived since; returns a job that came behind them.
    fn append(&mut self, entries: Vec<Entry>, done: Option<LogFlushed<Raft>>, inbox: &Receiver<Job<F>>) -> Option<Job<F>> {
        let mut batch = Batch::new();
        let mut places = Vec::new();
        let mut callbacks = Vec::new();
        let mut outcome = Ok(());
        let mut next_job = Some(Job::Append { entries, done });
        let mut behind = None;
        while let Some(job) = next_job.take() {
            match job {
                Job::Append { entries, done } => {
                    for entry in entries {
                        outcome = outcome.and_then(|()| self.add(&mut batch, &mut places, &entry));
                    }
                    callbacks.extend(done);
                    if batch.len() < BATCH_BYTES_MAX {
                        next_job = inbox.try_recv().ok();
                    }
                }
                other => behind = Some(other),
            }
        }
        let outcome = outcome.and_then(|()| self.write(batch, &mut places));
        if let Err(error) = &outcome {
            tracing::error!(error = %chain(error), "the log cannot be written");
            self.fail();
        }
        for callback in callbacks {
            callback.log_io_completed(outcome.as_ref().map(|_| ()).map_err(|error| io::Error::other(error.to_string())));
        }
        behind
    }

    /// Adds an entry to a batch, writing what does not fit with it first.
    fn add(&mut self, batch: &mut Batch, places: &mut Vec<(LogId, usize, super::raft::Turn)>, entry: &Entry) -> Result<(), LogError> {
        let index = journal_index(entry.log_id.index);
        let slack = 1 << 10;
        if !batch.is_empty() && batch.len() + bytes_of(entry) + slack > self.journal.batch_bytes_max() {
            self.write(std::mem::take(batch), places)?;
        }
        if batch.is_empty() && index > self.journal.last().index + 1 {
            // A log may begin anywhere, as after a snapshot.
            self.journal.restart_after(Applied { index: index - 1, ..Applied::default() })?;
        }
        let at = record::append(batch, entry);
        let turn = match &entry.payload {
            EntryPayload::Normal(turn) => turn.clone(),
            EntryPayload::Blank | EntryPayload::Membership(_) => super::raft::Turn::default(),
        };
        places.push((entry.log_id, at, turn));
        Ok(())
    }

    fn write(&mut self, batch: Batch, places: &mut Vec<(LogId, usize, super::raft::Turn)>) -> Result<(), LogError> {
        if batch.is_empty() {
            return Ok(());
        }
        if self.failed {
            return Err(LogError::Stopped);
        }
        let appended = self.journal.append(batch)?;
        let last = places.last().map(|(log_id, ..)| *log_id);
        for (_, at, turn) in places.drain(..) {
            turn.position.get_or_init(|| appended.position(at));
        }
        self.shared.synced.send_replace(Synced::Through(last));
        self.shared.cache().trim(next(last));
        Ok(())
    }

    fn ask_for_spare(&mut self) {
        let Some(job) = self.journal.wants_spare() else { return };
        let back = self.back.clone();
        let spawned = std::thread::Builder::new().name("spare segment".to_owned()).spawn(move || drop(back.send(Job::Spare(job.run()))));
        match spawned {
            Ok(thread) => self.spare = Some(thread),
            Err(error) => tracing::warn!(%error, "no thread for a spare journal segment; the next one is written when it is needed"),
        }
    }

    fn truncate(&mut self, index: u64) -> Result<(), LogError> {
        self.journal.truncate_from(journal_index(index))?;
        let last = self.last_held()?;
        let mut cache = self.shared.cache();
        cache.truncate(index);
        cache.last = last;
        drop(cache);
        self.shared.synced.send_replace(Synced::Through(last));
        Ok(())
    }

    /// The id of the last entry in the files.
    fn last_held(&self) -> Result<Option<LogId>, LogError> {
        let purged = self.shared.cache().points.purged;
        let end = self.journal.last().index;
        if end <= purged.map_or(0, |purged| journal_index(purged.index)) {
            return Ok(purged);
        }
        let mut last = None;
        self.journal.reader().records(end..=end, |record| {
            last = Some(record::log_id_of(&record));
            ControlFlow::Continue(())
        })?;
        Ok(last.transpose()?)
    }

    fn purge(&mut self, through: LogId) -> Result<(), LogError> {
        let index = journal_index(through.index);
        if index > self.journal.last().index {
            self.journal.restart_after(Applied { term: through.leader_id.term, index, crc: 0 })?;
            let mut cache = self.shared.cache();
            cache.truncate(0);
            cache.last = Some(through);
            drop(cache);
            self.shared.synced.send_replace(Synced::Through(Some(through)));
        }
        self.change(Box::new(move |points| points.purged = Some(through)))?;
        let mut cache = self.shared.cache();
        while let Some(entry) = cache.entries.pop_front_if(|entry| entry.log_id.index <= through.index) {
            cache.bytes -= bytes_of(&entry);
        }
        drop(cache);
        self.journal.recycle_through(index);
        Ok(())
    }

    fn change(&mut self, change: Box<dyn FnOnce(&mut Points) + Send>) -> Result<(), LogError> {
        let mut points = self.shared.cache().points.clone();
        change(&mut points);
        points.save(&self.files)?;
        self.shared.cache().points = points;
        Ok(())
    }
}

/// The writer of a log without a thread: the simulation says when it works.
#[cfg(test)]
pub(crate) struct Desk<F: Files> {
    writer: Writer<F>,
    inbox: Receiver<Job<F>>,
    next: Option<Job<F>>,
}

#[cfg(test)]
impl<F: Files> Desk<F> {
    pub(crate) fn open(journal: Journal<F>, files: F, points: Points, last: Option<LogId>, applied: u64) -> (Log<F>, Desk<F>) {
        let (log, writer, inbox) = Log::new(journal, files, points, last, applied);
        (log, Desk { writer, inbox, next: None })
    }

    pub(crate) fn has_work(&mut self) -> bool {
        self.next = self.next.take().or_else(|| self.inbox.try_recv().ok());
        self.next.is_some()
    }

    /// Does what lies there: one job, or appends as far as they share a batch.
    pub(crate) fn work(&mut self) {
        if self.has_work()
            && let Some(job) = self.next.take()
        {
            self.next = self.writer.work(job, &self.inbox);
            if let Some(job) = self.writer.journal.wants_spare() {
                self.writer.work(Job::Spare(job.run()), &self.inbox);
            }
        }
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
