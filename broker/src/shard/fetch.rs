//! FETCH and CANCEL: a fetch is a pull of the core that is answered once, in its place among the replies if something is there at once,
//! else when something comes, its time is up, or the client changes its mind.
//!
//! Which message a pull gets is the core's business; how a delivery is written is in `deliver.rs`.

use std::collections::{BTreeMap, BTreeSet};

use qwerq_core::dispatch::{Bounds, Subscribe};
use qwerq_core::{Delivery, Millis, SessionId, SubscriptionKey};
use qwerq_proto::{ErrorCode, MAX_FRAME_BYTES, Opcode, encode_frame, encode_payload_frame, wire};

use super::command::Asker;
use super::consume::{check_wishes, or_default};
use super::deliver::put_delivered;
use super::reply::{self, Reply};
use super::{Fault, Shard};

/// Most messages that one FETCH may ask for.
const FETCH_MAX: u32 = 65_536;

/// Fetches of one connection that may wait at once.
const WAITING_MAX: usize = 1_024;

/// The field of `Fetched` that messages are.
const FETCHED_MESSAGES: u8 = 1;

/// A FETCH that may be answered: its queue and group exist.
#[derive(Debug)]
pub(super) struct Fetch {
    asker: Asker,
    subscribe: Subscribe,
    detached: bool,
    /// Until when it waits; `None`: it does not.
    until: Option<Millis>,
}

/// A fetch for which nothing was there.
struct Waiting {
    asker: Asker,
    until: Millis,
    /// What this turn's deliveries have brought it, as a FETCHED.
    fetched: Vec<u8>,
}

/// The fetches that wait.
#[derive(Default)]
pub(super) struct Fetches {
    /// Fetches ever begun; their subscriptions' numbers.
    begun: u64,
    waiting: BTreeMap<SubscriptionKey, Waiting>,
    deadlines: BTreeSet<(Millis, SubscriptionKey)>,
    /// Those that have got something this turn.
    filled: Vec<SubscriptionKey>,
}

impl Fetches {
    /// When the first one's time is up.
    pub(super) fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    fn of(&self, session: SessionId) -> impl Iterator<Item = (SubscriptionKey, &Waiting)> {
        self.waiting.range(SubscriptionKey::pull(session, 0)..).take_while(move |(key, _)| key.session == session).map(|(key, w)| (*key, w))
    }

    fn begin(&mut self, session: SessionId) -> SubscriptionKey {
        self.begun += 1;
        SubscriptionKey::pull(session, self.begun)
    }

    fn wait(&mut self, key: SubscriptionKey, asker: Asker, until: Millis) {
        self.waiting.insert(key, Waiting { asker, until, fetched: Vec::new() });
        self.deadlines.insert((until, key));
    }

    fn take(&mut self, key: SubscriptionKey) -> Option<Waiting> {
        let waiting = self.waiting.remove(&key)?;
        self.deadlines.remove(&(waiting.until, key));
        Some(waiting)
    }

    /// Adds a delivery to the answer of a fetch that waits.
    pub(super) fn put(&mut self, delivery: &Delivery, stored: &[u8]) {
        let waiting = self.waiting.get_mut(&delivery.subscription).expect("an open pull is a fetch that waits");
        if waiting.fetched.is_empty() {
            self.filled.push(delivery.subscription);
        }
        put_delivered(&mut waiting.fetched, FETCHED_MESSAGES, delivery, stored);
    }
}

impl Shard {
    pub(super) fn fetch(&mut self, asker: Asker, fetch: &wire::Fetch) -> Result<(), Fault> {
        let reply = match self.plan_fetch(asker, fetch)? {
            Ok(fetch) => Reply::Fetch(fetch),
            Err(error) => reply::error(asker, &error),
        };
        self.replies.push(reply);
        Ok(())
    }

