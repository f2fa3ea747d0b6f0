//! Single damages and odd starts, and what the journal makes of each.

use std::ops::ControlFlow;

use qwerq_broker::journal::{Applied, Batch, Durability, Journal, JournalError, Options, Position};

use crate::sim::{Failure, SimFiles};

const STORE: u128 = 0x5702e;
const HEADER: usize = 512;

fn options(durability: Durability) -> Options {
    Options { segment_bytes: 4_096, durability, ..Options::new(STORE) }
}

/// Opens after `after`; returns the payloads replayed, as text.
fn open(disk: &SimFiles, options: Options, after: Applied) -> Result<(Journal<SimFiles>, Vec<String>), JournalError> {
    let mut replayed = Vec::new();
    let journal = Journal::open(disk.clone(), options, after, &mut |record| {
        replayed.push(String::from_utf8(record.payload.to_vec())?);
        Ok(())
    })?;
    Ok((journal, replayed))
}

fn fresh(disk: &SimFiles, durability: Durability) -> Journal<SimFiles> {
    let (journal, replayed) = open(disk, options(durability), Applied::default()).unwrap();
    assert!(replayed.is_empty());
    journal
}

fn again(disk: &SimFiles) -> Result<Vec<String>, JournalError> {
    let opened = open(disk, options(Durability::Fsync), Applied::default())?;
    Ok(opened.1)
}

/// Appends one batch; returns where it starts.
fn append(journal: &mut Journal<SimFiles>, payloads: &[&str]) -> u32 {
    journal.append(batch(payloads)).unwrap().base
}

fn batch(payloads: &[&str]) -> Batch {
    let mut batch = Batch::new();
    for payload in payloads {
        batch.begin_record(1, 1);
        batch.buffer().extend_from_slice(payload.as_bytes());
        batch.end_record();
    }
    batch
}

fn flip(disk: &SimFiles, file: &str, byte: usize) {
    disk.damage(file, |bytes| bytes[byte] ^= 0x10);
}

#[test]
fn a_batch_that_nothing_follows_is_a_torn_tail_wherever_it_is_torn() {
    let written = SimFiles::new(0);
    let mut journal = fresh(&written, Durability::Fsync);
    append(&mut journal, &["a", "b"]);
    let second = append(&mut journal, &["c", "some more bytes"]) as usize;
    let contents = written.contents("0001.seg");
    let end = second + batch(&["c", "some more bytes"]).len();
    for byte in second..end {
        for is_cut in [false, true] {
            let disk = SimFiles::new(1);
            drop(fresh(&disk, Durability::Fsync));
            disk.damage("0001.seg", |bytes| {
                bytes.clone_from(&contents);
                match is_cut {
                    true => bytes[byte..].fill(0),
                    false => bytes[byte] ^= 0x10,
                }
            });
            let replayed = again(&disk).unwrap();
            // Cutting zeros off changes nothing.
            let is_whole = disk.contents("0001.seg")[second..end] == contents[second..end];
            let expected: &[_] = match is_whole {
                true => &["a", "b", "c", "some more bytes"],
                false => &["a", "b"],
            };
            assert_eq!(replayed, expected, "byte {byte}");
            // It is gone for good, and the place is used again.
            let (mut journal, _) = open(&disk, options(Durability::Fsync), Applied::default()).unwrap();
            append(&mut journal, &["d"]);
            drop(journal);
            assert_eq!(again(&disk).unwrap().last().unwrap(), "d");
        }
    }
}

#[test]
fn a_broken_batch_that_was_synced_before_a_later_one_refuses_the_start_and_says_where() {
    let disk = SimFiles::new(0);
    let mut journal = fresh(&disk, Durability::Fsync);
    append(&mut journal, &["a"]);
    let broken = append(&mut journal, &["b"]);
    let later = append(&mut journal, &["c"]);
    drop(journal);
    let whole = disk.contents("0001.seg");
    for byte in broken..later {
        flip(&disk, "0001.seg", byte as usize);
        let before = disk.contents("0001.seg");
        let error = again(&disk).unwrap_err();
        let text = error.to_string();
        let JournalError::Corrupt { file, offset, proof_offset, kept, .. } = error else {
            panic!("{text}");
        };
        assert_eq!(file, "journal/0001.seg");
        assert_eq!((offset, proof_offset, kept), (broken, later, 1));
        assert!(text.starts_with("journal/0001.seg is corrupt at byte 600:"), "{text}");
        assert_eq!(disk.contents("0001.seg"), before, "a refusal changes nothing");
        flip(&disk, "0001.seg", byte as usize);
    }
    assert_eq!(disk.contents("0001.seg"), whole);
    assert_eq!(again(&disk).unwrap(), ["a", "b", "c"]);
}

