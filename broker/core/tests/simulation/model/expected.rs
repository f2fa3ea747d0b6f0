//! What the rules ask dispatch to propose, with the little that it may choose.

use std::ops::RangeInclusive;

use qwerq_core::dispatch::{DeadLetter, GroupKey};
use qwerq_core::entry::Ended;
use qwerq_core::{Millis, Proposal};

/// A proposal; a retry's time may be chosen within bounds, and the broker finds its own words where the consumer gave none.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    proposal: Proposal,
    not_before: RangeInclusive<Millis>,
}

impl Expected {
    pub(super) fn exactly(proposal: Proposal) -> Expected {
        Expected { proposal, not_before: 0..=0 }
    }

    pub(super) fn retry(group: GroupKey, ended: Ended, not_before: RangeInclusive<Millis>) -> Expected {
        Expected { proposal: Proposal::AttemptEnded { group, ended }, not_before }
    }

    /// Whether `given` is what the rules ask for.
    pub(crate) fn accepts(&self, given: &Proposal) -> bool {
        match (&self.proposal, given) {
            (Proposal::AttemptEnded { group, ended }, Proposal::AttemptEnded { group: given_group, ended: given }) => {
                (group, ended.seq, ended.attempts, ended.cause) == (given_group, given.seq, given.attempts, given.cause)
                    && self.not_before.contains(&given.not_before)
            }
            (Proposal::DeadLetter(expected), Proposal::DeadLetter(given)) if expected.error.is_empty() => {
                let worded = DeadLetter { error: given.error.clone(), ..DeadLetter::clone(expected) };
                !given.error.is_empty() && worded == **given
            }
            (expected, given) => expected == given,
        }
    }
}
