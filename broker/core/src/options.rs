//! A queue's options: names, defaults and limits as docs/queues.md states them, one field each.

use std::fmt;
use std::str::FromStr;

use crate::codec::{DecodeError, Decoder, put_varint};

/// A word that an option does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a {option}; known are {known}")]
pub struct UnknownWord {
    /// The option.
    pub option: &'static str,
    /// What was given.
    pub given: String,
    /// The words that it takes.
    pub known: &'static str,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $option:literal, $known:literal { $($(#[$variant_doc:meta])* $variant:ident = $number:literal, $word:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// The word that users set it by.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            fn number(self) -> u64 {
                match self { $($name::$variant => $number,)* }
            }

            fn from_number(value: u64) -> Result<$name, DecodeError> {
                match value {
                    $($number => Ok($name::$variant),)*
                    _ => Err(DecodeError::Invalid { field: $option, value }),
                }
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<$name, UnknownWord> {
                match word {
                    $($word => Ok($name::$variant),)*
                    _ => Err(UnknownWord { option: $option, given: word.to_owned(), known: $known }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

words! {
    /// How messages leave.
    Mode, "mode", "queue, stream" {
        /// Competing consumers; what all groups settled is removed.
        Queue = 0, "queue";
        /// Append-only; readers keep an offset.
        Stream = 1, "stream";
    }
}
words! {
    /// What happens to a message that has used up its deliveries or was rejected.
    OnFailure, "on_failure", "dlq, drop, retry-forever" {
        /// It moves to `<queue>.dlq`.
        Dlq = 0, "dlq";
        /// It is settled and gone.
        Drop = 1, "drop";
        /// It goes on being delivered.
        RetryForever = 2, "retry-forever";
    }
}
words! {
    /// Whether payloads without a contract, and unknown fields, pass.
    SchemaMode, "schema_mode", "permissive, strict" {
        /// They pass.
        Permissive = 0, "permissive";
        /// They are refused.
        Strict = 1, "strict";
    }
}
words! {
    /// What happens to a payload that breaks the contract.
    OnInvalid, "on_invalid", "reject, dlq" {
        /// The publish is refused.
        Reject = 0, "reject";
        /// It goes to the dead letter queue, and the reply says so.
        Dlq = 1, "dlq";
    }
}
words! {
    /// What happens to a publish into a full queue.
    OnFull, "on_full", "reject, drop-oldest" {
        /// It is refused.
        Reject = 0, "reject";
        /// The oldest message that is not leased makes room.
        DropOldest = 1, "drop-oldest";
    }
}
words! {
    /// What happens to a message whose ttl has passed.
    OnExpiry, "on_expiry", "drop, dlq" {
        /// It is removed and counted.
        Drop = 0, "drop";
        /// It moves to the dead letter queue.
        Dlq = 1, "dlq";
    }
}
words! {
    /// How much of a contract a new version must keep.
    Level, "compatibility level", "none, wire, wire-json, source" {
        /// Nothing.
        None = 0, "none";
        /// Binary payloads.
        Wire = 1, "wire";
        /// Binary and JSON payloads.
        WireJson = 2, "wire-json";
        /// Generated code too.
        Source = 3, "source";
    }
}
words! {
    /// Which side must keep working.
    Direction, "compatibility direction", "backward, forward, full" {
        /// New readers read old messages.
        Backward = 0, "backward";
        /// Old readers read new messages.
        Forward = 1, "forward";
        /// Both.
        Full = 2, "full";
    }
}
words! {
    /// Against which versions a new one is judged.
    Against, "compatibility base", "last, all" {
        /// The active one.
        Last = 0, "last";
        /// Every one that is not retired.
        All = 1, "all";
    }
}

/// The rule that a new version of a contract must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compatibility {
    /// How much.
    pub level: Level,
    /// For whom.
    pub direction: Direction,
    /// Against what.
    pub against: Against,
}

impl fmt::Display for Compatibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.level, self.direction, self.against)
    }
}

impl FromStr for Compatibility {
    type Err = UnknownWord;

