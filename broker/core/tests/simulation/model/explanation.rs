//! What EXPLAIN says of a message must be so.

use qwerq_core::dispatch::{Dispatch, GroupKey, Obstacle};
use qwerq_core::{Millis, Seq, State};

use super::Model;
use super::suspect::is_suspect;

impl Model {
    /// Holds what is said to be in the way of a message against what the rules know of it.
    pub(crate) fn check_explanation(&self, dispatch: &Dispatch, state: &State, now: Millis, key: GroupKey, seq: Seq) {
        let given = dispatch.explain_message(state, now, key, seq);
        let (queue, group) = (&self.queues[&key.queue], self.group(key).unwrap());
        let lease = self.leases.iter().find(|lease| lease.group == key && lease.seq == seq);
        let stored = queue.stored.get(&seq);
        let is_so = match &given {
            Obstacle::NotFound => stored.is_none() && !group.settled.contains(&seq),
            Obstacle::Settled => group.settled.contains(&seq),
            Obstacle::Settling { attempt } => lease.is_some_and(|lease| lease.settling && lease.attempt == *attempt),
            Obstacle::Leased { attempt, remaining_ms, is_alone, .. } => lease.is_some_and(|lease| {
                let remaining = lease.deadline.saturating_sub(now);
                !lease.settling && (lease.attempt, remaining, lease.alone) == (*attempt, *remaining_ms, *is_alone)
            }),
            Obstacle::Expired => lease.is_none() && stored.is_some_and(|stored| stored.is_expired(now)),
            Obstacle::BackingOff { attempts, remaining_ms } => {
                let until = group.attempts.get(&seq).map(|attempt| (attempt.ended, attempt.not_before.saturating_sub(now)));
                group.waiting.contains(&seq) && until == Some((*attempts, *remaining_ms))
            }
            Obstacle::KeyBlocked { by, .. } => {
                let is_first = queue.stored.get(by).is_some_and(|first| stored.is_some_and(|stored| stored.key == first.key));
                is_first && *by < seq && !group.settled.contains(by)
            }
            Obstacle::Paused { .. } => queue.pauses(group, seq),
            Obstacle::IsolatedSuspect { .. } => is_suspect(queue, group, seq),
            Obstacle::NoConsumer => self.consumers(key) == 0,
            _ => lease.is_none() && self.consumers(key) > 0,
        };
        assert!(is_so, "{seq} of {key:?} does not move because of {given:?}, which is not so");
        let is_unmoved = !group.settled.contains(&seq) && stored.is_some() && lease.is_none();
        let must = is_unmoved && stored.is_some_and(|stored| stored.is_expired(now));
        assert!(!must || given == Obstacle::Expired, "{seq} of {key:?} has expired, and not {given:?}");
    }
}
