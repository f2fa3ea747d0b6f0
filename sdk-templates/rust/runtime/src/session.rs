//! One connection, from HELLO_ACK to its end, without its socket: turns work into bytes to write and frames into results.
//!
//! Time is an argument and sockets are the `driver`'s, so that every rule here can be tested without either. What outlives a connection
//! (open subscriptions, work that was never written) leaves as [`Carry`] and enters the next session.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use qwerq_proto::{ErrorCode, FRAME_OVERHEAD_BYTES, Frame, Opcode, encode_frame, encode_payload_frame, wire};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::arrival::{self, Fetched};
use crate::call::Call;
use crate::carry::{Carry, Opened, answer, fail_note, in_time, put_back, resolve, resolve_all, survivors};
use crate::error::Error;
use crate::lane::{BATCH_BYTES_MAX, Batch, Lane};
use crate::ledger::{Keep, Ledger, Note, Say, Settlement};
use crate::outcome::Outcome;
use crate::publish_frame;
use crate::request::{Repeat, Reply, Request};
use crate::shared::{Command, Fed, Shared};

/// Bytes that may wait for the socket before publishes are left in their lanes.
const OUT_BYTES_MAX: usize = 1024 * 1024;

/// How often a publish or request is sent again after `overloaded` before the caller gets to know.
const OVERLOADED_RETRIES_MAX: u32 = 10;

/// How long to wait after `overloaded` when the broker does not say.
const OVERLOADED_PAUSE: Duration = Duration::from_millis(50);

/// How long a subscription waits before it tries again what the broker could not do just then.
const RESUBSCRIBE_PAUSE: Duration = Duration::from_secs(1);

/// How long after GOAWAY what is in flight may take.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// What HELLO_ACK settled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agreed {
    pub(crate) max_frame_bytes: u32,
    /// PUBLISH frames that may be unanswered.
    pub(crate) window_requests: usize,
    /// Bytes of them.
    pub(crate) window_bytes: usize,
    /// After so long without a word this side sends a heartbeat.
    pub(crate) heartbeat: Duration,
    /// After so long without a word from the broker it counts as dead.
    pub(crate) silence: Duration,
    /// The broker is a node of a cluster, so that another one may take over.
    pub(crate) cluster: bool,
}

#[derive(Debug)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    ledger: Arc<Ledger>,
    agreed: Agreed,
    carry: Carry,
    out: BytesMut,
    /// Bytes ever put into `out`, and bytes ever taken from it.
    queued: u64,
    written: u64,
    sent: HashMap<u32, Sent>,
    /// PUBLISH frames in `sent`, and their bytes.
    publishing: usize,
    publishing_bytes: usize,
    /// Leases have been settled without asking for a confirmation since the last one.
    unconfirmed: bool,
    /// Work that waits for a time.
    later: Vec<(Instant, Later)>,
    heard_at: Instant,
    said_at: Instant,
    phase: Phase,
    /// The broker does not lead any more; perhaps it said who does.
    deposed: Option<Option<String>>,
}

/// A correlated frame that has not been answered.
#[derive(Debug)]
struct Sent {
    /// Where it ends in the stream of bytes: unless that much has been written, the broker cannot have acted on it.
    end: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Publish(Arc<Lane>, Batch),
    Request(Request),
    Consume(u32),
    Unsubscribe(u32, Option<oneshot::Sender<Result<(), Error>>>),
    Note(Note),
}

#[derive(Debug)]
enum Later {
    Publish(Arc<Lane>, Batch),
    Request(Request),
    Consume(u32),
}

#[derive(Debug)]
enum Phase {
    Running,
    /// The broker said GOAWAY: nothing new, and away when all is answered or at that time.
    Draining {
        until: Instant,
        leader: Option<String>,
    },
    /// The client is closing: all goes out first.
    Closing {
        replies: Vec<oneshot::Sender<Result<(), Error>>>,
        unsubscribed: bool,
    },
}

