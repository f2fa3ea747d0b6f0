//! Calls without an index: lists that are searched from the front, rules that can be read off.

use qwerq_core::calls::{End, FRAME_BYTES, LINE_BYTES_MAX, LINE_CALLS_MAX, NotTaken};
use qwerq_core::dispatch::Bounds;
use qwerq_core::{Caller, SessionId, SubscriptionKey};

/// What the model says to somebody; calls are named by their number of acceptance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    Handed { to: SubscriptionKey, call: u64, remaining_ms: u64 },
    Ended { caller: Caller, end: End },
}

#[derive(Debug, Clone)]
struct Call {
    number: u64,
    caller: Caller,
    queue: &'static str,
    deadline: u64,
    bytes: u64,
    /// The position of the responder that has it.
    with: Option<usize>,
}

#[derive(Debug, Clone)]
struct Responder {
    key: SubscriptionKey,
    queue: &'static str,
    bounds: Bounds,
    open: bool,
    late: u64,
    late_bytes: u64,
    last_call: u64,
}

/// All calls and all responders that ever were.
#[derive(Debug, Default)]
pub(crate) struct Model {
    taken: u64,
    calls: Vec<Call>,
    responders: Vec<Responder>,
    pub(crate) said: Vec<Said>,
}

impl Model {
    fn open(&self, key: SubscriptionKey) -> Option<usize> {
        self.responders.iter().position(|responder| responder.open && responder.key == key)
    }

    fn served(&self, queue: &str) -> bool {
        self.responders.iter().any(|responder| responder.open && responder.queue == queue)
    }

