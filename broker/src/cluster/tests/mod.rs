//! The adapters on real disks: what openraft demands of storage, what the log must keep, and how a snapshot takes the place of files.

mod log;
mod settling;
mod suite;

use std::path::Path;

use tempfile::TempDir;

use super::log::Log;
use super::points::Points;
use super::raft::LogId;
use super::record;
use crate::files::DiskFiles;
use crate::journal::{self, Journal};
use crate::store::Applied;

fn home() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).or_else(|_| tempfile::tempdir()).unwrap()
}

fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work);
}

/// A log over small segments, whose store would have included nothing but what was purged.
fn open_log(path: &Path) -> Log<DiskFiles> {
    let files = DiskFiles::open(path).unwrap();
    let points = Points::load(&files).unwrap().unwrap_or_else(|| Points::new(1));
    let mut options = journal::Options { segment_bytes: 64 * 1024, ..journal::Options::new(1) };
    options.keep_from = points.kept_from();
    let journal_files = DiskFiles::open(&path.join("journal")).unwrap();
    let after = purged_record(path);
    let mut last: Option<LogId> = points.purged;
    let journal = Journal::open(journal_files, options, after, &mut |record| {
        last = Some(record::log_id_of(&record)?);
        Ok(())
    });
    Log::start(journal.unwrap(), files, points, last, 0).unwrap()
}

/// What a store's checkpoint would say: tests keep it beside the log.
fn purged_record(path: &Path) -> Applied {
    let text = std::fs::read_to_string(path.join("applied")).unwrap_or_default();
    let mut numbers = text.split(' ').map(|number| number.parse::<u64>().unwrap_or_default());
    let mut next = || numbers.next().unwrap_or_default();
    Applied { term: next(), index: next(), crc: u32::try_from(next()).unwrap() }
}

fn keep_purged_record(path: &Path, applied: Applied) {
    std::fs::write(path.join("applied"), format!("{} {} {}", applied.term, applied.index, applied.crc)).unwrap();
}
