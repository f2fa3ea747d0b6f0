//! Public schemas that nobody here wrote, through all three languages: the text is that of protoc-gen-es and protoc-gen-go, and tsc, Go's
//! tools, cargo and rustfmt accept what comes out.
//!
//! The files are those of `cargo xtask corpus`: a sample in which every folder has its turn, and every file that has ever failed
//! (tests/data/corpus-failed.txt); with QWERQ_CORPUS=full all of them. Each plugin runs once on as many files as may stand in one program.

#[path = "../../tests/support/corpus.rs"]
mod corpus;
mod support;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use corpus::say;
use qwerq_codegen::{
    contract::{ImportSuffix, Language, Request, TypeSource},
    diagnostic::Severity,
    generate,
    output::Output,
};
use support::{
    batch::{Batch, Compiler, Root},
    es, gen_go,
};

/// Decides which files are taken.
const SEED: u64 = 7;
/// Files of a sample.
const SAMPLE: usize = 300;
/// Files with a comment that gofmt changes again each time: their text is protoc-gen-go's, which formats once.
const NEVER_DONE: &[&str] = &[
    "google/cloud/aiplatform/v1/schema/trainingjob/definition/automl_tables.pb.go",
    "google/cloud/aiplatform/v1beta1/schema/trainingjob/definition/automl_tables.pb.go",
];
/// Rust packages that are compiled at least.
const RUST_PACKAGES: usize = 400;
/// Bytes of descriptors in one crate, so that rustc keeps in memory what it compiles.
const CRATE_BYTES: usize = 1_500_000;

/// What is taken from the corpus.
struct Sample {
    roots: Vec<Root>,
    /// So many do not compile; each is somebody's test or an edition.
    refused: usize,
    /// Further files, so that enough packages are there for Rust.
    more_packages: Vec<Root>,
}

/// The sample, compiled once for all tests; `None`, and said so, without the corpus.
fn sample() -> Option<&'static Sample> {
    static SAMPLE: OnceLock<Option<Sample>> = OnceLock::new();
    SAMPLE.get_or_init(Sample::take).as_ref()
}

impl Sample {
    fn take() -> Option<Sample> {
        let packages = corpus::packages()?;
        let mut wanted: Vec<(PathBuf, &[PathBuf])> = Vec::new();
        let mut orders: Vec<_> = packages.iter().map(|package| package.files(SEED).into_iter()).collect();
        let enough = if corpus::is_full() { usize::MAX } else { SAMPLE };
        loop {
            let before = wanted.len();
            for (package, files) in packages.iter().zip(&mut orders) {
                wanted.extend(files.next().filter(|_| wanted.len() < enough).map(|file| (file, package.includes.as_slice())));
            }
            if wanted.len() == before {
                break;
            }
        }
        let failed = include_str!("../../tests/data/corpus-failed.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for failed in failed {
            let package = packages.iter().find(|package| failed.starts_with(package.name)).expect("a file of a package");
            wanted.push((corpus::folder().join(failed), &package.includes));
        }
        let mut compiler = Compiler::default();
        let (roots, refused) = compile(&mut compiler, wanted);
        let more_packages = if corpus::is_full() { Vec::new() } else { more_packages(&mut compiler, &packages, &roots) };
        Some(Sample { roots, refused, more_packages })
    }
}

/// The files, each once, and how many do not compile.
fn compile(compiler: &mut Compiler, files: Vec<(PathBuf, &[PathBuf])>) -> (Vec<Root>, usize) {
    let mut seen = BTreeSet::new();
    let labelled = files.into_iter().map(|(file, includes)| (corpus::label(&file), file, includes));
    let once: Vec<_> =
        labelled.filter(|(label, ..)| seen.insert(label.clone())).map(|(label, file, includes)| (file, includes, label)).collect();
    let (mut roots, mut refused) = (Vec::new(), 0);
    for compiled in compiler.compile_all(&once) {
        match compiled {
            Ok(root) => roots.push(root),
            Err(error) => {
                if corpus::is_full() {
                    println!("{error}");
                }
                refused += 1;
            }
        }
    }
    (roots, refused)
}

