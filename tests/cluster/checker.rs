//! [`Load`]: publishers and consumers that go on whatever happens, and the books that say whether the cluster kept its word.
//!
//! Each publisher has an ordering key of its own and publishes numbers, the next one when the last is acknowledged; one whose outcome it
//! does not know it publishes again, with the same idempotency key. What must hold: nothing acknowledged is lost, numbers of a key are
//! delivered in order, none is stored twice, and none comes back after its ack was confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};

use crate::session::{Ended, Session};

const QUEUE: &str = "orders";
const CONSUMERS: u64 = 2;
const PUBLISHERS: u64 = 4;

/// A publisher and its number.
type Message = (u64, u64);

#[derive(Default)]
struct Books {
    acknowledged: BTreeSet<Message>,
    delivered: BTreeSet<Message>,
    /// Acked, and the ack confirmed.
    settled: BTreeSet<Message>,
    /// The broker's id of each message.
    ids: BTreeMap<Message, Vec<u8>>,
    violations: Vec<String>,
    /// The longest time between two acknowledgements.
    gap: Duration,
    last: Option<Instant>,
}

/// Load on a cluster.
pub(crate) struct Load {
    shared: Arc<Shared>,
    publishers: Vec<JoinHandle<()>>,
    consumers: Vec<JoinHandle<()>>,
}

struct Shared {
    nodes: Mutex<Vec<SocketAddr>>,
    books: Mutex<Books>,
    acknowledged: AtomicU64,
    enough: AtomicBool,
    done: AtomicBool,
}

