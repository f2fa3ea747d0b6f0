//! The broker's named rules, one line each: what is done, and what is seen. The simulation tries everything; this page tells what it means.
//!
//! A scenario is a list of steps on one queue `q` with the group `g`, each committed before the next:
//!
//! | step | meaning |
//! |---|---|
//! | `publish a b/k c!i` | messages a, b with the ordering key k, c with the idempotency key i |
//! | `lease 30s` | a consumer comes, on its own connection, and takes all it can get; `lease 30s x2`: two at most; `lease 30s h`: of group h |
//! | `pull 30s x2` | the same, but what it takes is one answer; `pull 30s x2 detached`: and its leases outlive it |
//! | `wait 30s x2`, `answer` | a pull for which nothing was there waits; the newest one is closed |
//! | `read 3 x2`, `tail x2`, `credit x2` | a reader comes and begins at 3, or at the end, with credit for two; whoever is newest gets credit |
//! | `ack a`, `nack a`, `nack a 5s`, `release a`, `extend a 9s` | for the newest lease of a; `ack a@1` for its first |
//! | `lost ack a` | the ack is not durable yet; only a `crash` can follow |
//! | `+31s` | the clock moves, and dispatch is told |
//! | `heard`, `close`, `drop` | the newest consumer shows a sign of life, says goodbye, vanishes |
//! | `group h`, `delete h`, `purge`, `delete` | a group comes or goes; everything published so far goes; the queue goes |
//! | `crash` | all connections are gone, and the state is rebuilt from a checkpoint halfway and the entries behind it |
//! | `depth` | shows how many messages are stored |

use std::collections::BTreeMap;

use qwerq_core::dispatch::{Bounds, GroupKey, Subscribe};
use qwerq_core::entry::{AttemptEnded, ItemHead, ItemWriter, PUBLISH_KIND, Settle};
use qwerq_core::options::{Mode, OnFailure};
use qwerq_core::stored::key_hash;
use qwerq_core::{
    Admission, Body, Delivery, Dispatch, Entry, LeaseId, MessageId, Millis, NewMessage, Pending, Proposal, QueueId, QueueOptions,
    Rejection, RowChange, Seq, SessionId, State, SubscriptionKey,
};

#[test]
fn a_message_goes_to_one_consumer_of_each_group() {
    check("publish a b; lease 30s x1; lease 30s; lease 30s h", "deliver a #1; deliver b #1; deliver a #1; deliver b #1");
}

#[test]
fn an_expired_lease_redelivers_at_once_and_counts() {
    check("publish a; lease 30s; +31s; lease 30s", "deliver a #1; deliver a #2");
    check("publish a; lease 30s; +29s; extend a 30s; +29s; lease 30s; +2s", "deliver a #1; deliver a #2");
}

#[test]
fn a_consumer_whose_lease_expired_gets_nothing_until_it_is_heard() {
    check("publish a; lease 30s; +31s; publish b; heard", "deliver a #1; deliver a #2; deliver b #1");
}

#[test]
fn a_stale_lease_never_settles() {
    check("publish a; lease 30s; +31s; ack a; lease 30s; ack a@1; depth", "deliver a #1; stale; deliver a #2; stale; depth 1");
    check("publish a; lease 30s; ack a; ack a; depth", "deliver a #1; stale; depth 0");
    check("publish a; lease 30s; crash; ack a; lease 30s; ack a; depth", "deliver a #1; stale; deliver a #1; depth 0");
}

#[test]
fn a_nack_comes_back_after_its_delay_and_counts() {
    check("publish a; lease 60s; nack a 5s; +4s; +1s", "deliver a #1; deliver a #2");
    check("publish a; lease 60s; nack a 0s", "deliver a #1; deliver a #2");
    // The default backoff: one second less at most a quarter, then two.
    check("publish a; lease 60s; nack a; +749ms; +251ms; nack a; +1499ms; +501ms", "deliver a #1; deliver a #2; deliver a #3");
}

#[test]
fn a_release_comes_back_uncounted() {
    check("publish a; lease 60s; release a", "deliver a #1; deliver a #1");
}

#[test]
fn a_disconnect_counts_only_what_was_being_worked_on() {
    check("publish a b; lease 60s; drop; lease 60s", "deliver a #1; deliver b #1; deliver a #2; deliver b #1");
    check("publish a b; lease 60s; close; lease 60s", "deliver a #1; deliver b #1; deliver a #1; deliver b #1");
}