/// The smallest file of every further folder of the largest package, until there are enough packages.
fn more_packages(compiler: &mut Compiler, packages: &[corpus::Package], roots: &[Root]) -> Vec<Root> {
    let mut known: BTreeSet<String> = roots.iter().map(|root| root.package().to_owned()).collect();
    let mut more = Vec::new();
    let mut folders = BTreeSet::new();
    let mut files = packages[0].files(SEED);
    files.sort_by_key(|file| fs::metadata(file).map_or(u64::MAX, |metadata| metadata.len()));
    for file in files {
        if known.len() >= RUST_PACKAGES {
            break;
        }
        if folders.insert(file.parent().map(Path::to_owned))
            && let Ok(root) = compiler.compile(&file, &packages[0].includes, corpus::label(&file))
            && known.insert(root.package().to_owned())
        {
            more.push(root);
        }
    }
    more
}

/// The output for a batch, and the roots that it is for. A file whose names clash beyond cure is left out, with all that needs it.
fn emit<'a>(language: &Language, batch: &Batch<'a>, left_out: &mut BTreeSet<String>) -> (TypeSource, Output) {
    let mut roots: Vec<&'a Root> = batch.roots.clone();
    loop {
        let types = batch.part(&roots);
        match generate(&Request { language: language.clone(), contracts: Vec::new(), types: Some(types.clone()) }) {
            Ok(output) => return (types, output),
            Err(diagnostics) => {
                let errors = diagnostics.0.iter().filter(|found| found.severity == Severity::Error);
                let files: BTreeSet<&str> = errors.filter_map(|error| Some(error.place.as_ref()?.file.as_str())).collect();
                let before = roots.len();
                roots.retain(|root| !files.iter().any(|file| root.needs(file)));
                assert!(roots.len() < before, "{diagnostics}");
                left_out.extend(files.into_iter().map(str::to_owned));
                println!("{diagnostics}");
            }
        }
    }
}

