//! Where contracts come from: a broker, a folder of .proto files, or the lock.
//!
//! All three give the same thing, so that what follows does not ask. Fingerprints of a folder are computed as the registry computes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use qwerq_broker::registry::Contract;
use qwerq_codegen::config::Config;
use qwerq_codegen::contract::{ContractSource, TypeSource};
use qwerq_codegen::folder;
use qwerq_codegen::lock::Lock;

use super::{failure, warn};
use crate::broker::BrokerArgs;
use crate::failure::Failure;

/// What a run works on.
#[derive(Debug)]
pub(super) struct Contracts {
    pub(super) contracts: Vec<ContractSource>,
    /// All types of a folder.
    pub(super) types: Option<TypeSource>,
    /// By queue: the .proto files as people wrote them, where they are known.
    pub(super) sources: BTreeMap<String, Vec<(String, String)>>,
}

impl Contracts {
    fn new(contracts: Vec<ContractSource>) -> Contracts {
        Contracts { contracts, types: None, sources: BTreeMap::new() }
    }
}

/// The active contract of every queue that is wanted.
pub(super) async fn of_broker(broker: &BrokerArgs, wants: impl Fn(&str) -> bool) -> Result<Contracts, Failure> {
    let client = broker.connect().await?;
    let mut contracts = Vec::new();
    for version in client.list_schemas().await?.into_iter().filter(|version| wants(&version.queue)) {
        let schema = client.schema(&version.queue, Some(version.version)).await?;
        let fingerprint = <[u8; 32]>::try_from(&*version.fingerprint)
            .map_err(|_| Failure::failed(format!("the fingerprint of {} is not 32 bytes long", version.queue)))?;
        contracts.push(ContractSource {
            queue: version.queue,
            version: version.version,
            message_type: version.message_type,
            reply_type: Some(version.reply_type).filter(|name| !name.is_empty()),
            fingerprint,
            descriptor_set: schema.descriptor_set,
        });
    }
    client.close().await?;
    if contracts.is_empty() {
        let failure = Failure::failed("the broker has no contracts, so there is nothing to generate");
        return Err(failure.next_step("register one with `qwer-q schema register`, or use --from DIR"));
    }
    Ok(Contracts::new(contracts))
}

/// What a folder of .proto files says. Version numbers are those that `known` has for the same content, else 0.
pub(super) fn of_folder(dir: &Path, includes: &[PathBuf], queues: &Config, known: &Lock) -> Result<Contracts, Failure> {
    let folder = folder::read_with(dir, includes, queues).map_err(|found| failure(&found))?;
    warn(&folder.warnings);
    let mut contracts = folder.contracts;
    for contract in &mut contracts {
        contract.fingerprint = fingerprint(contract)?;
        let recorded = known.contracts().iter().find(|old| old.queue == contract.queue && old.fingerprint == contract.fingerprint);
        contract.version = recorded.map_or(0, |old| old.version);
    }
    Ok(Contracts { contracts, types: Some(folder.types), sources: folder.sources })
}

/// What the lock says, after making sure that nobody has edited it.
pub(super) fn of_lock(lock: &Lock) -> Result<Contracts, Failure> {
    for contract in lock.contracts() {
        if fingerprint(contract)? != contract.fingerprint {
            let failure = Failure::failed(format!("qwerq.lock: the fingerprint of {} is not that of its descriptors", contract.queue));
            return Err(failure.next_step("restore qwerq.lock from version control, or make it anew with `qwer-q gen`"));
        }
    }
    Ok(Contracts::new(lock.contracts().to_vec()))
}

fn fingerprint(contract: &ContractSource) -> Result<[u8; 32], Failure> {
    Contract::restore(&contract.descriptor_set, &contract.message_type, contract.reply_type.as_deref())
        .map(|compiled| *compiled.fingerprint())
        .map_err(|error| Failure::failed(format!("a broker would refuse the contract of {}: {error}", contract.queue)))
}
