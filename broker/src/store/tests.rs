//! The store as the shard sees it: checkpoints go in, the same comes out, whatever happens
//! between.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;

use super::*;

/// A journal in memory.
#[derive(Default)]
struct Segment(Vec<u8>);

impl Segment {
    fn append(&mut self, payload: &[u8]) -> Location {
        let offset = u32::try_from(self.0.len()).unwrap();
        self.0.extend_from_slice(payload);
        Location { segment: 1, offset, len: u32::try_from(payload.len()).unwrap() }
    }
}

impl Payloads for Segment {
    fn read(&self, location: Location, out: &mut Vec<u8>) -> io::Result<()> {
        let start = location.offset as usize;
        out.clear();
        out.extend_from_slice(&self.0[start..start + location.len as usize]);
        Ok(())
    }
}

fn live(queue: u32, number: u64) -> MessageKey {
    MessageKey { queue, space: MessageKey::LIVE, number }
}

/// A payload that tells which message it belongs to.
fn payload(key: MessageKey, bytes: usize) -> Vec<u8> {
    let mut text = format!("{key};").into_bytes();
    text.resize(bytes.max(text.len()), b'.');
    text
}

fn run(segment: &mut Segment, first: MessageKey, sizes: &[usize]) -> MessageRun {
    let numbers = first.number..;
    let locations = numbers.zip(sizes).map(|(number, bytes)| match bytes {
        0 => Location::GAP,
        bytes => segment.append(&payload(first.at(number), *bytes)),
    });
    MessageRun { first, locations: locations.collect() }
}

fn removed(queue: u32, numbers: Range<u64>) -> RemovedRun {
    RemovedRun { queue, space: MessageKey::LIVE, numbers }
}

fn put(key: &str, value: &str) -> RowChange {
    RowChange::Put { key: key.into(), value: value.into() }
}

fn applied(index: u64) -> Applied {
    Applied { term: 3, index, crc: 0xabcd }
}

fn open(dir: &Path) -> Store {
    Store::open(dir, StoreOptions::default()).unwrap()
}

fn rows_of(store: &Store) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    store
        .load(|key, value| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
            rows.push((text(key)?, text(value)?));
            Ok::<_, std::string::FromUtf8Error>(())
        })
        .unwrap();
    rows
}

/// Every message, by a snapshot in small chunks.
fn messages(store: &Store) -> BTreeMap<MessageKey, Vec<u8>> {
    let snapshot = store.snapshot().unwrap();
    let mut all = BTreeMap::new();
    let mut from = Some(MessageKey { queue: 0, space: 0, number: 0 });
    while let Some(key) = from {
        from = snapshot
            .messages(key, 1000, &mut |key, bytes| {
                assert_eq!(all.insert(key, bytes.to_vec()), None, "{key} is given once");
            })
            .unwrap();
    }
    all
}

fn numbers(store: &Store, queue: u32) -> Vec<u64> {
    let all = messages(store);
    all.keys().filter(|key| key.queue == queue).map(|key| key.number).collect()
}

#[test]
fn an_empty_directory_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert_eq!(store.applied().unwrap(), Applied::default());
    assert!(rows_of(&store).is_empty() && messages(&store).is_empty());
    let bytes: u64 = std::fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < 256 * 1024, "{bytes} bytes, by apparent size");
}

