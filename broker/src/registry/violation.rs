//! What breaks a contract: the kind, the field path, the byte offset, and a sentence for people.

use std::fmt;

use qwerq_proto::{error::ErrorCode, wire};

/// The first thing in a payload that breaks its contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which rule is broken.
    pub kind: ViolationKind,
    /// The field: names joined by `.`, `[i]` for elements of repeated messages and strings, `[key]` for map values, a
    /// number for an unknown field, `[full.name]` for an extension. Empty when the root message itself is broken.
    pub path: String,
    /// From the start of the payload, the first byte of the tag of the field that breaks, or of the broken tag; for a
    /// missing required field, the end of the message that lacks it.
    pub offset: usize,
    /// The payload's message type, by full name.
    pub message_type: String,
    /// One sentence with path, offset and type in it.
    pub message: String,
}

macro_rules! kinds {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        /// The rule that a payload breaks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ViolationKind {
            $(#[doc = $doc] $name,)*
        }

        impl ViolationKind {
            /// Every kind.
            pub const ALL: &'static [ViolationKind] = &[$(ViolationKind::$name,)*];

            /// The stable kebab-case name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(ViolationKind::$name => $text,)*
                }
            }
        }
    };
}

kinds! {
    Tag = "tag", "A tag is cut, over five bytes, above 2^32-1, has field number 0 or wire type 6 or 7.";
    Varint = "varint", "A varint value is over ten bytes.";
    Length = "length", "A length is over five bytes or above 2^31-1.";
    Truncated = "truncated", "A value or length ends past its container.";
    Group = "group", "A group is not ended, or ended without a start or by another number.";
    WireType = "wire-type", "A known field has a wire type that its declaration does not allow.";
    Utf8 = "utf8", "A string is not UTF-8.";
    Required = "required", "A required field is missing.";
    Depth = "depth", "More than 100 levels of messages, groups and map entries below the root.";
    UnknownField = "unknown-field", "Strict: the contract does not know the field.";
    UnknownEnumNumber = "unknown-enum-number", "Strict: the enum has no value of that number.";
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Violation {}

impl Violation {
    /// The ERROR message that a publisher gets; `version` is that of the contract that judged.
    #[must_use]
    pub fn to_error(&self, version: u32) -> wire::Error {
        ErrorCode::SchemaViolation
            .with(format!("{} (contract version {version})", self.message))
            .detail("violation", self.kind)
            .detail("path", &self.path)
            .detail("offset", self.offset)
            .detail("type", &self.message_type)
            .detail("version", version)
    }
}
