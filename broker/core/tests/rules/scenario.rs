//! A scenario: steps on the core as the shell takes them, each committed before the next, and what is seen of it. `main.rs` has the words.

use std::collections::BTreeMap;

use qwerq_core::dispatch::{Bounds, DeadLetter, GroupKey, Head, Obstacle, Subscribe};
use qwerq_core::entry::{Applied, AttemptEnded, ItemHead, ItemWriter, MOVED_KIND, Origin, PUBLISH_KIND, Settle};
use qwerq_core::stored::key_hash;
use qwerq_core::{
    Admission, Body, Delivery, Dispatch, Entry, GroupId, LeaseId, MessageId, Millis, NewMessage, Pending, Proposal, QueueId, QueueOptions,
    Rejection, RowChange, Seq, SessionId, State, SubscriptionKey,
};

const QUEUE: QueueId = QueueId(0);
/// Payload and headers of every message, in bytes.
const SIZE: u32 = 10;

pub(crate) struct Scenario {
    now: Millis,
    state: State,
    dispatch: Dispatch,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    journal: Vec<(u8, Vec<u8>)>,
    /// Entries that the rows contain.
    in_rows: usize,
    sessions: u64,
    /// The newest consumer, pull or reader.
    newest: SubscriptionKey,
    /// Of stored messages, by queue and sequence; of delayed ones, by number.
    names: BTreeMap<(QueueId, Seq), String>,
    delayed_names: BTreeMap<u64, String>,
    leases: Vec<Lease>,
    letters: Vec<Letter>,
    seen: Vec<String>,
}

/// A lease that was granted, whatever became of it.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    pub(crate) name: String,
    pub(crate) attempt: u32,
    session: SessionId,
    id: LeaseId,
}

/// A dead letter that was proposed, whatever became of it.
struct Letter {
    name: String,
    seq: Seq,
    group: Option<GroupId>,
    text: String,
}

impl Scenario {
    pub(crate) fn new(options: QueueOptions) -> Scenario {
        let state = State::default();
        let dispatch = Dispatch::new(&state, 1);
        let mut scenario = Scenario {
            now: 1_000_000,
            state,
            dispatch,
            rows: BTreeMap::new(),
            journal: Vec::new(),
            in_rows: 0,
            sessions: 0,
            newest: SubscriptionKey { session: SessionId(0), number: 0 },
            names: BTreeMap::new(),
            delayed_names: BTreeMap::new(),
            leases: Vec::new(),
            letters: Vec::new(),
            seen: Vec::new(),
        };
        scenario.commit(Body::Epoch { epoch: 1 });
        scenario.dispatch = Dispatch::new(&scenario.state, 1);
        scenario.commit(scenario.state.create_queue("q", options));
        scenario.commit(scenario.state.create_group(QUEUE, "g", 0));
        scenario.let_time_act();
        scenario
    }

    /// Takes the steps, and delivers what can be delivered after each.
    pub(crate) fn take(&mut self, steps: &str) {
        for step in steps.split(';') {
            self.step(&step.split_whitespace().collect::<Vec<_>>());
            self.let_time_act();
            self.deliver();
            self.state.check_invariants();
            self.dispatch.check_invariants(&self.state);
        }
    }

    /// What was seen since the last call.
    pub(crate) fn seen(&mut self) -> Vec<String> {
        std::mem::take(&mut self.seen)
    }

    /// The leases granted since the last call.
    pub(crate) fn granted(&mut self) -> Vec<Lease> {
        std::mem::take(&mut self.leases)
    }

