//! The compiler of .proto text that the broker is given for what comes over HTTP: the same that `schema register` and `schema get` use.

use std::collections::BTreeMap;

use qwerq_broker::proto_text::{CompiledText, Definition, ProtoText, RpcContract};
use qwerq_codegen::compile::{Compiled, compile_texts, read_descriptor_set};
use qwerq_proto::wire::SourceFile;

use crate::schema::{proto_files, service_contracts};

fn text(compiled: Compiled) -> CompiledText {
    let sources = compiled.sources.into_iter().map(|(path, text)| SourceFile { path, text }).collect();
    CompiledText { descriptor_set: compiled.descriptor_set, sources, messages: compiled.messages }
}

/// The built-in compiler.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProtoCompiler;

impl ProtoText for ProtoCompiler {
    fn compile(&self, root: &str, files: &BTreeMap<String, String>) -> Result<CompiledText, String> {
        compile_texts(root, files).map(text).map_err(|error| error.to_string())
    }

    fn service(&self, definition: &Definition, service: &str, prefix: Option<&str>) -> Result<(CompiledText, Vec<RpcContract>), String> {
        let compiled = match definition {
            Definition::Text { root, files } => compile_texts(root, files),
            Definition::Descriptors(set) => read_descriptor_set(set, "the descriptor set"),
        };
        let compiled = compiled.map_err(|error| error.to_string())?;
        let contracts = service_contracts(&compiled, service, prefix).map_err(|failure| failure.sentence())?;
        Ok((text(compiled), contracts))
    }

    fn print(&self, descriptor_set: &[u8]) -> Result<Vec<SourceFile>, String> {
        proto_files(descriptor_set)
    }
}
