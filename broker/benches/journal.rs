//! What durability costs: one append with its fdatasync over recycled segments, by batch size, and the CPU of it alone.
//!
//! Figures depend on the disk under `target/tmp`; docs/performance.md has those of one machine.

use std::hint::black_box;
use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use qwerq_broker::files::DiskFiles;
use qwerq_broker::journal::{Applied, Batch, Durability, Journal, Options};

const PAYLOAD: [u8; 256] = [0x51; 256];
const BATCHES: [u64; 4] = [1, 16, 256, 1_024];

fn journal(directory: &Path, durability: Durability) -> Journal<DiskFiles> {
    let files = DiskFiles::open(directory).expect("the target directory is writable");
    let options = Options { durability, ..Options::new(1) };
    let opened = Journal::open(files, options, Applied::default(), &mut |_| Ok(()));
    let mut journal = opened.expect("an empty directory opens");
    // Two segments have been written in full before anything is measured, as in a broker that has run a while.
    let mut buffer = Vec::new();
    for _ in 0..150 {
        buffer = append(&mut journal, buffer, 1_024);
    }
    journal
}

fn append(journal: &mut Journal<DiskFiles>, buffer: Vec<u8>, records: u64) -> Vec<u8> {
    let mut batch = Batch::with_buffer(buffer);
    for _ in 0..records {
        batch.begin_record(1, 1);
        batch.buffer().extend_from_slice(&PAYLOAD);
        batch.end_record();
    }
    let appended = journal.append(batch).expect("the disk works");
    journal.recycle_through(appended.last_index);
    if let Some(job) = journal.wants_spare() {
        journal.add_spare(job.run()).expect("the disk has room");
    }
    Vec::from(black_box(appended).buffer)
}

fn appends(criterion: &mut Criterion) {
    for (name, durability) in [("append and fdatasync", Durability::Fsync), ("append", Durability::None)] {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("target is writable");
        let mut journal = journal(home.path(), durability);
        let mut group = criterion.benchmark_group(name);
        for records in BATCHES {
            let mut buffer = Vec::new();
            group.throughput(Throughput::Elements(records));
            group.bench_function(BenchmarkId::from_parameter(records), |bencher| {
                bencher.iter(|| {
                    buffer = append(&mut journal, std::mem::take(&mut buffer), records);
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, appends);
criterion_main!(benches);
