//! Message ids: 16 bytes, written as a ULID (26 letters of Crockford's base 32) when the broker made them.
//!
//! An id is opaque to the client; it need not be unique when the publisher chose it.

use std::fmt;
use std::str::FromStr;

use qwerq_proto::MESSAGE_ID_BYTES;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TEXT_LEN: usize = 26;

/// A message's id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MessageId(pub [u8; MESSAGE_ID_BYTES]);

impl MessageId {
    /// The id of those bytes, if there are exactly 16.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<MessageId> {
        Some(MessageId(bytes.try_into().ok()?))
    }

    /// The 16 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; MESSAGE_ID_BYTES] {
        &self.0
    }
}

impl From<[u8; MESSAGE_ID_BYTES]> for MessageId {
    fn from(bytes: [u8; MESSAGE_ID_BYTES]) -> MessageId {
        MessageId(bytes)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u128::from_be_bytes(self.0);
        let mut text = [0_u8; TEXT_LEN];
        for letter in text.iter_mut().rev() {
            *letter = ALPHABET[usize::try_from(rest & 31).expect("five bits")];
            rest >>= 5;
        }
        f.pad(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({self})")
    }
}

/// The text is not a message id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message id is 26 letters and digits of Crockford's base 32, the first at most 7")]
pub struct ParseIdError;

impl FromStr for MessageId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<MessageId, ParseIdError> {
        if text.len() != TEXT_LEN {
            return Err(ParseIdError);
        }
        let mut value = 0_u128;
        for (i, byte) in text.bytes().enumerate() {
            let letter = byte.to_ascii_uppercase();
            let digit = ALPHABET.iter().position(|a| *a == letter).ok_or(ParseIdError)?;
            if i == 0 && digit > 7 {
                return Err(ParseIdError);
            }
            value = value << 5 | u128::try_from(digit).expect("below 32");
        }
        Ok(MessageId(value.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let ids = [[0; 16], [0xff; 16], *b"0123456789abcdef"];
        for bytes in ids {
            let text = MessageId(bytes).to_string();
            assert_eq!(text.parse::<MessageId>(), Ok(MessageId(bytes)), "{text}");
            assert_eq!(text.to_lowercase().parse::<MessageId>(), Ok(MessageId(bytes)));
        }
        assert_eq!(MessageId([0xff; 16]).to_string(), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
    }

    #[test]
    fn other_text_is_refused() {
        for text in
            ["", "7ZZZZZZZZZZZZZZZZZZZZZZZZ", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "UZZZZZZZZZZZZZZZZZZZZZZZZZ", "é12345678901234567890123X"]
        {
            assert_eq!(text.parse::<MessageId>(), Err(ParseIdError), "{text}");
        }
    }
}