#[test]
fn a_broken_batch_that_nobody_knew_to_be_synced_is_a_torn_tail_with_all_that_follows() {
    for durability in [Durability::Interval, Durability::None] {
        let disk = SimFiles::new(0);
        let mut journal = fresh(&disk, durability);
        append(&mut journal, &["a"]);
        let broken = append(&mut journal, &["b"]);
        append(&mut journal, &["c"]);
        drop(journal);
        flip(&disk, "0001.seg", broken as usize + 70);
        assert_eq!(again(&disk).unwrap(), ["a"]);
        // What comes into its place is the same to the byte; what was behind it stays dead.
        let (mut journal, _) = open(&disk, options(durability), Applied::default()).unwrap();
        append(&mut journal, &["b"]);
        drop(journal);
        assert_eq!(again(&disk).unwrap(), ["a", "b"]);
    }
}

#[test]
fn a_sync_between_makes_the_same_damage_corruption() {
    let disk = SimFiles::new(0);
    let mut journal = fresh(&disk, Durability::Interval);
    let broken = append(&mut journal, &["a"]);
    let synced = journal.sync_job().unwrap().run().unwrap();
    assert_eq!(synced.last, journal.last());
    journal.note_synced(synced);
    assert!(journal.sync_job().is_none());
    append(&mut journal, &["b"]);
    drop(journal);
    flip(&disk, "0001.seg", broken as usize);
    assert!(matches!(again(&disk), Err(JournalError::Corrupt { offset: 512, .. })));
}

#[test]
fn a_broken_segment_header_refuses_the_start() {
    let disk = SimFiles::new(0);
    let mut journal = fresh(&disk, Durability::Fsync);
    let filler = "x".repeat(1_500);
    for _ in 0..3 {
        append(&mut journal, &[&filler]);
    }
    drop(journal);
    for file in ["0001.seg", "0002.seg"] {
        for byte in 0..HEADER {
            flip(&disk, file, byte);
            let error = again(&disk).unwrap_err();
            match file {
                // Without its beginning the journal begins too late.
                "0001.seg" => assert!(matches!(error, JournalError::Behind { .. }), "{error}"),
                _ => assert!(matches!(&error, JournalError::Corrupt { file, offset: 0, .. } if file == "journal/0002.seg"), "{error}"),
            }
            flip(&disk, file, byte);
        }
    }
    assert_eq!(again(&disk).unwrap().len(), 3);
}

#[test]
fn no_flipped_bit_ever_yields_a_wrong_record() {
    let disk = SimFiles::new(0);
    let mut journal = fresh(&disk, Durability::Fsync);
    for payloads in [&["a", "b"][..], &["c"], &["d", "e", "f"]] {
        append(&mut journal, payloads);
    }
    drop(journal);
    let contents = disk.contents("0001.seg");
    let all = again(&disk).unwrap();
    for bit in 0..1_200 * 8 {
        let mut damaged = contents.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        disk.damage("0001.seg", |bytes| bytes.clone_from(&damaged));
        match again(&disk) {
            Ok(replayed) => assert!(all.starts_with(&replayed), "bit {bit}: {replayed:?}"),
            Err(error) => assert!(matches!(error, JournalError::Corrupt { .. }), "bit {bit}: {error}"),
        }
    }
}

