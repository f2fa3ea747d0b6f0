//! What is committed, on its way from Raft to the shard. Bounded: Raft waits while the shard is far behind.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::Notify;

use super::raft::{LogId, StoredMembership};
use crate::journal::Position;

/// Bytes that may wait for the shard.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// An entry that is committed and, here, on the disk.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) log_id: LogId,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// A turn of the leader's shard, and where its bytes begin in the journal.
    Turn(Bytes, Position),
    /// The cluster's members.
    Membership(StoredMembership),
    /// A leader has begun its term.
    Blank,
}

impl Committed {
    fn bytes(&self) -> usize {
        const ITEM: usize = 64;
        ITEM + match &self.content {
            Content::Turn(bytes, _) => bytes.len(),
            Content::Membership(_) | Content::Blank => 0,
        }
    }
}

/// The queue.
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    /// For the shard, when it waits in here.
    filled: Condvar,
    /// For Raft.
    taken: Notify,
    /// Tells a shard that does not wait in here that there is something.
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Inner {
    items: VecDeque<Committed>,
    bytes: usize,
    /// The shard waits for what comes, or will look before it waits for anything else.
    attentive: bool,
    /// Something besides items wants its attention.
    nudged: bool,
}

impl Queue {
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Arc<Queue> {
        Arc::new(Queue { inner: Mutex::default(), filled: Condvar::new(), taken: Notify::new(), wake: Box::new(wake) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that holds the lock can leave it half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds items, once there is room.
    pub(crate) async fn push(&self, items: Vec<Committed>) {
        loop {
            let taken = self.taken.notified();
            if self.lock().bytes < WAITING_BYTES_MAX {
                break;
            }
            taken.await;
        }
        let mut inner = self.lock();
        inner.bytes += items.iter().map(Committed::bytes).sum::<usize>();
        inner.items.extend(items);
        self.tell(inner);
    }

    /// Has the shard look up: who leads may have changed.
    pub(crate) fn nudge(&self) {
        let mut inner = self.lock();
        inner.nudged = true;
        self.tell(inner);
    }

    fn tell(&self, mut inner: MutexGuard<'_, Inner>) {
        if inner.attentive {
            self.filled.notify_one();
            return;
        }
        // It will look, once is enough.
        inner.attentive = true;
        drop(inner);
        (self.wake)();
    }

    /// The shard will look without being woken.
    pub(crate) fn attend(&self) {
        self.lock().attentive = true;
    }

    /// Takes the next item. `None`: there is none, and the next one will wake the shard.
    pub(crate) fn take(&self) -> Option<Committed> {
        let mut inner = self.lock();
        let item = inner.items.pop_front();
        match &item {
            Some(item) => self.took(&mut inner, item),
            None => {
                inner.attentive = false;
                inner.nudged = false;
            }
        }
        item
    }

    /// Waits for an item until `until`, or until it is nudged.
    pub(crate) fn wait(&self, until: Instant) -> Option<Committed> {
        let mut inner = self.lock();
        inner.attentive = true;
        loop {
            if let Some(item) = inner.items.pop_front() {
                self.took(&mut inner, &item);
                return Some(item);
            }
            if std::mem::take(&mut inner.nudged) {
                return None;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            inner = self.filled.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn took(&self, inner: &mut Inner, item: &Committed) {
        inner.bytes -= item.bytes();
        self.taken.notify_waiters();
    }
}
