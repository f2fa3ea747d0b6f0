//! [`MessageKey`]: the name of one stored message, and its order on disk.
//!
//! Keys sort by queue, then space, then number, so that a queue's messages lie together and in
//! order. What a number means is the core's affair.

use std::fmt;

/// Names one stored message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey {
    /// The queue's id. Ids are never reused.
    pub queue: u32,
    /// [`MessageKey::LIVE`] or [`MessageKey::DELAYED`]: which numbering `number` belongs to.
    pub space: u8,
    /// The sequence number, or the admission number of a message that is not due yet.
    pub number: u64,
}

impl MessageKey {
    /// The space of messages that have a sequence number.
    pub const LIVE: u8 = 0;
    /// The space of messages that are not due yet, numbered by admission.
    pub const DELAYED: u8 = 1;
    /// Length of the key on disk, in bytes.
    pub const BYTES: usize = 13;

    /// The key on disk: big-endian, so that byte order is numeric order.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.queue.to_be_bytes());
        bytes[4] = self.space;
        bytes[5..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// Reads a key back; `None` when it has the wrong length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (queue, rest) = bytes.split_first_chunk()?;
        let (space, number) = rest.split_first()?;
        Some(Self { queue: u32::from_be_bytes(*queue), space: *space, number: u64::from_be_bytes(number.try_into().ok()?) })
    }

    /// The same queue and space with another number.
    #[must_use]
    pub(super) fn at(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// Whether both keys belong to one numbering.
    pub(super) fn is_beside(self, other: Self) -> bool {
        (self.queue, self.space) == (other.queue, other.space)
    }
}

impl fmt::Display for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.space {
            Self::LIVE => "message",
            Self::DELAYED => "delayed message",
            _ => "message of an unknown space",
        };
        write!(f, "{kind} {} of queue {}", self.number, self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_on_disk_as_in_memory() {
        let mut keys = Vec::new();
        for queue in [0, 1, 255, 256, u32::MAX] {
            for space in [MessageKey::LIVE, MessageKey::DELAYED] {
                for number in [0, 1, 255, 256, u64::MAX] {
                    keys.push(MessageKey { queue, space, number });
                }
            }
        }
        assert!(keys.is_sorted());
        assert!(keys.iter().map(|key| key.to_bytes()).is_sorted());
        for key in keys {
            assert_eq!(MessageKey::from_bytes(&key.to_bytes()), Some(key));
        }
        assert_eq!(MessageKey::from_bytes(&[0; 12]), None);
        assert_eq!(MessageKey::from_bytes(&[0; 14]), None);
    }
}
