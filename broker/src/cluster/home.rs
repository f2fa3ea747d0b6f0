//! A member's directories: what a start may find in them, and what it makes of that before anything is opened.
//!
//! A snapshot that was received is put together in `incoming/` and takes the place of `store/` and `journal/` once `incoming/complete` is
//! there: a crash leaves the old files or the new ones. Damaged files are moved to `damaged-<seconds since 1970>/`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::mark::Mark;
use super::points::{Points, PointsError};
use crate::files::DiskFiles;
use crate::journal::{self, Journal, JournalError};
use crate::store::{Store, StoreError, StoreOptions};

const INCOMING: &str = "incoming";
const COMPLETE: &str = "complete";

/// Why a snapshot does not take the place of the files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HomeError {
    /// The system refuses.
    #[error("{}: {action} failed", path.display())]
    Io { path: PathBuf, action: &'static str, source: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Points(#[from] PointsError),
}

fn on<'a>(path: &'a Path, action: &'static str) -> impl FnOnce(io::Error) -> HomeError + 'a {
    move |source| HomeError::Io { path: path.to_owned(), action, source }
}

/// Makes room for a snapshot; returns where its store goes.
pub(crate) fn begin_incoming(data_dir: &Path) -> io::Result<PathBuf> {
    let incoming = data_dir.join(INCOMING);
    if incoming.exists() {
        fs::remove_dir_all(&incoming)?;
    }
    let store = incoming.join("store");
    fs::create_dir_all(&store)?;
    Ok(store)
}

/// Says that the snapshot is whole and on the disk.
pub(crate) fn complete_incoming(data_dir: &Path) -> io::Result<()> {
    let incoming = data_dir.join(INCOMING);
    sync(&incoming.join("store"))?;
    sync(data_dir)?;
    let complete = incoming.join(COMPLETE);
    let marked = fs::File::create(&complete).and_then(|file| file.sync_all()).and_then(|()| sync(&incoming));
    if marked.is_err() && fs::remove_file(&complete).is_err() && complete.exists() {
        // The mark is there, on the disk or not, and cannot be taken back. A start that finds it takes the snapshot, and whatever the node
        // had written to its old files meanwhile would be gone; so the snapshot counts as whole, and the node starts anew now.
        return Ok(());
    }
    marked
}

fn sync(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

fn remove(path: &Path) -> Result<(), HomeError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(on(path, "removing it")(error)),
        _ => Ok(()),
    }
}

/// Has a complete snapshot take the place of store and journal; forgets an incomplete one. Every step may be repeated after a crash.
/// `files` is where the points are.
pub(crate) fn settle(data_dir: &Path, files: &DiskFiles) -> Result<(), HomeError> {
    let incoming = data_dir.join(INCOMING);
    if !incoming.exists() {
        return Ok(());
    }
    if incoming.join(COMPLETE).exists() {
        let (new, store, journal) = (incoming.join("store"), data_dir.join("store"), data_dir.join("journal"));
        if new.exists() {
            remove(&store)?;
            fs::rename(&new, &store).map_err(on(&new, "moving it to its place"))?;
            sync(data_dir).map_err(on(data_dir, "syncing it"))?;
        }
        remove(&journal)?;
        let store = Store::open(&store, StoreOptions::default())?;
        let applied = store.applied()?;
        let journal_files = DiskFiles::open(&journal).map_err(on(&journal, "creating it"))?;
        let mut options = journal::Options::new(u128::from_be_bytes(store.store_id()));
        options.begins_after = Some(applied);
        Journal::open(journal_files, options, applied, &mut |_| Ok(()))?;
        // The log begins behind the snapshot.
        if let Some(mut points) = Points::load(files)? {
            points.purged = Mark::of(&store)?.and_then(|mark| mark.last).or(points.purged);
            points.save(files)?;
        }
        sync(data_dir).map_err(on(data_dir, "syncing it"))?;
        // First and for good: if it came back after a power loss, it would take the place of what is written from now on.
        let complete = incoming.join(COMPLETE);
        fs::remove_file(&complete).map_err(on(&complete, "removing it"))?;
        sync(&incoming).map_err(on(&incoming, "syncing it"))?;
        tracing::info!(through = applied.index, "the snapshot has taken the place of this node's files");
    }
    remove(&incoming)
}

/// Moves store and journal away, so that the node can begin empty; returns where to.
pub(crate) fn set_aside(data_dir: &Path) -> Result<PathBuf, HomeError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut place = data_dir.join(format!("damaged-{now}"));
    let mut number = 1;
    while place.exists() {
        number += 1;
        place = data_dir.join(format!("damaged-{now}-{number}"));
    }
    fs::create_dir(&place).map_err(on(&place, "creating it"))?;
    for name in ["store", "journal"] {
        let from = data_dir.join(name);
        if from.exists() {
            fs::rename(&from, place.join(name)).map_err(on(&from, "setting it aside"))?;
        }
    }
    sync(data_dir).map_err(on(data_dir, "syncing it"))?;
    Ok(place)
}

/// Whether a broker has kept its data here.
pub(crate) fn holds_data(data_dir: &Path) -> bool {
    data_dir.join("journal").exists() || data_dir.join("store").exists()
}