    /// `LEVEL[,DIRECTION[,AGAINST]]`; what is left out is `full` and `last`.
    fn from_str(text: &str) -> Result<Compatibility, UnknownWord> {
        let mut parts = text.splitn(3, ',').map(str::trim);
        let level = parts.next().unwrap_or_default().parse()?;
        let direction = parts.next().map_or(Ok(Direction::Full), str::parse)?;
        let against = parts.next().map_or(Ok(Against::Last), str::parse)?;
        Ok(Compatibility { level, direction, against })
    }
}

/// Every option of a queue. Durations are milliseconds, sizes bytes; 0 means none where the field says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOptions {
    /// Queue or stream.
    pub mode: Mode,
    /// How long a lease lasts.
    pub visibility_timeout_ms: u64,
    /// Deliveries before failure handling.
    pub max_deliveries: u32,
    /// Failure handling.
    pub on_failure: OnFailure,
    /// Delay after the first nack; doubles with each. 0: none.
    pub retry_backoff_first_ms: u64,
    /// What the delay grows to at most.
    pub retry_backoff_max_ms: u64,
    /// Overrides the broker's mode.
    pub schema_mode: Option<SchemaMode>,
    /// What a contract violation leads to.
    pub on_invalid: OnInvalid,
    /// The rule for new versions.
    pub compatibility: Compatibility,
    /// Stored messages, delayed ones included. 0: no limit (streams).
    pub max_messages: u64,
    /// Stored bytes of payloads and headers.
    pub max_bytes: u64,
    /// Streams: age after which messages go. 0: none.
    pub max_age_ms: u64,
    /// What a publish beyond the limits leads to.
    pub on_full: OnFull,
    /// How long an idempotency key is remembered.
    pub dedup_window_ms: u64,
    /// How many keys are remembered.
    pub dedup_max_keys: u64,
    /// Default ttl of messages. 0: none.
    pub message_ttl_ms: u64,
    /// What a passed ttl leads to.
    pub on_expiry: OnExpiry,
    /// Default delay of messages. 0: none.
    pub delay_ms: u64,
    /// Largest message: payload and headers.
    pub max_message_bytes: u32,
    /// Groups without consumers for so long are removed. 0: never.
    pub group_expiry_ms: u64,
    /// Intervals of settled messages above a group's floor before its dispatch pauses.
    pub max_unsettled: u64,
}

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions {
            mode: Mode::Queue,
            visibility_timeout_ms: 30_000,
            max_deliveries: 5,
            on_failure: OnFailure::Dlq,
            retry_backoff_first_ms: 1_000,
            retry_backoff_max_ms: 60_000,
            schema_mode: None,
            on_invalid: OnInvalid::Reject,
            compatibility: Compatibility { level: Level::WireJson, direction: Direction::Full, against: Against::Last },
            max_messages: 1_000_000,
            max_bytes: 1 << 30,
            max_age_ms: 0,
            on_full: OnFull::Reject,
            dedup_window_ms: 5 * 60_000,
            dedup_max_keys: 1_000_000,
            message_ttl_ms: 0,
            on_expiry: OnExpiry::Drop,
            delay_ms: 0,
            max_message_bytes: 1 << 20,
            group_expiry_ms: 0,
            max_unsettled: 1_000_000,
        }
    }
}

const VERSION: u8 = 1;

impl QueueOptions {
    /// What a dead letter queue has: nothing in it expires, nothing becomes a dead letter again, and it refuses nothing. The limits only
    /// say when a metric speaks up.
    #[must_use]
    pub fn for_dead_letters() -> QueueOptions {
        QueueOptions { on_failure: OnFailure::RetryForever, ..QueueOptions::default() }
    }

