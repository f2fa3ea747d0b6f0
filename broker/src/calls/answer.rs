//! What callers are told when there is no reply, and how each call is counted.

use qwerq_core::calls::{End, NotTaken};
use qwerq_proto::{ErrorCode, wire};

use crate::http::CallOutcome;

/// When a caller that found the line full may try again.
const FULL_LINE_RETRY_MS: u64 = 100;

/// The ERROR of a call that was not taken on.
pub(super) fn not_taken(queue: &str, not_taken: NotTaken) -> wire::Error {
    let error = match not_taken {
        NotTaken::NoResponders => {
            ErrorCode::NoResponders.with(format!("nobody serves calls on queue `{queue}`; start its responder, then call again"))
        }
        NotTaken::LineFull { calls, bytes } => ErrorCode::Overloaded
            .with(format!("queue `{queue}`: {not_taken}; call again later, or add responders"))
            .retry_after_ms(FULL_LINE_RETRY_MS)
            .detail("waiting", calls)
            .detail("waiting_bytes", bytes),
        NotTaken::RequestIdInUse => {
            ErrorCode::InvalidArgument.with(format!("queue `{queue}`: {not_taken}; use a request id again only after its reply"))
        }
    };
    error.detail("queue", queue)
}

/// The ERROR of a call that ended without a reply.
pub(super) fn ended(queue: &str, end: End) -> wire::Error {
    let error = match end {
        End::TimedOut { handed: true } => ErrorCode::Timeout
            .with(format!("the responder of queue `{queue}` did not reply before the deadline; the work may have been done all the same"))
            .detail("handed", true),
        End::TimedOut { handed: false } => ErrorCode::Timeout
            .with(format!("the responders of queue `{queue}` were busy until the deadline; none of them has seen the request"))
            .detail("handed", false),
        End::ResponderLost => ErrorCode::ResponderLost
            .with(format!("the responder of queue `{queue}` disconnected before it replied; the work may have been done all the same")),
        End::NoResponders => ErrorCode::NoResponders
            .with(format!("the last responder of queue `{queue}` left while the call waited; none of them has seen the request")),
        End::Cancelled => ErrorCode::Cancelled.with(format!("the call of queue `{queue}` was cancelled")),
        End::CallerLost => ErrorCode::Draining.with(format!(
            "the broker shuts down before queue `{queue}` has replied; the work may have been done all the same. Connect again."
        )),
    };
    error.detail("queue", queue)
}

/// What a caller is told whose responder broke the contract with `error`.
pub(super) fn invalid_reply(queue: &str, error: wire::Error) -> wire::Error {
    let message = format!("the responder of queue `{queue}` sent a reply that was refused: {}", error.message);
    wire::Error { message, ..error }.detail("side", "reply").detail("queue", queue)
}

/// How a call that ended is counted.
pub(super) fn outcome(end: End) -> CallOutcome {
    match end {
        End::TimedOut { .. } => CallOutcome::TimedOut,
        End::ResponderLost => CallOutcome::ResponderLost,
        End::NoResponders => CallOutcome::NoResponders,
        End::Cancelled => CallOutcome::Cancelled,
        End::CallerLost => CallOutcome::CallerLost,
    }
}

/// How a call that was not taken on is counted.
pub(super) fn outcome_of_refusal(error: &wire::Error) -> CallOutcome {
    match error.known_code() {
        Some(ErrorCode::NoResponders) => CallOutcome::NoResponders,
        Some(ErrorCode::Overloaded) => CallOutcome::Overloaded,
        _ => CallOutcome::Refused,
    }
}

/// Bytes for a detail.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