#[test]
fn a_crash_counts_nothing_and_forgets_no_attempt() {
    check("publish a b; lease 60s; crash; lease 60s", "deliver a #1; deliver b #1; deliver a #1; deliver b #1");
    check("publish a; lease 60s; nack a 5s; crash; lease 60s; +5s", "deliver a #1; deliver a #2");
    check("publish a; lease 60s; lost ack a; crash; lease 60s", "deliver a #1; deliver a #1");
    check("publish a; lease 60s; ack a; crash; lease 60s; depth", "deliver a #1; depth 0");
}

#[test]
fn a_message_is_removed_when_every_group_has_settled_it() {
    check("group h; publish a; lease 9s; ack a; depth; lease 9s h; ack a; depth", "deliver a #1; depth 1; deliver a #1; depth 0");
    check("group h; publish a; lease 9s; ack a; depth; delete h; depth", "deliver a #1; depth 1; depth 0");
}

#[test]
fn one_message_of_a_key_is_in_flight_and_the_next_waits_for_it() {
    check("publish a/k b/k c; lease 60s; ack a", "deliver a #1; deliver c #1; deliver b #1");
    check("publish a/k b/k; lease 60s; nack a 5s; +5s; ack a", "deliver a #1; deliver a #2; deliver b #1");
    check("publish a/k b/k; lease 60s; drop; lease 60s; ack a", "deliver a #1; deliver a #2; deliver b #1");
    check("publish a/k b/k; lease 60s; nack a 5s; crash; lease 60s; +5s; ack a", "deliver a #1; deliver a #2; deliver b #1");
}

#[test]
fn fresh_and_redelivered_messages_alternate() {
    let seen = "deliver a #1; deliver b #1; deliver a #1; deliver c #1; deliver b #1; deliver d #1";
    check("publish a b; lease 60s; close; publish c d; lease 60s", seen);
}

#[test]
fn an_idempotency_key_is_remembered_for_its_window_and_across_a_crash() {
    check("publish a!i; publish b!i; +299s; crash; publish c!i; +1s; publish d!i; depth", "duplicate of a; duplicate of a; depth 2");
    check("publish a!i b!i; depth", "duplicate of a; depth 1");
}

#[test]
fn a_refused_publish_records_nothing() {
    let full = QueueOptions { max_messages: 1, ..QueueOptions::default() };
    check_with(full, "publish a; publish b!i; lease 9s; ack a; publish c!i", "full; deliver a #1; deliver c #1");
}

#[test]
fn keyed_publishes_are_refused_beyond_dedup_max_keys_until_the_window_has_passed() {
    let few = QueueOptions { dedup_max_keys: 1, ..QueueOptions::default() };
    check_with(few, "publish a!i; publish b!j; publish c; +300s; publish d!j; depth", "dedup full; depth 3");
}

#[test]
fn a_purge_ends_leases_retries_and_key_locks() {
    check(
        "publish a/k b/k c; lease 60s; nack c 5s; purge; publish d/k; ack a; +9s; depth",
        "deliver a #1; deliver c #1; deliver d #1; stale; depth 1",
    );
}

#[test]
fn a_message_is_dropped_after_max_deliveries_when_the_queue_says_so() {
    let drop = QueueOptions { max_deliveries: 2, on_failure: OnFailure::Drop, ..QueueOptions::default() };
    check_with(drop, "publish a; lease 60s; nack a 0s; nack a 0s; depth", "deliver a #1; deliver a #2; depth 0");
}

#[test]
fn a_pull_takes_what_is_ready_up_to_its_bound_and_its_leases_run_on() {
    check("publish a b c; pull 30s x2; ack a; ack b; depth", "deliver a #1; deliver b #1; depth 1");
    check("publish a; pull 30s x2; publish b; lease 30s; +30s; heard", "deliver a #1; deliver b #1; deliver a #2; deliver b #2");
    check("publish a/k b/k c; pull 30s x9; pull 30s x9; ack a; pull 30s x9", "deliver a #1; deliver c #1; deliver b #1");
}

#[test]
fn a_pull_that_waits_gets_what_comes_and_nothing_after_its_answer() {
    check("wait 30s x2; publish a b c; answer; publish d; ack a; depth", "deliver a #1; deliver b #1; depth 3");
    check("wait 30s x9; answer; publish a; pull 30s x9", "deliver a #1");
    check("wait 30s x9; drop; publish a", "");
}

