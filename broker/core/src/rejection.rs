//! Why a request is refused before the journal. A refusal writes nothing; the caller changes the request.

/// A refused request. The shell maps each to a stable wire code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The queue is at a limit.
    #[error("queue `{queue}` is full: {limit} is {value}{}", blame(holder))]
    QueueFull {
        /// Which queue.
        queue: String,
        /// Which option limits it: `max_messages` or `max_bytes`.
        limit: &'static str,
        /// The option's value.
        value: u64,
        /// The group that holds the oldest message.
        holder: Option<String>,
    },
    /// The message is too large.
    #[error("the message has {size} bytes of payload and headers; queue `{queue}` takes at most max_message_bytes = {max}")]
    MessageTooLarge {
        /// Which queue.
        queue: String,
        /// The message's size in bytes.
        size: u64,
        /// The limit in bytes.
        max: u32,
    },
    /// No room for another idempotency key.
    #[error("queue `{queue}` remembers dedup_max_keys = {max} idempotency keys; publish without one, or raise the limit")]
    DedupFull {
        /// Which queue.
        queue: String,
        /// The limit.
        max: u64,
    },
    /// The lease is not, or no longer, the caller's.
    #[error("the lease {why}")]
    StaleLease {
        /// What became of it.
        why: &'static str,
    },
    /// The connection has that subscription already.
    #[error("subscription {number} is already open on this connection; choose another number")]
    SubscriptionExists {
        /// The client's number.
        number: u64,
    },
}

fn blame(holder: &Option<String>) -> String {
    holder.as_ref().map_or_else(|| "; nobody consumes it".to_owned(), |group| format!("; group `{group}` holds the oldest message"))
}
