//! The rules of leases: a lease settles only while it runs, once, for the connection that got it (a detached one for anybody); and what follows its end.

use std::ops::RangeInclusive;

use qwerq_core::dispatch::{DeadLetter, Ending, GroupKey, Reason};
use qwerq_core::entry::{Cause, Ended};
use qwerq_core::options::OnFailure;
use qwerq_core::{LeaseId, Millis, Proposal, Seq, SessionId};

use super::{Expected, Model};

#[derive(Debug, Clone)]
pub(crate) struct Lease {
    pub(crate) id: LeaseId,
    pub(crate) group: GroupKey,
    pub(crate) seq: Seq,
    /// Whose it is; nobody's: whoever has the id may settle it.
    pub(crate) owner: Option<SessionId>,
    pub(super) serial: u64,
    pub(super) visibility_timeout_ms: u64,
    pub(super) deadline: Millis,
    pub(super) attempt: u32,
    pub(super) size: u32,
    /// Its end is proposed and not durable yet.
    pub(crate) settling: bool,
    /// A suspect: nothing else goes to its consumer.
    pub(super) alone: bool,
    /// By an ack.
    pub(super) acked: bool,
}

impl Model {
    fn in_force(&mut self, session: SessionId, id: LeaseId) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|lease| lease.id == id && lease.owner.is_none_or(|owner| owner == session) && !lease.settling)
    }

    pub(crate) fn is_leased(&self, key: GroupKey, seq: Seq) -> bool {
        self.leases.iter().any(|lease| lease.group == key && lease.seq == seq)
    }

    pub(crate) fn ack(&mut self, session: SessionId, id: LeaseId) -> Option<Expected> {
        let lease = self.in_force(session, id)?;
        (lease.settling, lease.acked) = (true, true);
        Some(Expected::exactly(Proposal::Settle { group: lease.group, seq: lease.seq, ending: Ending::Acked }))
    }

    pub(crate) fn nack(&mut self, now: Millis, session: SessionId, id: LeaseId, delay_ms: Option<u64>, error: &str) -> Option<Expected> {
        let lease = self.in_force(session, id)?.clone();
        let not_before = delay_ms.map_or_else(|| self.backoff(now, &lease), |delay| now + delay..=now + delay);
        Some(self.end_attempt(id, Cause::Nack, now, not_before, error))
    }

    /// Failure handling at once; where failing is no end, it is a nack.
    pub(crate) fn reject(&mut self, now: Millis, session: SessionId, id: LeaseId, error: &str) -> Option<Expected> {
        let lease = self.in_force(session, id)?.clone();
        let not_before = self.backoff(now, &lease);
        Some(self.fail(id, Reason::Rejected, Cause::Nack, now, not_before, error))
    }

    /// The first delay, doubled with each attempt up to the maximum, less at most a quarter.
    fn backoff(&self, now: Millis, lease: &Lease) -> RangeInclusive<Millis> {
        let options = &self.queues[&lease.group.queue].options;
        let cap = options.retry_backoff_max_ms.max(options.retry_backoff_first_ms);
        let full = (1..lease.attempt).fold(options.retry_backoff_first_ms, |delay, _| (delay * 2).min(cap));
        now + full - full / 4..=now + full
    }

    /// A delivery ended and counts: another try, or failure handling after `max_deliveries`.
    pub(super) fn end_attempt(
        &mut self,
        id: LeaseId,
        cause: Cause,
        now: Millis,
        not_before: RangeInclusive<Millis>,
        error: &str,
    ) -> Expected {
        let lease = self.leases.iter_mut().find(|lease| lease.id == id).unwrap();
        if lease.attempt >= self.queues[&lease.group.queue].options.max_deliveries {
            return self.fail(id, Reason::MaxDeliveries, cause, now, not_before, error);
        }
        lease.settling = true;
        Expected::retry(lease.group, Ended { seq: lease.seq, attempts: lease.attempt, cause, not_before: *not_before.start() }, not_before)
    }

    fn fail(
        &mut self,
        id: LeaseId,
        reason: Reason,
        cause: Cause,
        now: Millis,
        not_before: RangeInclusive<Millis>,
        error: &str,
    ) -> Expected {
        let lease = self.leases.iter_mut().find(|lease| lease.id == id).unwrap();
        lease.settling = true;
        let Lease { group: key, seq, attempt, .. } = *lease;
        let queue = &self.queues[&key.queue];
        match queue.on_failure() {
            OnFailure::RetryForever => {
                Expected::retry(key, Ended { seq, attempts: attempt, cause, not_before: *not_before.start() }, not_before)
            }
            OnFailure::Drop => Expected::exactly(Proposal::Settle { group: key, seq, ending: Ending::Dropped }),
            OnFailure::Dlq => Expected::exactly(Proposal::DeadLetter(Box::new(DeadLetter {
                queue: key.queue,
                group: Some(key.group),
                seq,
                reason,
                error: error.to_owned(),
                attempts: attempt,
                first_at: queue.groups[&key.group].attempts.get(&seq).map_or(now, |attempt| attempt.first_at),
            }))),
        }
    }

    pub(crate) fn release(&mut self, session: SessionId, id: LeaseId) -> bool {
        let found = self.in_force(session, id).is_some();
        if found {
            self.leases.retain(|lease| lease.id != id);
        }
        found
    }

    pub(crate) fn extend(&mut self, now: Millis, session: SessionId, id: LeaseId, visibility_timeout_ms: u64) -> bool {
        let Some(lease) = self.in_force(session, id) else { return false };
        lease.deadline = now + if visibility_timeout_ms == 0 { lease.visibility_timeout_ms } else { visibility_timeout_ms };
        true
    }
}
