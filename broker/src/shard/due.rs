//! Delayed messages that fall due: they move into their queue with their payloads, and get their sequence there.

use qwerq_core::entry::{ItemHead, MESSAGES_PER_ENTRY_MAX, Origin};
use qwerq_core::{DelayedKey, DelayedMessage, Millis, QueueId, Space};

use super::log::MovedMessage;
use super::{Fault, Shard};

/// Payload bytes after which an entry ends.
const ENTRY_BYTES: usize = 2 << 20;

impl Shard {
    /// Moves what is due, as much as one turn takes.
    pub(super) fn fall_due(&mut self, now: Millis) -> Result<(), Fault> {
        self.more_due = false;
        if self.state.next_due().is_none_or(|at| at > now) {
            return Ok(());
        }
        let due: Vec<(QueueId, Vec<_>)> =
            self.state.due_queues(now).map(|queue| (queue.id, queue.delayed().due(now).take(MESSAGES_PER_ENTRY_MAX).collect())).collect();
        for (queue, messages) in due {
            self.more_due |= messages.len() == MESSAGES_PER_ENTRY_MAX;
            if !self.log.has_room(ENTRY_BYTES + self.largest_message(queue)) {
                self.more_due = true;
                return Ok(());
            }
            self.move_due(now, queue, &messages)?;
        }
        Ok(())
    }

    fn largest_message(&self, queue: QueueId) -> usize {
        self.state.queue(queue).map_or(0, |queue| queue.options.max_message_bytes as usize)
    }

    fn move_due(&mut self, now: Millis, queue: QueueId, messages: &[(DelayedKey, DelayedMessage)]) -> Result<(), Fault> {
        let mut moved = Vec::with_capacity(messages.len());
        let mut bytes = 0;
        for (key, message) in messages {
            if bytes >= ENTRY_BYTES {
                self.more_due = true;
                break;
            }
            let stored = self.payloads.with_in((queue, Space::Delayed), key.number, <[u8]>::to_vec)?;
            bytes += stored.len();
            let head = ItemHead { size: message.size, key: message.key, expires_at: message.expires_at, ..ItemHead::default() };
            moved.push(MovedMessage { head, stored });
        }
        let keys = messages.iter().take(moved.len()).map(|(key, _)| *key).collect();
        self.log.push_moved(now, Origin::Due { queue, keys }, moved);
        Ok(())
    }
}
