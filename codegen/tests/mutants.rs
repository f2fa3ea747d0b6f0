//! Descriptor sets come from anybody's folder or broker, so no bytes may make `gen` panic: seeded mutations of real ones, through all three
//! languages. They are made as in `broker/tests/registration`, which asks the same of the registry.

#[path = "../../broker/tests/registration/mutate.rs"]
mod mutate;
#[path = "../../broker/tests/journal/rng.rs"]
#[expect(dead_code, reason = "the simulations of the journal draw more kinds of numbers")]
mod rng;

use std::{
    any::Any,
    collections::BTreeMap,
    fs, panic,
    path::{Path, PathBuf},
};

use qwerq_codegen::{
    compile::compile,
    contract::{ContractSource, GoOptions, ImportSuffix, Language, Request, TypeSource, UNKNOWN_FINGERPRINT},
    generate,
};
use rng::Rng;

/// Decides what is mutated how, unless `QWERQ_FUZZ_SEED` does.
const SEED: u64 = 20_261_207;
/// Mutants of a run, unless `QWERQ_FUZZ_MUTANTS` says more.
const MUTANTS: u64 = 500;
/// Mutants that were generated from and are mutated on.
const POPULATION_MAX: usize = 200;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Descriptor sets of the schemas in the tests, those of protoc and buf among them.
fn seeds() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["../tests/data/contracts", "../tests/data/validation", "tests/golden", "tests/go/in"] {
        collect(&root.join(folder), &mut files);
    }
    files.sort();
    files.iter().filter_map(|file| Some(compile(file, &[file.parent()?.to_owned()]).ok()?.descriptor_set)).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "proto" || extension == "binpb") {
            files.push(path);
        }
    }
}

/// Generates all languages from a descriptor set in a folder, with a client for its last message. Says whether there was any output.
fn generated(file: &Path, bytes: &[u8]) -> bool {
    fs::write(file, bytes).expect("writable");
    let Ok(compiled) = compile(file, &[]) else { return false };
    let types = TypeSource { roots: compiled.roots, descriptor_set: compiled.descriptor_set.clone().into() };
    let contract = compiled.messages.last().map(|message_type| ContractSource {
        queue: "orders".to_owned(),
        version: 1,
        message_type: message_type.clone(),
        reply_type: None,
        fingerprint: UNKNOWN_FINGERPRINT,
        descriptor_set: compiled.descriptor_set.into(),
    });
    let go = GoOptions { module: "example.com/queues".to_owned(), files: BTreeMap::new() };
    let languages = [Language::Rust, Language::TypeScript(ImportSuffix::Js), Language::Go(go)];
    let mut any = false;
    for language in languages {
        any |= generate(&Request { language, contracts: contract.iter().cloned().collect(), types: Some(types.clone()) }).is_ok();
    }
    any
}

fn words(panicked: &(dyn Any + Send)) -> String {
    let text = panicked.downcast_ref::<String>().cloned();
    text.or_else(|| panicked.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "no words".to_owned())
}

#[test]
fn no_descriptor_bytes_make_gen_panic() {
    let seed = number("QWERQ_FUZZ_SEED", SEED);
    let mutants = number("QWERQ_FUZZ_MUTANTS", MUTANTS);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("set.binpb");
    let mut population = seeds();
    let seeds = population.len();
    assert!(seeds > 8, "only {seeds} descriptor sets");
    let mut rng = Rng::new(seed);
    // Libraries panic inside of our seat belt; what gets out is reported below, with the place.
    let places = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let last = std::sync::Arc::clone(&places);
    panic::set_hook(Box::new(move |info| {
        *last.lock().expect("nobody panics in here") = info.location().map(ToString::to_string).unwrap_or_default()
    }));
    let mut failures: BTreeMap<String, (String, Vec<u8>)> = BTreeMap::new();
    let mut accepted = 0_u64;
    for _ in 0..mutants {
        let (from, donor) = (rng.below(population.len()), rng.below(population.len()));
        let mutant = mutate::mutate(&mut rng, &population[from], &population[donor]);
        match panic::catch_unwind(|| generated(&file, &mutant)) {
            Ok(false) => {}
            Ok(true) => {
                accepted += 1;
                if population.len() < seeds + POPULATION_MAX {
                    population.push(mutant);
                } else if rng.percent(20) {
                    let at = seeds + rng.below(POPULATION_MAX);
                    population[at] = mutant;
                }
            }
            Err(panicked) => {
                let place = places.lock().expect("nobody panics in there").clone();
                failures.entry(place).or_insert((words(panicked.as_ref()), mutant));
            }
        }
    }
    drop(panic::take_hook());
    let shown: Vec<String> = failures
        .iter()
        .map(|(place, (words, bytes))| format!("{place}: {words}: {}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
        .collect();
    assert!(failures.is_empty(), "{} of {mutants} mutants of seed {seed} panic:\n{}", failures.len(), shown.join("\n"));
    println!("{mutants} mutants of {seeds} descriptor sets: {accepted} gave output");
    assert!(accepted > mutants / 50, "only {accepted} of {mutants} mutants gave output, so little was reached");
}
