//! A small shard in the place of `shard/`: the core's machines, the reign's rules (`tenure.rs`), and turns of the same shape as the real
//! one's, without connections, payloads and threads.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use qwerq_core::dispatch::{Bounds, GroupKey, Subscribe};
use qwerq_core::entry::{AttemptEnded, ItemHead, ItemWriter, PUBLISH_KIND, Publish, Settle};
use qwerq_core::options::OnFailure;
use qwerq_core::{
    Admission, Applied, Body, Dispatch, Entry, LeaseId, MessageId, Millis, NewMessage, Pending, Proposal, QueueId, QueueOptions, Seq,
    SessionId, State, SubscriptionKey,
};
use tokio::sync::{Notify, mpsc, oneshot};

use super::super::link::{Applicable, Interruption, Link, PATIENCE};
use super::super::mark;
use super::super::tenure::{Consequence, LOOK_AGAIN, Tenure};
use super::disk::{SimFile, SimFiles};
use super::ledger::{Ledger, Number};
use super::network::Net;
use super::runtime::{WORLD, dice, instant, local, sleep, timeout};
use crate::journal::Reader;
use crate::shard::turn::{self, Draft};
use crate::store::{self, Checkpoint, Location, Payloads, RowChange, Store};

const QUEUE: &str = "orders";
const GROUP: &str = "billing";

/// Rows of the simulation itself, behind which number which message has.
const NUMBERS: u8 = b'~';

/// What a client wants.
pub(super) enum Command {
    Publish {
        number: Number,
        key: u64,
        answer: Answer<bool>,
    },
    Consume {
        session: u64,
        deliveries: mpsc::UnboundedSender<Delivered>,
        answer: Answer<()>,
    },
    Ack {
        session: u64,
        lease: LeaseId,
        answer: Answer<()>,
    },
    Nack {
        session: u64,
        lease: LeaseId,
    },
    Closed {
        session: u64,
    },
    /// A question whose answer must be fresh: how many messages the queue has.
    Look {
        answer: Answer<u64>,
    },
}

/// A message at a consumer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivered {
    pub(super) number: Number,
    pub(super) lease: LeaseId,
}

/// Where an answer goes; `None` in it: this node does not serve.
pub(super) struct Answer<T>(pub(super) oneshot::Sender<Option<T>>);

impl<T> Answer<T> {
    /// Whoever asked may have given up.
    fn give(self, answer: T) {
        let _ = self.0.send(Some(answer));
    }
}

/// Where clients leave what they want, and what wakes the shard.
#[derive(Clone, Default)]
pub(super) struct Door {
    commands: Arc<Mutex<VecDeque<Command>>>,
    bell: Arc<Notify>,
}

impl Door {
    pub(super) fn put(&self, command: Command) {
        self.commands.lock().unwrap().push_back(command);
        self.ring();
    }

    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }
}

/// Why a turn ends early.
enum Stop {
    Deposed,
    /// The node ends.
    Over,
}

/// What waits for a turn's commit.
enum Reply {
    Published { number: Number, duplicate: bool, answer: Answer<bool> },
    Consuming { answer: Answer<()> },
    Settled { answer: Answer<()> },
    Seen { depth: u64, answer: Answer<u64> },
}

struct Session {
    deliveries: mpsc::UnboundedSender<Delivered>,
}

pub(super) struct Shard {
    node: u64,
    net: Net,
    ledger: Ledger,
    link: Link<SimFiles>,
    store: Arc<Store>,
    reader: Reader<SimFile>,
    door: Door,
    state: State,
    /// Which number each stored message has.
    numbers: BTreeMap<(QueueId, Seq), Number>,
    dispatch: Dispatch,
    pending: Pending,
    tenure: Tenure,
    draft: Draft,
    entries: Vec<(Millis, Body)>,
    replies: Vec<Reply>,
    sessions: BTreeMap<u64, Session>,
    /// What the clock began with, and when.
    clock: (Millis, Duration),
    /// Entries since the last checkpoint, and how many are enough.
    grown: (usize, usize),
    shown: Arc<Mutex<Shown>>,
}

/// What the world may look at.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    /// The journal's index of the last entry that was applied.
    pub(super) applied: u64,
    pub(super) state: String,
    pub(super) serving: Option<u64>,
}

fn session_key(session: u64) -> SubscriptionKey {
    SubscriptionKey { session: SessionId(session), number: 1 }
}

