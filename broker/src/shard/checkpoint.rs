//! When checkpoints happen, and what waits for them. A generation ends at 64 MiB of journal, or after some seconds without that.
//!
//! One checkpoint runs at a time. When the next generation fills before it ends, publishes wait; acks do not.

use std::ops::Range;
use std::time::{Duration, Instant};

use qwerq_core::{QueueId, Space};

use crate::config::Durability;
use crate::files::{DiskFiles, Files};
use crate::journal::{self, Journal, Synced};
use crate::store::{self, Checkpoint, Checkpointed, Checkpointer, RemovedRun};

use super::command::Command;
use super::payloads::store_space;
use super::{Fault, Shard};

/// Journal bytes of a generation.
const GENERATION_BYTES: usize = 64 << 20;

/// How long a generation that does not fill goes on.
const GENERATION_AGE: Duration = Duration::from_secs(10);

/// How often the disk is asked for its free space.
const ROOM_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Checkpoints {
    checkpointer: Checkpointer,
    /// Journal bytes since the last freeze.
    bytes: usize,
    since: Instant,
    running: bool,
    last_room: Instant,
}

impl Checkpoints {
    pub(super) fn new(checkpointer: Checkpointer, bytes: usize) -> Checkpoints {
        let now = Instant::now();
        Checkpoints { checkpointer, bytes, since: now, running: false, last_room: now }
    }

    pub(super) fn grew(&mut self, bytes: usize) {
        if self.bytes == 0 {
            self.since = Instant::now();
        }
        self.bytes += bytes;
    }

    /// How long until the next checkpoint should begin, if nothing more is written.
    pub(super) fn until_due(&self) -> Option<Duration> {
        (self.bytes > 0 && !self.running).then(|| GENERATION_AGE.saturating_sub(self.since.elapsed()))
    }

    fn is_due(&self) -> bool {
        !self.running && self.bytes > 0 && (self.bytes >= GENERATION_BYTES || self.since.elapsed() >= GENERATION_AGE)
    }

    /// The next generation is full while the last one is still being written.
    fn is_behind(&self) -> bool {
        self.running && self.bytes >= GENERATION_BYTES
    }
}

impl Shard {
    /// Whether a command must wait for the checkpoint: publishes do, and so does what their connection sent after one.
    pub(super) fn must_hold(&mut self, command: &Command) -> bool {
        let Some(session) = command.session().filter(|_| command.is_in_order()) else { return false };
        let behind = self.checkpoints.is_behind() && matches!(command, Command::Publish(_));
        let Some(session) = self.sessions.get_mut(&session) else { return false };
        session.holding |= behind;
        session.holding
    }

    /// Spares, interval syncs, checkpoints.
    pub(super) fn maintain(&mut self) -> Result<(), Fault> {
        if let Some(job) = self.log.journal().and_then(Journal::wants_spare) {
            let back = self.back.clone();
            self.helper("spare segment", move || drop(back.send(Command::Spare(job.run()))))?;
        }
        if let Durability::Interval(interval) = self.config.durability
            && !self.syncing
            && self.last_sync.elapsed() >= interval
        {
            self.last_sync = Instant::now();
            self.sync_then(None)?;
        }
        if self.checkpoints.is_due() {
            self.begin_checkpoint()?;
        }
        if self.checkpoints.last_room.elapsed() >= ROOM_INTERVAL {
            self.checkpoints.last_room = Instant::now();
            let room = self.store.room()?;
            let low = room.is_low();
            self.room = room;
            if low != self.storage_full {
                tracing::warn!(low, "the space for messages has changed; publishes are refused while it is low");
            }
            self.storage_full = low;
        }
        Ok(())
    }

    fn begin_checkpoint(&mut self) -> Result<(), Fault> {
        let mut changes = self.state.take_changes();
        let applied = match &self.reign {
            Some(reign) => {
                changes.rows.push(reign.link.row());
                self.payloads.applied(reign.link.applied())?
            }
            None => self.log.journal().expect("a broker that runs alone has its journal").last(),
        };
        let checkpoint = Checkpoint {
            rows: changes.rows,
            messages: self.payloads.locations.freeze(),
            removed: messages_of(changes.removed),
            dropped_queues: changes.dropped.into_iter().map(|queue| queue.0).collect(),
            applied,
        };
        self.checkpoints.bytes = 0;
        self.checkpoints.running = true;
        // The store must never be ahead of what is synced in the journal.
        self.sync_then(Some(Box::new(checkpoint)))
    }

    /// Syncs the journal on a thread of its own, unless it is synced; then the checkpoint goes on.
    fn sync_then(&mut self, checkpoint: Option<Box<Checkpoint>>) -> Result<(), Fault> {
        // What a cluster has committed is synced.
        let Some(job) = self.log.journal().and_then(|journal| journal.sync_job()) else {
            if let Some(checkpoint) = checkpoint {
                self.submit(*checkpoint);
            }
            return Ok(());
        };
        self.syncing = true;
        let back = self.back.clone();
        self.helper("journal sync", move || drop(back.send(Command::Synced(job.run(), checkpoint))))
    }

    pub(super) fn synced(&mut self, synced: Synced, checkpoint: Option<Box<Checkpoint>>) {
        self.syncing = false;
        if let Some(journal) = self.log.journal() {
            journal.note_synced(synced);
        }
        if let Some(checkpoint) = checkpoint {
            self.submit(*checkpoint);
        }
    }

    fn submit(&mut self, checkpoint: Checkpoint) {
        let back = self.back.clone();
        let done = Box::new(move |outcome| drop(back.send(Command::Checkpointed(outcome))));
        if self.checkpoints.checkpointer.submit(checkpoint, done).is_err() {
            unreachable!("one checkpoint runs at a time");
        }
    }

    pub(super) fn checkpointed(&mut self, done: Checkpointed) -> Result<(), Fault> {
        self.metrics.checkpoint_us.observe_duration(done.duration);
        tracing::debug!(messages = done.messages, bytes = done.bytes, commits = done.commits, ?done.duration, "checkpoint");
        self.checkpoints.running = false;
        self.payloads.locations.thaw();
        match (self.log.journal(), &self.reign) {
            (Some(journal), _) => journal.recycle_through(done.applied.index),
            (None, Some(reign)) => reign.link.checkpointed(),
            (None, None) => unreachable!("a broker that runs alone has its journal"),
        }
        // All of them are let go before the first is handled: one that still counted would hold up the others again.
        let held = std::mem::take(&mut self.held);
        for session in held.iter().filter_map(Command::session) {
            if let Some(session) = self.sessions.get_mut(&session) {
                session.holding = false;
            }
        }
        for command in held {
            self.handle(command)?;
        }
        Ok(())
    }

    fn helper(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Fault> {
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        spawned.map(drop).map_err(|source| Fault::Io { action: format!("starting the thread `{name}`"), source })
    }
}

/// Removed messages, as the store names them.
pub(super) fn messages_of(removed: Vec<(QueueId, Space, Range<u64>)>) -> Vec<RemovedRun> {
    removed.into_iter().map(|(queue, space, numbers)| RemovedRun { queue: queue.0, space: store_space(space), numbers }).collect()
}

/// The journal as the store reads payloads from it.
pub(super) struct JournalPayloads(pub(super) journal::Reader<<DiskFiles as Files>::File>);

impl store::Payloads for JournalPayloads {
    fn read(&self, location: store::Location, out: &mut Vec<u8>) -> std::io::Result<()> {
        out.resize(location.len as usize, 0);
        let position = journal::Position { segment: location.segment, offset: location.offset };
        self.0.read_into(position, out).map_err(std::io::Error::other)
    }
}
