//! A snapshot takes the place of a node's files: whole or not at all, wherever a crash comes in between.

use std::fs;
use std::path::Path;

use super::super::home::{begin_incoming, complete_incoming, settle};
use super::super::image::{self, Incoming};
use super::super::mark::Mark;
use super::super::points::Points;
use super::super::raft::Image;
use super::super::record::log_id;
use super::{home, run};
use crate::files::DiskFiles;
use crate::journal::{self, Batch, Journal};
use crate::store::{Applied, Checkpoint, Location, MessageKey, MessageRun, Payloads, RowChange, Store, StoreOptions};

const NEW: Applied = Applied { term: 3, index: 40, crc: 0 };

/// Payloads that say which message they are; one is larger than a chunk.
struct Texts;

fn text(location: Location) -> Vec<u8> {
    let mut text = format!("message {}", location.segment).into_bytes();
    text.resize(location.len as usize, b'.');
    text
}

impl Payloads for Texts {
    fn read(&self, location: Location, out: &mut Vec<u8>) -> std::io::Result<()> {
        *out = text(location);
        Ok(())
    }
}

/// Messages of two queues, with a hole, one of them large.
fn messages() -> Vec<MessageRun> {
    let location = |segment, len| Location { segment, offset: 0, len };
    let run = |queue, number, locations| MessageRun { first: MessageKey { queue, space: 0, number }, locations };
    vec![
        run(1, 7, vec![location(1, 30), location(2, 3 << 20), location(3, 20)]),
        run(1, 12, vec![location(4, 40)]),
        run(9, 1, vec![location(5, 20)]),
    ]
}

fn fill(store: &Store, rows: usize, applied: Applied) {
    let mark = Mark { last: Some(log_id(applied.term, applied.index)), ..Mark::default() };
    let row = |number: usize| RowChange::Put { key: format!("row {number:05}").into_bytes(), value: vec![b'v'; 500] };
    let checkpoint =
        Checkpoint { rows: (1..rows).map(row).chain([mark.row()]).collect(), messages: messages(), applied, ..Checkpoint::default() };
    store.checkpoint(checkpoint, &Texts).unwrap();
}

fn rows(store: &Store) -> usize {
    let mut count = 0;
    store
        .load(|_, _| {
            count += 1;
            Ok::<_, std::io::Error>(())
        })
        .unwrap();
    count
}

/// A node's files: some rows, three records.
fn old(path: &Path) {
    Points::new(1).save(&DiskFiles::open(path).unwrap()).unwrap();
    let store = Store::open(&path.join("store"), StoreOptions::default()).unwrap();
    let files = DiskFiles::open(&path.join("journal")).unwrap();
    let options = journal::Options::new(u128::from_be_bytes(store.store_id()));
    let mut journal = Journal::open(files, options, Applied::default(), &mut |_| Ok(())).unwrap();
    let mut batch = Batch::new();
    for _ in 0..3 {
        batch.begin_record(1, 64);
        batch.end_record();
    }
    journal.append(batch).unwrap();
    fill(&store, 2, journal.last());
}

/// A snapshot of another node in its chunks, received.
async fn receive(path: &Path) {
    let source = home();
    let store = Store::open(source.path(), StoreOptions::default()).unwrap();
    fill(&store, 5_000, Applied { term: 3, index: 40, crc: 77 });
    let mut incoming = Incoming::begin(&begin_incoming(path).unwrap()).unwrap();
    let mut chunks = image::read(Image(store.snapshot().unwrap()));
    let mut count = 0;
    while let Some(chunk) = chunks.recv().await {
        incoming.add(&chunk.unwrap()).unwrap();
        count += 1;
    }
    assert!(count > 4, "{count} chunks");
    incoming.finish(NEW).unwrap();
}

fn settle_in(path: &Path) {
    settle(path, &DiskFiles::open(path).unwrap()).unwrap();
}

fn assert_new(path: &Path) {
    let points = Points::load(&DiskFiles::open(path).unwrap()).unwrap().unwrap();
    assert_eq!(points.purged, Some(log_id(NEW.term, NEW.index)), "the log begins behind the snapshot");
    let store = Store::open(&path.join("store"), StoreOptions::default()).unwrap();
    assert_eq!((store.applied().unwrap(), rows(&store)), (NEW, 5_000));
    let reader = store.reader();
    for run in messages() {
        for (number, location) in (run.first.number..).zip(run.locations) {
            let key = MessageKey { number, ..run.first };
            assert_eq!(reader.read(key).unwrap(), Some(text(location)), "{key}");
        }
    }
    let files = DiskFiles::open(&path.join("journal")).unwrap();
    let options = journal::Options::new(u128::from_be_bytes(store.store_id()));
    let journal = Journal::open(files, options, NEW, &mut |record| panic!("{record:?}")).unwrap();
    assert_eq!(journal.last(), NEW);
    assert!(!path.join("incoming").exists());
}

#[test]
fn a_complete_snapshot_takes_the_place_of_store_and_journal() {
    let home = home();
    old(home.path());
    run(receive(home.path()));
    complete_incoming(home.path()).unwrap();
    settle_in(home.path());
    assert_new(home.path());
    settle_in(home.path());
    assert_new(home.path());
}

#[test]
fn an_incomplete_snapshot_is_forgotten() {
    let home = home();
    old(home.path());
    run(receive(home.path()));
    settle_in(home.path());
    let store = Store::open(&home.path().join("store"), StoreOptions::default()).unwrap();
    assert_eq!((store.applied().unwrap().index, rows(&store)), (3, 2));
    assert!(!home.path().join("incoming").exists());
}

#[test]
fn a_crash_while_a_snapshot_takes_its_place_is_made_good_by_the_next_start() {
    type Step = fn(&Path);
    let steps: [(&str, Step); 3] = [
        ("the old store is gone", |path| fs::remove_dir_all(path.join("store")).unwrap()),
        ("the new one is there", |path| fs::rename(path.join("incoming/store"), path.join("store")).unwrap()),
        ("the old journal is gone", |path| fs::remove_dir_all(path.join("journal")).unwrap()),
    ];
    for crash in 1..=steps.len() {
        let home = home();
        old(home.path());
        run(receive(home.path()));
        complete_incoming(home.path()).unwrap();
        steps[..crash].iter().for_each(|(_, step)| step(home.path()));
        settle_in(home.path());
        assert_new(home.path());
    }
}
