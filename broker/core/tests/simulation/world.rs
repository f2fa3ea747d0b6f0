//! The shell's part of the simulation: it batches entries, journals and applies them, writes checkpoints and crashes, all by the dice.
//!
//! Every entry goes through its bytes. After each step the machines are held against the model, which knows the rules.

use std::collections::{BTreeMap, BTreeSet};

use qwerq_core::dispatch::{Bounds, GroupKey, Subscribe};
use qwerq_core::entry::{AttemptEnded, Body, Ended, Entry, MESSAGES_PER_ENTRY_MAX, PUBLISH_KIND, Publish, PublishWriter, Settle};
use qwerq_core::options::{Mode, OnFailure, OnFull};
use qwerq_core::stored::key_hash;
use qwerq_core::{
    Admission, Changes, Dispatch, LeaseId, MessageId, Millis, NewMessage, Pending, Proposal, QueueId, QueueOptions, Rejection, RowChange,
    Seq, SessionId, State, SubscriptionKey,
};

use crate::model::{Expected, Model, PendingItem};
use crate::random::Random;

/// Steps of one seed, before the queues are drained.
const STEPS: u64 = 150;
const STEPS_LARGE: u64 = 80;
/// One seed in so many works with thousands of messages instead of dozens, so that chunks fill and leave.
const LARGE_ONE_IN: u64 = 300;
/// Enough for the model; streams have no limit of their own.
const STORED_MAX: usize = 2_500;
/// Longer than any delay that the dice give.
const LONG_MS: Millis = 1_000_000;

macro_rules! say {
    ($world:expr, $($what:tt)*) => {
        if $world.trace {
            println!("[{}] {}", $world.now, format_args!($($what)*));
        }
    };
}

macro_rules! covered {
    ($($name:ident),* $(,)?) => {
        /// How often what happened; a simulation in which something never happens tests nothing of it.
        #[derive(Debug, Default)]
        pub(crate) struct Covered {
            $(pub(crate) $name: u64,)*
        }

        impl Covered {
            pub(crate) fn add(&mut self, other: &Covered) {
                $(self.$name += other.$name;)*
            }

            pub(crate) fn check_everything_happened(&self) {
                $(assert!(self.$name > 0, "{} never happened", stringify!($name));)*
            }
        }
    };
}

covered! {
    published, duplicates, pending_duplicates, too_large, dedup_full, queue_full, delivered, redelivered, acked, nacked, released, extended,
    stale, expired, counted_disconnects, dropped_after_max_deliveries, heard, purges, checkpoints, crashes, lost_entries, ended_subscriptions,
    entries_for_the_gone, isolated, isolated_late,
}

/// An entry that is not durable yet.
enum Waiting {
    Publish { payload: Vec<u8>, publish: Publish, stored: Vec<Vec<u8>> },
    Other(Entry),
}

pub(crate) struct World {
    dice: Random,
    trace: bool,
    large: bool,
    now: Millis,
    state: State,
    dispatch: Dispatch,
    model: Model,
    admission: Pending,
    admitted: Vec<PendingItem>,
    batch: Vec<Waiting>,
    /// Kind and payload of every durable entry.
    journal: Vec<(u8, Vec<u8>)>,
    /// The store, and how many entries it has seen.
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    rows_at: usize,
    /// A checkpoint that has been taken and is not durable yet.
    checkpoint: Option<(Vec<RowChange>, usize)>,
    /// The entry from which on the state has changes that no checkpoint took.
    dirty_since: usize,
    removed: Vec<(usize, QueueId, Seq)>,
    dropped: Vec<(usize, QueueId)>,
    sessions: Vec<SessionId>,
    next_session: u64,
    next_id: u32,
    /// Every lease ever granted, and to whom.
    granted: Vec<(SessionId, LeaseId)>,
    covered: Covered,
}

