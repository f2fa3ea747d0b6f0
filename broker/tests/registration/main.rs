//! Registration takes bytes from anybody, so no bytes may make it panic: seeded mutations of real descriptor sets, of which most are still
//! messages and some are still contracts.
//!
//! `cargo xtask fuzz` runs many more; `broker/fuzz` has the same target for cargo-fuzz, which watches what code is reached.

mod mutate;
#[path = "../journal/rng.rs"]
#[expect(dead_code, reason = "the simulations of the journal draw more kinds of numbers")]
mod rng;
mod target;

use std::any::Any;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::panic;
use std::path::{Path, PathBuf};

use protox::Compiler;
use protox::file::{ChainFileResolver, GoogleFileResolver, IncludeFileResolver};
use rng::Rng;
use target::registration;

/// Decides what is mutated how, unless `QWERQ_FUZZ_SEED` does.
const SEED: u64 = 20_261_206;

/// Mutants of a run, unless `QWERQ_FUZZ_MUTANTS` says more.
const MUTANTS: u64 = 4_000;

/// Mutants that made a contract and are mutated on.
const POPULATION_MAX: usize = 400;

/// Descriptor sets of all schemas in the tests, those of protoc and buf among them.
fn seeds() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seeds = Vec::new();
    for folder in ["../tests/data/contracts", "../tests/data/validation", "tests/json"] {
        let mut files = Vec::new();
        collect(&root.join(folder), &mut files);
        files.sort();
        for file in files {
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("binpb") => seeds.push(std::fs::read(&file).expect("it is there")),
                Some("proto") => seeds.extend(compiled(&file)),
                _ => {}
            }
        }
    }
    seeds
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

/// `None` for text that the compiler does not know, such as editions.
fn compiled(file: &Path) -> Option<Vec<u8>> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(GoogleFileResolver::new());
    resolver.add(IncludeFileResolver::new(file.parent().expect("it is in a folder").to_owned()));
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(true).open_file(file.file_name()?.to_str()?).ok()?;
    Some(compiler.encode_file_descriptor_set())
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

fn words(panicked: &(dyn Any + Send)) -> String {
    let text = panicked.downcast_ref::<String>().cloned();
    text.or_else(|| panicked.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "no words".to_owned())
}

#[test]
fn no_descriptor_bytes_make_registration_panic() {
    let seed = number("QWERQ_FUZZ_SEED", SEED);
    let mutants = number("QWERQ_FUZZ_MUTANTS", MUTANTS);
    let mut population = seeds();
    let seeds = population.len();
    assert!(seeds > 8, "only {seeds} descriptor sets");
    for set in &population {
        assert!(registration(set), "the seeds are contracts");
    }
    let mut rng = Rng::new(seed);
    // Libraries panic inside of our seat belt; what gets out is reported below.
    panic::set_hook(Box::new(|_| ()));
    let mut failures: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut accepted = 0_u64;
    for _ in 0..mutants {
        let (from, donor) = (rng.below(population.len()), rng.below(population.len()));
        let mutant = mutate::mutate(&mut rng, &population[from], &population[donor]);
        match panic::catch_unwind(|| registration(&mutant)) {
            Ok(false) => {}
            Ok(true) => {
                accepted += 1;
                // Some go on from where this one is.
                if population.len() < POPULATION_MAX {
                    population.push(mutant);
                } else if rng.percent(20) {
                    let at = seeds + rng.below(population.len() - seeds);
                    population[at] = mutant;
                }
            }
            Err(panicked) => {
                failures.entry(words(panicked.as_ref())).or_insert(mutant);
            }
        }
    }
    drop(panic::take_hook());
    let shown: Vec<String> = failures
        .iter()
        .map(|(words, bytes)| format!("{words}: {}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
        .collect();
    assert!(failures.is_empty(), "{} of {mutants} mutants of seed {seed} panic:\n{}", failures.len(), shown.join("\n"));
    let _ = writeln!(std::io::stdout().lock(), "{mutants} mutants of {seeds} descriptor sets: {accepted} made a contract");
    assert!(accepted > mutants / 50, "only {accepted} of {mutants} mutants are contracts, so little was reached");
}