/// What a store holds for a shard.
pub(super) fn load(store: &Store) -> (State, BTreeMap<(QueueId, Seq), Number>) {
    let mut state = State::default();
    let mut numbers = BTreeMap::new();
    store
        .load(|key, value| {
            if key[0] == NUMBERS {
                let part = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
                let queue = QueueId(u32::try_from(part(&key[1..9])).unwrap());
                numbers.insert((queue, part(&key[9..])), part(value));
                return Ok(());
            }
            if mark::is_own(key) { Ok(()) } else { state.load(key, value) }
        })
        .unwrap();
    state.loaded();
    (state, numbers)
}

impl Shard {
    pub(super) fn new(
        node: u64,
        net: Net,
        link: Link<SimFiles>,
        store: Arc<Store>,
        reader: Reader<SimFile>,
        door: Door,
        shown: Arc<Mutex<Shown>>,
    ) -> Shard {
        let (state, numbers) = load(&store);
        state.check_invariants();
        let clock = (state.clock(), local());
        Shard {
            node,
            ledger: net.ledger.clone(),
            net,
            link,
            store,
            reader,
            door,
            state,
            numbers,
            dispatch: Dispatch::new(&State::default(), 0),
            pending: Pending::default(),
            tenure: Tenure::new(dice(super::rng::Rng::next)),
            draft: Draft::proposal(Vec::new()),
            entries: Vec::new(),
            replies: Vec::new(),
            sessions: BTreeMap::new(),
            clock,
            grown: (0, dice(|rng| 10 + rng.below(60))),
            shown,
        }
    }

    /// Works until the node ends.
    pub(super) async fn run(mut self) {
        loop {
            match self.turn().await {
                Ok(()) => {}
                Err(Stop::Deposed) => self.depose(),
                Err(Stop::Over) => return,
            }
            self.show();
            // Either is as good.
            drop(timeout(LOOK_AGAIN, self.door.bell.notified()).await);
        }
    }

    fn show(&self) {
        let shown = Shown { applied: self.link.applied(), state: fingerprint(&self.state), serving: self.tenure.serving() };
        *self.shown.lock().unwrap() = shown;
    }

    fn now(&self) -> Millis {
        let (base, since) = self.clock;
        base + u64::try_from(local().saturating_sub(since).as_millis()).unwrap()
    }

    fn interruption(&self) -> Result<(), Stop> {
        match self.link.interruption() {
            None => Ok(()),
            Some(Interruption::Failed | Interruption::Replaced) => Err(Stop::Over),
        }
    }

    /// One turn, as `Shard::turn` has it.
    async fn turn(&mut self) -> Result<(), Stop> {
        if self.tenure.serving().is_none() {
            return self.follow();
        }
        self.hold_lease().await?;
        while let Some(entry) = self.link.take() {
            self.apply_foreign(&entry)?;
        }
        self.interruption()?;
        let commands = std::mem::take(&mut *self.door.commands.lock().unwrap());
        for command in commands {
            self.handle(command);
        }
        let now = self.now();
        for proposal in self.dispatch.tick(&self.state, now) {
            self.propose(now, proposal);
        }
        self.replicate().await?;
        let replies = std::mem::take(&mut self.replies);
        let deliveries = self.deliver();
        self.hold_lease().await?;
        self.flush(replies, deliveries);
        self.maintain();
        Ok(())
    }

    fn follow(&mut self) -> Result<(), Stop> {
        self.door.commands.lock().unwrap().clear();
        while let Some(entry) = self.link.take() {
            self.apply_foreign(&entry)?;
        }
        self.interruption()?;
        self.seek_reign();
        self.maintain();
        Ok(())
    }

    fn seek_reign(&mut self) {
        let now = instant();
        if let Some(term) = self.link.leads() {
            self.ledger.leads(self.node, term);
        }
        let term = self.link.leads().filter(|term| self.link.may_serve_at(*term, now));
        let Some((term, serial)) = self.tenure.seeks(term, now) else { return };
        let at = self.state.clock() + 1;
        self.push(at, Body::Epoch { epoch: self.state.epoch() + 1 });
        let (bytes, _) = self.proposal(term, serial);
        self.link.propose(bytes);
    }