impl World {
    pub(crate) fn new(seed: u64, trace: bool) -> World {
        let state = State::default();
        let dispatch = Dispatch::new(&state, 0);
        let mut dice = Random::new(seed);
        let large = dice.one_in(LARGE_ONE_IN);
        World {
            dice,
            trace,
            large,
            now: 1_000_000,
            state,
            dispatch,
            model: Model::default(),
            admission: Pending::default(),
            admitted: Vec::new(),
            batch: Vec::new(),
            journal: Vec::new(),
            rows: BTreeMap::new(),
            rows_at: 0,
            checkpoint: None,
            dirty_since: 0,
            removed: Vec::new(),
            dropped: Vec::new(),
            sessions: Vec::new(),
            next_session: 1,
            next_id: 0,
            granted: Vec::new(),
            covered: Covered::default(),
        }
    }

    pub(crate) fn run(mut self) -> Covered {
        self.restart();
        self.create_queue();
        self.commit();
        for _ in 0..if self.large { STEPS_LARGE } else { STEPS } {
            self.step();
            if !self.dice.one_in(4) {
                self.deliver();
            }
            self.check();
        }
        self.drain();
        self.covered
    }

    fn step(&mut self) {
        match self.dice.below(1_000) {
            0..200 => self.publish(),
            200..290 => self.subscribe(),
            290..520 => self.use_lease(),
            520..550 => self.hear(),
            550..680 => self.pass_time(),
            680..800 => self.commit(),
            800..830 => self.disconnect(),
            830..855 => self.unsubscribe(),
            855..885 => self.credit(),
            885..893 => self.purge(),
            893..930 => self.take_checkpoint(),
            930..945 => self.finish_checkpoint(),
            945..958 => self.crash(),
            958..975 => self.create_group(),
            975..983 => self.create_queue(),
            983..989 => self.delete_group(),
            989..992 => self.delete_queue(),
            _ => self.update_queue(),
        }
    }

    fn check(&mut self) {
        self.state.check_invariants();
        self.dispatch.check_invariants(&self.state);
        let mut ended = self.dispatch.take_ended();
        ended.sort_unstable();
        self.covered.ended_subscriptions += count(ended.len());
        assert_eq!(ended, self.model.take_ended(), "subscriptions end with their group");
        if let Some(at) = self.model.next_deadline() {
            assert!(
                self.dispatch.next_deadline().is_some_and(|given| given <= at),
                "something is due at {at}: {:?}",
                self.dispatch.next_deadline()
            );
        }
        assert_eq!(self.dispatch.in_flight(), count(self.model.leases.len()), "leases in force");
        self.model.check_stats(&self.dispatch);
    }

    // Publishing.

    fn any_queue(&mut self) -> Option<QueueId> {
        let queues: Vec<_> = self.model.queues.keys().copied().collect();
        self.dice.pick(&queues).copied()
    }

