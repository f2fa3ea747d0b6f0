//! Why a handler does not serve a request: what its caller gets instead of a reply.

use std::fmt;

use qwerq_proto::ErrorCode;

/// A handler's refusal. Any error turns into one with the code `internal` by `?`, so that its text reaches the caller.
///
/// ```
/// use qwerq::{ErrorCode, Status};
///
/// fn units(text: &str) -> Result<u64, Status> {
///     let units: u64 = text.parse()?;
///     if units == 0 {
///         return Err(Status::new(ErrorCode::InvalidArgument, "nothing to price"));
///     }
///     Ok(units)
/// }
/// assert_eq!(units("0").unwrap_err().code, ErrorCode::InvalidArgument);
/// assert_eq!(units("many").unwrap_err().code, ErrorCode::Internal);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Tells the caller whether the request, the moment or the responder is to blame: by the code's class.
    pub code: ErrorCode,
    /// One sentence for people.
    pub message: String,
}

impl Status {
    /// A refusal.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Status {
        Status { code, message: message.into() }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

// Not an `Error` itself, so that all errors can be turned into it.
impl<E: std::error::Error> From<E> for Status {
    fn from(error: E) -> Status {
        Status::new(ErrorCode::Internal, error.to_string())
    }
}
