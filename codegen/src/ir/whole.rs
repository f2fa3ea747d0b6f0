//! Whole files, for languages whose output embeds each file's descriptor: there a type cannot be left out of its file.
//!
//! They are the files that the merged schema takes types from, and whatever those refer to. An import that only brings options is not
//! followed. Where contracts hold different texts of a file, the one counts that `merge` chose the types from.
//!
//! [`super::linked`] has whole files as well, by other rules, which is why they are two: there every import is followed, since the
//! runtime looks it up, one name may stand for files of several packages, and descriptors are left as they are; here a name is one file in
//! all of a program, imports for options stay away, editions are lowered, and options for the source are cut out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prost::{Message, bytes::Bytes};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};

use super::{Schema, editions, qualified, retention};
use crate::{
    compile::is_built_in,
    contract::Request,
    diagnostic::{Diagnostic, Diagnostics},
};

/// FileDescriptorProto.source_code_info.
const SOURCE_CODE_INFO: u32 = 9;

/// A file with everything in it.
#[derive(Debug, Clone)]
pub(crate) struct WholeFile {
    /// Editions are lowered to the words of proto3.
    pub(crate) proto: FileDescriptorProto,
    /// As it was compiled, custom options included, without source locations and options for the source; fields in the order of their
    /// numbers.
    pub(crate) descriptor: Vec<u8>,
    /// It is written in an edition.
    pub(crate) edition: bool,
    /// It is a well-known file, which the language's protobuf library brings.
    pub(crate) built_in: bool,
}

