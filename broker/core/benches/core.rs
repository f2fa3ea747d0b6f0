//! What a message costs in the core: admission, entry and apply; delivery, ack and settling. `cargo bench -p qwerq-core`.
//!
//! The figures leave out the journal and the sockets. They are per message: criterion's time divided by its elements.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use qwerq_core::dispatch::{Bounds, GroupKey, Subscribe};
use qwerq_core::entry::{ItemHead, ItemWriter, Publish, Settle};
use qwerq_core::{
    Admission, Body, Dispatch, Entry, GroupId, MessageId, NewMessage, Pending, Proposal, QueueId, QueueOptions, SessionId, State,
    SubscriptionKey,
};

const QUEUE: QueueId = QueueId(0);
const GROUP: GroupKey = GroupKey { queue: QUEUE, group: GroupId(0) };
/// Messages of one journal batch.
const BATCH: u64 = 256;
const MESSAGES: u64 = 64 * BATCH;
const NOW: u64 = 1_000_000;
const PAYLOAD: [u8; 256] = [7; 256];

/// How the messages differ from plain ones.
#[derive(Clone, Copy)]
struct Kind {
    /// Ordering keys in use; 0: none.
    keys: u64,
    is_idempotent: bool,
    groups: u32,
}

const PLAIN: Kind = Kind { keys: 0, is_idempotent: false, groups: 1 };

fn empty(groups: u32) -> State {
    let mut state = State::default();
    let apply = |state: &mut State, body| {
        state.apply(Entry { now: NOW, body });
    };
    let body = state.create_queue("orders", QueueOptions::default());
    apply(&mut state, body);
    for name in 0..groups {
        let body = state.create_group(QUEUE, &format!("group-{name}"), 0);
        apply(&mut state, body);
    }
    state
}

/// Admits, writes and applies all messages, as the shell does for one batch after the other.
fn publish(state: &mut State, dispatch: &mut Dispatch, buffer: &mut Vec<u8>, kind: Kind) {
    let mut pending = Pending::default();
    for batch in 0..MESSAGES / BATCH {
        buffer.clear();
        pending.clear();
        let mut writer = ItemWriter::begin_publish(buffer, NOW, QUEUE, usize::try_from(BATCH).expect("small"));
        for number in batch * BATCH..(batch + 1) * BATCH {
            let idempotency_key = if kind.is_idempotent { number.to_string() } else { String::new() };
            let message = NewMessage { size: PAYLOAD.len() as u64, idempotency_key: &idempotency_key };
            let admitted = state.queue(QUEUE).expect("created").admit(&pending, NOW, &message);
            assert_eq!(admitted, Ok(Admission::New));
            let id = MessageId([1; 16]);
            pending.add(QUEUE, &message, id);
            let key = if kind.keys == 0 { 0 } else { 1 + number % kind.keys };
            let dedup = kind.is_idempotent.then_some((idempotency_key, id));
            let head = ItemHead { size: 256, key, dedup, ..ItemHead::default() };
            writer.item(buffer, head, |out| out.extend_from_slice(&PAYLOAD));
        }
        let applied = state.apply(Entry { now: NOW, body: Body::Publish(Publish { queue: QUEUE, items: writer.finish() }) });
        dispatch.applied(state, NOW, &applied);
    }
}

/// Delivers, acks and settles all messages of the first group.
fn consume(state: &mut State, dispatch: &mut Dispatch) {
    let session = SessionId(1);
    let mut leases = Vec::new();
    let mut left = MESSAGES;
    while left > 0 {
        while let Some(delivery) = dispatch.next_delivery(state, NOW) {
            leases.push(delivery.lease_id);
        }
        assert!(!leases.is_empty(), "everything is delivered");
        left -= leases.len() as u64;
        let seqs = leases.drain(..).map(|id| match dispatch.ack(session, id) {
            Ok(Proposal::Settle { seq, .. }) => seq,
            other => panic!("an ack settles, and this one gives {other:?}"),
        });
        let settle = Settle { queue: QUEUE, group: GROUP.group, seqs: seqs.collect() };
        let applied = state.apply(Entry { now: NOW, body: Body::Settle(settle) });
        dispatch.applied(state, NOW, &applied);
    }
}

fn subscribed(state: &State) -> Dispatch {
    let mut dispatch = Dispatch::new(state, 1);
    let key = SubscriptionKey { session: SessionId(1), number: 1 };
    let bounds = Bounds { messages: 1_024, bytes: u64::MAX };
    let subscribe = Subscribe { group: GROUP, bounds, concurrency: 1, visibility_timeout_ms: 30_000 };
    dispatch.subscribe(key, &subscribe).expect("the first subscription");
    dispatch
}

fn bench(criterion: &mut Criterion) {
    let kinds = [
        ("plain", PLAIN),
        ("1000 ordering keys", Kind { keys: 1_000, ..PLAIN }),
        ("idempotency keys", Kind { is_idempotent: true, ..PLAIN }),
        ("3 groups", Kind { groups: 3, ..PLAIN }),
        ("10 groups", Kind { groups: 10, ..PLAIN }),
        ("a key for every message", Kind { keys: MESSAGES, ..PLAIN }),
    ];
    let mut group = criterion.benchmark_group("admit, write, apply");
    group.throughput(Throughput::Elements(MESSAGES));
    for (name, kind) in kinds {
        let mut buffer = Vec::new();
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || {
                    let state = empty(kind.groups);
                    let dispatch = Dispatch::new(&state, 1);
                    (state, dispatch)
                },
                |(state, dispatch)| publish(state, dispatch, &mut buffer, kind),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("deliver, ack, settle");
    group.throughput(Throughput::Elements(MESSAGES));
    for (name, kind) in kinds {
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || {
                    let mut state = empty(kind.groups);
                    let mut dispatch = subscribed(&state);
                    publish(&mut state, &mut dispatch, &mut Vec::new(), kind);
                    (state, dispatch)
                },
                |(state, dispatch)| consume(state, dispatch),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
