//! One span: what was done for a message, from when to when, and in whose trace.

use std::sync::Arc;
use std::time::Instant;

use super::context::Context;

/// What a span stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// From a PUBLISH's arrival to its answer.
    Publish,
    /// The contract judges the payload.
    Validate,
    /// The message becomes durable.
    Commit,
    /// From a message's being picked to its being on its way.
    Deliver,
    /// From an ack's arrival to its being durable.
    Ack,
}

impl Work {
    /// The operation's name, as the semantic conventions for messaging have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Work::Publish => "publish",
            Work::Validate => "validate",
            Work::Commit => "commit",
            Work::Deliver => "deliver",
            Work::Ack => "ack",
        }
    }

    /// Whether the queue is part of the span's name; it is for what others asked for.
    pub(super) fn names_queue(self) -> bool {
        matches!(self, Work::Publish | Work::Deliver | Work::Ack)
    }
}

/// A span that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) work: Work,
    /// The span that it is part of.
    pub(crate) parent: Context,
    /// Its own id; see [`new_id`].
    pub(crate) id: [u8; 8],
    pub(crate) started: Instant,
    pub(crate) ended: Instant,
    pub(crate) queue: Arc<str>,
    /// 16 bytes, when there is a message.
    pub(crate) message: Option<[u8; 16]>,
    /// 1 for the first delivery; 0: none.
    pub(crate) attempt: u32,
    /// The error's stable name, when it went wrong.
    pub(crate) error: Option<String>,
}

impl Span {
    /// This span as the parent of another.
    pub(crate) fn context(&self) -> Context {
        Context { trace_id: self.parent.trace_id, span_id: self.id }
    }
}

/// An id that no other span has.
pub(crate) fn new_id() -> [u8; 8] {
    loop {
        let id: [u8; 8] = rand::random();
        if id != [0; 8] {
            return id;
        }
    }
}
