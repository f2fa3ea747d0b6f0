//! `RaftLogStorage` over the journal: Raft's index `i` is the journal's `i + 1`, whose first is 1.
//!
//! Vote, commit and purge points are one small file beside the segments, replaced as a whole.

use std::io;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{Entry, LogId, LogState, OptionalSend, RaftLogReader, StorageError, StorageIOError, Vote};
use qwerq_broker::files::{DiskFile, DiskFiles};
use qwerq_broker::journal::{Applied, Batch, Journal, JournalError, Options, Reader};
use serde::{Deserialize, Serialize};

use crate::whole_file;

openraft::declare_raft_types!(pub(crate) Types: SnapshotData = io::Cursor<Vec<u8>>);

const POINTS: &str = "points";

/// The log of one Raft node.
#[derive(Clone)]
pub(crate) struct Log {
    inner: Arc<Mutex<Inner>>,
    reader: Reader<DiskFile>,
}

struct Inner {
    files: DiskFiles,
    journal: Journal<DiskFiles>,
    points: Points,
    last: Option<LogId<u64>>,
}

/// What Raft remembers beside its entries.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Points {
    vote: Option<Vote<u64>>,
    committed: Option<LogId<u64>>,
    purged: Option<LogId<u64>>,
    /// Term and CRC of the purged record: what a store's checkpoint would hold.
    purged_record: (u64, u32),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

pub(crate) fn journal_index(raft: u64) -> u64 {
    raft + 1
}

fn on_write(error: impl Into<LogError>) -> StorageError<u64> {
    StorageIOError::write(&error.into()).into()
}

fn on_read(error: impl Into<LogError>) -> StorageError<u64> {
    StorageIOError::read(&error.into()).into()
}

impl Log {
    pub(crate) fn open(path: &Path) -> Result<Log, LogError> {
        let files = DiskFiles::open(path)?;
        let points = Points::load(&files)?;
        let options = Options { segment_bytes: 64 * 1024, ..Options::new(1) };
        let mut last = points.purged;
        let journal = Journal::open(files.clone(), options, points.purged_as_applied(), &mut |record| {
            let entry: Entry<Types> = serde_json::from_slice(record.payload)?;
            last = Some(entry.log_id);
            Ok(())
        })?;
        let reader = journal.reader();
        let inner = Inner { files, journal, points, last };
        Ok(Log { inner: Arc::new(Mutex::new(inner)), reader })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

impl Points {
    fn load(files: &DiskFiles) -> Result<Points, LogError> {
        let bytes = whole_file::read(files, POINTS)?;
        Ok(bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose()?.unwrap_or_default())
    }

    fn save(&self, files: &DiskFiles) -> Result<(), LogError> {
        Ok(whole_file::replace(files, POINTS, &serde_json::to_vec(self)?)?)
    }

    fn purged_as_applied(&self) -> Applied {
        let (term, crc) = self.purged_record;
        self.purged.map_or(Applied::default(), |purged| Applied { term, index: journal_index(purged.index), crc })
    }
}

impl Inner {
    fn change_points(&mut self, change: impl FnOnce(&mut Points)) -> Result<(), LogError> {
        let mut points = self.points.clone();
        change(&mut points);
        points.save(&self.files)?;
        self.points = points;
        Ok(())
    }

    fn append(&mut self, entries: impl Iterator<Item = Entry<Types>>) -> Result<(), LogError> {
        let mut batch = Batch::new();
        for entry in entries {
            let index = journal_index(entry.log_id.index);
            if batch.is_empty() && index > self.journal.last().index + 1 {
                // A log may begin anywhere, as after a snapshot.
                self.journal.restart_after(Applied { index: index - 1, ..Applied::default() })?;
            }
            batch.begin_record(entry.log_id.leader_id.term, 1);
            serde_json::to_writer(batch.buffer(), &entry)?;
            batch.end_record();
            self.last = Some(entry.log_id);
        }
        if !batch.is_empty() {
            self.journal.append(batch)?;
        }
        Ok(())
    }

    fn truncate(&mut self, from: u64) -> Result<(), LogError> {
        self.journal.truncate_from(journal_index(from))?;
        let mut last = self.points.purged;
        let end = self.journal.last().index;
        if end > self.points.purged_as_applied().index {
            self.journal.reader().records(end..=end, |record| {
                let entry: Result<Entry<Types>, _> = serde_json::from_slice(record.payload);
                last = entry.ok().map(|entry| entry.log_id);
                ControlFlow::Continue(())
            })?;
        }
        self.last = last;
        Ok(())
    }

    fn purge(&mut self, through: LogId<u64>) -> Result<(), LogError> {
        let index = journal_index(through.index);
        let is_past_the_end = index > self.journal.last().index;
        let purged = match is_past_the_end {
            true => Applied { term: through.leader_id.term, index, crc: 0 },
            false => self.journal.reader().applied(index)?,
        };
        if is_past_the_end {
            self.journal.restart_after(purged)?;
            self.last = Some(through);
        }
        self.change_points(|points| {
            points.purged = Some(through);
            points.purged_record = (purged.term, purged.crc);
        })?;
        self.journal.recycle_through(index);
        Ok(())
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + std::fmt::Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry<Types>>, StorageError<u64>> {
        let (kept, last) = {
            let inner = self.inner();
            (inner.points.purged.map_or(0, |purged| purged.index + 1), inner.journal.last().index)
        };
        let first = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        let first = journal_index(first.max(kept)).max(self.reader.bounds().0);
        // The journal's index of `end - 1`.
        let last = end.min(last);
        let mut entries = Vec::new();
        let mut broken = None;
        let read = self.reader.records(first..=last, |record| match serde_json::from_slice(record.payload) {
            Ok(entry) => {
                entries.push(entry);
                ControlFlow::Continue(())
            }
            Err(error) => {
                broken = Some(error);
                ControlFlow::Break(())
            }
        });
        read.map_err(on_read)?;
        match broken {
            Some(error) => Err(on_read(error)),
            None => Ok(entries),
        }
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Log;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError<u64>> {
        let inner = self.inner();
        Ok(LogState { last_purged_log_id: inner.points.purged, last_log_id: inner.last })
    }

    async fn get_log_reader(&mut self) -> Log {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Result<(), StorageError<u64>> {
        self.inner().change_points(|points| points.vote = Some(*vote)).map_err(on_write)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u64>>, StorageError<u64>> {
        Ok(self.inner().points.vote)
    }

    async fn save_committed(&mut self, committed: Option<LogId<u64>>) -> Result<(), StorageError<u64>> {
        self.inner().change_points(|points| points.committed = committed).map_err(on_write)
    }

    async fn read_committed(&mut self) -> Result<Option<LogId<u64>>, StorageError<u64>> {
        Ok(self.inner().points.committed)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Types>) -> Result<(), StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.inner().append(entries.into_iter()).map_err(on_write)?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<u64>) -> Result<(), StorageError<u64>> {
        self.inner().truncate(log_id.index).map_err(on_write)
    }

    async fn purge(&mut self, log_id: LogId<u64>) -> Result<(), StorageError<u64>> {
        self.inner().purge(log_id).map_err(on_write)
    }
}
