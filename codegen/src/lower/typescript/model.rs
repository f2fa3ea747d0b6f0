//! All files of a run as this language sees them: decoded, named, and with a module each, so that a reference finds its target.

use std::collections::{HashMap, HashSet};

use super::{
    descriptor::{EnumType, Field, File, MessageType},
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
            if !check_names(&descriptor, diagnostics) {
                return None;
            }
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

/// Names become code, and descriptor sets come from anywhere: a name that no .proto can hold is refused.
fn check_names(file: &File, diagnostics: &mut Diagnostics) -> bool {
    let mut names: Vec<&str> = file.package.split('.').filter(|part| !part.is_empty()).collect();
    let mut open: Vec<&MessageType> = file.messages.iter().collect();
    let mut enums: Vec<&EnumType> = file.enums.iter().collect();
    let mut fields: Vec<&Field> = file.extensions.iter().collect();
    while let Some(message) = open.pop() {
        names.push(&message.name);
        names.extend(message.oneofs.iter().map(|oneof| oneof.name.as_str()));
        fields.extend(message.fields.iter().chain(&message.extensions));
        enums.extend(&message.enums);
        open.extend(&message.messages);
    }
    for enumeration in enums {
        names.push(&enumeration.name);
        names.extend(enumeration.values.iter().map(|value| value.name.as_str()));
    }
    for field in fields {
        names.push(&field.name);
        names.extend([&field.type_name, &field.extendee].into_iter().flat_map(|name| name.split('.')).filter(|part| !part.is_empty()));
    }
    for service in &file.services {
        names.push(&service.name);
        names.extend(service.methods.iter().map(|method| method.name.as_str()));
    }
    let is_name = |name: &&str| {
        !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let bad = names.into_iter().find(|name| !is_name(name));
    if let Some(bad) = bad {
        let message = format!("{bad:?} is no name in protobuf");
        diagnostics.push(Diagnostic::error(message).at(&file.name, None).help("make the descriptor set with protoc or buf"));
    }
    bad.is_none()
}