    /// The delay before the delivery that follows `attempts` ended ones: doubling, capped, with up to a quarter less as jitter, which is
    /// a hash so that every replica agrees.
    #[must_use]
    pub fn backoff_ms(&self, attempts: u32, jitter: u64) -> u64 {
        let doublings = attempts.saturating_sub(1).min(40);
        let full =
            self.retry_backoff_first_ms.saturating_mul(1 << doublings).min(self.retry_backoff_max_ms.max(self.retry_backoff_first_ms));
        full - jitter % (full / 4 + 1)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        let schema_mode = self.schema_mode.map_or(0, |mode| 1 + mode.number());
        for value in [
            self.mode.number(),
            self.visibility_timeout_ms,
            u64::from(self.max_deliveries),
            self.on_failure.number(),
            self.retry_backoff_first_ms,
            self.retry_backoff_max_ms,
            schema_mode,
            self.on_invalid.number(),
            self.compatibility.level.number(),
            self.compatibility.direction.number(),
            self.compatibility.against.number(),
            self.max_messages,
            self.max_bytes,
            self.max_age_ms,
            self.on_full.number(),
            self.dedup_window_ms,
            self.dedup_max_keys,
            self.message_ttl_ms,
            self.on_expiry.number(),
            self.delay_ms,
            u64::from(self.max_message_bytes),
            self.group_expiry_ms,
            self.max_unsettled,
        ] {
            put_varint(out, value);
        }
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<QueueOptions, DecodeError> {
        from.version("queue options version", VERSION)?;
        Ok(QueueOptions {
            mode: Mode::from_number(from.varint()?)?,
            visibility_timeout_ms: from.varint()?,
            max_deliveries: from.u32("max_deliveries")?,
            on_failure: OnFailure::from_number(from.varint()?)?,
            retry_backoff_first_ms: from.varint()?,
            retry_backoff_max_ms: from.varint()?,
            schema_mode: match from.varint()? {
                0 => None,
                mode => Some(SchemaMode::from_number(mode - 1)?),
            },
            on_invalid: OnInvalid::from_number(from.varint()?)?,
            compatibility: Compatibility {
                level: Level::from_number(from.varint()?)?,
                direction: Direction::from_number(from.varint()?)?,
                against: Against::from_number(from.varint()?)?,
            },
            max_messages: from.varint()?,
            max_bytes: from.varint()?,
            max_age_ms: from.varint()?,
            on_full: OnFull::from_number(from.varint()?)?,
            dedup_window_ms: from.varint()?,
            dedup_max_keys: from.varint()?,
            message_ttl_ms: from.varint()?,
            on_expiry: OnExpiry::from_number(from.varint()?)?,
            delay_ms: from.varint()?,
            max_message_bytes: from.u32("max_message_bytes")?,
            group_expiry_ms: from.varint()?,
            max_unsettled: from.varint()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_to_its_maximum_less_a_quarter_of_jitter() {
        let options = QueueOptions::default();
        for (attempts, full) in [(1, 1_000), (2, 2_000), (3, 4_000), (7, 60_000), (4_000_000, 60_000)] {
            assert_eq!(options.backoff_ms(attempts, 0), full);
            let jittered = options.backoff_ms(attempts, u64::MAX);
            assert!(jittered <= full && jittered >= full - full / 4, "{attempts}: {jittered}");
        }
        assert_eq!(QueueOptions { retry_backoff_first_ms: 0, retry_backoff_max_ms: 0, ..options }.backoff_ms(3, 9), 0);
    }

    #[test]
    fn options_round_trip() {
        let options = QueueOptions { schema_mode: Some(SchemaMode::Strict), mode: Mode::Stream, ..QueueOptions::default() };
        let mut bytes = Vec::new();
        options.encode(&mut bytes);
        let mut from = Decoder::new(&bytes);
        assert_eq!(QueueOptions::decode(&mut from).unwrap(), options);
        from.finish().unwrap();
    }

    #[test]
    fn compatibility_defaults_to_full_and_last() {
        assert_eq!("wire".parse::<Compatibility>().unwrap().to_string(), "wire,full,last");
        assert_eq!("none,forward,all".parse::<Compatibility>().unwrap().to_string(), "none,forward,all");
        assert!("wire,sideways".parse::<Compatibility>().is_err());
    }
}
