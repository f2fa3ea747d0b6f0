//! The rules of suspects: the last attempt of a message that took its consumer along is delivered alone, one of a group at a time.

use qwerq_core::dispatch::GroupKey;
use qwerq_core::options::OnFailure;
use qwerq_core::{Millis, Seq};

use super::{Group, Model, Queue, Stored, Subscription};

/// Whether the next delivery is the last one before failure handling, and one before it took its consumer along.
pub(super) fn is_suspect(queue: &Queue, group: &Group, seq: Seq) -> bool {
    queue.on_failure() != OnFailure::RetryForever
        && group.attempts.get(&seq).is_some_and(|attempt| attempt.suspect && attempt.ended + 1 >= queue.options.max_deliveries)
}

impl Model {
    /// Whether the last delivery was a suspect's, and the only one to its consumer.
    pub(crate) fn last_is_isolated(&self) -> (bool, bool) {
        let last = self.leases.last().expect("a delivery has just been noted");
        (last.alone, self.leases.iter().filter(|lease| lease.serial == last.serial).count() == 1)
    }

    fn isolates(&self, key: GroupKey) -> bool {
        self.leases.iter().any(|lease| lease.group == key && lease.alone)
    }

    /// Suspects that wait to be delivered alone.
    pub(super) fn waiting_suspects(&self, key: GroupKey, now: Millis) -> usize {
        if self.isolates(key) { 0 } else { self.heads(key, now).iter().filter(|(.., suspect)| *suspect).count() }
    }

    /// Whether a consumer may be kept for a suspect: for one that waits, or one that has expired meanwhile and was not looked at yet.
    pub(super) fn may_keep_one(&self, key: GroupKey, now: Millis) -> bool {
        let (queue, group) = (&self.queues[&key.queue], self.group(key).unwrap());
        let is_unnoticed =
            |(seq, stored): (Seq, Stored)| stored.is_expired(now) && !group.leaving.contains(&seq) && is_suspect(queue, group, seq);
        self.waiting_suspects(key, now) > 0 || (!self.isolates(key) && queue.unsettled(group).any(is_unnoticed))
    }

    /// A suspect goes to an idle consumer, or after one visibility timeout to one that is not.
    pub(super) fn check_isolation(&self, key: GroupKey, seq: Seq, to: &Subscription, now: Millis) {
        assert!(!self.isolates(key), "{key:?} isolates one suspect at a time, and {seq} is the second");
        let not_before = self.group(key).unwrap().attempts[&seq].not_before;
        let patience = self.subscriptions.iter().filter(|other| other.open && other.group == key).map(|other| other.visibility_timeout_ms);
        let is_idle = self.held(to).0 == 0;
        assert!(
            is_idle || now >= not_before + patience.min().unwrap(),
            "the suspect {seq} went to {:?}, which is not idle, too early",
            to.key
        );
    }
}
