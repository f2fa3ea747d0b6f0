//! Every type by its full name: what it is called in Go, where it lives, and its descriptor.
//!
//! Two types of one package may become one in Go (`Foo` and `foo`). The first in the text keeps its name, the next gets a number, which
//! its nested types and values follow.

use std::collections::{HashMap, HashSet};

use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto};

use super::{names, package::Package};
use crate::ir::{
    qualified,
    whole::{self, WholeFile},
};

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
    /// The Go name that it would have, were it alone.
    pub(super) natural: String,
    /// Another type has its name already.
    pub(super) numbered: bool,
    /// What the names of an enum's values begin with.
    value_scope: String,
    /// The file's protobuf package.
    package: &'a str,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Definition<'a> {
    Message(&'a DescriptorProto),
    Enum(&'a EnumDescriptorProto),
}

/// All types of all files.
pub(super) struct Index<'a> {
    types: HashMap<String, Type<'a>>,
    /// Names that some type has, or would like to have.
    wanted: HashSet<Ident>,
    taken: HashSet<Ident>,
}

/// Where a type stands.
struct Scope<'s, 'a> {
    file: &'a FileDescriptorProto,
    package: &'s Package,
    /// The message around it: its full name, its natural and its real Go name.
    parent: Option<(String, String, String)>,
}

impl<'a> Index<'a> {
    pub(super) fn new(files: &'a [WholeFile], packages: &[Package]) -> Index<'a> {
        let mut index = Index { types: HashMap::new(), wanted: HashSet::new(), taken: HashSet::new() };
        for (file, package) in files.iter().zip(packages) {
            whole::for_each_type(&file.proto, |full_name| {
                let name = go_name(file.proto.package(), &full_name);
                index.wanted.insert(Ident { import_path: package.import_path.clone(), name });
            });
        }
        for (file, package) in files.iter().zip(packages) {
            let scope = Scope { file: &file.proto, package, parent: None };
            for message in &file.proto.message_type {
                index.message(&scope, message);
            }
            for enumeration in &file.proto.enum_type {
                index.insert(&scope, enumeration.name(), Definition::Enum(enumeration));
            }
        }
        index
    }

    /// The type that a descriptor names, with or without a leading dot.
    pub(super) fn get(&self, name: &str) -> Option<&Type<'a>> {
        self.types.get(name.trim_start_matches('.'))
    }

    fn message(&mut self, scope: &Scope<'_, 'a>, message: &'a DescriptorProto) {
        let parent = self.insert(scope, message.name(), Definition::Message(message));
        let inner = Scope { parent: Some(parent), ..*scope };
        for nested in &message.nested_type {
            self.message(&inner, nested);
        }
        for nested in &message.enum_type {
            self.insert(&inner, nested.name(), Definition::Enum(nested));
        }
    }

    fn insert(&mut self, scope: &Scope<'_, 'a>, name: &str, definition: Definition<'a>) -> (String, String, String) {
        let package = scope.file.package();
        let full_name = qualified(scope.parent.as_ref().map_or(package, |(full_name, ..)| full_name), name);
        let natural = go_name(package, &full_name);
        let wish = match &scope.parent {
            Some((_, natural_parent, parent)) => natural.replacen(natural_parent.as_str(), parent, 1),
            None => natural.clone(),
        };
        let ident = |name: String| Ident { import_path: scope.package.import_path.clone(), name };
        let numbered = (2..).map(|n| format!("{wish}{n}")).find(|name| !self.wanted.contains(&ident(name.clone())));
        let mut name = wish.clone();
        let is_taken = !self.taken.insert(ident(name.clone()));
        if is_taken {
            name = numbered.expect("the counter is endless");
            self.taken.insert(ident(name.clone()));
            self.wanted.insert(ident(name.clone()));
        }
        let value_scope = scope.parent.as_ref().map_or(&name, |(.., parent)| parent).clone();
        let found = Type {
            full_name: full_name.clone(),
            ident: ident(name.clone()),
            definition,
            natural: natural.clone(),
            numbered: is_taken,
            value_scope,
            package,
        };
        self.types.insert(full_name.clone(), found);
        (full_name, natural, name)
    }
}

impl Type<'_> {
    /// The enum's name as struct tags say it.
    pub(super) fn legacy_name(&self) -> String {
        qualified(self.package, &self.natural)
    }

    /// The Go name of one of the enum's values: an enum in a message gives them the message's name.
    pub(super) fn value_name(&self, value: &str) -> String {
        format!("{}_{value}", self.value_scope)
    }
}

/// The Go name of a full name: that of the types around it in front, joined by underscores.
fn go_name(package: &str, full_name: &str) -> String {
    let local = full_name.strip_prefix(package).and_then(|rest| rest.strip_prefix('.')).filter(|_| !package.is_empty());
    names::camel(local.unwrap_or(full_name))
}
