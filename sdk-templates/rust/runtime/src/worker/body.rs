//! What a consumer's first argument can be: a protobuf message, or the bytes as they came.

use bytes::Bytes;

/// A message as a consumer takes it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the message of a consumer",
    label = "the first argument is the message",
    note = "take a struct that #[qwerq::queue] binds, a generated message, or `qwerq::Raw` for the bytes"
)]
pub trait Body: Sized + Send + 'static {
    /// Reads a payload.
    ///
    /// # Errors
    /// When the payload is not such a message.
    fn from_payload(payload: Bytes) -> Result<Self, prost::DecodeError>;
}

// An error that says what implements prost's trait would hide what the note above says.
#[diagnostic::do_not_recommend]
impl<M: prost::Message + Default + 'static> Body for M {
    fn from_payload(payload: Bytes) -> Result<M, prost::DecodeError> {
        M::decode(payload)
    }
}

/// A payload as it came, for queues without a contract and for consumers that pass messages on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw(pub Bytes);

impl Body for Raw {
    fn from_payload(payload: Bytes) -> Result<Raw, prost::DecodeError> {
        Ok(Raw(payload))
    }
}
