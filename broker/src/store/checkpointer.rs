//! [`Checkpointer`]: the thread that writes checkpoints, so that the shard never waits for LMDB.
//!
//! It decides nothing: when to checkpoint, and what a failure means, is the shard's.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

use super::{Checkpoint, Checkpointed, Location, Payloads, Store, StoreError};

/// Called on the checkpoint thread when a checkpoint has ended.
pub type WhenDone = Box<dyn FnOnce(Result<Checkpointed, StoreError>) + Send>;

struct Job {
    checkpoint: Checkpoint,
    when_done: WhenDone,
}

/// A checkpoint that was not taken because one is already waiting.
#[derive(Debug, thiserror::Error)]
#[error("a checkpoint is already waiting")]
pub struct CheckpointPending(pub Box<Checkpoint>);

/// Writes checkpoints one after the other on a thread of its own. Dropping it abandons the one
/// that runs and the one that waits: the store is then as after a crash, and nothing is lost, since
/// what they would have taken over is in the journal. A stop must not take as long as a checkpoint on
/// a slow disk.
#[derive(Debug)]
pub struct Checkpointer {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    abandoned: Arc<AtomicBool>,
}

/// Payloads for as long as somebody wants the checkpoint; a large one reads them again and again.
struct WhileWanted<P> {
    payloads: P,
    abandoned: Arc<AtomicBool>,
}

impl<P: Payloads> Payloads for WhileWanted<P> {
    fn read(&self, location: Location, out: &mut Vec<u8>) -> io::Result<()> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(io::Error::other("the checkpoint is abandoned"));
        }
        self.payloads.read(location, out)
    }
}

impl Checkpointer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(store: Arc<Store>, payloads: impl Payloads + Send + 'static) -> Result<Self, StoreError> {
        let path = store.dir().to_owned();
        let (jobs, inbox) = mpsc::sync_channel::<Job>(1);
        let abandoned = Arc::new(AtomicBool::new(false));
        let payloads = WhileWanted { payloads, abandoned: Arc::clone(&abandoned) };
        let run = move || {
            yield_to_the_shard();
            for job in inbox {
                (job.when_done)(store.checkpoint(job.checkpoint, &payloads));
            }
        };
        let thread = thread::Builder::new().name("checkpoint".to_owned()).spawn(run);
        let thread = thread.map_err(|source| StoreError::Io { action: "start the checkpoint thread of", path, source })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), abandoned })
    }

    /// Ends what runs and what waits with an error, as soon as it reads the next payloads.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Hands over a checkpoint, without waiting. `when_done` is called when it is durable or has
    /// failed.
    ///
    /// # Errors
    /// Gives the checkpoint back when one is already waiting behind the one that runs.
    ///
    /// # Panics
    /// When a former `when_done` panicked and took the thread down.
    pub fn submit(&self, checkpoint: Checkpoint, when_done: WhenDone) -> Result<(), CheckpointPending> {
        let jobs = self.jobs.as_ref().expect("the channel closes on drop only");
        match jobs.try_send(Job { checkpoint, when_done }) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(job)) => Err(CheckpointPending(Box::new(job.checkpoint))),
            Err(TrySendError::Disconnected(_)) => panic!("the checkpoint thread has died"),
        }
    }
}

/// Lowers this thread's priority: on a single core the shard must not wait for the end of a time slice when its sync returns.
fn yield_to_the_shard() {
    const NICE: i32 = 10;
    if let Err(error) = rustix::process::nice(NICE) {
        tracing::debug!(%error, "the checkpoint thread keeps its priority");
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.abandon();
        drop(self.jobs.take());
        // A thread that panicked has said so; there is nobody to pass the panic on to.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
