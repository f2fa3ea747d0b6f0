//! A version of a contract in JSON.

use qwerq_proto::wire;
use serde::Serialize;
use utoipa::ToSchema;

use crate::timestamp;

/// One version of a queue's contract.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SchemaVersion {
    queue: String,
    /// 1, 2, 3...
    version: u32,
    /// Full name of the message type.
    #[schema(example = "shop.v1.Order")]
    message_type: String,
    /// Full name of the type of replies, when the queue can be called.
    reply_type: Option<String>,
    /// SHA-256 of the content, in hexadecimal.
    fingerprint: String,
    #[schema(format = DateTime)]
    registered_at: String,
    registered_by: String,
    /// It judges publishers who declare no version.
    active: bool,
    /// Its publishers are refused.
    retired: bool,
}

impl From<wire::SchemaVersion> for SchemaVersion {
    fn from(version: wire::SchemaVersion) -> SchemaVersion {
        SchemaVersion {
            queue: version.queue,
            version: version.version,
            message_type: version.message_type,
            reply_type: Some(version.reply_type).filter(|name| !name.is_empty()),
            fingerprint: hex(&version.fingerprint),
            registered_at: timestamp::format_ms(version.registered_at_ms),
            registered_by: version.registered_by,
            active: version.active,
            retired: version.retired,
        }
    }
}

/// Bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
