//! The public .proto files that `cargo xtask corpus` downloads: where they are, and in which order a test tries them.
//!
//! It does not compile them. What each package is, and its pinned digest, is in xtask/src/corpus.rs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// One downloaded package.
pub(crate) struct Package {
    /// The folder's name: the package's name and version.
    pub(crate) name: &'static str,
    /// The folders whose files are taken.
    roots: Vec<PathBuf>,
    /// The folders that imports are relative to.
    pub(crate) includes: Vec<PathBuf>,
}

const GOOGLE: &str = "google-proto-files-5.0.3";

/// Name, the folders whose files are taken and that imports are relative to, and whether imports are also those of google-proto-files.
const PACKAGES: &[(&str, &[&str], bool)] = &[
    (GOOGLE, &["."], false),
    ("grpc-grpc-js-xds-1.14.1", &["deps/envoy-api", "deps/xds", "deps/googleapis", "deps/protoc-gen-validate"], false),
    ("google-cloud-aiplatform-6.11.0", &["build/protos"], true),
    (
        "temporalio-1.35.0",
        &[
            "temporalio/bridge/sdk-core/crates/protos/protos/api_upstream",
            "temporalio/bridge/sdk-core/crates/protos/protos/api_cloud_upstream",
            "temporalio/bridge/sdk-core/crates/protos/protos/testsrv_upstream",
            "temporalio/bridge/sdk-core/crates/protos/protos/local",
            "temporalio/bridge/sdk-core/crates/protos/protos",
        ],
        false,
    ),
    ("googleapis_common_protos-1.76.0", &["."], false),
    ("grpcio_tools-1.85.1", &["grpc_tools/_proto"], false),
];

/// Whether all of the corpus is wanted, where tests take a sample otherwise.
pub(crate) fn is_full() -> bool {
    std::env::var_os("QWERQ_CORPUS").is_some_and(|value| value == "full")
}

/// The packages; `None`, and a line that says so, when they are not there and this is no CI run.
///
/// # Panics
/// In CI, when they are not there.
pub(crate) fn packages() -> Option<Vec<Package>> {
    let corpus = folder();
    let absent = PACKAGES.iter().find(|(name, ..)| !corpus.join(name).is_dir());
    if let Some((name, ..)) = absent {
        let missing = format!("{} is not there; run `cargo xtask corpus`", corpus.join(name).display());
        let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
        assert!(!in_ci, "{missing}");
        say(&format!("Skipped: {missing}"));
        return None;
    }
    let package = |(name, folders, needs_google): &(&'static str, &[&str], bool)| {
        let roots: Vec<PathBuf> = folders.iter().map(|folder| corpus.join(name).join(folder)).collect();
        let further = needs_google.then(|| corpus.join(GOOGLE));
        Package { name, includes: roots.iter().cloned().chain(further).collect(), roots }
    };
    Some(PACKAGES.iter().map(package).collect())
}

/// Where the packages are.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("corpus")
}

impl Package {
    /// The package's files, folder after folder, so that the first few hundred come from as many folders; the order within
    /// is a shuffle that `seed` decides.
    pub(crate) fn files(&self, seed: u64) -> Vec<PathBuf> {
        let mut folders: Vec<Vec<PathBuf>> = Vec::new();
        for root in &self.roots {
            // A root in a root has been listed with it.
            if !self.roots.iter().any(|other| other != root && root.starts_with(other)) {
                collect(root, &mut folders);
            }
        }
        for files in &mut folders {
            files.sort_by_key(|path| shuffled(path, seed));
            files.reverse();
        }
        folders.sort_by_key(|files| shuffled(&files[0], seed));
        let mut order = Vec::new();
        while !folders.is_empty() {
            order.extend(folders.iter_mut().filter_map(Vec::pop));
            folders.retain(|files| !files.is_empty());
        }
        order
    }
}

/// The .proto files of each folder.
fn collect(folder: &Path, folders: &mut Vec<Vec<PathBuf>>) {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the corpus has the folder") {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            collect(&path, folders);
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    if !files.is_empty() {
        folders.push(files);
    }
}

/// A file as a list of files names it: its path below the corpus.
pub(crate) fn label(path: &Path) -> String {
    path.strip_prefix(folder()).expect("the file is in the corpus").to_string_lossy().into_owned()
}

/// A file's place in the shuffle, the same on every machine.
fn shuffled(path: &Path, seed: u64) -> u64 {
    hash(&label(path), seed)
}

/// FNV-1a, then a mix, since the last letters of names differ too little.
pub(crate) fn hash(text: &str, seed: u64) -> u64 {
    let fnv = text.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (fnv ^ fnv >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 1
}

/// A line of figures. It goes past the test harness, which shows what a passing test prints to nobody.
pub(crate) fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // Nothing depends on the figures being read.
    let _ = writeln!(stdout, "\n{line}");
    let _ = stdout.flush();
}
