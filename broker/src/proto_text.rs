//! .proto text on its way to descriptors and back. Compilers are no part of the broker, which judges descriptors only; the process that
//! runs it brings one.

use std::collections::BTreeMap;

use qwerq_proto::wire::SourceFile;

/// What text compiled to.
#[derive(Debug, Clone)]
pub struct CompiledText {
    /// A `google.protobuf.FileDescriptorSet` with all imports.
    pub descriptor_set: Vec<u8>,
    /// The texts that were read.
    pub sources: Vec<SourceFile>,
    /// Full names of the messages of the file that was compiled.
    pub messages: Vec<String>,
}

/// What one rpc of a service becomes: the contract of a queue that can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcContract {
    /// The queue's name.
    pub queue: String,
    /// Full name of the type of requests.
    pub message_type: String,
    /// Full name of the type of replies.
    pub reply_type: String,
}

/// Where a service is defined.
#[derive(Debug, Clone)]
pub enum Definition {
    /// In the file `root` of texts that are named as imports name them.
    Text {
        /// The file.
        root: String,
        /// All of them.
        files: BTreeMap<String, String>,
    },
    /// In an encoded `google.protobuf.FileDescriptorSet`.
    Descriptors(Vec<u8>),
}

/// A compiler of .proto text.
pub trait ProtoText: Send + Sync {
    /// Compiles the file `root` of `files`, which are named as imports name them.
    ///
    /// # Errors
    /// What is wrong, where, and what to do about it.
    fn compile(&self, root: &str, files: &BTreeMap<String, String>) -> Result<CompiledText, String>;

    /// The contracts of a service's rpcs, with what they have in common; their queues begin with `prefix`, or with the service's own name.
    ///
    /// # Errors
    /// What is wrong, where, and what to do about it.
    fn service(&self, definition: &Definition, service: &str, prefix: Option<&str>) -> Result<(CompiledText, Vec<RpcContract>), String>;

    /// Writes the files of a descriptor set as text.
    ///
    /// # Errors
    /// Why it cannot.
    fn print(&self, descriptor_set: &[u8]) -> Result<Vec<SourceFile>, String>;
}

/// No compiler: contracts come as descriptors only.
#[derive(Debug, Clone, Copy)]
pub struct NoProtoText;

impl ProtoText for NoProtoText {
    fn compile(&self, _: &str, _: &BTreeMap<String, String>) -> Result<CompiledText, String> {
        Err("this broker compiles no text; send a descriptor set".to_owned())
    }

    fn service(&self, _: &Definition, _: &str, _: Option<&str>) -> Result<(CompiledText, Vec<RpcContract>), String> {
        Err("this broker knows no services; register each rpc by its message types".to_owned())
    }

    fn print(&self, _: &[u8]) -> Result<Vec<SourceFile>, String> {
        Err("this broker writes no text; ask for the descriptors".to_owned())
    }
}
