//! Subscriptions and leases: what consumers ask for. Who gets which message is decided by the core's dispatch.

use qwerq_core::dispatch::{Bounds, GroupKey, Subscribe};
use qwerq_core::options::Mode;
use qwerq_core::{Queue, QueueId, Seq, SubscriptionKey};
use qwerq_proto::wire::start_at::At;
use qwerq_proto::wire::{self, Role};
use qwerq_proto::{ErrorCode, Opcode, name};

use super::command::Asker;
use super::reply::{self, Reply};
use super::{Fault, Shard};

/// The group that consumes a queue when none is named.
const DEFAULT_GROUP: &str = "default";

const PREFETCH_DEFAULT: u32 = 32;
const PREFETCH_MAX: u32 = 65_536;
const PREFETCH_BYTES_DEFAULT: u64 = 16 << 20;

/// Longest visibility timeout: 12 hours.
const VISIBILITY_TIMEOUT_MS_MAX: u64 = 12 * 60 * 60 * 1_000;

impl Shard {
    pub(super) fn consume(&mut self, asker: Asker, consume: &wire::Consume) -> Result<(), Fault> {
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
        if consume.role() != Role::Consume {
            return Ok(Err(ErrorCode::Unsupported.with("this broker has no CALL and no tail yet; subscribe with the role CONSUME")));
        }
        if let Err(error) = check_consume(consume) {
            return Ok(Err(error));
        }
        let key = SubscriptionKey { session: asker.session, number: consume.subscription };
        if self.dispatch.has_subscription(key) {
            return Ok(Err(reply::refusal(&qwerq_core::Rejection::SubscriptionExists { number: key.number })));
        }
        let queue = match self.state.queue_named(&consume.queue) {
            Some(queue) => queue.id,
            None => match self.may_create(&consume.queue) {
                Ok(()) => self.create_queue(&consume.queue)?,
                Err(error) => return Ok(Err(error)),
            },
        };
        let (group, group_existed) = match self.consumer_group(queue, consume)? {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let queue = self.state.queue(group.queue).expect("just found or created");
        let visibility_timeout_ms = or_default(consume.visibility_timeout_ms, queue.options.visibility_timeout_ms);
        let subscribe = Subscribe {
            group,
            bounds: Bounds {
                messages: or_default(consume.prefetch, PREFETCH_DEFAULT),
                bytes: or_default(consume.prefetch_bytes, PREFETCH_BYTES_DEFAULT),
            },
            concurrency: or_default(consume.concurrency, 1),
            visibility_timeout_ms,
        };
        let group = queue.groups()[&group.group].name.clone();
        self.clients.consumed(asker.session, queue.id, &group, &consume.contract, self.clock.now());
        let ack = wire::ConsumeAck { subscription: consume.subscription, group, group_existed, visibility_timeout_ms };
        Ok(self.dispatch.subscribe(key, &subscribe).map(|()| ack).map_err(|rejection| reply::refusal(&rejection)))
    }

    /// The group that a consumer joins, created if it is new; and whether it existed.
    fn consumer_group(&mut self, id: QueueId, consume: &wire::Consume) -> Result<Result<(GroupKey, bool), wire::Error>, Fault> {
        let queue = self.state.queue(id).expect("just found or created");
        let name = match consume.group.as_str() {
            "" if queue.options.mode == Mode::Stream => {
                return Ok(Err(ErrorCode::GroupRequired
                    .with(format!("`{}` is a stream; readers without a group are not supported yet, so name one", queue.name))));
            }
            "" => DEFAULT_GROUP,
            name => name,
        };
        if let Some(group) = queue.group(name) {
            return Ok(Ok((GroupKey { queue: id, group: group.id }, true)));
        }
        if consume.group.is_empty() && !queue.groups().is_empty() {
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
        let body = self.state.create_group(id, &name, start_of(queue, consume.start_at.as_ref()));
        self.commit_alone(body)?;
        let group = self.state.queue(id).and_then(|queue| queue.group(&name)).expect("just created");
        Ok(Ok((GroupKey { queue: id, group: group.id }, false)))
    }

    pub(super) fn credit(&mut self, session: qwerq_core::SessionId, credit: &wire::Credit) {
        let key = SubscriptionKey { session, number: credit.subscription };
        let bounds =
            Bounds { messages: credit.prefetch.min(PREFETCH_MAX), bytes: or_default(credit.prefetch_bytes, PREFETCH_BYTES_DEFAULT) };
        // A subscription that has just ended may still get credit; that is nobody's mistake.
        self.dispatch.credit(key, bounds);
    }

    pub(super) fn unsubscribe(&mut self, asker: Asker, unsubscribe: &wire::Unsubscribe) {
        let key = SubscriptionKey { session: asker.session, number: unsubscribe.subscription };
        self.replies.push(if self.dispatch.unsubscribe(key, unsubscribe.keep_leases) {
            let ended = wire::SubscriptionEnded { subscription: key.number, reason: None };
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
                    Opcode::Ack => self.dispatch.ack(asker.session, id).map(Some),
                    Opcode::Nack => self.dispatch.nack(&self.state, now, asker.session, id, settle.delay_ms).map(Some),
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
                        self.log.propose(proposal);
                    }
                }
                Err(error) => {
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
        let outcome = self.queue_of(&request.queue).and_then(|queue| {
            let group = queue
                .group(&request.group)
                .ok_or_else(|| ErrorCode::GroupNotFound.with(format!("queue `{}` has no group `{}`", queue.name, request.group)))?;
            Ok(qwerq_core::Body::GroupDeleted { queue: queue.id, group: group.id })
        });
        self.commit_and_answer(asker, outcome)?;
        self.end_subscriptions();
        Ok(())
    }

    /// Tells consumers whose group is gone.
    pub(super) fn end_subscriptions(&mut self) {
        for key in self.dispatch.take_ended() {
            let reason = Some(ErrorCode::GroupNotFound.with("the group or its queue was deleted"));
            let ended = wire::SubscriptionEnded { subscription: key.number, reason };
            let asker = Asker { session: key.session, request_id: None };
            let Reply::Frames { session, bytes } = reply::frame(asker, Opcode::SubscriptionEnded, &ended) else {
                unreachable!("a frame is made of bytes");
            };
            self.send(session, |out| out.extend_from_slice(&bytes));
        }
    }
}

/// Where a new group begins.
fn start_of(queue: &Queue, start: Option<&wire::StartAt>) -> Seq {
    match start.and_then(|start| start.at) {
        None | Some(At::Beginning(_)) => queue.first_seq(),
        Some(At::End(_)) => queue.next_seq(),
        Some(At::Offset(offset)) => offset.min(queue.next_seq()),
        Some(At::TimeMs(time)) => queue.messages().first_since(time).unwrap_or(queue.next_seq()),
    }
}

fn or_default<T: Default + PartialEq>(given: T, default: T) -> T {
    if given == T::default() { default } else { given }
}

fn check_consume(consume: &wire::Consume) -> Result<(), wire::Error> {
    if !consume.group.is_empty() {
        check_name("group", &consume.group)?;
    }
    if consume.prefetch > PREFETCH_MAX {
        return Err(ErrorCode::InvalidArgument.with(format!("prefetch is {}, at most {PREFETCH_MAX} is possible", consume.prefetch)));
    }
    if consume.visibility_timeout_ms > VISIBILITY_TIMEOUT_MS_MAX {
        return Err(ErrorCode::InvalidArgument.with(format!(
            "visibility_timeout is {} ms, at most 12 hours are possible; a consumer that works longer extends its leases",
            consume.visibility_timeout_ms
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