/// A FileDescriptorSet whose files stay bytes.
#[derive(Clone, PartialEq, Message)]
struct RawFiles {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

/// The files, sorted by name. What contradicts itself goes to `diagnostics`.
pub(crate) fn files(request: &Request, schema: &Schema, diagnostics: &mut Diagnostics) -> Vec<WholeFile> {
    let known = candidates(request);
    let mut files: BTreeMap<String, WholeFile> = BTreeMap::new();
    for (name, raws) in chosen(schema, diagnostics) {
        files.extend(raws.first().and_then(|raw| read(raw, diagnostics)).map(|file| (name, file)));
    }
    let mut defines: HashMap<String, &str> = HashMap::new();
    for (name, (file, _)) in &known {
        for_each_type(file, |full_name| {
            defines.entry(full_name).or_insert(name);
        });
    }
    let mut open: Vec<String> = files.keys().cloned().collect();
    while let Some(name) = open.pop() {
        for needed in needs(&files[&name].proto, &defines) {
            if !files.contains_key(&needed)
                && let Some(file) = known.get(&needed).and_then(|(_, raw)| read(raw, diagnostics))
            {
                files.insert(needed.clone(), file);
                open.push(needed);
            }
        }
    }
    files.into_values().collect()
}

/// Every file of every source, the first of a name; what does not decode was reported when the schema was resolved.
fn candidates(request: &Request) -> BTreeMap<String, (FileDescriptorProto, Bytes)> {
    let mut contracts: Vec<_> = request.contracts.iter().collect();
    contracts.sort_by(|a, b| a.queue.cmp(&b.queue));
    let sets = contracts.iter().map(|contract| &contract.descriptor_set).chain(request.types.as_ref().map(|types| &types.descriptor_set));
    let mut known = BTreeMap::new();
    for raw in sets.filter_map(|set| RawFiles::decode(set.clone()).ok()).flat_map(|set| set.file) {
        if let Ok(file) = FileDescriptorProto::decode(raw.clone()) {
            known.entry(file.name().to_owned()).or_insert((file, raw));
        }
    }
    known
}

/// For each file of the schema the text that its types were chosen from.
fn chosen(schema: &Schema, diagnostics: &mut Diagnostics) -> BTreeMap<String, Vec<Bytes>> {
    let mut chosen: BTreeMap<String, Vec<Bytes>> = BTreeMap::new();
    for file in &schema.files {
        let raws = chosen.entry(file.proto.name().to_owned()).or_default();
        if !raws.iter().any(|raw| without_locations(raw) == without_locations(&file.raw)) {
            raws.push(file.raw.clone());
        }
    }
    for (name, raws) in &chosen {
        if raws.len() > 1 {
            diagnostics.push(
                Diagnostic::error("contracts hold different texts of this file, and types of both are in use")
                    .at(name.clone(), None)
                    .help("register the contracts again from one text of the file"),
            );
        }
    }
    chosen
}

fn read(raw: &Bytes, diagnostics: &mut Diagnostics) -> Option<WholeFile> {
    let mut proto = FileDescriptorProto::decode(raw.clone()).expect("it decoded when the schema was resolved");
    let (built_in, edition) = (is_built_in(proto.name()), proto.syntax() == "editions");
    if !built_in && let Err(what) = editions::lower(&mut proto, raw) {
        diagnostics.push(Diagnostic::error(what).at(proto.name(), None));
        return None;
    }
    Some(WholeFile { descriptor: retention::strip(&without_locations(raw)), proto, edition, built_in })
}

/// The files of all types that `file` refers to, and its public imports.
fn needs(file: &FileDescriptorProto, defines: &HashMap<String, &str>) -> BTreeSet<String> {
    let mut needed = BTreeSet::new();
    let mut refer = |name: &str| {
        let name = name.trim_start_matches('.');
        needed.extend(defines.get(name).map(|file| (*file).to_owned()));
    };
    for message in &file.message_type {
        for_each_reference(message, &mut refer);
    }
    for extension in &file.extension {
        refer_field(extension, &mut refer);
    }
    for method in file.service.iter().flat_map(|service| &service.method) {
        refer(method.input_type());
        refer(method.output_type());
    }
    let public = file.public_dependency.iter().filter_map(|at| usize::try_from(*at).ok()).filter_map(|at| file.dependency.get(at));
    needed.extend(public.cloned());
    needed
}

fn for_each_reference(message: &DescriptorProto, refer: &mut impl FnMut(&str)) {
    for field in message.field.iter().chain(&message.extension) {
        refer_field(field, refer);
    }
    for nested in &message.nested_type {
        for_each_reference(nested, refer);
    }
}

fn refer_field(field: &FieldDescriptorProto, refer: &mut impl FnMut(&str)) {
    for name in [&field.type_name, &field.extendee].into_iter().flatten() {
        refer(name);
    }
}

/// The full names of all messages and enums of a file, nested ones included.
pub(crate) fn for_each_type(file: &FileDescriptorProto, mut each: impl FnMut(String)) {
    fn nested(scope: &str, message: &DescriptorProto, each: &mut impl FnMut(String)) {
        let name = qualified(scope, message.name());
        for inner in &message.nested_type {
            nested(&name, inner, each);
        }
        for inner in &message.enum_type {
            each(qualified(&name, inner.name()));
        }
        each(name);
    }
    for message in &file.message_type {
        nested(file.package(), message, &mut each);
    }
    for enumeration in &file.enum_type {
        each(qualified(file.package(), enumeration.name()));
    }
}

/// The file without `source_code_info`, its fields in the order of their numbers, as every protobuf library writes them.
fn without_locations(raw: &[u8]) -> Vec<u8> {
    let mut fields: Vec<(u32, &[u8])> = Vec::new();
    let mut rest = raw;
    while !rest.is_empty() {
        let before = rest;
        let (number, wire_type) = prost::encoding::decode_key(&mut rest).expect("the file was decoded before");
        let context = prost::encoding::DecodeContext::default();
        prost::encoding::skip_field(wire_type, number, &mut rest, context).expect("the file was decoded before");
        fields.push((number, &before[..before.len() - rest.len()]));
    }
    fields.retain(|(number, _)| *number != SOURCE_CODE_INFO);
    fields.sort_by_key(|(number, _)| *number);
    fields.into_iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect()
}
