//! `gen --emit-proto`: the contracts as a tree of .proto files, for tools that want nothing else of us.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use qwerq_codegen::contract::ContractSource;

use crate::failure::Failure;
use crate::output::Output;
use crate::schema::proto_files;

/// Writes every file of every contract once. Two contracts with different texts of one file have no common tree.
pub(super) fn write(contracts: &[ContractSource], folder: &Path) -> Result<(), Failure> {
    let mut output = Output::stdout();
    for (name, (_, text)) in files(contracts)? {
        let path = folder.join(&name);
        if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
            continue;
        }
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
        output.line(format!("wrote {}", path.display()))?;
    }
    output.flush()
}

/// By path: the queue that it was first seen with, and the text.
fn files(contracts: &[ContractSource]) -> Result<BTreeMap<String, (&str, String)>, Failure> {
    let mut tree: BTreeMap<String, (&str, String)> = BTreeMap::new();
    for contract in contracts {
        let files = proto_files(&contract.descriptor_set).map_err(|why| {
            Failure::failed(format!("the contract of {} cannot be written as text: {why}", contract.queue)).next_step(format!(
                "`qwer-q schema get -q {} --format descriptor` gives its descriptors, which every protobuf tool reads",
                contract.queue
            ))
        })?;
        for file in files {
            if !Path::new(&file.path).components().all(|part| matches!(part, Component::Normal(_))) {
                let named =
                    format!("the contract of {} has a file named `{}`, which is no path inside a folder", contract.queue, file.path);
                return Err(Failure::failed(named).next_step("register it again under a relative name"));
            }
            let (queue, text) = tree.entry(file.path.clone()).or_insert_with(|| (&contract.queue, file.text.clone()));
            if *text != file.text {
                let failure = Failure::failed(format!("{} is not the same in the contracts of {queue} and {}", file.path, contract.queue));
                return Err(
                    failure.next_step(format!("`qwer-q schema get -q {} --output DIR` writes the files of one queue", contract.queue))
                );
            }
        }
    }
    Ok(tree)
}
