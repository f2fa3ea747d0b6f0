//! Descriptor sets that protoc or buf made: decoded, checked for their imports, and completed with the well-known files.
//!
//! Editions are welcome here; what they mean is decided where descriptors are read, never by `prost_reflect`, which panics on them.

use std::collections::BTreeSet;

use prost::Message;
use prost_reflect::DescriptorPool;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

use super::{CompileError, soundness};
use crate::diagnostic::Diagnostic;

/// The files that every compiler brings with it.
pub(crate) const BUILT_IN: [&str; 12] = [
    "google/protobuf/any.proto",
    "google/protobuf/api.proto",
    "google/protobuf/compiler/plugin.proto",
    "google/protobuf/descriptor.proto",
    "google/protobuf/duration.proto",
    "google/protobuf/empty.proto",
    "google/protobuf/field_mask.proto",
    "google/protobuf/source_context.proto",
    "google/protobuf/struct.proto",
    "google/protobuf/timestamp.proto",
    "google/protobuf/type.proto",
    "google/protobuf/wrappers.proto",
];

/// A set in which every import is present.
#[derive(Debug)]
pub(super) struct CompleteSet {
    pub(super) raw: Vec<u8>,
    pub(super) files: Vec<FileDescriptorProto>,
}

/// Decodes `bytes` and puts missing well-known files in front. `shown` is the file's path, for errors.
pub(super) fn complete(bytes: &[u8], shown: &str) -> Result<CompleteSet, CompileError> {
    let refuse = |message: String, help: &str| CompileError(Diagnostic::error(message).at(shown, None).help(help));
    let set = FileDescriptorSet::decode(bytes).map_err(|error| {
        refuse(
            format!("this is not a FileDescriptorSet: {error}"),
            "make one with `protoc --include_imports --descriptor_set_out=FILE` or `buf build -o FILE`",
        )
    })?;
    if set.file.is_empty() {
        return Err(refuse("the descriptor set holds no file".to_owned(), "was the right file passed?"));
    }
    for file in &set.file {
        if !matches!(file.syntax.as_deref(), None | Some("" | "proto2" | "proto3" | "editions")) {
            return Err(refuse(
                format!("{}: unknown syntax {:?}", file.name(), file.syntax()),
                "known are proto2, proto3 and editions; a newer qwer-q may know more",
            ));
        }
    }
    let mut missing = missing_imports(&set.file);
    let mut raw = Vec::new();
    let mut files = Vec::new();
    let pool = DescriptorPool::global();
    for name in BUILT_IN {
        if missing.remove(name) {
            let file = pool.get_file_by_name(name).expect("prost-reflect carries the well-known files");
            let one = FileDescriptorSet { file: vec![file.file_descriptor_proto().clone()] };
            // A concatenation of two sets is one set: `file` is a repeated field.
            raw.extend(one.encode_to_vec());
            files.extend(one.file);
        }
    }
    if let Some(name) = missing.first() {
        return Err(refuse(
            format!("the descriptor set does not hold the import '{name}'"),
            "make it with its imports: `protoc --include_imports ...`; `buf build` does so by itself",
        ));
    }
    raw.extend_from_slice(bytes);
    files.extend(set.file);
    soundness::check(&files).map_err(|what| refuse(what, "no compiler makes such descriptors; make the set again with protoc or buf"))?;
    Ok(CompleteSet { raw, files })
}

fn missing_imports(files: &[FileDescriptorProto]) -> BTreeSet<String> {
    let present: BTreeSet<&str> = files.iter().map(FileDescriptorProto::name).collect();
    let mut missing: BTreeSet<String> =
        files.iter().flat_map(|file| &file.dependency).filter(|name| !present.contains(name.as_str())).cloned().collect();
    // The built-in files that import another one.
    if missing.contains("google/protobuf/api.proto") || missing.contains("google/protobuf/type.proto") {
        let needed = ["any", "source_context", "type"].map(|name| format!("google/protobuf/{name}.proto"));
        missing.extend(needed.into_iter().filter(|name| !present.contains(name.as_str())));
    }
    if missing.contains("google/protobuf/compiler/plugin.proto") && !present.contains("google/protobuf/descriptor.proto") {
        missing.insert("google/protobuf/descriptor.proto".to_owned());
    }
    missing
}
