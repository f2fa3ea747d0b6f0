//! What a handler says about a message that it could not handle: try again, try again later, or give it up.
//!
//! Knows no error type of users; they say by [`IntoFailure`] what their errors mean. Read on in `attempt` for what follows.

use std::fmt;
use std::time::Duration;

use crate::ledger::Settlement;

/// Longest reason that is sent, in bytes: it becomes a header of the dead letter, and a chain of errors may be long.
const REASON_BYTES_MAX: usize = 1024;

/// Why a message was not handled, and what should become of it.
///
/// Any error turns into one by `?`; the message is then delivered again after the queue's backoff.
///
/// ```
/// use std::time::Duration;
/// use qwerq::Failure;
///
/// fn bill(cents: &str) -> Result<(), Failure> {
///     let cents: u64 = cents.parse()?;
///     match cents {
///         0 => Err(Failure::reject("nothing to bill")),
///         1..=99 => Err(Failure::retry_after(Duration::from_secs(60), "too little to bill now")),
///         _ => Ok(()),
///     }
/// }
/// assert_eq!(bill("0"), Err(Failure::reject("nothing to bill")));
/// assert_eq!(bill("much"), Err(Failure::retry("invalid digit found in string")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a failure says nothing until it is returned"]
pub struct Failure {
    reason: String,
    then: Then,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Then {
    Retry { after: Option<Duration> },
    Reject,
}

impl Failure {
    /// The message comes again after the queue's `retry_backoff`, until its `max_deliveries`.
    pub fn retry(reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), then: Then::Retry { after: None } }
    }

    /// The message comes again after `delay`, until the queue's `max_deliveries`.
    pub fn retry_after(delay: Duration, reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), then: Then::Retry { after: Some(delay) } }
    }

    /// The message is hopeless: to failure handling at once, which is the dead letter queue unless the queue says otherwise.
    pub fn reject(reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), then: Then::Reject }
    }

    /// One sentence for whoever looks at the dead letter.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn into_settlement(mut self) -> Settlement {
        if self.reason.len() > REASON_BYTES_MAX {
            self.reason.truncate(self.reason.floor_char_boundary(REASON_BYTES_MAX));
        }
        match self.then {
            Then::Retry { after } => Settlement::Nack { delay: after, reason: self.reason },
            Then::Reject => Settlement::Reject { reason: self.reason },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

// Not an `Error` itself, so that all errors can be turned into it.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::retry(error.to_string())
    }
}

/// An error that knows what should become of the message.
///
/// A consumer may return any error that can be displayed; without this trait it means [`Failure::retry`].
///
/// ```
/// use std::time::Duration;
/// use qwerq::{Failure, IntoFailure};
///
/// enum BillingError {
///     UnknownCustomer(String),
///     ProviderBusy { retry_after: Duration },
/// }
///
/// impl IntoFailure for BillingError {
///     fn into_failure(self) -> Failure {
///         match self {
///             BillingError::UnknownCustomer(id) => Failure::reject(format!("no customer {id}")),
///             BillingError::ProviderBusy { retry_after } => Failure::retry_after(retry_after, "the provider is busy"),
///         }
///     }
/// }
/// ```
pub trait IntoFailure {
    /// What this error means for the message.
    fn into_failure(self) -> Failure;
}

impl IntoFailure for Failure {
    fn into_failure(self) -> Failure {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let Settlement::Reject { reason } = Failure::reject("ä".repeat(REASON_BYTES_MAX)).into_settlement() else {
            panic!("a rejection rejects")
        };
        assert_eq!(reason, "ä".repeat(REASON_BYTES_MAX / 2));
        assert_eq!(Failure::retry("short").into_settlement(), Settlement::Nack { delay: None, reason: "short".to_owned() });
    }
}
