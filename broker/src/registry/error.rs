//! Why a descriptor set cannot become a contract. Every error names the file or symbol and what to do next.

use qwerq_proto::error::ErrorCode;

/// A descriptor set that cannot become a contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The bytes do not decode as a `google.protobuf.FileDescriptorSet`.
    #[error("the bytes are not a google.protobuf.FileDescriptorSet: {reason}")]
    NotADescriptorSet {
        /// What the decoder says.
        reason: String,
    },
    /// The set holds no file.
    #[error("the descriptor set holds no file")]
    Empty,
    /// Two different files of one name.
    #[error("the descriptor set holds two different files named `{file}`")]
    DuplicateFile {
        /// The name.
        file: String,
    },
    /// A file that another one imports is not in the set.
    #[error("`{file}` imports `{import}`, which is not in the descriptor set; send it with all its imports (protoc: --include_imports)")]
    MissingImport {
        /// The importing file.
        file: String,
        /// The import path.
        import: String,
    },
    /// Two definitions of one full name.
    #[error("`{symbol}` is defined in `{first}` and again in `{second}`")]
    DuplicateSymbol {
        /// The full name.
        symbol: String,
        /// The file of the first definition.
        first: String,
        /// The file of the second one.
        second: String,
    },
    /// A field or extension names a type that the set does not define.
    #[error("`{symbol}` in `{file}` refers to `{name}`, which the descriptor set does not define")]
    UnknownType {
        /// The declaring file.
        file: String,
        /// The field or extension.
        symbol: String,
        /// The dangling name.
        name: String,
    },
    /// A definition breaks a rule of protobuf.
    #[error("`{symbol}` in `{file}`: {reason}")]
    Invalid {
        /// The declaring file.
        file: String,
        /// The definition.
        symbol: String,
        /// The rule that it breaks.
        reason: String,
    },
    /// A syntax or edition that this version does not know.
    #[error("`{file}` is written in {syntax}, which this version does not know; it reads proto2, proto3 and editions 2023 and 2024")]
    Unsupported {
        /// The file.
        file: String,
        /// Its syntax or edition.
        syntax: String,
    },
    /// The message type that the contract names is not in the set.
    #[error("the descriptor set holds no message `{name}`{}", did_you_mean(suggestions))]
    TypeNotFound {
        /// The name as asked for.
        name: String,
        /// The closest messages that the set does hold, best first.
        suggestions: Vec<String>,
    },
    /// The contract names an enum or service where it needs a message.
    #[error("`{name}` is {kind}, not a message{}", did_you_mean(suggestions))]
    NotAMessage {
        /// The name as asked for.
        name: String,
        /// "an enum", "a service" and the like.
        kind: &'static str,
        /// The closest messages that the set does hold, best first.
        suggestions: Vec<String>,
    },
    /// The descriptor library that serves JSON refuses the set.
    #[error("the descriptor set does not hold together: {reason}")]
    Rejected {
        /// What the library says.
        reason: String,
    },
}

impl SchemaError {
    /// The stable code that clients see.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            SchemaError::TypeNotFound { .. } | SchemaError::NotAMessage { .. } => ErrorCode::TypeNotFound,
            SchemaError::NotADescriptorSet { .. }
            | SchemaError::Empty
            | SchemaError::DuplicateFile { .. }
            | SchemaError::MissingImport { .. }
            | SchemaError::DuplicateSymbol { .. }
            | SchemaError::UnknownType { .. }
            | SchemaError::Invalid { .. }
            | SchemaError::Unsupported { .. }
            | SchemaError::Rejected { .. } => ErrorCode::SchemaInvalid,
        }
    }
}

fn did_you_mean(suggestions: &[String]) -> String {
    match suggestions {
        [] => String::new(),
        [only] => format!("; did you mean `{only}`?"),
        many => format!("; did you mean one of `{}`?", many.join("`, `")),
    }
}
