//! Which type of a schema a Rust type stands for.
//!
//! `qwer-q gen` and the attributes `#[qwerq::queue]`, `#[qwerq::message]`, `#[qwerq::enumeration]` and `#[qwerq::oneof]` implement these
//! traits, and only for types that were checked against a contract: whoever finds `MessageType` on a type may rely on its fields. The
//! expansions of macros compare names where a type stands in another; what belongs to a queue is in `contract`.

/// A Rust type that holds a message of a schema.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not bound to a message type of a contract",
    label = "not bound to a message type",
    note = "put `#[qwerq::message(\"package.Message\")]` on its struct, or use the type that `qwer-q gen` made"
)]
pub trait MessageType {
    /// The full protobuf name, such as `shop.v1.Order`.
    const NAME: &'static str;
}

/// A Rust enum whose values are those of an enum of a schema.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not bound to an enum of a contract",
    label = "not bound to an enum type",
    note = "put `#[qwerq::enumeration(\"package.Enum\")]` on it, or use the type that `qwer-q gen` made"
)]
pub trait EnumType {
    /// The full protobuf name, such as `shop.v1.Status`.
    const NAME: &'static str;
}

/// A Rust enum that holds a oneof of a message.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not bound to a oneof of a contract",
    label = "not bound to a oneof",
    note = "put `#[qwerq::oneof(\"package.Message.oneof\")]` on it, or use the type that `qwer-q gen` made"
)]
pub trait OneofType {
    /// The full name of the message and the name of the oneof, such as `shop.v1.Order.delivery`.
    const NAME: &'static str;
}

/// Whether two names are the same, for assertions at compile time.
#[must_use]
pub const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Types of the crate prost-types, which generated code holds where a schema imports google/protobuf. They are as fixed as their schema.
macro_rules! well_known {
    ($($name:literal => $message:ty),* $(,)?) => {
        $(impl MessageType for $message {
            const NAME: &'static str = $name;
        })*
    };
}

well_known! {
    "google.protobuf.Any" => prost_types::Any,
    "google.protobuf.Duration" => prost_types::Duration,
    "google.protobuf.FieldMask" => prost_types::FieldMask,
    "google.protobuf.ListValue" => prost_types::ListValue,
    "google.protobuf.Struct" => prost_types::Struct,
    "google.protobuf.Timestamp" => prost_types::Timestamp,
    "google.protobuf.Value" => prost_types::Value,
    "google.protobuf.Empty" => (),
    "google.protobuf.BoolValue" => bool,
    "google.protobuf.BytesValue" => Vec<u8>,
    "google.protobuf.BytesValue" => bytes::Bytes,
    "google.protobuf.DoubleValue" => f64,
    "google.protobuf.FloatValue" => f32,
    "google.protobuf.Int32Value" => i32,
    "google.protobuf.Int64Value" => i64,
    "google.protobuf.StringValue" => String,
    "google.protobuf.UInt32Value" => u32,
    "google.protobuf.UInt64Value" => u64,
}

impl<T: MessageType> MessageType for Box<T> {
    const NAME: &'static str = T::NAME;
}

impl EnumType for prost_types::NullValue {
    const NAME: &'static str = "google.protobuf.NullValue";
}