    fn publish(&mut self) {
        let Some(queue) = self.any_queue() else { return };
        if self.model.queues[&queue].stored.len() > STORED_MAX {
            return;
        }
        let items = if self.large { self.dice.within(100, 300) } else { self.dice.within(1, 4) };
        let mut payload = vec![0xee; 3];
        let start = payload.len();
        let mut writer = PublishWriter::begin(&mut payload, self.now, queue, 4);
        let mut stored = Vec::new();
        for _ in 0..items {
            let size = self.dice.within_u32(0, 70);
            let ordering_key = *self.dice.pick(&["", "", "", "a", "b", "c"]).expect("six");
            let long = "long ".repeat(100);
            let idempotency_key = *self.dice.pick(&["", "", "", "", "", "", "1", "2", "3", "4", "5", long.as_str()]).expect("twelve");
            let message = NewMessage { size: size.into(), idempotency_key };
            let given = self.state.queue(queue).expect("the model has it").admit(&self.admission, self.now, &message);
            assert_eq!(given, self.model.admit(queue, &self.admitted, self.now, &message), "admission of {message:?} to {queue:?}");
            say!(self, "publish {size} bytes to {queue:?}, key {ordering_key:?}, idempotency key `{idempotency_key:.5}`: {given:?}");
            match given {
                Ok(Admission::New) => {
                    let id = MessageId::ulid(self.now, 0, queue, self.next_id);
                    self.next_id += 1;
                    self.admission.add(queue, &message, id);
                    self.admitted.push(PendingItem { queue, size, idempotency_key: idempotency_key.to_owned(), id });
                    let dedup = (!idempotency_key.is_empty()).then(|| (idempotency_key.to_owned(), id));
                    stored.push(id.0[..usize::try_from(size % 17).expect("below 17")].to_vec());
                    writer.item(&mut payload, size, key_hash(ordering_key), dedup, |out| out.extend_from_slice(&stored[stored.len() - 1]));
                    self.covered.published += 1;
                }
                Ok(Admission::Duplicate { .. }) => self.covered.duplicates += 1,
                Ok(Admission::DuplicateOfPending { .. }) => self.covered.pending_duplicates += 1,
                Err(Rejection::MessageTooLarge { .. }) => self.covered.too_large += 1,
                Err(Rejection::DedupFull { .. }) => self.covered.dedup_full += 1,
                Err(Rejection::QueueFull { .. }) => self.covered.queue_full += 1,
                Err(other) => panic!("a publish is not refused with {other:?}"),
            }
        }
        if !writer.is_empty() {
            self.batch.push(Waiting::Publish { payload: payload[start..].to_vec(), publish: writer.finish(), stored });
        }
    }

    // Consuming.

    fn any_group(&mut self) -> Option<GroupKey> {
        let groups = self.model.group_keys();
        self.dice.pick(&groups).copied()
    }

    fn any_session(&mut self) -> SessionId {
        if self.sessions.is_empty() || self.sessions.len() < 4 && self.dice.one_in(3) {
            self.sessions.push(SessionId(self.next_session));
            self.next_session += 1;
        }
        *self.dice.pick(&self.sessions).expect("just filled")
    }

    fn any_bounds(&mut self) -> Bounds {
        let scale = if self.large { 200 } else { 1 };
        let bytes = if self.dice.one_in(2) { u64::MAX } else { self.dice.within(0, 150) * u64::from(scale) };
        Bounds { messages: self.dice.within_u32(0, 6) * scale, bytes }
    }

    fn any_subscription(&mut self) -> SubscriptionKey {
        let open: Vec<_> = self.model.subscriptions.iter().filter(|subscription| subscription.open).map(|s| s.key).collect();
        let none = SubscriptionKey { session: SessionId(0), number: 1 };
        if self.dice.one_in(20) { none } else { self.dice.pick(&open).copied().unwrap_or(none) }
    }

    fn subscribe(&mut self) {
        let Some(group) = self.any_group() else { return };
        let key = SubscriptionKey { session: self.any_session(), number: self.dice.within_u32(1, 3).into() };
        let concurrency = self.dice.within_u32(1, 3);
        let visibility_timeout_ms = self.dice.within(1, 3_000);
        let subscribe = Subscribe { group, bounds: self.any_bounds(), concurrency, visibility_timeout_ms };
        let given = self.dispatch.subscribe(key, &subscribe);
        say!(self, "{key:?}: {subscribe:?}: {given:?}");
        assert_eq!(given, self.model.subscribe(key, &subscribe));
    }

    fn unsubscribe(&mut self) {
        let (key, keep_leases) = (self.any_subscription(), self.dice.one_in(2));
        say!(self, "unsubscribe {key:?}, keep leases: {keep_leases}");
        assert_eq!(self.dispatch.unsubscribe(key, keep_leases), self.model.unsubscribe(key, keep_leases));
    }

