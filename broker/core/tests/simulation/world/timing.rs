//! Time passes: to just before something is due, to the moment, or beyond.

use qwerq_core::Proposal;
use qwerq_core::dispatch::Ending;

use super::{World, count};

impl World {
    pub(super) fn pass_time(&mut self) {
        let next = self.next_deadline();
        self.now = match self.dice.below(4) {
            0 => next.map_or(self.now, |at| at.max(self.now)),
            1 => next.map_or(self.now, |at| at.saturating_sub(1).max(self.now)),
            2 => self.now + self.dice.below(100),
            _ => self.now + self.dice.below(4_000),
        };
        if !self.dice.one_in(5) {
            self.tick();
        }
    }

    pub(super) fn tick(&mut self) {
        let mut given = self.dispatch.tick(&self.state, self.now);
        // One look proposes a bounded number of changes; the rest follows at once.
        while given.len() >= 1_000 && self.dispatch.next_deadline().is_some_and(|at| at <= self.now) {
            let more = self.dispatch.tick(&self.state, self.now);
            if more.is_empty() {
                break;
            }
            given.extend(more);
        }
        say!(self, "tick: {given:?}");
        let expected = self.model.tick(self.now);
        let is_retention =
            |proposal: &Proposal| matches!(proposal, Proposal::Floor { .. } | Proposal::Remove { ending: Ending::MadeRoom, .. });
        let (retention, rest): (Vec<_>, Vec<_>) = given.into_iter().partition(is_retention);
        self.model.retain(self.now, &retention.iter().collect::<Vec<_>>());
        for proposal in &rest {
            match proposal {
                Proposal::AttemptEnded { .. } => self.covered.leases_expired += 1,
                Proposal::Settle { ending: Ending::Expired, .. } => self.covered.expired += 1,
                Proposal::Settle { .. } => self.covered.dropped += 1,
                Proposal::Remove { seqs, .. } => self.covered.expired_without_group += count(seqs.len()),
                Proposal::DeleteGroup { .. } => self.covered.groups_expired += 1,
                Proposal::DeadLetter(_) | Proposal::Floor { .. } => {}
            }
        }
        for proposal in &retention {
            match proposal {
                Proposal::Remove { seqs, .. } => self.covered.room_made_between += count(seqs.len()),
                _ => self.covered.room_made_below += 1,
            }
        }
        self.propose_all(rest, &expected);
        retention.into_iter().for_each(|proposal| self.propose(proposal));
        self.fall_due();
    }
}
