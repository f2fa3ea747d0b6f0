//! The shard's end of the cluster: it proposes turns, takes what is committed, and asks whether it may serve.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::committed::{Committed, Content, Queue};
use super::lease::Lease;
use super::log::Log;
use super::mark::Mark;
use super::raft::{ELECTION_MAX, Raft, Turn};
use super::record;
use super::runtime::now;
use crate::files::{DiskFiles, Files};
use crate::journal::Position;
use crate::store::RowChange;

/// How long a leader waits for a quorum before it stops serving.
pub(crate) const PATIENCE: Duration = ELECTION_MAX.saturating_mul(2);

/// What this node is, as its parts tell each other.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The term that this node leads in, by Raft; 0: it does not.
    pub(crate) led: AtomicU64,
    /// The term in which its shard serves; 0: it does not.
    pub(crate) serving: AtomicU64,
    /// The last entry that the shard has applied, as an index behind it.
    pub(crate) applied: AtomicU64,
    /// It is about to hand over and must not serve.
    pub(crate) yielding: AtomicBool,
    /// Raft has stopped; the log says why.
    pub(crate) failed: AtomicBool,
    /// A snapshot is ready to take the place of its files.
    pub(crate) replaced: AtomicBool,
    /// When a leader was last heard.
    heard: Mutex<Option<Instant>>,
}

impl Standing {
    /// The term that this node leads in, unless it hands over.
    pub(crate) fn leads(&self) -> Option<u64> {
        let term = self.led.load(Ordering::Acquire);
        (term > 0 && !self.yielding.load(Ordering::Acquire)).then_some(term)
    }

    /// When a leader was last heard.
    pub(crate) fn heard(&self) -> Option<Instant> {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A leader is heard, this moment.
    pub(crate) fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(now());
    }
}

/// A committed entry, for the shard.
#[derive(Debug)]
pub(crate) struct Applicable {
    /// The journal's index of it.
    pub(crate) index: u64,
    /// The term in which it was proposed.
    pub(crate) term: u64,
    /// The turn's bytes and where they are in the journal; `None`: it concerns the cluster alone.
    pub(crate) turn: Option<(Bytes, Position)>,
}

/// The link between a shard and its cluster. Dropping it stops the node's Raft and lets the journal go, and waits for
/// both.
pub(crate) struct Link<F: Files = DiskFiles> {
    pub(super) raft: openraft::Raft<Raft>,
    pub(super) log: Log<F>,
    pub(super) queue: Arc<Queue>,
    pub(super) lease: Arc<Lease>,
    pub(super) standing: Arc<Standing>,
    /// What the shard has applied.
    pub(super) mark: Mark,
    /// Answers of Raft to proposals; nobody needs them, but Raft complains when nobody listens.
    pub(super) answers: Vec<oneshot::Receiver<openraft::raft::ClientWriteResult<Raft>>>,
    pub(super) stop: Option<oneshot::Sender<()>>,
    pub(super) thread: Option<JoinHandle<()>>,
}

/// Why the shard cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// Raft has stopped.
    Failed,
    /// The files are about to be replaced.
    Replaced,
}

impl<F: Files> Link<F> {
    /// The term that this node leads in, by Raft.
    pub(crate) fn leads(&self) -> Option<u64> {
        self.standing.leads()
    }

    /// The same, although it is about to hand over.
    pub(crate) fn raft_term(&self) -> Option<u64> {
        Some(self.standing.led.load(Ordering::Acquire)).filter(|term| *term > 0)
    }

    /// Whether the leader of `term` may serve right now.
    pub(crate) fn may_serve(&self, term: u64) -> bool {
        self.may_serve_at(term, Instant::now())
    }

    /// Whether it may at `now`.
    pub(crate) fn may_serve_at(&self, term: u64, now: Instant) -> bool {
        self.leads() == Some(term) && self.lease.holds(term, now)
    }

    /// Waits until the leader of `term` may serve, unless it does not lead any more or that takes too long.
    pub(crate) fn await_lease(&self, term: u64) -> bool {
        const LOOK_AGAIN: Duration = Duration::from_millis(5);
        let until = Instant::now() + PATIENCE;
        while !self.may_serve(term) {
            if self.leads() != Some(term) || Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        true
    }

    pub(crate) fn interruption(&self) -> Option<Interruption> {
        if self.standing.failed.load(Ordering::Acquire) {
            Some(Interruption::Failed)
        } else if self.standing.replaced.load(Ordering::Acquire) {
            Some(Interruption::Replaced)
        } else {
            None
        }
    }

    /// Says whether the shard serves.
    pub(crate) fn set_serving(&self, term: Option<u64>) {
        self.standing.serving.store(term.unwrap_or(0), Ordering::Release);
    }

    /// Proposes a turn. Whether it is committed shows when it comes back.
    pub(crate) fn propose(&mut self, turn: Bytes) {
        self.queue.attend();
        let proposed = pin!(self.raft.client_write_ff(Turn::new(turn)));
        // It only puts the proposal into Raft's queue; a Raft that has stopped says so elsewhere.
        if let std::task::Poll::Ready(Ok(answer)) = proposed.poll(&mut Context::from_waker(Waker::noop())) {
            self.answers.retain_mut(|answer| matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
            self.answers.push(answer);
        }
    }

    /// The next committed entry; `None`: there is none, and the next one will wake the shard.
    pub(crate) fn take(&mut self) -> Option<Applicable> {
        self.queue.take().map(|committed| self.applicable(committed))
    }

    /// Waits for the next committed entry. `None`: something else may have changed, or it is `until`.
    pub(crate) fn wait(&mut self, until: Instant) -> Option<Applicable> {
        self.queue.wait(until).map(|committed| self.applicable(committed))
    }

    fn applicable(&mut self, committed: Committed) -> Applicable {
        let Committed { log_id, content } = committed;
        self.mark.last = Some(log_id);
        let turn = match content {
            Content::Turn(bytes, position) => Some((bytes, position)),
            Content::Membership(membership) => {
                self.mark.membership = membership;
                None
            }
            Content::Blank => None,
        };
        self.standing.applied.store(log_id.index + 1, Ordering::Release);
        Applicable { index: record::journal_index(log_id.index), term: log_id.leader_id.term, turn }
    }

    /// The journal's index of the last entry that was taken.
    pub(crate) fn applied(&self) -> u64 {
        self.mark.last.map_or(0, |last| record::journal_index(last.index))
    }

    /// The row that a checkpoint of what was taken so far must write.
    pub(crate) fn row(&self) -> RowChange {
        self.mark.row()
    }

    /// What the journal takes on the disk.
    pub(crate) fn journal_bytes(&self) -> u64 {
        self.log.disk_bytes()
    }

    /// A checkpoint is durable.
    pub(crate) fn checkpointed(&self) {
        let trigger = self.raft.trigger();
        let told = pin!(trigger.snapshot());
        // As in `propose`.
        let _ = told.poll(&mut Context::from_waker(Waker::noop()));
    }
}

impl<F: Files> Drop for Link<F> {
    fn drop(&mut self) {
        self.set_serving(None);
        drop(self.stop.take());
        // A thread that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
        self.log.stop();
    }
}