#[test]
fn the_leases_of_a_pull_end_with_its_connection_unless_they_are_detached() {
    check("publish a b; pull 30s x2; drop; lease 30s", "deliver a #1; deliver b #1; deliver a #2; deliver b #1");
    check("publish a b; pull 30s x2; close; lease 30s", "deliver a #1; deliver b #1; deliver a #1; deliver b #1");
    check("publish a b; pull 30s x2 detached; drop; lease 30s; +30s; pull 9s", "deliver a #1; deliver b #1; deliver a #2; deliver b #2");
}

#[test]
fn anybody_settles_a_detached_lease_and_only_once() {
    check("publish a; pull 30s x1 detached; drop; lease 30s; ack a by 9; ack a by 9; depth", "deliver a #1; stale; depth 0");
    check("publish a; pull 30s x1; ack a by 9; depth", "deliver a #1; stale; depth 1");
}

#[test]
fn a_reader_gets_what_is_published_without_leases_and_holds_nothing_back() {
    check("publish a; tail x9; publish b; lease 9s; ack a; ack b; depth", "read b; deliver a #1; deliver b #1; depth 0");
    check("publish a b; read 0 x9; publish c", "read a; read b; read c");
    check("publish a; tail x9; drop; publish b", "");
}

#[test]
fn a_reader_gets_as_many_as_its_last_credit_says() {
    check("publish a b c d; read 0 x1; credit x2; credit x9", "read a; read b; read c; read d");
    check("publish a b; read 0 x1; credit x0; publish c; credit x9", "read a; read b; read c");
}

#[test]
fn a_reader_of_a_stream_is_told_what_retention_took_before_it() {
    let stream = || QueueOptions { mode: Mode::Stream, ..QueueOptions::default() };
    check_with(stream(), "publish a b c; read 0 x1; purge; publish d; credit x9", "read a; read d, 2 skipped");
    check_with(stream(), "publish a b; lease 9s; ack a; ack b; read 0 x9", "deliver a #1; deliver b #1; read a; read b");
    check("publish a b c; read 0 x1; purge; publish d; credit x9", "read a; read d");
}

#[test]
fn a_reader_ends_with_its_queue_and_not_with_a_group() {
    check("tail x9; delete g; publish a; delete", "read a; reader ended");
}

/// A queue on which the second delivery is the last one.
fn two_deliveries() -> QueueOptions {
    QueueOptions { max_deliveries: 2, on_failure: OnFailure::Drop, ..QueueOptions::default() }
}

#[test]
fn the_last_attempt_of_a_suspect_is_delivered_alone() {
    let seen = "deliver a #1; deliver b #1; deliver c #1; deliver a #2; deliver b #1; deliver c #1";
    check_with(two_deliveries(), "publish a b c; lease 30s; drop; lease 60s; ack a", seen);
    check_with(two_deliveries(), "publish a b; lease 30s x1; +30s; crash; +0s; lease 60s", "deliver a #1; deliver a #2");
}

#[test]
fn a_message_is_no_suspect_by_a_nack_nor_before_its_last_attempt_nor_when_it_is_retried_for_ever() {
    check_with(two_deliveries(), "publish a b; lease 60s; nack a 0s", "deliver a #1; deliver b #1; deliver a #2");
    check("publish a b; lease 30s x1; +30s; lease 60s", "deliver a #1; deliver a #2; deliver b #1");
    let forever = QueueOptions { max_deliveries: 2, on_failure: OnFailure::RetryForever, ..QueueOptions::default() };
    check_with(forever, "publish a b; lease 30s x1; +30s; lease 60s", "deliver a #1; deliver a #2; deliver b #1");
}

#[test]
fn a_consumer_is_kept_for_a_suspect_until_it_is_idle() {
    let steps = "publish a; lease 30s x1; publish b; lease 90s; +30s; publish c";
    let seen = "deliver a #1; deliver b #1";
    check_with(two_deliveries(), steps, seen);
    check_with(two_deliveries(), &format!("{steps}; ack b"), &format!("{seen}; deliver a #2"));
    check_with(two_deliveries(), &format!("{steps}; ack b; ack a"), &format!("{seen}; deliver a #2; deliver c #1"));
    // An idle one that comes meanwhile takes it, and the other one goes on.
    check_with(two_deliveries(), &format!("{steps}; lease 60s"), &format!("{seen}; deliver a #2; deliver c #1"));
}

#[test]
fn a_suspect_waits_for_an_idle_consumer_one_visibility_timeout_at_most() {
    let steps = "publish a; lease 30s x1; publish b; lease 90s; +30s; extend b 900s; publish c; +89s; +1s; ack a; depth";
    check_with(two_deliveries(), steps, "deliver a #1; deliver b #1; deliver a #2; deliver c #1; depth 2");
}

