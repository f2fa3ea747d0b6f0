//! Which Go package a file belongs to: its import path, its name, and where its text goes in the output.
//!
//! All packages lie below the output folder, whose own import path is the module. What the project states for a file counts first, and may
//! name a package elsewhere, which is then imported and not emitted. A `go_package` below the module decides next; elsewhere, and without
//! one, the folder follows the protobuf package, because somebody else's import path cannot be written to. What a `go_package` keeps apart
//! within one protobuf package stays apart.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::names;
use crate::{
    config::matches,
    contract::GoOptions,
    diagnostic::{Diagnostic, Diagnostics},
    ir::whole::WholeFile,
};

/// The folder of the runtime in the output.
pub(super) const RUNTIME: &str = "qwerq";

/// Where the well-known files are.
const WELL_KNOWN: [(&str, &str); 13] = [
    ("google/protobuf/any.proto", "types/known/anypb"),
    ("google/protobuf/api.proto", "types/known/apipb"),
    ("google/protobuf/compiler/plugin.proto", "types/pluginpb"),
    ("google/protobuf/descriptor.proto", "types/descriptorpb"),
    ("google/protobuf/duration.proto", "types/known/durationpb"),
    ("google/protobuf/empty.proto", "types/known/emptypb"),
    ("google/protobuf/field_mask.proto", "types/known/fieldmaskpb"),
    ("google/protobuf/go_features.proto", "types/gofeaturespb"),
    ("google/protobuf/source_context.proto", "types/known/sourcecontextpb"),
    ("google/protobuf/struct.proto", "types/known/structpb"),
    ("google/protobuf/timestamp.proto", "types/known/timestamppb"),
    ("google/protobuf/type.proto", "types/known/typepb"),
    ("google/protobuf/wrappers.proto", "types/known/wrapperspb"),
];

/// Names of folders that Go gives a meaning, or refuses because Windows does.
const SPECIAL_FOLDERS: [&str; 8] = ["internal", "testdata", "vendor", RUNTIME, "aux", "con", "nul", "prn"];

/// Ends of a file's name by which Go leaves it out of a build.
const BUILD_SUFFIXES: &str = " aix android darwin dragonfly freebsd hurd illumos ios js linux nacl netbsd openbsd plan9 solaris wasip1 windows \
     zos 386 amd64 amd64p32 arm arm64 arm64be armbe loong64 mips mips64 mips64le mips64p32 mips64p32le mipsle ppc ppc64 ppc64le riscv \
     riscv64 s390 s390x sparc sparc64 wasm test ";

/// A Go package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Package {
    /// Below the output folder, `/` between the parts; empty for a package that is not ours.
    pub(super) folder: String,
    pub(super) import_path: String,
    pub(super) name: String,
}

impl Package {
    /// Whether its files are part of the output: well-known ones are the library's, and others may be somebody else's.
    pub(super) fn is_emitted(&self) -> bool {
        !self.folder.is_empty()
    }
}

/// The package of every file, in their order.
pub(super) fn assign(files: &[WholeFile], options: &GoOptions, diagnostics: &mut Diagnostics) -> Vec<Package> {
    let module = options.module.as_str();
    let stated = stated(files, options, diagnostics);
    let mut apart: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        apart.entry(file.proto.package()).or_default().insert(go_package(file).0);
    }
    let is_split = |file: &WholeFile| apart[file.proto.package()].len() > 1;
    let mut packages: Vec<Package> =
        files.iter().map(|file| stated.get(file.proto.name()).cloned().unwrap_or_else(|| wish(file, module, is_split(file)))).collect();
    break_cycles(files, &mut packages, diagnostics);
    // One folder is one package, so it has one name: its first file's.
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for package in &mut packages {
        package.name = names.entry(package.import_path.clone()).or_insert_with(|| package.name.clone()).clone();
    }
    packages
}

