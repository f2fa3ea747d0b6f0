//! Back-pressure on publishers: so many messages and payload bytes may be unacknowledged; whoever wants more waits in line.

use tokio::sync::{Semaphore, TryAcquireError};

use crate::error::Error;

#[derive(Debug)]
pub(crate) struct Window {
    messages: Semaphore,
    messages_max: u32,
    bytes: Semaphore,
    bytes_max: u32,
}

impl Window {
    pub(crate) fn new(messages: usize, bytes: usize) -> Window {
        let clamp = |n: usize| u32::try_from(n.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX >> 3);
        let (messages_max, bytes_max) = (clamp(messages), clamp(bytes));
        Window { messages: Semaphore::new(messages_max as usize), messages_max, bytes: Semaphore::new(bytes_max as usize), bytes_max }
    }

    /// The most messages that may be taken at once.
    pub(crate) fn messages_max(&self) -> u32 {
        self.messages_max
    }

    /// The most payload bytes that may be taken at once.
    pub(crate) fn bytes_max(&self) -> u32 {
        self.bytes_max
    }

    /// What a payload of that size takes from the window: a message larger than the whole window takes all of it.
    pub(crate) fn cost(&self, payload_bytes: usize) -> u32 {
        u32::try_from(payload_bytes).unwrap_or(u32::MAX).min(self.bytes_max)
    }

    /// Takes room, waiting for it in line.
    pub(crate) async fn take(&self, messages: u32, bytes: u32) -> Result<(), Error> {
        if self.try_take(messages, bytes)? {
            return Ok(());
        }
        let messages = self.messages.acquire_many(messages).await.map_err(|_| Error::Closed)?;
        let bytes = self.bytes.acquire_many(bytes).await.map_err(|_| Error::Closed)?;
        messages.forget();
        bytes.forget();
        Ok(())
    }

    /// Takes room if it is there.
    pub(crate) fn try_take(&self, messages: u32, bytes: u32) -> Result<bool, Error> {
        let messages = match self.messages.try_acquire_many(messages) {
            Ok(permit) => permit,
            Err(TryAcquireError::NoPermits) => return Ok(false),
            Err(TryAcquireError::Closed) => return Err(Error::Closed),
        };
        match self.bytes.try_acquire_many(bytes) {
            Ok(permit) => permit.forget(),
            Err(TryAcquireError::NoPermits) => return Ok(false),
            Err(TryAcquireError::Closed) => return Err(Error::Closed),
        }
        messages.forget();
        Ok(true)
    }

    /// Gives room back.
    pub(crate) fn give(&self, messages: usize, bytes: usize) {
        self.bytes.add_permits(bytes);
        self.messages.add_permits(messages);
    }

    /// From now on every taker gets [`Error::Closed`].
    pub(crate) fn close(&self) {
        self.messages.close();
        self.bytes.close();
    }
}
