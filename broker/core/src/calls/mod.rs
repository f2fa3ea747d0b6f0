//! The third machine: requests that wait for one reply. It is volatile, single-node and without I/O: time and secrets are arguments.
//!
//! A call goes to one responder of its queue, waits in a bounded line while all are busy, and ends exactly once: by its reply, its
//! deadline, a cancellation, or the loss of either side. What must be said to somebody leaves as [`Event`]s, in order. It never reads a
//! contract or a payload, and knows no queue but by name. Read on in `line.rs` and `responder.rs`.

mod call_id;
mod line;
mod responder;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::dispatch::Bounds;
use crate::ids::{Millis, SessionId, SubscriptionKey};
use crate::rejection::Rejection;

pub use call_id::CallId;
use line::Line;
pub use line::{LINE_BYTES_MAX, LINE_CALLS_MAX};
pub use responder::{FRAME_BYTES, Serve, Serving};
use responder::{Responder, ResponderNumber};

/// Who asked: a connection and the request id that the reply repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller {
    /// The connection.
    pub session: SessionId,
    /// The client's id of the request.
    pub request_id: u32,
}

/// A request that looks for a responder.
#[derive(Debug)]
pub struct NewCall<'a> {
    /// Who asks.
    pub caller: Caller,
    /// Whom.
    pub queue: &'a str,
    /// From then on nobody waits for the reply.
    pub deadline: Millis,
    /// What the responder gets; the machine does not look inside.
    pub request: Vec<u8>,
}

/// What the shell must tell somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The request goes to a responder now.
    Handed {
        /// Which.
        to: SubscriptionKey,
        /// What its reply presents.
        call: CallId,
        /// The request, as it came.
        request: Vec<u8>,
        /// Time left until the deadline, in milliseconds; at least 1.
        remaining_ms: u64,
    },
    /// A call ended without a reply.
    Ended {
        /// Whose.
        caller: Caller,
        /// Whom it had called.
        queue: Arc<str>,
        /// Why.
        end: End,
    },
}

/// Why a call ended without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Its deadline passed.
    TimedOut {
        /// A responder had it by then.
        handed: bool,
    },
    /// The connection of the responder that had it is gone, or the responder gave up its subscription with its calls.
    ResponderLost,
    /// The last responder left while it waited.
    NoResponders,
    /// The caller asked for it.
    Cancelled,
    /// The caller's connection is gone.
    CallerLost,
}

/// Why a call is not taken on. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// Nobody serves the queue.
    #[error("nobody serves calls on it")]
    NoResponders,
    /// All responders are busy and the line is full.
    #[error("its responders are busy, and {calls} calls with {bytes} bytes wait already")]
    LineFull {
        /// Calls that wait.
        calls: usize,
        /// Bytes of their requests.
        bytes: u64,
    },
    /// The connection waits for the reply to a call of the same request id.
    #[error("a call with the same request id still waits for its reply")]
    RequestIdInUse,
}

/// What is going on, for operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallStats {
    /// Calls that a responder has.
    pub handed: u64,
    /// Calls that wait for a responder.
    pub waiting: u64,
    /// Open responders.
    pub responders: u64,
}

#[derive(Debug)]
struct Call {
    caller: Caller,
    queue: Arc<str>,
    deadline: Millis,
    /// Of the request.
    bytes: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Waiting { request: Vec<u8> },
    Handed { by: ResponderNumber },
}

/// Calls in flight and who serves them.
#[derive(Debug)]
pub struct Calls {
    secret: u64,
    /// Number of the next call; never reused, so that a late reply finds nothing.
    next_call: u64,
    next_responder: ResponderNumber,
    calls: FxHashMap<u64, Call>,
    callers: BTreeMap<Caller, u64>,
    deadlines: BTreeSet<(Millis, u64)>,
    /// Queues that somebody serves.
    lines: BTreeMap<Arc<str>, Line>,
    responders: FxHashMap<ResponderNumber, Responder>,
    /// Those that get calls. A number of the client's may be in use again while the responder before still has calls.
    open: BTreeMap<SubscriptionKey, ResponderNumber>,
    by_session: BTreeSet<(SessionId, ResponderNumber)>,
    events: VecDeque<Event>,
}

impl Calls {
    /// Nobody calls, nobody serves. `secret` makes call ids unguessable.
    #[must_use]
    pub fn new(secret: u64) -> Calls {
        Calls {
            secret,
            next_call: 1,
            next_responder: 1,
            calls: FxHashMap::default(),
            callers: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            lines: BTreeMap::new(),
            responders: FxHashMap::default(),
            open: BTreeMap::new(),
            by_session: BTreeSet::new(),
            events: VecDeque::new(),
        }
    }