/// The packages that the project itself states, by file.
fn stated<'a>(files: &'a [WholeFile], options: &GoOptions, diagnostics: &mut Diagnostics) -> BTreeMap<&'a str, Package> {
    let mut packages = BTreeMap::new();
    for (pattern, stated) in &options.files {
        let mut found = files.iter().filter(|file| !file.built_in && matches(pattern, file.proto.name())).peekable();
        if found.peek().is_none() {
            diagnostics.push(
                Diagnostic::error(format!("`files` speaks of {pattern}, and the output has no such file"))
                    .help("name .proto files as imports do, `*` being any text, or take the entry out"),
            );
        }
        let (path, name) = stated.split_once(';').unwrap_or((stated, ""));
        let below = path.strip_prefix(&options.module).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let reserved = below.is_some_and(|below| below.is_empty() || below.trim_start_matches('/').split('/').next() == Some(RUNTIME));
        if !super::is_import_path(path) || reserved {
            diagnostics.push(
                Diagnostic::error(format!("`files`: {pattern} cannot be the Go package {stated:?}"))
                    .help(format!("give an import path such as {}/shop, not that of the clients or of the runtime", options.module)),
            );
            continue;
        }
        let base = path.rsplit('/').next().unwrap_or(path);
        let package = Package {
            folder: below.map(|below| below.trim_start_matches('/').to_owned()).unwrap_or_default(),
            import_path: path.to_owned(),
            name: if name.is_empty() { names::sanitized(base) } else { name.to_owned() },
        };
        packages.extend(found.map(|file| (file.proto.name(), package.clone())));
    }
    packages
}

/// The import path and the package name that the file states; both may be empty.
fn go_package(file: &WholeFile) -> (&str, &str) {
    let option = file.proto.options.as_ref().map(|options| options.go_package()).unwrap_or_default();
    option.split_once(';').unwrap_or((option, ""))
}

fn wish(file: &WholeFile, module: &str, is_split: bool) -> Package {
    let name = file.proto.name();
    if let Some((_, path)) = WELL_KNOWN.iter().find(|(well_known, _)| file.built_in && *well_known == name) {
        let base = path.rsplit('/').next().unwrap_or(path);
        return Package { folder: String::new(), import_path: format!("google.golang.org/protobuf/{path}"), name: base.to_owned() };
    }
    let (path, stated) = go_package(file);
    let below = path.strip_prefix(module).and_then(|rest| rest.strip_prefix('/')).filter(|below| *below != RUNTIME);
    let base = path.rsplit('/').next().unwrap_or_default();
    let own_folder = || match folder_of(file.proto.package()) {
        folder if is_split && !base.is_empty() => format!("{folder}_{}", names::sanitized(base)),
        folder => folder,
    };
    let folder = below.map_or_else(own_folder, str::to_owned);
    let name = match (stated, base) {
        ("", "") => name_of(file.proto.package()),
        ("", base) => names::sanitized(base),
        (stated, _) => stated.to_owned(),
    };
    Package { import_path: format!("{module}/{folder}"), folder, name }
}

