//! The bytes that wait for a connection's writer. The shard appends whole frames and wakes the writer once a turn.
//!
//! What may wait here is bounded elsewhere: deliveries by credit, replies by the publish window and by in-order requests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A connection's outgoing frames.
#[derive(Debug, Default)]
pub struct Outbox {
    inner: Mutex<Inner>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    buffer: Vec<u8>,
    closed: bool,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while appending leaves a partial frame at worst, and that connection is broken anyway.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends frames; [`Outbox::wake`] sends them.
    pub fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut inner = self.lock();
        if !inner.closed {
            write(&mut inner.buffer);
        }
    }

    /// Wakes the writer.
    pub fn wake(&self) {
        self.filled.notify_one();
    }

    /// Takes no more frames; the writer ends once it has sent what there is.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Waits for frames and takes them all, leaving `spare`'s memory in their place. `None`: closed, and everything was taken.
    pub async fn take(&self, mut spare: Vec<u8>) -> Option<Vec<u8>> {
        spare.clear();
        loop {
            {
                let mut inner = self.lock();
                if !inner.buffer.is_empty() {
                    return Some(std::mem::replace(&mut inner.buffer, spare));
                }
                if inner.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }
}