#[test]
fn a_checkpoint_survives_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let mut segment = Segment::default();
    let store = open(dir.path());
    let id = store.store_id();
    let delayed = MessageKey { queue: 1, space: MessageKey::DELAYED, number: 4 };
    let checkpoint = Checkpoint {
        rows: vec![put("b", "2"), put("a", "1")],
        messages: vec![
            run(&mut segment, live(2, 100), &[300; 500]),
            run(&mut segment, live(1, 7), &[20, 0, 70_000, 30]),
            run(&mut segment, delayed, &[40]),
        ],
        applied: applied(9),
        ..Checkpoint::default()
    };
    let done = store.checkpoint(checkpoint, &segment).unwrap();
    assert_eq!((done.messages, done.commits, done.applied), (504, 1, applied(9)));
    drop(store);

    let store = open(dir.path());
    assert_eq!((store.store_id(), store.applied().unwrap()), (id, applied(9)));
    assert_eq!(rows_of(&store), [("a", "1"), ("b", "2")].map(|(k, v)| (k.into(), v.into())));
    let mut expected = BTreeMap::new();
    expected.extend((100..600).map(|number| (live(2, number), payload(live(2, number), 300))));
    for (key, bytes) in [(live(1, 7), 20), (live(1, 9), 70_000), (live(1, 10), 30), (delayed, 40)] {
        expected.insert(key, payload(key, bytes));
    }
    assert_eq!(messages(&store), expected);
    let reader = store.reader();
    for (key, bytes) in &expected {
        assert_eq!(reader.read(*key).unwrap().as_ref(), Some(bytes), "{key}");
    }
    for absent in [live(1, 6), live(1, 8), live(1, 11), live(2, 99), live(2, 600), live(3, 1)] {
        assert_eq!(reader.read(absent).unwrap(), None, "{absent}");
    }
}

#[test]
fn rows_change_in_the_order_given() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let change = |rows| {
        let checkpoint = Checkpoint { rows, ..Checkpoint::default() };
        store.checkpoint(checkpoint, &Segment::default()).unwrap();
        rows_of(&store).into_iter().map(|(key, _)| key).collect::<Vec<_>>().join(" ")
    };
    let delete = |key: &str| RowChange::Delete { key: key.into() };
    let delete_prefix = |prefix: &[u8]| RowChange::DeletePrefix { prefix: prefix.into() };
    assert_eq!(change(vec![put("a1", ""), put("a2", ""), put("b", ""), put("a", "")]), "a a1 a2 b");
    assert_eq!(change(vec![delete("a1"), delete("not there")]), "a a2 b");
    assert_eq!(change(vec![delete_prefix(b"a"), put("a3", "")]), "a3 b");
    assert_eq!(change(vec![put("a4", ""), delete_prefix(b"a3"), delete_prefix(b"\xff")]), "a4 b");
    assert_eq!(change(vec![delete_prefix(b"")]), "");
}

#[test]
fn removed_messages_are_gone_and_their_neighbours_stay() {
    for (name, ranges, left) in [
        ("nothing", vec![], (0..1000).collect::<Vec<_>>()),
        ("the first", vec![(0, 1)], (1..1000).collect()),
        ("some in a block", vec![(10, 12), (14, 15)], { (0..10).chain(12..14).chain(15..1000).collect() }),
        ("across blocks", vec![(50, 900)], (0..50).chain(900..1000).collect()),
        ("overlapping, out of order", vec![(300, 400), (100, 350), (120, 130)], { (0..100).chain(400..1000).collect() }),
        ("most of a block", vec![(1, 80)], [0].into_iter().chain(80..1000).collect()),
        ("all but one", vec![(0, 500), (501, 5000)], vec![500]),
        ("all", vec![(0, u64::MAX)], vec![]),
        ("what is not there", vec![(1000, 2000)], (0..1000).collect()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut segment = Segment::default();
        let store = open(dir.path());
        let around = [run(&mut segment, live(1, 0), &[300; 9]), run(&mut segment, live(3, 0), &[9])];
        let messages = [run(&mut segment, live(2, 0), &[300; 1000])];
        let messages = messages.into_iter().chain(around).collect();
        store.checkpoint(Checkpoint { messages, ..Checkpoint::default() }, &segment).unwrap();
        // At once, and one checkpoint per range.
        let batch: Vec<_> = ranges.iter().map(|&(from, to)| removed(2, from..to)).collect();
        let (one, rest) = batch.split_at(batch.len().min(1));
        for removed in [one, rest, &batch] {
            let removed = removed.to_vec();
            store.checkpoint(Checkpoint { removed, ..Checkpoint::default() }, &segment).unwrap();
        }
        assert_eq!(numbers(&store, 2), left, "{name}");
        assert_eq!((numbers(&store, 1).len(), numbers(&store, 3).len()), (9, 1), "{name}");
        let reader = store.reader();
        for number in (0..1000).step_by(7) {
            let expected = left.binary_search(&number).is_ok();
            let there = reader.read(live(2, number)).unwrap();
            assert_eq!(there, expected.then(|| payload(live(2, number), 300)), "{name}: {number}");
        }
        let used = store.room().unwrap().map_used;
        let most = u64::try_from(left.len() * 400 + 200_000).unwrap();
        assert!(used < most, "{name}: {used} bytes are in use");
    }
}

#[test]
fn a_dropped_queue_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut segment = Segment::default();
    let store = open(dir.path());
    let messages = (1..=3).map(|queue| run(&mut segment, live(queue, 0), &[300; 300])).collect();
    let removed = vec![removed(2, 3..5)];
    let checkpoint = Checkpoint { messages, removed, ..Checkpoint::default() };
    store.checkpoint(checkpoint, &segment).unwrap();
    let before = store.room().unwrap().map_used;
    let checkpoint = Checkpoint { dropped_queues: vec![2, 77], ..Checkpoint::default() };
    store.checkpoint(checkpoint, &segment).unwrap();
    let counts = [1, 2, 3].map(|queue| numbers(&store, queue).len());
    assert_eq!(counts, [300, 0, 300]);
    assert!(store.room().unwrap().map_used < before - 300 * 300);
}

