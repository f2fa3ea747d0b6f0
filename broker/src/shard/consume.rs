//! Subscriptions and leases: what consumers ask for. Who gets which message is decided by the core's dispatch. Pulls are in `fetch.rs`,
//! subscriptions without a group in `read.rs`.

use qwerq_core::dispatch::{Bounds, GroupKey, Subscribe};
use qwerq_core::options::Mode;
use qwerq_core::{Queue, QueueId, Seq, SubscriptionKey};
use qwerq_proto::wire::start_at::At;
use qwerq_proto::wire::{self, Role};
use qwerq_proto::{ErrorCode, Opcode, encode_frame, name};

use super::command::Asker;
use super::reply;
use super::{Fault, Shard};

/// The group that consumes a queue when none is named.
const DEFAULT_GROUP: &str = "default";

pub(super) const PREFETCH_DEFAULT: u32 = 32;
const PREFETCH_MAX: u32 = 65_536;
pub(super) const PREFETCH_BYTES_DEFAULT: u64 = 16 << 20;

/// Longest visibility timeout: 12 hours.
const VISIBILITY_TIMEOUT_MS_MAX: u64 = 12 * 60 * 60 * 1_000;

impl Shard {
    pub(super) fn consume(&mut self, asker: Asker, consume: &wire::Consume) -> Result<(), Fault> {
        if consume.role() == Role::Serve {
            return self.serve_calls(asker, consume);
        }
        match self.open_subscription(asker, consume)? {
            Ok(ack) => self.replies.push(reply::frame(asker, Opcode::ConsumeAck, &ack)),
            Err(error) => {
                let error = wire::Error { subscription: Some(consume.subscription), ..error };
                self.replies.push(reply::error(asker, &error));
            }
        }
        Ok(())
    }

