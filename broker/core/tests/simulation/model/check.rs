//! Whether the durable half of the broker says the same as the model.

use std::collections::BTreeSet;

use qwerq_core::{NewMessage, Pending, QueueId, State};

use super::{Group, Model, Queue};

impl Model {
    pub(crate) fn check_state(&self, state: &State) {
        assert_eq!((state.clock(), state.epoch()), (self.clock, self.epoch), "clock and epoch");
        assert_eq!(state.next_due(), self.next_due(), "when the next delayed message falls due");
        let names: Vec<_> = state.queues().map(|queue| (queue.id, queue.name.to_string())).collect();
        let mut expected: Vec<_> = self.queues.iter().map(|(id, queue)| (*id, queue.name.clone())).collect();
        expected.sort_by(|a, b| a.1.cmp(&b.1));
        assert_eq!(names, expected, "queues");
        for (id, expected) in &self.queues {
            let queue = state.queue(*id).unwrap();
            expected.check(queue);
            for (id, group) in &expected.groups {
                check_group(queue, &queue.groups()[id], expected, group);
            }
            self.check_dedup(*id, state);
        }
        self.check_nothing_is_lost();
    }

    /// Every key ever recorded gets the same answer, now, at its end and just before.
    fn check_dedup(&self, id: QueueId, state: &State) {
        let expected = &self.queues[&id];
        for key in &expected.keys {
            for now in [self.clock, key.until.max(self.clock + 1) - 1, key.until.max(self.clock)] {
                let message = NewMessage { size: 0, idempotency_key: &key.key };
                let given = state.queue(id).unwrap().admit(&Pending::default(), now, &message);
                assert_eq!(given, self.admit(id, &[], now, &message), "idempotency key {} of {} at {now}", key.key, expected.name);
            }
        }
    }

    fn check_nothing_is_lost(&self) {
        let live = self.queues.values().flat_map(|queue| queue.stored.values().map(|stored| stored.message));
        let delayed = self.queues.values().flat_map(|queue| queue.delayed.values().map(|delayed| delayed.message));
        self.ledger.check(&live.chain(delayed).collect::<BTreeSet<_>>());
    }
}

impl Queue {
    fn check(&self, queue: &qwerq_core::Queue) {
        let name = &self.name;
        assert_eq!(queue.options, self.options, "options of {name}");
        assert_eq!((queue.next_seq(), queue.next_delayed()), (self.next_seq, self.next_delayed), "next numbers of {name}");
        assert_eq!((queue.stored_messages(), queue.stored_bytes()), (self.messages(), self.bytes()), "what limits of {name} count");
        let messages = queue.messages();
        assert_eq!((messages.count(), messages.bytes()), (u64::try_from(self.stored.len()).unwrap(), self.live_bytes()), "{name}");
        let listed: Vec<_> = std::iter::successors(messages.next_at(0), |seq| messages.next_at(seq + 1)).collect();
        assert_eq!(listed, self.stored.keys().copied().collect::<Vec<_>>(), "stored messages of {name}");
        for (seq, stored) in &self.stored {
            let facts = messages.get(*seq).unwrap();
            let expected = (stored.size, stored.key, stored.at, stored.expires_at);
            assert_eq!((facts.size, facts.key, facts.at, facts.expires_at), expected, "{name} {seq}");
            // Looked up by time: the first one of its time.
            if seq % 61 == 0 {
                let first = self.stored.iter().find(|(_, other)| other.at >= stored.at).map(|(seq, _)| *seq);
                assert_eq!(messages.first_since(stored.at), first, "{name} since {}", stored.at);
            }
        }
        let delayed = self.delayed.iter().map(|(key, delayed)| (*key, delayed.size, delayed.key, delayed.expires_at));
        let given = queue.delayed().iter().map(|(key, delayed)| (key, delayed.size, delayed.key, delayed.expires_at));
        assert_eq!(given.collect::<Vec<_>>(), delayed.collect::<Vec<_>>(), "delayed messages of {name}");
        assert_eq!(queue.groups().keys().collect::<Vec<_>>(), self.groups.keys().collect::<Vec<_>>(), "groups of {name}");
    }
}

fn check_group(queue: &qwerq_core::Queue, group: &qwerq_core::Group, expected_queue: &Queue, expected: &Group) {
    let name = format!("{}/{}", expected_queue.name, expected.name);
    assert_eq!(group.name, expected.name);
    for seq in 0..expected_queue.next_seq {
        assert_eq!(group.is_settled(seq), expected.settled.contains(&seq), "whether {name} settled {seq}");
    }
    let floor = (0..expected_queue.next_seq).find(|seq| !expected.settled.contains(seq)).unwrap_or(expected_queue.next_seq);
    assert_eq!(group.ack_floor(), floor, "floor of {name}");
    assert_eq!(u64::try_from(group.settled_intervals()).unwrap(), expected_queue.settled_intervals(expected), "intervals of {name}");
    assert_eq!(queue.lag(group), u64::try_from(expected_queue.unsettled(expected).count()).unwrap(), "lag of {name}");
    let attempts: Vec<_> = group.attempts().iter().map(|(seq, a)| (*seq, a.ended, a.not_before, a.first_at, a.suspect)).collect();
    let known = expected.attempts.iter().map(|(seq, a)| (*seq, a.ended, a.not_before, a.first_at, a.suspect));
    assert_eq!(attempts, known.collect::<Vec<_>>(), "attempts of {name}");
}
