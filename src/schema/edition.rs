//! What files in editions say beyond what the library's types of descriptors hold.

use prost::{DecodeError, Message};

/// One file.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Edition {
    /// Its number in `google.protobuf.Edition`; 0 in a file that has a syntax.
    #[prost(int32, tag = "14")]
    pub(super) edition: i32,
    /// `import option`, since edition 2024.
    #[prost(string, repeated, tag = "15")]
    options_only: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    messages: Vec<Shown>,
    #[prost(message, repeated, tag = "5")]
    enums: Vec<ShownEnum>,
}

/// A message with `export` or `local` before it, since edition 2024.
#[derive(Clone, PartialEq, Message)]
struct Shown {
    #[prost(int32, tag = "11")]
    visibility: i32,
    #[prost(message, repeated, tag = "3")]
    messages: Vec<Shown>,
    #[prost(message, repeated, tag = "4")]
    enums: Vec<ShownEnum>,
}

#[derive(Clone, PartialEq, Message)]
struct ShownEnum {
    #[prost(int32, tag = "6")]
    visibility: i32,
}

/// One for each file of a descriptor set.
pub(super) fn editions(descriptor_set: &[u8]) -> Result<Vec<Edition>, DecodeError> {
    #[derive(Clone, PartialEq, Message)]
    struct Set {
        #[prost(message, repeated, tag = "1")]
        file: Vec<Edition>,
    }
    Set::decode(descriptor_set).map(|set| set.file)
}

impl Edition {
    /// Whether it uses nothing that edition 2023 did not have.
    pub(super) fn is_plain(&self) -> bool {
        self.options_only.is_empty() && self.messages.iter().all(Shown::is_plain) && self.enums.iter().all(ShownEnum::is_plain)
    }
}

impl Shown {
    fn is_plain(&self) -> bool {
        self.visibility == 0 && self.messages.iter().all(Shown::is_plain) && self.enums.iter().all(ShownEnum::is_plain)
    }
}

impl ShownEnum {
    fn is_plain(&self) -> bool {
        self.visibility == 0
    }
}