    fn plan_fetch(&mut self, asker: Asker, fetch: &wire::Fetch) -> Result<Result<Fetch, wire::Error>, Fault> {
        if let Err(error) = self.check_fetch(asker, fetch) {
            return Ok(Err(error));
        }
        let queue = match self.queue_to_consume(&fetch.queue)? {
            Ok(queue) => queue,
            Err(error) => return Ok(Err(error)),
        };
        if fetch.group.is_empty() && self.is_stream(queue) {
            let text =
                format!("`{}` is a stream; name the group to fetch for, or consume it without a group, or look with peek", fetch.queue);
            return Ok(Err(ErrorCode::GroupRequired.with(text).detail("queue", &fetch.queue)));
        }
        let (group, _) = match self.consumer_group(queue, &fetch.group, fetch.start_at.as_ref())? {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let found = self.state.queue(queue).expect("just found or created");
        self.clients.consumed(asker.session, queue, &found.groups()[&group.group].name, &fetch.contract, self.clock.now());
        let options = &found.options;
        let bounds = Bounds { messages: fetch.max.max(1), bytes: u64::from(MAX_FRAME_BYTES) };
        let visibility_timeout_ms = or_default(fetch.visibility_timeout_ms, options.visibility_timeout_ms);
        let subscribe = Subscribe { group, bounds, concurrency: 1, visibility_timeout_ms };
        let until = (fetch.wait_ms > 0).then(|| self.clock.now().saturating_add(fetch.wait_ms));
        Ok(Ok(Fetch { asker, subscribe, detached: fetch.detached, until }))
    }

    fn check_fetch(&self, asker: Asker, fetch: &wire::Fetch) -> Result<(), wire::Error> {
        check_wishes(&fetch.group, fetch.visibility_timeout_ms)?;
        if fetch.max > FETCH_MAX {
            return Err(ErrorCode::InvalidArgument.with(format!("max is {}, at most {FETCH_MAX} is possible", fetch.max)));
        }
        if fetch.wait_ms > 0 && self.fetches.of(asker.session).count() >= WAITING_MAX {
            let text = format!("{WAITING_MAX} fetches of this connection wait already; wait for one of them, or send CANCEL");
            return Err(ErrorCode::Overloaded.with(text).retry_after_ms(1_000));
        }
        Ok(())
    }

    /// Answers a fetch in its place among the replies, or lets it wait.
    pub(super) fn begin_fetch(&mut self, fetch: &Fetch) -> Result<(), Fault> {
        let Fetch { asker, subscribe, detached, until } = fetch;
        let key = self.fetches.begin(asker.session);
        if self.state.queue(subscribe.group.queue).is_none_or(|queue| !queue.groups().contains_key(&subscribe.group.group)) {
            let error = ErrorCode::GroupNotFound.with("the group or its queue was deleted");
            self.send(asker.session, |out| encode_frame(out, Opcode::Error, asker.request_id, &error));
            return Ok(());
        }
        self.dispatch.open_pull(key, subscribe, *detached);
        let now = self.clock.now();
        let mut fetched = Vec::new();
        let mut messages = 0;
        while let Some(delivery) = self.dispatch.pull(&self.state, now, key) {
            let put = |stored: &[u8]| put_delivered(&mut fetched, FETCHED_MESSAGES, &delivery, stored);
            self.payloads.with(delivery.queue, delivery.seq, put)?;
            messages += 1;
        }
        self.metrics.consumed.add(messages);
        match until {
            Some(until) if messages == 0 => self.fetches.wait(key, *asker, *until),
            _ => self.end_fetch(key, *asker, &fetched),
        }
        Ok(())
    }

    fn end_fetch(&mut self, key: SubscriptionKey, asker: Asker, fetched: &[u8]) {
        self.dispatch.close_pull(key);
        self.send(asker.session, |out| encode_payload_frame(out, Opcode::Fetched, asker.request_id, fetched));
    }

    /// Answers the fetches that this turn's deliveries have brought something.
    pub(super) fn answer_fetches(&mut self) {
        for key in std::mem::take(&mut self.fetches.filled) {
            if let Some(waiting) = self.fetches.take(key) {
                self.end_fetch(key, waiting.asker, &waiting.fetched);
            }
        }
    }

    /// Answers the fetches whose time is up.
    pub(super) fn expire_fetches(&mut self, now: Millis) {
        while let Some(&(_, key)) = self.fetches.deadlines.first().filter(|(until, _)| *until <= now) {
            let waiting = self.fetches.take(key).expect("a deadline is a waiting fetch's");
            self.end_fetch(key, waiting.asker, &[]);
        }
    }

    /// Ends a fetch that waits with an error; its pull is gone, or goes now.
    pub(super) fn fail_fetch(&mut self, key: SubscriptionKey, error: &wire::Error) {
        if let Some(Waiting { asker, .. }) = self.fetches.take(key) {
            self.dispatch.close_pull(key);
            self.send(asker.session, |out| encode_frame(out, Opcode::Error, asker.request_id, error));
        }
    }

    /// CANCEL, as far as fetches go.
    pub(super) fn cancel(&mut self, session: SessionId, cancel: wire::Cancel) {
        let is_meant = |asker: &Asker| asker.session == session && asker.request_id == Some(cancel.request_id);
        let cancelled = ErrorCode::Cancelled.with("the client sent CANCEL");
        for reply in &mut self.replies {
            if let Reply::Fetch(fetch) = reply
                && is_meant(&fetch.asker)
            {
                *reply = reply::error(fetch.asker, &cancelled);
                return;
            }
        }
        let meant = self.fetches.of(session).find(|(_, waiting)| is_meant(&waiting.asker)).map(|(key, _)| key);
        if let Some(key) = meant {
            self.fail_fetch(key, &cancelled);
        }
    }

    /// A connection is gone, and nobody hears its answers. Its pulls are ended by dispatch.
    pub(super) fn forget_fetches(&mut self, session: SessionId) {
        self.replies.retain(|reply| !matches!(reply, Reply::Fetch(fetch) if fetch.asker.session == session));
        let keys: Vec<_> = self.fetches.of(session).map(|(key, _)| key).collect();
        for key in keys {
            self.fetches.take(key);
        }
    }
}
