//! Descriptor sets of many contracts to one set of files in which every type is defined once.
//!
//! Contracts are registered at different times, so two of them may hold different texts of a shared file. What is compared is therefore
//! each top-level type, not the file: equal ones are one; where one only adds to the other it stands for both, with a warning; everything
//! else is an error that names both queues. Types that no contract reaches are left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prost::{Message, bytes::Bytes};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, field_descriptor_proto::Type};

use super::{Locations, SchemaFile, editions, qualified};
use crate::{
    compile::is_built_in,
    contract::{ContractSource, Request},
    diagnostic::{Diagnostic, Diagnostics},
};

/// A FileDescriptorSet whose files stay bytes.
#[derive(Clone, PartialEq, Message)]
struct RawFiles {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

/// One descriptor set and what of it is wanted.
pub(super) struct Source {
    /// The queue whose contract it is; none for a folder's files.
    pub(super) queue: Option<String>,
    /// How errors call it: `queue orders (version 3)`.
    pub(super) label: String,
    /// Decoded, editions lowered, and as they came.
    pub(super) files: Vec<(FileDescriptorProto, Bytes)>,
    /// Positions in `files`.
    pub(super) by_name: HashMap<String, usize>,
    /// Top-level types by full name.
    types: HashMap<String, TypeAt>,
    /// Their full names by file.
    by_file: Vec<Vec<String>>,
}

#[derive(Debug, Clone, Copy)]
struct TypeAt {
    file: usize,
    at: usize,
    message: bool,
}

enum Definition<'a> {
    Message(&'a DescriptorProto),
    Enum(&'a EnumDescriptorProto),
}

/// The merged files, sorted by package and name; errors and warnings go to `diagnostics`.
pub(super) fn merge(request: &Request, diagnostics: &mut Diagnostics) -> Vec<SchemaFile> {
    let (sources, roots) = sources(request, diagnostics);
    let types_of = |source: &Source, files: &BTreeSet<usize>| files.iter().flat_map(|file| source.types_of_file(*file)).collect();
    let wanted: Vec<BTreeSet<String>> = sources.iter().zip(&roots).map(|(s, files)| s.reachable(types_of(s, files))).collect();
    let chosen = choose(&sources, &wanted, diagnostics);
    collect(&sources, &chosen)
}

/// Every contract's descriptor set, sorted by queue, then the folder's; with each the files that are wanted whatever refers to them.
pub(super) fn sources(request: &Request, diagnostics: &mut Diagnostics) -> (Vec<Source>, Vec<BTreeSet<usize>>) {
    let mut contracts: Vec<&ContractSource> = request.contracts.iter().collect();
    contracts.sort_by(|a, b| a.queue.cmp(&b.queue));
    let (mut sources, mut wanted) = (Vec::new(), Vec::new());
    for contract in contracts {
        let label = match contract.version {
            0 => format!("queue {}", contract.queue),
            version => format!("queue {} (version {version})", contract.queue),
        };
        let Some(mut source) = Source::decode(label, &contract.descriptor_set, diagnostics) else { continue };
        source.queue = Some(contract.queue.clone());
        let mut roots = BTreeSet::new();
        for full_name in [Some(&contract.message_type), contract.reply_type.as_ref()].into_iter().flatten() {
            match source.file_of_message(full_name) {
                Some(file) => {
                    roots.insert(file);
                }
                None => diagnostics.push(
                    Diagnostic::error(format!("{}: its descriptor set does not define the message {full_name}", source.label))
                        .help("register the contract again with the file that defines it"),
                ),
            }
        }
        wanted.push(roots);
        sources.push(source);
    }
    if let Some(types) = &request.types
        && let Some(source) = Source::decode("the folder".to_owned(), &types.descriptor_set, diagnostics)
    {
        let is_root = |file: &FileDescriptorProto| types.roots.iter().any(|root| root == file.name());
        let roots = source.files.iter().enumerate().filter(|(_, (file, _))| is_root(file));
        wanted.push(roots.map(|(at, _)| at).collect());
        sources.push(source);
    }
    (sources, wanted)
}

impl Source {
    fn decode(label: String, descriptor_set: &Bytes, diagnostics: &mut Diagnostics) -> Option<Source> {
        let decoded = RawFiles::decode(descriptor_set.clone())
            .and_then(|set| set.file.into_iter().map(|raw| FileDescriptorProto::decode(raw.clone()).map(|file| (file, raw))).collect());
        let mut files: Vec<(FileDescriptorProto, Bytes)> = match decoded {
            Ok(files) => files,
            Err(error) => {
                diagnostics.push(Diagnostic::error(format!("{label}: the descriptor set does not decode: {error}")));
                return None;
            }
        };
        for (file, raw) in files.iter_mut().filter(|(file, _)| !is_built_in(file.name())) {
            if let Err(what) = editions::lower(file, raw) {
                diagnostics.push(Diagnostic::error(format!("{label}: {}: {what}", file.name())));
                return None;
            }
        }
        let (mut types, mut by_file) = (HashMap::new(), Vec::new());
        for (file_at, (file, _)) in files.iter().enumerate() {
            let messages = file.message_type.iter().enumerate().map(|(at, m)| (m.name(), at, true));
            let enums = file.enum_type.iter().enumerate().map(|(at, e)| (e.name(), at, false));
            let mut names = Vec::new();
            for (name, at, message) in messages.chain(enums) {
                let full_name = qualified(file.package(), name);
                names.push(full_name.clone());
                types.entry(full_name).or_insert(TypeAt { file: file_at, at, message });
            }
            by_file.push(names);
        }
        let by_name = files.iter().enumerate().map(|(at, (file, _))| (file.name().to_owned(), at)).collect();
        Some(Source { queue: None, label, files, by_name, types, by_file })
    }

    /// The index of the file that defines the message, which may be nested.
    pub(super) fn file_of_message(&self, full_name: &str) -> Option<usize> {
        let top = self.top_level_of(full_name)?;
        let at = self.types[top];
        let Definition::Message(mut message) = self.definition(at) else { return None };
        for part in full_name[top.len()..].split('.').filter(|part| !part.is_empty()) {
            message = message.nested_type.iter().find(|nested| nested.name() == part)?;
        }
        Some(at.file)
    }

    fn definition(&self, at: TypeAt) -> Definition<'_> {
        let file = &self.files[at.file].0;
        if at.message { Definition::Message(&file.message_type[at.at]) } else { Definition::Enum(&file.enum_type[at.at]) }
    }

    /// The top-level type that holds the type of that full name, or is it.
    fn top_level_of<'a>(&self, full_name: &'a str) -> Option<&'a str> {
        let ends = full_name.match_indices('.').map(|(at, _)| at).chain([full_name.len()]);
        ends.map(|end| &full_name[..end]).find(|name| self.types.contains_key(*name))
    }

    fn types_of_file(&self, file: usize) -> Vec<String> {
        self.by_file[file].clone()
    }

    /// The top-level types that `roots` need, themselves included. Well-known types are the runtime's and stay out.
    fn reachable(&self, roots: BTreeSet<String>) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<String> = roots.into_iter().collect();
        while let Some(name) = open.pop() {
            let at = self.types[&name];
            if is_built_in(self.files[at.file].0.name()) || !reached.insert(name) {
                continue;
            }
            if let Definition::Message(message) = self.definition(at) {
                let mut references = Vec::new();
                collect_references(message, &mut references);
                open.extend(references.iter().filter_map(|name| self.top_level_of(name)).map(str::to_owned));
            }
        }
        reached
    }
}

