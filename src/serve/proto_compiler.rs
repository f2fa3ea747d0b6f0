//! The compiler of .proto text that the broker is given for what comes over HTTP: the same that `schema register` and `schema get` use.

use std::collections::BTreeMap;

use qwerq_broker::proto_text::{CompiledText, ProtoText};
use qwerq_codegen::compile::compile_texts;
use qwerq_proto::wire::SourceFile;

use crate::schema::proto_files;

/// The built-in compiler.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProtoCompiler;

impl ProtoText for ProtoCompiler {
    fn compile(&self, root: &str, files: &BTreeMap<String, String>) -> Result<CompiledText, String> {
        let compiled = compile_texts(root, files).map_err(|error| error.to_string())?;
        let sources = compiled.sources.into_iter().map(|(path, text)| SourceFile { path, text }).collect();
        Ok(CompiledText { descriptor_set: compiled.descriptor_set, sources, messages: compiled.messages })
    }

    fn print(&self, descriptor_set: &[u8]) -> Result<Vec<SourceFile>, String> {
        proto_files(descriptor_set)
    }
}
