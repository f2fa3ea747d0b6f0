//! The leader's lease: until when no other node can have been elected, because a quorum of them has promised so.
//!
//! A follower refuses its vote for [`ELECTION_MAX`](super::raft::ELECTION_MAX) after each request of its leader. So what counts is when a
//! request was sent that a quorum has answered; the leader itself is part of it at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::raft::LEASE;

/// What is known of the members' promises.
#[derive(Debug)]
pub(crate) struct Lease {
    node_id: u64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The term that the promises are for.
    term: u64,
    /// When the first request of the term was sent that was answered.
    since: Option<Instant>,
    /// When the last request was sent that the member has answered.
    answered: BTreeMap<u64, Instant>,
    /// The voters, of both configurations while they change.
    voters: Vec<BTreeSet<u64>>,
}

impl Lease {
    pub(crate) fn new(node_id: u64) -> Lease {
        Lease { node_id, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that holds the lock can leave it half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who votes.
    pub(crate) fn set_voters(&self, voters: Vec<BTreeSet<u64>>) {
        self.lock().voters = voters;
    }

    /// Takes note of an answer to a request of this term that was sent at `sent`.
    pub(crate) fn answered(&self, term: u64, node: u64, sent: Instant) {
        let mut inner = self.lock();
        if term < inner.term {
            return;
        }
        if term > inner.term {
            inner.term = term;
            inner.since = Some(sent);
            inner.answered.clear();
        }
        let last = inner.answered.entry(node).or_insert(sent);
        *last = sent.max(*last);
    }

    /// When a member was last known to follow; if it never was, when others began to.
    pub(crate) fn last_contact(&self, node: u64) -> Option<Instant> {
        let inner = self.lock();
        inner.answered.get(&node).copied().or(inner.since)
    }

    /// Whether the leader of `term` may serve at `now`.
    pub(crate) fn holds(&self, term: u64, now: Instant) -> bool {
        let inner = self.lock();
        if inner.voters.is_empty() {
            return false;
        }
        inner.voters.iter().all(|voters| {
            let others_needed = (voters.len() / 2 + 1).saturating_sub(usize::from(voters.contains(&self.node_id)));
            let fresh = |node: &&u64| {
                **node != self.node_id
                    && inner.term == term
                    && inner.answered.get(node).is_some_and(|sent| now.saturating_duration_since(*sent) < LEASE)
            };
            voters.iter().filter(fresh).count() >= others_needed
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lease(voters: &[&[u64]]) -> Lease {
        let lease = Lease::new(1);
        lease.set_voters(voters.iter().map(|set| set.iter().copied().collect()).collect());
        lease
    }

    #[test]
    fn a_lease_holds_while_a_quorum_has_answered_of_late() {
        let lease = lease(&[&[1, 2, 3, 4, 5]]);
        let start = Instant::now();
        assert!(!lease.holds(7, start));
        lease.answered(7, 2, start);
        assert!(!lease.holds(7, start));
        lease.answered(7, 3, start);
        assert!(lease.holds(7, start));
        assert!(lease.holds(7, start + LEASE - Duration::from_millis(1)));
        assert!(!lease.holds(7, start + LEASE));
        // An answer to an older request takes nothing back.
        lease.answered(7, 2, start + LEASE);
        lease.answered(7, 2, start);
        lease.answered(7, 4, start + LEASE);
        assert!(lease.holds(7, start + LEASE));
    }

    #[test]
    fn answers_to_another_term_do_not_count() {
        let lease = lease(&[&[1, 2, 3]]);
        let start = Instant::now();
        lease.answered(7, 2, start);
        assert!(!lease.holds(8, start));
        lease.answered(8, 3, start);
        assert!(lease.holds(8, start));
        lease.answered(7, 2, start + LEASE);
        assert!(!lease.holds(8, start + LEASE));
    }

    #[test]
    fn one_that_has_never_answered_is_silent_for_as_long_as_others_have() {
        let lease = lease(&[&[1, 2, 3]]);
        let start = Instant::now();
        assert_eq!(lease.last_contact(3), None);
        lease.answered(7, 2, start);
        lease.answered(7, 2, start + LEASE);
        assert_eq!((lease.last_contact(2), lease.last_contact(3)), (Some(start + LEASE), Some(start)));
        lease.answered(8, 3, start + LEASE);
        assert_eq!(lease.last_contact(2), Some(start + LEASE));
    }

    #[test]
    fn while_members_change_both_quorums_count() {
        let lease = lease(&[&[1, 2, 3], &[3, 4, 5]]);
        let start = Instant::now();
        lease.answered(1, 2, start);
        lease.answered(1, 4, start);
        assert!(!lease.holds(1, start));
        lease.answered(1, 3, start);
        assert!(lease.holds(1, start));
    }

    #[test]
    fn one_that_is_alone_needs_nobody_and_one_without_a_cluster_holds_nothing() {
        assert!(lease(&[&[1]]).holds(3, Instant::now()));
        assert!(!lease(&[]).holds(3, Instant::now()));
    }
}
