//! All that two QWER-Q processes must agree on: opcodes, frames, messages and error codes.
//!
//! The crate knows no socket, no clock and no broker. `docs/protocol.md` is the reference in prose, with test vectors that
//! `tests/vectors.rs` reads from it. Read on in [`frame`], then [`wire`].

pub mod error;
pub mod frame;
pub mod name;
pub mod opcode;

/// The protobuf messages that frames carry, generated from `proto/qwerq/v1/wire.proto`; payloads are [`bytes::Bytes`].
#[rustfmt::skip]
#[allow(missing_docs, clippy::all, reason = "generated code; the .proto carries the documentation")]
pub mod wire;

pub use error::{Class, ErrorCode};
pub use frame::{FRAME_HEADER_BYTES, Frame, FrameDecoder, FrameError, encode_frame, encode_header, encode_payload_frame};
pub use opcode::Opcode;

/// The protocol version that this crate speaks.
pub const PROTOCOL_VERSION: u32 = 1;

/// Default port of the broker's TCP protocol.
pub const BROKER_PORT: u16 = 9876;

/// Default port of HTTP: REST, metrics, dashboard, WebSocket.
pub const HTTP_PORT: u16 = 9877;

/// Default port between the nodes of a cluster.
pub const CLUSTER_PORT: u16 = 9878;

/// Largest frame payload before HELLO, in bytes.
pub const MAX_FRAME_BYTES_BEFORE_HELLO: u32 = 4 * 1024;

/// Largest frame payload after HELLO unless negotiated otherwise, in bytes.
pub const MAX_FRAME_BYTES: u32 = 16 * 1024 * 1024;

/// What a frame keeps free around its largest message: headers, ids, tags. A queue's `max_message_bytes` is at most the frame less this.
pub const FRAME_OVERHEAD_BYTES: u32 = 64 * 1024;

/// Length of a lease id on the wire, in bytes: epoch, counter and secret, each a big-endian u64.
pub const LEASE_ID_BYTES: usize = 24;

/// Length of a message id (a ULID) on the wire, in bytes.
pub const MESSAGE_ID_BYTES: usize = 16;
