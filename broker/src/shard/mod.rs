//! A shard: one state, one dispatch, one journal, one store, and the thread that owns them.
//!
//! The thread works in turns: take what has arrived, admit it into a batch, commit the batch with one sync, apply it, answer, deliver.
//! While it waits for the disk, connections collect the next batch; that is the whole of group commit. Nothing leaves the shard before
//! the commit of what it depends on. It never touches a socket: frames go into outboxes. Read on in `turn` below, then `publish.rs`.

mod activity;
mod checkpoint;
mod clients;
mod clock;
mod command;
mod consume;
mod consumers;
mod deliver;
mod due;
mod explain;
mod explanation;
mod fault;
mod fetch;
mod latencies;
mod letters;
mod log;
mod outbox;
mod payloads;
mod publish;
mod queues;
mod read;
mod redrive;
mod reign;
mod reply;
mod schema_check;
mod schema_versions;
mod schemas;
mod serve;
mod start;
mod stats;
mod traces;
pub(crate) mod turn;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use prost::Message;
use qwerq_core::dispatch::{Ending, Reason};
use qwerq_core::entry::{Item, Origin};
use qwerq_core::{Applied, Body, Dispatch, Pending, Proposal, SessionId, Space, State};
use qwerq_proto::{FrameDecoder, Opcode, wire};
use rustc_hash::FxHashMap;

use crate::calls::Calls;
use crate::config::{Config, Durability};
use crate::http::Metrics;
use crate::policies::Policies;
use crate::registry::Registry;
use crate::store::{Location, Room, Store};

use activity::Activities;
use checkpoint::Checkpoints;
use clients::Clients;
use clock::Clock;
pub use command::{ActivateCommand, Asker, Check, Command, Compare, ConsumerInfo, PublishCommand, RegisterCommand, Window};
pub(crate) use consume::wire_number;
use deliver::DeliverFrames;
pub use fault::Fault;
use fetch::Fetches;
use latencies::Latencies;
use log::{Committed, Log};
pub use outbox::Outbox;
use payloads::{Locations, Payloads};
pub(crate) use publish::{check_headers, contract_required};
use reign::Reign;
use reply::{ItemReply, PublishReply, Reply};
pub use schema_check::compare;
pub(crate) use start::Parts;
pub use start::StartError;
pub use traces::Traced;
use traces::Traces;

/// Commands taken in one turn at most, so that replies and deliveries are not put off for long.
const COMMANDS_PER_TURN: usize = 4_096;

/// Bytes of a batch after which a turn takes no more commands.
const BATCH_BYTES_SOFT_MAX: usize = 4 << 20;

/// A connection as the shard sees it.
struct Session {
    outbox: Arc<Outbox>,
    window: Arc<Window>,
    client: String,
    /// Its client wants to hear of contracts that change.
    schema_events: bool,
    /// Something was appended this turn.
    touched: bool,
    /// Its commands wait, in order, for a checkpoint to make room.
    holding: bool,
}

/// One shard.
pub struct Shard {
    config: Arc<Config>,
    metrics: Arc<Metrics>,
    registry: Arc<Registry>,
    policies: Arc<Policies>,
    calls: Arc<Calls>,
    store: Arc<Store>,
    commands: Receiver<Command>,
    /// For the shard's own helpers to report with.
    back: Sender<Command>,
    clock: Clock,
    state: State,
    dispatch: Dispatch,
    pending: Pending,
    log: Log,
    payloads: Payloads,
    checkpoints: Checkpoints,
    sessions: FxHashMap<SessionId, Session>,
    clients: Clients,
    touched: Vec<SessionId>,
    replies: Vec<Reply>,
    frames: DeliverFrames,
    fetches: Fetches,
    /// First sequences of the committed batch's Publish entries, by position in the batch.
    firsts: Vec<u64>,
    scratch: Vec<u8>,
    latencies: Latencies,
    activities: Activities,
    traces: Traces,
    /// The store's room when it was last measured.
    room: Room,
    /// Publishes that wait for a checkpoint, and what their connections sent after them.
    held: VecDeque<Command>,
    storage_full: bool,
    /// More is due than one turn moves.
    more_due: bool,
    last_sync: Instant,
    syncing: bool,
    stopping: bool,
    /// In a cluster: whether and how this shard serves.
    reign: Option<Box<Reign>>,
    /// The files are to be replaced by what the cluster has sent.
    replaced: bool,
    /// What it was started with, to start anew.
    parts: Parts,
}

/// How a shard ended.
pub(crate) enum Ended {
    /// It was told to.
    Stopped,
    /// A snapshot is there for it to start anew from.
    Replaced(Parts, Receiver<Command>),
}

