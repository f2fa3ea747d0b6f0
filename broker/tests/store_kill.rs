//! Kills a process that writes checkpoints, again and again at random moments, and looks at what is left.
//!
//! The program runs itself as the writer. Whatever moment the kill hits, the next start must find exactly the state of one whole checkpoint:
//! the last one that the writer reported, or the one after it.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use qwerq_broker::store::{Applied, Checkpoint, Location, MessageKey, MessageRun, Payloads, RemovedRun, RowChange, Store, StoreOptions};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const KILLS: u32 = 60;
const WRITER_DIR: &str = "QWERQ_TEST_STORE_WRITER_DIR";

/// Messages that a round adds to each of two queues.
const ADDED: u64 = 400;

fn main() {
    match std::env::var_os(WRITER_DIR) {
        Some(dir) => write_for_ever(Path::new(&dir)),
        None => kill_and_look(),
    }
}

fn kill_and_look() {
    let seed = std::env::var("QWERQ_TEST_SEED").map_or_else(|_| rand::random(), |text| text.parse().expect("a seed is a number"));
    println!("store_kill: {KILLS} kills, QWERQ_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().expect("the temporary directory is writable");
    let (mut reached, mut between) = (0, 0);
    for kill in 0..KILLS {
        let writer = Command::new(std::env::current_exe().expect("this program has a path"));
        let reported = run_and_kill(writer, dir.path(), &mut random);
        let store = open(dir.path());
        let applied = store.applied().expect("`applied` is sound").index;
        let expected = reported.unwrap_or(reached);
        assert!(applied == expected || applied == expected + 1, "kill {kill}: {applied} is applied, {expected} was reported");
        assert_eq!(contents(&store), contents_after(applied), "kill {kill}: the state of checkpoint {applied}");
        between += u32::from(applied != expected);
        reached = applied;
    }
    println!("store_kill: {reached} checkpoints survived; {between} times one was durable but not reported yet");
    assert!(reached > u64::from(KILLS), "the writer had time to write");
}

/// Lets a writer report a few checkpoints, kills it some moment later; returns the last one reported.
fn run_and_kill(mut writer: Command, dir: &Path, random: &mut StdRng) -> Option<u64> {
    let mut writer = writer.env(WRITER_DIR, dir).stdout(Stdio::piped()).spawn().expect("this program runs");
    let mut reports = BufReader::new(writer.stdout.take().expect("it is piped")).lines();
    let number = |line: io::Result<String>| line.expect("the pipe is sound").parse().expect("a number is reported");
    let mut last = None;
    for _ in 0..random.random_range(0..5) {
        last = Some(number(reports.next().expect("the writer goes on until it is killed")));
    }
    // A moment of no particular length: the kill shall hit anything from opening to committing.
    std::thread::sleep(Duration::from_micros(random.random_range(0..20_000)));
    writer.kill().expect("it is ours");
    writer.wait().expect("it is ours");
    reports.map(number).last().or(last)
}

/// The writer: goes on after the last checkpoint, reports each one that is durable.
fn write_for_ever(dir: &Path) {
    let store = open(dir);
    let mut round = store.applied().expect("`applied` is sound").index;
    let mut out = io::stdout();
    loop {
        round += 1;
        let mut segment = Segment(Vec::new());
        let checkpoint = checkpoint(round, &mut segment);
        store.checkpoint(checkpoint, &segment).expect("there is space");
        writeln!(out, "{round}").and_then(|()| out.flush()).expect("somebody listens");
    }
}

fn open(dir: &Path) -> Store {
    // Small transactions: several a checkpoint, so that many kills fall between them.
    let options = StoreOptions { chunk_bytes: 48 * 1024, ..StoreOptions::default() };
    Store::open(dir, options).expect("a killed writer leaves a store that opens")
}

struct Segment(Vec<u8>);

impl Payloads for Segment {
    fn read(&self, location: Location, out: &mut Vec<u8>) -> io::Result<()> {
        let start = location.offset as usize;
        out.clear();
        out.extend_from_slice(&self.0[start..start + location.len as usize]);
        Ok(())
    }
}

/// Round `n` adds to a lasting queue and to a passing one, removes most of what round `n - 2` added and the rest of what round `n - 5` did,
/// drops a passing queue now and then, and rewrites rows.
fn checkpoint(round: u64, segment: &mut Segment) -> Checkpoint {
    let mut checkpoint = Checkpoint { applied: Applied { term: 1, index: round, crc: 7 }, ..Checkpoint::default() };
    for queue in [1, passing(round)] {
        let locations = added(round).map(|number| {
            let payload = payload(queue, number);
            let offset = u32::try_from(segment.0.len()).expect("a round is small");
            segment.0.extend_from_slice(&payload);
            Location { segment: 1, offset, len: u32::try_from(payload.len()).expect("a payload is small") }
        });
        let first = MessageKey { queue, space: MessageKey::LIVE, number: added(round).start };
        checkpoint.messages.push(MessageRun { first, locations: locations.collect() });
    }
    let mut remove = |numbers| checkpoint.removed.push(RemovedRun { queue: 1, space: MessageKey::LIVE, numbers });
    if let Some(before) = round.checked_sub(2) {
        added(before).filter(|number| !lasts(*number)).for_each(|number| remove(number..number + 1));
    }
    if let Some(before) = round.checked_sub(5) {
        remove(0..added(before).end);
    }
    if let Some(dropped) = dropped_by(round) {
        checkpoint.dropped_queues.push(dropped);
    }
    let put = |key: String, value: String| RowChange::Put { key: key.into(), value: value.into() };
    checkpoint.rows.push(RowChange::DeletePrefix { prefix: "of round ".into() });
    checkpoint.rows.push(put("round".to_owned(), round.to_string()));
    for index in 0..50 {
        checkpoint.rows.push(put(format!("of round {round:09} {index:02}"), "x".repeat(3000)));
    }
    checkpoint
}

fn added(round: u64) -> Range<u64> {
    round * ADDED..(round + 1) * ADDED
}

fn lasts(number: u64) -> bool {
    number.is_multiple_of(7)
}

fn passing(round: u64) -> u32 {
    u32::try_from(round / 4).expect("few rounds") + 10
}

fn dropped_by(round: u64) -> Option<u32> {
    (round.is_multiple_of(4) && round > 0).then(|| passing(round) - 1)
}

fn payload(queue: u32, number: u64) -> Vec<u8> {
    let mut payload = format!("{number} of {queue};").into_bytes();
    payload.resize(payload.len() + usize::try_from(number * 37 % 600).expect("small"), b'.');
    payload
}

#[derive(Debug, PartialEq, Eq, Default)]
struct Contents {
    rows: BTreeMap<String, usize>,
    /// Numbers by queue; payloads are checked when they are read.
    messages: BTreeMap<u32, Vec<u64>>,
}

fn contents(store: &Store) -> Contents {
    let mut contents = Contents::default();
    store
        .load(|key, value| {
            contents.rows.insert(String::from_utf8(key.to_vec())?, value.len());
            Ok::<_, std::string::FromUtf8Error>(())
        })
        .expect("rows are sound");
    let everything = MessageKey { queue: 0, space: 0, number: 0 };
    let next = store.snapshot().and_then(|snapshot| {
        snapshot.messages(everything, usize::MAX, &mut |key, bytes| {
            assert_eq!(bytes, payload(key.queue, key.number), "{key}");
            contents.messages.entry(key.queue).or_default().push(key.number);
        })
    });
    assert_eq!(next.expect("messages are sound"), None);
    contents
}

fn contents_after(round: u64) -> Contents {
    let mut contents = Contents::default();
    if round == 0 {
        return contents;
    }
    contents.rows.insert("round".to_owned(), round.to_string().len());
    contents.rows.extend((0..50).map(|index| (format!("of round {round:09} {index:02}"), 3000)));
    for round in 1..=round {
        contents.messages.entry(passing(round)).or_default().extend(added(round));
        if let Some(dropped) = dropped_by(round) {
            contents.messages.remove(&dropped);
        }
    }
    let first = round.checked_sub(5).map_or(0, |before| added(before).end).max(ADDED);
    let whole = round.checked_sub(2).map_or(0, |before| added(before).end);
    let lasting = (first..added(round).end).filter(|number| *number >= whole || lasts(*number));
    contents.messages.insert(1, lasting.collect());
    contents
}