/// All of a language, made once for both of its tests.
struct Emitted {
    runs: Vec<(Batch<'static>, TypeSource, Output)>,
    /// The files that were left out.
    left_out: BTreeSet<String>,
}

impl Emitted {
    fn typescript(sample: &'static Sample) -> &'static Emitted {
        static EMITTED: OnceLock<Emitted> = OnceLock::new();
        EMITTED.get_or_init(|| Emitted::make(&Language::TypeScript(ImportSuffix::Js), sample))
    }

    fn go(sample: &'static Sample) -> &'static Emitted {
        static EMITTED: OnceLock<Emitted> = OnceLock::new();
        EMITTED.get_or_init(|| Emitted::make(&gen_go::language(), sample))
    }

    fn make(language: &Language, sample: &'static Sample) -> Emitted {
        let mut left_out = BTreeSet::new();
        let runs = Batch::of(&sample.roots).into_iter().map(|batch| {
            let (types, output) = emit(language, &batch, &mut left_out);
            (batch, types, output)
        });
        let runs = runs.collect();
        Emitted { runs, left_out }
    }
}

/// What was compared, and how it ended.
#[derive(Default)]
struct Comparison {
    compared: usize,
    batches: usize,
    differences: Vec<String>,
    /// The text is not even compared, because the plugin's does not compile; a warning or an error says so.
    left_out: BTreeSet<String>,
}

impl Comparison {
    fn add(&mut self, batch: &Batch<'_>, compared: usize, renamed: &BTreeSet<String>, found: Vec<(String, String)>) {
        self.batches += 1;
        self.compared += compared;
        for (file, what) in found {
            if renamed.contains(&file) {
                self.left_out.insert(file);
            } else {
                let label = batch.roots.iter().find(|root| root.name == file).map_or("(an import)", |root| root.label.as_str());
                self.differences.push(format!("{file} ({label}): {what}"));
            }
        }
    }

    fn end(self, plugin: &str, sample: &Sample) {
        say(&format!(
            "{plugin}: {} files of {} roots in {} runs, {} differ, {} have names that it cannot emit, {} roots do not compile",
            self.compared,
            sample.roots.len(),
            self.batches,
            self.differences.len(),
            self.left_out.len(),
            sample.refused
        ));
        let shown = self.differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
        assert!(self.differences.is_empty(), "{} files differ; add them to tests/data/corpus-failed.txt\n{shown}", self.differences.len());
    }
}

/// The files that a warning speaks of.
fn renamed(output: &Output) -> BTreeSet<String> {
    output.warnings.0.iter().filter_map(|warning| Some(warning.place.as_ref()?.file.clone())).collect()
}

#[test]
fn typescript_has_the_text_of_protoc_gen_es() {
    let Some(modules) = es::node_modules() else { return };
    let Some(sample) = sample() else { return };
    let emitted = Emitted::typescript(sample);
    let mut comparison = Comparison { left_out: emitted.left_out.clone(), ..Comparison::default() };
    for (batch, types, output) in &emitted.runs {
        let (compared, found) = es::compare(&modules, es::Plugin::Remembering, types, output);
        comparison.add(batch, compared, &renamed(output), found);
    }
    comparison.end("protoc-gen-es", sample);
}

#[test]
fn typescript_compiles_at_its_strictest() {
    let Some(modules) = es::node_modules() else { return };
    let Some(sample) = sample() else { return };
    let (mut files, mut errors) = (0, Vec::new());
    for (_, _, output) in &Emitted::typescript(sample).runs {
        let project = tempfile::tempdir().expect("a temporary directory");
        es::make_project(project.path(), &modules);
        output.write(project.path()).expect("writable");
        files += output.files.len();
        let settings = r#""module": "nodenext", "lib": ["es2022"], "types": []"#;
        errors.extend(es::compile(&modules, project.path(), settings).err());
    }
    say(&format!("tsc: {files} files, {} runs failed", errors.len()));
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn go_has_the_text_of_protoc_gen_go() {
    if gen_go::is_missing() {
        return;
    }
    let Some(sample) = sample() else { return };
    let emitted = Emitted::go(sample);
    let mut comparison = Comparison { left_out: emitted.left_out.clone(), ..Comparison::default() };
    for (batch, types, output) in &emitted.runs {
        let (compared, found) = gen_go::compare(types, output);
        comparison.add(batch, compared, &renamed(output), found);
    }
    comparison.end("protoc-gen-go", sample);
}

#[test]
fn gofmt_leaves_go_as_it_is_and_go_vet_finds_nothing() {
    if gen_go::is_missing() {
        return;
    }
    let Some(sample) = sample() else { return };
    let (mut files, mut errors) = (0, Vec::new());
    for (_, _, output) in &Emitted::go(sample).runs {
        // A batch may hold nothing but types that Go's protobuf library brings along.
        if output.files.is_empty() {
            continue;
        }
        let module = tempfile::tempdir().expect("a temporary directory");
        gen_go::make_module(module.path());
        output.write(&module.path().join("queues")).expect("writable");
        files += output.files.len();
        match gen_go::run(module.path(), "gofmt", &["-l", "."]) {
            Ok(said) => {
                let unformatted = said.lines().filter(|file| !NEVER_DONE.iter().any(|known| file.ends_with(known)));
                errors.extend(unformatted.map(|file| format!("gofmt: {file}")));
            }
            Err(said) => errors.push(format!("gofmt: {said}")),
        }
        errors.extend(gen_go::run(module.path(), "go", &["vet", "./..."]).err());
    }
    say(&format!("gofmt and go vet: {files} files, {} runs failed", errors.len()));
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn rust_is_as_rustfmt_leaves_it_and_compiles_without_a_warning() {
    let Some(sample) = sample() else { return };
    let workspace = tempfile::tempdir().expect("a temporary directory");
    let (mut packages, mut types, mut crates) = (BTreeSet::new(), 0, Vec::new());
    for batch in Batch::of(&sample.roots).into_iter().chain(Batch::of(&sample.more_packages)) {
        for roots in crates_of(&batch) {
            let request = Request { language: Language::Rust, contracts: Vec::new(), types: Some(batch.part(&roots)) };
            let output = generate(&request).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            let items = |text: &str| text.matches("::prost::Message)]").count() + text.matches("::prost::Enumeration)]").count();
            types += output.files.iter().map(|file| items(&file.text)).sum::<usize>();
            packages.extend(output.files.iter().filter(|file| items(&file.text) > 0).map(|file| file.path.clone()));
            crates.push(write_crate(workspace.path(), crates.len(), &output));
        }
    }
    let mut errors: Vec<String> =
        crates.iter().filter_map(|name| rustfmt(&workspace.path().join(name).join("src/plain/mod.rs")).err()).collect();
    errors.extend(cargo_check(workspace.path(), &crates).err());
    say(&format!("Rust: {} packages with {types} types in {} crates, {} of them refused", packages.len(), crates.len(), errors.len()));
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert!(packages.len() >= RUST_PACKAGES, "only {} packages", packages.len());
}

/// The batch's roots in groups that are a crate each: packages stay together, and what rustc gets at once is bounded.
fn crates_of<'a>(batch: &Batch<'a>) -> Vec<Vec<&'a Root>> {
    let mut roots = batch.roots.clone();
    roots.sort_by(|a, b| (a.package(), &a.name).cmp(&(b.package(), &b.name)));
    let (mut crates, mut bytes): (Vec<Vec<&Root>>, usize) = (Vec::new(), usize::MAX);
    for root in roots {
        let is_of_last = crates.last().and_then(|last| last.last()).is_some_and(|last| last.package() == root.package());
        if bytes > CRATE_BYTES && !is_of_last {
            crates.push(Vec::new());
            bytes = 0;
        }
        bytes = bytes.saturating_add(root.bytes());
        crates.last_mut().expect("the first root opens one").push(root);
    }
    crates
}

/// A crate of the workspace, its name; beside the code stands the same without what keeps rustfmt away.
fn write_crate(workspace: &Path, number: usize, output: &Output) -> String {
    let name = format!("schemas{number}");
    let src = workspace.join(&name).join("src");
    output.write(&src.join("queues")).expect("writable");
    for file in &output.files {
        let path = src.join("plain").join(&file.path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("writable");
        fs::write(path, file.text.replace("#![cfg_attr(rustfmt, rustfmt_skip)]\n", "")).expect("writable");
    }
    fs::write(src.join("lib.rs"), "//! Somebody's crate.\n#![deny(warnings)]\n\npub mod queues;\n").expect("writable");
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk-templates/rust/runtime");
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nqwerq = {{ path = {:?} }}\n",
        runtime.canonicalize().expect("it is there")
    );
    fs::write(workspace.join(&name).join("Cargo.toml"), manifest).expect("writable");
    name
}

fn rustfmt(root: &Path) -> Result<(), String> {
    // A rustfmt.toml further up does not count.
    fs::write(root.with_file_name("rustfmt.toml"), "").expect("writable");
    let checked =
        Command::new("rustfmt").args(["--edition", "2024", "--check"]).arg(root).output().expect("rustfmt is part of the toolchain");
    if checked.status.success() {
        return Ok(());
    }
    Err(format!("{}{}", String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr)))
}

/// `cargo check` of all crates, with the lockfile and the target folder of this workspace, so that dependencies are built already.
fn cargo_check(workspace: &Path, crates: &[String]) -> Result<(), String> {
    let mut manifest = "[workspace]\nresolver = \"3\"\nmembers = [".to_owned();
    for name in crates {
        write!(manifest, "\"{name}\", ").expect("a string takes text");
    }
    manifest.push_str("]\n\n[profile.dev]\ndebug = \"line-tables-only\"\n\n[profile.dev.package.\"*\"]\ndebug = false\n");
    fs::write(workspace.join("Cargo.toml"), manifest).expect("writable");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace");
    fs::copy(own.join("Cargo.lock"), workspace.join("Cargo.lock")).expect("the lockfile is committed");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp is in target");
    let checked = Command::new(env!("CARGO"))
        .args(["check", "--workspace", "--offline", "--quiet", "--keep-going"])
        .current_dir(workspace)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_INCREMENTAL", "0")
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs");
    if checked.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&checked.stderr).chars().take(20_000).collect()) }
}
