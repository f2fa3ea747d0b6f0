//! Many .proto files to few requests: files that may stand in one program are compiled together, so that a plugin runs once on thousands.
//!
//! Two files may not when they have one name and another text, or define one name twice. What a file needs comes with it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
};

use prost::{Message, bytes::Bytes};
use prost_types::FileDescriptorProto;
use qwerq_codegen::{
    compile::{CompileError, Compiled, compile},
    contract::TypeSource,
};

use super::plugin::RawFiles;

/// A compiled file, once however many import it.
struct ProtoFile {
    name: String,
    package: String,
    raw: Bytes,
    /// Full names of all that stands beside each other in the package: types, services, extensions, and values of enums.
    symbols: Vec<String>,
}

/// A .proto file with all that it imports, imports first.
pub(crate) struct Root {
    /// Its path below the corpus.
    pub(crate) label: String,
    /// The name that imports use.
    pub(crate) name: String,
    files: Vec<Arc<ProtoFile>>,
}

impl Root {
    /// The file's own protobuf package.
    pub(crate) fn package(&self) -> &str {
        &self.own().package
    }

    /// How large its descriptor is.
    pub(crate) fn bytes(&self) -> usize {
        self.own().raw.len()
    }

    fn own(&self) -> &ProtoFile {
        self.files.iter().find(|file| file.name == self.name).expect("a root is among its files")
    }

    /// Whether a file of that name is among it and what it imports.
    pub(crate) fn needs(&self, name: &str) -> bool {
        self.files.iter().any(|file| file.name == name)
    }
}

/// Compiles files, and keeps one copy of what many of them import.
#[derive(Default)]
pub(crate) struct Compiler {
    known: HashMap<String, Vec<Arc<ProtoFile>>>,
}

impl Compiler {
    /// # Errors
    /// What the compiler says.
    pub(crate) fn compile(&mut self, path: &Path, includes: &[PathBuf], label: String) -> Result<Root, CompileError> {
        Ok(self.root(compile(path, includes)?, label))
    }

    /// Compiles files on all processors; what comes of them in their order.
    pub(crate) fn compile_all(&mut self, files: &[(PathBuf, &[PathBuf], String)]) -> Vec<Result<Root, CompileError>> {
        let next = AtomicUsize::new(0);
        // Short, since what waits in it holds copies of all imports.
        let (compiled, arriving) = mpsc::sync_channel(16);
        let mut roots: Vec<(usize, Result<Root, CompileError>)> = std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                let (compiled, next) = (compiled.clone(), &next);
                scope.spawn(move || {
                    while let Some((at, (path, includes, _))) = Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, files.get(at)?))) {
                        compiled.send((at, compile(path, includes))).expect("the other end takes all");
                    }
                });
            }
            drop(compiled);
            arriving.iter().map(|(at, compiled)| (at, compiled.map(|compiled| self.root(compiled, files[at].2.clone())))).collect()
        });
        roots.sort_by_key(|(at, _)| *at);
        roots.into_iter().map(|(_, root)| root).collect()
    }

    fn root(&mut self, compiled: Compiled, label: String) -> Root {
        let set = RawFiles::decode(compiled.descriptor_set.as_slice()).expect("a descriptor set");
        let files = set.file.into_iter().map(|raw| self.intern(&raw)).collect();
        let name = compiled.roots.into_iter().next().expect("a .proto file is a root");
        Root { label, name, files }
    }

    fn intern(&mut self, raw: &[u8]) -> Arc<ProtoFile> {
        let file = FileDescriptorProto::decode(raw).expect("a file descriptor");
        let known = self.known.entry(file.name().to_owned()).or_default();
        if let Some(same) = known.iter().find(|known| known.raw == raw) {
            return Arc::clone(same);
        }
        let interned = Arc::new(ProtoFile {
            name: file.name().to_owned(),
            package: file.package().to_owned(),
            raw: Bytes::copy_from_slice(raw),
            symbols: symbols(&file),
        });
        known.push(Arc::clone(&interned));
        interned
    }
}

fn symbols(file: &FileDescriptorProto) -> Vec<String> {
    let messages = file.message_type.iter().map(|message| message.name());
    let enums = file.enum_type.iter().map(|enumeration| enumeration.name());
    let values = file.enum_type.iter().flat_map(|enumeration| enumeration.value.iter().map(|value| value.name()));
    let services = file.service.iter().map(|service| service.name());
    let extensions = file.extension.iter().map(|extension| extension.name());
    let names = messages.chain(enums).chain(values).chain(services).chain(extensions);
    names.map(|name| if file.package().is_empty() { name.to_owned() } else { format!("{}.{name}", file.package()) }).collect()
}

/// Files that may stand in one program.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    pub(crate) roots: Vec<&'a Root>,
    files: BTreeMap<&'a str, &'a Arc<ProtoFile>>,
    /// In the order in which imports come before what imports them.
    order: Vec<&'a Arc<ProtoFile>>,
    /// Which file defines a name.
    symbols: HashMap<&'a str, &'a str>,
    /// All packages and what they are in.
    packages: BTreeSet<&'a str>,
}

impl<'a> Batch<'a> {
    /// As few batches as one pass gives.
    pub(crate) fn of(roots: &'a [Root]) -> Vec<Batch<'a>> {
        let mut batches: Vec<Batch<'a>> = Vec::new();
        for root in roots {
            match batches.iter_mut().find(|batch| batch.takes(root)) {
                Some(batch) => batch.add(root),
                None => {
                    let mut batch = Batch::default();
                    batch.add(root);
                    batches.push(batch);
                }
            }
        }
        batches
    }

    fn takes(&self, root: &Root) -> bool {
        root.files.iter().all(|file| match self.files.get(file.name.as_str()) {
            Some(known) => known.raw == file.raw,
            None => {
                let is_new = |symbol: &String| !self.symbols.contains_key(symbol.as_str()) && !self.packages.contains(symbol.as_str());
                file.symbols.iter().all(is_new) && outer(&file.package).all(|package| !self.symbols.contains_key(package))
            }
        })
    }

    fn add(&mut self, root: &'a Root) {
        for file in &root.files {
            if self.files.insert(&file.name, file).is_none() {
                self.order.push(file);
                self.symbols.extend(file.symbols.iter().map(|symbol| (symbol.as_str(), file.name.as_str())));
                self.packages.extend(outer(&file.package));
            }
        }
        self.roots.push(root);
    }

    /// What a request for these roots, or some of them, says.
    pub(crate) fn types(&self, roots: &[&Root]) -> TypeSource {
        let set = RawFiles { file: self.order.iter().map(|file| file.raw.clone()).collect() };
        let roots: BTreeSet<&str> = roots.iter().map(|root| root.name.as_str()).collect();
        TypeSource { roots: roots.into_iter().map(str::to_owned).collect(), descriptor_set: set.encode_to_vec().into() }
    }

    /// Only what these roots need.
    pub(crate) fn part(&self, roots: &[&'a Root]) -> TypeSource {
        let mut part = Batch::default();
        for root in roots {
            part.add(root);
        }
        part.types(roots)
    }
}

/// `a.b.c`, `a.b` and `a`.
fn outer(package: &str) -> impl Iterator<Item = &str> {
    let ends = package.match_indices('.').map(|(at, _)| at).chain([package.len()]);
    ends.map(|end| &package[..end]).filter(|package| !package.is_empty())
}
