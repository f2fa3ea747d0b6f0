//! A contract: the message type (and reply type) of a queue, compiled from a descriptor set.
//!
//! It holds what validation needs, the fingerprint, and the raw files for the store. It does not know queues, versions or
//! which contract is active: that is `catalog.rs` and, durably, the core.

use std::{panic, sync::Arc};

use bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::DescriptorPool;
use sha2::{Digest as _, Sha256};

use super::{
    Fingerprint, canonical,
    error::SchemaError,
    explain::explain,
    link,
    lower::lowered,
    schema::{Schema, SymbolKind},
    table::Tables,
    validate::is_valid,
    violation::Violation,
};

/// A compiled contract.
#[derive(Debug, Clone)]
pub struct Contract {
    message_type: String,
    reply_type: Option<String>,
    fingerprint: Fingerprint,
    tables: Arc<Tables>,
    /// Index of the reply type in the tables; the message type is 0.
    reply: Option<u32>,
    files: Vec<ContractFile>,
}

/// One file of a contract's descriptor set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractFile {
    /// The import path.
    pub name: String,
    /// SHA-256 of `content`: files are stored once by it.
    pub hash: [u8; 32],
    /// The raw `google.protobuf.FileDescriptorProto`, custom options included.
    pub content: Bytes,
}

/// What a validation says to field numbers and enum numbers that the contract does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// Permissive: they pass and stay in the payload.
    Accept,
    /// Strict: the first one is the violation.
    Refuse,
}

impl Contract {
    /// Compiles a contract from a `google.protobuf.FileDescriptorSet` that holds all imports.
    ///
    /// # Errors
    /// Whatever the bytes are, the answer is a contract or an error, never a panic.
    pub fn compile(descriptor_set: &[u8], message_type: &str, reply_type: Option<&str>) -> Result<Contract, SchemaError> {
        let raw_files = link::split(Bytes::copy_from_slice(descriptor_set))?;
        let schema = link::link(&raw_files)?;
        let contract = Contract::of_schema(&schema, raw_files, message_type, reply_type)?;
        // Lowering may lose what only an edition can say; then JSON is poorer, the contract is not refused.
        if !schema.files.iter().any(|file| file.syntax.is_edition()) {
            contract.pool()?;
        }
        Ok(contract)
    }

    /// Compiles again what `compile` accepted before, as at a start: without the second opinion of the library that
    /// serves JSON.
    ///
    /// # Errors
    /// As `compile`, though bytes that it accepted give none.
    pub fn restore(descriptor_set: &[u8], message_type: &str, reply_type: Option<&str>) -> Result<Contract, SchemaError> {
        let raw_files = link::split(Bytes::copy_from_slice(descriptor_set))?;
        let schema = link::link(&raw_files)?;
        Contract::of_schema(&schema, raw_files, message_type, reply_type)
    }

    fn of_schema(schema: &Schema, raw_files: Vec<Bytes>, message_type: &str, reply_type: Option<&str>) -> Result<Contract, SchemaError> {
        let message = find_message(schema, message_type)?;
        let reply = reply_type.map(|name| find_message(schema, name)).transpose()?;
        let roots: Vec<u32> = [Some(message), reply].into_iter().flatten().collect();
        let files = schema
            .files
            .iter()
            .zip(raw_files)
            .map(|(file, content)| ContractFile { name: file.name.clone(), hash: Sha256::digest(&content).into(), content })
            .collect();
        Ok(Contract {
            message_type: schema.message(message).full_name.clone(),
            reply_type: reply.map(|reply| schema.message(reply).full_name.clone()),
            fingerprint: canonical::fingerprint(schema, message, reply),
            tables: Arc::new(Tables::compile(schema, &roots)),
            reply: reply.map(|reply| u32::from(reply != message)),
            files,
        })
    }

    /// Judges a payload as the contract's message type. It allocates only to say what is wrong, or when message parts
    /// without their required fields may complete each other.
    ///
    /// # Errors
    /// The first violation, with path and offset.
    #[inline]
    pub fn validate(&self, payload: &[u8], unknown: Unknown) -> Result<(), Violation> {
        judge(&self.tables, 0, payload, unknown)
    }

    /// Judges as `validate` does, by the exact walk alone: slow, and there to hold the fast one to it.
    ///
    /// # Errors
    /// The first violation, with path and offset.
    pub fn validate_exactly(&self, payload: &[u8], unknown: Unknown) -> Result<(), Violation> {
        explain(&self.tables, 0, unknown == Unknown::Refuse, payload)
    }

    /// Judges a payload as the contract's reply type. Without one there is nothing that a reply could break.
    ///
    /// # Errors
    /// The first violation, with path and offset.
    pub fn validate_reply(&self, payload: &[u8], unknown: Unknown) -> Result<(), Violation> {
        match self.reply {
            Some(reply) => judge(&self.tables, reply, payload, unknown),
            None => Ok(()),
        }
    }

    /// Full name of the message type.
    #[must_use]
    pub fn message_type(&self) -> &str {
        &self.message_type
    }

    /// Full name of the reply type, when the queue can be called.
    #[must_use]
    pub fn reply_type(&self) -> Option<&str> {
        self.reply_type.as_deref()
    }

