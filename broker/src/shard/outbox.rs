//! The bytes that wait for a connection's writer. The shard appends whole frames and wakes the writer once a turn.
//!
//! Deliveries are bounded by credit and publish replies by the window; a client that asks on and on without reading is cut off here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Bytes that may wait for a client that does not read. Beyond it the connection ends; what it had leased is delivered again.
const WAITING_BYTES_MAX: usize = 256 << 20;

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
    nudged: bool,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while appending leaves a partial frame at worst, and that connection is broken anyway.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends frames; [`Outbox::wake`] sends them.
    pub fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut inner = self.lock();
        if inner.closed {
            return;
        }
        write(&mut inner.buffer);
        if inner.buffer.len() > WAITING_BYTES_MAX {
            tracing::warn!(bytes = inner.buffer.len(), "a client does not read what it asks for; its connection ends");
            inner.buffer = Vec::new();
            inner.closed = true;
        }
    }

    /// Bytes that wait for the writer.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.lock().buffer.len() as u64
    }

    /// Wakes the writer.
    pub fn wake(&self) {
        self.filled.notify_one();
    }

    /// Has the writer look up although there may be no frames: its transport has something of its own to say.
    pub(crate) fn nudge(&self) {
        self.lock().nudged = true;
        self.filled.notify_one();
    }

    /// Takes no more frames; the writer ends once it has sent what there is.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Waits for frames and takes them all, leaving `spare`'s memory in their place; none after a nudge. `None`: closed, and everything was
    /// taken.
    pub async fn take(&self, mut spare: Vec<u8>) -> Option<Vec<u8>> {
        spare.clear();
        loop {
            {
                let mut inner = self.lock();
                if std::mem::take(&mut inner.nudged) || !inner.buffer.is_empty() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_appended_before_the_close_is_taken_and_nothing_after() {
        let outbox = Outbox::default();
        outbox.append(|out| out.extend_from_slice(b"one"));
        outbox.append(|out| out.extend_from_slice(b"two"));
        outbox.close();
        outbox.append(|out| out.extend_from_slice(b"late"));
        assert_eq!(outbox.take(Vec::new()).await.as_deref(), Some(&b"onetwo"[..]));
        assert_eq!(outbox.take(Vec::new()).await, None);
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_cut_off() {
        let outbox = Outbox::default();
        outbox.append(|out| out.resize(WAITING_BYTES_MAX + 1, 0));
        assert_eq!(outbox.take(Vec::new()).await, None);
    }
}
