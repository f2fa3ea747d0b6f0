//! CALL and its reply, from connection to connection. The core's machine decides; this shell judges payloads, keeps the time and puts
//! frames into outboxes.
//!
//! Calls need no commit, so they do not pass through the shard: connection tasks run the machine themselves, one at a time behind a lock
//! that no I/O is done under. Only what concerns subscriptions comes by way of the shard, which owns their numbers. Nothing here knows
//! sockets, journal or store. Read on in `judge.rs` and `answer.rs`.

mod answer;
mod judge;
mod uses;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use qwerq_core::calls::{End, Event, NewCall, Serve};
use qwerq_core::dispatch::Bounds;
use qwerq_core::{CallId, Caller, Calls as Machine, Millis, SessionId, SubscriptionKey};
use qwerq_proto::{ErrorCode, Opcode, encode_frame, encode_header, wire};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::http::{CallOutcome, Metrics};
use crate::policies::Policies;
use crate::registry::Registry;
use crate::shard::Outbox;

use judge::Judge;
use uses::Uses;

pub(crate) use uses::CallUse;

/// How long a caller waits that does not say.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Longest time that a caller can wait; more is cut to it.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The millisecond that has begun when a call comes is not taken from its caller, nor promised to its responder.
const BEGUN_MS: u64 = 1;

/// Calls in flight and who serves them. Connections and the shard share it.
#[derive(Debug)]
pub struct Calls {
    desk: Mutex<Desk>,
    judge: Judge,
    metrics: Arc<Metrics>,
    started: Instant,
    /// A deadline came up that is earlier than the one that the clockwork waits for.
    earlier: Notify,
}

/// What the lock protects.
#[derive(Debug)]
struct Desk {
    machine: Machine,
    outboxes: FxHashMap<SessionId, Arc<Outbox>>,
    /// When the clockwork wakes; `None`: when it is told.
    alarm: Option<Millis>,
    draining: bool,
    /// Outboxes that got something; they are woken when the lock is free.
    filled: Vec<Arc<Outbox>>,
    uses: Uses,
}

impl Calls {
    /// Nobody calls yet. `max_message_bytes` bounds requests and replies, headers included.
    #[must_use]
    pub fn new(registry: Arc<Registry>, policies: Arc<Policies>, metrics: Arc<Metrics>, max_message_bytes: u32) -> Calls {
        Calls {
            desk: Mutex::new(Desk {
                machine: Machine::new(rand::random()),
                outboxes: FxHashMap::default(),
                alarm: None,
                draining: false,
                filled: Vec::new(),
                uses: Uses::default(),
            }),
            judge: Judge { registry, policies, max_message_bytes },
            metrics,
            started: Instant::now(),
            earlier: Notify::new(),
        }
    }

    /// A connection has said HELLO.
    pub fn opened(&self, session: SessionId, outbox: Arc<Outbox>) {
        self.lock().outboxes.insert(session, outbox);
    }

    /// A connection is gone, or the broker ends it (`graceful`): then its callers are told. Its outbox is still open.
    pub fn closed(&self, session: SessionId, graceful: bool) {
        self.at_desk(|desk, now| {
            desk.machine.disconnect(now, session);
            self.tell(desk, graceful.then_some(session));
            desk.outboxes.remove(&session);
        });
    }

    /// The broker stops: what is in flight goes on, nothing new is taken.
    pub fn drain(&self) {
        self.lock().draining = true;
    }

    /// Every open responder: its subscription, its queue, its bounds and the calls that it has.
    #[must_use]
    pub fn responders(&self) -> Vec<(SubscriptionKey, String, Bounds, usize)> {
        let desk = self.lock();
        desk.machine.responders().map(|(key, queue, bounds, calls)| (key, queue.to_owned(), bounds, calls)).collect()
    }

    /// CALL from a client.
    ///
    /// # Errors
    /// The protocol error after which the connection closes. Everything else is answered through its outbox.
    pub fn call(&self, session: SessionId, request_id: Option<u32>, call: wire::Call) -> Result<(), wire::Error> {
        let Some(request_id) = request_id else {
            return Err(ErrorCode::CorrelationRequired.with("a CALL may wait, so it must carry a request id: set the flag CORRELATED"));
        };
        let caller = Caller { session, request_id };
        let judged = self.judge.request(&call).inspect_err(|error| self.metrics.judged(&call.queue, error));
        let wire::Call { queue, payload, headers, timeout_ms, contract, .. } = call;
        let taken = judged.and_then(|schema_version| {
            let request = wire::Call { queue: queue.clone(), payload, headers, schema_version, ..wire::Call::default() };
            self.take(caller, &queue, &contract, timeout_ms, request.encode_to_vec())
        });
        if let Err(error) = taken {
            self.metrics.called(answer::outcome_of_refusal(&error));
            self.at_desk(|desk, _| self.refuse(desk, session, Some(request_id), &error));
        }
        Ok(())
    }