    fn step(&mut self, words: &[&str]) {
        match words {
            ["publish", items @ ..] => self.publish(items),
            ["invalid", name] => self.publish_invalid(name),
            ["lease", timeout, more @ ..] => self.consume(millis(timeout), more),
            ["pull", timeout, more @ ..] => self.pull(millis(timeout), more),
            ["wait", timeout, more @ ..] => drop(self.open_pull(millis(timeout), more)),
            ["answer"] => assert!(self.dispatch.close_pull(self.newest), "the newest pull waits"),
            ["tail", credit] => self.read(self.state.queue(QUEUE).expect("created first").next_seq(), credit),
            ["read", from, credit] => self.read(from.parse().expect("a position"), credit),
            ["credit", credit] => assert!(self.dispatch.credit(self.newest, most(credit)), "the newest one is open"),
            ["ack", lease, "by", session] => {
                let session = SessionId(session.parse().expect("a session"));
                let lease = Lease { session, ..self.lease(lease) };
                self.settle_lease(&lease, |dispatch, _, _, session, id| dispatch.ack(session, id).map(Some));
            }
            ["ack", lease] => self.settle(lease, |dispatch, _, _, session, id| dispatch.ack(session, id).map(Some)),
            ["lost", "ack", lease] => {
                let Lease { session, id, .. } = self.lease(lease);
                self.dispatch.ack(session, id).expect("the lease runs");
            }
            ["nack", lease, delay @ ..] => {
                let delay = delay.first().map(|delay| millis(delay));
                self.settle(lease, |dispatch, state, now, session, id| dispatch.nack(state, now, session, id, delay, "").map(Some));
            }
            ["reject", lease, words @ ..] => {
                let error = words.join(" ");
                self.settle(lease, |dispatch, state, now, session, id| dispatch.reject(state, now, session, id, &error).map(Some));
            }
            ["release", lease] => self.settle(lease, |dispatch, _, _, session, id| dispatch.release(session, id).map(|()| None)),
            ["extend", lease, by] => {
                let by = millis(by);
                self.settle(lease, |dispatch, _, now, session, id| dispatch.extend(now, session, id, by).map(|()| None));
            }
            ["why"] => self.explain("g", |dispatch, state, now, key| dispatch.explain_group(state, now, key)),
            ["why", "key", name] => {
                let hash = key_hash(name);
                self.explain(name, |dispatch, state, now, key| dispatch.explain_key(state, now, key, hash));
            }
            ["why", name] => {
                let obstacle = self.dispatch.explain_message(&self.state, self.now, self.group(QUEUE, "g"), self.seq(name));
                self.seen.push(format!("{name}: {}", self.words(&obstacle)));
            }
            ["heard"] => self.dispatch.heard(SessionId(self.sessions)),
            ["close"] => self.disconnect(true),
            ["drop"] => self.disconnect(false),
            ["queue", name] => self.commit(self.state.create_queue(name, QueueOptions::default())),
            ["group", name] => self.commit(self.state.create_group(QUEUE, name, 0)),
            ["delete"] => self.commit(Body::QueueDeleted { queue: QUEUE }),
            ["delete", name] => self.commit(Body::GroupDeleted { queue: QUEUE, group: self.group(QUEUE, name).group }),
            ["purge"] => self.commit(Body::Purged { queue: QUEUE, to: Seq::MAX, delayed_to: u64::MAX }),
            ["seek", group, to] => {
                let to = if *to == "end" { Seq::MAX } else { self.seq(to) };
                self.commit(Body::Sought { queue: QUEUE, group: self.group(QUEUE, group).group, to });
            }
            ["through", group, name] => {
                self.commit(Body::SettledThrough { queue: QUEUE, group: self.group(QUEUE, group).group, through: self.seq(name) });
            }
            ["redrive", name, how @ ..] => self.redrive(name, how),
            ["crash"] => self.crash(),
            ["depth", queue @ ..] => {
                let queue = queue.first().map_or("q", |queue| queue);
                self.seen.push(format!("depth {}", self.queue(queue).map_or(0, qwerq_core::Queue::stored_messages)));
            }
            ["letters"] => self.show_letters(),
            ["groups"] => {
                let names: Vec<_> = self.queue("q").expect("created first").groups().values().map(|group| group.name.as_str()).collect();
                self.seen.push(["groups"].into_iter().chain(names).collect::<Vec<_>>().join(" "));
            }
            [time] if time.starts_with('+') => self.now += millis(&time[1..]),
            _ => panic!("no step is called {words:?}"),
        }
    }

    fn queue(&self, name: &str) -> Option<&qwerq_core::Queue> {
        self.state.queue_named(name)
    }

    fn group(&self, queue: QueueId, name: &str) -> GroupKey {
        let group = self.state.queue(queue).and_then(|queue| queue.group(name)).expect("a group of the scenario").id;
        GroupKey { queue, group }
    }