fn collect_references<'a>(message: &'a DescriptorProto, references: &mut Vec<&'a str>) {
    references.extend(message.field.iter().filter_map(|f| f.type_name.as_deref()).map(|name| name.trim_start_matches('.')));
    for nested in &message.nested_type {
        collect_references(nested, references);
    }
}

/// For each wanted type the source whose definition is emitted.
fn choose(sources: &[Source], wanted: &[BTreeSet<String>], diagnostics: &mut Diagnostics) -> BTreeMap<String, usize> {
    let mut chosen: BTreeMap<String, usize> = BTreeMap::new();
    for (candidate, names) in wanted.iter().enumerate() {
        for name in names {
            let Some(&current) = chosen.get(name) else {
                chosen.insert(name.clone(), candidate);
                continue;
            };
            let (old, new) = (&sources[current], &sources[candidate]);
            match compare(old, new, name) {
                Difference::None => {}
                Difference::FirstAdds => diagnostics.push(older_text(name, new, old)),
                Difference::SecondAdds => {
                    diagnostics.push(older_text(name, old, new));
                    chosen.insert(name.clone(), candidate);
                }
                Difference::Conflict(what) => diagnostics.push(
                    Diagnostic::error(format!("{name} is not the same in {} and in {}: {what}", old.label, new.label))
                        .help("register both queues from the same text, or leave one of them out of this output"),
                ),
            }
        }
    }
    chosen
}

fn older_text(name: &str, older: &Source, newer: &Source) -> Diagnostic {
    Diagnostic::warning(format!("{} holds an older {name} than {}; the newer one is emitted for both", older.label, newer.label))
        .help(format!("register {} again from the present text", older.label.split(" (").next().unwrap_or_default()))
}

enum Difference {
    None,
    FirstAdds,
    SecondAdds,
    Conflict(String),
}