#[test]
fn records_of_a_segments_former_life_never_return() {
    const RECORD: usize = 17 + "life 0 record 0".len();
    let write = |journal: &mut Journal<SimFiles>, life: u32| {
        let payloads: Vec<_> = (0..4).map(|at| format!("life {life} record {at}")).collect();
        let payloads: Vec<_> = payloads.iter().map(String::as_str).collect();
        append(journal, &payloads) as usize
    };
    // Batches of one shape, so that a former record lies exactly where one that got torn was to be.
    let former = SimFiles::new(0);
    let base = write(&mut fresh(&former, Durability::Fsync), 1);
    let disk = SimFiles::new(0);
    assert_eq!(write(&mut fresh(&disk, Durability::Fsync), 2), base);
    let from = base + 64 + RECORD;
    for to in [from + RECORD, from + 2 * RECORD, from + 3 * RECORD] {
        let stale = former.contents("0001.seg");
        let whole = disk.contents("0001.seg");
        disk.damage("0001.seg", |bytes| bytes[from..to].copy_from_slice(&stale[from..to]));
        assert_eq!(again(&disk).unwrap(), [""; 0]);
        disk.damage("0001.seg", |bytes| bytes.clone_from(&whole));
    }
    assert_eq!(again(&disk).unwrap().len(), 4);
}

#[test]
fn a_copy_of_the_journal_in_a_payload_is_no_batch() {
    let disk = SimFiles::new(0);
    let mut journal = fresh(&disk, Durability::Fsync);
    append(&mut journal, &["a"]);
    append(&mut journal, &["b"]);
    append(&mut journal, &["c"]);
    let copy = disk.contents("0001.seg")[HEADER..900].to_vec();
    let mut holder = Batch::new();
    holder.begin_record(1, 1);
    holder.buffer().extend_from_slice(&copy);
    holder.end_record();
    let place = journal.append(holder).unwrap().base as usize;
    drop(journal);
    flip(&disk, "0001.seg", place);
    assert_eq!(again(&disk).unwrap(), ["a", "b", "c"]);
}

#[test]
fn a_journal_of_another_store_is_refused() {
    let disk = SimFiles::new(0);
    drop(fresh(&disk, Durability::Fsync));
    let other = Options::new(STORE + 1);
    let error = open(&disk, other, Applied::default()).err().unwrap();
    assert!(matches!(error, JournalError::Foreign { found: STORE, .. }));
    assert!(error.to_string().contains("journal/0001.seg"));
}

