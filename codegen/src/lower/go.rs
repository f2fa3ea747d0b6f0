//! Go: messages with the text of protoc-gen-go's open struct API, typed clients, and the runtime beside them.
//!
//! A Go file embeds its whole descriptor, so whole files are emitted ([`crate::ir::whole`]). Packages are assigned first ([`package`]), then
//! every type gets its name ([`index`]); a file becomes a [`source`], whose declarations, tables and imports are printed in the order in
//! which protoc-gen-go prints them, because the order decides what clashing imports are called.

mod align;
mod clash;
mod clients;
mod comment;
mod declarations;
mod descriptor;
mod field;
mod float;
mod forward;
mod imports;
mod index;
mod names;
mod package;
mod source;
mod unsupported;
#[cfg(test)]
mod wire;

use std::{collections::BTreeSet, path::PathBuf};

use qwerq_sdk_templates::go::{MessagesFile, RUNTIME};

use crate::{
    contract::{GoOptions, Request},
    diagnostic::{Diagnostic, Diagnostics},
    ir::{
        Schema,
        whole::{self, WholeFile},
    },
    output::{MARK, OutputFile},
};
use index::Index;
use package::Package;
use source::Source;

/// The version of protoc-gen-go whose text is emitted, and the least one of google.golang.org/protobuf that runs it.
const PROTOBUF_VERSION: &str = "v1.36.12";

/// `protoimpl.GenVersion` of that version.
const GENERATION: u32 = 20;

/// FileDescriptorProto.package and syntax, for the comments at the head of a file.
const FILE_PACKAGE: i32 = 2;
const FILE_SYNTAX: i32 = 12;

/// Emits the whole tree. Errors and warnings go to `diagnostics`.
pub(crate) fn lower(request: &Request, options: &GoOptions, schema: &Schema, diagnostics: &mut Diagnostics) -> Vec<OutputFile> {
    if !is_import_path(&options.module) {
        diagnostics.push(
            Diagnostic::error(format!("{:?} is not the import path of a Go package", options.module))
                .help("give the import path that the output folder has in your module: example.com/shop/queues"),
        );
        return Vec::new();
    }
    let files = whole::files(request, schema, diagnostics);
    let packages = package::assign(&files, options, diagnostics);
    let index = Index::new(&files, &packages);
    clash::check(&files, &packages, &index, diagnostics);
    unsupported::check(&files, &packages, &index, diagnostics);
    if diagnostics.has_errors() {
        return Vec::new();
    }
    let mut taken = BTreeSet::new();
    let mut emitted = Vec::new();
    for (at, file) in files.iter().enumerate().filter(|(at, _)| packages[*at].is_emitted()) {
        let path = package::output_path(file.proto.name(), &packages[at], &mut taken);
        emitted.push(OutputFile { path, text: messages(&files, &packages, &index, at) });
    }
    if !schema.contracts.is_empty() {
        let view = clients::view(&schema.contracts, &index, &packages, &options.module, diagnostics);
        emitted.push(OutputFile { path: PathBuf::from(format!("{}.go", clients::package_name(&options.module))), text: view.text() });
        emitted.extend(
            RUNTIME.iter().map(|(name, text)| OutputFile { path: PathBuf::from(package::RUNTIME).join(name), text: runtime(text) }),
        );
    }
    emitted.sort_by(|a, b| a.path.cmp(&b.path));
    emitted
}

/// Letters, digits and `-._~` between slashes, as Go wants them.
fn is_import_path(path: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
            && !part.starts_with('.')
            && !part.ends_with('.')
    };
    path.split('/').all(part)
}

/// A file of the runtime, which says that it is generated as the others do.
fn runtime(text: &str) -> String {
    format!("// Code generated with the clients, {MARK} {}; DO NOT EDIT.\n\n{text}", env!("CARGO_PKG_VERSION"))
}