#[test]
fn reads_go_on_where_they_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut segment = Segment::default();
    let store = open(dir.path());
    let messages = vec![run(&mut segment, live(1, 0), &[100; 400]), run(&mut segment, live(2, 0), &[9])];
    store.checkpoint(Checkpoint { messages, ..Checkpoint::default() }, &segment).unwrap();
    let reader = store.reader();
    let read = |from, bytes_max| {
        let mut numbers = Vec::new();
        let next = reader.read_many(live(1, from), bytes_max, &mut |number, bytes| {
            assert_eq!(bytes, payload(live(1, number), 100));
            numbers.push(number);
        });
        (numbers.first().copied(), numbers.len(), next.unwrap())
    };
    assert_eq!(read(0, 1), (Some(0), 1, Some(1)));
    assert_eq!(read(5, 1000), (Some(5), 10, Some(15)));
    assert_eq!(read(395, 1000), (Some(395), 5, None));
    assert_eq!(read(400, 1000), (None, 0, None));
    assert_eq!(read(0, usize::MAX), (Some(0), 400, None));
}

#[test]
fn a_reader_and_a_snapshot_work_while_checkpoints_run() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { chunk_bytes: 64 * 1024, ..StoreOptions::default() };
    let store = Store::open(dir.path(), options).unwrap();
    let mut segment = Segment::default();
    let first = vec![run(&mut segment, live(1, 0), &[300; 1000])];
    let checkpoint = Checkpoint { messages: first, applied: applied(1), ..Checkpoint::default() };
    store.checkpoint(checkpoint, &segment).unwrap();
    let snapshot = store.snapshot().unwrap();
    let reader = store.reader();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for round in 1..=10u64 {
                let messages = vec![run(&mut segment, live(2, round * 1000), &[300; 1000])];
                let removed = vec![removed(2, 0..round * 1000 - 500)];
                let applied = applied(1 + round);
                let checkpoint = Checkpoint { messages, removed, applied, ..Checkpoint::default() };
                store.checkpoint(checkpoint, &segment).unwrap();
            }
        });
        while !writing.is_finished() {
            for number in (0..1000).step_by(100) {
                let key = live(1, number);
                assert_eq!(reader.read(key).unwrap(), Some(payload(key, 300)));
            }
            reader.read_many(live(2, 0), usize::MAX, &mut |_, _| {}).unwrap();
        }
    });
    assert_eq!(snapshot.applied().unwrap(), applied(1));
    let mut count = 0;
    snapshot.messages(live(0, 0), usize::MAX, &mut |key, _| count += u32::from(key.queue == 1)).unwrap();
    assert_eq!(count, 1000);
    assert_eq!(numbers(&store, 2), (9500..11_000).collect::<Vec<_>>());
}