    fn has(&self, responder: usize) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.with == Some(responder))
    }

    fn waiting(&self, queue: &str) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.with.is_none() && call.queue == queue)
    }

    fn first_waiting(&self, queue: &str) -> Option<Call> {
        self.waiting(queue).next().cloned()
    }

    fn best(&self, queue: &str) -> Option<usize> {
        let load = |at: usize| self.has(at).count() as u64 + self.responders[at].late;
        let free = |at: usize| {
            let responder = &self.responders[at];
            let room = (self.has(at).count() as u64) < u64::from(responder.bounds.messages);
            let bytes: u64 = self.has(at).map(|call| call.bytes).sum();
            responder.open && responder.queue == queue && room && bytes + responder.late_bytes < responder.bounds.bytes
        };
        (0..self.responders.len()).filter(|at| free(*at)).min_by_key(|at| (load(*at), self.responders[*at].last_call, *at))
    }

    fn heard(&mut self, at: usize) {
        self.responders[at].late = 0;
        self.responders[at].late_bytes = 0;
    }

    fn fill(&mut self, now: u64, queue: &'static str) {
        while let Some(to) = self.best(queue)
            && let Some(call) = self.first_waiting(queue)
        {
            if call.deadline <= now {
                self.end(call.number, End::TimedOut { handed: false });
                continue;
            }
            self.calls.iter_mut().find(|other| other.number == call.number).expect("there").with = Some(to);
            self.responders[to].last_call = call.number;
            self.said.push(Said::Handed { to: self.responders[to].key, call: call.number, remaining_ms: call.deadline - now });
        }
    }

    fn end(&mut self, number: u64, end: End) {
        let at = self.calls.iter().position(|call| call.number == number).expect("in flight");
        let call = self.calls.remove(at);
        if let Some(with) = call.with {
            self.responders[with].late += 1;
            self.responders[with].late_bytes += call.bytes + FRAME_BYTES;
        }
        self.said.push(Said::Ended { caller: call.caller, end });
    }

    fn end_deserted(&mut self, queue: &'static str) {
        while !self.served(queue)
            && let Some(call) = self.first_waiting(queue)
        {
            self.end(call.number, End::NoResponders);
        }
    }

    pub(crate) fn serve(&mut self, now: u64, key: SubscriptionKey, queue: &'static str, bounds: Bounds) -> bool {
        if self.open(key).is_some() {
            return false;
        }
        self.responders.push(Responder { key, queue, bounds, open: true, late: 0, late_bytes: 0, last_call: 0 });
        self.fill(now, queue);
        true
    }

    pub(crate) fn credit(&mut self, now: u64, key: SubscriptionKey, bounds: Bounds) -> bool {
        let Some(at) = self.open(key) else { return false };
        self.responders[at].bounds = bounds;
        self.heard(at);
        self.fill(now, self.responders[at].queue);
        true
    }

    pub(crate) fn unsubscribe(&mut self, key: SubscriptionKey, keep_calls: bool) -> bool {
        let Some(at) = self.open(key) else { return false };
        self.responders[at].open = false;
        if !keep_calls {
            self.lose(at);
        }
        self.end_deserted(self.responders[at].queue);
        true
    }

    fn lose(&mut self, responder: usize) {
        let theirs: Vec<_> = self.has(responder).map(|call| call.number).collect();
        for number in theirs {
            self.end(number, End::ResponderLost);
        }
    }

    pub(crate) fn call(&mut self, now: u64, caller: Caller, queue: &'static str, deadline: u64, bytes: u64) -> Result<u64, NotTaken> {
        if !self.served(queue) {
            return Err(NotTaken::NoResponders);
        }
        if self.calls.iter().any(|call| call.caller == caller) {
            return Err(NotTaken::RequestIdInUse);
        }
        let (line, line_bytes) = (self.waiting(queue).count(), self.waiting(queue).map(|call| call.bytes).sum::<u64>());
        let room = line < LINE_CALLS_MAX && (line == 0 || line_bytes + bytes <= LINE_BYTES_MAX);
        if self.best(queue).is_none() && !room {
            return Err(NotTaken::LineFull { calls: line, bytes: line_bytes });
        }
        self.taken += 1;
        self.calls.push(Call { number: self.taken, caller, queue, deadline, bytes, with: None });
        self.fill(now, queue);
        Ok(self.taken)
    }

    fn abandon(&mut self, now: u64, number: u64, end: End) {
        let queue = self.calls.iter().find(|call| call.number == number).expect("in flight").queue;
        self.end(number, end);
        self.fill(now, queue);
    }

    pub(crate) fn cancel(&mut self, now: u64, caller: Caller) -> bool {
        let Some(number) = self.calls.iter().find(|call| call.caller == caller).map(|call| call.number) else { return false };
        self.abandon(now, number, End::Cancelled);
        true
    }

    pub(crate) fn reply(&mut self, now: u64, session: SessionId, number: u64) -> Option<Caller> {
        let theirs = |call: &&Call| call.number == number && call.with.is_some_and(|with| self.responders[with].key.session == session);
        let Some(call) = self.calls.iter().find(theirs).cloned() else {
            let theirs: Vec<_> = (0..self.responders.len()).filter(|at| self.responders[*at].key.session == session).collect();
            theirs.iter().for_each(|at| self.heard(*at));
            theirs.iter().for_each(|at| self.fill(now, self.responders[*at].queue));
            return None;
        };
        self.calls.retain(|other| other.number != number);
        self.heard(call.with.expect("found so"));
        self.fill(now, call.queue);
        Some(call.caller)
    }

    pub(crate) fn expire(&mut self, now: u64) {
        let due =
            |model: &Model| model.calls.iter().filter(|call| call.deadline <= now).min_by_key(|call| (call.deadline, call.number)).cloned();
        while let Some(call) = due(self) {
            let handed = call.with.is_some();
            self.abandon(now, call.number, End::TimedOut { handed });
        }
    }

    pub(crate) fn disconnect(&mut self, now: u64, session: SessionId) {
        let theirs: Vec<_> = (0..self.responders.len()).filter(|at| self.responders[*at].key.session == session).collect();
        let open: Vec<_> = theirs.iter().copied().filter(|at| self.responders[*at].open).collect();
        open.iter().for_each(|at| self.responders[*at].open = false);
        let mut made: Vec<_> = self.calls.iter().filter(|call| call.caller.session == session).cloned().collect();
        made.sort_by_key(|call| call.caller);
        for call in made {
            self.abandon(now, call.number, End::CallerLost);
        }
        theirs.into_iter().for_each(|at| self.lose(at));
        open.into_iter().for_each(|at| self.end_deserted(self.responders[at].queue));
    }

    /// Numbers of calls that responders have, with the session of each.
    pub(crate) fn held(&self) -> Vec<(SessionId, u64)> {
        self.calls.iter().filter_map(|call| Some((self.responders[call.with?].key.session, call.number))).collect()
    }
}
