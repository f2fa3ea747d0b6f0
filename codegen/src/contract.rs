//! What the compiler is asked for: contracts as a broker or a folder states them, and a target language.
//!
//! Nothing is checked here; [`crate::ir`] resolves it. Bytes are raw descriptor sets, as SCHEMA_GET returns them.

use std::collections::BTreeMap;

use prost::bytes::Bytes;

/// One queue's active contract.
#[derive(Debug, Clone)]
pub struct ContractSource {
    /// The queue's name.
    pub queue: String,
    /// The contract's version; 0 when no broker has numbered it yet.
    pub version: u32,
    /// Full name of the message type, without a leading dot.
    pub message_type: String,
    /// Full name of the reply type, for queues that answer a CALL.
    pub reply_type: Option<String>,
    /// The registry's content address of the contract; [`UNKNOWN_FINGERPRINT`] when no broker has computed it yet.
    pub fingerprint: [u8; 32],
    /// A `google.protobuf.FileDescriptorSet` with all imports.
    pub descriptor_set: Bytes,
}

/// The fingerprint of a contract that no broker has seen. Clients that hold it declare no contract, so that the broker validates against
/// the active version.
pub const UNKNOWN_FINGERPRINT: [u8; 32] = [0; 32];

/// A target language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Language {
    /// The messages of protoc-gen-go, clients, and the runtime.
    Go(GoOptions),
    /// prost types and clients over the crate `qwerq`.
    Rust,
    /// Messages in the form of protoc-gen-es and clients over a runtime that is part of the output.
    TypeScript(ImportSuffix),
}

/// How TypeScript names the files that it imports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImportSuffix {
    /// `./order_pb.js`: what Node and browsers load after compiling. Bundlers understand it too.
    #[default]
    Js,
    /// `./order_pb.ts`: for Deno, Bun, and Node that strips types.
    Ts,
    /// `./order_pb`: for bundlers that want none.
    None,
}

/// What Go wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoOptions {
    /// The import path of the output folder, such as `example.com/shop/queues`.
    pub module: String,
    /// For .proto files, by name or by a pattern in which `*` is any text, the import path of their Go package, with the package's name
    /// behind a semicolon where it is another than the path's last part: what protoc-gen-go's option `M` says. A package that is not
    /// below the module is imported and not emitted.
    pub files: BTreeMap<String, String>,
}

/// One run of the compiler.
#[derive(Debug, Clone)]
pub struct Request {
    /// The target language.
    pub language: Language,
    /// The contracts to emit clients for, in any order.
    pub contracts: Vec<ContractSource>,
    /// Schemas of which every message is emitted, whether a queue carries it or not.
    pub types: Option<TypeSource>,
}

/// Schemas without queues.
#[derive(Debug, Clone)]
pub struct TypeSource {
    /// The names of the files, inside the descriptor set, whose messages are wanted.
    pub roots: Vec<String>,
    /// A `google.protobuf.FileDescriptorSet` with all imports.
    pub descriptor_set: Bytes,
}
