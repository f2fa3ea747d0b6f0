//! Checkpoints, crashes and starts. What is left after a crash must be all that was promised.

use std::collections::BTreeSet;

use qwerq_core::{Body, Changes, Dispatch, Entry, Pending, QueueId, RowChange, State};

use super::{World, count};

impl World {
    pub(super) fn take_checkpoint(&mut self) {
        self.finish_checkpoint();
        let Changes { rows, removed, dropped } = self.state.take_changes();
        say!(self, "take a checkpoint of {} rows", rows.len());
        let ranges = removed.into_iter().flat_map(|(queue, space, range)| range.map(move |number| (queue, space, number)));
        let removed: BTreeSet<_> = ranges.collect();
        let fresh = |at: &usize| *at >= self.dirty_since;
        let stays = |queue: &QueueId| self.model.queues.contains_key(queue);
        let expected = self.removed.iter().filter(|(at, queue, ..)| fresh(at) && stays(queue));
        let expected = expected.map(|(_, queue, space, number)| (*queue, *space, *number));
        assert_eq!(removed, expected.collect(), "a checkpoint is told of the messages that went");
        let expected: Vec<_> = self.dropped.iter().filter(|(at, _)| fresh(at)).map(|(_, queue)| *queue).collect();
        assert_eq!(dropped, expected, "a checkpoint is told of the queues that went");
        self.checkpoint = Some((rows, self.journal.len()));
        self.dirty_since = self.journal.len();
        self.covered.checkpoints += 1;
    }

    pub(super) fn finish_checkpoint(&mut self) {
        let Some((changes, at)) = self.checkpoint.take() else { return };
        say!(self, "the checkpoint is durable");
        for change in changes {
            match change {
                RowChange::Put { key, value } => {
                    self.rows.insert(key, value);
                }
                RowChange::Delete { key } => {
                    self.rows.remove(&key);
                }
                RowChange::DeletePrefix { prefix } => self.rows.retain(|key, _| !key.starts_with(&prefix)),
            }
        }
        self.rows_at = at;
    }

    /// Part of the batch may have become durable, and a checkpoint too; the rest is lost.
    pub(super) fn crash(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let durable = usize::try_from(self.dice.within(0, count(batch.len()))).expect("at most a length");
        say!(self, "crash with {durable} of {} entries durable", batch.len());
        self.covered.crashes += 1;
        self.covered.lost_entries += count(batch.len() - durable);
        for waiting in batch.into_iter().take(durable) {
            let entry = self.journalled(waiting);
            self.model_applies(entry.now, &entry.body);
        }
        self.admission = Pending::default();
        self.admitted.clear();
        if self.dice.one_in(2) {
            self.finish_checkpoint();
        }
        self.checkpoint = None;
        self.recover();
        self.restart();
    }

    /// The state comes back from the whole journal, or from the store and the entries behind it; both give the same.
    fn recover(&mut self) {
        let replayed = self.replayed(State::default(), 0);
        self.model.check_state(&replayed);
        let mut loaded = State::default();
        for (key, value) in &self.rows {
            loaded.load(key, value).expect("a row that was written can be read");
        }
        loaded.loaded();
        let loaded = self.replayed(loaded, self.rows_at);
        self.model.check_state(&loaded);
        if self.dice.one_in(2) {
            say!(self, "replay all {} entries", self.journal.len());
            self.state = replayed;
            self.rows.clear();
            self.rows_at = 0;
        } else {
            say!(self, "load {} rows and replay {} entries", self.rows.len(), self.journal.len() - self.rows_at);
            self.state = loaded;
        }
        self.dirty_since = self.rows_at;
    }

    fn replayed(&self, mut state: State, from: usize) -> State {
        for (kind, payload) in &self.journal[from..] {
            state.apply(Entry::decode(*kind, payload).expect("it was read before"));
        }
        state.check_invariants();
        state
    }

    /// A new epoch, whose clock may have been set back or forward meanwhile.
    pub(super) fn restart(&mut self) {
        self.model.crash();
        self.sessions.clear();
        let wall = if self.dice.one_in(2) { self.now - self.dice.below(50_000) } else { self.now + self.dice.below(5_000) };
        self.now = self.state.clock().max(wall);
        self.enter(Body::Epoch { epoch: self.state.epoch() + 1 });
        self.dispatch = Dispatch::new(&self.state, self.dice.next());
        self.commit();
        self.dispatch = Dispatch::new(&self.state, self.dice.next());
        if !self.dice.one_in(4) {
            self.tick();
        }
        self.check();
    }
}