#[test]
fn a_journal_that_does_not_match_the_store_is_refused() {
    let disk = SimFiles::new(0);
    let mut journal = fresh(&disk, Durability::Fsync);
    append(&mut journal, &["a", "b"]);
    append(&mut journal, &["c"]);
    let last = journal.last();
    drop(journal);
    let with = |change: fn(&mut Applied)| {
        let mut after = last;
        change(&mut after);
        open(&disk, options(Durability::Fsync), after).map(|(_, replayed)| replayed)
    };
    assert_eq!(with(|_| {}).unwrap(), [""; 0]);
    for (change, text) in [
        ((|after| after.index = 7) as fn(&mut Applied), "ends at index 3"),
        (|after| after.crc ^= 1, "holds another record at that index"),
        (|after| after.term = 9, "holds another record at that index"),
        (|after| after.index = 2, "holds another record at that index"),
    ] {
        let error = with(change).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    let empty = SimFiles::new(0);
    let error = open(&empty, options(Durability::Fsync), last).err();
    let text = error.unwrap().to_string();
    assert!(text.contains("up to index 3, but the journal in journal/ holds no segment"), "{text}");
}

#[test]
fn a_refused_record_stops_the_start_and_is_named() {
    let disk = SimFiles::new(0);
    let mut journal = fresh(&disk, Durability::Fsync);
    append(&mut journal, &["a", "b"]);
    drop(journal);
    let opened = Journal::open(disk, options(Durability::Fsync), Applied::default(), &mut |record| match record.index {
        2 => Err("unknown kind 9".into()),
        _ => Ok(()),
    });
    let text = opened.err().unwrap().to_string();
    assert_eq!(text, "record 2 of the journal could not be replayed: unknown kind 9");
}

#[test]
fn a_batch_larger_than_a_segment_is_refused_and_does_no_harm() {
    let disk = SimFiles::new(0);
    let mut journal = fresh(&disk, Durability::Fsync);
    let overhead = batch(&[""]).len();
    let largest = "x".repeat(journal.batch_bytes_max() - overhead);
    append(&mut journal, &[&largest]);
    let too_large = "x".repeat(largest.len() + 8);
    let refused = journal.append(batch(&[&too_large]));
    assert!(matches!(refused, Err(JournalError::TooLarge { .. })));
    append(&mut journal, &["after"]);
    drop(journal);
    assert_eq!(again(&disk).unwrap(), [&largest, "after"]);
}

#[test]
fn a_position_in_a_recycled_segment_yields_nothing() {
    let disk = SimFiles::new(0);
    let mut journal = fresh(&disk, Durability::Fsync);
    let filler = "x".repeat(1_500);
    let reader = journal.reader();
    let appended = journal.append(batch(&[&filler])).unwrap();
    let position = appended.position(64 + 17);
    assert_eq!(reader.read(position, 1_500).unwrap(), filler.as_bytes());
    for _ in 0..6 {
        append(&mut journal, &[&filler]);
    }
    let hold = reader.hold(position.segment).unwrap();
    journal.recycle_through(journal.last().index);
    append(&mut journal, &[&filler]);
    assert!(matches!(reader.read(position, 1_500), Err(JournalError::Absent { .. })));
    let mut held = vec![0; 1_500];
    hold.read_into(position.offset, &mut held).unwrap();
    assert_eq!(held, filler.as_bytes());
    let nowhere = Position { segment: 99, offset: 0 };
    assert!(reader.read(nowhere, 1).is_err());
}

#[test]
fn entries_before_the_checkpoint_stay_readable_when_asked_for() {
    let disk = SimFiles::new(0);
    let mut journal = fresh(&disk, Durability::Fsync);
    let filler = "x".repeat(1_500);
    for _ in 0..8 {
        append(&mut journal, &[&filler]);
    }
    let checkpoint = journal.last();
    drop(journal);
    for (keep_from, first) in [(None, 7), (Some(1), 1), (Some(4), 3), (Some(99), 7)] {
        let options = Options { keep_from, ..options(Durability::Fsync) };
        let (journal, replayed) = open(&disk, options, checkpoint).unwrap();
        assert!(replayed.is_empty());
        assert_eq!(journal.reader().bounds(), (first, 8), "{keep_from:?}");
        let mut seen = Vec::new();
        let read = journal.reader().records(first..=8, |record| {
            seen.push(record.index);
            ControlFlow::Continue(())
        });
        read.unwrap();
        assert_eq!(seen, (first..=8).collect::<Vec<_>>());
    }
}

#[test]
fn a_restart_after_a_snapshot_forgets_everything_and_survives_a_power_loss() {
    let disk = SimFiles::new(0);
    let mut journal = fresh(&disk, Durability::Interval);
    append(&mut journal, &["a", "b"]);
    let snapshot = Applied { term: 5, index: 1_000, crc: 77 };
    journal.restart_after(snapshot).unwrap();
    assert_eq!(journal.reader().bounds(), (1_001, 1_000));
    assert_eq!(journal.append(batch(&["c"])).unwrap().first_index, 1_001);
    let synced = journal.sync_job().unwrap().run().unwrap();
    journal.note_synced(synced);
    disk.power_loss();
    let (journal, replayed) = open(&disk, options(Durability::Fsync), snapshot).unwrap();
    assert_eq!(replayed, ["c"]);
    assert_eq!(journal.last().index, 1_001);
}

#[test]
fn a_sync_that_failed_is_not_taken_for_done_by_the_next_start() {
    for seed in 0..50 {
        let disk = SimFiles::new(seed);
        let mut journal = fresh(&disk, Durability::Fsync);
        append(&mut journal, &["a"]);
        disk.arm(0, Failure::Sync);
        let failed = journal.append(batch(&["b"]));
        assert!(matches!(failed, Err(JournalError::Io { .. })));
        disk.kill();
        let seen = again(&disk).unwrap();
        disk.power_loss();
        assert_eq!(again(&disk).unwrap(), seen, "what a start has shown stays");
    }
}
