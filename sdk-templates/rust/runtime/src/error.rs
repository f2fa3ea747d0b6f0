//! What can go wrong, sorted by who must act: the caller changes the request (`Refused`), the caller tries again (`Unavailable`), the
//! connection comes back by itself (`Disconnected`), or somebody repairs something (`Fault`, `Protocol`, `Connect`).
//!
//! Codes are the broker's; each has a page `docs/errors/<name>.md`. Read on in `qwerq_proto::error`.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use qwerq_proto::{Class, ErrorCode, wire};

/// Any failure of a call into this crate. Small and cheap to clone.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The broker refused the request; change it before trying again.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The request is right but cannot be served now; try again after [`Error::retry_after`].
    #[error("{0}")]
    Unavailable(Box<Refusal>),
    /// The broker failed; its log says why.
    #[error("the broker failed: {0}")]
    Fault(Box<Refusal>),
    /// The connection was lost before the reply came. The client reconnects by itself; only this request is lost.
    #[error("{}", disconnected(*.maybe_stored))]
    Disconnected {
        /// The request had been written, so the broker may have carried it out. Give an idempotency key to have it retried safely.
        maybe_stored: bool,
    },
    /// No broker could be reached.
    #[error("{0}")]
    Connect(Arc<ConnectError>),
    /// Client and broker do not understand each other; the connection was closed.
    #[error("protocol error: {0}")]
    Protocol(Arc<str>),
    /// A payload is not the message that the contract says.
    #[error("{0}")]
    Decode(Arc<DecodeError>),
    /// The client was closed, by `close` or because it gave up on reconnecting.
    #[error("the client is closed; connect a new one")]
    Closed,
}

fn disconnected(maybe_stored: bool) -> &'static str {
    if maybe_stored {
        "the connection was lost before the broker replied; the request may have been carried out \
         (publish with an idempotency key and the client retries it by itself)"
    } else {
        "the connection was lost before the request was sent; send it again"
    }
}

/// What the broker said about a request that it did not carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The stable number; its thousands are the class. [`Refusal::known`] gives the enum when this version knows it.
    pub code: u32,
    /// The stable kebab-case name, also the name of its page under docs/errors/.
    pub name: String,
    /// One sentence for people, naming the thing and the next step.
    pub message: String,
    /// Facts for programs: `path`, `offset`, `type`, `version`, `limit`, `queue`, ...
    pub details: BTreeMap<String, String>,
    /// When a retry makes sense, from now.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// The code, if this version of the client knows it.
    #[must_use]
    pub fn known(&self) -> Option<ErrorCode> {
        ErrorCode::from_u32(self.code)
    }

    /// One of the facts in `details`.
    #[must_use]
    pub fn detail(&self, name: &str) -> Option<&str> {
        self.details.get(name).map(String::as_str)
    }

    /// The path of the field that breaks the contract, such as `lines[3].price.units`.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.detail("path")
    }

    /// Where in the payload the contract breaks: bytes from its start.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.detail("offset")?.parse().ok()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.name, self.code, self.message)
    }
}

/// No broker could be reached.
#[derive(Debug, thiserror::Error)]
#[error("cannot reach a broker at {} (tried: {}): {source}; is it running, and is the address right?", .addr, .tried.join(", "))]
#[non_exhaustive]
pub struct ConnectError {
    /// The addresses as the caller gave them.
    pub addr: String,
    /// Each attempt: the address and what happened there.
    pub tried: Vec<String>,
    /// What the last attempt failed with.
    pub source: io::Error,
}

/// A payload that is not the message that the contract says.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the payload (queue {queue}, seq {seq}) is not a {message_type}: {source}")]
#[non_exhaustive]
pub struct DecodeError {
    /// The queue that it came from.
    pub queue: String,
    /// Its position in the queue.
    pub seq: u64,
    /// The full protobuf name that was expected.
    pub message_type: String,
    /// What prost says.
    pub source: prost::DecodeError,
}

impl Error {
    /// What the broker said, when it was the broker who said no.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::Refused(refusal) | Error::Unavailable(refusal) | Error::Fault(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The broker's code, if there is one and this version knows it.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        self.refusal().and_then(Refusal::known)
    }

    /// Whether the same request may succeed later. A lost publish without an idempotency key that may have been stored counts as
    /// retryable: the retry may then store it twice.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Unavailable(_) | Error::Disconnected { .. } | Error::Connect(_))
    }

    /// When a retry makes sense, from now, if the broker said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal().and_then(|refusal| refusal.retry_after)
    }

    /// The path of the field that breaks the contract.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.refusal().and_then(Refusal::path)
    }

    /// Where in the payload the contract breaks: bytes from its start.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.refusal().and_then(Refusal::offset)
    }

    /// An error with one of the broker's codes, made on this side of the wire.
    pub(crate) fn local(code: ErrorCode, message: impl Into<String>) -> Error {
        Error::from(code.with(message))
    }

    pub(crate) fn stale_lease() -> Error {
        Error::local(
            ErrorCode::StaleLease,
            "the lease ended with its connection, its subscription or its time; the message is delivered again, settle that delivery",
        )
    }

    pub(crate) fn protocol(message: impl fmt::Display) -> Error {
        Error::Protocol(message.to_string().into())
    }
}

impl From<wire::Error> for Refusal {
    fn from(error: wire::Error) -> Refusal {
        Refusal {
            code: error.code,
            name: error.name,
            message: error.message,
            details: error.details.into_iter().collect(),
            retry_after: (error.retry_after_ms > 0).then(|| Duration::from_millis(error.retry_after_ms)),
        }
    }
}

impl From<wire::Error> for Error {
    fn from(error: wire::Error) -> Error {
        let class = Class::of(error.code);
        let refusal = Box::new(Refusal::from(error));
        match class {
            Some(Class::Rejection) => Error::Refused(refusal),
            Some(Class::Unavailable) => Error::Unavailable(refusal),
            Some(Class::Protocol) => Error::Protocol(refusal.to_string().into()),
            Some(Class::Fault) | None => Error::Fault(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_decides_who_must_act() {
        let cases: &[(u32, &str, bool)] = &[
            (1007, "refused", false),
            (1999, "refused", false),
            (2001, "unavailable", true),
            (2999, "unavailable", true),
            (3001, "protocol", false),
            (4001, "fault", false),
            (9, "fault", false),
        ];
        for (code, kind, retryable) in cases {
            let error = Error::from(wire::Error { code: *code, ..Default::default() });
            let is = match error {
                Error::Refused(_) => "refused",
                Error::Unavailable(_) => "unavailable",
                Error::Protocol(_) => "protocol",
                Error::Fault(_) => "fault",
                _ => "other",
            };
            assert_eq!((is, error.is_retryable()), (*kind, *retryable), "{code}");
        }
    }

    #[test]
    fn a_violation_names_its_path_and_offset() {
        let error = Error::from(
            ErrorCode::SchemaViolation.with("lines[3].price is a varint").detail("path", "lines[3].price").detail("offset", 17),
        );
        assert_eq!(error.path(), Some("lines[3].price"));
        assert_eq!(error.offset(), Some(17));
        assert_eq!(error.code(), Some(ErrorCode::SchemaViolation));
        assert_eq!(error.to_string(), "schema-violation (1101): lines[3].price is a varint");
    }

    #[test]
    fn an_error_is_small() {
        assert!(size_of::<Error>() <= 24);
    }
}