#[test]
fn a_checkpoint_that_ends_early_leaves_nothing() {
    /// Fails at the second segment.
    struct Broken(Segment);
    impl Payloads for Broken {
        fn read(&self, location: Location, out: &mut Vec<u8>) -> io::Result<()> {
            match location.segment {
                1 => self.0.read(location, out),
                _ => Err(io::Error::other("the segment is gone")),
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { chunk_bytes: 64 * 1024, ..StoreOptions::default() };
    let mut segment = Segment::default();
    let store = Store::open(dir.path(), options).unwrap();
    let kept = vec![run(&mut segment, live(1, 0), &[300; 10])];
    let checkpoint = Checkpoint { messages: kept, applied: applied(1), ..Checkpoint::default() };
    store.checkpoint(checkpoint, &segment).unwrap();

    let mut doomed = run(&mut segment, live(1, 10), &[300; 1000]);
    doomed.locations.push(Location { segment: 2, offset: 0, len: 9 });
    let broken = Broken(segment);
    let fail = |store: &Store| {
        let (messages, rows) = (vec![doomed.clone()], vec![put("a", "1")]);
        let checkpoint = Checkpoint { messages, rows, applied: applied(2), ..Checkpoint::default() };
        let error = store.checkpoint(checkpoint, &broken).unwrap_err();
        assert!(error.to_string().contains("journal segment 2: the segment is gone"), "{error}");
        assert_eq!((store.applied().unwrap(), rows_of(store)), (applied(1), vec![]));
        assert!(numbers(store, 1).len() > 10, "the failure came after a commit");
    };
    fail(&store);
    drop(store);
    let store = Store::open(dir.path(), options).unwrap();
    assert_eq!(numbers(&store, 1), (0..10).collect::<Vec<_>>(), "a start removes it");
    fail(&store);
    store.checkpoint(Checkpoint::default(), &broken).unwrap();
    assert_eq!(numbers(&store, 1), (0..10).collect::<Vec<_>>(), "and so does a checkpoint");
}

#[test]
fn a_flipped_byte_is_detected_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut segment = Segment::default();
    let store = open(dir.path());
    let messages = vec![run(&mut segment, live(7, 0), &[300; 200])];
    let rows = vec![put("some key", "a value to be found")];
    let checkpoint = Checkpoint { messages, rows, applied: applied(1), ..Checkpoint::default() };
    store.checkpoint(checkpoint, &segment).unwrap();
    drop(store);
    let flip = |text: &str| {
        let path = dir.path().join("data.mdb");
        let mut bytes = std::fs::read(&path).unwrap();
        let found: Vec<_> = bytes.windows(text.len()).enumerate().filter(|(_, w)| *w == text.as_bytes()).collect();
        assert!(!found.is_empty());
        for at in found.into_iter().map(|(at, _)| at).collect::<Vec<_>>() {
            bytes[at + 3] ^= 0x10;
        }
        std::fs::write(path, bytes).unwrap();
    };
    flip("message 150 of queue 7;");
    let store = open(dir.path());
    let reader = store.reader();
    let error = reader.read(live(7, 150)).unwrap_err().to_string();
    assert!(error.starts_with("message 150 of queue 7 is corrupt"), "{error}");
    assert!(reader.read(live(7, 149)).unwrap().is_some());
    let error = reader.read_many(live(7, 0), usize::MAX, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.starts_with("message 150 of queue 7 is corrupt"), "{error}");
    drop((store, reader));
    flip("a value to be found");
    let store = open(dir.path());
    let error = store.load(|_, _| Ok::<_, String>(())).unwrap_err().to_string();
    assert!(error.starts_with("the row 0x736f6d65206b6579 is corrupt in the store's table rows"), "{error}");
}

#[test]
fn a_row_that_the_core_cannot_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let checkpoint = Checkpoint { rows: vec![put("k", "v")], ..Checkpoint::default() };
    store.checkpoint(checkpoint, &Segment::default()).unwrap();
    let error = store.load(|_, _| Err("queue 5 is unknown")).unwrap_err();
    assert_eq!(error.to_string(), "the row 0x6b of the store cannot be read: queue 5 is unknown");
}

#[test]
fn a_directory_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let reader = store.reader();
    drop(store);
    let error = Store::open(dir.path(), StoreOptions::default()).unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    drop(reader);
    open(dir.path());
}

