//! Seeded crashes: work, lose power (or the process, or a sync), recover, compare with the model, go on.
//!
//! The store is a fake that remembers, durably, up to where it has applied the journal.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use qwerq_broker::journal::{Appended, Applied, Batch, Durability, Hold, Journal, JournalError, Options, Position};

use crate::model::{Entry, Log, Model};
use crate::rng::Rng;
use crate::sim::{Failure, SimFile, SimFiles};

const LIVES: usize = 4;
const OPERATIONS_PER_LIFE: usize = 40;

#[test]
fn what_was_acknowledged_survives_2000_seeded_crashes() {
    let mut crashes = 0;
    for seed in 0..2_000 {
        let mut run = Run::new(seed);
        for _ in 0..LIVES {
            run.life(None);
            crashes += 1;
        }
    }
    assert!(crashes >= 2_000);
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_every_single_step() {
    for seed in 0..12 {
        // One life without a failure says how many steps there are; then each of them fails once.
        let mut whole = Run::new(seed);
        whole.life(Some(u64::MAX));
        for step in 1..whole.disk.steps() + 2 {
            let mut run = Run::new(seed);
            run.life(Some(step));
            run.life(Some(u64::MAX));
            run.life(None);
        }
    }
}

/// One simulated machine over several lives of its process.
struct Run {
    seed: u64,
    rng: Rng,
    disk: SimFiles,
    options: Options,
    shape: Shape,
    model: Model,
    life: u64,
    /// Where payloads above the checkpoint are, by index.
    places: BTreeMap<u64, Position>,
    lost_power: bool,
}

/// What batches look like in a run: equal ones land exactly where those of a former life were.
#[derive(Clone, Copy, Debug)]
struct Shape {
    payload_bytes: Option<usize>,
    batch_records: Option<usize>,
    /// Whether a payload depends on the life that it was written in.
    is_distinct: bool,
}

/// A segment that something keeps reading, and what it must keep showing.
struct Held {
    hold: Hold<SimFile>,
    offset: u32,
    payload: Vec<u8>,
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "seed {}, life {}, {:?}, {:?}, segments of {}",
                self.seed, self.life, self.options.durability, self.shape, self.options.segment_bytes
            );
        }
    }
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let durability = rng.pick(&[Durability::Fsync, Durability::Fsync, Durability::Interval, Durability::None]);
        let options = Options {
            segment_bytes: rng.pick(&[2_048, 4_096, 8_192]),
            durability,
            spares_max: rng.pick(&[1, 2, 4]),
            ..Options::new(0x5eed)
        };
        let shape = Shape {
            payload_bytes: rng.pick(&[None, Some(0), Some(16), Some(100), Some(239)]),
            batch_records: rng.pick(&[None, Some(1), Some(4)]),
            is_distinct: rng.percent(80),
        };
        Run {
            seed,
            disk: SimFiles::new(rng.next()),
            rng,
            options,
            shape,
            model: Model::new(),
            life: 0,
            places: BTreeMap::new(),
            lost_power: false,
        }
    }

    /// Starts, works until a failure at `step` (or a random one), and lets the machine or the process die.
    fn life(&mut self, step: Option<u64>) {
        self.life += 1;
        let how = match self.rng.percent(15) {
            true => Failure::Sync,
            false => Failure::Crash,
        };
        let random = 1 + u64::try_from(self.rng.below(60)).unwrap();
        self.disk.arm(step.unwrap_or(random), how);
        if let Some(mut journal) = self.start() {
            self.work(&mut journal);
        }
        let sync_failed = self.disk.sync_failed();
        if self.rng.percent(75) {
            self.disk.power_loss();
            self.lost_power = true;
        } else {
            self.disk.kill();
            // What a failed sync gave up is lost without a power loss.
            self.lost_power |= sync_failed;
        }
    }

    /// Recovers and compares; `None` when the failure came during that.
    fn start(&mut self) -> Option<Journal<SimFiles>> {
        let mut found = Vec::new();
        let mut places = BTreeMap::new();
        let mut next = self.model.checkpoint.index + 1;
        let opened = Journal::open(self.disk.clone(), self.options.clone(), self.model.checkpoint, &mut |record| {
            assert_eq!(record.index, next, "replay has no gaps");
            next += 1;
            places.insert(record.index, record.position);
            found.push(Entry { term: record.term, kind: record.kind, payload: record.payload.to_vec() });
            Ok(())
        });
        match opened {
            Ok(journal) => {
                self.model.recovered(&found, self.lost_power);
                self.lost_power = false;
                assert_eq!(journal.last().index, self.model.last_index());
                self.places = places;
                Some(journal)
            }
            Err(error) => {
                assert!(self.failed(), "refused to start: {error}");
                None
            }
        }
    }

    fn failed(&self) -> bool {
        self.disk.is_down() || self.disk.sync_failed()
    }

    fn work(&mut self, journal: &mut Journal<SimFiles>) {
        let mut held = Vec::new();
        for _ in 0..OPERATIONS_PER_LIFE {
            let outcome = match self.rng.below(100) {
                0..60 => self.append(journal),
                60..72 => self.checkpoint(journal),
                72..80 => self.sync(journal),
                80..88 => self.spare(journal),
                88..92 => self.truncate(journal),
                92..96 => self.hold(journal, &mut held),
                _ => self.compare(journal, &held),
            };
            if let Err(error) = outcome {
                assert!(self.failed(), "failed by itself: {error}");
                if self.disk.sync_failed() {
                    self.expect_poisoned(journal);
                }
                return;
            }
        }
    }

    fn append(&mut self, journal: &mut Journal<SimFiles>) -> Result<(), JournalError> {
        let (batch, entries, offsets) = self.batch(journal);
        let mut log = self.model.log().clone();
        log.extend(entries);
        self.model.attempt(log);
        let appended = journal.append(batch)?;
        self.model.done(appended.synced);
        assert_eq!(appended.synced, self.options.durability == Durability::Fsync);
        assert_eq!(appended.last_index, self.model.last_index());
        self.note_places(&appended, &offsets);
        Ok(())
    }

    fn batch(&mut self, journal: &Journal<SimFiles>) -> (Batch, Log, Vec<usize>) {
        let records = self.shape.batch_records.unwrap_or_else(|| 1 + self.rng.below(8));
        let mut batch = Batch::new();
        let (mut entries, mut offsets) = (Vec::new(), Vec::new());
        for at in 0..records {
            let bytes = self.shape.payload_bytes.unwrap_or_else(|| self.rng.below(300));
            if batch.len() + bytes + 32 > journal.batch_bytes_max() {
                break;
            }
            let mut payload = vec![0x51; bytes];
            if self.shape.is_distinct {
                let index = journal.last().index + u64::try_from(at).unwrap();
                for (byte, mark) in payload.iter_mut().zip(format!("life {} record {index}", self.life).bytes()) {
                    *byte = mark;
                }
            }
            let entry = Entry { term: self.life, kind: u8::try_from(at).unwrap(), payload };
            batch.begin_record(entry.term, entry.kind);
            offsets.push(batch.buffer().len());
            batch.buffer().extend_from_slice(&entry.payload);
            batch.end_record();
            entries.push(Rc::new(entry));
        }
        (batch, entries, offsets)
    }

    fn note_places(&mut self, appended: &Appended, offsets: &[usize]) {
        for (index, offset) in (appended.first_index..).zip(offsets) {
            let position = appended.position(*offset);
            let payload = &self.entry(index).payload;
            assert!(appended.buffer[*offset..].starts_with(payload));
            self.places.insert(index, position);
        }
    }

    fn entry(&self, index: u64) -> &Entry {
        let at = usize::try_from(index - 1).unwrap();
        &self.model.log()[at]
    }

    /// The store takes in everything so far: synced first, then remembered, then recycled.
    fn checkpoint(&mut self, journal: &mut Journal<SimFiles>) -> Result<(), JournalError> {
        self.sync(journal)?;
        let applied = journal.last();
        // The store's own commit may come long before the journal hears of it, or never be heard of.
        self.model.checkpoint = applied;
        if self.rng.percent(80) {
            journal.recycle_through(applied.index);
        }
        self.places.retain(|index, _| *index > applied.index);
        Ok(())
    }

    fn sync(&mut self, journal: &mut Journal<SimFiles>) -> Result<(), JournalError> {
        if let Some(job) = journal.sync_job() {
            let synced = job.run()?;
            assert_eq!(synced.last, journal.last());
            journal.note_synced(synced);
        }
        self.model.synced();
        Ok(())
    }

    fn spare(&mut self, journal: &mut Journal<SimFiles>) -> Result<(), JournalError> {
        let Some(job) = journal.wants_spare() else {
            return Ok(());
        };
        let outcome = journal.add_spare(job.run());
        if outcome.is_err() && self.disk.sync_failed() {
            // A spare that could not be made costs speed, nothing else.
            self.disk.forgive_sync();
            return Ok(());
        }
        outcome
    }

    fn truncate(&mut self, journal: &mut Journal<SimFiles>) -> Result<(), JournalError> {
        let above = self.model.log().len() - self.model.checkpointed();
        let kept = self.model.log().len() - self.rng.below(above.min(6) + 1);
        let log = self.model.log()[..kept].to_vec();
        self.model.attempt(log);
        let kept = u64::try_from(kept).unwrap();
        let changes = journal.last().index > kept;
        journal.truncate_from(kept + 1)?;
        self.model.done(changes);
        assert_eq!(journal.last().index, kept);
        self.places.retain(|index, _| *index <= kept);
        Ok(())
    }

    fn hold(&mut self, journal: &mut Journal<SimFiles>, held: &mut Vec<Held>) -> Result<(), JournalError> {
        if self.rng.percent(30) {
            held.clear();
        }
        if let Some((index, position)) = self.places.first_key_value() {
            let hold = journal.reader().hold(position.segment);
            held.push(Held {
                hold: hold.expect("what is above the checkpoint is not recycled"),
                offset: position.offset,
                payload: self.entry(*index).payload.clone(),
            });
        }
        Ok(())
    }

    /// Reads everything that must be readable: by index, by position, and through holds.
    fn compare(&mut self, journal: &Journal<SimFiles>, held: &[Held]) -> Result<(), JournalError> {
        let reader = journal.reader();
        let mut index = self.model.checkpoint.index + 1;
        let mut outcome = Ok(());
        reader.records(index..=journal.last().index, |record| {
            let entry = self.entry(index);
            assert_eq!(record.index, index);
            assert_eq!(record.term, entry.term);
            assert_eq!(record.kind, entry.kind);
            assert_eq!(record.payload, entry.payload);
            assert_eq!(Some(&record.position), self.places.get(&index));
            match reader.read(record.position, record.payload.len()) {
                Ok(bytes) => assert_eq!(bytes, entry.payload),
                Err(error) => outcome = Err(error),
            }
            index += 1;
            ControlFlow::Continue(())
        })?;
        assert_eq!(index, journal.last().index + 1);
        for held in held {
            let mut bytes = vec![0; held.payload.len()];
            held.hold.read_into(held.offset, &mut bytes)?;
            assert_eq!(bytes, held.payload, "a held segment was reused");
        }
        outcome
    }

    fn expect_poisoned(&self, journal: &mut Journal<SimFiles>) {
        let mut batch = Batch::new();
        batch.begin_record(0, 0);
        batch.end_record();
        let refused = journal.append(batch);
        assert!(matches!(refused, Err(JournalError::Poisoned)));
        let refused = journal.truncate_from(1);
        assert!(matches!(refused, Err(JournalError::Poisoned)));
    }
}

#[test]
fn a_failed_spare_does_not_stop_the_journal() {
    let disk = SimFiles::new(1);
    let options = Options { segment_bytes: 2_048, ..Options::new(1) };
    let open = Journal::open(disk.clone(), options, Applied::default(), &mut |_| Ok(()));
    let mut journal = open.unwrap();
    let mut jobs = 0;
    for _ in 0..60 {
        let mut batch = Batch::new();
        batch.begin_record(1, 1);
        batch.buffer().extend_from_slice(&[7; 200]);
        batch.end_record();
        journal.append(batch).unwrap();
        if let Some(job) = journal.wants_spare() {
            jobs += 1;
            disk.arm(0, Failure::Sync);
            let outcome = journal.add_spare(job.run());
            assert!(matches!(outcome, Err(JournalError::Io { .. })));
        }
    }
    assert!(jobs > 3, "each segment asks again");
    assert_eq!(journal.last().index, 60);
}
