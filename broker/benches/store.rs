//! What a checkpoint costs: CPU and time per message, memory, space on disk. Then reads, by criterion.
//!
//! `cargo bench -p qwerq-broker --bench store`; its figures are in docs/performance.md. The journal is stood in for by files of 20 MiB that
//! are read as the journal's are.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use qwerq_broker::store::{Applied, Checkpoint, Location, MessageKey, MessageRun, Payloads, RemovedRun, RowChange, Store, StoreOptions};

const MESSAGES: u64 = 256 * 1024;
const PAYLOAD_BYTES: u32 = 256;
/// What the journal puts around a payload: its own header, and the entry's.
const BETWEEN: u32 = 40;
const SEGMENT_BYTES: u32 = 20 << 20;

struct Segments(Vec<File>);

impl Segments {
    /// Segments with one generation of messages, taken in turn by `queues` queues; and where each queue's lie.
    fn fill(dir: &Path, queues: u32) -> (Self, Vec<Vec<Location>>) {
        let mut locations = vec![Vec::new(); usize::try_from(queues).expect("few")];
        let (mut files, mut bytes) = (Vec::new(), Vec::new());
        let mut close = |bytes: &mut Vec<u8>| {
            let path = dir.join(format!("{}.journal", files.len()));
            std::fs::write(&path, &*bytes).expect("the temporary directory has space");
            files.push(File::open(path).expect("it was just written"));
            bytes.clear();
        };
        let mut segment = 0;
        for message in 0..MESSAGES {
            let offset = u32::try_from(bytes.len()).expect("below a segment") + BETWEEN;
            if offset + PAYLOAD_BYTES > SEGMENT_BYTES {
                close(&mut bytes);
                segment += 1;
            }
            let offset = bytes.len() + usize::try_from(BETWEEN).expect("small");
            bytes.resize(offset, 0);
            bytes.extend((0..PAYLOAD_BYTES / 8).flat_map(|word| (message * 31 + u64::from(word)).to_le_bytes()));
            let queue = usize::try_from(message % u64::from(queues)).expect("few");
            let offset = u32::try_from(offset).expect("below a segment");
            locations[queue].push(Location { segment, offset, len: PAYLOAD_BYTES });
        }
        close(&mut bytes);
        (Self(files), locations)
    }
}

impl Payloads for Segments {
    fn read(&self, location: Location, out: &mut Vec<u8>) -> io::Result<()> {
        out.resize(usize::try_from(location.len).expect("usize holds a u32"), 0);
        let file = &self.0[usize::try_from(location.segment).expect("usize holds a u32")];
        file.read_exact_at(out, location.offset.into())
    }
}

/// A generation of messages, after `generation` others; with what the core writes of them.
fn checkpoint(generation: u64, locations: &[Vec<Location>]) -> Checkpoint {
    let mut checkpoint = Checkpoint::default();
    for (queue, locations) in (1..).zip(locations) {
        let count = u64::try_from(locations.len()).expect("a count fits");
        let number = generation * count;
        let first = MessageKey { queue, space: MessageKey::LIVE, number };
        checkpoint.messages.push(MessageRun { first, locations: locations.clone() });
        for chunk in number / 1024..(number + count) / 1024 {
            let key = [&b"Q"[..], &queue.to_be_bytes(), &[3], &chunk.to_be_bytes()].concat();
            checkpoint.rows.push(RowChange::Put { key, value: vec![7; 4096] });
        }
    }
    checkpoint.applied = Applied { term: 1, index: generation, crc: 0 };
    checkpoint
}

fn removal(generation: u64, locations: &[Vec<Location>]) -> Checkpoint {
    let mut checkpoint = Checkpoint::default();
    for (queue, locations) in (1..).zip(locations) {
        let count = u64::try_from(locations.len()).expect("a count fits");
        let numbers = generation * count..(generation + 1) * count;
        checkpoint.removed.push(RemovedRun { queue, space: MessageKey::LIVE, numbers });
    }
    checkpoint
}

fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}

