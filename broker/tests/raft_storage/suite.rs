//! What openraft demands of storage, run over the journal and the store on a real disk, and what the log must keep.

use std::path::Path;

use openraft::entry::RaftEntry;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::testing::{StoreBuilder, Suite, log_id};
use openraft::{LogState, RaftLogReader, StorageError, Vote};
use tempfile::TempDir;

use crate::log::{Log, Types};
use crate::state_machine::StateMachine;

struct Builder;

pub(crate) fn home() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub(crate) fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work);
}

impl StoreBuilder<Types, Log, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, Log, StateMachine), StorageError<u64>> {
        let home = home();
        let log = Log::open(&home.path().join("log")).unwrap();
        let machine = StateMachine::open(&home.path().join("machine")).unwrap();
        Ok((home, log, machine))
    }
}

#[test]
fn openrafts_storage_suite_passes_over_the_journal_and_the_store() {
    Suite::test_all(Builder).unwrap();
}

/// Entries of one term, blank, with these indexes.
async fn append(log: &mut Log, term: u64, indexes: impl IntoIterator<Item = u64>) {
    let entries = indexes.into_iter().map(|index| openraft::Entry::new_blank(log_id(term, 0, index)));
    log.blocking_append(entries.collect::<Vec<_>>()).await.unwrap();
}

async fn held(log: &mut Log) -> Vec<(u64, u64)> {
    let entries = log.try_get_log_entries(..).await.unwrap();
    entries.iter().map(|entry| (entry.log_id.leader_id.term, entry.log_id.index)).collect()
}

/// Runs `work` on a log, then opens it again and looks.
fn after_restart(work: impl AsyncFnOnce(&mut Log), look: impl AsyncFnOnce(&mut Log)) {
    let home = home();
    let open = |path: &Path| Log::open(path).unwrap();
    run(async {
        let mut log = open(home.path());
        work(&mut log).await;
        drop(log);
        look(&mut open(home.path())).await;
    });
}

#[test]
fn votes_and_commits_survive_a_restart() {
    after_restart(
        async |log| {
            log.save_vote(&Vote::new(7, 3)).await.unwrap();
            log.save_committed(Some(log_id(1, 0, 5))).await.unwrap();
        },
        async |log| {
            assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new(7, 3)));
            assert_eq!(log.read_committed().await.unwrap(), Some(log_id(1, 0, 5)));
            assert_eq!(held(log).await, []);
        },
    );
}

#[test]
fn a_truncation_survives_a_restart_with_what_was_appended_after_it() {
    after_restart(
        async |log| {
            append(log, 1, 0..10).await;
            log.truncate(log_id(1, 0, 4)).await.unwrap();
            append(log, 2, 4..6).await;
        },
        async |log| {
            assert_eq!(held(log).await, [(1, 0), (1, 1), (1, 2), (1, 3), (2, 4), (2, 5)]);
            append(log, 3, 6..7).await;
            assert_eq!(held(log).await.last(), Some(&(3, 6)));
        },
    );
}

#[test]
fn a_purge_survives_a_restart() {
    after_restart(
        async |log| {
            append(log, 1, 0..10).await;
            log.purge(log_id(1, 0, 6)).await.unwrap();
        },
        async |log| {
            assert_eq!(held(log).await, [(1, 7), (1, 8), (1, 9)]);
            let state = log.get_log_state().await.unwrap();
            let expected = LogState { last_purged_log_id: Some(log_id(1, 0, 6)), last_log_id: Some(log_id(1, 0, 9)) };
            assert_eq!(state, expected);
        },
    );
}

#[test]
fn a_purge_past_the_end_leaves_an_empty_log_that_goes_on_from_there() {
    after_restart(
        async |log| {
            append(log, 1, 0..3).await;
            log.purge(log_id(4, 0, 20)).await.unwrap();
        },
        async |log| {
            assert_eq!(held(log).await, []);
            let state = log.get_log_state().await.unwrap();
            assert_eq!(state.last_log_id, Some(log_id(4, 0, 20)));
            append(log, 4, 21..23).await;
            assert_eq!(held(log).await, [(4, 21), (4, 22)]);
        },
    );
}

#[test]
fn purged_entries_make_room_in_the_files() {
    let home = home();
    run(async {
        let mut log = Log::open(home.path()).unwrap();
        for end in (100..=6_000).step_by(100) {
            append(&mut log, 1, end - 100..end).await;
            log.purge(log_id(1, 0, end - 11)).await.unwrap();
        }
        assert_eq!(held(&mut log).await.len(), 10);
    });
    let files = std::fs::read_dir(home.path()).unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < 400_000, "{bytes} bytes for ten entries");
}
