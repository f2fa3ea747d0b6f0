//! Whole files with all that they import, linked to each other, for a language whose descriptors find their imports at run time: custom
//! options included, nothing is cut out.
//!
//! Two contracts may hold different texts of a file. The one that holds all of the other stands for both; where neither does, that is an
//! error. Files of one name in different packages are different files, and get different paths. `merge` judges single types, and says
//! what it thinks of them; this module does not repeat it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prost::bytes::Bytes;
use prost_types::FileDescriptorProto;

use super::merge::{self, Source};
use crate::{
    contract::Request,
    diagnostic::{Diagnostic, Diagnostics},
};

/// All files that a run needs, well-known ones included.
#[derive(Debug, Default)]
pub(crate) struct Linked {
    /// Sorted by path.
    pub(crate) files: Vec<LinkedFile>,
    /// For each contract, by queue: the files that define its message and its reply.
    pub(crate) contracts: BTreeMap<String, ContractFiles>,
}

/// Indices into [`Linked::files`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContractFiles {
    pub(crate) message: usize,
    pub(crate) reply: Option<usize>,
}

/// One .proto file.
#[derive(Debug)]
pub(crate) struct LinkedFile {
    /// The name that imports use.
    pub(crate) name: String,
    /// Where its output goes: the name without `.proto`, changed where another package has a file of that name.
    pub(crate) path: String,
    /// The FileDescriptorProto as it was compiled.
    pub(crate) raw: Bytes,
    /// What it imports, in the order of the text, as indices into [`Linked::files`].
    pub(crate) imports: Vec<usize>,
}

/// A file is told by its name and its package.
type Key = (String, String);

/// Which source's text stands for a file.
#[derive(Clone, Copy)]
struct Chosen {
    source: usize,
    file: usize,
}

impl Linked {
    /// Finds every file that the request's contracts and types need.
    ///
    /// # Errors
    /// `None` when an error went to `diagnostics`.
    pub(crate) fn resolve(request: &Request, diagnostics: &mut Diagnostics) -> Option<Linked> {
        let (sources, roots) = merge::sources(request, diagnostics);
        let mut chosen: BTreeMap<Key, Chosen> = BTreeMap::new();
        for (source_at, (source, roots)) in sources.iter().zip(&roots).enumerate() {
            for file in closure(source, roots) {
                check_path(source, file, diagnostics);
                choose(&sources, &mut chosen, Chosen { source: source_at, file }, diagnostics);
            }
        }
        if diagnostics.has_errors() {
            return None;
        }
        let positions: HashMap<&Key, usize> = chosen.keys().enumerate().map(|(at, key)| (key, at)).collect();
        let at = |source: &Source, file: usize| positions[&key(&source.files[file].0)];
        let paths = paths(chosen.keys());
        let files = chosen.iter().zip(paths).map(|((_, chosen), path)| {
            let source = &sources[chosen.source];
            let (proto, raw) = &source.files[chosen.file];
            let imports = proto.dependency.iter().filter_map(|name| file_of_name(source, name)).map(|file| at(source, file));
            LinkedFile { name: proto.name().to_owned(), path, raw: raw.clone(), imports: imports.collect() }
        });
        let files = files.collect();
        let contracts = request.contracts.iter().map(|contract| {
            let source =
                sources.iter().find(|source| source.queue.as_deref() == Some(&contract.queue)).expect("every contract is a source");
            let of = |name: &String| at(source, source.file_of_message(name).expect("looked up when the schema was resolved"));
            (contract.queue.clone(), ContractFiles { message: of(&contract.message_type), reply: contract.reply_type.as_ref().map(of) })
        });
        Some(Linked { files, contracts: contracts.collect() })
    }
}

fn key(file: &FileDescriptorProto) -> Key {
    (file.name().to_owned(), file.package().to_owned())
}

fn file_of_name(source: &Source, name: &str) -> Option<usize> {
    source.by_name.get(name).copied()
}

/// The roots and all that they import, in no order that matters.
fn closure(source: &Source, roots: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<usize> = roots.iter().copied().collect();
    while let Some(file) = open.pop() {
        if reached.insert(file) {
            open.extend(source.files[file].0.dependency.iter().filter_map(|name| file_of_name(source, name)));
        }
    }
    reached
}

/// File names become paths, and come from whoever registered the contract.
fn check_path(source: &Source, file: usize, diagnostics: &mut Diagnostics) {
    let name = source.files[file].0.name();
    let part_is_bad = |part: &str| matches!(part, "" | "." | "..") || part.contains(|c: char| c.is_control() || "\\:*?\"<>|".contains(c));
    if name.split('/').any(part_is_bad) {
        diagnostics.push(
            Diagnostic::error(format!("{}: {name:?} cannot be a path in the output folder", source.label))
                .help("register the contract again with file names relative to an include folder"),
        );
    }
}

fn choose(sources: &[Source], chosen: &mut BTreeMap<Key, Chosen>, candidate: Chosen, diagnostics: &mut Diagnostics) {
    let get = |of: Chosen| &sources[of.source].files[of.file];
    let (proto, raw) = get(candidate);
    let Some(current) = chosen.get_mut(&key(proto)) else {
        chosen.insert(key(proto), candidate);
        return;
    };
    let (old, old_raw) = get(*current);
    if raw == old_raw || holds(old, proto) {
        return;
    }
    if holds(proto, old) {
        *current = candidate;
        return;
    }
    let (first, second) = (&sources[current.source].label, &sources[candidate.source].label);
    diagnostics.push(
        Diagnostic::error(format!("{} is not the same in {first} and in {second}, and neither holds all of the other", proto.name()))
            .help("register both queues from the same text, or leave one of them out of this output"),
    );
}

/// Whether every type of `other` is in `file`, with all that it has.
fn holds(file: &FileDescriptorProto, other: &FileDescriptorProto) -> bool {
    let messages = other.message_type.iter().all(|message| {
        let mine = file.message_type.iter().find(|mine| mine.name() == message.name());
        mine.is_some_and(|mine| merge::first_missing(mine, message, "").is_none())
    });
    let enums = other.enum_type.iter().all(|enumeration| {
        let mine = file.enum_type.iter().find(|mine| mine.name() == enumeration.name());
        mine.is_some_and(|mine| merge::first_missing_value(mine, enumeration, "").is_none())
    });
    messages && enums && other.service.iter().all(|service| file.service.iter().any(|mine| mine.name() == service.name()))
}

/// One path for each key, all different also where the file system ignores case.
fn paths<'a>(keys: impl Iterator<Item = &'a Key>) -> Vec<String> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let free = |(name, _): &Key| {
        let stem = name.strip_suffix(".proto").unwrap_or(name);
        let mut wishes = std::iter::once(stem.to_owned()).chain((2..).map(|n| format!("{stem}_{n}")));
        wishes.find(|wish| taken.insert(wish.to_lowercase())).expect("the counter is endless")
    };
    keys.map(free).collect()
}
