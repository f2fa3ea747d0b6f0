//! The batch: entries that wait for the disk, and what happens once they are there.

use qwerq_core::{Applied, Body, Entry, Millis};

use super::World;

/// An entry that is not durable yet.
pub(super) struct Waiting {
    pub(super) now: Millis,
    pub(super) kind: u8,
    /// What was written of it; empty for an entry without messages, which may still grow.
    pub(super) payload: Vec<u8>,
    pub(super) body: Body,
}

impl World {
    pub(super) fn enter(&mut self, body: Body) {
        self.batch.push(Waiting { now: self.now, kind: body.kind(), payload: Vec::new(), body });
    }

    /// The batch becomes durable, is applied, and dispatch is told.
    pub(super) fn commit(&mut self) {
        say!(self, "commit {} entries", self.batch.len());
        for waiting in std::mem::take(&mut self.batch) {
            let entry = self.journalled(waiting);
            let (now, body) = (entry.now, entry.body.clone());
            let applied = self.state.apply(entry);
            say!(self, "applied {body:?}: {applied:?}");
            let expected = self.model_applies(now, &body);
            assert_eq!(applied, expected, "what {body:?} did");
            self.dispatch.applied(&self.state, self.now, &applied);
            self.check();
        }
        self.admission.clear();
        self.admitted.clear();
        self.open_bare_queue();
        if !self.large || self.dice.one_in(10) {
            self.model.check_state(&self.state);
        }
    }

    /// A queue without a group would only fill.
    fn open_bare_queue(&mut self) {
        let bare: Vec<_> = self.model.queues.iter().filter(|(_, queue)| queue.groups.is_empty()).map(|(id, _)| *id).collect();
        if self.dice.one_in(4)
            && let Some(queue) = self.dice.pick(&bare).copied()
        {
            let body = self.state.create_group(queue, "default", 0);
            self.enter(body);
        }
    }

    /// Writes an entry to the journal, and gives it as the journal would.
    pub(super) fn journalled(&mut self, waiting: Waiting) -> Entry {
        let Waiting { now, kind, mut payload, body } = waiting;
        if payload.is_empty() {
            Entry { now, body: body.clone() }.encode(&mut payload);
        }
        let entry = Entry::decode(kind, &payload).expect("just encoded");
        assert_eq!(entry.body, body, "an entry is read as it was written");
        self.journal.push((kind, payload));
        entry
    }

    pub(super) fn model_applies(&mut self, now: Millis, body: &Body) -> Applied {
        let (_, payload) = self.journal.last().expect("just written");
        let applied = self.model.apply(now, self.now, body, payload);
        let at = self.journal.len() - 1;
        self.removed.extend(self.model.removed.drain(..).map(|(queue, space, number)| (at, queue, space, number)));
        self.dropped.extend(self.model.dropped.drain(..).map(|queue| (at, queue)));
        match (body, &applied) {
            (Body::Moved(_), Applied::Nothing) => self.covered.overtaken_moves += 1,
            (Body::Moved(_), Applied::Moved { origin: qwerq_core::entry::Origin::Due { .. }, moved, .. }) => {
                self.covered.fell_due += super::count(moved.len());
            }
            (Body::Epoch { .. }, _) => {}
            (_, Applied::Nothing) => self.covered.entries_for_the_gone += 1,
            _ => {}
        }
        applied
    }
}