/// Anonymous memory of this process, in KiB.
fn anonymous_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("Linux has it");
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("it is a number")
}

/// Runs `work` and prints what it cost per message; its peak of anonymous memory is sampled by another thread.
fn measure<T>(name: &str, messages: u64, work: impl FnOnce() -> T) -> T {
    let before = anonymous_kib();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let sampler = std::thread::spawn(move || {
        let mut peak = anonymous_kib();
        while stopped.recv_timeout(Duration::from_millis(1)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            peak = peak.max(anonymous_kib());
        }
        peak
    });
    let (start, cpu_start) = (Instant::now(), cpu());
    let result = work();
    let (wall, cpu) = (start.elapsed(), cpu() - cpu_start);
    drop(stop);
    let peak = sampler.join().expect("the sampler does not panic");
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let per = |time: Duration| time.as_secs_f64() * 1e6 / messages as f64;
    println!(
        "{name:<44} cpu {:6.3} us/message   wall {:6.3} us/message ({:5} ms)   anonymous {:5} -> peak {:5} -> {:5} KiB",
        per(cpu),
        per(wall),
        wall.as_millis(),
        before,
        peak,
        anonymous_kib()
    );
    result
}

fn figures(queues: u32, chunk_bytes: usize) {
    println!("\n{queues} queues, transactions of {} MiB", chunk_bytes >> 20);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable");
    let (segments, locations) = Segments::fill(dir.path(), queues);
    let options = StoreOptions { chunk_bytes, ..StoreOptions::default() };
    let store = Store::open(&dir.path().join("store"), options).expect("a fresh directory opens");
    let run = |checkpoint| store.checkpoint(checkpoint, &segments).expect("there is space");
    for generation in 0..4 {
        let checkpoint = checkpoint(generation, &locations);
        measure(&format!("checkpoint {generation} of 256 Ki messages"), MESSAGES, || run(checkpoint));
    }
    let file_bytes = || std::fs::metadata(dir.path().join("store/data.mdb")).expect("it is open").len();
    println!("data.mdb: {:.3} of the payloads' size", file_bytes() as f64 / (4 * MESSAGES * u64::from(PAYLOAD_BYTES)) as f64);
    measure("load the rows of 1 Mi messages", MESSAGES * 4, || {
        let mut rows = 0;
        let count = |_: &[u8], value: &[u8]| {
            rows += value.len();
            Ok::<_, String>(())
        };
        store.load(count).expect("it is sound");
        black_box(rows)
    });
    for generation in 4..8 {
        let checkpoint = checkpoint(generation, &locations);
        let removed = removal(generation - 4, &locations).removed;
        let checkpoint = Checkpoint { removed, ..checkpoint };
        measure(&format!("checkpoint {generation}, an old one removed"), MESSAGES, || run(checkpoint));
    }
    println!("data.mdb: {:.3} of the payloads' size", file_bytes() as f64 / (4 * MESSAGES * u64::from(PAYLOAD_BYTES)) as f64);
}

/// What a large backlog costs when it goes at once.
fn drop_backlog() {
    const GENERATIONS: u64 = 16;
    println!("\na queue of {} Mi messages goes at once", (GENERATIONS * MESSAGES) >> 20);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable");
    let (segments, locations) = Segments::fill(dir.path(), 1);
    let store = Store::open(&dir.path().join("store"), StoreOptions::default()).expect("a fresh directory opens");
    let run = |checkpoint| store.checkpoint(checkpoint, &segments).expect("there is space");
    for generation in 0..GENERATIONS {
        run(checkpoint(generation, &locations));
    }
    let dropped = Checkpoint { dropped_queues: vec![1], ..Checkpoint::default() };
    measure("drop the queue", MESSAGES * GENERATIONS, || run(dropped));
    for generation in GENERATIONS..GENERATIONS + 4 {
        let checkpoint = checkpoint(generation, &locations);
        measure(&format!("checkpoint {generation} of 256 Ki messages"), MESSAGES, || run(checkpoint));
    }
    measure("empty checkpoint", 1, || run(Checkpoint::default()));
}

