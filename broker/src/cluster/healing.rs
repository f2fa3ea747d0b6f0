//! A node whose store or journal is damaged but whose votes are whole: it sets the files aside, begins empty, and gets everything from its
//! peers again. It had acknowledged entries that it has lost now, so until it has caught up it must not help to elect a leader that lacks
//! them: it refuses its vote and does not ask for others'.
//!
//! A node with an empty directory is held to the same: it may be one that had a disk before.
//!
//! It has caught up once it holds what was committed when a leader had committed an entry of its own term: such a leader has everything
//! that was ever acknowledged.

use super::log::{Log, LogError};
use super::points::Healing;
use super::raft::{LogId, Vote};
use crate::files::Files;

/// A leader has been heard, and what it has sent is on the disk.
pub(crate) async fn heard<F: Files>(log: &Log<F>, leader: Vote, commit: Option<LogId>) -> Result<(), LogError> {
    if !log.is_healing() {
        return Ok(());
    }
    if let Some(Healing { until: None }) = log.points().healing
        && let Some(commit) = commit.filter(|commit| leader.committed && commit.leader_id.term == leader.leader_id.term)
    {
        tracing::info!(through = commit.index, "healing: this node gets everything that was committed from its peers");
        log.change_points(move |points| points.healing = Some(Healing { until: Some(commit.index) })).await?;
    }
    look(log).await
}

/// Looks whether the node has caught up; also without a leader, since it may have been the last thing that it got.
pub(crate) async fn look<F: Files>(log: &Log<F>) -> Result<(), LogError> {
    if !log.is_healing() {
        return Ok(());
    }
    let Some(until) = log.points().healing.and_then(|healing| healing.until) else { return Ok(()) };
    if log.at_most_synced(log.last()).is_some_and(|last| last.index >= until) {
        log.change_points(|points| points.healing = None).await?;
        tracing::info!(through = until, "this node has everything that was committed, and may vote");
    }
    Ok(())
}
