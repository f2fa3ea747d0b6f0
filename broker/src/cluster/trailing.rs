//! Nodes that were so far behind that they got a snapshot: until they have caught up, the leader keeps the log from that snapshot on.
//!
//! Otherwise a long transfer would end in front of a log that begins later, and the next snapshot would have to follow, for ever while the
//! cluster is busy. A node that stands still is not waited for, or a dead one would fill the leader's disk.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a node that has its snapshot may stand still.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Trailing {
    nodes: Mutex<BTreeMap<u64, Behind>>,
}

#[derive(Debug)]
struct Behind {
    /// The index of the last entry that it has, or will have.
    through: u64,
    /// Since when that is so; `None`: its snapshot is under way, which has a patience of its own.
    since: Option<Instant>,
}

impl Trailing {
    fn nodes(&self) -> MutexGuard<'_, BTreeMap<u64, Behind>> {
        // Nothing that holds the lock can leave the map half changed.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A snapshot that ends with the entry `through` is on its way to `node`.
    pub(crate) fn sends(&self, node: u64, through: u64) {
        self.nodes().insert(node, Behind { through, since: None });
    }

    /// It has come, or it has not and another one will follow.
    pub(crate) fn has_sent(&self, node: u64, arrived: bool, now: Instant) {
        let mut nodes = self.nodes();
        match nodes.get_mut(&node) {
            Some(behind) if arrived => behind.since = Some(now),
            _ => drop(nodes.remove(&node)),
        }
    }

    /// The last entry that the log may lose, given the last one that it may lose for anybody else's sake, and what each node is known to
    /// have by now; `None`: this node does not lead, and keeps nothing for others.
    pub(crate) fn spares(&self, until: u64, matched: Option<&dyn Fn(u64) -> Option<u64>>, now: Instant) -> u64 {
        let mut nodes = self.nodes();
        let Some(matched) = matched else {
            nodes.clear();
            return until;
        };
        nodes.retain(|node, behind| {
            let Some(since) = behind.since else { return true };
            if let Some(has) = matched(*node)
                && has > behind.through
            {
                *behind = Behind { through: has, since: Some(now) };
                return has < until;
            }
            let waits = now.saturating_duration_since(since) < PATIENCE;
            if !waits {
                tracing::warn!(node, "a node stands still since it got a snapshot; the log is not kept for it any more");
            }
            waits
        });
        nodes.values().fold(until, |until, behind| until.min(behind.through))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody(_: u64) -> Option<u64> {
        None
    }

    #[test]
    fn the_log_is_kept_from_the_snapshot_on_until_the_node_has_caught_up() {
        let (trailing, now) = (Trailing::default(), Instant::now());
        assert_eq!(trailing.spares(500, Some(&nobody), now), 500);
        trailing.sends(2, 100);
        assert_eq!(trailing.spares(500, Some(&nobody), now + 10 * PATIENCE), 100, "a transfer takes as long as it takes");
        trailing.has_sent(2, true, now);
        assert_eq!(trailing.spares(600, Some(&nobody), now), 100);
        assert_eq!(trailing.spares(600, Some(&|node| (node == 2).then_some(300)), now), 300);
        assert_eq!(trailing.spares(700, Some(&|_| Some(700)), now), 700, "it has what would be kept without it");
        assert_eq!(trailing.spares(800, Some(&|_| Some(700)), now), 800, "and is like any other from then on");
    }

    #[test]
    fn a_node_that_stands_still_or_fails_is_not_waited_for() {
        let (trailing, now) = (Trailing::default(), Instant::now());
        trailing.sends(2, 100);
        trailing.has_sent(2, true, now);
        assert_eq!(trailing.spares(500, Some(&|_| Some(100)), now + PATIENCE / 2), 100);
        assert_eq!(trailing.spares(500, Some(&|_| Some(100)), now + PATIENCE), 500);
        trailing.sends(3, 200);
        trailing.has_sent(3, false, now);
        assert_eq!(trailing.spares(500, Some(&nobody), now), 500);
    }

    #[test]
    fn who_does_not_lead_keeps_nothing_for_others() {
        let (trailing, now) = (Trailing::default(), Instant::now());
        trailing.sends(2, 100);
        assert_eq!(trailing.spares(500, None, now), 500);
        assert_eq!(trailing.spares(500, Some(&nobody), now), 500, "and begins anew when it leads again");
    }
}