/// `shop.v1` -> `shop/v1`.
fn folder_of(package: &str) -> String {
    if package.is_empty() {
        return "types".to_owned();
    }
    let is_device = |part: &str| {
        let number = part.strip_prefix("com").or_else(|| part.strip_prefix("lpt"));
        number.is_some_and(|rest| rest.len() == 1 && rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_special = |part: &str| SPECIAL_FOLDERS.contains(&part.to_lowercase().as_str()) || is_device(&part.to_lowercase());
    let part = |part: &str| if is_special(part) { format!("{part}_") } else { part.to_owned() };
    package.split('.').map(part).collect::<Vec<_>>().join("/")
}

/// `shop.v1` -> `shopv1`, because a package called `v1` says nothing where it is used.
fn name_of(package: &str) -> String {
    let mut parts = package.rsplit('.');
    let last = parts.next().filter(|last| !last.is_empty()).unwrap_or("types");
    let is_version = last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let name = match parts.next().filter(|_| is_version) {
        Some(before) => format!("{before}{last}"),
        None => last.to_owned(),
    };
    names::sanitized(&name.to_lowercase())
}

/// The file's place below the output folder: unique, and such that Go builds it everywhere.
pub(super) fn output_path(file: &str, package: &Package, taken: &mut BTreeSet<String>) -> PathBuf {
    let stem = file.strip_suffix(".proto").unwrap_or(file);
    let base = stem.rsplit('/').next().unwrap_or(stem);
    let safe = |stem: &str| {
        let build = stem.split('.').next().unwrap_or(stem).rsplit('_').next().filter(|_| stem.contains('_'));
        let excluded = build.is_some_and(|word| BUILD_SUFFIXES.contains(&format!(" {word} ")));
        let stem = if excluded { format!("{stem}_proto") } else { stem.to_owned() };
        // Such files are ignored.
        if stem.starts_with(['_', '.']) { format!("x{stem}") } else { stem }
    };
    let candidates = [base.to_owned(), stem.replace('/', "_")].into_iter().chain((2..).map(|n| format!("{}_{n}", stem.replace('/', "_"))));
    let path = candidates.map(|stem| format!("{}/{}.pb.go", package.folder, safe(&stem)));
    // Not only by case, for file systems that do not tell it apart.
    let path = path.into_iter().find(|path| taken.insert(path.to_lowercase())).expect("the counter is endless");
    PathBuf::from(path)
}

/// Go refuses packages that import each other in a circle, protobuf does not: such ones become one package.
fn break_cycles(files: &[WholeFile], packages: &mut [Package], diagnostics: &mut Diagnostics) {
    let by_name: BTreeMap<&str, usize> = files.iter().enumerate().map(|(at, file)| (file.proto.name(), at)).collect();
    let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let paths: Vec<String> = packages.iter().map(|package| package.import_path.clone()).collect();
    for (at, file) in files.iter().enumerate().filter(|(at, _)| packages[*at].is_emitted()) {
        let targets = file.proto.dependency.iter().filter_map(|name| by_name.get(name.as_str())).map(|target| paths[*target].as_str());
        imports.entry(&paths[at]).or_default().extend(targets.filter(|target| *target != paths[at]));
    }
    let reach = |from: &str| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(path) = open.pop() {
            for next in imports.get(path.as_str()).into_iter().flatten() {
                if reached.insert((*next).to_owned()) {
                    open.push((*next).to_owned());
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&str, BTreeSet<String>> = imports.keys().map(|path| (*path, reach(path))).collect();
    for path in imports.keys().filter(|path| reached[**path].contains(**path)) {
        let circle: Vec<&str> =
            imports.keys().copied().filter(|other| reached[*path].contains(*other) && reached[other].contains(*path)).collect();
        if circle.first() != Some(path) {
            continue;
        }
        let first = packages.iter().find(|package| package.import_path == **path).expect("every path is some file's").clone();
        let message = format!("the Go packages {} import each other; all of them are emitted as {}", circle.join(", "), first.import_path);
        diagnostics.push(Diagnostic::warning(message).help("a go_package option that puts their files in one package says the same"));
        for (package, _) in packages.iter_mut().zip(&paths).filter(|(_, path)| circle.contains(&path.as_str())) {
            *package = first.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_named_so_that_their_use_can_be_read() {
        for (package, folder, name) in [
            ("shop.v1", "shop/v1", "shopv1"),
            ("shop", "shop", "shop"),
            ("v1", "v1", "v1"),
            ("", "types", "types"),
            ("acme.internal.go", "acme/internal_/go", "_go"),
            ("qwerq", "qwerq_", "qwerq"),
            ("Shop.Value", "Shop/Value", "value"),
        ] {
            assert_eq!((folder_of(package).as_str(), name_of(package).as_str()), (folder, name), "{package}");
        }
    }

    #[test]
    fn files_have_names_that_go_builds_everywhere_and_only_once() {
        let package = Package { folder: "p".to_owned(), import_path: "m/p".to_owned(), name: "p".to_owned() };
        let mut taken = BTreeSet::new();
        let mut path = |file| output_path(file, &package, &mut taken).display().to_string();
        assert_eq!(path("a/order.proto"), "p/order.pb.go");
        assert_eq!(path("b/Order.proto"), "p/b_Order.pb.go");
        assert_eq!(path("a/order_linux.proto"), "p/order_linux_proto.pb.go");
        assert_eq!(path("a/order_test.proto"), "p/order_test_proto.pb.go");
        assert_eq!(path("linux.proto"), "p/linux.pb.go");
        assert_eq!(path("_x.proto"), "p/x_x.pb.go");
    }
}
