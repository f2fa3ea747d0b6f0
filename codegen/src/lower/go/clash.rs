//! Names that are different in the schema and one in Go. protoc-gen-go emits them, and the Go compiler refuses. Here a type gets another
//! name, with a warning (see `index`); what is no type is an error that names both.

use std::collections::BTreeMap;

use super::{forward, index::Index, package::Package, source::Source};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    ir::{Locations, locations::ENUM_VALUE, whole::WholeFile},
};

/// What declares a name at the top of a Go package.
#[derive(Clone)]
struct Declared {
    what: String,
    file: String,
    line_column: Option<(usize, usize)>,
}

/// Reports what would not compile.
pub(super) fn check(files: &[WholeFile], packages: &[Package], index: &Index<'_>, diagnostics: &mut Diagnostics) {
    let mut declared: BTreeMap<(&str, String), Declared> = BTreeMap::new();
    for (file, package) in files.iter().zip(packages).filter(|(_, package)| package.is_emitted()) {
        let source = Source::new(file, index, package);
        let mut declare = |name: String, what: String, path: &[i32]| {
            let line_column = Locations::line_column(&file.proto, path);
            let new = Declared { what, file: file.proto.name().to_owned(), line_column };
            match declared.get(&(package.import_path.as_str(), name.clone())) {
                Some(old) => diagnostics.push(clash(&name, old, new)),
                None => drop(declared.insert((package.import_path.as_str(), name), new)),
            }
        };
        declare_all(&source, index, &mut declare);
        for (of, name) in public_imports(file, files, packages, index) {
            declare(name, format!("what the public import of {of} declares"), &[]);
        }
        renamed(&source, index, diagnostics);
    }
}

/// The names that a file declares again because it imports them publicly from another package, with the file that they come from.
fn public_imports(file: &WholeFile, files: &[WholeFile], packages: &[Package], index: &Index<'_>) -> Vec<(String, String)> {
    let find = |name: &str| files.binary_search_by(|other| other.proto.name().cmp(name)).ok();
    let own = find(file.proto.name()).map(|at| &packages[at].import_path);
    let public =
        file.proto.public_dependency.iter().filter_map(|at| usize::try_from(*at).ok()).filter_map(|at| file.proto.dependency.get(at));
    let other = public.filter_map(|name| find(name)).filter(|at| Some(&packages[*at].import_path) != own);
    let names = |at: usize| {
        let of = Source::new(&files[at], index, &packages[at]);
        let file = files[at].proto.name().to_owned();
        forward::exported(&of).into_iter().map(move |(_, name)| (file.clone(), name)).collect::<Vec<_>>()
    };
    other.flat_map(names).collect()
}

/// Says which types could not keep their names.
fn renamed(source: &Source<'_>, index: &Index<'_>, diagnostics: &mut Diagnostics) {
    let enums = source.enums.iter().map(|of| (&of.full_name, &of.path));
    for (full_name, path) in source.messages.iter().map(|of| (&of.full_name, &of.path)).chain(enums) {
        let of = index.get(full_name).expect("the index has every type of the file");
        if of.numbered {
            let message = format!("{full_name} is emitted as {}, because another type is {} already", of.ident.name, of.natural);
            let line_column = Locations::line_column(&source.file.proto, path);
            let warning = Diagnostic::warning(message).at(source.file.proto.name(), line_column);
            diagnostics.push(warning.help("rename one of them to choose the Go names yourself; the wire format knows only numbers"));
        }
    }
}

fn clash(name: &str, old: &Declared, new: Declared) -> Diagnostic {
    Diagnostic::error(format!("{} and {} are both {name} in Go", old.what, new.what))
        .at(new.file, new.line_column)
        .help("rename one of them, or put their files into different Go packages by go_package; the wire format knows only numbers")
}

fn declare_all(source: &Source<'_>, index: &Index<'_>, declare: &mut impl FnMut(String, String, &[i32])) {
    for enumeration in &source.enums {
        let name = &enumeration.name;
        declare(name.clone(), format!("enum {}", enumeration.full_name), &enumeration.path);
        for suffix in ["name", "value"] {
            declare(format!("{name}_{suffix}"), format!("the table {suffix} of enum {}", enumeration.full_name), &enumeration.path);
        }
        let of = index.get(&enumeration.full_name).expect("the index has every type of the file");
        for (at, value) in enumeration.proto.value.iter().enumerate() {
            let path = [enumeration.path.as_slice(), &[ENUM_VALUE, crate::ir::locations::index(at)]].concat();
            declare(of.value_name(value.name()), format!("value {}.{}", enumeration.full_name, value.name()), &path);
        }
    }
    for message in source.messages.iter().filter(|message| !message.proto.options.as_ref().is_some_and(|options| options.map_entry())) {
        declare(message.name.clone(), format!("message {}", message.full_name), &message.path);
        for field in &message.fields {
            let what = format!("field {}.{}", message.full_name, field.proto.name());
            if field.oneof.is_some() {
                declare(field.wrapper.clone(), what.clone(), &message.path);
            }
            if field.proto.default_value.is_some() {
                declare(format!("Default_{}_{}", message.name, field.name), format!("the default of {what}"), &message.path);
            }
        }
        for oneof in message.oneofs.iter().filter(|oneof| !oneof.synthetic) {
            let what = format!("oneof {}.{}", message.full_name, oneof.proto_name);
            declare(format!("is{}_{}", message.name, oneof.name), what, &message.path);
        }
    }
    for extension in &source.extensions {
        declare(format!("E_{}", extension.field.wrapper), format!("extension {}", extension.full_name), &extension.path);
    }
}
