//! What consumers do with their leases, and what becomes of the proposals.

use qwerq_core::entry::{AttemptEnded, MESSAGES_PER_ENTRY_MAX, Settle};
use qwerq_core::{Body, LeaseId, Proposal, Rejection, SessionId};

use super::World;
use crate::model::Expected;

impl World {
    /// Acks, nacks, rejects, releases or extends: mostly leases in force, sometimes any that ever was, or one that never was.
    pub(super) fn use_lease(&mut self) {
        let anybody = self.any_session();
        let running = self.model.leases.iter().filter(|lease| !lease.settling);
        let mut ids: Vec<_> = running.map(|lease| (lease.owner.unwrap_or(anybody), lease.id)).collect();
        if self.dice.one_in(5) {
            ids = self.granted.iter().rev().take(60).copied().collect();
        }
        let Some(&(mut session, mut id)) = self.dice.pick(&ids) else { return };
        match self.dice.below(30) {
            0 => session = self.any_session(),
            1 => id.counter += 1,
            2 => id.secret ^= 1 << self.dice.below(64),
            3 => id.epoch += 1,
            _ => {}
        }
        match self.dice.below(20) {
            0..9 if self.large => {
                let mine: Vec<_> = ids.into_iter().filter(|(owner, _)| *owner == session).collect();
                let spare = self.dice.within(2, 9);
                for (_, id) in mine {
                    if !self.dice.one_in(spare) {
                        self.ack(session, id);
                    }
                }
            }
            0..9 => self.ack(session, id),
            9..14 => self.nack(session, id),
            14..16 => self.reject(session, id),
            16..18 => self.release(session, id),
            _ => self.extend(session, id),
        }
    }

    pub(super) fn ack(&mut self, session: SessionId, id: LeaseId) {
        let given = self.dispatch.ack(session, id);
        say!(self, "{session:?} acks {id:?}: {given:?}");
        let expected = self.model.ack(session, id);
        self.covered.acked += u64::from(expected.is_some());
        self.covered.settled_by_anybody += u64::from(self.model.leases.iter().any(|lease| lease.id == id && lease.owner.is_none()));
        self.stale_or(given.map(Some), expected.map(Some));
    }

    fn any_words(&mut self) -> &'static str {
        if self.dice.one_in(2) { "" } else { "out of stock" }
    }

    fn nack(&mut self, session: SessionId, id: LeaseId) {
        let delay_ms = match self.dice.below(4) {
            0 => Some(0),
            1 => Some(self.dice.below(3_000)),
            _ => None,
        };
        let error = self.any_words();
        let given = self.dispatch.nack(&self.state, self.now, session, id, delay_ms, error);
        say!(self, "{session:?} nacks {id:?} with {delay_ms:?}: {given:?}");
        let expected = self.model.nack(self.now, session, id, delay_ms, error);
        self.covered.nacked += u64::from(expected.is_some());
        self.covered.dropped += u64::from(matches!(given, Ok(Proposal::Settle { .. })));
        self.stale_or(given.map(Some), expected.map(Some));
    }

    fn reject(&mut self, session: SessionId, id: LeaseId) {
        let error = self.any_words();
        let given = self.dispatch.reject(&self.state, self.now, session, id, error);
        say!(self, "{session:?} rejects {id:?}: {given:?}");
        let expected = self.model.reject(self.now, session, id, error);
        self.covered.rejected += u64::from(expected.is_some());
        self.covered.dropped += u64::from(matches!(given, Ok(Proposal::Settle { .. })));
        self.covered.retried_for_ever += u64::from(matches!(given, Ok(Proposal::AttemptEnded { .. })));
        self.stale_or(given.map(Some), expected.map(Some));
    }

    fn release(&mut self, session: SessionId, id: LeaseId) {
        let given = self.dispatch.release(session, id);
        say!(self, "{session:?} releases {id:?}: {given:?}");
        let expected = self.model.release(session, id);
        self.stale_or(given.map(|()| None), expected.then_some(None));
        self.covered.released += u64::from(expected);
    }

    fn extend(&mut self, session: SessionId, id: LeaseId) {
        let length = if self.dice.one_in(2) { 0 } else { self.dice.within(1, 5_000) };
        let given = self.dispatch.extend(self.now, session, id, length);
        say!(self, "{session:?} extends {id:?} by {length}: {given:?}");
        let expected = self.model.extend(self.now, session, id, length);
        self.stale_or(given.map(|()| None), expected.then_some(None));
        self.covered.extended += u64::from(expected);
    }

    /// The broker takes a lease if and only if the model does, and proposes the same.
    fn stale_or(&mut self, given: Result<Option<Proposal>, Rejection>, expected: Option<Option<Expected>>) {
        match (given, expected) {
            (Ok(Some(given)), Some(Some(expected))) => self.propose_all(vec![given], &[expected]),
            (Ok(None), Some(None)) => {}
            (Err(Rejection::StaleLease { .. }), None) => self.covered.stale += 1,
            (given, expected) => panic!("the lease gives {given:?}, and the rules {expected:?}"),
        }
    }

    /// Dispatch proposes what the rules ask for, each once; of dead letters the shell makes moves.
    pub(super) fn propose_all(&mut self, given: Vec<Proposal>, expected: &[Expected]) {
        let mut left: Vec<_> = given.iter().collect();
        for expected in expected {
            let at = left.iter().position(|given| expected.accepts(given));
            let at = at.unwrap_or_else(|| panic!("the rules ask for {expected:?}, proposed: {given:?}"));
            left.swap_remove(at);
        }
        assert!(left.is_empty(), "nobody asked for {left:?}; by the rules: {expected:?}");
        let mut letters = Vec::new();
        for proposal in given {
            match proposal {
                Proposal::DeadLetter(letter) => letters.push(*letter),
                other => self.propose(other),
            }
        }
        self.bury(letters);
    }

    /// Makes an entry of a proposal, or adds it to the last one of the batch.
    pub(super) fn propose(&mut self, proposal: Proposal) {
        match (proposal, self.batch.last_mut().map(|waiting| &mut waiting.body)) {
            (Proposal::Settle { group, seq, .. }, Some(Body::Settle(settle)))
                if (settle.queue, settle.group) == (group.queue, group.group) && settle.seqs.len() < MESSAGES_PER_ENTRY_MAX =>
            {
                settle.seqs.push(seq);
            }
            (Proposal::AttemptEnded { group, ended }, Some(Body::AttemptEnded(attempt)))
                if (attempt.queue, attempt.group) == (group.queue, group.group) =>
            {
                attempt.ended.push(ended);
            }
            (Proposal::Settle { group, seq, .. }, _) => {
                self.enter(Body::Settle(Settle { queue: group.queue, group: group.group, seqs: vec![seq] }));
            }
            (Proposal::AttemptEnded { group, ended }, _) => {
                self.enter(Body::AttemptEnded(AttemptEnded { queue: group.queue, group: group.group, ended: vec![ended] }));
            }
            (Proposal::Remove { queue, seqs, .. }, _) => self.enter(Body::Removed { queue, seqs }),
            (Proposal::Floor { queue, to }, _) => self.enter(Body::Floor { queue, to }),
            (Proposal::DeleteGroup { group }, _) => self.enter(Body::GroupDeleted { queue: group.queue, group: group.group }),
            (Proposal::DeadLetter(letter), _) => self.bury(vec![*letter]),
        }
    }
}
