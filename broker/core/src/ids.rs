//! The identifiers of the core. Ids are newtypes, so that a queue's number cannot pass for a group's.

use std::fmt;
use std::str::FromStr;

/// Milliseconds since the Unix epoch on the core's logical clock, which never goes back.
pub type Millis = u64;

/// A message's position in its queue, or offset in its stream: from 0, without gaps, in order of acceptance.
pub type Seq = u64;

/// A queue's number. Never reused, also not after a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

/// A consumer group's number, unique in the shard and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// A connection, for as long as it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A subscription: the connection and the number that the client gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionKey {
    /// The connection.
    pub session: SessionId,
    /// The client's number, a u32; above that range the broker numbers pulls.
    pub number: u64,
}

impl SubscriptionKey {
    const PULLS: u64 = 1 << 32;

    /// The connection's `nth` pull, which no number of a client's can name.
    #[must_use]
    pub fn pull(session: SessionId, nth: u64) -> SubscriptionKey {
        SubscriptionKey { session, number: SubscriptionKey::PULLS + nth }
    }

    /// Whether it is a pull.
    #[must_use]
    pub fn is_pull(self) -> bool {
        self.number >= SubscriptionKey::PULLS
    }
}

/// A message id: a ULID when the broker makes it, the client's 16 bytes otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub [u8; 16]);

impl MessageId {
    /// A ULID of admission time, shard, queue and admission counter. Unique without randomness: the counter rises within a millisecond
    /// and the logical clock never goes back.
    #[must_use]
    pub fn ulid(now: Millis, shard: u16, queue: QueueId, counter: u32) -> MessageId {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&now.to_be_bytes()[2..]);
        bytes[6..8].copy_from_slice(&shard.to_be_bytes());
        bytes[8..12].copy_from_slice(&queue.0.to_be_bytes());
        bytes[12..].copy_from_slice(&counter.to_be_bytes());
        MessageId(bytes)
    }
}

/// Crockford's base 32.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

impl fmt::Display for MessageId {
    /// 26 characters of Crockford's base 32, as ULIDs are written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = u128::from_be_bytes(self.0);
        for shift in (0..26).rev() {
            let digit = (value >> (shift * 5)) & 31;
            let index = usize::try_from(digit).expect("five bits");
            write!(f, "{}", char::from(ALPHABET[index]))?;
        }
        Ok(())
    }
}

impl FromStr for MessageId {
    type Err = NoMessageId;

    /// Reads what `Display` writes, in any case.
    fn from_str(text: &str) -> Result<MessageId, NoMessageId> {
        if text.len() != 26 {
            return Err(NoMessageId);
        }
        let mut value = 0_u128;
        for (at, letter) in text.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|known| known.eq_ignore_ascii_case(&letter)).ok_or(NoMessageId)?;
            // 26 digits hold two bits more than 16 bytes.
            if at == 0 && digit > 7 {
                return Err(NoMessageId);
            }
            value = value << 5 | u128::try_from(digit).expect("five bits");
        }
        Ok(MessageId(value.to_be_bytes()))
    }
}

/// A text that is no message id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message id is 26 letters and digits of Crockford's base 32, the first at most 7")]
pub struct NoMessageId;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ulids_sort_by_time_and_print_as_26_characters() {
        let early = MessageId::ulid(1, 0, QueueId(9), 7);
        let late = MessageId::ulid(2, 0, QueueId(1), 0);
        assert!(early < late);
        assert_eq!(early.to_string().len(), 26);
        assert!(early.to_string() < late.to_string());
        assert_eq!(MessageId([0xff; 16]).to_string(), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
        for id in [early, late, MessageId([0xff; 16])] {
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(id.to_string().to_lowercase().parse(), Ok(id));
        }
        for text in ["", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "7ZZZZZZZZZZZZZZZZZZZZZZZZU", "7ZZZZZZZZZZZZZZZZZZZZZZZZ"] {
            assert_eq!(text.parse::<MessageId>(), Err(NoMessageId), "{text:?}");
        }
    }
}