/// Why a session ended well.
#[derive(Debug)]
pub(crate) enum Exit {
    /// Closed by this side, everything confirmed.
    Closed,
    /// The broker asked to go; perhaps it said where.
    GoAway { leader: Option<String> },
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, carry: Carry, agreed: Agreed, now: Instant) -> Session {
        shared.set_frame_room(agreed.max_frame_bytes.saturating_sub(FRAME_OVERHEAD_BYTES).max(1024) as usize);
        let ledger = Arc::new(Ledger::new(Arc::clone(&shared.bell), shared.settings.max_lease));
        let mut session = Session {
            shared,
            ledger,
            agreed,
            carry,
            out: BytesMut::with_capacity(64 * 1024),
            queued: 0,
            written: 0,
            sent: HashMap::new(),
            publishing: 0,
            publishing_bytes: 0,
            unconfirmed: false,
            later: Vec::new(),
            heard_at: now,
            said_at: now,
            phase: Phase::Running,
            deposed: None,
        };
        let numbers: Vec<u32> = session.carry.open.keys().copied().collect();
        for number in numbers {
            session.send_consume(number);
        }
        session
    }

    /// Bytes to write. After a write call [`Session::wrote`].
    pub(crate) fn outgoing(&self) -> &[u8] {
        &self.out
    }

    pub(crate) fn wrote(&mut self, bytes: usize, now: Instant) {
        self.out.advance(bytes);
        self.written += bytes as u64;
        self.said_at = now;
    }

    /// Picks up what has been left in the inbox, the lanes and the ledger, as far as the connection takes it.
    pub(crate) fn pump(&mut self) {
        let (commands, lanes) = self.shared.take();
        self.carry.commands.extend(commands);
        self.carry.lanes.extend(lanes);
        self.say_notes();
        self.obey_commands();
        self.publish_lanes();
        self.finish_closing();
    }

    /// Whether the session has come to its end, and how.
    pub(crate) fn exit(&mut self, now: Instant) -> Option<Exit> {
        if let Some(leader) = self.deposed.take() {
            return Some(Exit::GoAway { leader });
        }
        match &mut self.phase {
            Phase::Running => None,
            Phase::Draining { until, leader } => {
                let quiet = self.sent.is_empty()
                    && self.out.is_empty()
                    && self.ledger.held() == 0
                    && self.shared.calls_held.load(Ordering::Relaxed) == 0;
                (quiet || now >= *until).then(|| Exit::GoAway { leader: leader.take() })
            }
            Phase::Closing { unsubscribed, .. } => (*unsubscribed && self.sent.is_empty() && self.out.is_empty()).then_some(Exit::Closed),
        }
    }

    /// When [`Session::tick`] must be called next.
    pub(crate) fn deadline(&self) -> Instant {
        let mut deadline = (self.said_at + self.agreed.heartbeat).min(self.heard_at + self.agreed.silence);
        let sweep = self.ledger.sweep_due();
        let drained = match self.phase {
            Phase::Draining { until, .. } => Some(until),
            _ => None,
        };
        for due in self.later.iter().map(|(due, _)| *due).chain(sweep).chain(drained) {
            deadline = deadline.min(due);
        }
        deadline
    }

    /// Does what the time demands.
    ///
    /// # Errors
    /// When the broker has been silent for too long.
    pub(crate) fn tick(&mut self, now: Instant) -> Result<(), Error> {
        if now >= self.heard_at + self.agreed.silence {
            return Err(Error::protocol(format_args!("the broker was silent for {:?}", self.agreed.silence)));
        }
        self.ledger.sweep(now);
        self.say_notes();
        for (_, later) in self.later.extract_if(.., |(due, _)| *due <= now).collect::<Vec<_>>() {
            match later {
                Later::Publish(lane, batch) => {
                    if lane.push_front(std::iter::once(batch)) {
                        self.carry.lanes.push_back(lane);
                    }
                }
                Later::Request(request) => self.send_request(request),
                Later::Consume(number) => self.send_consume(number),
            }
        }
        if now >= self.said_at + self.agreed.heartbeat {
            // A socket that takes nothing is not helped by more.
            if self.out.is_empty() {
                self.put(Opcode::Heartbeat, None, &wire::Heartbeat {});
            }
            self.said_at = now;
        }
        Ok(())
    }

    /// Takes a frame in.
    ///
    /// # Errors
    /// When the frame makes no sense: the connection cannot be trusted any further.
    pub(crate) fn receive(&mut self, frame: Frame, now: Instant) -> Result<(), Error> {
        self.heard_at = now;
        let Some(opcode) = Opcode::from_u8(frame.opcode) else {
            debug!(opcode = frame.opcode, "ignoring a frame with an unknown opcode");
            return Ok(());
        };
        match (opcode, frame.request_id) {
            (Opcode::Message, _) => self.on_message(frame, now),
            (Opcode::Call, _) => self.on_call(frame, now),
            (Opcode::Heartbeat | Opcode::SchemaChanged, _) => Ok(()),
            (Opcode::GoAway, _) => self.on_go_away(frame, now),
            (Opcode::Error, Some(id)) => self.on_error(id, decode(frame)?, now),
            (Opcode::Error, None) => self.on_statement(decode(frame)?),
            (Opcode::SubscriptionEnded, None) => {
                let ended: wire::SubscriptionEnded = decode(frame)?;
                self.end_subscription(ended.subscription, ended.reason);
                Ok(())
            }
            (_, Some(id)) => self.on_reply(id, frame, now),
            (_, None) => Err(Error::protocol(format_args!("{} without a request id", opcode.name()))),
        }
    }

    /// The connection is gone: tells everybody who cannot be helped, and hands on what the next session can still do.
    pub(crate) fn lost(mut self, now: Instant) -> Carry {
        for note in self.ledger.close() {
            fail_note(note, &Error::stale_lease());
        }
        let mut sent: Vec<Sent> = self.sent.into_values().collect();
        sent.sort_by_key(|sent| sent.end);
        let unconfirmed = !sent.is_empty();
        let mut batches: Vec<(Arc<Lane>, Batch)> = Vec::new();
        let mut commands = VecDeque::new();
        for Sent { end, what } in sent {
            let maybe_stored = end <= self.written;
            match what {
                What::Publish(lane, batch) => batches.extend(survivors(&self.shared, batch, maybe_stored, now).map(|b| (lane, b))),
                What::Request(request) if !maybe_stored || request.repeat == Repeat::Safe => {
                    commands.push_back(Command::Request(request));
                }
                // Whoever does not wait any more needs no answer, here and below.
                What::Request(request) if self.agreed.cluster && request.opcode == Opcode::Call => {
                    let text =
                        "the leader changed, or the connection to it was lost, while the call was under way; whether it ran is not known";
                    drop(request.reply.send(Err(Error::local(ErrorCode::ResponderLost, text))));
                }
                What::Request(request) => drop(request.reply.send(Err(Error::Disconnected { maybe_stored }))),
                What::Consume(_) => {}
                What::Unsubscribe(number, reply) => {
                    self.carry.open.remove(&number);
                    answer(reply, Ok(()));
                }
                What::Note(note) => fail_note(note, &Error::Disconnected { maybe_stored }),
            }
        }
        for (_, later) in self.later {
            match later {
                Later::Publish(lane, batch) => batches.push((lane, batch)),
                Later::Request(request) => commands.push_back(Command::Request(request)),
                Later::Consume(_) => {}
            }
        }
        put_back(batches, &mut self.carry.lanes);
        // Frames without a reply speak of things that ended with the connection.
        self.carry.commands.retain(|command| !matches!(command, Command::Post { .. }));
        commands.append(&mut self.carry.commands);
        self.carry.commands = commands;
        if let Phase::Closing { replies, .. } = self.phase {
            for reply in replies {
                // Somebody was told above that it was not confirmed.
                if unconfirmed {
                    answer(Some(reply), Err(Error::Disconnected { maybe_stored: true }));
                } else {
                    self.carry.commands.push_back(Command::Close(Some(reply)));
                }
            }
            self.carry.commands.push_back(Command::Close(None));
        }
        self.carry.open.retain(|_, opened| !opened.ending);
        for opened in self.carry.open.values() {
            opened.open.feed.disconnected();
        }
        self.carry
    }

    /// Ends a session that came to [`Exit::Closed`].
    pub(crate) fn closed(self) {
        let leftover = self.ledger.close();
        for note in leftover {
            fail_note(note, &Error::stale_lease());
        }
        for opened in self.carry.open.into_values() {
            opened.open.feed.end(None);
        }
        if let Phase::Closing { replies, .. } = self.phase {
            for reply in replies {
                answer(Some(reply), Ok(()));
            }
        }
    }

    fn say_notes(&mut self) {
        for note in self.ledger.take_notes() {
            self.say(note);
        }
    }

    fn say(&mut self, note: Note) {
        let id = note.outcome.is_some().then(|| self.shared.next_request());
        let before = self.out.len();
        note.encode(&mut self.out, id);
        self.queued += (self.out.len() - before) as u64;
        self.unconfirmed = match id {
            Some(_) => false,
            None => self.unconfirmed || matches!(note.say, Say::Settle(_)),
        };
        if let Some(id) = id {
            self.remember(id, What::Note(note));
        }
    }

    fn obey_commands(&mut self) {
        let commands = std::mem::take(&mut self.carry.commands);
        for command in commands {
            let draining = matches!(self.phase, Phase::Draining { .. });
            match command {
                Command::Request(_) | Command::Subscribe(..) if draining => self.carry.commands.push_back(command),
                Command::Request(request) => self.send_request(request),
                Command::Cancel(id) => self.cancel(id),
                Command::Subscribe(open, reply) => {
                    let number = open.feed.number();
                    self.carry.open.insert(number, Opened { open, reply: Some(reply), ending: false });
                    self.send_consume(number);
                }
                Command::Unsubscribe { number, keep_leases, reply } => self.unsubscribe(number, keep_leases, reply),
                Command::Post { opcode, payload } => self.put_payload(opcode, None, &payload),
                Command::Settle(note) => self.say(note),
                Command::Close(reply) => self.start_closing(reply),
            }
        }
    }

    fn send_request(&mut self, request: Request) {
        if request.reply.is_closed() {
            return;
        }
        if request.payload.len() + 4 > self.agreed.max_frame_bytes as usize {
            let text = format!("a request of {} bytes is over the broker's frame limit", request.payload.len());
            let _ = request.reply.send(Err(Error::local(ErrorCode::FrameTooLarge, text)));
            return;
        }
        self.put_payload(request.opcode, Some(request.id), &request.payload);
        self.remember(request.id, What::Request(request));
    }

    fn cancel(&mut self, id: u32) {
        let Some(What::Request(request)) = self.sent.get(&id).map(|sent| &sent.what) else { return };
        // What does not wait is answered by the time a cancellation could arrive.
        let may_wait = request.may_wait();
        self.sent.remove(&id);
        if may_wait {
            self.put(Opcode::Cancel, None, &wire::Cancel { request_id: id });
        }
    }

    fn send_consume(&mut self, number: u32) {
        let Some(opened) = self.carry.open.get(&number) else {
            return;
        };
        let consume = opened.open.to_wire();
        let id = self.shared.next_request();
        self.put(Opcode::Consume, Some(id), &consume);
        self.remember(id, What::Consume(number));
    }

    fn unsubscribe(&mut self, number: u32, keep_leases: bool, reply: Option<oneshot::Sender<Result<(), Error>>>) {
        let Some(opened) = self.carry.open.get_mut(&number).filter(|opened| !opened.ending) else {
            answer(reply, Ok(()));
            return;
        };
        opened.ending = true;
        opened.open.feed.end(None);
        if !keep_leases {
            self.ledger.lose_subscription(number);
        }
        let id = self.shared.next_request();
        self.put(Opcode::Unsubscribe, Some(id), &wire::Unsubscribe { subscription: number, keep_leases });
        self.remember(id, What::Unsubscribe(number, reply));
    }

    fn start_closing(&mut self, reply: Option<oneshot::Sender<Result<(), Error>>>) {
        self.shared.close();
        if !matches!(self.phase, Phase::Closing { .. }) {
            self.phase = Phase::Closing { replies: Vec::new(), unsubscribed: false };
            for opened in self.carry.open.values() {
                opened.open.feed.end(None);
            }
            // Leases of subscriptions are released with these.
            self.ledger.release_fetched();
            self.say_notes();
            // What may wait for others is not waited for.
            let waiting = |sent: &Sent| matches!(&sent.what, What::Request(request) if request.may_wait());
            let ids: Vec<u32> = self.sent.iter().filter(|(_, sent)| waiting(sent)).map(|(id, _)| *id).collect();
            ids.into_iter().for_each(|id| self.cancel(id));
        }
        if let (Phase::Closing { replies, .. }, Some(reply)) = (&mut self.phase, reply) {
            replies.push(reply);
        }
    }

    /// When all that a closing client had to say is answered: ends its subscriptions, which releases their leases.
    fn finish_closing(&mut self) {
        let Phase::Closing { unsubscribed: unsubscribed @ false, .. } = &mut self.phase else {
            return;
        };
        if !(self.sent.is_empty() && self.later.is_empty() && self.carry.lanes.is_empty()) {
            return;
        }
        if self.unconfirmed {
            // A confirmation of nothing confirms what was said before it.
            self.say(Note { say: Say::Settle(Settlement::Ack), leases: Vec::new(), outcome: Some(Arc::new(Outcome::new())) });
            return;
        }
        *unsubscribed = true;
        let numbers: Vec<u32> = self.carry.open.keys().copied().collect();
        for number in numbers {
            self.unsubscribe(number, false, None);
        }
    }

    /// Turns waiting batches into PUBLISH frames, lane after lane, as far as window and buffer allow.
    fn publish_lanes(&mut self) {
        if matches!(self.phase, Phase::Draining { .. }) {
            return;
        }
        while self.may_publish() {
            let Some(lane) = self.carry.lanes.pop_front() else {
                return;
            };
            if let Some(batch) = lane.take() {
                if let Some(batch) = in_time(&self.shared, batch, Instant::now()) {
                    self.send_publish(Arc::clone(&lane), batch);
                }
                self.carry.lanes.push_back(lane);
            }
        }
    }

    fn may_publish(&self) -> bool {
        let room = self.publishing < self.agreed.window_requests && self.publishing_bytes + BATCH_BYTES_MAX < self.agreed.window_bytes;
        self.out.len() < OUT_BYTES_MAX && (self.publishing == 0 || room)
    }

    fn send_publish(&mut self, lane: Arc<Lane>, batch: Batch) {
        let bytes = publish_frame::payload_len(&lane, &batch);
        if bytes + 4 > self.agreed.max_frame_bytes as usize {
            let text = format!("a publish of {bytes} bytes is over the broker's frame limit; send less at once");
            resolve_all(&self.shared, &batch, &Error::local(ErrorCode::MessageTooLarge, text));
            return;
        }
        let id = self.shared.next_request();
        let before = self.out.len();
        publish_frame::encode(&mut self.out, id, &lane, &batch, bytes);
        self.queued += (self.out.len() - before) as u64;
        self.publishing += 1;
        self.publishing_bytes += batch.items.len();
        self.remember(id, What::Publish(lane, batch));
    }

    /// The broker does not lead any more: whatever it had been asked may be done or not, and another connection is to be asked.
    fn depose(&mut self, said: &Error) {
        debug!(%said, "the broker does not lead any more");
        self.deposed = Some(said.refusal().and_then(|refusal| refusal.detail("leader")).map(str::to_owned));
    }

    fn on_reply(&mut self, id: u32, frame: Frame, now: Instant) -> Result<(), Error> {
        // A reply to a cancelled request has crossed its cancellation; a late FETCHED gives its leases back.
        let Some(sent) = self.forget(id) else {
            return self.on_orphan(frame, now);
        };
        match sent.what {
            What::Publish(lane, batch) => {
                let ack = publish_frame::Ack::decode(&expect(frame, Opcode::PublishAck)?, batch.entries.len())?;
                self.on_publish_ack(lane, batch, ack, now)
            }
            What::Request(request) => {
                let reply = Reply { opcode: frame.opcode, payload: frame.payload, ledger: Arc::clone(&self.ledger) };
                if let Err(Ok(unwanted)) = request.reply.send(Ok(reply)) {
                    let frame = Frame { opcode: unwanted.opcode, request_id: Some(id), payload: unwanted.payload };
                    return self.on_orphan(frame, now);
                }
                Ok(())
            }
            What::Consume(number) => {
                let ack: wire::ConsumeAck = decode(expect(frame, Opcode::ConsumeAck)?)?;
                if let Some(reply) = self.carry.open.get_mut(&number).and_then(|opened| opened.reply.take()) {
                    let _ = reply.send(Ok(ack));
                }
                Ok(())
            }
            What::Unsubscribe(number, reply) => {
                expect(frame, Opcode::SubscriptionEnded)?;
                self.carry.open.remove(&number);
                answer(reply, Ok(()));
                Ok(())
            }
            What::Note(note) => {
                let settled: wire::Settled = decode(frame)?;
                let mut refused: BTreeMap<u32, Error> = BTreeMap::new();
                for lease in settled.refused {
                    refused.insert(lease.index, lease.error.map_or_else(Error::stale_lease, Error::from));
                }
                let count = u32::try_from(note.leases.len()).expect("a frame holds far fewer than 4 G leases");
                if let Some(outcome) = note.outcome {
                    outcome.resolve((0..count).map(|index| (index, refused.remove(&index).map_or(Ok(()), Err))));
                }
                Ok(())
            }
        }
    }

    /// Messages that nobody fetches any more go back uncounted.
    fn on_orphan(&mut self, frame: Frame, now: Instant) -> Result<(), Error> {
        if frame.opcode == Opcode::Fetched as u8 {
            let arrivals = Fetched::decode(&frame.payload)?.arrivals;
            let unwanted = self.ledger.deliveries(&Arc::from(""), arrivals, None, Keep::Detached, now);
            for delivery in unwanted {
                // The lease was granted a line ago.
                let _ = delivery.release();
            }
        }
        Ok(())
    }

    fn on_publish_ack(&mut self, lane: Arc<Lane>, batch: Batch, ack: publish_frame::Ack, now: Instant) -> Result<(), Error> {
        if ack.results.len() != batch.entries.len() {
            let (got, wanted) = (ack.results.len(), batch.entries.len());
            resolve_all(&self.shared, &batch, &Error::Disconnected { maybe_stored: true });
            return Err(Error::protocol(format_args!("PUBLISH_ACK has {got} results for {wanted} messages")));
        }
        let deposed = ack.results.iter().filter_map(|result| result.as_ref().err()).find(|error| is_not_leader(error));
        if let Some(error) = deposed {
            self.depose(error);
            if let Some(batch) = survivors(&self.shared, batch, true, now) {
                self.later.push((now, Later::Publish(lane, batch)));
            }
            return Ok(());
        }
        let again = batch.refused < OVERLOADED_RETRIES_MAX && !batch.atomic;
        let retried = |result: &Result<_, Error>| again && matches!(result, Err(error) if is_overloaded(error));
        if ack.any_error && ack.results.iter().any(retried) {
            let pause = ack.results.iter().filter_map(|r| r.as_ref().err()?.retry_after()).max().unwrap_or(OVERLOADED_PAUSE);
            if let Some(mut part) = batch.filter(|position, _| retried(&ack.results[position])) {
                part.refused += 1;
                self.later.push((now + pause, Later::Publish(lane, part)));
            }
            if let Some(rest) = batch.filter(|position, _| !retried(&ack.results[position])) {
                let results = ack.results.into_iter().filter(|result| !retried(result));
                resolve(&self.shared, &rest, results);
            }
            return Ok(());
        }
        resolve(&self.shared, &batch, ack.results.into_iter());
        Ok(())
    }

    fn on_error(&mut self, id: u32, error: wire::Error, now: Instant) -> Result<(), Error> {
        let error = Error::from(error);
        if is_not_leader(&error) && !self.shared.settings.any_node {
            // The request stays among those that wait for an answer, as on a lost connection.
            self.depose(&error);
            return Ok(());
        }
        let Some(sent) = self.forget(id) else {
            return Ok(());
        };
        let pause = error.retry_after().unwrap_or(OVERLOADED_PAUSE);
        match sent.what {
            What::Publish(lane, mut batch) => {
                if is_overloaded(&error) && batch.refused < OVERLOADED_RETRIES_MAX {
                    batch.refused += 1;
                    self.later.push((now + pause, Later::Publish(lane, batch)));
                } else {
                    resolve_all(&self.shared, &batch, &error);
                }
            }
            What::Request(mut request) => {
                if is_overloaded(&error) && !request.may_wait() && request.refused < OVERLOADED_RETRIES_MAX {
                    request.refused += 1;
                    self.later.push((now + pause, Later::Request(request)));
                } else {
                    let _ = request.reply.send(Err(error));
                }
            }
            What::Consume(number) => self.on_consume_refused(number, error, now),
            What::Unsubscribe(number, reply) => {
                self.carry.open.remove(&number);
                let gone = error.code() == Some(ErrorCode::UnknownSubscription);
                answer(reply, if gone { Ok(()) } else { Err(error) });
            }
            What::Note(note) => fail_note(note, &error),
        }
        Ok(())
    }

    /// A caller is told; a subscription that was open before tries again what the broker cannot do just now, and else ends.
    fn on_consume_refused(&mut self, number: u32, error: Error, now: Instant) {
        let Some(opened) = self.carry.open.get_mut(&number) else {
            return;
        };
        match opened.reply.take() {
            Some(reply) => {
                self.carry.open.remove(&number);
                let _ = reply.send(Err(error));
            }
            None if error.is_retryable() => {
                let pause = error.retry_after().unwrap_or(RESUBSCRIBE_PAUSE);
                self.later.push((now + pause, Later::Consume(number)));
            }
            None => {
                opened.open.feed.end(Some(error));
                self.carry.open.remove(&number);
            }
        }
    }

    /// An ERROR that answers no request: about a subscription, about the connection, which the broker then closes, or about a frame that
    /// has no answer.
    fn on_statement(&mut self, error: wire::Error) -> Result<(), Error> {
        match error.subscription {
            Some(number) => {
                self.end_subscription(number, Some(error));
                Ok(())
            }
            None => match Error::from(error) {
                error @ Error::Protocol(_) => Err(error),
                error if is_not_leader(&error) => {
                    self.depose(&error);
                    Ok(())
                }
                error => {
                    warn!(%error, "the broker refused a frame that wants no answer");
                    Ok(())
                }
            },
        }
    }

    fn end_subscription(&mut self, number: u32, reason: Option<wire::Error>) {
        self.ledger.lose_subscription(number);
        if let Some(opened) = self.carry.open.remove(&number) {
            opened.open.feed.end(reason.map(Error::from));
        }
    }

    fn on_message(&mut self, frame: Frame, now: Instant) -> Result<(), Error> {
        let (number, arrivals) = arrival::decode_deliver(&frame.payload)?;
        let next_position = arrivals.last().map(|arrival| arrival.seq + 1);
        let opened = self.carry.open.get(&number);
        let feed = match opened.map(|opened| &opened.open.feed) {
            Some(Fed::Deliveries(feed)) => Some(feed),
            _ => None,
        };
        let queue = feed.map_or_else(|| Arc::from(""), |feed| Arc::clone(&feed.queue));
        let deliveries = self.ledger.deliveries(&queue, arrivals, Some(number), Keep::Renewed, now);
        match feed.filter(|_| opened.is_some_and(|opened| !opened.ending)) {
            Some(feed) => feed.push(deliveries.into_iter(), next_position),
            // They crossed an UNSUBSCRIBE.
            None => deliveries.into_iter().for_each(|delivery| drop(delivery.release())),
        }
        Ok(())
    }

    fn on_call(&mut self, frame: Frame, now: Instant) -> Result<(), Error> {
        let call: wire::Call = decode(frame)?;
        let opened = self.carry.open.get(&call.subscription);
        let feed = opened.map(|opened| &opened.open.feed);
        let call = Call::new(call, Arc::downgrade(&self.shared), now);
        match feed {
            Some(Fed::Calls(feed)) if opened.is_some_and(|opened| !opened.ending) => {
                // The broker has given the places of those to others. Their handlers never see them.
                feed.retain(|call| !call.remaining().is_zero());
                feed.push(std::iter::once(call), None);
            }
            // It crossed an UNSUBSCRIBE.
            _ => call.turn_away(),
        }
        Ok(())
    }

    fn on_go_away(&mut self, frame: Frame, now: Instant) -> Result<(), Error> {
        let go_away: wire::GoAway = decode(frame)?;
        debug!(reason = go_away.reason, leader = go_away.leader, "the broker says GOAWAY");
        if matches!(self.phase, Phase::Running) {
            let leader = (!go_away.leader.is_empty()).then_some(go_away.leader);
            self.phase = Phase::Draining { until: now + DRAIN_LIMIT, leader };
        }
        Ok(())
    }

    fn put(&mut self, opcode: Opcode, id: Option<u32>, message: &impl prost::Message) {
        let before = self.out.len();
        encode_frame(&mut self.out, opcode, id, message);
        self.queued += (self.out.len() - before) as u64;
    }

    fn put_payload(&mut self, opcode: Opcode, id: Option<u32>, payload: &[u8]) {
        let before = self.out.len();
        encode_payload_frame(&mut self.out, opcode, id, payload);
        self.queued += (self.out.len() - before) as u64;
    }

    fn remember(&mut self, id: u32, what: What) {
        self.sent.insert(id, Sent { end: self.queued, what });
    }

    fn forget(&mut self, id: u32) -> Option<Sent> {
        let sent = self.sent.remove(&id)?;
        if let What::Publish(_, batch) = &sent.what {
            self.publishing -= 1;
            self.publishing_bytes -= batch.items.len();
        }
        Some(sent)
    }
}

fn is_not_leader(error: &Error) -> bool {
    error.code() == Some(ErrorCode::NotLeader)
}

fn is_overloaded(error: &Error) -> bool {
    error.code() == Some(ErrorCode::Overloaded)
}

fn expect(frame: Frame, opcode: Opcode) -> Result<Frame, Error> {
    if frame.opcode == opcode as u8 {
        return Ok(frame);
    }
    let got = Opcode::from_u8(frame.opcode).map_or("an unknown opcode", Opcode::name);
    Err(Error::protocol(format_args!("the broker answered {got} instead of {}", opcode.name())))
}

fn decode<M: prost::Message + Default>(frame: Frame) -> Result<M, Error> {
    M::decode(frame.payload).map_err(|error| {
        let name = Opcode::from_u8(frame.opcode).map_or("a frame", Opcode::name);
        Error::protocol(format_args!("{name} does not decode: {error}"))
    })
}
