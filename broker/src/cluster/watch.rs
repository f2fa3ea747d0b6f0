//! Follows what Raft says of itself, and tells the node's other parts: who leads, who votes, what may be purged.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use openraft::ServerState;

use super::committed::Queue;
use super::lease::Lease;
use super::link::Standing;
use super::log::Log;
use super::raft::{LogId, Raft};
use super::runtime::now as clock;
use crate::files::Files;

/// What it takes.
pub(crate) struct Watch<F: Files> {
    pub(crate) log: Log<F>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) standing: Arc<Standing>,
    pub(crate) queue: Arc<Queue>,
    /// Segments of the journal that stay for nodes that are behind, though a checkpoint covers them.
    pub(crate) segments_kept: usize,
}

impl<F: Files> Watch<F> {
    /// Follows what Raft says of itself.
    pub(crate) async fn follow(&self, raft: &openraft::Raft<Raft>) {
        let mut metrics = raft.metrics();
        let mut leader = None;
        let mut snapshot = None;
        let mut members = None;
        loop {
            let (failed, purge) = {
                let now = metrics.borrow_and_update();
                let failed = now.running_state.is_err();
                let led = if now.state == ServerState::Leader && !failed { now.current_term } else { 0 };
                if self.standing.led.swap(led, Ordering::AcqRel) != led {
                    self.queue.nudge();
                }
                if members != Some(*now.membership_config.log_id()) {
                    members = Some(*now.membership_config.log_id());
                    self.lease.set_voters(now.membership_config.membership().get_joint_config().clone());
                }
                if leader != Some((now.current_leader, now.current_term)) {
                    leader = Some((now.current_leader, now.current_term));
                    match now.current_leader {
                        Some(node) => tracing::info!(leader = node, term = now.current_term, "a node leads"),
                        None => tracing::info!(term = now.current_term, "no node leads"),
                    }
                }
                // The last entry that a checkpoint covers and nobody needs from the log.
                let covered = (now.snapshot > snapshot).then_some(now.snapshot).flatten();
                let old = covered.and_then(|covered| Some(self.log.last_before(self.segments_kept)?.min(covered.index)));
                let purge = old.map(|old| {
                    let replication = now.replication.as_ref();
                    let matched = replication.map(|nodes| |node: u64| nodes.get(&node).copied().flatten().map(|last: LogId| last.index));
                    let matched = matched.as_ref().map(|matched| matched as &dyn Fn(u64) -> Option<u64>);
                    self.log.trailing().spares(old, matched, clock())
                });
                snapshot = now.snapshot;
                (failed, purge)
            };
            if failed {
                self.standing.failed.store(true, Ordering::Release);
                return self.queue.nudge();
            }
            if let Some(purge) = purge {
                // A Raft that has stopped says so in its metrics.
                let _ = raft.trigger().purge_log(purge).await;
            }
            if metrics.changed().await.is_err() {
                self.standing.failed.store(true, Ordering::Release);
                return self.queue.nudge();
            }
        }
    }
}