/// Appends a batch of 1,024 messages and syncs it, over and over in one file that was written before, as the journal does; first alone, then
/// beside checkpoints. Returns the median time of a commit in microseconds, the 99th percentile, and how many commits a second there were.
fn journal_beside(chunk_bytes: Option<usize>) -> (u128, u128, u128) {
    const BATCH_BYTES: u64 = 1024 * 300;
    const COMMITS: u64 = 2000;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable");
    let (segments, locations) = Segments::fill(dir.path(), 1);
    let batch = vec![7; usize::try_from(BATCH_BYTES).expect("small")];
    let slots = u64::from(SEGMENT_BYTES) / BATCH_BYTES;
    let path = dir.path().join("recycled");
    std::fs::write(&path, batch.repeat(usize::try_from(slots).expect("few"))).expect("there is space");
    let file = File::options().write(true).open(path).expect("it was just written");
    file.sync_all().expect("the disk works");
    let store = Store::open(&dir.path().join("store"), StoreOptions { chunk_bytes: chunk_bytes.unwrap_or(1), ..StoreOptions::default() });
    let store = store.expect("a fresh directory opens");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        if chunk_bytes.is_some() {
            scope.spawn(|| {
                for generation in 0_u64.. {
                    if stop.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    let removed = generation.checked_sub(2).map_or_else(Vec::new, |old| removal(old, &locations).removed);
                    let checkpoint = Checkpoint { removed, ..checkpoint(generation, &locations) };
                    store.checkpoint(checkpoint, &segments).expect("there is space");
                }
            });
        }
        let begin = Instant::now();
        let mut times: Vec<_> = (0..COMMITS)
            .map(|commit| {
                let start = Instant::now();
                file.write_all_at(&batch, commit % slots * BATCH_BYTES).expect("there is space");
                file.sync_data().expect("the disk works");
                start.elapsed().as_micros()
            })
            .collect();
        let rate = u128::from(COMMITS) * 1_000_000 / begin.elapsed().as_micros();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() * 99 / 100], rate)
    })
}

fn reads(criterion: &mut Criterion) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable");
    let (segments, locations) = Segments::fill(dir.path(), 1);
    let store = Store::open(&dir.path().join("store"), StoreOptions::default()).expect("a fresh directory opens");
    store.checkpoint(checkpoint(0, &locations), &segments).expect("there is space");
    let reader = store.reader();
    let mut number = 0;
    let mut next = move || {
        number = (number + 7919) % MESSAGES;
        MessageKey { queue: 1, space: MessageKey::LIVE, number }
    };
    let mut group = criterion.benchmark_group("store");
    group.throughput(Throughput::Elements(1));
    group.bench_function("read one of 256 bytes", |bencher| bencher.iter(|| reader.read(next())));
    group.throughput(Throughput::Elements(256));
    group.bench_function("read 256 of 256 bytes", |bencher| {
        bencher.iter(|| reader.read_many(next(), 255 * 256 + 1, &mut |_, bytes| _ = black_box(bytes)));
    });
    group.bench_function("measure the room", |bencher| bencher.iter(|| store.room()));
    group.finish();
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    for (queues, chunk_mib) in [(1, 4), (1, 8), (1, 64), (8, 4), (100, 4), (10_000, 4)] {
        figures(queues, chunk_mib << 20);
    }
    drop_backlog();
    println!("\na journal that commits 1,024 messages at a time");
    for _ in 0..3 {
        for chunk_mib in [None, Some(4), Some(8), Some(16), Some(64)] {
            let (median, late, rate) = journal_beside(chunk_mib.map(|mib| mib << 20));
            let beside = chunk_mib.map_or("alone".to_owned(), |mib| format!("beside checkpoints of {mib} MiB a transaction"));
            println!("{beside:<50} commit p50 {median:5} us, p99 {late:6} us; {rate:5} commits/s");
        }
    }
    let mut criterion = Criterion::default().configure_from_args();
    reads(&mut criterion);
    criterion.final_summary();
}