    /// SHA-256 of the canonical form: the same for the same content in other order, comments or files.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// The raw files, in the order in which they came; empty after `take_files`.
    #[must_use]
    pub fn files(&self) -> &[ContractFile] {
        &self.files
    }

    /// Takes the raw files out, so that a contract that is only there to validate holds no more than its tables.
    pub fn take_files(&mut self) -> Vec<ContractFile> {
        std::mem::take(&mut self.files)
    }

    /// Heap bytes of the tables; files not counted.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.tables.heap_bytes()
    }

    /// The library's view of the files, editions lowered, for JSON. It is large and made anew at each call.
    ///
    /// # Errors
    /// `Rejected` when the library refuses what we accept.
    pub fn pool(&self) -> Result<DescriptorPool, SchemaError> {
        let set = lowered(&descriptor_set(self.files.iter().map(|file| &file.content)))?;
        // The library is known to panic on some descriptors; a seat belt, not a control flow.
        let decoded = panic::catch_unwind(|| DescriptorPool::decode(set.as_slice()));
        match decoded {
            Ok(Ok(pool)) => Ok(pool),
            Ok(Err(error)) => Err(SchemaError::Rejected { reason: error.to_string() }),
            Err(_) => Err(SchemaError::Rejected { reason: "the descriptor library gave up on it".to_owned() }),
        }
    }

    /// Whether two contracts have their tables in common, as those of one fingerprint in one registry have.
    #[must_use]
    pub fn shares_tables_with(&self, other: &Contract) -> bool {
        Arc::ptr_eq(&self.tables, &other.tables)
    }

    /// Uses another contract's tables for this one's; both have the same fingerprint.
    pub(super) fn share_tables(&mut self, tables: Arc<Tables>) {
        self.tables = tables;
    }

    pub(super) fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }
}

/// A FileDescriptorSet of these raw files.
#[must_use]
pub fn descriptor_set<'a>(files: impl IntoIterator<Item = &'a Bytes>) -> Vec<u8> {
    let mut set = Vec::new();
    for file in files {
        encode_key(1, WireType::LengthDelimited, &mut set);
        encode_varint(file.len() as u64, &mut set);
        set.extend_from_slice(file);
    }
    set
}

#[inline]
fn judge(tables: &Tables, message: u32, payload: &[u8], unknown: Unknown) -> Result<(), Violation> {
    let valid = match unknown {
        Unknown::Accept => is_valid::<false>(tables, message, payload),
        Unknown::Refuse => is_valid::<true>(tables, message, payload),
    };
    if valid { Ok(()) } else { explain(tables, message, unknown == Unknown::Refuse, payload) }
}

pub(super) fn find_message(schema: &Schema, name: &str) -> Result<u32, SchemaError> {
    let name = name.strip_prefix('.').unwrap_or(name);
    if let Some(index) = schema.find_message(name) {
        return Ok(index);
    }
    let name = name.to_owned();
    let suggestions = suggestions(schema, &name);
    let kind = match schema.symbols.get(&name).map(|symbol| symbol.kind) {
        None => return Err(SchemaError::TypeNotFound { name, suggestions }),
        Some(SymbolKind::Package) => "a package",
        Some(SymbolKind::Message(_)) => "the entry of a map",
        Some(SymbolKind::Enum(_)) => "an enum",
        Some(SymbolKind::Service) => "a service",
        Some(SymbolKind::Extension) => "an extension",
    };
    Err(SchemaError::NotAMessage { name, kind, suggestions })
}

/// How many names a did-you-mean offers.
const SUGGESTIONS_MAX: usize = 3;

/// The messages that the name may have meant: the same short name in any package, then close spellings, then, when
/// nothing is close, the first messages that are not protobuf's own.
fn suggestions(schema: &Schema, name: &str) -> Vec<String> {
    let short = |name: &str| name.rsplit('.').next().unwrap_or_default().to_lowercase();
    let wanted = short(name);
    let mut ranked: Vec<(usize, &str)> = schema
        .messages
        .iter()
        .filter(|message| !message.map_entry)
        .map(|message| {
            let full_name = message.full_name.as_str();
            let short_distance = distance(&wanted, &short(full_name));
            (short_distance.min(distance(&name.to_lowercase(), &full_name.to_lowercase())), full_name)
        })
        .collect();
    ranked.sort_by_key(|(distance, _)| *distance);
    let close_max = wanted.chars().count() / 3;
    let close: Vec<String> = ranked
        .iter()
        .take_while(|(distance, _)| *distance <= close_max)
        .take(SUGGESTIONS_MAX)
        .map(|(_, name)| (*name).to_owned())
        .collect();
    if !close.is_empty() {
        return close;
    }
    schema
        .messages
        .iter()
        .filter(|message| !message.map_entry && !message.full_name.starts_with("google.protobuf."))
        .take(SUGGESTIONS_MAX)
        .map(|message| message.full_name.clone())
        .collect()
}

/// Edit distance; names too long to be typed are far from everything.
fn distance(a: &str, b: &str) -> usize {
    const CHARS_MAX: usize = 256;
    let b: Vec<char> = b.chars().take(CHARS_MAX).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().take(CHARS_MAX).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
