//! Real schemas through a broker and back: what was registered comes back byte for byte, and what contracts share is stored once.
//!
//! A seeded sample of the public files of `cargo xtask corpus`; `QWERQ_CORPUS=full` takes all of them.

mod support;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use prost_reflect::prost::Message as _;
use qwerq_codegen::compile::compile;
use qwerq_proto::{Opcode, wire};
use support::broker::Broker;
use support::corpus::{self, say};
use support::raw::Raw;

/// Decides which files are taken.
const SEED: u64 = 20_261_204;
/// Files of a sample, spread over all folders.
const SAMPLE: usize = 400;
/// Files of the sample of each further package.
const SAMPLE_OF_OTHERS: usize = 60;

/// The files of a set as they are in it, byte for byte.
#[derive(Clone, PartialEq, prost_reflect::prost::Message)]
struct RawSet {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

/// What is on the disk below a folder.
fn bytes_below(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = fs::read_dir(folder).expect("the folder can be listed").map(|entry| entry.expect("the folder can be listed").path());
    entries
        .map(|path| match fs::metadata(&path).expect("the file is there") {
            facts if facts.is_dir() => bytes_below(&path),
            // A sparse file takes what was written of it.
            facts => facts.blocks() * 512,
        })
        .sum()
}

/// What registering all that was asked for came to.
#[derive(Default)]
struct Registered {
    contracts: u64,
    sent: u64,
    distinct: HashSet<Bytes>,
}

/// Registers the first message of each file on a queue of its own and reads it back. Files that do not compile, or have no message, do
/// not count.
fn register_all(broker: &Broker, files: &[PathBuf], includes: &[PathBuf], done: &mut Registered) {
    for file in files {
        let Ok(compiled) = compile(file, includes) else { continue };
        let Some(message_type) = compiled.messages.first().cloned() else { continue };
        let descriptor_set = Bytes::from(compiled.descriptor_set);
        let files = RawSet::decode(descriptor_set.clone()).expect("a set").file;
        let sources: Vec<_> = compiled.sources.into_iter().map(|(path, text)| wire::SourceFile { path, text }).collect();
        // Copies of their own, since a part keeps the whole set in memory.
        done.distinct.extend(files.iter().map(|file| Bytes::copy_from_slice(file)));
        done.distinct.extend(sources.iter().map(|source| Bytes::copy_from_slice(source.text.as_bytes())));
        done.sent += descriptor_set.len() as u64 + sources.iter().map(|source| source.text.len() as u64).sum::<u64>();
        let queue = format!("c{}", done.contracts);
        done.contracts += 1;
        let register = wire::SchemaRegister {
            queue: queue.clone(),
            descriptor_set: descriptor_set.clone(),
            message_type,
            sources: sources.clone(),
            ..wire::SchemaRegister::default()
        };
        // Compiling may take longer than a silent connection lasts.
        let mut raw = Raw::hello(broker.address);
        raw.send(Opcode::SchemaRegister, None, &register);
        let registered: wire::SchemaResponse = raw.expect(Opcode::SchemaResponse);
        raw.send(Opcode::SchemaGet, None, &wire::SchemaGet { queue, ..wire::SchemaGet::default() });
        let back: wire::SchemaResponse = raw.expect(Opcode::SchemaResponse);
        assert!(back.descriptor_set == descriptor_set && back.sources == sources, "{}", file.display());
        assert_eq!(back.version, registered.version, "{}", file.display());
    }
}

#[test]
fn real_schemas_come_back_as_they_went_in_and_shared_files_are_stored_once() {
    let Some(packages) = corpus::packages() else { return };
    let sample = |files| if corpus::is_full() { usize::MAX } else { files };
    let mut broker = Broker::start(&[]);
    let before = bytes_below(broker.data());
    let mut google = Registered::default();
    let files = |package: &corpus::Package, most| -> Vec<PathBuf> { package.files(SEED).into_iter().take(sample(most)).collect() };
    register_all(&broker, &files(&packages[0], SAMPLE), &packages[0].includes, &mut google);
    assert!(google.contracts > 100, "only {} contracts", google.contracts);
    // An end writes a checkpoint, after which the store holds everything and the journal is free.
    assert!(broker.terminate().success());
    broker.restart();
    let grown = bytes_below(broker.data()).saturating_sub(before);
    let sum: u64 = google.distinct.iter().map(|bytes| bytes.len() as u64).sum();
    let Registered { contracts, sent, distinct } = &google;
    let name = packages[0].name;
    say(&format!("{name}: {contracts} contracts, {sent} bytes sent, {sum} in {} distinct files, {grown} stored", distinct.len()));
    assert!(grown < 3 * sum, "the data directory grew by {grown} bytes for {sum} in distinct files");
    let mut all = google;
    for package in &packages[1..] {
        let before = all.contracts;
        register_all(&broker, &files(package, SAMPLE_OF_OTHERS), &package.includes, &mut all);
        say(&format!("{}: {} contracts", package.name, all.contracts - before));
        assert!(all.contracts > before, "none of {}", package.name);
    }
}