    fn seq(&self, name: &str) -> Seq {
        let found = self.names.iter().find(|((queue, _), known)| *queue == QUEUE && *known == name);
        found.map(|((_, seq), _)| *seq).expect("a message of the scenario")
    }

    // Messages come.

    fn publish(&mut self, items: &[&str]) {
        let mut payload = Vec::new();
        let mut pending = Pending::default();
        let mut writer = ItemWriter::begin_publish(&mut payload, self.now, QUEUE, items.len());
        let mut names = Vec::new();
        for item in items {
            let (item, ttl) = item.split_once('~').unwrap_or((item, ""));
            let (item, delay) = item.split_once('+').unwrap_or((item, ""));
            let (item, idempotency_key) = item.split_once('!').unwrap_or((item, ""));
            let (name, ordering_key) = item.split_once('/').unwrap_or((item, ""));
            let message = NewMessage { size: SIZE.into(), idempotency_key };
            let mut id = MessageId([0; 16]);
            id.0[0] = name.as_bytes()[0];
            match self.state.queue(QUEUE).expect("created first").admit(&pending, self.now, &message) {
                Ok(Admission::New) => {
                    pending.add(QUEUE, &message, id);
                    let dedup = (!idempotency_key.is_empty()).then(|| (idempotency_key.to_owned(), id));
                    let due = if delay.is_empty() { 0 } else { self.now + millis(delay) };
                    let expires_at = if ttl.is_empty() { 0 } else { due.max(self.now) + millis(ttl) };
                    let head = ItemHead { size: SIZE, key: key_hash(ordering_key), due, expires_at, dedup };
                    writer.item(&mut payload, head, |out| out.extend_from_slice(name.as_bytes()));
                    names.push((name.to_owned(), due != 0));
                }
                Ok(Admission::Duplicate { id, .. } | Admission::DuplicateOfPending { id }) => {
                    self.seen.push(format!("duplicate of {}", char::from(id.0[0])));
                }
                Err(Rejection::QueueFull { .. }) => self.seen.push("full".to_owned()),
                Err(Rejection::DedupFull { .. }) => self.seen.push("dedup full".to_owned()),
                Err(other) => panic!("a publish is not refused with {other:?}"),
            }
        }
        if writer.is_empty() {
            return;
        }
        let Applied::Published { first, first_delayed, .. } = self.commit_payload(PUBLISH_KIND, payload) else {
            panic!("a publish is a publish")
        };
        let (delayed, live): (Vec<_>, Vec<_>) = names.into_iter().partition(|(_, is_delayed)| *is_delayed);
        self.names.extend((first..).zip(live).map(|(seq, (name, _))| ((QUEUE, seq), name)));
        self.delayed_names.extend((first_delayed..).zip(delayed).map(|(number, (name, _))| (number, name)));
    }

    fn publish_invalid(&mut self, name: &str) {
        self.letters.push(Letter { name: name.to_owned(), seq: 0, group: None, text: format!("{name} invalid") });
        self.move_messages(&Origin::Invalid { queue: QUEUE, count: 1 }, &[(name.to_owned(), ItemHead::default())]);
    }

    /// Commits a move; the names go with the messages.
    fn move_messages(&mut self, origin: &Origin, items: &[(String, ItemHead)]) {
        let mut payload = Vec::new();
        let mut writer = ItemWriter::begin_moved(&mut payload, self.now, origin);
        for (name, head) in items {
            writer.item(&mut payload, ItemHead { size: SIZE, ..head.clone() }, |out| out.extend_from_slice(name.as_bytes()));
        }
        let Applied::Moved { to, first, moved, .. } = self.commit_payload(MOVED_KIND, payload) else { return };
        for (seq, at) in (first..).zip(moved) {
            self.names.insert((to, seq), items[at].0.clone());
            let is_letter = matches!(origin, Origin::Failed { .. } | Origin::Invalid { .. });
            if let Some(letter) = self.letters.iter_mut().rev().find(|letter| is_letter && letter.name == items[at].0) {
                letter.seq = seq;
            }
        }
    }