#[test]
fn a_newer_format_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut txn = store.environment.write().unwrap();
    store.environment.put_format(&mut txn, environment::FORMAT + 1).unwrap();
    txn.commit().unwrap();
    drop(store);
    let error = Store::open(dir.path(), StoreOptions::default()).unwrap_err().to_string();
    let (found, known) = (environment::FORMAT + 1, environment::FORMAT);
    let expected = format!("has format {found}, this program knows up to {known}");
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn a_full_map_is_named_and_the_store_stays_usable() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { map_bytes: 1 << 20, chunk_bytes: 64 * 1024 };
    let store = Store::open(dir.path(), options).unwrap();
    assert!(!store.room().unwrap().is_low());
    let mut segment = Segment::default();
    let mut first = 0;
    while !store.room().unwrap().is_low() {
        let messages = vec![run(&mut segment, live(1, first), &[1000; 100])];
        store.checkpoint(Checkpoint { messages, ..Checkpoint::default() }, &segment).unwrap();
        first += 100;
    }
    let messages = vec![run(&mut segment, live(1, first), &[1000; 1000])];
    let error = store.checkpoint(Checkpoint { messages, ..Checkpoint::default() }, &segment);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the map is full"), "{error}");
    drop(store);
    let store = Store::open(dir.path(), options).unwrap();
    let removed = vec![removed(1, 0..first)];
    store.checkpoint(Checkpoint { removed, ..Checkpoint::default() }, &segment).unwrap();
    assert!(!store.room().unwrap().is_low());
    assert!(numbers(&store, 1).is_empty());
}

