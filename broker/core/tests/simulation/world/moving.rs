//! What the shell makes of moves: messages that fall due, dead letters, redrives. It copies a message's stored form from where it was.

use std::collections::BTreeMap;

use qwerq_core::dispatch::{DeadLetter, Reason};
use qwerq_core::entry::{ItemHead, ItemWriter, MOVED_KIND, Moved, Origin};
use qwerq_core::{Body, GroupId, Millis, QueueId, Seq};

use super::batch::Waiting;
use super::{World, count};

impl World {
    /// Enters a move with the messages in the form in which they arrive.
    pub(super) fn enter_moved(&mut self, origin: &Origin, items: Vec<(ItemHead, Vec<u8>)>) {
        let mut payload = vec![0xee; 5];
        let start = payload.len();
        let mut writer = ItemWriter::begin_moved(&mut payload, self.now, origin);
        for (head, stored) in items {
            writer.item(&mut payload, head, |out| out.extend_from_slice(&stored));
        }
        let body = Body::Moved(Moved { origin: origin.clone(), items: writer.finish() });
        self.batch.push(Waiting { now: self.now, kind: MOVED_KIND, payload: payload[start..].to_vec(), body });
    }

    /// Delayed messages whose time has come move to the end of their queue, some at a time.
    pub(super) fn fall_due(&mut self) {
        let ready: Vec<_> = self.model.queues.keys().copied().filter(|id| !self.model.queues[id].due(self.now).is_empty()).collect();
        let mut given: Vec<_> = self.state.due_queues(self.now).map(|queue| queue.id).collect();
        given.sort_unstable();
        assert_eq!(given, ready, "queues in which something is due");
        for queue in ready {
            let most = if self.dice.one_in(2) { 1_000 } else { self.dice.within(1, 3) };
            let delayed = self.state.queue(queue).expect("the model has it").delayed();
            let due: Vec<_> = delayed.due(self.now).collect();
            let keys: Vec<_> = due.iter().map(|(key, _)| *key).collect();
            assert_eq!(keys, self.model.queues[&queue].due(self.now), "what is due in {queue:?}, in order");
            let due = &due[..due.len().min(usize::try_from(most).expect("few"))];
            say!(self, "due in {queue:?}: {due:?}");
            let items = due.iter().map(|(key, delayed)| {
                let head = ItemHead { size: delayed.size, key: delayed.key, expires_at: delayed.expires_at, ..ItemHead::default() };
                (head, stored_form(self.model.queues[&queue].delayed[key].message))
            });
            let (items, keys) = (items.collect(), due.iter().map(|(key, _)| *key).collect());
            self.enter_moved(&Origin::Due { queue, keys }, items);
        }
    }

    /// Dead letters of one queue and group go together, some at a time.
    pub(super) fn bury(&mut self, letters: Vec<DeadLetter>) {
        let mut by_group: BTreeMap<(QueueId, Option<GroupId>), Vec<Seq>> = BTreeMap::new();
        for letter in letters {
            *match letter.reason {
                Reason::MaxDeliveries => &mut self.covered.letters_after_max_deliveries,
                Reason::Rejected => &mut self.covered.letters_rejected,
                Reason::Expired => &mut self.covered.letters_expired,
                Reason::Invalid => panic!("dispatch knows nothing of contracts"),
            } += 1;
            self.covered.letters_of_no_group += u64::from(letter.group.is_none());
            by_group.entry((letter.queue, letter.group)).or_default().push(letter.seq);
        }
        for ((queue, group), seqs) in by_group {
            let most = usize::try_from(self.dice.within(1, 4)).expect("few");
            for seqs in seqs.chunks(if self.large { 100 } else { most }) {
                let items = seqs.iter().map(|seq| self.arriving(queue, *seq)).collect();
                self.enter_moved(&Origin::Failed { queue, group, seqs: seqs.to_vec() }, items);
            }
        }
    }

    /// A stored message in the form in which it arrives elsewhere: no ttl, no delay, no idempotency key.
    fn arriving(&self, queue: QueueId, seq: Seq) -> (ItemHead, Vec<u8>) {
        let stored = &self.model.queues[&queue].stored[&seq];
        (ItemHead { size: stored.size, key: stored.key, ..ItemHead::default() }, stored_form(stored.message))
    }

    /// Dead letters of one group go back to it, to all groups, or to another queue.
    pub(super) fn redrive(&mut self) {
        let dlqs: Vec<_> =
            self.model.queues.iter().filter(|(_, queue)| queue.is_dlq() && !queue.stored.is_empty()).map(|(id, _)| *id).collect();
        let Some(from) = self.dice.pick(&dlqs).copied() else { return };
        let letters: Vec<_> = self.model.queues[&from].stored.iter().map(|(seq, letter)| (*seq, letter.letter_of)).collect();
        let (_, group) = *self.dice.pick(&letters).expect("there are letters");
        let most = usize::try_from(self.dice.within(1, 3)).expect("few");
        let seqs: Vec<_> = letters.into_iter().filter(|(_, of)| *of == group).map(|(seq, _)| seq).take(most).collect();
        let name = &self.model.queues[&from].name;
        let source = name.strip_suffix(".dlq").and_then(|source| self.model.named(source));
        let (to, only) = match (self.dice.below(4), source) {
            (0, Some(source)) => (source, None),
            (1..=2, Some(source)) => (source, group),
            _ => match self.any_source() {
                Some(other) => (other, None),
                None => return,
            },
        };
        say!(self, "redrive {seqs:?} of {from:?} to {to:?}, only {only:?}");
        *if Some(to) != source {
            &mut self.covered.redriven_elsewhere
        } else if only.is_some() {
            &mut self.covered.redriven_to_their_group
        } else {
            &mut self.covered.redriven_to_all
        } += count(seqs.len());
        let items = seqs.iter().map(|seq| self.arriving(from, *seq)).collect();
        self.enter_moved(&Origin::Redriven { from, seqs, to, only }, items);
    }

    /// The earlier of dispatch's deadline and the next delayed message.
    pub(super) fn next_deadline(&self) -> Option<Millis> {
        self.dispatch.next_deadline().into_iter().chain(self.state.next_due()).min()
    }
}

fn stored_form(message: u64) -> Vec<u8> {
    message.to_le_bytes().to_vec()
}
