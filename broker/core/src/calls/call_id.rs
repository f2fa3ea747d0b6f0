//! What a reply presents: the number of the call and the proof that the broker gave it out.

use std::hash::{DefaultHasher, Hasher};

/// A call in flight. Numbers are never reused, so that a late reply cannot be taken for that of another call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId {
    /// Its number since the broker's start.
    pub counter: u64,
    /// A keyed hash of it.
    pub proof: u64,
}

impl CallId {
    pub(super) fn new(counter: u64, secret: u64) -> CallId {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(secret);
        hasher.write_u64(counter);
        CallId { counter, proof: hasher.finish() }
    }

    /// The 16 bytes on the wire: each part big-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.counter.to_be_bytes());
        bytes[8..].copy_from_slice(&self.proof.to_be_bytes());
        bytes
    }

    /// Reads what [`CallId::to_bytes`] wrote; `None` when the length is wrong.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<CallId> {
        let bytes: &[u8; 16] = bytes.try_into().ok()?;
        let (counter, proof) = bytes.split_at(8);
        let part = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("eight bytes"));
        Some(CallId { counter: part(counter), proof: part(proof) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_cannot_be_made_without_the_secret() {
        let id = CallId::new(9, 77);
        assert_eq!(CallId::from_bytes(&id.to_bytes()), Some(id));
        assert_eq!(CallId::from_bytes(&id.to_bytes()[1..]), None);
        assert_ne!(id.proof, CallId::new(9, 78).proof);
        assert_ne!(id.proof, CallId::new(8, 77).proof);
    }
}
