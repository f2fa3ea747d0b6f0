//! How calls end, for the counts of calls.

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// With a reply.
    Replied,
    /// With the responder's own error.
    Failed,
    /// With a reply that broke the contract or a limit.
    InvalidReply,
    /// At its deadline.
    TimedOut,
    /// By the caller's CANCEL.
    Cancelled,
    /// Its caller disconnected.
    CallerLost,
    /// Its responder disconnected.
    ResponderLost,
    /// Nobody served the queue.
    NoResponders,
    /// The line was full.
    Overloaded,
    /// The request broke the contract, a limit or a rule.
    Refused,
}

impl CallOutcome {
    pub(super) const ALL: [CallOutcome; 10] = [
        CallOutcome::Replied,
        CallOutcome::Failed,
        CallOutcome::InvalidReply,
        CallOutcome::TimedOut,
        CallOutcome::Cancelled,
        CallOutcome::CallerLost,
        CallOutcome::ResponderLost,
        CallOutcome::NoResponders,
        CallOutcome::Overloaded,
        CallOutcome::Refused,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            CallOutcome::Replied => "replied",
            CallOutcome::Failed => "failed",
            CallOutcome::InvalidReply => "invalid-reply",
            CallOutcome::TimedOut => "timeout",
            CallOutcome::Cancelled => "cancelled",
            CallOutcome::CallerLost => "caller-lost",
            CallOutcome::ResponderLost => "responder-lost",
            CallOutcome::NoResponders => "no-responders",
            CallOutcome::Overloaded => "overloaded",
            CallOutcome::Refused => "refused",
        }
    }
}