    fn credit(&mut self) {
        let (key, bounds) = (self.any_subscription(), self.any_bounds());
        say!(self, "credit {key:?} {bounds:?}");
        assert_eq!(self.dispatch.credit(key, bounds), self.model.credit(key, bounds));
    }

    fn hear(&mut self) {
        let session = self.any_session();
        say!(self, "heard {session:?}");
        self.dispatch.heard(session);
        self.model.heard(session);
        self.covered.heard += 1;
    }

    fn disconnect(&mut self) {
        if let Some(session) = self.dice.pick(&self.sessions).copied() {
            let graceful = self.dice.one_in(3);
            self.end_session(session, graceful);
        }
    }

    fn end_session(&mut self, session: SessionId, graceful: bool) {
        say!(self, "disconnect {session:?}, graceful: {graceful}");
        self.sessions.retain(|other| *other != session);
        let given = self.dispatch.disconnect(&self.state, self.now, session, graceful);
        let expected = self.model.disconnect(self.now, session, graceful);
        self.covered.counted_disconnects += count(given.len());
        self.propose_all(given, &expected);
    }

    fn pass_time(&mut self) {
        let next = self.dispatch.next_deadline();
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

    fn tick(&mut self) {
        let given = self.dispatch.tick(&self.state, self.now);
        say!(self, "tick: {given:?}");
        let expected = self.model.tick(self.now);
        self.covered.expired += count(given.len());
        self.propose_all(given, &expected);
    }

    fn deliver(&mut self) {
        while let Some(delivery) = self.dispatch.next_delivery(&self.state, self.now) {
            say!(self, "deliver {} #{} of {:?} to {:?}", delivery.seq, delivery.attempt, delivery.queue, delivery.subscription);
            self.model.delivered(self.now, &delivery, !self.large || self.covered.delivered.is_multiple_of(32));
            self.granted.push((delivery.subscription.session, delivery.lease_id));
            self.covered.delivered += 1;
            self.covered.redelivered += u64::from(delivery.attempt > 1);
            let (is_alone, is_idle) = self.model.last_is_isolated();
            self.covered.isolated += u64::from(is_alone && is_idle);
            self.covered.isolated_late += u64::from(is_alone && !is_idle);
        }
        self.model.check_nothing_is_withheld();
    }

    /// Acks, nacks, releases or extends: mostly leases in force, sometimes any that ever was, or one that never was.
    fn use_lease(&mut self) {
        let mut ids: Vec<_> = self.model.leases.iter().filter(|lease| !lease.settling).map(|lease| (lease.session, lease.id)).collect();
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
        match self.dice.below(10) {
            0..5 if self.large => {
                let mine: Vec<_> = ids.into_iter().filter(|(owner, _)| *owner == session).collect();
                let spare = self.dice.within(2, 9);
                for (_, id) in mine {
                    if !self.dice.one_in(spare) {
                        self.ack(session, id);
                    }
                }
            }
            0..5 => self.ack(session, id),
            5..8 => self.nack(session, id),
            8 => {
                let given = self.dispatch.release(session, id);
                say!(self, "{session:?} releases {id:?}: {given:?}");
                let expected = self.model.release(session, id);
                self.stale_or(given.map(|()| None), expected.then_some(None));
                self.covered.released += u64::from(expected);
            }
            _ => {
                let length = if self.dice.one_in(2) { 0 } else { self.dice.within(1, 5_000) };
                let given = self.dispatch.extend(self.now, session, id, length);
                say!(self, "{session:?} extends {id:?} by {length}: {given:?}");
                let expected = self.model.extend(self.now, session, id, length);
                self.stale_or(given.map(|()| None), expected.then_some(None));
                self.covered.extended += u64::from(expected);
            }
        }
    }

    fn ack(&mut self, session: SessionId, id: LeaseId) {
        let given = self.dispatch.ack(session, id);
        say!(self, "{session:?} acks {id:?}: {given:?}");
        let expected = self.model.ack(session, id);
        self.covered.acked += u64::from(expected.is_some());
        self.stale_or(given.map(Some), expected.map(Some));
    }

    fn nack(&mut self, session: SessionId, id: LeaseId) {
        let delay_ms = match self.dice.below(4) {
            0 => Some(0),
            1 => Some(self.dice.below(3_000)),
            _ => None,
        };
        let given = self.dispatch.nack(&self.state, self.now, session, id, delay_ms);
        say!(self, "{session:?} nacks {id:?} with {delay_ms:?}: {given:?}");
        let expected = self.model.nack(self.now, session, id, delay_ms);
        self.covered.nacked += u64::from(expected.is_some());
        self.covered.dropped_after_max_deliveries += u64::from(matches!(given, Ok(Proposal::Settle { .. })));
        self.stale_or(given.map(Some), expected.map(Some));
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

    fn propose_all(&mut self, given: Vec<Proposal>, expected: &[Expected]) {
        assert_eq!(given.len(), expected.len(), "proposed: {given:?}, by the rules: {expected:?}");
        for expected in expected {
            assert!(given.iter().any(|given| expected.accepts(given)), "proposed: {given:?}, by the rules: {expected:?}");
        }
        given.into_iter().for_each(|proposal| self.propose(proposal));
    }

    /// Makes an entry of a proposal, or adds it to the last one of the batch.
    fn propose(&mut self, proposal: Proposal) {
        let last = match self.batch.last_mut() {
            Some(Waiting::Other(entry)) => Some(&mut entry.body),
            _ => None,
        };
        let body = match (proposal, last) {
            (Proposal::Settle { group, seq }, Some(Body::Settle(settle)))
                if (settle.queue, settle.group) == (group.queue, group.group) && settle.seqs.len() < MESSAGES_PER_ENTRY_MAX =>
            {
                settle.seqs.push(seq);
                return;
            }
            (Proposal::AttemptEnded { group, ended }, Some(Body::AttemptEnded(attempt)))
                if (attempt.queue, attempt.group) == (group.queue, group.group) =>
            {
                attempt.ended.push(ended);
                return;
            }
            (Proposal::Settle { group, seq }, _) => Body::Settle(Settle { queue: group.queue, group: group.group, seqs: vec![seq] }),
            (Proposal::AttemptEnded { group, ended }, _) => attempt_ended(group, ended),
        };
        self.enter(body);
    }

    // Administration.

    fn enter(&mut self, body: Body) {
        self.batch.push(Waiting::Other(Entry { now: self.now, body }));
    }

    fn any_options(&mut self) -> QueueOptions {
        let dice = &mut self.dice;
        let scale = if self.large { 50 } else { 1 };
        let many = |dice: &mut Random, few: u64| if dice.one_in(2) { 1_000_000 } else { dice.within(1, few) };
        let mode = if dice.one_in(5) { Mode::Stream } else { Mode::Queue };
        QueueOptions {
            mode,
            max_deliveries: dice.within_u32(1, 4),
            on_failure: *dice.pick(&[OnFailure::Dlq, OnFailure::Drop, OnFailure::RetryForever]).expect("three"),
            retry_backoff_first_ms: dice.below(1_000),
            retry_backoff_max_ms: dice.below(5_000),
            max_messages: if mode == Mode::Stream { 0 } else { dice.within(5, 60) * scale },
            max_bytes: dice.within(200, 3_000) * scale,
            on_full: if mode == Mode::Stream { OnFull::DropOldest } else { OnFull::Reject },
            dedup_window_ms: dice.within(1, 6_000),
            dedup_max_keys: many(dice, 5),
            max_message_bytes: 64,
            max_unsettled: if self.large { 1_000_000 } else { many(dice, 6) },
            ..QueueOptions::default()
        }
    }

    /// Few names, so that one batch creates the same twice.
    fn create_queue(&mut self) {
        let name = *self.dice.pick(&["orders", "mails", "invoices"]).expect("three");
        let options = self.any_options();
        say!(self, "create queue {name}: {options:?}");
        let body = self.state.create_queue(name, options);
        self.enter(body);
    }

    fn update_queue(&mut self) {
        let Some(queue) = self.any_queue() else { return };
        let before = &self.model.queues[&queue].options;
        let (mode, max_messages, on_full) = (before.mode, before.max_messages, before.on_full);
        let options = QueueOptions { mode, max_messages, on_full, ..self.any_options() };
        say!(self, "update {queue:?}: {options:?}");
        self.enter(Body::QueueUpdated { queue, options });
    }

    fn delete_queue(&mut self) {
        let Some(queue) = self.any_queue() else { return };
        say!(self, "delete {queue:?}");
        self.enter(Body::QueueDeleted { queue });
    }

    fn create_group(&mut self) {
        let Some(queue) = self.any_queue() else { return };
        let name = *self.dice.pick(&["default", "billing", "audit"]).expect("three");
        let next_seq = self.model.queues[&queue].next_seq;
        let floor = match self.dice.below(4) {
            0 => next_seq,
            1 => self.dice.within(0, next_seq + 1),
            _ => 0,
        };
        say!(self, "create group {name} of {queue:?} at {floor}");
        let body = self.state.create_group(queue, name, floor);
        self.enter(body);
    }

    fn delete_group(&mut self) {
        let Some(GroupKey { queue, group }) = self.any_group() else { return };
        say!(self, "delete {group:?} of {queue:?}");
        self.enter(Body::GroupDeleted { queue, group });
    }

    fn purge(&mut self) {
        let Some(queue) = self.any_queue() else { return };
        let next_seq = self.model.queues[&queue].next_seq;
        let to = self.dice.within(0, next_seq + 1);
        say!(self, "purge {queue:?} below {to}");
        self.enter(Body::Floor { queue, to });
        self.covered.purges += 1;
    }

    // Durability.

    /// The batch becomes durable, is applied, and dispatch is told.
    fn commit(&mut self) {
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
        // A new queue without a group would only fill.
        let bare: Vec<_> = self.model.queues.iter().filter(|(_, queue)| queue.groups.is_empty()).map(|(id, _)| *id).collect();
        if self.dice.one_in(4)
            && let Some(queue) = self.dice.pick(&bare).copied()
        {
            let body = self.state.create_group(queue, "default", 0);
            self.enter(body);
        }
        if !self.large || self.dice.one_in(10) {
            self.model.check_state(&self.state);
        }
    }

    /// Writes an entry to the journal, and gives it as the journal would.
    fn journalled(&mut self, waiting: Waiting) -> Entry {
        let (kind, payload, written) = match waiting {
            Waiting::Publish { payload, publish, stored } => {
                for (item, stored) in publish.items.iter().zip(&stored) {
                    assert_eq!(
                        payload[item.stored.start as usize..item.stored.end as usize],
                        stored[..],
                        "the stored form lies where it is said to"
                    );
                }
                (PUBLISH_KIND, payload, Body::Publish(publish))
            }
            Waiting::Other(entry) => {
                let mut payload = Vec::new();
                entry.encode(&mut payload);
                (entry.body.kind(), payload, entry.body)
            }
        };
        let entry = Entry::decode(kind, &payload).expect("just encoded");
        assert_eq!(entry.body, written, "an entry is read as it was written");
        self.journal.push((kind, payload));
        entry
    }

    fn model_applies(&mut self, now: Millis, body: &Body) -> qwerq_core::Applied {
        let applied = self.model.apply(now, self.now, body);
        let at = self.journal.len() - 1;
        self.removed.extend(self.model.removed.drain(..).map(|(queue, seq)| (at, queue, seq)));
        self.dropped.extend(self.model.dropped.drain(..).map(|queue| (at, queue)));
        self.covered.entries_for_the_gone += u64::from(applied == qwerq_core::Applied::Nothing && !matches!(body, Body::Epoch { .. }));
        applied
    }

    fn take_checkpoint(&mut self) {
        self.finish_checkpoint();
        let Changes { rows, removed, dropped } = self.state.take_changes();
        say!(self, "take a checkpoint of {} rows", rows.len());
        let removed: BTreeSet<_> = removed.into_iter().flat_map(|(queue, range)| range.map(move |seq| (queue, seq))).collect();
        let fresh = |at: &usize| *at >= self.dirty_since;
        let stays = |queue: &QueueId| self.model.queues.contains_key(queue);
        let expected = self.removed.iter().filter(|(at, queue, _)| fresh(at) && stays(queue)).map(|(_, queue, seq)| (*queue, *seq));
        assert_eq!(removed, expected.collect(), "a checkpoint is told of the messages that went");
        let expected: Vec<_> = self.dropped.iter().filter(|(at, _)| fresh(at)).map(|(_, queue)| *queue).collect();
        assert_eq!(dropped, expected, "a checkpoint is told of the queues that went");
        self.checkpoint = Some((rows, self.journal.len()));
        self.dirty_since = self.journal.len();
        self.covered.checkpoints += 1;
    }

    fn finish_checkpoint(&mut self) {
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

    /// Part of the batch may have become durable, and a checkpoint too; the rest is lost. What is left must be all that was promised.
    fn crash(&mut self) {
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
        self.restart();
    }

    fn replayed(&self, mut state: State, from: usize) -> State {
        for (kind, payload) in &self.journal[from..] {
            state.apply(Entry::decode(*kind, payload).expect("it was read before"));
        }
        state.check_invariants();
        state
    }

    /// A new epoch, whose clock may have been set back or forward meanwhile.
    fn restart(&mut self) {
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

    /// Consumers come for everything: whatever was committed and not settled arrives, and nothing is left.
    fn drain(&mut self) {
        say!(self, "drain");
        for session in self.sessions.clone() {
            self.end_session(session, true);
        }
        self.commit();
        self.commit();
        for queue in self.model.queues.keys().copied().collect::<Vec<_>>() {
            let body = self.state.create_group(queue, "drain", 0);
            self.enter(body);
            self.commit();
        }
        let session = self.any_session();
        for (number, group) in (100..).zip(self.model.group_keys()) {
            let key = SubscriptionKey { session, number };
            let bounds = Bounds { messages: 1_000, bytes: u64::MAX };
            let subscribe = Subscribe { group, bounds, concurrency: 1, visibility_timeout_ms: LONG_MS };
            assert_eq!(self.dispatch.subscribe(key, &subscribe), self.model.subscribe(key, &subscribe));
        }
        let mut idle = 0;
        while self.model.group_keys().into_iter().any(|key| self.model.lag(key) > 0) {
            self.deliver();
            let leases: Vec<_> = self.model.leases.iter().map(|lease| (lease.session, lease.id)).collect();
            idle = if leases.is_empty() { idle + 1 } else { 0 };
            assert!(idle < 3, "committed messages are never delivered");
            leases.into_iter().for_each(|(session, id)| self.ack(session, id));
            self.commit();
            self.now += LONG_MS / 10;
            self.tick();
            self.check();
        }
        self.model.check_state(&self.state);
        for queue in self.state.queues().filter(|queue| queue.options.mode == Mode::Queue) {
            assert_eq!((queue.messages().count(), queue.messages().bytes()), (0, 0), "everything is settled, so `{}` is empty", queue.name);
        }
    }
}

fn attempt_ended(group: GroupKey, ended: Ended) -> Body {
    Body::AttemptEnded(AttemptEnded { queue: group.queue, group: group.group, ended: vec![ended] })
}

fn count(n: usize) -> u64 {
    u64::try_from(n).expect("a length fits 64 bits")
}
