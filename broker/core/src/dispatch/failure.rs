//! What becomes of a message whose delivery failed: another try, the dead letters, or nothing more.

use super::{Dispatch, Ending, GroupKey, Proposal};
use crate::entry::{Cause, Ended};
use crate::ids::{GroupId, Millis, QueueId, Seq, SessionId};
use crate::options::OnFailure;
use crate::rejection::Rejection;
use crate::state::State;

use super::lease::{Lease, LeaseId};

/// Why a message became a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It used up its deliveries.
    MaxDeliveries,
    /// A consumer rejected it.
    Rejected,
    /// It breaks the contract.
    Invalid,
    /// Its time to live passed.
    Expired,
}

impl Reason {
    /// The word in the header `qwerq-reason`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Reason::MaxDeliveries => "max-deliveries",
            Reason::Rejected => "rejected",
            Reason::Invalid => "invalid",
            Reason::Expired => "expired",
        }
    }
}

/// A message that is to become a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// From which queue.
    pub queue: QueueId,
    /// Whose; none: the queue has no group.
    pub group: Option<GroupId>,
    /// Which message.
    pub seq: Seq,
    /// Why.
    pub reason: Reason,
    /// The consumer's words, or the broker's.
    pub error: String,
    /// Deliveries that ended.
    pub attempts: u32,
    /// When the first of them ended.
    pub first_at: Millis,
}

/// How a delivery ended that was not acknowledged.
pub(super) struct Failure<'a> {
    pub(super) cause: Cause,
    pub(super) now: Millis,
    /// Earliest next delivery, if there is one.
    pub(super) not_before: Millis,
    /// The consumer's words; may be empty.
    pub(super) error: &'a str,
}

impl Failure<'_> {
    fn text(&self) -> String {
        let broker = match self.cause {
            Cause::Nack => "the consumer gave no reason",
            Cause::Expired => "the lease ran out",
            Cause::Disconnected => "the consumer's connection ended",
        };
        if self.error.is_empty() { broker.to_owned() } else { self.error.to_owned() }
    }
}

impl Dispatch {
    /// Ends a delivery as failed; the message comes back after the queue's backoff, or after `delay_ms`.
    ///
    /// # Errors
    /// [`Rejection::StaleLease`].
    pub fn nack(
        &mut self,
        state: &State,
        now: Millis,
        session: SessionId,
        id: LeaseId,
        delay_ms: Option<u64>,
        error: &str,
    ) -> Result<Proposal, Rejection> {
        let counter = self.check(session, id)?;
        let not_before = self.retry_at(state, now, counter, delay_ms);
        Ok(self.end_attempt(state, counter, &Failure { cause: Cause::Nack, now, not_before, error }))
    }

    /// Sends a message to failure handling at once.
    ///
    /// # Errors
    /// [`Rejection::StaleLease`].
    pub fn reject(&mut self, state: &State, now: Millis, session: SessionId, id: LeaseId, error: &str) -> Result<Proposal, Rejection> {
        let counter = self.check(session, id)?;
        let not_before = self.retry_at(state, now, counter, None);
        let lease = self.hold(counter);
        Ok(fail(state, &lease, Reason::Rejected, &Failure { cause: Cause::Nack, now, not_before, error }))
    }

    fn retry_at(&self, state: &State, now: Millis, counter: u64, delay_ms: Option<u64>) -> Millis {
        let lease = &self.leases[&counter];
        let options = &state.queue(lease.group.queue).expect("a leased message's queue exists").options;
        now.saturating_add(delay_ms.unwrap_or_else(|| options.backoff_ms(lease.attempt, jitter(lease))))
    }

    /// Holds a lease whose delivery failed and counts, and says what becomes of its message.
    pub(super) fn end_attempt(&mut self, state: &State, counter: u64, failure: &Failure<'_>) -> Proposal {
        let lease = self.hold(counter);
        let options = &state.queue(lease.group.queue).expect("a leased message's queue exists").options;
        if lease.attempt >= options.max_deliveries { fail(state, &lease, Reason::MaxDeliveries, failure) } else { retry(&lease, failure) }
    }
}

fn retry(lease: &Lease, failure: &Failure<'_>) -> Proposal {
    let ended = Ended { seq: lease.seq, attempts: lease.attempt, cause: failure.cause, not_before: failure.not_before };
    Proposal::AttemptEnded { group: lease.group, ended }
}

fn fail(state: &State, lease: &Lease, reason: Reason, failure: &Failure<'_>) -> Proposal {
    let GroupKey { queue, group } = lease.group;
    let source = state.queue(queue).expect("a leased message's queue exists");
    match source.on_failure() {
        OnFailure::RetryForever => retry(lease, failure),
        OnFailure::Drop => Proposal::Settle { group: lease.group, seq: lease.seq, ending: Ending::Dropped },
        OnFailure::Dlq => Proposal::DeadLetter(Box::new(DeadLetter {
            queue,
            group: Some(group),
            seq: lease.seq,
            reason,
            error: failure.text(),
            attempts: lease.attempt,
            first_at: source.groups()[&group].attempts().get(&lease.seq).map_or(failure.now, |attempt| attempt.first_at),
        })),
    }
}

/// Spreads retries; a hash, so that a replay gives the same.
fn jitter(lease: &Lease) -> u64 {
    let mixed = u64::from(lease.group.queue.0)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(lease.seq)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        .wrapping_add(u64::from(lease.attempt))
        .wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 29)
}