    fn bury(&mut self, letter: &DeadLetter) {
        let DeadLetter { queue, group, seq, reason, attempts, .. } = *letter;
        let (name, source) = (self.names[&(queue, seq)].clone(), self.state.queue(queue).expect("it holds the message"));
        let whose = group.map_or("nobody", |group| source.groups()[&group].name.as_str());
        let text = format!("{name} {} of {whose} after {attempts}", reason.word());
        let key = source.messages().get(seq).map_or(0, |facts| facts.key);
        self.letters.push(Letter { name: name.clone(), seq: 0, group, text });
        self.move_messages(&Origin::Failed { queue, group, seqs: vec![seq] }, &[(name, ItemHead { key, ..ItemHead::default() })]);
    }

    fn show_letters(&mut self) {
        let Some(dlq) = self.queue("q.dlq") else {
            self.seen.push("no letters".to_owned());
            return;
        };
        let texts = self.letters.iter().filter(|letter| dlq.messages().get(letter.seq).is_some()).map(|letter| letter.text.clone());
        let texts: Vec<_> = texts.collect();
        self.seen.extend(if texts.is_empty() { vec!["no letters".to_owned()] } else { texts });
    }

    fn redrive(&mut self, name: &str, how: &[&str]) {
        let letter = self.letters.iter().rev().find(|letter| letter.name == name).expect("a letter of the scenario");
        let (seqs, group) = (vec![letter.seq], letter.group);
        let from = self.queue("q.dlq").expect("it holds the letter").id;
        let (to, only) = match how {
            [] => (QUEUE, group),
            ["all"] => (QUEUE, None),
            ["to", queue] => (self.queue(queue).expect("a queue of the scenario").id, None),
            other => panic!("no redrive is called {other:?}"),
        };
        self.move_messages(&Origin::Redriven { from, seqs, to, only }, &[(name.to_owned(), ItemHead::default())]);
    }

    // Consumers come, and go.

    fn consume(&mut self, visibility_timeout_ms: u64, more: &[&str]) {
        let (mut messages, mut group, mut queue) = (100, "g", QUEUE);
        for word in more {
            if let Some(name) = word.strip_prefix('@') {
                queue = self.queue(name).expect("a queue of the scenario").id;
            } else {
                match word.strip_prefix('x').map(str::parse) {
                    Some(Ok(most)) => messages = most,
                    _ => group = word,
                }
            }
        }
        if self.state.queue(queue).expect("looked up").group(group).is_none() {
            self.commit(self.state.create_group(queue, group, 0));
        }
        let key = SubscriptionKey { session: self.new_session(), number: 1 };
        self.newest = key;
        let bounds = Bounds { messages, bytes: u64::MAX };
        let subscribe = Subscribe { group: self.group(queue, group), bounds, concurrency: 1, visibility_timeout_ms };
        self.dispatch.subscribe(key, &subscribe).expect("the first of its connection");
    }

    fn new_session(&mut self) -> SessionId {
        self.sessions += 1;
        SessionId(self.sessions)
    }

    fn open_pull(&mut self, visibility_timeout_ms: u64, more: &[&str]) -> SubscriptionKey {
        let bounds = more.first().map_or(most("x100"), |bound| most(bound));
        let subscribe = Subscribe { group: self.group(QUEUE, "g"), bounds, concurrency: 1, visibility_timeout_ms };
        self.newest = SubscriptionKey::pull(self.new_session(), 1);
        self.dispatch.open_pull(self.newest, &subscribe, more.contains(&"detached"));
        self.newest
    }

    fn pull(&mut self, visibility_timeout_ms: u64, more: &[&str]) {
        let key = self.open_pull(visibility_timeout_ms, more);
        while let Some(delivery) = self.dispatch.pull(&self.state, self.now, key) {
            self.delivered(&delivery);
        }
        self.dispatch.close_pull(key);
    }

    fn read(&mut self, from: Seq, credit: &str) {
        self.newest = SubscriptionKey { session: self.new_session(), number: 1 };
        self.dispatch.read(self.newest, QUEUE, from, most(credit)).expect("the first of its connection");
    }