#[test]
fn one_suspect_at_a_time_is_alone_while_others_consume() {
    let seen = "deliver a #1; deliver b #1; deliver a #2; deliver c #1; deliver d #1; deliver b #2";
    check_with(two_deliveries(), "publish a b c d; lease 30s x2; +30s; lease 60s; lease 60s; ack a", seen);
}

#[test]
fn a_consumer_that_goes_or_pauses_is_kept_for_no_suspect() {
    let steps = "publish a; lease 30s x1; publish b; lease 90s; +30s; publish c; close; lease 60s; ack a";
    check_with(two_deliveries(), steps, "deliver a #1; deliver b #1; deliver a #2; deliver b #1; deliver c #1");
    let steps = "publish a; lease 30s x1; publish b; lease 90s; +30s; publish c; credit x0; ack b; credit x9; ack a";
    check_with(two_deliveries(), steps, "deliver a #1; deliver b #1; deliver a #2; deliver c #1");
    let steps = "publish a; lease 30s x1; publish b; lease 90s; +30s; publish c; purge; publish d";
    check_with(two_deliveries(), steps, "deliver a #1; deliver b #1; deliver d #1");
}

#[test]
fn a_pull_that_gets_a_suspect_gets_only_it() {
    let seen = "deliver a #1; deliver a #2; deliver b #1";
    check_with(two_deliveries(), "publish a b; lease 30s x1; +30s; pull 9s x9; pull 9s x9", seen);
    check_with(
        two_deliveries(),
        "publish a b; lease 30s x1; wait 9s x9; drop; +30s; wait 9s x9",
        "deliver a #1; deliver b #1; deliver a #2",
    );
}

fn check(steps: &str, seen: &str) {
    check_with(QueueOptions::default(), steps, seen);
}

fn check_with(options: QueueOptions, steps: &str, seen: &str) {
    let mut scenario = Scenario::new(options);
    for step in steps.split(';') {
        scenario.step(&step.split_whitespace().collect::<Vec<_>>());
        scenario.deliver();
        scenario.state.check_invariants();
        scenario.dispatch.check_invariants(&scenario.state);
    }
    assert_eq!(scenario.seen.join("; "), seen, "after: {steps}");
}

const QUEUE: QueueId = QueueId(0);

struct Scenario {
    now: Millis,
    state: State,
    dispatch: Dispatch,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    journal: Vec<(u8, Vec<u8>)>,
    /// Entries that the rows contain.
    in_rows: usize,
    sessions: u64,
    names: Vec<String>,
    leases: Vec<(Seq, SessionId, LeaseId)>,
    /// The newest consumer, pull or reader.
    newest: SubscriptionKey,
    seen: Vec<String>,
}