    fn open_subscription(&mut self, asker: Asker, consume: &wire::Consume) -> Result<Result<wire::ConsumeAck, wire::Error>, Fault> {
        if let Err(error) = check_consume(consume) {
            return Ok(Err(error));
        }
        let key = SubscriptionKey { session: asker.session, number: consume.subscription.into() };
        if self.has_subscription(key) {
            return Ok(Err(reply::refusal(&qwerq_core::Rejection::SubscriptionExists { number: key.number })));
        }
        if consume.role() == Role::Tail {
            return self.open_tail(key, consume);
        }
        let queue = match self.queue_to_consume(&consume.queue)? {
            Ok(queue) => queue,
            Err(error) => return Ok(Err(error)),
        };
        if consume.group.is_empty() && self.is_stream(queue) {
            return self.open_reader(key, queue, consume);
        }
        let (group, group_existed) = match self.consumer_group(queue, &consume.group, consume.start_at.as_ref())? {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let queue = self.state.queue(group.queue).expect("just found or created");
        let visibility_timeout_ms = or_default(consume.visibility_timeout_ms, queue.options.visibility_timeout_ms);
        let subscribe =
            Subscribe { group, bounds: bounds(consume), concurrency: or_default(consume.concurrency, 1), visibility_timeout_ms };
        let group = queue.groups()[&group.group].name.clone();
        self.clients.consumed(asker.session, queue.id, &group, &consume.contract, self.clock.now());
        let ack = wire::ConsumeAck { subscription: consume.subscription, group, group_existed, visibility_timeout_ms };
        Ok(self.dispatch.subscribe(key, &subscribe).map(|()| ack).map_err(|rejection| reply::refusal(&rejection)))
    }

    /// The queue that somebody consumes, created if it is new.
    pub(super) fn queue_to_consume(&mut self, name: &str) -> Result<Result<QueueId, wire::Error>, Fault> {
        if let Some(queue) = self.state.queue_named(name) {
            return Ok(Ok(queue.id));
        }
        match self.may_create(name) {
            Ok(()) => Ok(Ok(self.create_queue(name)?)),
            Err(error) => Ok(Err(error)),
        }
    }

    pub(super) fn is_stream(&self, queue: QueueId) -> bool {
        self.state.queue(queue).is_some_and(|queue| queue.options.mode == Mode::Stream)
    }

    /// The group that a consumer joins, created if it is new; and whether it existed. On a queue, no name is the default group.
    pub(super) fn consumer_group(
        &mut self,
        id: QueueId,
        given: &str,
        start_at: Option<&wire::StartAt>,
    ) -> Result<Result<(GroupKey, bool), wire::Error>, Fault> {
        let queue = self.state.queue(id).expect("just found or created");
        let name = if given.is_empty() { DEFAULT_GROUP } else { given };
        if let Some(group) = queue.group(name) {
            return Ok(Ok((GroupKey { queue: id, group: group.id }, true)));
        }
        if given.is_empty() && !queue.groups().is_empty() {
            let names: Vec<_> = queue.groups().values().map(|group| format!("`{}`", group.name)).collect();
            return Ok(Err(ErrorCode::GroupRequired
                .with(format!(
                    "queue `{}` is consumed by {}; name the group that you consume for, or look with peek",
                    queue.name,
                    names.join(", ")
                ))
                .detail("queue", &queue.name)));
        }
        let name = name.to_owned();
        // A group that starts at the end starts behind what was published before it.
        self.commit()?;
        let queue = self.state.queue(id).expect("just found or created");
        let body = self.state.create_group(id, &name, start_of(queue, start_at));
        self.commit_alone(body)?;
        let group = self.state.queue(id).and_then(|queue| queue.group(&name)).expect("just created");
        Ok(Ok((GroupKey { queue: id, group: group.id }, false)))
    }

    pub(super) fn credit(&mut self, session: qwerq_core::SessionId, credit: &wire::Credit) {
        let key = SubscriptionKey { session, number: credit.subscription.into() };
        let bounds =
            Bounds { messages: credit.prefetch.min(PREFETCH_MAX), bytes: or_default(credit.prefetch_bytes, PREFETCH_BYTES_DEFAULT) };
        // A subscription that has just ended may still get credit; that is nobody's mistake.
        let _ = self.dispatch.credit(key, bounds) || self.calls.credit(key, bounds);
    }

    pub(super) fn unsubscribe(&mut self, asker: Asker, unsubscribe: &wire::Unsubscribe) {
        let key = SubscriptionKey { session: asker.session, number: unsubscribe.subscription.into() };
        let keep = unsubscribe.keep_leases;
        self.replies.push(if self.dispatch.unsubscribe(key, keep) || self.calls.unsubscribe(key, keep) {
            let ended = wire::SubscriptionEnded { subscription: unsubscribe.subscription, reason: None };
            reply::frame(asker, Opcode::SubscriptionEnded, &ended)
        } else {
            reply::error(asker, &ErrorCode::UnknownSubscription.with(format!("no subscription {} is open", key.number)))
        });
    }

    /// ACK, NACK, REJECT, RELEASE and EXTEND_VISIBILITY.
    pub(super) fn settle(&mut self, asker: Asker, opcode: Opcode, settle: &wire::Settle) {
        let now = self.clock.now();
        let mut refused = Vec::new();
        let mut settled = 0;
        for (index, bytes) in settle.lease_ids.iter().enumerate() {
            let outcome = reply::lease_id(bytes).and_then(|id| {
                let outcome = match opcode {
                    Opcode::Ack => self.dispatch.ack(asker.session, id).map(Some).inspect(|_| self.traces.acking(id)),
                    Opcode::Nack => self.dispatch.nack(&self.state, now, asker.session, id, settle.delay_ms, &settle.reason).map(Some),
                    Opcode::Reject => self.dispatch.reject(&self.state, now, asker.session, id, &settle.reason).map(Some),
                    Opcode::Release => self.dispatch.release(asker.session, id).map(|()| None),
                    _ => {
                        let length = settle.visibility_timeout_ms.min(VISIBILITY_TIMEOUT_MS_MAX);
                        self.dispatch.extend(now, asker.session, id, length).map(|()| None)
                    }
                };
                outcome.map_err(|rejection| reply::refusal(&rejection))
            });
            match outcome {
                Ok(proposal) => {
                    settled += 1;
                    if let Some(proposal) = proposal {
                        self.propose(now, proposal);
                    }
                }
                Err(error) => {
                    self.metrics.refused(&error);
                    let index = u32::try_from(index).expect("a frame holds fewer leases");
                    refused.push(wire::RefusedLease { index, error: Some(error) });
                }
            }
        }
        match opcode {
            Opcode::Ack => self.metrics.acked.add(u64::from(settled)),
            Opcode::Nack => self.metrics.nacked.add(u64::from(settled)),
            _ => {}
        }
        if settle.confirm {
            let opcode = if opcode == Opcode::ExtendVisibility { Opcode::ExtendVisibilityAck } else { Opcode::Settled };
            self.replies.push(reply::frame(asker, opcode, &wire::Settled { settled, refused }));
        }
    }

    pub(super) fn group_create(&mut self, asker: Asker, request: &wire::GroupRequest) -> Result<(), Fault> {
        // As above: the end is behind what was published before.
        self.commit()?;
        let outcome = self.queue_of(&request.queue).and_then(|queue| {
            check_name("group", &request.group)?;
            if queue.group(&request.group).is_some() {
                return Err(ErrorCode::GroupExists
                    .with(format!("queue `{}` has a group `{}` already; `group seek` moves it", queue.name, request.group)));
            }
            Ok(self.state.create_group(queue.id, &request.group, start_of(queue, request.start_at.as_ref())))
        });
        self.commit_and_answer(asker, outcome)
    }

    pub(super) fn group_delete(&mut self, asker: Asker, request: &wire::GroupRequest) -> Result<(), Fault> {
        let outcome = self.group_of(&request.queue, &request.group);
        let outcome = outcome.map(|(queue, group)| qwerq_core::Body::GroupDeleted { queue: queue.id, group });
        self.commit_and_answer(asker, outcome)?;
        self.end_subscriptions();
        Ok(())
    }

    /// SEEK: a group begins anew somewhere else.
    pub(super) fn seek(&mut self, asker: Asker, request: &wire::GroupRequest) -> Result<(), Fault> {
        // What was published and settled before comes first.
        self.commit()?;
        let outcome = self.group_of(&request.queue, &request.group).and_then(|(queue, group)| {
            let Some(at) = request.start_at.as_ref().filter(|start| start.at.is_some()) else {
                return Err(ErrorCode::InvalidArgument.with("say where the group goes: beginning, end, an offset or a time"));
            };
            Ok(qwerq_core::Body::Sought { queue: queue.id, group, to: start_of(queue, Some(at)) })
        });
        self.commit_and_answer(asker, outcome)
    }

    /// COMMIT_OFFSET: a group of a stream is done with everything up to an offset.
    pub(super) fn commit_offset(&mut self, asker: Asker, commit: &wire::CommitOffset) -> Result<(), Fault> {
        self.commit()?;
        let outcome = self.group_of(&commit.queue, &commit.group).and_then(|(queue, group)| {
            if queue.options.mode != Mode::Stream {
                return Err(ErrorCode::WrongMode.with(format!(
                    "`{}` is a queue; offsets are committed on streams, on a queue each message is acknowledged",
                    queue.name
                )));
            }
            if commit.offset >= queue.next_seq() {
                return Err(ErrorCode::InvalidArgument.with(format!(
                    "offset {} is beyond the end of `{}`, which is {}",
                    commit.offset,
                    queue.name,
                    queue.next_seq()
                )));
            }
            Ok(qwerq_core::Body::SettledThrough { queue: queue.id, group, through: commit.offset })
        });
        self.commit_and_answer(asker, outcome)
    }

    /// A queue and one of its groups by name, or the error that the asker gets.
    pub(super) fn group_of(&self, queue: &str, group: &str) -> Result<(&Queue, qwerq_core::GroupId), wire::Error> {
        let queue = self.queue_of(queue)?;
        let found = queue.group(group).ok_or_else(|| {
            ErrorCode::GroupNotFound
                .with(format!("queue `{0}` has no group `{group}`; see `qwer-q group list -q {0}`", queue.name))
                .detail("queue", &queue.name)
        })?;
        Ok((queue, found.id))
    }

    /// Tells consumers, waiting fetches and readers whose group or queue is gone.
    pub(super) fn end_subscriptions(&mut self) {
        for key in self.dispatch.take_ended() {
            let reason = ErrorCode::GroupNotFound.with("the group or its queue was deleted");
            if key.is_pull() { self.fail_fetch(key, &reason) } else { self.end_subscription(key, reason) }
        }
        for key in self.dispatch.take_ended_readers() {
            self.end_subscription(key, ErrorCode::QueueNotFound.with("the queue was deleted"));
        }
    }

    fn end_subscription(&mut self, key: SubscriptionKey, reason: wire::Error) {
        let ended = wire::SubscriptionEnded { subscription: wire_number(key), reason: Some(reason) };
        self.send(key.session, |out| encode_frame(out, Opcode::SubscriptionEnded, None, &ended));
    }
}

/// The number that the client gave a subscription.
pub(crate) fn wire_number(key: SubscriptionKey) -> u32 {
    u32::try_from(key.number).expect("clients number with 32 bits, and pulls are answered otherwise")
}

/// What a consumer may hold, or a reader gets at first.
pub(super) fn bounds(consume: &wire::Consume) -> Bounds {
    Bounds { messages: or_default(consume.prefetch, PREFETCH_DEFAULT), bytes: or_default(consume.prefetch_bytes, PREFETCH_BYTES_DEFAULT) }
}

/// Where a new group begins.
pub(super) fn start_of(queue: &Queue, start: Option<&wire::StartAt>) -> Seq {
    match start.and_then(|start| start.at) {
        None | Some(At::Beginning(_)) => queue.first_seq(),
        Some(At::End(_)) => queue.next_seq(),
        Some(At::Offset(offset)) => offset.min(queue.next_seq()),
        Some(At::TimeMs(time)) => queue.messages().first_since(time).unwrap_or(queue.next_seq()),
    }
}

pub(super) fn or_default<T: Default + PartialEq>(given: T, default: T) -> T {
    if given == T::default() { default } else { given }
}

fn check_consume(consume: &wire::Consume) -> Result<(), wire::Error> {
    if consume.role() == Role::Serve {
        return Err(ErrorCode::Unsupported.with("this broker has no CALL yet; subscribe with the role CONSUME or TAIL"));
    }
    check_wishes(&consume.group, consume.visibility_timeout_ms)?;
    if consume.prefetch > PREFETCH_MAX {
        return Err(ErrorCode::InvalidArgument.with(format!("prefetch is {}, at most {PREFETCH_MAX} is possible", consume.prefetch)));
    }
    Ok(())
}

/// What subscribing and fetching have in common: a group's name, or none, and how long leases last.
pub(super) fn check_wishes(group: &str, visibility_timeout_ms: u64) -> Result<(), wire::Error> {
    if !group.is_empty() {
        check_name("group", group)?;
    }
    if visibility_timeout_ms > VISIBILITY_TIMEOUT_MS_MAX {
        return Err(ErrorCode::InvalidArgument.with(format!(
            "visibility_timeout is {visibility_timeout_ms} ms, at most 12 hours are possible; a consumer that works longer extends its leases"
        )));
    }
    Ok(())
}

pub(super) fn check_name(what: &str, given: &str) -> Result<(), wire::Error> {
    if name::is_valid(given) {
        return Ok(());
    }
    Err(ErrorCode::InvalidName
        .with(format!("{given:?} is no {what} name: 1 to 251 of A-Z a-z 0-9 . _ -, and not `.`, `_` or `-` in front")))
}
