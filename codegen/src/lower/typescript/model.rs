//! All files of a run as this language sees them: decoded, named, and with a module each, so that a reference finds its target.

use std::collections::{HashMap, HashSet};

use super::{
    descriptor::{File, MessageType},
    imports::Symbol,
    names::FileNames,
    rename::{self, Renames},
};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    ir::{linked::Linked, qualified},
};

/// The files that the package `@bufbuild/protobuf` has compiled already.
const WELL_KNOWN: [&str; 15] = [
    "google/protobuf/compiler/plugin.proto",
    "google/protobuf/any.proto",
    "google/protobuf/api.proto",
    "google/protobuf/cpp_features.proto",
    "google/protobuf/descriptor.proto",
    "google/protobuf/duration.proto",
    "google/protobuf/empty.proto",
    "google/protobuf/field_mask.proto",
    "google/protobuf/go_features.proto",
    "google/protobuf/java_features.proto",
    "google/protobuf/source_context.proto",
    "google/protobuf/struct.proto",
    "google/protobuf/timestamp.proto",
    "google/protobuf/type.proto",
    "google/protobuf/wrappers.proto",
];

const WELL_KNOWN_MODULE: &str = "@bufbuild/protobuf/wkt";

/// Every file, in the order of [`Linked::files`].
pub(super) struct Model {
    pub(super) files: Vec<ModelFile>,
    /// The files that define a type; several where texts of different packages share a name.
    types: HashMap<String, Vec<usize>>,
    /// Map entries, by full name.
    entries: HashMap<String, Vec<(usize, MessageType)>>,
}

pub(super) struct ModelFile {
    pub(super) descriptor: File,
    pub(super) names: FileNames,
    /// Where its names are imported from.
    pub(super) module: String,
    pub(super) well_known: bool,
    pub(super) imports: Vec<usize>,
    /// What is called otherwise in the descriptor that the file carries.
    pub(super) renames: Renames,
}

impl Model {
    /// Decodes and names everything.
    ///
    /// # Errors
    /// `None` when an error went to `diagnostics`.
    pub(super) fn new(linked: &Linked, diagnostics: &mut Diagnostics) -> Option<Model> {
        let mut model = Model { files: Vec::new(), types: HashMap::new(), entries: HashMap::new() };
        for (at, file) in linked.files.iter().enumerate() {
            let mut descriptor = match <File as prost::Message>::decode(file.raw.clone()) {
                Ok(descriptor) => descriptor,
                Err(error) => {
                    diagnostics.push(Diagnostic::error(format!("the descriptor does not decode: {error}")).at(&file.name, None));
                    return None;
                }
            };
            let renames = rename::rename(&mut descriptor, diagnostics);
            for message in &descriptor.messages {
                model.enter(at, &descriptor.package, message);
            }
            for enumeration in &descriptor.enums {
                model.types.entry(qualified(&descriptor.package, &enumeration.name)).or_default().push(at);
            }
            let well_known = WELL_KNOWN.contains(&file.name.as_str());
            let module = if well_known { WELL_KNOWN_MODULE.to_owned() } else { format!("./{}_pb.js", file.path) };
            let names = FileNames::of(&descriptor);
            model.files.push(ModelFile { descriptor, names, module, well_known, imports: file.imports.clone(), renames });
        }
        Some(model)
    }

    fn enter(&mut self, file: usize, scope: &str, message: &MessageType) {
        let full_name = qualified(scope, &message.name);
        if message.is_map_entry() {
            self.entries.entry(full_name).or_default().push((file, message.clone()));
            return;
        }
        for nested in &message.messages {
            self.enter(file, &full_name, nested);
        }
        for enumeration in &message.enums {
            self.types.entry(qualified(&full_name, &enumeration.name)).or_default().push(file);
        }
        self.types.entry(full_name).or_default().push(file);
    }

    /// The map entry that a field of `file` refers to, if it does.
    pub(super) fn map_entry(&self, file: usize, type_name: &str) -> Option<&MessageType> {
        let entries = self.entries.get(type_name.trim_start_matches('.'))?;
        entries.iter().find(|(of, _)| *of == file).map(|(_, entry)| entry)
    }

    /// The type of a message or an enum, as `file` refers to it.
    pub(super) fn shape(&self, file: usize, type_name: &str) -> Symbol {
        let (target, full_name) = self.target(file, type_name);
        Symbol::new(&target.names.shapes[full_name], &target.module)
    }

    /// The descriptor of a message, as `file` refers to it.
    pub(super) fn schema(&self, file: usize, type_name: &str) -> Symbol {
        let (target, full_name) = self.target(file, type_name);
        Symbol::new(&target.names.descriptors[full_name], &target.module)
    }

    fn target<'a>(&self, file: usize, type_name: &'a str) -> (&ModelFile, &'a str) {
        let full_name = type_name.trim_start_matches('.');
        let candidates = self.types.get(full_name).map(Vec::as_slice).unwrap_or_default();
        let at = match candidates {
            [only] => *only,
            _ => self.reachable(file, candidates).expect("descriptor sets were linked when they were compiled or registered"),
        };
        (&self.files[at], full_name)
    }

    fn reachable(&self, file: usize, candidates: &[usize]) -> Option<usize> {
        let mut seen = HashSet::new();
        let mut open = vec![file];
        while let Some(at) = open.pop() {
            if candidates.contains(&at) {
                return Some(at);
            }
            if seen.insert(at) {
                open.extend(&self.files[at].imports);
            }
        }
        None
    }
}
