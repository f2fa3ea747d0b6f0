//! Whether the broker takes requests: what /readyz answers.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::cluster::{ClusterStatus, Role};

const STARTING: u8 = 0;
const READY: u8 = 1;
const DRAINING: u8 = 2;

/// Starting, then ready, then draining; it never goes back.
#[derive(Debug, Default)]
pub struct Readiness {
    phase: AtomicU8,
}

impl Readiness {
    /// A broker that is starting.
    #[must_use]
    pub fn new() -> Readiness {
        Readiness::default()
    }

    /// Recovery is done and the broker port accepts. Without effect on a broker that already drains.
    pub fn set_ready(&self) {
        self.phase.fetch_max(READY, Ordering::Release);
    }

    /// The broker takes nothing new.
    pub fn set_draining(&self) {
        self.phase.fetch_max(DRAINING, Ordering::Release);
    }

    /// Why the broker is not ready, or `None` when it is.
    #[must_use]
    pub fn refusal(&self) -> Option<&'static str> {
        match self.phase.load(Ordering::Acquire) {
            STARTING => Some("starting"),
            READY => None,
            _ => Some("draining"),
        }
    }
}

/// Why a node of a cluster is not ready, or `None` when it is.
///
/// A follower that knows its leader is: whoever comes is told where to go, and a rolling restart or an ordered start must be able to go on
/// when one node leads and the others follow. One that copies what the others have is not: the next node must not be stopped before it is
/// done. `leader`: only the node that leads counts, for balancers that cannot follow a redirect.
pub(super) fn of_a_node(status: &ClusterStatus, leader: bool) -> Option<&'static str> {
    if leader && status.role != Role::Leader {
        return Some("another node leads");
    }
    if status.leader.is_none() {
        return Some("no leader");
    }
    // One that does not know itself as a voter has yet to be told of the membership.
    let votes = status.members.iter().any(|member| member.id == status.node_id && member.voter);
    (status.healing || !votes).then_some("catching up")
}