impl Shard {
    /// Works until told to stop.
    ///
    /// # Errors
    /// A [`Fault`]: the process must end, and nothing unacknowledged has been acknowledged.
    pub(crate) fn run(mut self) -> Result<Ended, Fault> {
        let mut busy = false;
        while !self.stopping {
            busy = match self.turn(busy) {
                Err(Fault::Deposed) => {
                    self.depose();
                    false
                }
                turned => turned?,
            };
        }
        // What came before the stop has been committed; whatever waits for a checkpoint is refused by silence and was never acknowledged.
        self.flush();
        for session in self.sessions.values() {
            session.outbox.close();
        }
        self.close_observers();
        if self.replaced {
            let Shard { parts, commands, .. } = self;
            return Ok(Ended::Replaced(parts, commands));
        }
        Ok(Ended::Stopped)
    }

    /// One turn; says whether there is more to do at once.
    fn turn(&mut self, busy: bool) -> Result<bool, Fault> {
        if self.follows() {
            return self.follow(busy);
        }
        self.begin_turn()?;
        if let Some(first) = self.wait(busy) {
            self.handle(first)?;
            self.collect()?;
        }
        self.tick()?;
        self.commit()?;
        let more = self.deliver()?;
        self.latencies.pour_into(&self.metrics);
        self.hold_lease()?;
        self.flush();
        self.traces.delivered();
        self.maintain()?;
        Ok(more || self.more_due)
    }