    /// The next thing to tell somebody, in the order in which things happened.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Calls::expire`] has something to do, unless something else ends those calls before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// What is going on now.
    #[must_use]
    pub fn stats(&self) -> CallStats {
        let waiting: usize = self.lines.values().map(|line| line.waiting.len()).sum();
        let handed = self.calls.len() - waiting;
        CallStats { handed: handed as u64, waiting: waiting as u64, responders: self.open.len() as u64 }
    }

    /// Every open responder, by connection: its subscription, its queue, its bounds and the calls that it has.
    pub fn responders(&self) -> impl Iterator<Item = (SubscriptionKey, &str, Bounds, usize)> {
        self.open.iter().map(|(key, number)| {
            let responder = &self.responders[number];
            (*key, &*responder.queue, responder.bounds, responder.calls.len())
        })
    }

    /// Whether the connection has an open responder of that number.
    #[must_use]
    pub fn has_responder(&self, key: SubscriptionKey) -> bool {
        self.open.contains_key(&key)
    }

    /// Opens a responder.
    ///
    /// # Errors
    /// [`Rejection::SubscriptionExists`].
    pub fn serve(&mut self, now: Millis, key: SubscriptionKey, serve: &Serve<'_>) -> Result<(), Rejection> {
        if self.open.contains_key(&key) {
            return Err(Rejection::SubscriptionExists { number: key.number });
        }
        let number = self.next_responder;
        self.next_responder += 1;
        let queue = match self.lines.get_key_value(serve.queue) {
            Some((queue, _)) => Arc::clone(queue),
            None => Arc::from(serve.queue),
        };
        self.lines.entry(Arc::clone(&queue)).or_default().responders += 1;
        self.responders.insert(number, Responder::new(number, key, Arc::clone(&queue), serve));
        self.open.insert(key, number);
        self.by_session.insert((key.session, number));
        self.change(number, |_| ());
        self.fill(now, &queue);
        Ok(())
    }

    /// Changes a responder's bounds; says whether there is one.
    pub fn credit(&mut self, now: Millis, key: SubscriptionKey, bounds: Bounds) -> bool {
        let Some(&number) = self.open.get(&key) else { return false };
        let queue = self.change(number, |responder| {
            responder.bounds = bounds;
            responder.heard();
        });
        self.fill(now, &queue);
        true
    }

    /// Closes a responder; says whether there was one. With `keep_calls` it may still reply to what it has, else those calls are lost.
    pub fn unsubscribe(&mut self, key: SubscriptionKey, keep_calls: bool) -> bool {
        let Some(&number) = self.open.get(&key) else { return false };
        let queue = self.close(number);
        if !keep_calls {
            self.lose_calls(number);
        }
        self.forget_if_done(number);
        self.end_deserted_line(&queue);
        true
    }