    fn take(&self, caller: Caller, queue: &str, contract: &[u8], timeout_ms: u64, request: Vec<u8>) -> Result<(), wire::Error> {
        let timeout = if timeout_ms == 0 { TIMEOUT_DEFAULT } else { Duration::from_millis(timeout_ms).min(TIMEOUT_MAX) };
        let wait_ms = u64::try_from(timeout.as_millis()).expect("a day at most");
        self.at_desk(|desk, now| {
            if desk.draining {
                return Err(ErrorCode::Draining.with("the broker is shutting down; connect again and repeat the call"));
            }
            desk.uses.used(caller.session, queue, false, contract);
            let deadline = now + wait_ms + BEGUN_MS;
            desk.machine
                .call(now, NewCall { caller, queue, deadline, request })
                .map_err(|not_taken| answer::not_taken(queue, not_taken))?;
            self.metrics.calls_in_flight.inc();
            self.tell(desk, None);
            if desk.alarm.is_none_or(|alarm| deadline < alarm) {
                self.earlier.notify_one();
            }
            Ok(())
        })
    }

    /// CALL_RESPONSE from a responder.
    pub fn respond(&self, session: SessionId, request_id: Option<u32>, response: wire::CallResponse) {
        let Some(id) = CallId::from_bytes(&response.call_id) else {
            let error = ErrorCode::InvalidArgument
                .with(format!("a call_id has 16 bytes, this one {}; repeat the one of the CALL", response.call_id.len()))
                .detail("call", answer::hex(&response.call_id));
            return self.at_desk(|desk, _| self.refuse(desk, session, request_id, &error));
        };
        let serving = {
            let desk = self.lock();
            desk.machine.serving(session, id).map(|serving| (Arc::clone(serving.queue), serving.contract))
        };
        // Judged without the lock; if the call ends meanwhile the reply is late and nobody's.
        let verdict = serving.map(|(queue, contract)| (self.judge.reply(&queue, contract, &response), queue));
        self.at_desk(|desk, now| {
            let caller = desk.machine.reply(now, session, id);
            if let (Some(caller), Some((verdict, queue))) = (caller, verdict) {
                self.metrics.calls_in_flight.dec();
                match verdict {
                    Ok(schema_version) => self.pass_on(desk, caller, response, schema_version),
                    Err(error) => {
                        self.metrics.called(CallOutcome::InvalidReply);
                        self.metrics.judged(&queue, &error);
                        let to_caller = answer::invalid_reply(&queue, error.clone());
                        self.refuse(desk, caller.session, Some(caller.request_id), &to_caller);
                        let to_responder = error.detail("call", answer::hex(&response.call_id)).detail("queue", queue);
                        self.refuse(desk, session, request_id, &to_responder);
                    }
                }
            }
            self.tell(desk, None);
        });
    }

    fn refuse(&self, desk: &mut Desk, session: SessionId, request_id: Option<u32>, error: &wire::Error) {
        self.metrics.refused(error);
        desk.put(session, |out| encode_frame(out, Opcode::Error, request_id, error));
    }

    fn pass_on(&self, desk: &mut Desk, caller: Caller, response: wire::CallResponse, schema_version: u32) {
        self.metrics.called(if response.error.is_some() { CallOutcome::Failed } else { CallOutcome::Replied });
        let response = wire::CallResponse { call_id: Bytes::new(), schema_version, ..response };
        desk.put(caller.session, |out| encode_frame(out, Opcode::CallResponse, Some(caller.request_id), &response));
    }

    /// CANCEL; says whether the request was a call in flight.
    pub fn cancel(&self, session: SessionId, cancel: wire::Cancel) -> bool {
        self.at_desk(|desk, now| {
            let cancelled = desk.machine.cancel(now, Caller { session, request_id: cancel.request_id });
            self.tell(desk, None);
            cancelled
        })
    }

    /// Whether a CONSUME with the role SERVE can be granted; it changes nothing.
    ///
    /// # Errors
    /// The refusal.
    pub fn check_serve(&self, consume: &wire::Consume) -> Result<(), wire::Error> {
        self.judge.responder(consume)
    }

    /// Whether the connection serves calls under that number.
    #[must_use]
    pub fn has_responder(&self, key: SubscriptionKey) -> bool {
        self.lock().machine.has_responder(key)
    }

