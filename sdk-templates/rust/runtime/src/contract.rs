//! What generated code says about a queue: its name, its message type, the fingerprint of the schema that it was generated from.
//!
//! `qwer-q gen` and `#[qwerq::queue]` implement these traits; read on in `queue` and `service` for what they give.

/// A queue's contract.
pub trait Contract: 'static {
    /// The queue's name.
    const QUEUE: &'static str;
    /// The full protobuf name of the message type, such as `shop.v1.Order`.
    const MESSAGE_TYPE: &'static str;
    /// SHA-256 of the contract's canonical form, as the registry computes it. Publishes carry it, so that the broker judges them by the
    /// version that they were made for. All zero: none; the broker's active version judges.
    const FINGERPRINT: [u8; 32];
    /// The version in the registry at the time of generation; 0 when generated from files.
    const VERSION: u32;
    /// The Rust type of the message.
    type Message: prost::Message + Default + 'static;
}

/// The contract of a queue that can be called.
pub trait CallContract: Contract {
    /// The full protobuf name of the reply type.
    const REPLY_TYPE: &'static str;
    /// The Rust type of the reply.
    type Reply: prost::Message + Default + 'static;
}

/// A [`Contract`]'s constants as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContractInfo {
    /// The queue's name.
    pub queue: &'static str,
    /// The full protobuf name of the message type.
    pub message_type: &'static str,
    /// SHA-256 of the contract's canonical form; all zero: none.
    pub fingerprint: [u8; 32],
    /// The version in the registry at the time of generation.
    pub version: u32,
}

impl ContractInfo {
    /// These constants.
    #[must_use]
    pub const fn new(queue: &'static str, message_type: &'static str, fingerprint: [u8; 32], version: u32) -> ContractInfo {
        ContractInfo { queue, message_type, fingerprint, version }
    }

    /// The constants of `C`.
    #[must_use]
    pub const fn of<C: Contract>() -> ContractInfo {
        ContractInfo { queue: C::QUEUE, message_type: C::MESSAGE_TYPE, fingerprint: C::FINGERPRINT, version: C::VERSION }
    }

    /// The fingerprint, unless it is all zero.
    pub(crate) fn known_fingerprint(&self) -> Option<[u8; 32]> {
        (self.fingerprint != [0; 32]).then_some(self.fingerprint)
    }
}
