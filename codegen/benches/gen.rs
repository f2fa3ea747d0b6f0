//! What `gen` costs beside what it is made of: all of google-proto-files for three languages, against protox and prost on the same files in
//! the same run. `cargo bench -p qwerq-codegen --bench gen`; with `-- --check` it fails when the ratio is above its bound.
//!
//! The corpus comes from `cargo xtask corpus`. Both sides begin with .proto text and end with files in a folder.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use qwerq_codegen::{
    contract::{GoOptions, ImportSuffix, Language, Request},
    folder, generate,
};

/// Three languages in at most three times what protox and prost take for one.
const AT_MOST: f64 = 3.0;

fn main() -> ExitCode {
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("corpus").join("google-proto-files-5.0.3");
    if !package.is_dir() {
        eprintln!("{} is not there; run `cargo xtask corpus`", package.display());
        return ExitCode::FAILURE;
    }
    let work = tempfile::tempdir().expect("a temporary directory");
    let protos = work.path().join("protos");
    without_well_known(&package, &protos);
    let baseline = protox_and_prost(&protos, &work.path().join("prost"));
    let ours = gen_for_three(&protos, work.path());
    let ratio = ours.as_secs_f64() / baseline.as_secs_f64();
    println!("gen for three languages / protox and prost: {ratio:.2}, at most {AT_MOST}");
    if std::env::args().any(|argument| argument == "--check") && ratio > AT_MOST { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The package by links, without the well-known files, which both compilers bring themselves.
fn without_well_known(package: &Path, protos: &Path) {
    let entries = |folder: &Path| fs::read_dir(folder).expect("the corpus can be listed").map(|entry| entry.expect("an entry").path());
    fs::create_dir_all(protos.join("google")).expect("writable");
    for path in entries(package).filter(|path| path.is_dir() && !path.ends_with("google")) {
        std::os::unix::fs::symlink(&path, protos.join(path.file_name().expect("a name"))).expect("a link");
    }
    for path in entries(&package.join("google")).filter(|path| !path.ends_with("protobuf")) {
        std::os::unix::fs::symlink(&path, protos.join("google").join(path.file_name().expect("a name"))).expect("a link");
    }
}

/// One protox compiler on all files, which is the cheapest way, then prost.
fn protox_and_prost(protos: &Path, out: &Path) -> Duration {
    let files: Vec<PathBuf> = folder::files(protos).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let began = Instant::now();
    let mut compiler = protox::Compiler::new([protos]).expect("the folder is there");
    compiler.include_imports(true).include_source_info(true);
    let refused = files.iter().filter(|file| compiler.open_file(file).is_err()).count();
    let set = compiler.file_descriptor_set();
    let compiled = began.elapsed();
    fs::create_dir_all(out).expect("writable");
    let packages = prost_build::Config::new().out_dir(out).compile_fds(set);
    let whole = began.elapsed();
    packages.expect("prost makes what protox compiled");
    println!("protox: {} files ({refused} refused) in {:.2} s", files.len(), compiled.as_secs_f64());
    println!("prost: {:.2} s more", (whole - compiled).as_secs_f64());
    whole
}

fn gen_for_three(protos: &Path, work: &Path) -> Duration {
    let began = Instant::now();
    let read = folder::read(protos, &[]).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    println!("gen reads the folder: {:.2} s", began.elapsed().as_secs_f64());
    let languages = [
        ("rust", Language::Rust),
        ("typescript", Language::TypeScript(ImportSuffix::Js)),
        ("go", Language::Go(GoOptions { module: "example.com/queues".to_owned(), files: BTreeMap::new() })),
    ];
    for (name, language) in languages {
        let start = Instant::now();
        let request = Request { language, contracts: read.contracts.clone(), types: Some(read.types.clone()) };
        let output = generate(&request).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let made = start.elapsed();
        let written = output.write(&work.join(name)).expect("writable");
        println!(
            "gen makes {} files of {name} in {:.2} s and writes them in {:.2} s more",
            written.written.len(),
            made.as_secs_f64(),
            (start.elapsed() - made).as_secs_f64()
        );
    }
    began.elapsed()
}