    /// Waits for a command, or until time itself asks for something.
    fn wait(&mut self, busy: bool) -> Option<Command> {
        if busy {
            return self.commands.try_recv().ok();
        }
        let now = self.clock.now();
        let deadlines = [self.dispatch.next_deadline(), self.fetches.next_deadline(), self.state.next_due()];
        let until_deadline = deadlines.into_iter().flatten().min().map(|at| Duration::from_millis(at.saturating_sub(now)));
        let timeout = until_deadline.into_iter().chain(self.until_upkeep()).min();
        match timeout {
            Some(timeout) => match self.commands.recv_timeout(timeout) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => unreachable!("the shard holds a sender itself"),
            },
            None => Some(self.commands.recv().expect("the shard holds a sender itself")),
        }
    }

    /// When checkpoints or interval syncs want a turn, if nothing else happens.
    fn until_upkeep(&self) -> Option<Duration> {
        let sync = match self.config.durability {
            Durability::Interval(interval) if !self.syncing => Some(interval.saturating_sub(self.last_sync.elapsed())),
            _ => None,
        };
        sync.into_iter().chain(self.checkpoints.until_due()).min()
    }

    /// Takes what else has arrived.
    fn collect(&mut self) -> Result<(), Fault> {
        let patience = self.config.batch_interval;
        let until = (!patience.is_zero()).then(|| Instant::now() + patience);
        for _ in 1..COMMANDS_PER_TURN {
            if self.stopping || self.log.bytes() >= BATCH_BYTES_SOFT_MAX {
                return Ok(());
            }
            let next = match self.commands.try_recv() {
                Ok(command) => Some(command),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                    let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
                    if left.is_zero() || self.log.is_empty() { None } else { self.commands.recv_timeout(left).ok() }
                }
            };
            let Some(command) = next else { return Ok(()) };
            self.handle(command)?;
        }
        Ok(())
    }

    fn handle(&mut self, command: Command) -> Result<(), Fault> {
        if let Some(session) = command.session() {
            if self.reign.is_some() && !self.is_served(session, &command) {
                return Ok(());
            }
            self.dispatch.heard(session);
        }
        if self.must_hold(&command) {
            self.held.push_back(command);
            return Ok(());
        }
        match command {
            Command::Opened { session, outbox, window, client, schema_events, any_node: _ } => {
                self.clients.opened(session, &client);
                self.sessions.insert(session, Session { outbox, window, client, schema_events, touched: false, holding: false });
            }
            Command::Closed { session, graceful } => self.closed(session, graceful),
            Command::Heartbeat(_) => {}
            Command::Reply { session, frames } => self.replies.push(Reply::Frames { session, bytes: frames }),
            Command::Publish(command) => self.publish(*command)?,
            Command::Consume(asker, consume) => self.consume(asker, &consume)?,
            Command::Fetch(asker, fetch) => self.fetch(asker, &fetch)?,
            Command::Cancel(session, cancel) => self.cancel(session, cancel),
            Command::Credit(session, credit) => self.credit(session, &credit),
            Command::Unsubscribe(asker, unsubscribe) => self.unsubscribe(asker, &unsubscribe),
            Command::Settle(asker, opcode, settle) => self.settle(asker, opcode, &settle),
            Command::QueueCreate(asker, create) => self.queue_create(asker, &create)?,
            Command::QueueUpdate(asker, update) => self.queue_update(asker, &update)?,
            Command::QueueDelete(asker, name) => self.queue_delete(asker, &name)?,
            Command::QueueInfo(asker, name) => self.queue_info(asker, &name),
            Command::QueuePurge(asker, name) => self.queue_purge(asker, &name)?,
            Command::QueueList(asker, list) => self.queue_list(asker, &list),
            Command::GroupCreate(asker, request) => self.group_create(asker, &request)?,
            Command::GroupDelete(asker, request) => self.group_delete(asker, &request)?,
            Command::Register(command) => self.register(*command)?,
            Command::SchemaGet(asker, get) => self.schema_get(asker, &get),
            Command::SchemaList(asker, list) => self.schema_list(asker, &list),
            Command::SchemaActivate(command) => self.schema_activate(*command)?,
            Command::SchemaRetire(asker, select) => self.schema_retire(asker, &select)?,
            Command::SchemaClients(asker, name) => self.schema_clients(asker, &name),
            Command::SchemaDelete(asker, name) => self.schema_delete(asker, &name)?,
            Command::Peek(asker, peek) => self.peek(asker, &peek)?,
            Command::Explain(asker, request) => self.explain(asker, request)?,
            Command::Explaining(search) => self.search(*search)?,
            Command::Seek(asker, request) => self.seek(asker, &request)?,
            Command::CommitOffset(asker, commit) => self.commit_offset(asker, &commit)?,
            Command::DeadLetters(asker, letters) => self.dead_letters(asker, &letters)?,
            Command::Redrive(asker, redrive) => self.redrive(asker, &redrive)?,
            Command::DeadLettersPurge(asker, letters) => self.dead_letters_purge(asker, &letters)?,
            Command::Consumers(queue, reply) => {
                let _ = reply.send(self.consumers(queue.as_deref()));
            }
            Command::Stats(groups_of, after, reply) => {
                // Whoever asked may have gone; then nobody misses the answer.
                let _ = reply.send(self.stats(groups_of, &after));
            }
            Command::Spare(outcome) => {
                if let Some(journal) = self.log.journal()
                    && let Err(error) = journal.add_spare(outcome)
                {
                    tracing::warn!(%error, "no spare journal segment; the next one is written when it is needed");
                }
            }
            Command::Synced(outcome, checkpoint) => self.synced(outcome?, checkpoint),
            Command::Checkpointed(outcome) => self.checkpointed(outcome?)?,
            // The turn looks for it by itself.
            Command::Committed => {}
            Command::Stop => self.stopping = true,
        }
        Ok(())
    }

    fn closed(&mut self, session: SessionId, graceful: bool) {
        let now = self.clock.now();
        self.client_gone(session, now);
        self.forget_fetches(session);
        for proposal in self.dispatch.disconnect(&self.state, now, session, graceful) {
            self.propose(now, proposal);
        }
        // The outbox is closed behind the replies that still wait for the commit.
        self.replies.push(Reply::End(session));
    }

    fn tick(&mut self) -> Result<(), Fault> {
        let now = self.clock.now();
        for proposal in self.dispatch.tick(&self.state, now) {
            self.propose(now, proposal);
        }
        self.expire_fetches(now);
        self.fall_due(now)
    }

    /// Takes up what dispatch proposes, and counts how messages end.
    fn propose(&mut self, now: qwerq_core::Millis, proposal: Proposal) {
        match &proposal {
            Proposal::Settle { group, ending: Ending::Acked, .. } => self.activities.of(group.queue).acked += 1,
            Proposal::Settle { ending: Ending::Dropped, .. } => self.metrics.dropped.add(1),
            Proposal::Settle { ending: Ending::Expired, .. } => self.metrics.expired.add(1),
            Proposal::Remove { ending: Ending::Expired, seqs, .. } => self.metrics.expired.add(seqs.len() as u64),
            Proposal::DeadLetter(letter) if letter.reason == Reason::Expired => self.metrics.expired.add(1),
            _ => {}
        }
        self.log.propose(now, proposal);
    }

    /// Makes the batch durable, applies it, and answers what waited for it.
    fn commit(&mut self) -> Result<(), Fault> {
        self.firsts.clear();
        self.bury()?;
        self.write()?;
        self.pending.clear();
        self.answer()
    }

    /// Makes what is in the batch durable and applies it; nobody is answered yet.
    fn write(&mut self) -> Result<(), Fault> {
        if self.reign.is_some() {
            return self.replicate();
        }
        let now = self.clock.now();
        let started = Instant::now();
        if let Some(committed) = self.log.commit(now)? {
            self.wrote(started, committed);
        }
        Ok(())
    }

    /// Applies what is durable now.
    fn wrote(&mut self, started: Instant, committed: Committed) {
        self.metrics.journal_sync_us.observe_duration(started.elapsed());
        self.traces.committed(started);
        self.metrics.journal_batch_entries.observe(self.pending.messages.max(committed.entries.len() as u64));
        self.metrics.journal_batch_bytes.observe(committed.appended.buffer.len() as u64);
        self.checkpoints.grew(committed.appended.buffer.len());
        self.apply(committed);
    }

    fn apply(&mut self, committed: Committed) {
        let Committed { appended, entries } = committed;
        let now = self.clock.now();
        let reusable = self.payloads.keep(&appended);
        for logged in entries {
            if let Body::Publish(publish) = &logged.body {
                let count = publish.items.len() as u64;
                self.metrics.published.add(count);
                self.activities.of(publish.queue).published += count;
            }
            let base = appended.position(logged.payload_at);
            let applied = apply_entry(&mut self.state, &mut self.payloads.locations, logged.now, logged.body, |range| Location {
                segment: base.segment,
                offset: base.offset + range.start,
                len: range.end - range.start,
            });
            let first = match &applied {
                Applied::Published { first, .. } => *first,
                Applied::Moved { origin, moved, .. } => {
                    self.count_moved(origin, moved.len() as u64);
                    0
                }
                _ => 0,
            };
            self.firsts.push(first);
            self.dispatch.applied(&self.state, now, &applied);
        }
        if let Some(buffer) = reusable {
            self.log.reuse(buffer);
        }
    }

    fn count_moved(&mut self, origin: &Origin, count: u64) {
        match origin {
            Origin::Failed { queue, .. } | Origin::Invalid { queue, .. } => {
                self.metrics.dead_lettered.add(count);
                self.activities.of(*queue).dead_lettered += count;
            }
            Origin::Redriven { .. } => self.metrics.redriven.add(count),
            Origin::Due { .. } => {}
        }
    }

    /// Commits one entry by itself: for changes of queues, groups and contracts, which later commands must see.
    fn commit_alone(&mut self, body: Body) -> Result<(), Fault> {
        self.commit()?;
        self.log.push(self.clock.now(), body);
        self.commit()
    }

    /// Sends the replies that waited for the commit.
    fn answer(&mut self) -> Result<(), Fault> {
        let mut replies = std::mem::take(&mut self.replies);
        let now = Instant::now();
        for reply in replies.drain(..) {
            match reply {
                Reply::Frames { session, bytes } => {
                    self.count_refusal(&bytes);
                    self.send(session, |out| out.extend_from_slice(&bytes));
                }
                Reply::Publish(reply) => {
                    self.latencies.published(reply.received, now);
                    if let Some((queue, traced)) = &reply.traced {
                        self.traces.published(queue, traced, &reply.items, reply.received, now);
                    }
                    self.answer_publish(reply);
                }
                Reply::Fetch(fetch) => self.begin_fetch(&fetch)?,
                Reply::End(session) => {
                    if let Some(session) = self.sessions.remove(&session) {
                        session.outbox.close();
                    }
                }
            }
        }
        self.replies = replies;
        Ok(())
    }

    /// Whatever way an ERROR came about, it goes out here.
    fn count_refusal(&self, frames: &[u8]) {
        if frames.first() == Some(&(Opcode::Error as u8))
            && let Ok(Some(frame)) = FrameDecoder::new(u32::MAX).decode(&mut BytesMut::from(frames))
            && let Ok(error) = wire::Error::decode(frame.payload)
        {
            self.metrics.refused(&error);
        }
    }

    fn answer_publish(&mut self, reply: PublishReply) {
        let mut results = std::mem::take(&mut self.scratch);
        results.clear();
        let mut duplicates = 0;
        for item in reply.items {
            match item {
                ItemReply::Stored { id, entry, at } => {
                    let seq = self.firsts[entry] + u64::from(at);
                    reply::put_stored_result(&mut results, id, Some(seq), reply.schema_version, false);
                }
                ItemReply::Delayed { id } => reply::put_stored_result(&mut results, id, None, reply.schema_version, false),
                ItemReply::Duplicate { id, seq } => {
                    duplicates += 1;
                    reply::put_stored_result(&mut results, id, seq, reply.schema_version, true);
                }
                ItemReply::DuplicateOfPending { id, queue, key } => {
                    duplicates += 1;
                    let seq = self.state.queue(queue).and_then(|queue| queue.remembered(&key));
                    reply::put_stored_result(&mut results, id, seq, reply.schema_version, true);
                }
                ItemReply::Refused(error) => {
                    self.metrics.refused(&error);
                    reply::put_refused_result(&mut results, *error);
                }
                ItemReply::DeadLettered { id, error } => reply::put_dead_lettered_result(&mut results, id, *error),
            }
        }
        if duplicates > 0 {
            self.metrics.duplicates.add(duplicates);
        }
        let durability = match self.config.durability {
            _ if self.reign.is_some() => wire::Durability::Quorum,
            Durability::Fsync => wire::Durability::Fsync,
            Durability::Interval(_) => wire::Durability::Interval,
            Durability::None => wire::Durability::None,
        };
        if let Some(session) = self.sessions.get(&reply.asker.session) {
            session.window.leave(reply.window_bytes);
        }
        self.send(reply.asker.session, |out| {
            reply::put_publish_ack(out, reply.asker, &mut results, durability, reply.contract_unknown);
        });
        self.scratch = results;
    }

    /// Appends frames to a connection's outbox, if it is still there.
    fn send(&mut self, id: SessionId, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.outbox.append(write);
            if !session.touched {
                session.touched = true;
                self.touched.push(id);
            }
        }
    }

    /// Wakes the writers of all connections that got something this turn.
    fn flush(&mut self) {
        for id in self.touched.drain(..) {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.touched = false;
                session.outbox.wake();
            }
        }
    }
}