    fn explain(&mut self, of: &str, explain: impl FnOnce(&Dispatch, &State, Millis, GroupKey) -> Head) {
        let head = explain(&self.dispatch, &self.state, self.now, self.group(QUEUE, "g"));
        let seq = head.seq.map(|seq| format!("{}: ", self.names[&(QUEUE, seq)])).unwrap_or_default();
        self.seen.push(format!("{of}: {seq}{}", self.words(&head.obstacle)));
    }

    fn words(&self, obstacle: &Obstacle) -> String {
        match obstacle {
            Obstacle::KeyBlocked { by, because } => format!("key-blocked by {}: {}", self.names[&(QUEUE, *by)], because.name()),
            Obstacle::IsolatedSuspect { after: Some(seq), .. } => format!("isolated-suspect after {}", self.names[&(QUEUE, *seq)]),
            other => other.name().to_owned(),
        }
    }

    fn deliver(&mut self) {
        while let Some(delivery) = self.dispatch.next_delivery(&self.state, self.now) {
            self.delivered(&delivery);
        }
        while let Some(reading) = self.dispatch.next_reading(&self.state) {
            let skipped = if reading.skipped == 0 { String::new() } else { format!(", {} skipped", reading.skipped) };
            self.seen.push(format!("read {}{skipped}", self.names[&(reading.queue, reading.seq)]));
        }
        let ended = self.dispatch.take_ended_readers();
        self.seen.extend(ended.iter().map(|_| "reader ended".to_owned()));
    }

    fn delivered(&mut self, delivery: &Delivery) {
        let name = self.names[&(delivery.queue, delivery.seq)].clone();
        let from = &self.state.queue(delivery.queue).expect("it delivers").name;
        let from = if delivery.queue == QUEUE { String::new() } else { format!(" from {from}") };
        let skipped = if delivery.skipped == 0 { String::new() } else { format!(" skipped {}", delivery.skipped) };
        self.seen.push(format!("deliver {name} #{}{from}{skipped}", delivery.attempt));
        let (attempt, session, id) = (delivery.attempt, delivery.subscription.session, delivery.lease_id);
        self.leases.push(Lease { name, attempt, session, id });
    }

    /// The lease of `a`, the newest, or `a@1`, the first.
    fn lease(&self, text: &str) -> Lease {
        let (name, nth) = text.split_once('@').map_or((text, None), |(name, nth)| (name, Some(nth)));
        let of: Vec<_> = self.leases.iter().filter(|lease| lease.name == name).collect();
        of[nth.map_or(of.len(), |nth| nth.parse().expect("a number")) - 1].clone()
    }

    fn settle(
        &mut self,
        lease: &str,
        end: impl FnOnce(&mut Dispatch, &State, Millis, SessionId, LeaseId) -> Result<Option<Proposal>, Rejection>,
    ) {
        let lease = self.lease(lease);
        self.settle_lease(&lease, end);
    }

    fn settle_lease(
        &mut self,
        lease: &Lease,
        end: impl FnOnce(&mut Dispatch, &State, Millis, SessionId, LeaseId) -> Result<Option<Proposal>, Rejection>,
    ) {
        let Lease { session, id, .. } = *lease;
        match end(&mut self.dispatch, &self.state, self.now, session, id) {
            Ok(Some(proposal)) => self.propose(proposal),
            Ok(None) => {}
            Err(Rejection::StaleLease { .. }) => self.seen.push("stale".to_owned()),
            Err(other) => panic!("a lease is not refused with {other:?}"),
        }
    }

    /// Acknowledges a lease that was granted.
    pub(crate) fn ack(&mut self, lease: &Lease) {
        let proposal = self.dispatch.ack(lease.session, lease.id).expect("the lease runs");
        self.propose(proposal);
    }

    /// Nacks a lease that was granted; the message may come back at once.
    pub(crate) fn nack(&mut self, lease: &Lease) {
        let proposal = self.dispatch.nack(&self.state, self.now, lease.session, lease.id, Some(0), "").expect("the lease runs");
        self.propose(proposal);
    }

    fn disconnect(&mut self, graceful: bool) {
        let proposals = self.dispatch.disconnect(&self.state, self.now, SessionId(self.sessions), graceful);
        proposals.into_iter().for_each(|proposal| self.propose(proposal));
    }

