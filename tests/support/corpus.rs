//! The public .proto files that `cargo xtask corpus` downloads: where they are, and in which order a test tries them.
//!
//! It does not compile them. What each package is, and its pinned digest, is in xtask/src/corpus.rs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// One downloaded package.
pub(crate) struct Package {
    /// The folder's name: npm name and version.
    pub(crate) name: &'static str,
    /// The folders that imports are relative to.
    pub(crate) includes: Vec<PathBuf>,
}

const PACKAGES: &[(&str, &[&str])] = &[
    ("google-proto-files-5.0.3", &["."]),
    ("grpc-grpc-js-xds-1.14.1", &["deps/envoy-api", "deps/xds", "deps/googleapis", "deps/protoc-gen-validate"]),
];

/// The packages; `None`, and a line that says so, when they are not there and this is no CI run.
///
/// # Panics
/// In CI, when they are not there.
pub(crate) fn packages() -> Option<Vec<Package>> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target");
    let corpus = target.join("corpus");
    let absent = PACKAGES.iter().find(|(name, _)| !corpus.join(name).is_dir());
    if let Some((name, _)) = absent {
        let missing = format!("{} is not there; run `cargo xtask corpus`", corpus.join(name).display());
        let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
        assert!(!in_ci, "{missing}");
        say(&format!("Skipped: {missing}"));
        return None;
    }
    let package = |(name, includes): &(&'static str, &[&str])| Package {
        name,
        includes: includes.iter().map(|include| corpus.join(name).join(include)).collect(),
    };
    Some(PACKAGES.iter().map(package).collect())
}

impl Package {
    /// The package's files, folder after folder, so that the first few hundred come from as many folders; the order within
    /// is a shuffle that `seed` decides.
    pub(crate) fn files(&self, seed: u64) -> Vec<PathBuf> {
        let mut folders: Vec<Vec<PathBuf>> = Vec::new();
        for include in &self.includes {
            collect(include, &mut folders);
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

/// A file's place in the shuffle, the same on every machine.
fn shuffled(path: &Path, seed: u64) -> u64 {
    let corpus = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("corpus");
    let path = path.strip_prefix(&corpus).expect("the file is in the corpus");
    hash(&path.to_string_lossy(), seed)
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
