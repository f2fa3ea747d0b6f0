//! Every type by its full name: what it is called in Go, where it lives, and its descriptor.

use std::collections::HashMap;

use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto};

use super::{names, package::Package};
use crate::ir::{qualified, whole::WholeFile};

/// A name in a Go package.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Ident {
    pub(super) import_path: String,
    pub(super) name: String,
}

/// A message or an enum.
#[derive(Debug, Clone)]
pub(super) struct Type<'a> {
    /// Without a leading dot.
    pub(super) full_name: String,
    pub(super) ident: Ident,
    pub(super) definition: Definition<'a>,
    /// The file's protobuf package.
    pub(super) package: &'a str,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Definition<'a> {
    Message(&'a DescriptorProto),
    Enum(&'a EnumDescriptorProto),
}

/// All types of all files.
pub(super) struct Index<'a> {
    types: HashMap<String, Type<'a>>,
}

impl<'a> Index<'a> {
    pub(super) fn new(files: &'a [WholeFile], packages: &[Package]) -> Index<'a> {
        let mut index = Index { types: HashMap::new() };
        for (file, package) in files.iter().zip(packages) {
            let file = &file.proto;
            for message in &file.message_type {
                index.message(file, package, file.package(), message);
            }
            for enumeration in &file.enum_type {
                index.insert(file, package, file.package(), enumeration.name(), Definition::Enum(enumeration));
            }
        }
        index
    }

    /// The type that a descriptor names, with or without a leading dot.
    pub(super) fn get(&self, name: &str) -> Option<&Type<'a>> {
        self.types.get(name.trim_start_matches('.'))
    }

    fn message(&mut self, file: &'a FileDescriptorProto, package: &Package, scope: &str, message: &'a DescriptorProto) {
        let full_name = self.insert(file, package, scope, message.name(), Definition::Message(message));
        for nested in &message.nested_type {
            self.message(file, package, &full_name, nested);
        }
        for nested in &message.enum_type {
            self.insert(file, package, &full_name, nested.name(), Definition::Enum(nested));
        }
    }

    fn insert(&mut self, file: &'a FileDescriptorProto, package: &Package, scope: &str, name: &str, definition: Definition<'a>) -> String {
        let full_name = qualified(scope, name);
        let ident = Ident { import_path: package.import_path.clone(), name: go_name(file.package(), &full_name) };
        let found = Type { full_name: full_name.clone(), ident, definition, package: file.package() };
        self.types.insert(full_name.clone(), found);
        full_name
    }
}

impl Type<'_> {
    /// The enum's name as struct tags say it.
    pub(super) fn legacy_name(&self) -> String {
        qualified(self.package, &self.ident.name)
    }
}

/// The Go name of a full name: that of the types around it in front, joined by underscores.
pub(super) fn go_name(package: &str, full_name: &str) -> String {
    let local = full_name.strip_prefix(package).and_then(|rest| rest.strip_prefix('.')).filter(|_| !package.is_empty());
    names::camel(local.unwrap_or(full_name))
}
