//! `.proto` text, or a ready descriptor set, to the raw bytes of a FileDescriptorSet with all imports.
//!
//! Bytes stay raw because prost's own descriptor types drop custom options. Each root file gets a compiler of its own: in a shared one
//! a scope is not limited to a file's imports. Read on in `compile/include.rs` (how imports are found) and
//! `compile/descriptor_set.rs` (what protoc and buf have made).

mod descriptor_set;
mod include;
mod soundness;
mod texts;

use std::{
    fs,
    path::{Path, PathBuf},
};

use heck::ToSnakeCase;
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};
use protox::{
    Compiler,
    file::{ChainFileResolver, FileResolver, GoogleFileResolver},
};

use crate::{diagnostic::Diagnostic, ir::qualified};
pub(crate) use descriptor_set::BUILT_IN;
use include::{IncludeDirs, Sources, import_help};
pub use texts::compile_texts;

/// What a root file gives.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// A `google.protobuf.FileDescriptorSet`, raw, imports before the files that import them.
    pub descriptor_set: Vec<u8>,
    /// The text of every file that was read, by the name that imports use. Empty for a ready descriptor set; files that are built in
    /// are not listed.
    pub sources: Vec<(String, String)>,
    /// The name that imports use for the root file. Of a ready descriptor set: of all files but the well-known ones.
    pub roots: Vec<String>,
    /// Full names of the root file's messages, nested ones included, in the order of the text. Of a ready descriptor set: of all files
    /// but the well-known ones.
    pub messages: Vec<String>,
    /// Full names of the messages of imported files, well-known types included.
    pub imported_messages: Vec<String>,
    /// The root file's services.
    pub services: Vec<Service>,
}

impl Compiled {
    /// Whether a message of that full name exists in the root file or its imports.
    #[must_use]
    pub fn has_message(&self, full_name: &str) -> bool {
        self.messages.iter().chain(&self.imported_messages).any(|name| name == full_name)
    }
}

/// A service of the root file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Full name, without a leading dot.
    pub name: String,
    /// Its methods, in the order of the text.
    pub methods: Vec<Method>,
}

impl Service {
    /// What its queues have before the dot: `pricing_desk` of `shop.v1.PricingDesk`.
    #[must_use]
    pub fn queue_prefix(&self) -> String {
        self.name.rsplit('.').next().unwrap_or(&self.name).to_snake_case()
    }
}

/// One rpc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// The name as written, `GetQuote`.
    pub name: String,
    /// Full name of the request type.
    pub input: String,
    /// Full name of the reply type.
    pub output: String,
    /// Whether the client or the server streams; such an rpc cannot be a CALL.
    pub streaming: bool,
}

impl Method {
    /// The queue on which it is called: `<prefix>.get_quote` of `GetQuote`.
    #[must_use]
    pub fn queue(&self, prefix: &str) -> String {
        format!("{prefix}.{}", self.name.to_snake_case())
    }
}

/// Why a file did not compile: `file:line:column: message`, then what to do.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub Diagnostic);

/// Compiles `file`, looking for imports in `includes`, then in the file's own directory. A file that is not `.proto` text is taken as a
/// FileDescriptorSet that protoc or buf made.
///
/// # Errors
/// The first thing that is wrong, with its place and the next step.
pub fn compile(file: &Path, includes: &[PathBuf]) -> Result<Compiled, CompileError> {
    let bytes = fs::read(file).map_err(|error| {
        CompileError(
            Diagnostic::error(format!("cannot read it: {error}"))
                .at(file.display().to_string(), None)
                .help("pass the path of a .proto file, or of a descriptor set made by protoc or buf"),
        )
    })?;
    if is_descriptor_set(file, &bytes) {
        return read_descriptor_set(&bytes, &file.display().to_string());
    }
    compile_text(file, includes)
}

/// Takes a FileDescriptorSet that protoc or buf made as what text compiles to; errors call it `shown`.
///
/// # Errors
/// What is wrong with it, and the next step.
pub fn read_descriptor_set(bytes: &[u8], shown: &str) -> Result<Compiled, CompileError> {
    let set = descriptor_set::complete(bytes, shown)?;
    let roots: Vec<_> = set.files.iter().filter(|f| !is_built_in(f.name())).map(|f| f.name().to_owned()).collect();
    Ok(compiled(set.raw, Vec::new(), &set.files, roots))
}

/// Whether `google/protobuf/...` of that name is built into the compiler.
pub(crate) fn is_built_in(name: &str) -> bool {
    BUILT_IN.contains(&name)
}

fn is_descriptor_set(file: &Path, bytes: &[u8]) -> bool {
    match file.extension().and_then(|e| e.to_str()) {
        Some("proto") => false,
        Some("binpb" | "pb" | "desc" | "fds" | "protoset") => true,
        _ => std::str::from_utf8(bytes).is_err(),
    }
}

fn compile_text(file: &Path, includes: &[PathBuf]) -> Result<Compiled, CompileError> {
    let sources = Sources::default();
    let dirs = IncludeDirs::new(file, includes, sources.clone())?;
    let root = dirs.root_name().to_owned();
    let mut compiler = compiler(dirs);
    if let Err(error) = compiler.open_file(&root) {
        return Err(CompileError(sources.explain(&error, file, |missing| import_help(missing, includes, file))));
    }
    Ok(output(&compiler, &sources, root))
}

/// A compiler that finds files with `resolver`, besides those that are built in.
fn compiler(resolver: impl FileResolver + 'static) -> Compiler {
    let mut chain = ChainFileResolver::new();
    // First, because a newer descriptor.proto among the includes does not parse and would shadow the built-in one.
    chain.add(GoogleFileResolver::new());
    chain.add(resolver);
    let mut compiler = Compiler::with_file_resolver(chain);
    compiler.include_imports(true).include_source_info(true);
    compiler
}

/// What a compiler has made of a root file.
fn output(compiler: &Compiler, sources: &Sources, root: String) -> Compiled {
    let raw = compiler.encode_file_descriptor_set();
    let files = FileDescriptorSet::decode(raw.as_slice()).expect("the compiler's own output decodes").file;
    let texts = sources.take_texts();
    compiled(raw, texts, &files, vec![root])
}

fn compiled(descriptor_set: Vec<u8>, sources: Vec<(String, String)>, files: &[FileDescriptorProto], roots: Vec<String>) -> Compiled {
    let (mut messages, mut imported_messages, mut services) = (Vec::new(), Vec::new(), Vec::new());
    for file in files {
        let root = roots.iter().any(|root| root == file.name());
        let names = if root { &mut messages } else { &mut imported_messages };
        for message in &file.message_type {
            collect_messages(file.package(), message, names);
        }
        if root {
            services.extend(file.service.iter().map(|service| {
                Service {
                    name: qualified(file.package(), service.name()),
                    methods: service
                        .method
                        .iter()
                        .map(|method| Method {
                            name: method.name().to_owned(),
                            input: method.input_type().trim_start_matches('.').to_owned(),
                            output: method.output_type().trim_start_matches('.').to_owned(),
                            streaming: method.client_streaming() || method.server_streaming(),
                        })
                        .collect(),
                }
            }));
        }
    }
    Compiled { descriptor_set, sources, roots, messages, imported_messages, services }
}

fn collect_messages(scope: &str, message: &DescriptorProto, names: &mut Vec<String>) {
    if message.options.as_ref().is_some_and(|options| options.map_entry()) {
        return;
    }
    let name = qualified(scope, message.name());
    names.push(name.clone());
    for nested in &message.nested_type {
        collect_messages(&name, nested, names);
    }
}

#[cfg(test)]
mod tests;