fn compare(a: &Source, b: &Source, name: &str) -> Difference {
    let (at_a, at_b) = (a.types[name], b.types[name]);
    let (file_a, file_b) = (&a.files[at_a.file].0, &b.files[at_b.file].0);
    if normal_syntax(file_a) != normal_syntax(file_b) {
        return Difference::Conflict(format!("one is {}, the other {}", normal_syntax(file_a), normal_syntax(file_b)));
    }
    let missing = |x: Definition<'_>, y: Definition<'_>| match (x, y) {
        (Definition::Message(x), Definition::Message(y)) => first_missing(x, y, name),
        (Definition::Enum(x), Definition::Enum(y)) => first_missing_value(x, y, name),
        _ => Some("one is a message, the other an enum".to_owned()),
    };
    // What of b is not in a, and the other way round.
    let missing_in_a = missing(a.definition(at_a), b.definition(at_b));
    let missing_in_b = missing(b.definition(at_b), a.definition(at_a));
    match (missing_in_a, missing_in_b) {
        (None, None) => Difference::None,
        (None, Some(_)) => Difference::FirstAdds,
        (Some(_), None) => Difference::SecondAdds,
        (Some(what), Some(_)) => Difference::Conflict(what),
    }
}

fn normal_syntax(file: &FileDescriptorProto) -> &str {
    match file.syntax() {
        "" => "proto2",
        syntax => syntax,
    }
}

/// The first element of `other` that `message` lacks or has otherwise.
pub(super) fn first_missing(message: &DescriptorProto, other: &DescriptorProto, name: &str) -> Option<String> {
    for field in &other.field {
        let path = format!("{name}.{}", field.name());
        match message.field.iter().find(|f| f.number() == field.number()) {
            Some(mine) if shape(mine, message) == shape(field, other) => {}
            Some(mine) => return Some(format!("field {path} = {} against {}", field.number(), mine.name())),
            None => return Some(format!("field {path} = {} is missing", field.number())),
        }
    }
    for nested in &other.nested_type {
        let path = format!("{name}.{}", nested.name());
        match message.nested_type.iter().find(|n| n.name() == nested.name()) {
            Some(mine) => {
                if let Some(missing) = first_missing(mine, nested, &path) {
                    return Some(missing);
                }
            }
            None => return Some(format!("message {path} is missing")),
        }
    }
    for enumeration in &other.enum_type {
        let path = format!("{name}.{}", enumeration.name());
        match message.enum_type.iter().find(|e| e.name() == enumeration.name()) {
            Some(mine) => {
                if let Some(missing) = first_missing_value(mine, enumeration, &path) {
                    return Some(missing);
                }
            }
            None => return Some(format!("enum {path} is missing")),
        }
    }
    None
}

pub(super) fn first_missing_value(enumeration: &EnumDescriptorProto, other: &EnumDescriptorProto, name: &str) -> Option<String> {
    let has = |value: &prost_types::EnumValueDescriptorProto| {
        enumeration.value.iter().any(|v| v.name() == value.name() && v.number() == value.number())
    };
    other.value.iter().find(|value| !has(value)).map(|v| format!("value {name}.{} = {} is missing", v.name(), v.number()))
}

/// All of a field that generated code depends on. Options that no output reads, and json_name, which compilers fill in, are left out.
fn shape<'a>(field: &'a FieldDescriptorProto, message: &'a DescriptorProto) -> impl PartialEq + use<'a> {
    let oneof = field.oneof_index.and_then(|at| usize::try_from(at).ok()).and_then(|at| message.oneof_decl.get(at));
    let packed = field.options.as_ref().and_then(|options| options.packed);
    let kind = if field.r#type() == Type::Group { Type::Message } else { field.r#type() };
    (
        (field.name(), field.label(), kind, field.type_name.as_deref()),
        (field.default_value.as_deref(), oneof.map(|o| o.name().to_owned()), field.proto3_optional(), packed),
    )
}

/// Cuts each source's files down to the chosen types.
fn collect(sources: &[Source], chosen: &BTreeMap<String, usize>) -> Vec<SchemaFile> {
    let mut files = Vec::new();
    for (source_at, source) in sources.iter().enumerate() {
        let mut by_file: BTreeMap<usize, BTreeSet<(bool, usize)>> = BTreeMap::new();
        for (name, _) in chosen.iter().filter(|(_, from)| **from == source_at) {
            let at = source.types[name];
            by_file.entry(at.file).or_default().insert((at.message, at.at));
        }
        for (file_at, keep) in by_file {
            let (proto, raw) = &source.files[file_at];
            let mut proto = proto.clone();
            Locations::retain(&mut proto, |at| keep.contains(&(true, at)), |at| keep.contains(&(false, at)));
            files.push(SchemaFile { proto, raw: raw.clone() });
        }
    }
    files.sort_by(|a, b| (a.proto.package(), a.proto.name()).cmp(&(b.proto.package(), b.proto.name())));
    files
}