#[test]
fn the_checkpointer_takes_one_at_a_time_and_reports() {
    use std::sync::{Arc, Mutex, mpsc};
    /// Reads only after it was told to.
    struct Gate(Segment, Mutex<mpsc::Receiver<()>>);
    impl Payloads for Gate {
        fn read(&self, location: Location, out: &mut Vec<u8>) -> io::Result<()> {
            self.1.lock().unwrap().recv().map_err(io::Error::other)?;
            self.0.read(location, out)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(open(dir.path()));
    let mut segment = Segment::default();
    let runs: Vec<_> = (0..3).map(|n| run(&mut segment, live(1, n), &[50])).collect();
    let (open_gate, gate) = mpsc::channel();
    let checkpointer = Checkpointer::start(Arc::clone(&store), Gate(segment, Mutex::new(gate)));
    let checkpointer = checkpointer.unwrap();
    let (done, results) = mpsc::channel();
    let mut refused = 0;
    for (index, messages) in (1..).zip(runs) {
        let checkpoint = || {
            let messages = vec![messages.clone()];
            Checkpoint { messages, applied: applied(index), ..Checkpoint::default() }
        };
        loop {
            let done = done.clone();
            let when_done = Box::new(move |result| done.send(result).unwrap());
            match checkpointer.submit(checkpoint(), when_done) {
                Ok(()) => break,
                Err(CheckpointPending(back)) => {
                    assert_eq!(*back, checkpoint());
                    refused += 1;
                    open_gate.send(()).unwrap();
                    results.recv().unwrap().unwrap();
                }
            }
        }
    }
    assert!(refused > 0, "the gate is closed: one runs at most, and one waits");
    for _ in 0..3 {
        open_gate.send(()).unwrap();
    }
    drop(done);
    let last = results.iter().last().unwrap().unwrap();
    drop(checkpointer);
    assert_eq!((last.applied, store.applied().unwrap()), (applied(3), applied(3)));
    assert_eq!(numbers(&store, 1), [0, 1, 2]);
}

#[test]
fn a_checkpoint_that_is_abandoned_leaves_nothing_behind() {
    use std::sync::{Arc, Mutex, mpsc};
    /// Says that it reads, and goes on when it is told to.
    struct Gate(Segment, mpsc::Sender<()>, Mutex<mpsc::Receiver<()>>);
    impl Payloads for Gate {
        fn read(&self, location: Location, out: &mut Vec<u8>) -> io::Result<()> {
            self.1.send(()).map_err(io::Error::other)?;
            self.2.lock().unwrap().recv().map_err(io::Error::other)?;
            self.0.read(location, out)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { chunk_bytes: 1 << 14, ..StoreOptions::default() };
    let store = Arc::new(Store::open(dir.path(), options).unwrap());
    let mut segment = Segment::default();
    // More than is read at once, and more than one transaction.
    let messages = vec![run(&mut segment, live(1, 0), &[200_000, 200_000, 200_000])];
    let checkpoint = Checkpoint { messages, applied: applied(1), ..Checkpoint::default() };
    let ((reading, reads), (go, gone)) = (mpsc::channel(), mpsc::channel());
    let gate = Gate(Segment(segment.0.clone()), reading, Mutex::new(gone));
    let checkpointer = Checkpointer::start(Arc::clone(&store), gate).unwrap();
    let (done, results) = mpsc::channel();
    checkpointer.submit(checkpoint.clone(), Box::new(move |result| done.send(result).unwrap())).unwrap();
    reads.recv().unwrap();
    checkpointer.abandon();
    go.send(()).unwrap();
    assert!(results.recv().unwrap().is_err());
    assert!(reads.try_recv().is_err(), "it is not read to its end");
    drop(checkpointer);
    assert_eq!(store.applied().unwrap(), Applied::default());
    // The same checkpoint after the next start.
    drop(store);
    let store = Store::open(dir.path(), options).unwrap();
    assert_eq!(numbers(&store, 1), [] as [u64; 0]);
    store.checkpoint(checkpoint, &segment).unwrap();
    assert_eq!(numbers(&store, 1), [0, 1, 2]);
}

#[test]
fn any_sequence_of_checkpoints_gives_what_a_map_gives() {
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};
    for seed in 0..10 {
        let mut random = StdRng::seed_from_u64(seed);
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { chunk_bytes: 1 << random.random_range(14..20), ..StoreOptions::default() };
        let mut store = Store::open(dir.path(), options).unwrap();
        let mut model: BTreeMap<MessageKey, Vec<u8>> = BTreeMap::new();
        let mut next = [0; 8];
        for round in 0..20 {
            let mut segment = Segment::default();
            let mut checkpoint = Checkpoint { applied: applied(round), ..Checkpoint::default() };
            for _ in 0..random.random_range(0..6) {
                let index = random.random_range(0..next.len());
                let (queue, space) = (u32::try_from(index).unwrap() / 2, u8::try_from(index % 2).unwrap());
                let number: &mut u64 = &mut next[index];
                *number += random.random_range(0..3) * random.random_range(0..100);
                let first = MessageKey { queue, space, number: *number };
                let typical = 1 << random.random_range(0..13);
                let sizes: Vec<usize> = (0..random.random_range(1..200))
                    .map(|_| if random.random_ratio(1, 8) { 0 } else { random.random_range(1..=typical) })
                    .collect();
                *number += u64::try_from(sizes.len()).unwrap();
                model.extend((first.number..).zip(&sizes).filter(|(_, bytes)| **bytes > 0).map(|(number, bytes)| {
                    let key = first.at(number);
                    (key, payload(key, *bytes))
                }));
                checkpoint.messages.push(run(&mut segment, first, &sizes));
            }
            for _ in 0..random.random_range(0..8) {
                let index = random.random_range(0..next.len());
                let (queue, space) = (u32::try_from(index).unwrap() / 2, u8::try_from(index % 2).unwrap());
                let start = random.random_range(0..=next[index]);
                let typical = 1 << random.random_range(0..12);
                let numbers = start..start + random.random_range(0..typical);
                model.retain(|key, _| !(key.queue == queue && key.space == space && numbers.contains(&key.number)));
                checkpoint.removed.push(RemovedRun { queue, space, numbers });
            }
            if random.random_ratio(1, 10) {
                let queue = random.random_range(0..4);
                model.retain(|key, _| key.queue != queue);
                checkpoint.dropped_queues.push(queue);
            }
            store.checkpoint(checkpoint, &segment).unwrap();
            if random.random_ratio(1, 5) {
                drop(store);
                store = Store::open(dir.path(), options).unwrap();
            }
            let read = messages(&store);
            assert!(read == model, "seed {seed}, round {round}: {} read, {} expected", read.len(), model.len());
            let reader = store.reader();
            for (key, bytes) in model.iter().step_by(17) {
                assert_eq!(reader.read(*key).unwrap().as_ref(), Some(bytes), "seed {seed}, {key}");
            }
        }
    }
}