    async fn hold_lease(&self) -> Result<(), Stop> {
        let Some(term) = self.tenure.serving() else { return Err(Stop::Deposed) };
        let since = instant();
        while !self.link.may_serve_at(term, instant()) {
            if self.link.leads() != Some(term) || instant() - since >= PATIENCE {
                return Err(Stop::Deposed);
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    fn push(&mut self, now: Millis, body: Body) {
        self.draft.begin_entry(body.kind());
        let entry = Entry { now, body };
        entry.encode(self.draft.buffer());
        self.draft.end_entry();
        self.entries.push((now, entry.body));
    }

    fn proposal(&mut self, term: u64, serial: u64) -> (Bytes, Vec<(Millis, Body)>) {
        let Draft::Proposal { buffer, .. } = std::mem::replace(&mut self.draft, Draft::proposal(Vec::new())) else {
            unreachable!("it is made as one");
        };
        (turn::seal(buffer, term, serial), std::mem::take(&mut self.entries))
    }

    fn handle(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Publish { number, key, answer } => self.publish(now, number, key, answer),
            Command::Consume { session, deliveries, answer } => {
                let Some(group) = self.group() else { return };
                let bounds = Bounds { messages: 4, bytes: 1 << 20 };
                let subscribe = Subscribe { group, bounds, concurrency: 4, visibility_timeout_ms: 1_500 };
                self.dispatch.subscribe(session_key(session), &subscribe).expect("a session subscribes once");
                self.sessions.insert(session, Session { deliveries });
                self.replies.push(Reply::Consuming { answer });
            }
            Command::Ack { session, lease, answer } => {
                self.dispatch.heard(SessionId(session));
                // A stale one is not answered: the consumer sees the message again.
                if let Ok(proposal) = self.dispatch.ack(SessionId(session), lease) {
                    self.propose(now, proposal);
                    self.replies.push(Reply::Settled { answer });
                }
            }
            Command::Nack { session, lease } => {
                self.dispatch.heard(SessionId(session));
                if let Ok(proposal) = self.dispatch.nack(&self.state, now, SessionId(session), lease, None, "no") {
                    self.propose(now, proposal);
                }
            }
            Command::Closed { session } => {
                for proposal in self.dispatch.disconnect(&self.state, now, SessionId(session), false) {
                    self.propose(now, proposal);
                }
                self.sessions.remove(&session);
            }
            Command::Look { answer } => {
                let depth = u64::try_from(self.numbers.len()).expect("few");
                self.replies.push(Reply::Seen { depth, answer });
            }
        }
    }

    fn group(&self) -> Option<GroupKey> {
        let queue = self.state.queue_named(QUEUE)?;
        queue.group(GROUP).map(|group| GroupKey { queue: queue.id, group: group.id })
    }

    fn publish(&mut self, now: Millis, number: Number, key: u64, answer: Answer<bool>) {
        let Some(queue) = self.state.queue_named(QUEUE) else {
            // Later commands must see it, so it is a turn of its own; the publisher asks again.
            let made = |entry: &(Millis, Body)| matches!(entry.1, Body::QueueCreated { .. });
            if !self.entries.iter().any(made) {
                let options = QueueOptions {
                    on_failure: OnFailure::RetryForever,
                    retry_backoff_first_ms: 50,
                    retry_backoff_max_ms: 200,
                    dedup_window_ms: 3_600_000,
                    ..QueueOptions::default()
                };
                let body = self.state.create_queue(QUEUE, options);
                self.push(now, body);
            }
            return;
        };
        if queue.group(GROUP).is_none() {
            let made = |entry: &(Millis, Body)| matches!(entry.1, Body::GroupCreated { .. });
            if !self.entries.iter().any(made) {
                let body = self.state.create_group(queue.id, GROUP, 0);
                self.push(now, body);
            }
            return;
        }
        let dedup = format!("message {number}");
        let message = NewMessage { size: 8, idempotency_key: &dedup };
        let id = queue.id;
        let admission = queue.admit(&self.pending, now, &message).expect("the queue is large");
        if admission != Admission::New {
            self.replies.push(Reply::Published { number, duplicate: true, answer });
            return;
        }
        let mut message_id = [0; 16];
        message_id[8..].copy_from_slice(&number.to_be_bytes());
        let message_id = MessageId(message_id);
        self.pending.add(id, &message, message_id);
        self.draft.begin_entry(PUBLISH_KIND);
        let mut writer = ItemWriter::begin_publish(self.draft.buffer(), now, id, 1);
        let head = ItemHead { size: 8, key, due: 0, expires_at: 0, dedup: Some((dedup, message_id)) };
        writer.item(self.draft.buffer(), head, |out| out.extend_from_slice(&number.to_be_bytes()));
        self.draft.end_entry();
        self.entries.push((now, Body::Publish(Publish { queue: id, items: writer.finish() })));
        self.replies.push(Reply::Published { number, duplicate: false, answer });
    }

    fn propose(&mut self, now: Millis, proposal: Proposal) {
        match proposal {
            Proposal::Settle { group: GroupKey { queue, group }, seq, .. } => {
                self.push(now, Body::Settle(Settle { queue, group, seqs: vec![seq] }));
            }
            Proposal::AttemptEnded { group: GroupKey { queue, group }, ended } => {
                self.push(now, Body::AttemptEnded(AttemptEnded { queue, group, ended: vec![ended] }));
            }
            other => unreachable!("this queue lets nothing go: {other:?}"),
        }
    }

    /// Proposes the turn and waits until it is committed, as `Shard::replicate` does.
    async fn replicate(&mut self) -> Result<(), Stop> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let Some(term) = self.tenure.serving() else { return Err(Stop::Deposed) };
        let serial = self.tenure.number();
        let (bytes, entries) = self.proposal(term, serial);
        self.link.propose(bytes);
        let started = instant();
        loop {
            let Some(entry) = self.link.take() else {
                self.interruption()?;
                if !self.tenure.waits(started, instant(), self.link.raft_term()) {
                    return Err(Stop::Deposed);
                }
                drop(timeout(LOOK_AGAIN, self.door.bell.notified()).await);
                continue;
            };
            let is_own = |bytes: &Bytes| turn::Turn::read(bytes).is_some_and(|turn| turn.serial == serial);
            let own = entry.turn.as_ref().is_some_and(|(bytes, _)| entry.term == term && is_own(bytes));
            if !own {
                self.apply_foreign(&entry)?;
                continue;
            }
            self.check(&entry);
            let now = self.now();
            for (at, body) in entries {
                let applied = self.apply(entry.index, at, body);
                self.dispatch.applied(&self.state, now, &applied);
            }
            self.pending.clear();
            return Ok(());
        }
    }

    /// Holds an entry against what other nodes have applied.
    fn check(&mut self, entry: &Applicable) {
        let log_id = self.link.mark.last.expect("one was taken");
        let bytes = entry.turn.as_ref().map(|(bytes, _)| bytes.clone()).unwrap_or_default();
        self.ledger.applies(self.node, log_id, &bytes);
        if let Some((bytes, position)) = &entry.turn {
            // The positions are what payloads are found by later.
            let mut there = vec![0; bytes.len()];
            if self.reader.read_into(*position, &mut there).is_ok() {
                assert!(there == bytes[..], "entry {} is not where the log says", entry.index);
            }
        }
        self.grown.0 += 1;
    }

    fn apply_foreign(&mut self, entry: &Applicable) -> Result<(), Stop> {
        self.check(entry);
        let Some((bytes, _)) = &entry.turn else { return Ok(()) };
        let mut turn = turn::Turn::read(bytes).expect("a turn");
        if !Tenure::counts(turn.term, entry.term) {
            self.ledger.count(|covered| &mut covered.outlived);
            return Ok(());
        }
        while let Some(next) = turn.next_entry() {
            let (kind, _, payload) = next.expect("it is whole");
            let Entry { now, mut body } = Entry::decode(kind, &payload).expect("an entry");
            if let Body::Epoch { epoch } = &mut body {
                *epoch = self.state.epoch() + 1;
            }
            self.apply(entry.index, now, body);
        }
        match self.tenure.applied(turn.serial, self.link.leads()) {
            Consequence::None => Ok(()),
            Consequence::Begins(term) => {
                self.begin_reign(term);
                Ok(())
            }
            Consequence::Ends => Err(Stop::Deposed),
        }
    }

    fn apply(&mut self, index: u64, now: Millis, body: Body) -> Applied {
        let published = match &body {
            Body::Publish(publish) => publish.items.iter().map(|item| item.dedup.as_ref().unwrap().1).collect(),
            _ => Vec::new(),
        };
        let applied = self.state.apply(Entry { now, body });
        if let Applied::Published { queue, first, .. } = &applied {
            for (seq, id) in (*first..).zip(published) {
                let number = u64::from_be_bytes(id.0[8..].try_into().unwrap());
                self.ledger.stores(number, index);
                self.numbers.insert((*queue, seq), number);
            }
        }
        applied
    }

    fn begin_reign(&mut self, term: u64) {
        self.clock = (self.state.clock(), local());
        self.dispatch = Dispatch::new(&self.state, dice(super::rng::Rng::next));
        self.pending = Pending::default();
        self.tenure.begin(term);
        self.link.set_serving(Some(term));
        self.ledger.reigns(self.node, term);
    }

    fn depose(&mut self) {
        self.ledger.note(self.node, "ends its reign");
        self.ledger.count(|covered| &mut covered.deposed);
        self.tenure.end();
        self.link.set_serving(None);
        self.replies.clear();
        self.sessions.clear();
        self.dispatch = Dispatch::new(&State::default(), 0);
        self.pending = Pending::default();
        self.draft = Draft::proposal(Vec::new());
        self.entries.clear();
    }

    fn deliver(&mut self) -> Vec<(u64, Delivered)> {
        let now = self.now();
        let mut deliveries = Vec::new();
        while let Some(delivery) = self.dispatch.next_delivery(&self.state, now) {
            let number = self.numbers[&(delivery.queue, delivery.seq)];
            deliveries.push((delivery.subscription.session.0, Delivered { number, lease: delivery.lease_id }));
        }
        self.dispatch.check_invariants(&self.state);
        deliveries
    }

    /// Lets out what the turn has to say.
    fn flush(&mut self, replies: Vec<Reply>, deliveries: Vec<(u64, Delivered)>) {
        if replies.is_empty() && deliveries.is_empty() {
            return;
        }
        let term = self.tenure.serving().expect("only a reign has something to say");
        self.ledger.serves(self.node, term);
        for reply in replies {
            match reply {
                Reply::Published { number, duplicate, answer } => {
                    self.ledger.note(self.node, format!("acknowledges message {number}{}", if duplicate { " again" } else { "" }));
                    if duplicate {
                        self.ledger.count(|covered| &mut covered.duplicates);
                    }
                    self.net.carry_back(self.node, WORLD, duplicate, move |duplicate| answer.give(duplicate));
                }
                Reply::Consuming { answer } | Reply::Settled { answer } => {
                    self.net.carry_back(self.node, WORLD, (), move |()| answer.give(()));
                }
                Reply::Seen { depth, answer } => self.net.carry_back(self.node, WORLD, depth, move |depth| answer.give(depth)),
            }
        }
        for (session, delivered) in deliveries {
            self.ledger.note(self.node, format!("delivers message {} to session {session}", delivered.number));
            self.ledger.delivers(self.node, delivered.number);
            if let Some(Session { deliveries }) = self.sessions.get(&session) {
                let deliveries = deliveries.clone();
                // A consumer that has gone gets nothing.
                self.net.carry_back(self.node, WORLD, delivered, move |delivered| deliveries.send(delivered).unwrap_or(()));
            }
        }
    }

    /// A checkpoint, now and then.
    fn maintain(&mut self) {
        let (entries, enough) = self.grown;
        if entries < enough {
            return;
        }
        self.grown = (0, dice(|rng| 10 + rng.below(60)));
        let mut rows = self.state.take_changes().rows;
        rows.push(self.link.row());
        for ((queue, seq), number) in &self.numbers {
            let key = [&[NUMBERS][..], &u64::from(queue.0).to_be_bytes(), &seq.to_be_bytes()].concat();
            rows.push(RowChange::Put { key, value: number.to_be_bytes().to_vec() });
        }
        let Ok(applied) = self.reader.applied(self.link.applied()) else {
            // The files have failed, and the node is about to hear of it.
            return;
        };
        self.store.checkpoint(Checkpoint { rows, applied, ..Checkpoint::default() }, &Nothing).expect("the store can be written");
        self.ledger.note(self.node, format!("has a checkpoint through {}", applied.index));
        self.link.checkpointed();
    }
}

/// Messages stay out of the store.
struct Nothing;

impl Payloads for Nothing {
    fn read(&self, _: Location, _: &mut Vec<u8>) -> std::io::Result<()> {
        unreachable!("no message is added to the store")
    }
}

/// The mark of a cluster's first members, and an empty state.
pub(super) fn found(dir: &Path, mark: &mark::Mark, applied: store::Applied) {
    let store = Store::open(dir, super::node::store_options()).unwrap();
    store.checkpoint(Checkpoint { rows: vec![mark.row()], applied, ..Checkpoint::default() }, &Nothing).unwrap();
}

/// What two nodes must agree on when both have applied the same.
fn fingerprint(state: &State) -> String {
    use std::fmt::Write as _;
    let mut text = format!("clock {} epoch {} admitted {}", state.clock(), state.epoch(), state.admitted());
    for queue in state.queues() {
        let _ = write!(text, "; {} {:?} next {} messages", queue.name, queue.id, queue.next_seq());
        let mut seq = 0;
        while let Some(at) = queue.messages().next_at(seq) {
            let _ = write!(text, " {at}:{:?}", queue.messages().get(at));
            seq = at + 1;
        }
        for (id, group) in queue.groups() {
            let _ = write!(text, " group {id:?} floor {} settled", group.ack_floor());
            let settled = (group.ack_floor()..queue.next_seq()).filter(|seq| group.is_settled(*seq));
            settled.for_each(|seq| text += &format!(" {seq}"));
            let _ = write!(text, " attempts {:?}", group.attempts());
        }
    }
    text
}
