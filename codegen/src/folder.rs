//! A folder of .proto files, or of descriptor sets, as the source of contracts, before any broker exists.
//!
//! Which queue carries which message is written in the folder's `qwerq.toml`; without one, all messages are emitted and no client is.
//! The fingerprint is the registry's to compute, so contracts from here carry none; the command line, which knows the registry, adds it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use prost::{Message, bytes::Bytes};

use crate::{
    compile::{self, Compiled},
    config::{CONFIG, Config},
    contract::{ContractSource, TypeSource, UNKNOWN_FINGERPRINT},
    diagnostic::{Diagnostic, Diagnostics},
    lock,
};

/// What a folder gives: the two sources of a [`crate::contract::Request`].
#[derive(Debug, Clone)]
pub struct Folder {
    /// One for each `[[queue]]`.
    pub contracts: Vec<ContractSource>,
    /// Every message of every .proto file in the folder.
    pub types: TypeSource,
    /// By queue: the .proto files of its contract as people wrote them, path and text.
    pub sources: BTreeMap<String, Vec<(String, String)>>,
    /// What the reader should know.
    pub warnings: Diagnostics,
}

/// A FileDescriptorSet whose files stay bytes.
#[derive(Clone, PartialEq, Message)]
struct RawFiles {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

/// Of a FileDescriptorProto only the name.
#[derive(Clone, PartialEq, Message)]
struct FileName {
    #[prost(string, tag = "1")]
    name: String,
}

/// Compiles every .proto file below `dir`, and reads every descriptor set (`.binpb`). Imports are relative to `dir`, then to `includes`.
///
/// # Errors
/// Everything that is wrong in any of the files or in `qwerq.toml`, all at once.
pub fn read(dir: &Path, includes: &[PathBuf]) -> Result<Folder, Diagnostics> {
    let config = Config::read(&dir.join(CONFIG))?.unwrap_or_default();
    read_with(dir, includes, &config)
}

/// The same, with the queues that `config` names, wherever it lies.
///
/// # Errors
/// As [`read`].
pub fn read_with(dir: &Path, includes: &[PathBuf], config: &Config) -> Result<Folder, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    let protos = files(dir)?;
    if protos.is_empty() {
        return Err(Diagnostic::error("no .proto file in this folder").at(dir.display().to_string(), None).into());
    }
    let includes: Vec<PathBuf> = std::iter::once(dir.to_owned()).chain(includes.iter().cloned()).collect();
    let mut all = RawFiles::default();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut roots = Vec::new();
    let mut found: Vec<Option<Compiled>> = config.queues().iter().map(|_| None).collect();
    for proto in &protos {
        let name = proto.strip_prefix(dir).unwrap_or(proto).components().map(|c| c.as_os_str().to_string_lossy()).collect::<Vec<_>>();
        let name = name.join("/");
        let compiled = match compile::compile(proto, &includes) {
            Ok(compiled) => compiled,
            Err(error) => {
                diagnostics.push(error.0);
                continue;
            }
        };
        let set = RawFiles::decode(compiled.descriptor_set.as_slice()).expect("the compiler's own output decodes");
        for file in set.file {
            let of = FileName::decode(file.clone()).expect("the compiler's own output decodes").name;
            if known.insert(of) {
                all.file.push(file);
            }
        }
        for (queue, slot) in config.queues().iter().zip(&mut found) {
            let here = queue.proto.as_ref().is_none_or(|wanted| *wanted == name);
            if slot.is_none() && here && compiled.messages.iter().any(|message| message == queue.message.get_ref()) {
                *slot = Some(compiled.clone());
            }
        }
        roots.extend(compiled.roots);
    }
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    let (mut contracts, mut sources) = (Vec::new(), BTreeMap::new());
    for (queue, compiled) in config.queues().iter().zip(found) {
        match compiled {
            None => diagnostics.push(Diagnostic {
                place: Some(config.place(&queue.message)),
                ..Diagnostic::error(format!("no file of the folder defines the message {}", queue.message.get_ref()))
                    .help("write the full name, package included: `message = \"shop.v1.Order\"`")
            }),
            Some(compiled) => {
                if let Some(reply) = queue.reply.as_ref().filter(|reply| !compiled.has_message(reply.get_ref())) {
                    diagnostics.push(Diagnostic {
                        place: Some(config.place(reply)),
                        ..Diagnostic::error(format!("the reply type {} is neither in the message's file nor imported", reply.get_ref()))
                            .help("define it in the same file, or import the file that defines it")
                    });
                }
                sources.insert(queue.name.get_ref().clone(), compiled.sources);
                contracts.push(ContractSource {
                    queue: queue.name.get_ref().clone(),
                    version: 0,
                    message_type: queue.message.get_ref().clone(),
                    reply_type: queue.reply.as_ref().map(|reply| reply.get_ref().clone()),
                    fingerprint: UNKNOWN_FINGERPRINT,
                    descriptor_set: compiled.descriptor_set.into(),
                });
            }
        }
    }
    if contracts.is_empty() && !diagnostics.has_errors() {
        diagnostics.push(
            Diagnostic::warning("no queue is named, so message types are emitted without clients")
                .at(dir.join(CONFIG).display().to_string(), None)
                .help("add `[[queue]]` with `name = \"orders\"` and `message = \"shop.v1.Order\"`"),
        );
    }
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    Ok(Folder { contracts, types: TypeSource { roots, descriptor_set: all.encode_to_vec().into() }, sources, warnings: diagnostics })
}

/// The files that [`read`] would compile, sorted; what to look at for changes.
///
/// # Errors
/// When the folder cannot be listed.
pub fn files(dir: &Path) -> Result<Vec<PathBuf>, Diagnostics> {
    let mut protos = Vec::new();
    find_protos(dir, &mut protos).map_err(|diagnostic| Diagnostics(vec![diagnostic]))?;
    Ok(protos)
}

/// All .proto files and descriptor sets, sorted; hidden folders and those of package managers and builds are left out.
fn find_protos(dir: &Path, protos: &mut Vec<PathBuf>) -> Result<(), Diagnostic> {
    let fail = |error: std::io::Error| Diagnostic::error(format!("cannot read the folder: {error}")).at(dir.display().to_string(), None);
    let mut entries = fs::read_dir(dir).map_err(fail)?.collect::<Result<Vec<_>, _>>().map_err(fail)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            let skipped = name.to_string_lossy().starts_with('.') || name == "node_modules" || name == "target";
            if !skipped {
                find_protos(&path, protos)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "proto" || extension == "binpb") && name != lock::DESCRIPTORS {
            protos.push(path);
        }
    }
    Ok(())
}