    /// Opens a responder, whose number is free and which was told so.
    pub fn serve(&self, key: SubscriptionKey, bounds: Bounds, consume: &wire::Consume) {
        let contract = <[u8; 32]>::try_from(consume.contract.as_ref()).ok();
        self.at_desk(|desk, now| {
            // A connection that closed in the meantime serves nobody.
            if desk.outboxes.contains_key(&key.session) {
                desk.uses.used(key.session, &consume.queue, true, &consume.contract);
                let serve = Serve { queue: &consume.queue, bounds, contract };
                desk.machine.serve(now, key, &serve).expect("the shard checked that the number is free");
                self.tell(desk, None);
            }
        });
    }

    /// Who calls a queue and who serves it.
    pub(crate) fn uses_of(&self, queue: &str) -> Vec<(SessionId, CallUse)> {
        self.lock().uses.of_queue(queue)
    }

    /// What a connection that is gone did, by queue. Whoever asks keeps it from now on.
    pub(crate) fn take_uses(&self, session: SessionId) -> Vec<(String, CallUse)> {
        self.lock().uses.take(session)
    }

    /// CREDIT; says whether there is such a responder.
    pub fn credit(&self, key: SubscriptionKey, bounds: Bounds) -> bool {
        self.at_desk(|desk, now| {
            let known = desk.machine.credit(now, key, bounds);
            self.tell(desk, None);
            known
        })
    }

    /// UNSUBSCRIBE; says whether there was such a responder.
    pub fn unsubscribe(&self, key: SubscriptionKey, keep_calls: bool) -> bool {
        self.at_desk(|desk, _| {
            let known = desk.machine.unsubscribe(key, keep_calls);
            self.tell(desk, None);
            known
        })
    }

    /// Ends calls at their deadlines, for as long as it is polled.
    pub async fn keep_time(&self) {
        loop {
            let next = self.at_desk(|desk, now| {
                desk.machine.expire(now);
                self.tell(desk, None);
                desk.alarm = desk.machine.next_deadline();
                desk.alarm
            });
            let earlier = self.earlier.notified();
            match next {
                Some(deadline) => {
                    let at = self.started + Duration::from_millis(deadline);
                    // Whichever comes first: either way there is something to look at.
                    let _ = tokio::time::timeout_at(at, earlier).await;
                }
                None => earlier.await,
            }
        }
    }

    /// Says what the machine wants said. The callers of `drained` are told that the broker ends their connection.
    fn tell(&self, desk: &mut Desk, drained: Option<SessionId>) {
        while let Some(event) = desk.machine.next_event() {
            match event {
                Event::Handed { to, call, request, remaining_ms } => {
                    desk.put(to.session, |out| put_call(out, to, call, &request, remaining_ms))
                }
                Event::Ended { caller, queue, end } => {
                    self.metrics.calls_in_flight.dec();
                    self.metrics.called(answer::outcome(end));
                    if end != End::CallerLost || drained == Some(caller.session) {
                        let error = answer::ended(&queue, end);
                        self.refuse(desk, caller.session, Some(caller.request_id), &error);
                    }
                }
            }
        }
    }

    /// Runs with the lock and the time, and wakes writers when the lock is free again.
    fn at_desk<T>(&self, work: impl FnOnce(&mut Desk, Millis) -> T) -> T {
        let mut desk = self.lock();
        // Read under the lock, so that the machine's time does not go back.
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(Millis::MAX);
        let outcome = work(&mut desk, now);
        let filled = std::mem::take(&mut desk.filled);
        drop(desk);
        for outbox in filled {
            outbox.wake();
        }
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        // A panic in here is a broken invariant of volatile data; the calls that it concerns time out.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    /// Appends frames to a connection's outbox, if it is still there.
    fn put(&mut self, session: SessionId, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(outbox) = self.outboxes.get(&session) {
            outbox.append(write);
            self.filled.push(Arc::clone(outbox));
        }
    }
}

/// The CALL that a responder gets: the request as it was encoded when it came, and behind it what belongs to the hand-over.
fn put_call(out: &mut Vec<u8>, to: SubscriptionKey, call: CallId, request: &[u8], remaining_ms: u64) {
    let own = wire::Call {
        timeout_ms: remaining_ms.saturating_sub(BEGUN_MS).max(1),
        call_id: Bytes::copy_from_slice(&call.to_bytes()),
        subscription: crate::shard::wire_number(to),
        ..wire::Call::default()
    };
    encode_header(out, Opcode::Call, None, request.len() + own.encoded_len());
    out.extend_from_slice(request);
    own.encode_raw(out);
}

#[cfg(test)]
mod tests;
