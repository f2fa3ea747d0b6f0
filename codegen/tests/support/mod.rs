//! What the tests of whole outputs share: the golden cases, and a run from a folder to files in memory.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod batch;
pub(crate) mod es;
pub(crate) mod gen_go;
pub(crate) mod plugin;
pub(crate) mod words;

use std::{
    fs,
    path::{Path, PathBuf},
};

use qwerq_codegen::{
    contract::{Language, Request},
    folder, generate,
    output::Output,
};

/// The folders of tests/golden, sorted.
pub(crate) fn cases() -> Vec<PathBuf> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut cases: Vec<PathBuf> = fs::read_dir(golden).expect("tests/golden").map(|entry| entry.expect("entry").path()).collect();
    cases.sort();
    cases
}

/// What a folder asks for.
pub(crate) fn request(folder: &Path) -> Request {
    request_in(Language::Rust, folder)
}

/// What a folder asks for in that language.
pub(crate) fn request_in(language: Language, folder: &Path) -> Request {
    let folder = folder::read(folder, &[]).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    Request { language, contracts: folder.contracts, types: Some(folder.types) }
}

/// What a folder gives.
pub(crate) fn emit(folder: &Path) -> Output {
    generate(&request(folder)).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}
