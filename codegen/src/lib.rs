//! The QWER-Q compiler: contracts in, typed clients out.
//!
//! `.proto` text becomes a descriptor set in [`compile`]; contracts become a language-neutral schema in `ir`, the decisions of a target
//! language are made in `lower/`, templates print them, and [`output`] writes or checks the files. Everything that can go wrong is a
//! [`diagnostic::Diagnostic`] with a place. The crate knows no socket: whoever calls it brings the contracts, from a broker or from a
//! folder ([`folder`]).

pub mod compile;
pub mod config;
pub mod contract;
pub mod diagnostic;
pub mod folder;
mod ir;
pub mod lock;
mod lower;
mod naming;
pub mod output;

use contract::{Language, Request};
use diagnostic::Diagnostics;
use output::Output;

/// Compiles contracts to files in memory. In a `build.rs`:
///
/// ```
/// use std::path::Path;
///
/// use qwerq_codegen::contract::{Language, Request};
/// use qwerq_codegen::{folder, generate};
///
/// # fn build(protos: &Path, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
/// println!("cargo::rerun-if-changed={}", protos.display());
/// let read = folder::read(protos, &[])?;
/// let request = Request { language: Language::Rust, contracts: read.contracts, types: Some(read.types) };
/// // Only what changed is written, so that a build after it has nothing to do.
/// generate(&request)?.write(out)?;
/// # Ok(())
/// # }
/// # let folder = tempfile::tempdir()?;
/// # let (protos, out) = (folder.path().join("protos"), folder.path().join("src/queues"));
/// # std::fs::create_dir(&protos)?;
/// # std::fs::write(protos.join("order.proto"), "syntax = \"proto3\"; package shop.v1; message Order { string id = 1; }")?;
/// # std::fs::write(protos.join("qwerq.toml"), "[[queue]]\nname = \"orders\"\nmessage = \"shop.v1.Order\"\n")?;
/// # build(&protos, &out)?;
/// # assert!(std::fs::read_to_string(out.join("clients.rs"))?.contains("pub fn orders(&self)"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Everything that forbids output, and the warnings found on the way.
pub fn generate(request: &Request) -> Result<Output, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    let files = match ir::Schema::resolve(request, &mut diagnostics) {
        Some(schema) => match &request.language {
            Language::Go(options) => lower::go::lower(request, options, &schema, &mut diagnostics),
            Language::Rust => lower::rust::lower(&schema, &mut diagnostics),
            Language::TypeScript(suffix) => lower::typescript::lower(request, *suffix, &schema, &mut diagnostics),
        },
        None => Vec::new(),
    };
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    Ok(Output { files, warnings: diagnostics })
}

/// The versions of the runtime that generated code works with, for its header.
fn runtime_range() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut parts = version.split('.').map(|part| part.parse::<u64>().unwrap_or_default());
    match (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) {
        (0, minor) => format!(">={version}, <0.{}", minor + 1),
        (major, _) => format!(">={version}, <{}", major + 1),
    }
}
