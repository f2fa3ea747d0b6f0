//! A queue's options in JSON: names, units and words as on the wire.

use qwerq_proto::wire;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// Options of a queue; one that is left out is the broker's default when a queue is made, and stays as it is when one is
        /// changed. docs/queues.md says what each means.
        #[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct QueueOptions {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] $name: Option<$type>,)*
        }

        impl From<wire::QueueOptions> for QueueOptions {
            fn from(options: wire::QueueOptions) -> QueueOptions {
                let wire::QueueOptions { $($name,)* } = options;
                QueueOptions { $($name,)* }
            }
        }

        impl From<QueueOptions> for wire::QueueOptions {
            fn from(options: QueueOptions) -> wire::QueueOptions {
                let QueueOptions { $($name,)* } = options;
                wire::QueueOptions { $($name,)* }
            }
        }
    };
}

options! {
    /// `queue`, where acknowledged messages go, or `stream`, where they stay.
    #[schema(example = "queue")]
    mode: String,
    /// `permissive` or `strict`: whether a payload needs a contract and may carry unknown fields.
    #[schema(example = "permissive")]
    schema_mode: String,
    /// `reject` or `dlq`: what happens to a payload that breaks the contract.
    #[schema(example = "reject")]
    on_invalid: String,
    /// What a new version of the contract must keep: level, direction and what it is compared with.
    #[schema(example = "wire-json,full,last")]
    compatibility: String,
    /// How long a delivered message is held for its consumer.
    #[schema(example = 30000)]
    visibility_timeout_ms: u64,
    /// Deliveries of a message before `on_failure` decides.
    #[schema(example = 5)]
    max_deliveries: u32,
    /// `dlq`, `drop` or `retry-forever`.
    #[schema(example = "dlq")]
    on_failure: String,
    /// The first wait before a nacked message comes again; it doubles up to the longest.
    #[schema(example = 1000)]
    retry_backoff_first_ms: u64,
    /// The longest such wait.
    #[schema(example = 60000)]
    retry_backoff_max_ms: u64,
    /// Messages that the queue holds at most; 0: no limit.
    #[schema(example = 1000000)]
    max_messages: u64,
    /// Bytes that the queue holds at most.
    #[schema(example = 1073741824)]
    max_bytes: u64,
    /// How long a stream keeps its messages; 0: as long as they fit.
    #[schema(example = 0)]
    max_age_ms: u64,
    /// `reject` or `drop-oldest`: what happens to a publish at a limit.
    #[schema(example = "reject")]
    on_full: String,
    /// How long an idempotency key is remembered.
    #[schema(example = 300000)]
    dedup_window_ms: u64,
    /// Idempotency keys remembered at most.
    #[schema(example = 1000000)]
    dedup_max_keys: u64,
    /// How long a message waits before it expires; 0: for ever.
    #[schema(example = 0)]
    message_ttl_ms: u64,
    /// `drop` or `dlq`: what happens to an expired message.
    #[schema(example = "drop")]
    on_expiry: String,
    /// How long a message waits before it can be delivered.
    #[schema(example = 0)]
    delay_ms: u64,
    /// Largest message, its headers included.
    #[schema(example = 1048576)]
    max_message_bytes: u64,
    /// A group without consumers for so long is removed; 0: never.
    #[schema(example = 0)]
    group_expiry_ms: u64,
    /// Intervals that a group may settle above its floor before dispatch pauses.
    #[schema(example = 1000000)]
    max_unsettled: u64,
}
