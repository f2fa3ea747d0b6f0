//! Real schemas as originals for mutation: one message of a public file, with the files that its types need.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message as _;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use protox::Compiler;
use protox::file::{ChainFileResolver, GoogleFileResolver, IncludeFileResolver};

use crate::rng::Rng;

/// Originals that are taken.
const ORIGINALS: usize = 160;
/// Files of one original at most, well-known types not counted: a pair must stay small.
const FILES_MAX: usize = 4;
/// Bytes of one original's descriptors at most.
const BYTES_MAX: usize = 24 << 10;

/// Text of the root file at most: most of what is too large is known before it is compiled.
const TEXT_BYTES_MAX: u64 = 16 << 10;

/// A message with all files that it needs, stripped of options that only other tools read.
pub(crate) struct Original {
    pub(crate) files: Vec<FileDescriptorProto>,
    pub(crate) message: String,
}

/// Takes originals from the corpus, from as many folders as possible.
pub(crate) fn take(corpus: &Path, seed: u64) -> Vec<Original> {
    let mut files = Vec::new();
    collect(corpus, &mut files);
    files.sort();
    Rng::new(seed).shuffle(&mut files);
    let mut folders = BTreeSet::new();
    let mut originals = Vec::new();
    for file in files {
        if originals.len() == ORIGINALS {
            break;
        }
        let folder = file.parent().expect("a file is in a folder").to_owned();
        if !folders.contains(&folder)
            && fs::metadata(&file).is_ok_and(|facts| facts.len() <= TEXT_BYTES_MAX)
            && let Some(original) = original(corpus, &file)
        {
            folders.insert(folder);
            originals.push(original);
        }
    }
    assert!(originals.len() >= ORIGINALS / 2, "only {} originals", originals.len());
    originals
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the corpus can be listed") {
        let path = entry.expect("the corpus can be listed").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
}

/// `None`: it does not compile, has no message that is worth it, or is too large.
fn original(corpus: &Path, file: &Path) -> Option<Original> {
    let name = file.strip_prefix(corpus).ok()?.to_str()?;
    let mut resolver = ChainFileResolver::new();
    resolver.add(GoogleFileResolver::new());
    resolver.add(IncludeFileResolver::new(corpus.to_owned()));
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(false);
    compiler.open_file(name).ok()?;
    let set = FileDescriptorSet::decode(compiler.encode_file_descriptor_set().as_slice()).ok()?;
    let root = set.file.last().expect("the root file comes last");
    let largest = root.message_type.iter().max_by_key(|message| message.field.len())?;
    if largest.field.len() < 3 {
        return None;
    }
    let message = format!("{}.{}", root.package(), largest.name());
    let files = needed(set.file, name);
    let own = files.iter().filter(|file| !is_well_known(file)).count();
    let bytes: usize = files.iter().filter(|file| !is_well_known(file)).map(|file| file.encoded_len()).sum();
    (own <= FILES_MAX && bytes <= BYTES_MAX).then_some(Original { files, message })
}

pub(crate) fn is_well_known(file: &FileDescriptorProto) -> bool {
    file.package() == "google.protobuf"
}

/// The files that the root's types reach, stripped, in dependency order.
fn needed(files: Vec<FileDescriptorProto>, root: &str) -> Vec<FileDescriptorProto> {
    let files: Vec<_> = files.into_iter().map(stripped).collect();
    let homes: BTreeMap<String, usize> =
        files.iter().enumerate().flat_map(|(at, file)| names(file).into_iter().map(move |name| (name, at))).collect();
    let mut used = BTreeSet::new();
    let mut stack: Vec<usize> = files.iter().position(|file| file.name() == root).into_iter().collect();
    while let Some(at) = stack.pop() {
        if used.insert(at) {
            stack.extend(references(&files[at]).iter().filter_map(|name| homes.get(name.trim_start_matches('.'))));
        }
    }
    let mut kept = Vec::new();
    for at in &used {
        let mut file = files[*at].clone();
        let needs: BTreeSet<usize> = references(&file).iter().filter_map(|name| homes.get(name.trim_start_matches('.'))).copied().collect();
        file.dependency = needs.into_iter().filter(|need| need != at).map(|need| files[need].name().to_owned()).collect();
        file.public_dependency.clear();
        file.weak_dependency.clear();
        kept.push(file);
    }
    kept
}

/// Without services, extensions and the options that change nothing for us.
fn stripped(mut file: FileDescriptorProto) -> FileDescriptorProto {
    if is_well_known(&file) {
        return file;
    }
    file.service.clear();
    file.extension.clear();
    file.options = None;
    file.message_type.iter_mut().for_each(strip_message);
    file.enum_type.iter_mut().for_each(strip_enum);
    file
}

fn strip_message(message: &mut DescriptorProto) {
    message.extension.clear();
    if let Some(options) = &mut message.options {
        options.uninterpreted_option.clear();
    }
    for field in &mut message.field {
        if let Some(options) = &mut field.options {
            *options = prost_types::FieldOptions { packed: options.packed, jstype: options.jstype, ..Default::default() };
        }
    }
    message.nested_type.iter_mut().for_each(strip_message);
    message.enum_type.iter_mut().for_each(strip_enum);
}

fn strip_enum(enumeration: &mut EnumDescriptorProto) {
    enumeration.value.iter_mut().for_each(|value| value.options = None);
}

fn names(file: &FileDescriptorProto) -> Vec<String> {
    fn message(scope: &str, message_type: &DescriptorProto, names: &mut Vec<String>) {
        let name = join(scope, message_type.name());
        message_type.enum_type.iter().for_each(|enumeration| names.push(join(&name, enumeration.name())));
        message_type.nested_type.iter().for_each(|nested| message(&name, nested, names));
        names.push(name);
    }
    let mut names = Vec::new();
    file.message_type.iter().for_each(|each| message(file.package(), each, &mut names));
    names.extend(file.enum_type.iter().map(|enumeration| join(file.package(), enumeration.name())));
    names
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

fn references(file: &FileDescriptorProto) -> Vec<String> {
    fn message(message_type: &DescriptorProto, found: &mut Vec<String>) {
        let named = |field: &&FieldDescriptorProto| matches!(field.r#type(), Type::Message | Type::Enum | Type::Group);
        found.extend(message_type.field.iter().filter(named).map(|field| field.type_name().to_owned()));
        message_type.nested_type.iter().for_each(|nested| message(nested, found));
    }
    let mut found = Vec::new();
    file.message_type.iter().for_each(|each| message(each, &mut found));
    found
}