/// Applies one entry to the state and to what is known of payloads; for live batches and for replay.
fn apply_entry(
    state: &mut State,
    locations: &mut Locations,
    now: qwerq_core::Millis,
    body: Body,
    locate: impl Fn(&std::ops::Range<u32>) -> Location,
) -> Applied {
    let mut arriving = Vec::new();
    match &body {
        Body::Publish(publish) => {
            let queue = state.queue(publish.queue).expect("admission checked that the queue exists");
            let located = |delayed: bool| {
                let items = publish.items.iter().filter(move |item: &&Item| (item.due != 0) == delayed);
                items.map(|item| locate(&item.stored))
            };
            locations.add((queue.id, Space::Live), queue.next_seq(), located(false));
            locations.add((queue.id, Space::Delayed), queue.next_delayed(), located(true));
        }
        Body::Moved(moved) => arriving = moved.items.iter().map(|item| locate(&item.stored)).collect(),
        _ => {}
    }
    let applied = state.apply(qwerq_core::Entry { now, body });
    match &applied {
        Applied::Settled(settle) => forget_removed(state, locations, settle.queue, &settle.seqs),
        Applied::Moved { origin, to, first, moved, .. } => {
            match origin {
                Origin::Due { queue, keys } => {
                    keys.iter().for_each(|key| locations.remove((*queue, Space::Delayed), key.number..key.number + 1));
                }
                Origin::Failed { queue, seqs, .. } | Origin::Redriven { from: queue, seqs, .. } => {
                    forget_removed(state, locations, *queue, seqs);
                }
                Origin::Invalid { .. } => {}
            }
            locations.add((*to, Space::Live), *first, moved.iter().map(|at| arriving[*at]));
        }
        Applied::Removed { queue, seqs, .. } => forget_removed(state, locations, *queue, seqs),
        Applied::Floored { queue, to, delayed_to, .. } => {
            locations.remove((*queue, Space::Live), 0..*to);
            locations.remove((*queue, Space::Delayed), 0..*delayed_to);
        }
        Applied::Queue(queue) if state.queue(*queue).is_none() => locations.drop_queue(*queue),
        Applied::Group(queue, _) | Applied::Sought(queue, _) | Applied::SettledThrough(queue, _) => {
            if let Some(queue) = state.queue(*queue) {
                locations.retain((queue.id, Space::Live), |seq| queue.messages().get(seq).is_some());
            }
        }
        _ => {}
    }
    applied
}

/// Forgets where those of `seqs` are that are not stored any more.
fn forget_removed(state: &State, locations: &mut Locations, queue: qwerq_core::QueueId, seqs: &[qwerq_core::Seq]) {
    let Some(messages) = state.queue(queue).map(qwerq_core::Queue::messages) else { return };
    for seq in seqs.iter().filter(|seq| messages.get(**seq).is_none()) {
        locations.remove((queue, Space::Live), *seq..*seq + 1);
    }
}
