//! Stable error codes. The thousands are the class, so that a client that does not know a code still knows what to do.
//!
//! Every code has a page `docs/errors/<name>.md`; a test in the root package compares the two.

use std::fmt;

use crate::wire;

/// Who must act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// 1xxx: the request is wrong; the caller changes it.
    Rejection,
    /// 2xxx: the request is right; the caller tries again.
    Unavailable,
    /// 3xxx: the peer does not speak the protocol; the connection closes.
    Protocol,
    /// 4xxx: the broker is broken; its operator acts.
    Fault,
}

impl Class {
    /// The class of a code's number, known or not.
    #[must_use]
    pub fn of(code: u32) -> Option<Class> {
        match code / 1000 {
            1 => Some(Class::Rejection),
            2 => Some(Class::Unavailable),
            3 => Some(Class::Protocol),
            4 => Some(Class::Fault),
            _ => None,
        }
    }
}

macro_rules! codes {
    ($($name:ident = $value:literal, $text:literal, $doc:literal;)*) => {
        /// A stable error code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum ErrorCode {
            $(#[doc = $doc] $name = $value,)*
        }

        impl ErrorCode {
            /// Every code, in numeric order.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The code of that number, if this version knows it.
            #[must_use]
            pub fn from_u32(value: u32) -> Option<ErrorCode> {
                match value {
                    $($value => Some(ErrorCode::$name),)*
                    _ => None,
                }
            }

            /// The stable kebab-case name, such as `queue-full`; also the name of its page under docs/errors/.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => $text,)*
                }
            }

            /// One sentence: what the code means.
            #[must_use]
            pub fn summary(self) -> &'static str {
                match self {
                    $(ErrorCode::$name => $doc,)*
                }
            }
        }
    };
}

codes! {
    InvalidArgument = 1001, "invalid-argument", "A field of the request has a value that it cannot have.";
    InvalidName = 1002, "invalid-name", "A queue or group name breaks the naming rule.";
    QueueNotFound = 1003, "queue-not-found", "There is no queue of that name.";
    QueueExists = 1004, "queue-exists", "The queue exists with other options.";
    GroupNotFound = 1005, "group-not-found", "The queue has no consumer group of that name.";
    GroupRequired = 1006, "group-required", "The queue has named groups and no `default`; say which group consumes.";
    QueueFull = 1007, "queue-full", "The queue is at one of its limits.";
    MessageTooLarge = 1008, "message-too-large", "The message is larger than the queue's max_message_bytes.";
    DedupFull = 1009, "dedup-full", "The queue remembers as many idempotency keys as dedup_max_keys allows.";
    ReservedQueue = 1010, "reserved-queue", "Only the broker writes to a dead letter queue.";
    InvalidHeader = 1011, "invalid-header", "A header is reserved, repeated, or beyond the limits.";
    StaleLease = 1012, "stale-lease", "The lease has expired, was settled, or belongs to a former epoch.";
    UnknownSubscription = 1013, "unknown-subscription", "The connection has no subscription of that number.";
    SubscriptionExists = 1014, "subscription-exists", "The connection already has a subscription of that number.";
    Unsupported = 1015, "unsupported", "The broker does not know this opcode or feature.";
    Unauthorized = 1016, "unauthorized", "The token is missing or wrong.";
    AtomicRefused = 1017, "atomic-refused", "Another item of the same atomic publish was refused.";
    WrongMode = 1018, "wrong-mode", "The request does not fit the queue's mode.";
    GroupExists = 1019, "group-exists", "The queue already has a consumer group of that name.";
    OriginRefused = 1020, "origin-refused", "The Host or the Origin of an HTTP request is none that the broker answers to.";
    SchemaViolation = 1101, "schema-violation", "The payload breaks the queue's contract.";
    ContractRequired = 1102, "contract-required", "Strict mode: the queue has no contract.";
    SchemaNotFound = 1103, "schema-not-found", "The queue has no contract, or not that version of it.";
    SchemaInvalid = 1104, "schema-invalid", "The descriptor set is not one, or does not hold together.";
    SchemaIncompatible = 1105, "schema-incompatible", "The new version breaks the queue's compatibility rule.";
    ContractUnknown = 1106, "contract-unknown", "Strict mode: the broker does not know the publisher's contract.";
    VersionRetired = 1107, "version-retired", "The publisher's version of the contract has been retired.";
    TypeNotFound = 1108, "type-not-found", "The descriptor set holds no message of that name.";
    ReplyTypeMissing = 1109, "reply-type-missing", "The queue's contract has no reply type, so it cannot be called.";
    Overloaded = 2001, "overloaded", "The publish window or a waiting line is full.";
    NotLeader = 2002, "not-leader", "Another node leads; the details name it.";
    Timeout = 2003, "timeout", "The deadline passed.";
    NoResponders = 2004, "no-responders", "Nobody serves calls on this queue.";
    ResponderLost = 2005, "responder-lost", "The responder disconnected before it replied.";
    StorageFull = 2006, "storage-full", "The disk or the store's map is down to its reserve.";
    Draining = 2007, "draining", "The broker is shutting down.";
    Cancelled = 2008, "cancelled", "The client cancelled the request.";
    Starting = 2009, "starting", "The broker is starting: it reads what it has stored.";
    FrameTooLarge = 3001, "frame-too-large", "A frame is longer than the negotiated limit.";
    MalformedFrame = 3002, "malformed-frame", "A frame cannot be parsed.";
    MalformedMessage = 3003, "malformed-message", "A frame's payload is not the message that its opcode demands.";
    HelloRequired = 3004, "hello-required", "The first frame must be HELLO, and only the first.";
    HelloTimeout = 3005, "hello-timeout", "No HELLO arrived in time.";
    VersionUnsupported = 3006, "version-unsupported", "Client and broker share no protocol version.";
    UnnegotiatedFlag = 3007, "unnegotiated-flag", "A frame carries a flag that was not negotiated.";
    HeartbeatLost = 3008, "heartbeat-lost", "The peer was silent for two heartbeat intervals.";
    CorrelationRequired = 3009, "correlation-required", "A request that may wait must be correlated.";
    Internal = 4001, "internal", "The broker failed; its log says why.";
}

impl ErrorCode {
    /// The code's class.
    #[must_use]
    pub fn class(self) -> Class {
        Class::of(self as u32).expect("every code is in 1000..5000")
    }

    /// An ERROR message with this code.
    #[must_use]
    pub fn with(self, message: impl Into<String>) -> wire::Error {
        wire::Error { code: self as u32, name: self.name().to_owned(), message: message.into(), ..wire::Error::default() }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl wire::Error {
    /// Adds a fact for programs, such as `path` or `offset`.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl ToString) -> wire::Error {
        self.details.insert(name.to_owned(), value.to_string());
        self
    }

    /// Says when a retry makes sense, in milliseconds from now.
    #[must_use]
    pub fn retry_after_ms(mut self, ms: u64) -> wire::Error {
        self.retry_after_ms = ms;
        self
    }

    /// The code, if this version knows it.
    #[must_use]
    pub fn known_code(&self) -> Option<ErrorCode> {
        ErrorCode::from_u32(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_ordered_and_classed() {
        for pair in ErrorCode::ALL.windows(2) {
            assert!((pair[0] as u32) < pair[1] as u32);
            assert_ne!(pair[0].name(), pair[1].name());
        }
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_u32(*code as u32), Some(*code));
            let _ = code.class();
        }
        assert_eq!(Class::of(1999), Some(Class::Rejection));
        assert_eq!(Class::of(7), None);
    }
}
