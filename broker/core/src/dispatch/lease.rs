//! A lease: the temporary hold of one consumer on one message.

use std::hash::{DefaultHasher, Hasher};

use crate::dispatch::GroupKey;
use crate::ids::{Millis, Seq, SessionId, SubscriptionKey};

/// What an ack presents. Unguessable, and void once the epoch has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId {
    /// The epoch that granted it.
    pub epoch: u64,
    /// Its number within the epoch.
    pub counter: u64,
    /// Proof that the broker granted it.
    pub secret: u64,
}

impl LeaseId {
    pub(crate) fn new(epoch: u64, counter: u64, secret: u64) -> LeaseId {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(secret);
        hasher.write_u64(epoch);
        hasher.write_u64(counter);
        LeaseId { epoch, counter, secret: hasher.finish() }
    }

    /// The 24 bytes on the wire: each part big-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.counter.to_be_bytes());
        bytes[16..].copy_from_slice(&self.secret.to_be_bytes());
        bytes
    }

    /// Reads what [`LeaseId::to_bytes`] wrote; `None` when the length is wrong.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<LeaseId> {
        let bytes: &[u8; 24] = bytes.try_into().ok()?;
        let part = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Some(LeaseId { epoch: part(0), counter: part(8), secret: part(16) })
    }
}

/// A granted lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    pub(crate) group: GroupKey,
    pub(crate) seq: Seq,
    /// The connection that may settle it; `None`: whoever is authorised and has the id.
    pub(crate) owner: Option<SessionId>,
    pub(crate) subscription: SubscriptionKey,
    /// Its length when it was granted.
    pub(crate) visibility_timeout_ms: u64,
    pub(crate) deadline: Millis,
    pub(crate) attempt: u32,
    pub(crate) bytes: u32,
    /// Its end is proposed and not durable yet.
    pub(crate) settling: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_depend_on_every_part() {
        let id = LeaseId::new(3, 9, 77);
        assert_eq!(LeaseId::from_bytes(&id.to_bytes()), Some(id));
        assert_eq!(LeaseId::from_bytes(&id.to_bytes()[1..]), None);
        for other in [LeaseId::new(4, 9, 77), LeaseId::new(3, 8, 77), LeaseId::new(3, 9, 78)] {
            assert_ne!(id.secret, other.secret);
        }
    }
}
