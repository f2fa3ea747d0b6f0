//! The compiled contracts of all queues, as connection tasks read them: a lookup takes no lock.
//!
//! It is a cache of what the core's state says. Which content is which version, and which version is active, is decided
//! there; this module only holds the result, and shares tables between contracts of one fingerprint.

use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use arc_swap::ArcSwap;
use rustc_hash::FxBuildHasher;

use super::{Fingerprint, contract::Contract, table::Tables};

/// Queues are spread over this many maps, so that an install copies few entries.
const SHARDS: usize = 256;

/// Queue name -> compiled contracts.
#[derive(Debug)]
pub struct Registry {
    shards: Box<[ArcSwap<Shard>]>,
    /// One writer at a time; readers never wait for it.
    tables: Mutex<HashMap<Fingerprint, Weak<Tables>>>,
}

type Shard = HashMap<String, Arc<QueueContract>, FxBuildHasher>;

/// All versions of one queue's contract.
#[derive(Debug, Clone, Default)]
pub struct QueueContract {
    /// Ordered by number.
    versions: Vec<Arc<ContractVersion>>,
    active: Option<Arc<ContractVersion>>,
    by_fingerprint: HashMap<Fingerprint, Arc<ContractVersion>, FxBuildHasher>,
    /// Numbers of the versions whose publishers are refused.
    retired: Vec<u32>,
}

/// One version of a queue's contract.
#[derive(Debug)]
pub struct ContractVersion {
    /// 1, 2, 3...
    pub version: u32,
    /// The compiled contract.
    pub contract: Contract,
}

impl QueueContract {
    /// The version that judges publishers who declare none.
    #[must_use]
    pub fn active(&self) -> Option<&Arc<ContractVersion>> {
        self.active.as_ref()
    }

    /// The version that a publisher's fingerprint names.
    #[must_use]
    pub fn by_fingerprint(&self, fingerprint: &[u8]) -> Option<&Arc<ContractVersion>> {
        self.by_fingerprint.get(fingerprint)
    }

    /// The version of that number.
    #[must_use]
    pub fn version(&self, version: u32) -> Option<&Arc<ContractVersion>> {
        let index = self.versions.binary_search_by_key(&version, |known| known.version).ok()?;
        Some(&self.versions[index])
    }

    /// Whether a version's publishers are refused.
    #[must_use]
    pub fn is_retired(&self, version: u32) -> bool {
        self.retired.contains(&version)
    }

    /// All versions, by number.
    #[must_use]
    pub fn versions(&self) -> &[Arc<ContractVersion>] {
        &self.versions
    }
}

impl Default for Registry {
    fn default() -> Registry {
        Registry { shards: (0..SHARDS).map(|_| ArcSwap::default()).collect(), tables: Mutex::default() }
    }
}

impl Registry {
    /// A registry without contracts.
    #[must_use]
    pub fn new() -> Registry {
        Registry::default()
    }

    /// The contracts of a queue. Hold it for a batch: the versions in it do not change.
    #[must_use]
    pub fn get(&self, queue: &str) -> Option<Arc<QueueContract>> {
        self.shard(queue).load().get(queue).cloned()
    }

    /// Forgets all contracts.
    pub fn clear(&self) {
        let _writer = self.lock();
        self.shards.iter().for_each(|shard| shard.store(Arc::default()));
    }

    /// Adds or replaces a version of a queue's contract and, with `active`, makes it the active one. Gives back what
    /// the queue has now.
    pub fn install(&self, queue: &str, version: u32, mut contract: Contract, active: bool) -> Arc<QueueContract> {
        let mut tables = self.lock();
        share(&mut tables, &mut contract);
        self.update(queue, |queue| {
            let installed = Arc::new(ContractVersion { version, contract });
            queue.by_fingerprint.insert(*installed.contract.fingerprint(), Arc::clone(&installed));
            match queue.versions.binary_search_by_key(&version, |known| known.version) {
                Ok(index) => queue.versions[index] = Arc::clone(&installed),
                Err(index) => queue.versions.insert(index, Arc::clone(&installed)),
            }
            let replaced = queue.active.as_ref().is_some_and(|active| active.version == version);
            if active || replaced {
                queue.active = Some(installed);
            }
        })
    }

    /// Makes a known version the active one, or none. Gives back whether the queue has that version.
    pub fn activate(&self, queue: &str, version: Option<u32>) -> bool {
        let _writer = self.lock();
        let Some(current) = self.get(queue) else {
            return version.is_none();
        };
        let active = version.map(|version| current.version(version).cloned());
        match active {
            Some(None) => false,
            active => {
                self.update(queue, |queue| {
                    queue.active = active.flatten();
                    queue.retired.retain(|retired| Some(*retired) != version);
                });
                true
            }
        }
    }

    /// Has a version's publishers refused, until it is active again.
    pub fn retire(&self, queue: &str, version: u32) {
        let _writer = self.lock();
        self.update(queue, |queue| {
            if !queue.retired.contains(&version) {
                queue.retired.push(version);
            }
        });
    }

    /// Forgets a queue's contracts. Who holds them keeps them.
    pub fn remove(&self, queue: &str) -> Option<Arc<QueueContract>> {
        let mut tables = self.lock();
        let shard = self.shard(queue);
        let mut next = Shard::clone(&shard.load());
        let removed = next.remove(queue)?;
        shard.store(Arc::new(next));
        tables.retain(|_, tables| tables.strong_count() > 0);
        Some(removed)
    }

    fn update(&self, queue: &str, change: impl FnOnce(&mut QueueContract)) -> Arc<QueueContract> {
        let shard = self.shard(queue);
        let mut next = Shard::clone(&shard.load());
        let mut contracts = next.get(queue).map(|known| QueueContract::clone(known)).unwrap_or_default();
        change(&mut contracts);
        let contracts = Arc::new(contracts);
        next.insert(queue.to_owned(), Arc::clone(&contracts));
        shard.store(Arc::new(next));
        contracts
    }

    fn shard(&self, queue: &str) -> &ArcSwap<Shard> {
        let hash = FxBuildHasher.hash_one(queue);
        &self.shards[usize::try_from(hash % SHARDS as u64).expect("below the number of shards")]
    }

    /// A panic while writing leaves the maps as they were, so a poisoned lock is as good as any.
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Fingerprint, Weak<Tables>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn share(tables: &mut HashMap<Fingerprint, Weak<Tables>>, contract: &mut Contract) {
    let known = tables.entry(*contract.fingerprint()).or_default();
    match known.upgrade() {
        Some(shared) => contract.share_tables(shared),
        None => *known = Arc::downgrade(contract.tables()),
    }
}
