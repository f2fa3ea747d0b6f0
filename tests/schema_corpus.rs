//! Real schemas through a broker and back: what was registered comes back byte for byte, and what contracts share is stored once.
//!
//! A seeded sample of the public files of `cargo xtask corpus`; `QWERQ_CORPUS=full` takes all of them.

mod support;

use std::collections::HashSet;
use std::fs;
use std::path::Path;

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

#[test]
fn real_schemas_come_back_as_they_went_in_and_shared_files_are_stored_once() {
    let Some(packages) = corpus::packages() else { return };
    let sample = if corpus::is_full() { usize::MAX } else { SAMPLE };
    let mut broker = Broker::start(&[]);
    let before = bytes_below(&broker.data().join("store"));
    let mut distinct: HashSet<Bytes> = HashSet::new();
    let (mut contracts, mut sent) = (0_u64, 0_u64);
    for file in packages[0].files(SEED).into_iter().take(sample) {
        let Ok(compiled) = compile(&file, &packages[0].includes) else { continue };
        let Some(message_type) = compiled.messages.first().cloned() else { continue };
        let descriptor_set = Bytes::from(compiled.descriptor_set);
        let files = RawSet::decode(descriptor_set.clone()).expect("a set").file;
        let sources: Vec<_> = compiled.sources.into_iter().map(|(path, text)| wire::SourceFile { path, text }).collect();
        distinct.extend(files);
        distinct.extend(sources.iter().map(|source| Bytes::from(source.text.clone())));
        sent += descriptor_set.len() as u64 + sources.iter().map(|source| source.text.len() as u64).sum::<u64>();
        let queue = format!("c{contracts}");
        contracts += 1;
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
    assert!(contracts > 100, "only {contracts} contracts");
    // The end writes a checkpoint, after which the store holds everything.
    assert!(broker.terminate().success());
    broker.restart();
    assert!(broker.terminate().success());
    let grown = bytes_below(&broker.data().join("store")) - before;
    let sum: u64 = distinct.iter().map(|bytes| bytes.len() as u64).sum();
    say(&format!("{contracts} contracts: {sent} bytes sent, {sum} in {} distinct files, {grown} stored", distinct.len()));
    assert!(grown < 3 * sum, "{grown} bytes are stored for {sum} in distinct files");
}