impl Scenario {
    fn new(options: QueueOptions) -> Scenario {
        let state = State::default();
        let dispatch = Dispatch::new(&state, 1);
        let (rows, journal, names, leases, seen) = (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let newest = SubscriptionKey { session: SessionId(0), number: 0 };
        let mut scenario =
            Scenario { now: 1_000_000, state, dispatch, rows, journal, in_rows: 0, sessions: 0, names, leases, newest, seen };
        scenario.commit(Body::Epoch { epoch: 1 });
        scenario.dispatch = Dispatch::new(&scenario.state, 1);
        scenario.commit(scenario.state.create_queue("q", options));
        scenario.commit(scenario.state.create_group(QUEUE, "g", 0));
        scenario
    }

    fn step(&mut self, words: &[&str]) {
        match words {
            ["publish", items @ ..] => self.publish(items),
            ["lease", timeout, more @ ..] => self.consume(millis(timeout), more),
            ["pull", timeout, more @ ..] => self.pull(millis(timeout), more),
            ["wait", timeout, more @ ..] => drop(self.open_pull(millis(timeout), more)),
            ["answer"] => assert!(self.dispatch.close_pull(self.newest), "the newest pull waits"),
            ["tail", credit] => self.read(self.state.queue(QUEUE).expect("created first").next_seq(), credit),
            ["read", from, credit] => self.read(from.parse().expect("a position"), credit),
            ["credit", credit] => assert!(self.dispatch.credit(self.newest, most(credit)), "the newest one is open"),
            ["delete"] => self.commit(Body::QueueDeleted { queue: QUEUE }),
            ["ack", lease, "by", session] => {
                let (_, id) = self.lease(lease);
                self.settle_as(SessionId(session.parse().expect("a session")), id, |dispatch, _, _, session, id| {
                    dispatch.ack(session, id).map(Some)
                });
            }
            ["ack", lease] => self.settle(lease, |dispatch, _, _, session, id| dispatch.ack(session, id).map(Some)),
            ["lost", "ack", lease] => {
                let (session, id) = self.lease(lease);
                self.dispatch.ack(session, id).expect("the lease runs");
            }
            ["nack", lease, delay @ ..] => {
                let delay = delay.first().map(|delay| millis(delay));
                self.settle(lease, |dispatch, state, now, session, id| dispatch.nack(state, now, session, id, delay, "").map(Some));
            }
            ["release", lease] => self.settle(lease, |dispatch, _, _, session, id| dispatch.release(session, id).map(|()| None)),
            ["extend", lease, by] => {
                let by = millis(by);
                self.settle(lease, |dispatch, _, now, session, id| dispatch.extend(now, session, id, by).map(|()| None));
            }
            ["heard"] => self.dispatch.heard(SessionId(self.sessions)),
            ["close"] => self.disconnect(true),
            ["drop"] => self.disconnect(false),
            ["group", name] => self.commit(self.state.create_group(QUEUE, name, 0)),
            ["delete", name] => self.commit(Body::GroupDeleted { queue: QUEUE, group: self.group(name).group }),
            ["purge"] => self.commit(Body::Floor { queue: QUEUE, to: Seq::MAX }),
            ["crash"] => self.crash(),
            ["depth"] => self.seen.push(format!("depth {}", self.state.queue(QUEUE).expect("created first").messages().count())),
            [time] if time.starts_with('+') => {
                self.now += millis(&time[1..]);
                let proposals = self.dispatch.tick(&self.state, self.now);
                proposals.into_iter().for_each(|proposal| self.propose(proposal));
            }
            _ => panic!("no step is called {words:?}"),
        }
    }

    fn publish(&mut self, items: &[&str]) {
        let mut payload = Vec::new();
        let mut pending = Pending::default();
        let mut writer = ItemWriter::begin_publish(&mut payload, self.now, QUEUE, items.len());
        for item in items {
            let (item, idempotency_key) = item.split_once('!').unwrap_or((item, ""));
            let (name, ordering_key) = item.split_once('/').unwrap_or((item, ""));
            let message = NewMessage { size: 10, idempotency_key };
            let mut id = MessageId([0; 16]);
            id.0[0] = name.as_bytes()[0];
            match self.state.queue(QUEUE).expect("created first").admit(&pending, self.now, &message) {
                Ok(Admission::New) => {
                    pending.add(QUEUE, &message, id);
                    let dedup = (!idempotency_key.is_empty()).then(|| (idempotency_key.to_owned(), id));
                    let head = ItemHead { size: 10, key: key_hash(ordering_key), due: 0, expires_at: 0, dedup };
                    writer.item(&mut payload, head, |out| out.extend_from_slice(name.as_bytes()));
                    self.names.push(name.to_owned());
                }
                Ok(Admission::Duplicate { id, .. } | Admission::DuplicateOfPending { id }) => {
                    self.seen.push(format!("duplicate of {}", char::from(id.0[0])));
                }
                Err(Rejection::QueueFull { .. }) => self.seen.push("full".to_owned()),
                Err(Rejection::DedupFull { .. }) => self.seen.push("dedup full".to_owned()),
                Err(other) => panic!("a publish is not refused with {other:?}"),
            }
        }
        if !writer.is_empty() {
            self.commit_payload(PUBLISH_KIND, payload);
        }
    }

    fn consume(&mut self, visibility_timeout_ms: u64, more: &[&str]) {
        let (mut messages, mut group) = (100, "g");
        for word in more {
            match word.strip_prefix('x').map(str::parse) {
                Some(Ok(most)) => messages = most,
                _ => group = word,
            }
        }
        if self.state.queue(QUEUE).expect("created first").group(group).is_none() {
            self.commit(self.state.create_group(QUEUE, group, 0));
        }
        let key = SubscriptionKey { session: self.new_session(), number: 1 };
        self.newest = key;
        let bounds = Bounds { messages, bytes: u64::MAX };
        let subscribe = Subscribe { group: self.group(group), bounds, concurrency: 1, visibility_timeout_ms };
        self.dispatch.subscribe(key, &subscribe).expect("the first of its connection");
    }

    fn new_session(&mut self) -> SessionId {
        self.sessions += 1;
        SessionId(self.sessions)
    }

    fn open_pull(&mut self, visibility_timeout_ms: u64, more: &[&str]) -> SubscriptionKey {
        let bounds = more.first().map_or(most("x100"), |bound| most(bound));
        let subscribe = Subscribe { group: self.group("g"), bounds, concurrency: 1, visibility_timeout_ms };
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

    fn group(&self, name: &str) -> GroupKey {
        GroupKey { queue: QUEUE, group: self.state.queue(QUEUE).and_then(|queue| queue.group(name)).expect("a group of the scenario").id }
    }

    fn deliver(&mut self) {
        while let Some(delivery) = self.dispatch.next_delivery(&self.state, self.now) {
            self.delivered(&delivery);
        }
        while let Some(reading) = self.dispatch.next_reading(&self.state) {
            let skipped = if reading.skipped == 0 { String::new() } else { format!(", {} skipped", reading.skipped) };
            self.seen.push(format!("read {}{skipped}", self.name(reading.seq)));
        }
        let ended = self.dispatch.take_ended_readers();
        self.seen.extend(ended.iter().map(|_| "reader ended".to_owned()));
    }

    fn delivered(&mut self, delivery: &Delivery) {
        self.seen.push(format!("deliver {} #{}", self.name(delivery.seq), delivery.attempt));
        self.leases.push((delivery.seq, delivery.subscription.session, delivery.lease_id));
    }

    fn name(&self, seq: Seq) -> &str {
        &self.names[usize::try_from(seq).expect("few messages")]
    }

    /// The lease of `a`, the newest, or `a@1`, the first.
    fn lease(&self, text: &str) -> (SessionId, LeaseId) {
        let (name, nth) = text.split_once('@').map_or((text, None), |(name, nth)| (name, Some(nth)));
        let seq = self.names.iter().position(|known| known == name).expect("a message of the scenario");
        let of: Vec<_> = self.leases.iter().filter(|(leased, ..)| usize::try_from(*leased) == Ok(seq)).collect();
        let index = nth.map_or(of.len(), |nth| nth.parse().expect("a number")) - 1;
        (of[index].1, of[index].2)
    }

    fn settle(
        &mut self,
        lease: &str,
        end: impl FnOnce(&mut Dispatch, &State, Millis, SessionId, LeaseId) -> Result<Option<Proposal>, Rejection>,
    ) {
        let (session, id) = self.lease(lease);
        self.settle_as(session, id, end);
    }

    fn settle_as(
        &mut self,
        session: SessionId,
        id: LeaseId,
        end: impl FnOnce(&mut Dispatch, &State, Millis, SessionId, LeaseId) -> Result<Option<Proposal>, Rejection>,
    ) {
        match end(&mut self.dispatch, &self.state, self.now, session, id) {
            Ok(Some(proposal)) => self.propose(proposal),
            Ok(None) => {}
            Err(Rejection::StaleLease { .. }) => self.seen.push("stale".to_owned()),
            Err(other) => panic!("a lease is not refused with {other:?}"),
        }
    }

    fn disconnect(&mut self, graceful: bool) {
        let proposals = self.dispatch.disconnect(&self.state, self.now, SessionId(self.sessions), graceful);
        proposals.into_iter().for_each(|proposal| self.propose(proposal));
    }

    fn propose(&mut self, proposal: Proposal) {
        self.commit(match proposal {
            Proposal::Settle { group, seq, .. } => Body::Settle(Settle { queue: group.queue, group: group.group, seqs: vec![seq] }),
            Proposal::AttemptEnded { group, ended } => {
                Body::AttemptEnded(AttemptEnded { queue: group.queue, group: group.group, ended: vec![ended] })
            }
            other => panic!("no scenario leads to {other:?}"),
        });
    }

    fn commit(&mut self, body: Body) {
        let mut payload = Vec::new();
        let kind = body.kind();
        Entry { now: self.now, body }.encode(&mut payload);
        self.commit_payload(kind, payload);
    }

    fn commit_payload(&mut self, kind: u8, payload: Vec<u8>) {
        let applied = self.state.apply(Entry::decode(kind, &payload).expect("just encoded"));
        self.journal.push((kind, payload));
        self.dispatch.applied(&self.state, self.now, &applied);
        // Every other entry is checkpointed, so that a crash finds both rows and entries behind them.
        if self.journal.len().is_multiple_of(2) {
            self.checkpoint();
        }
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