    // Time passes, and what is durable changes.

    /// What is due at this moment, and what follows from it.
    fn let_time_act(&mut self) {
        let is_due = |scenario: &Scenario| {
            scenario.state.next_due().into_iter().chain(scenario.dispatch.next_deadline()).any(|at| at <= scenario.now)
        };
        while is_due(self) {
            let proposals = self.dispatch.tick(&self.state, self.now);
            proposals.into_iter().for_each(|proposal| self.propose(proposal));
            for queue in self.state.due_queues(self.now).map(|queue| queue.id).collect::<Vec<_>>() {
                self.fall_due(queue);
            }
        }
    }

    fn fall_due(&mut self, queue: QueueId) {
        let due = self.state.queue(queue).expect("something is due there").delayed().due(self.now);
        let (keys, items): (_, Vec<_>) = due
            .map(|(key, delayed)| {
                let head = ItemHead { key: delayed.key, expires_at: delayed.expires_at, ..ItemHead::default() };
                (key, (self.delayed_names[&key.number].clone(), head))
            })
            .unzip();
        self.move_messages(&Origin::Due { queue, keys }, &items);
    }

    fn propose(&mut self, proposal: Proposal) {
        self.commit(match proposal {
            Proposal::Settle { group, seq, .. } => Body::Settle(Settle { queue: group.queue, group: group.group, seqs: vec![seq] }),
            Proposal::AttemptEnded { group, ended } => {
                Body::AttemptEnded(AttemptEnded { queue: group.queue, group: group.group, ended: vec![ended] })
            }
            Proposal::DeadLetter(letter) => return self.bury(&letter),
            Proposal::Remove { queue, seqs, .. } => Body::Removed { queue, seqs },
            Proposal::Floor { queue, to } => Body::Floor { queue, to },
            Proposal::DeleteGroup { group } => Body::GroupDeleted { queue: group.queue, group: group.group },
        });
    }

    fn commit(&mut self, body: Body) {
        let mut payload = Vec::new();
        let kind = body.kind();
        Entry { now: self.now, body }.encode(&mut payload);
        self.commit_payload(kind, payload);
    }

    fn commit_payload(&mut self, kind: u8, payload: Vec<u8>) -> Applied {
        let applied = self.state.apply(Entry::decode(kind, &payload).expect("just encoded"));
        self.journal.push((kind, payload));
        self.dispatch.applied(&self.state, self.now, &applied);
        // Every other entry is checkpointed, so that a crash finds both rows and entries behind them.
        if self.journal.len().is_multiple_of(2) {
            self.checkpoint();
        }
        applied
    }

    fn checkpoint(&mut self) {
        for change in self.state.take_changes().rows {
            match change {
                RowChange::Put { key, value } => drop(self.rows.insert(key, value)),
                RowChange::Delete { key } => drop(self.rows.remove(&key)),
                RowChange::DeletePrefix { prefix } => self.rows.retain(|key, _| !key.starts_with(&prefix)),
            }
        }
        self.in_rows = self.journal.len();
    }

    fn crash(&mut self) {
        self.state = State::default();
        for (key, value) in &self.rows {
            self.state.load(key, value).expect("a row that was written can be read");
        }
        self.state.loaded();
        for (kind, payload) in &self.journal[self.in_rows..] {
            self.state.apply(Entry::decode(*kind, payload).expect("it was read before"));
        }
        self.commit(Body::Epoch { epoch: self.state.epoch() + 1 });
        self.dispatch = Dispatch::new(&self.state, self.sessions);
    }
}

/// `x5`: five messages and no limit of bytes.
fn most(text: &str) -> Bounds {
    Bounds { messages: text.trim_start_matches('x').parse().expect("x and a number"), bytes: u64::MAX }
}

/// `5s` or `700ms`.
fn millis(text: &str) -> Millis {
    let (number, unit) = text.strip_suffix("ms").map_or_else(|| (text.trim_end_matches('s'), 1_000), |number| (number, 1));
    number.parse::<Millis>().expect("a number with ms or s") * unit
}