/// The text of one .pb.go file.
fn messages(files: &[WholeFile], packages: &[Package], index: &Index<'_>, at: usize) -> String {
    let mut source = Source::new(&files[at], index, &packages[at]);
    let file = &files[at].proto;
    let enforce_version = source.protoimpl("EnforceVersion");
    let (min_version, max_version) = (source.protoimpl("MinVersion"), source.protoimpl("MaxVersion"));
    let (mut declarations, same_package) = imported(files, packages, &mut source);
    declarations.extend((0..source.enums.len()).map(|at| declarations::enumeration(&mut source, at)).collect::<Vec<_>>());
    for at in 0..source.messages.len() {
        if !source.messages[at].proto.options.as_ref().is_some_and(|options| options.map_entry()) {
            declarations.push(declarations::message(&mut source, at));
        }
    }
    declarations.extend(Some(declarations::extensions(&mut source)).filter(|text| !text.is_empty()));
    let has_raw_getter = !(source.enums.is_empty() && source.messages.is_empty());
    let file_descriptor = source.protoreflect("FileDescriptor");
    let once = if has_raw_getter { source.imports.of("sync", "Once") } else { String::new() };
    let protoimpl_x = if has_raw_getter { source.protoimpl("X") } else { String::new() };
    let raw_bytes = |source: &mut Source<'_>| {
        let (slice, data) = (source.imports.of("unsafe", "Slice"), source.imports.of("unsafe", "StringData"));
        format!("{slice}({data}({0}), len({0}))", source.variable("rawDesc"))
    };
    if has_raw_getter {
        let _ = raw_bytes(&mut source);
    }
    let tables = descriptor::tables(&mut source);
    let inits = descriptor::inits(&source, &same_package);
    let (type_builder, desc_builder) = (source.protoimpl("TypeBuilder"), source.protoimpl("DescBuilder"));
    let type_of = source.imports.of("reflect", "TypeOf");
    let raw_bytes = raw_bytes(&mut source);
    MessagesFile {
        mark: MARK,
        tool_version: env!("CARGO_PKG_VERSION"),
        protobuf_version: PROTOBUF_VERSION,
        source: vec![match file.options.as_ref().is_some_and(|options| options.deprecated()) {
            true => format!("// {} is a deprecated file.", file.name()),
            false => format!("// source: {}", file.name()),
        }],
        comments: [FILE_SYNTAX, FILE_PACKAGE].iter().flat_map(|field| standalone(&source, *field)).collect(),
        package: packages[at].name.clone(),
        generation: GENERATION,
        enforce_version,
        min_version,
        max_version,
        protoimpl_x,
        type_builder,
        desc_builder,
        file_descriptor,
        type_of,
        once,
        declarations,
        descriptor: source.descriptor_variable(),
        prefix: source.variable("").trim_end_matches('_').to_owned(),
        raw: descriptor::raw_expression(&files[at].descriptor),
        raw_bytes,
        has_raw_getter,
        tables,
        init: align::function("func init()", &format!("{}()", source.variable("init"))),
        inits,
        enums: source.enums.len(),
        messages: source.messages.len(),
        extensions: source.extensions.len(),
        services: source.services().len(),
        imports: source.imports.lines(),
    }
    .text()
}

/// Imports what the file imports: the aliases of public imports, and the files of the same Go package.
fn imported(files: &[WholeFile], packages: &[Package], source: &mut Source<'_>) -> (Vec<String>, Vec<String>) {
    let file = &source.file.proto;
    let (mut declarations, mut same_package) = (Vec::new(), Vec::new());
    for (dependency_at, dependency) in file.dependency.iter().enumerate() {
        let Ok(at) = files.binary_search_by(|other| other.proto.name().cmp(dependency)) else { continue };
        if packages[at].import_path == source.package.import_path {
            same_package.push(dependency.clone());
            continue;
        }
        source.imports.blank(&packages[at].import_path);
        let public = file.public_dependency.iter().any(|public| usize::try_from(*public) == Ok(dependency_at));
        if public {
            let of = Source::new(&files[at], source.index, &packages[at]);
            declarations.push(forward::forward(&of, &mut source.imports));
        }
    }
    (declarations, same_package)
}

/// The comments above `syntax` and `package`, which belong to no declaration.
fn standalone(source: &Source<'_>, field: i32) -> Vec<Vec<String>> {
    let Some(location) = source.location(&[field]) else { return Vec::new() };
    let leading = location.leading_comments.as_deref().filter(|text| !text.is_empty());
    let texts = location.leading_detached_comments.iter().map(String::as_str).chain(leading);
    texts.map(comment::standalone).collect()
}