    /// Takes on a call: hands it to a responder, or lets it wait for one.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub fn call(&mut self, now: Millis, call: NewCall<'_>) -> Result<(), NotTaken> {
        let (queue, line) = match self.lines.get_key_value(call.queue) {
            Some((queue, line)) => (Arc::clone(queue), line),
            None => return Err(NotTaken::NoResponders),
        };
        if self.callers.contains_key(&call.caller) {
            return Err(NotTaken::RequestIdInUse);
        }
        let bytes = call.request.len() as u64;
        if line.free.is_empty() && !line.has_room(bytes) {
            return Err(NotTaken::LineFull { calls: line.waiting.len(), bytes: line.waiting_bytes });
        }
        let counter = self.next_call;
        self.next_call += 1;
        self.callers.insert(call.caller, counter);
        self.deadlines.insert((call.deadline, counter));
        let stage = Stage::Waiting { request: call.request };
        self.calls.insert(counter, Call { caller: call.caller, queue: Arc::clone(&queue), deadline: call.deadline, bytes, stage });
        self.lines.get_mut(&queue).expect("found above").wait(counter, bytes);
        self.fill(now, &queue);
        Ok(())
    }

    /// Ends a caller's call; says whether it was in flight.
    pub fn cancel(&mut self, now: Millis, caller: Caller) -> bool {
        let Some(&counter) = self.callers.get(&caller) else { return false };
        self.abandon(now, counter, |_| End::Cancelled);
        true
    }

    /// What the responder that has this call serves, if this connection has it.
    #[must_use]
    pub fn serving(&self, session: SessionId, id: CallId) -> Option<Serving<'_>> {
        self.responder_of(session, id).map(Responder::serving)
    }

    /// Ends a call by its reply and says who waits for it. `None`: the call has ended, was never this connection's, or never was; the
    /// reply is nobody's.
    pub fn reply(&mut self, now: Millis, session: SessionId, id: CallId) -> Option<Caller> {
        let Some(number) = self.responder_of(session, id).map(|responder| responder.number) else {
            self.heard_late(now, session);
            return None;
        };
        let call = self.end(id.counter, |responder, _| responder.heard());
        debug_assert!(matches!(call.stage, Stage::Handed { by } if by == number));
        self.fill(now, &call.queue);
        Some(call.caller)
    }

    /// Ends the calls whose time has come.
    pub fn expire(&mut self, now: Millis) {
        while let Some(&(deadline, counter)) = self.deadlines.first()
            && deadline <= now
        {
            self.abandon(now, counter, |handed| End::TimedOut { handed });
        }
    }

    /// Ends all that belongs to a connection: the calls that it has are lost, those that it made go on for nobody.
    pub fn disconnect(&mut self, now: Millis, session: SessionId) {
        let gone: Vec<_> = self.by_session.range((session, 0)..=(session, ResponderNumber::MAX)).map(|(_, number)| *number).collect();
        // Closed first, so that nothing is handed to a connection that is gone.
        let open = gone.iter().filter(|number| self.responders[*number].open).copied().collect::<Vec<_>>();
        let queues: Vec<_> = open.into_iter().map(|number| self.close(number)).collect();
        let first = Caller { session, request_id: 0 };
        let last = Caller { session, request_id: u32::MAX };
        let made: Vec<_> = self.callers.range(first..=last).map(|(_, counter)| *counter).collect();
        for counter in made {
            self.abandon(now, counter, |_| End::CallerLost);
        }
        for number in gone {
            self.lose_calls(number);
            self.forget_if_done(number);
        }
        for queue in queues {
            self.end_deserted_line(&queue);
        }
    }

    /// Hands waiting calls to responders that can take them, the oldest to the least loaded.
    fn fill(&mut self, now: Millis, queue: &Arc<str>) {
        while let Some(line) = self.lines.get_mut(queue)
            && let (Some(&counter), Some(&(_, _, number))) = (line.waiting.first(), line.free.first())
        {
            let call = self.calls.get_mut(&counter).expect("a waiting call is in flight");
            if call.deadline <= now {
                self.end_without_reply(counter, |handed| End::TimedOut { handed });
                continue;
            }
            line.leave(counter, call.bytes);
            let Stage::Waiting { request } = std::mem::replace(&mut call.stage, Stage::Handed { by: number }) else {
                unreachable!("a call in the line waits");
            };
            let (bytes, remaining_ms) = (call.bytes, call.deadline - now);
            let to = self.responders[&number].key;
            self.change(number, |responder| responder.take(counter, bytes));
            self.events.push_back(Event::Handed { to, call: CallId::new(counter, self.secret), request, remaining_ms });
        }
    }

    /// Ends a call without a reply and gives its place to the next one.
    fn abandon(&mut self, now: Millis, counter: u64, why: impl FnOnce(bool) -> End) {
        let queue = self.end_without_reply(counter, why);
        self.fill(now, &queue);
    }

    /// Ends a call and says why; gives whom it had called.
    fn end_without_reply(&mut self, counter: u64, why: impl FnOnce(bool) -> End) -> Arc<str> {
        // The responder works on, and others come first until it is heard of.
        let call = self.end(counter, Responder::miss);
        let end = why(matches!(call.stage, Stage::Handed { .. }));
        let queue = Arc::clone(&call.queue);
        self.events.push_back(Event::Ended { caller: call.caller, queue: call.queue, end });
        queue
    }

    /// Takes a call out of everything; `note` sees the responder that had it, and the bytes of its request.
    fn end(&mut self, counter: u64, note: impl FnOnce(&mut Responder, u64)) -> Call {
        let call = self.calls.remove(&counter).expect("the call is in flight");
        self.callers.remove(&call.caller);
        self.deadlines.remove(&(call.deadline, counter));
        match call.stage {
            Stage::Waiting { .. } => {
                let line = self.lines.get_mut(&call.queue).expect("a call waits in a line");
                line.leave(counter, call.bytes);
            }
            Stage::Handed { by } => {
                self.change(by, |responder| {
                    responder.give(counter, call.bytes);
                    note(responder, call.bytes);
                });
                self.forget_if_done(by);
            }
        }
        call
    }

    /// Takes an open responder out of its queue; its calls stay.
    fn close(&mut self, number: ResponderNumber) -> Arc<str> {
        let queue = self.change(number, |responder| responder.open = false);
        self.open.remove(&self.responders[&number].key);
        self.lines.get_mut(&queue).expect("a served queue has a line").responders -= 1;
        queue
    }

    /// Ends the calls that a closed responder has.
    fn lose_calls(&mut self, number: ResponderNumber) {
        let Some(responder) = self.responders.get(&number) else { return };
        for counter in responder.calls.clone() {
            self.end_without_reply(counter, |_| End::ResponderLost);
        }
    }

    fn forget_if_done(&mut self, number: ResponderNumber) {
        if let Some(responder) = self.responders.get(&number)
            && !responder.open
            && responder.calls.is_empty()
        {
            self.by_session.remove(&(responder.key.session, number));
            self.responders.remove(&number);
        }
    }

    /// When the last responder has left, whoever waits for one is told.
    fn end_deserted_line(&mut self, queue: &Arc<str>) {
        if self.lines.get(queue).is_none_or(|line| line.responders > 0) {
            return;
        }
        while let Some(&counter) = self.lines[queue].waiting.first() {
            self.end_without_reply(counter, |_| End::NoResponders);
        }
        self.lines.remove(queue);
    }

    fn responder_of(&self, session: SessionId, id: CallId) -> Option<&Responder> {
        let call = self.calls.get(&id.counter)?;
        let Stage::Handed { by } = call.stage else { return None };
        let responder = &self.responders[&by];
        (id == CallId::new(id.counter, self.secret) && responder.key.session == session).then_some(responder)
    }

    /// A reply came that nobody waits for: the connection works, late as it is.
    fn heard_late(&mut self, now: Millis, session: SessionId) {
        let theirs = self.by_session.range((session, 0)..=(session, ResponderNumber::MAX));
        let late: Vec<_> = theirs.map(|(_, number)| *number).filter(|number| self.responders[number].is_late()).collect();
        let queues: Vec<_> = late.into_iter().map(|number| self.change(number, Responder::heard)).collect();
        for queue in queues {
            self.fill(now, &queue);
        }
    }

    /// Changes a responder and its place among those that can take calls; says whom it serves.
    fn change(&mut self, number: ResponderNumber, change: impl FnOnce(&mut Responder)) -> Arc<str> {
        let responder = self.responders.get_mut(&number).expect("the responder is known");
        if let Some(line) = self.lines.get_mut(&responder.queue) {
            line.free.remove(&responder.rank());
            change(responder);
            if responder.is_free() {
                line.free.insert(responder.rank());
            }
        } else {
            // The queue has no open responders any more; this one replies to what it has left.
            change(responder);
        }
        Arc::clone(&responder.queue)
    }

    /// Panics when the machine contradicts itself.
    pub fn check_invariants(&self) {
        for (counter, call) in self.calls.iter().collect::<BTreeMap<_, _>>() {
            assert_eq!(self.callers.get(&call.caller), Some(counter), "a call and its caller know each other");
            assert!(self.deadlines.contains(&(call.deadline, *counter)), "every call has a deadline");
            let there = match call.stage {
                Stage::Waiting { .. } => self.lines[&call.queue].waiting.contains(counter),
                Stage::Handed { by } => self.responders[&by].calls.contains(counter),
            };
            assert!(there, "a call waits in its queue's line or is with the responder that it was handed to");
        }
        assert_eq!((self.callers.len(), self.deadlines.len()), (self.calls.len(), self.calls.len()), "nothing outlives its call");
        let waiting: usize = self.lines.values().map(|line| line.waiting.len()).sum();
        let with_responders: usize = self.responders.values().map(|responder| responder.calls.len()).sum();
        assert_eq!(waiting + with_responders, self.calls.len(), "no call is in two places");
        assert_eq!(self.by_session.len(), self.responders.len(), "every responder belongs to a connection");
        for (queue, line) in &self.lines {
            let theirs = |responder: &&Responder| responder.open && responder.queue == *queue;
            assert_eq!(self.responders.values().filter(theirs).count(), line.responders, "a line counts its open responders");
            assert!(line.responders > 0, "a queue that nobody serves has no line");
            assert!(line.waiting.is_empty() || line.free.is_empty(), "nothing waits while somebody could take it");
            assert_eq!(line.waiting.iter().map(|counter| self.calls[counter].bytes).sum::<u64>(), line.waiting_bytes);
            let free = self.responders.values().filter(theirs).filter(|responder| responder.is_free());
            assert!(free.map(Responder::rank).collect::<BTreeSet<_>>() == line.free, "a line knows who could take a call");
        }
        for responder in self.responders.values().collect::<Vec<_>>() {
            assert_eq!(responder.calls.iter().map(|counter| self.calls[counter].bytes).sum::<u64>(), responder.bytes);
            assert!(responder.open || !responder.calls.is_empty(), "a closed responder is remembered for its calls only");
        }
    }
}
