//! Emits Rust from a folder of .proto files: `cargo run -p qwerq-codegen --example gen -- FOLDER OUT`.

use std::{path::Path, time::Instant};

use qwerq_codegen::{
    contract::{Language, Request},
    folder, generate,
};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let start = Instant::now();
    let folder = folder::read(Path::new(&args[0]), &[]).unwrap_or_else(|e| panic!("{e}"));
    eprintln!("compiled in {:?}", start.elapsed());
    eprintln!("{}", folder.warnings);
    let start = Instant::now();
    let request = Request { language: Language::Rust, contracts: folder.contracts, types: Some(folder.types) };
    let output = generate(&request).unwrap_or_else(|e| panic!("{e}"));
    eprintln!("generated {} files in {:?}", output.files.len(), start.elapsed());
    eprintln!("{}", output.warnings);
    let written = output.write(Path::new(&args[1])).unwrap_or_else(|e| panic!("{e}"));
    eprintln!("{} written, {} removed, {} unchanged", written.written.len(), written.removed.len(), written.unchanged);
}
