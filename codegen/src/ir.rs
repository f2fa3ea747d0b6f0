//! The language-neutral form of everything that is emitted: files of types, and contracts that point into them.
//!
//! It is where schemas of different contracts meet, so it is where they can disagree; every disagreement is collected before anything is
//! lowered. It knows no target language: `lower/` decides names. How files are merged is told in [`merge`].

mod editions;
pub(crate) mod linked;
pub(crate) mod locations;
mod merge;
mod retention;
mod rpc;
pub(crate) mod whole;

use std::collections::BTreeMap;

use prost::bytes::Bytes;
use prost_types::FileDescriptorProto;

use crate::{
    contract::{ContractSource, Request},
    diagnostic::{Diagnostic, Diagnostics},
};
pub(crate) use locations::Locations;
pub(crate) use rpc::Rpc;

/// Everything that one run emits.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    /// Sorted by package, then by name. Each top-level type stands in exactly one of them.
    pub(crate) files: Vec<SchemaFile>,
    /// Sorted by queue.
    pub(crate) contracts: Vec<Contract>,
}

/// One .proto file's part of the schema.
#[derive(Debug, Clone)]
pub(crate) struct SchemaFile {
    /// The types to emit, with their source locations: the file without what nothing reaches and without what another file defines.
    pub(crate) proto: FileDescriptorProto,
    /// The whole file's FileDescriptorProto as it was compiled, custom options included; what languages with runtime reflection embed.
    pub(crate) raw: Bytes,
}

/// A queue and what it carries.
#[derive(Debug, Clone)]
pub(crate) struct Contract {
    pub(crate) queue: String,
    /// 0 when no broker has numbered it yet.
    pub(crate) version: u32,
    pub(crate) fingerprint: [u8; 32],
    /// Full name, without a leading dot; the type is in `Schema::files` or well known.
    pub(crate) message_type: String,
    pub(crate) reply_type: Option<String>,
    /// The rpc that it is, if it is one of a service.
    pub(crate) rpc: Option<Rpc>,
}

impl Schema {
    /// Resolves a request. Warnings go to `diagnostics`.
    ///
    /// # Errors
    /// `None` when an error went to `diagnostics`.
    pub(crate) fn resolve(request: &Request, diagnostics: &mut Diagnostics) -> Option<Schema> {
        let mut contracts: Vec<&ContractSource> = request.contracts.iter().collect();
        contracts.sort_by(|a, b| a.queue.cmp(&b.queue));
        check_queue_names(&contracts, diagnostics);
        let files = merge::merge(request, diagnostics);
        if diagnostics.has_errors() {
            return None;
        }
        let contracts = contracts
            .into_iter()
            .map(|source| Contract {
                queue: source.queue.clone(),
                version: source.version,
                fingerprint: source.fingerprint,
                message_type: source.message_type.clone(),
                reply_type: source.reply_type.clone(),
                rpc: Rpc::of(source),
            })
            .collect();
        Some(Schema { files, contracts })
    }
}

/// `scope.name`, or `name` in no scope.
pub(crate) fn qualified(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

fn check_queue_names(sorted: &[&ContractSource], diagnostics: &mut Diagnostics) {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for contract in sorted {
        if !qwerq_proto::name::is_valid(&contract.queue) {
            diagnostics.push(
                Diagnostic::error(format!("{:?} is not a queue name", contract.queue))
                    .help("1 to 251 of A-Z a-z 0-9 . _ -, not starting with . _ or -"),
            );
        }
        if let Some(other) = seen.insert(&contract.queue, contract.version) {
            diagnostics.push(
                Diagnostic::error(format!("queue {} has two contracts, version {other} and version {}", contract.queue, contract.version))
                    .help("a queue has one active contract; name each queue once"),
            );
        }
    }
}