impl Shared {
    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.books.lock().expect("no panic")
    }

    /// A session with whoever leads. `None`: nobody is asked any more.
    fn session(&self, stop: &AtomicBool) -> Option<Session> {
        const PAUSE: Duration = Duration::from_millis(20);
        loop {
            let nodes = self.nodes.lock().expect("no panic").clone();
            for address in nodes {
                if let Ok(session) = Session::open(address, &[]) {
                    return Some(session);
                }
            }
            if stop.load(Ordering::Acquire) {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn publish(&self, publisher: u64) {
        let mut number = 0;
        while !self.enough.load(Ordering::Acquire) {
            let Some(mut session) = self.session(&self.enough) else { return };
            loop {
                if self.enough.load(Ordering::Acquire) {
                    return;
                }
                let item = wire::PublishItem {
                    payload: Bytes::from(format!("{publisher} {number}")),
                    ordering_key: publisher.to_string(),
                    idempotency_key: format!("{publisher}-{number}"),
                    ..wire::PublishItem::default()
                };
                match session.publish(QUEUE, item) {
                    Ok(_) => {
                        let mut books = self.books();
                        let now = Instant::now();
                        let since = books.last.replace(now).map_or(Duration::ZERO, |last| now - last);
                        books.gap = books.gap.max(since);
                        books.acknowledged.insert((publisher, number));
                        number += 1;
                        self.acknowledged.fetch_add(1, Ordering::AcqRel);
                    }
                    Err(Ended::Error(error)) if error.code / 1_000 == 2 => break,
                    Err(Ended::Error(error)) => panic!("a publish is refused: {error:?}"),
                    Err(Ended::Gone) => break,
                }
            }
        }
    }

    fn consume(&self) {
        while let Some(mut session) = self.session(&self.done) {
            let consume = wire::Consume { queue: QUEUE.to_owned(), subscription: 1, prefetch: 8, ..wire::Consume::default() };
            if session.send(Opcode::Consume, &consume).is_err() {
                continue;
            }
            let mut acking = std::collections::VecDeque::new();
            while let Ok(frame) = session.next() {
                match Opcode::from_u8(frame.opcode) {
                    Some(Opcode::Message) => {
                        let deliver: wire::Deliver = prost::Message::decode(frame.payload).expect("a MESSAGE");
                        for delivered in deliver.messages {
                            let message = self.note_delivery(&delivered);
                            acking.push_back(message);
                            let settle = wire::Settle { lease_ids: vec![delivered.lease_id], confirm: true, ..wire::Settle::default() };
                            // If that is not taken, neither is the next.
                            let _ = session.send(Opcode::Ack, &settle);
                        }
                    }
                    Some(Opcode::Settled) => {
                        let settled: wire::Settled = prost::Message::decode(frame.payload).expect("a SETTLED");
                        let message = acking.pop_front().expect("a SETTLED answers an ACK");
                        if settled.settled == 1 {
                            self.books().settled.insert(message);
                        }
                    }
                    Some(Opcode::ConsumeAck) => {}
                    other => panic!("{other:?} is not expected"),
                }
                if self.done.load(Ordering::Acquire) {
                    return;
                }
            }
        }
    }

    fn note_delivery(&self, delivered: &wire::Delivered) -> Message {
        let text = std::str::from_utf8(&delivered.payload).expect("a payload comes back as it was");
        let (publisher, number) = text.split_once(' ').expect("two numbers");
        let message: Message = (publisher.parse().expect("a number"), number.parse().expect("a number"));
        let mut books = self.books();
        let mut violations = Vec::new();
        if books.settled.contains(&message) {
            violations.push(format!("{message:?} came back after its ack was confirmed"));
        }
        if message.1 > 0 && !books.delivered.contains(&(message.0, message.1 - 1)) {
            violations.push(format!("{message:?} was delivered before the number before it"));
        }
        let id = books.ids.entry(message).or_insert_with(|| delivered.id.to_vec());
        if *id != delivered.id {
            violations.push(format!("{message:?} was stored twice"));
        }
        books.violations.extend(violations);
        books.delivered.insert(message);
        message
    }
}

impl Load {
    /// Begins, on these nodes.
    pub(crate) fn begin(nodes: Vec<SocketAddr>) -> Load {
        let shared = Arc::new(Shared {
            nodes: Mutex::new(nodes),
            books: Mutex::default(),
            acknowledged: AtomicU64::new(0),
            enough: AtomicBool::new(false),
            done: AtomicBool::new(false),
        });
        let spawn = |work: fn(&Shared, u64), number| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || work(&shared, number))
        };
        let publishers = (0..PUBLISHERS).map(|number| spawn(Shared::publish, number)).collect();
        let consumers = (0..CONSUMERS).map(|number| spawn(|shared, _| shared.consume(), number)).collect();
        Load { shared, publishers, consumers }
    }

    /// Where nodes are reached now.
    pub(crate) fn nodes(&self, nodes: Vec<SocketAddr>) {
        *self.shared.nodes.lock().expect("no panic") = nodes;
    }

    /// How many publishes were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Acquire)
    }

    /// Waits until so many more publishes were acknowledged.
    pub(crate) fn go_on_for(&self, more: u64) {
        const LOOK_AGAIN: Duration = Duration::from_millis(10);
        const LOOKS: u32 = 12_000;
        let until = self.shared.acknowledged.load(Ordering::Acquire) + more;
        for _ in 0..LOOKS {
            if self.shared.acknowledged.load(Ordering::Acquire) >= until {
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        panic!("publishes are not acknowledged any more");
    }

    /// Ends the publishers, has the consumers take the rest, and says whether the cluster kept its word. Returns the longest gap between two
    /// acknowledgements.
    pub(crate) fn check(self) -> Duration {
        self.shared.enough.store(true, Ordering::Release);
        for publisher in self.publishers {
            publisher.join().expect("no panic");
        }
        let missing = || -> Vec<Message> {
            let books = self.shared.books();
            books.acknowledged.difference(&books.delivered).copied().collect()
        };
        const LOOK_AGAIN: Duration = Duration::from_millis(10);
        const LOOKS: u32 = 3_000;
        let mut looks = 0;
        while !missing().is_empty() && looks < LOOKS {
            looks += 1;
            std::thread::sleep(LOOK_AGAIN);
        }
        let missing = missing();
        assert!(missing.is_empty(), "acknowledged and never delivered: {missing:?}");
        self.shared.done.store(true, Ordering::Release);
        for consumer in self.consumers {
            consumer.join().expect("no panic");
        }
        let books = self.shared.books();
        assert!(books.violations.is_empty(), "{:#?}", books.violations);
        books.gap
    }
}
