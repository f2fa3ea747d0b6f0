//! What the log must keep through restarts.

use std::path::Path;

use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::{EntryPayload, LogState, RaftLogReader};

use super::super::log::Log;
use super::super::raft::{Entry, LogId, Turn, Vote};
use super::super::record;
use super::{home, keep_purged_record, open_log, run};
use crate::files::DiskFiles;

type TestLog = Log<DiskFiles>;

/// By Raft's index.
fn raft_id(term: u64, index: u64) -> LogId {
    record::log_id(term, record::journal_index(index))
}

/// Turns of one term with these indexes.
async fn append(log: &mut TestLog, term: u64, indexes: impl IntoIterator<Item = u64>) {
    let entry = |index: u64| Entry {
        log_id: raft_id(term, index),
        payload: EntryPayload::Normal(Turn::new(format!("turn {term} {index}").into())),
    };
    log.blocking_append(indexes.into_iter().map(entry).collect::<Vec<_>>()).await.unwrap();
}

async fn held(log: &mut TestLog) -> Vec<(u64, u64)> {
    let entries = log.try_get_log_entries(..).await.unwrap();
    for entry in &entries {
        let EntryPayload::Normal(turn) = &entry.payload else { panic!("{entry}") };
        assert_eq!(turn.bytes, format!("turn {} {}", entry.log_id.leader_id.term, entry.log_id.index));
        assert!(turn.position.get().is_some(), "what is on the disk has its place");
    }
    entries.iter().map(|entry| (entry.log_id.leader_id.term, entry.log_id.index)).collect()
}

/// Purges, and keeps beside the log what a checkpoint would.
async fn purge(path: &Path, log: &mut TestLog, term: u64, index: u64) {
    let kept = log.journal_applied(index + 1).unwrap_or(crate::store::Applied { term, index: index + 1, crc: 0 });
    keep_purged_record(path, kept);
    log.purge(raft_id(term, index)).await.unwrap();
}

/// Runs `work` on a log, then opens it again and looks.
fn after_restart(work: impl AsyncFnOnce(&Path, &mut TestLog), look: impl AsyncFnOnce(&mut TestLog)) {
    let home = home();
    run(async {
        let mut log = open_log(home.path());
        work(home.path(), &mut log).await;
        log.stop();
        drop(log);
        let mut log = open_log(home.path());
        look(&mut log).await;
        log.stop();
    });
}

#[test]
fn votes_survive_a_restart() {
    after_restart(
        async |_, log| log.save_vote(&Vote::new(7, 3)).await.unwrap(),
        async |log| {
            assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new(7, 3)));
            assert_eq!(held(log).await, []);
        },
    );
}

#[test]
fn a_leader_that_comes_back_does_not_go_on_in_its_term() {
    after_restart(
        async |_, log| log.save_vote(&Vote::new_committed(7, 1)).await.unwrap(),
        async |log| assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new(7, 1))),
    );
}

#[test]
fn a_truncation_survives_a_restart_with_what_was_appended_after_it() {
    after_restart(
        async |_, log| {
            append(log, 1, 0..10).await;
            log.truncate(raft_id(1, 4)).await.unwrap();
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
        async |path, log| {
            append(log, 1, 0..10).await;
            purge(path, log, 1, 6).await;
        },
        async |log| {
            assert_eq!(held(log).await, [(1, 7), (1, 8), (1, 9)]);
            let state = log.get_log_state().await.unwrap();
            let expected = LogState { last_purged_log_id: Some(raft_id(1, 6)), last_log_id: Some(raft_id(1, 9)) };
            assert_eq!(state, expected);
        },
    );
}

#[test]
fn purged_entries_make_room_in_the_files() {
    let home = home();
    run(async {
        let mut log = open_log(home.path());
        for end in (100..=6_000).step_by(100) {
            append(&mut log, 1, end - 100..end).await;
            purge(home.path(), &mut log, 1, end - 11).await;
        }
        assert_eq!(held(&mut log).await.len(), 10);
        log.stop();
    });
    let files = std::fs::read_dir(home.path().join("journal")).unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < 400_000, "{bytes} bytes for ten entries");
}

#[test]
fn entries_that_are_not_in_memory_any_more_are_read_from_the_files_together_with_those_that_are() {
    after_restart(
        async |_, log| append(log, 1, 0..50).await,
        async |log| {
            append(log, 2, 50..60).await;
            let all: Vec<_> = (0..50).map(|index| (1, index)).chain((50..60).map(|index| (2, index))).collect();
            assert_eq!(held(log).await, all);
            let some = log.try_get_log_entries(45..55).await.unwrap();
            assert_eq!(some.iter().map(|entry| entry.log_id.index).collect::<Vec<_>>(), (45..55).collect::<Vec<_>>());
        },
    );
}

#[test]
fn a_leader_s_own_entries_are_reported_at_once_and_committed_only_once_they_are_synced() {
    let home = home();
    run(async {
        let mut log = open_log(home.path());
        log.save_vote(&Vote::new_committed(3, 1)).await.unwrap();
        let entry = Entry { log_id: raft_id(3, 0), payload: EntryPayload::Blank };
        log.blocking_append([entry]).await.unwrap();
        // Nothing says that the disk is that far; what is told to followers waits for it.
        log.synced().wait_for(|synced| *synced == super::super::log::Synced::Through(Some(raft_id(3, 0)))).await.unwrap();
        assert_eq!(log.at_most_synced(Some(raft_id(3, 0))), Some(raft_id(3, 0)));
        assert_eq!(log.at_most_synced(Some(raft_id(3, 9))), Some(raft_id(3, 0)));
        log.stop();
    });
}
