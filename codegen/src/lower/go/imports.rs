//! The imports of one file. A package is called by the end of its path; what clashes with another one, or with a predeclared identifier,
//! gets a number, in the order in which the text first names them.

use std::collections::{BTreeMap, BTreeSet};

use super::{index::Ident, names};

/// Go's predeclared identifiers.
const PREDECLARED: [&str; 44] = [
    "any",
    "append",
    "bool",
    "byte",
    "cap",
    "clear",
    "close",
    "comparable",
    "complex",
    "complex128",
    "complex64",
    "copy",
    "delete",
    "error",
    "false",
    "float32",
    "float64",
    "imag",
    "int",
    "int16",
    "int32",
    "int64",
    "int8",
    "iota",
    "len",
    "make",
    "max",
    "min",
    "new",
    "nil",
    "panic",
    "print",
    "println",
    "real",
    "recover",
    "rune",
    "string",
    "true",
    "uint",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "uintptr",
];

pub(super) const PROTOIMPL: &str = "google.golang.org/protobuf/runtime/protoimpl";
pub(super) const PROTOREFLECT: &str = "google.golang.org/protobuf/reflect/protoreflect";

pub(super) struct Imports {
    own: String,
    names: BTreeMap<String, String>,
    blank: BTreeSet<String>,
}

impl Imports {
    pub(super) fn new(own: &str) -> Imports {
        Imports { own: own.to_owned(), names: BTreeMap::new(), blank: BTreeSet::new() }
    }

    /// Whether that is the file's own package.
    pub(super) fn is_own(&self, import_path: &str) -> bool {
        import_path == self.own
    }

    /// The identifier as this file writes it.
    pub(super) fn qualify(&mut self, ident: &Ident) -> String {
        self.of(&ident.import_path, &ident.name)
    }

    /// A name of a package as this file writes it.
    pub(super) fn of(&mut self, import_path: &str, name: &str) -> String {
        if import_path == self.own {
            return name.to_owned();
        }
        if !self.names.contains_key(import_path) {
            let base = names::sanitized(import_path.rsplit('/').next().unwrap_or(import_path));
            let is_free = |name: &String| !PREDECLARED.contains(&name.as_str()) && !self.names.values().any(|taken| taken == name);
            let mut candidates = std::iter::once(base.clone()).chain((1..).map(|n| format!("{base}{n}")));
            let alias = candidates.find(is_free).expect("the counter is endless");
            self.names.insert(import_path.to_owned(), alias);
        }
        format!("{}.{name}", self.names[import_path])
    }

    /// Imports a package whether or not the text names it.
    pub(super) fn blank(&mut self, import_path: &str) {
        self.blank.insert(import_path.to_owned());
    }

    /// `name "path"`, sorted by path.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut all: BTreeMap<&str, &str> = self.blank.iter().map(|path| (path.as_str(), "_")).collect();
        all.extend(self.names.iter().map(|(path, name)| (path.as_str(), name.as_str())));
        all.into_iter().map(|(path, name)| format!("{name} {}", names::quote(path))).collect()
    }
}
