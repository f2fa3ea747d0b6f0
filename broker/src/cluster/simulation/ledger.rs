//! What a run has promised and seen, and the rules that hold across all nodes. A broken rule is a panic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use super::super::raft::LogId;
use super::runtime::stamp;

/// The ledger; clones are the same one.
#[derive(Clone)]
pub(super) struct Ledger {
    inner: Arc<Mutex<Inner>>,
    prints: bool,
}

/// A message, by its number in the run.
pub(super) type Number = u64;

/// What has happened, so that a run in which it never does can be told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Covered {
    pub(super) acknowledged: u64,
    pub(super) deliveries: u64,
    pub(super) settled: u64,
    pub(super) looks: u64,
    pub(super) duplicates: u64,
    pub(super) reigns: u64,
    pub(super) deposed: u64,
    pub(super) outlived: u64,
    pub(super) crashes: u64,
    pub(super) cuts: u64,
    pub(super) pauses: u64,
    pub(super) snapshots: u64,
    pub(super) purges: u64,
    pub(super) healed: u64,
    pub(super) failed_syncs: u64,
    pub(super) slow_disks: u64,
    pub(super) joined: u64,
    pub(super) left: u64,
    pub(super) sieges: u64,
    pub(super) lost_disks: u64,
}

impl Covered {
    /// What every run of many seeds must have seen. A turn that outlives its reign is not among it: Raft takes proposals in order, so that takes
    /// a term that is lost and won again between two of its steps. The rule for it is held by the tests of `tenure.rs`.
    fn counts(&self) -> [(&'static str, u64); 19] {
        [
            ("acknowledged", self.acknowledged),
            ("deliveries", self.deliveries),
            ("settled", self.settled),
            ("looks", self.looks),
            ("duplicates", self.duplicates),
            ("reigns", self.reigns),
            ("deposed", self.deposed),
            ("crashes", self.crashes),
            ("cuts", self.cuts),
            ("pauses", self.pauses),
            ("snapshots", self.snapshots),
            ("purges", self.purges),
            ("healed", self.healed),
            ("failed syncs", self.failed_syncs),
            ("slow disks", self.slow_disks),
            ("joined", self.joined),
            ("left", self.left),
            ("sieges", self.sieges),
            ("lost disks", self.lost_disks),
        ]
    }

    pub(super) fn add(&mut self, other: &Covered) {
        self.acknowledged += other.acknowledged;
        self.deliveries += other.deliveries;
        self.settled += other.settled;
        self.looks += other.looks;
        self.duplicates += other.duplicates;
        self.reigns += other.reigns;
        self.deposed += other.deposed;
        self.outlived += other.outlived;
        self.crashes += other.crashes;
        self.cuts += other.cuts;
        self.pauses += other.pauses;
        self.snapshots += other.snapshots;
        self.purges += other.purges;
        self.healed += other.healed;
        self.failed_syncs += other.failed_syncs;
        self.slow_disks += other.slow_disks;
        self.joined += other.joined;
        self.left += other.left;
        self.sieges += other.sieges;
        self.lost_disks += other.lost_disks;
    }

    /// A fault that never comes tests nothing.
    pub(super) fn check_everything_happened(&self) {
        for (what, count) in self.counts() {
            assert!(count > 0, "never happened: {what}; all: {self:?}");
        }
    }
}

#[derive(Default)]
struct Inner {
    trace: Vec<String>,
    covered: Covered,
    /// By index: which entry is committed there, and a hash of its bytes.
    committed: BTreeMap<u64, (LogId, u32)>,
    /// Who leads in a term.
    leaders: BTreeMap<u64, u64>,
    /// The node whose reign a term is, of all terms in which one has begun.
    reigns: BTreeMap<u64, u64>,
    /// The ordering key of each message; smaller numbers of a key were published before.
    keys: BTreeMap<Number, u64>,
    acknowledged: BTreeSet<Number>,
    /// At which index a message was stored.
    stored: BTreeMap<Number, u64>,
    /// Consumers have asked to settle these.
    asked_to_settle: BTreeSet<Number>,
    settled: BTreeSet<Number>,
}

impl Ledger {
    pub(super) fn new(prints: bool) -> Ledger {
        Ledger { inner: Arc::default(), prints }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A line of the trace; node 0 is the world.
    pub(super) fn note(&self, node: u64, what: impl AsRef<str>) {
        let line = match node {
            0 => format!("{} world {}", stamp(), what.as_ref()),
            node => format!("{} node {node} {}", stamp(), what.as_ref()),
        };
        if self.prints {
            println!("{line}");
        }
        self.lock().trace.push(line);
    }

    pub(super) fn trace(&self) -> Vec<String> {
        self.lock().trace.clone()
    }

    pub(super) fn covered(&self) -> Covered {
        self.lock().covered
    }

    pub(super) fn count(&self, which: fn(&mut Covered) -> &mut u64) {
        *which(&mut self.lock().covered) += 1;
    }

    /// A node applies an entry.
    pub(super) fn applies(&self, node: u64, log_id: LogId, bytes: &[u8]) {
        let hash = crc32c::crc32c(bytes);
        let known = *self.lock().committed.entry(log_id.index).or_insert((log_id, hash));
        assert!(
            known == (log_id, hash),
            "node {node} applies {log_id} with checksum {hash:08x} where another one has applied {} with {:08x}",
            known.0,
            known.1
        );
    }

    /// Raft says that a node leads.
    pub(super) fn leads(&self, node: u64, term: u64) {
        let leader = *self.lock().leaders.entry(term).or_insert(node);
        assert_eq!(leader, node, "two nodes lead in term {term}");
    }

    /// A shard begins to serve.
    pub(super) fn reigns(&self, node: u64, term: u64) {
        self.note(node, format!("begins its reign of term {term}"));
        let mut inner = self.lock();
        inner.covered.reigns += 1;
        let other = *inner.reigns.entry(term).or_insert(node);
        assert_eq!(other, node, "two nodes reign in term {term}");
    }

    /// A shard says something to a client.
    pub(super) fn serves(&self, node: u64, term: u64) {
        let newest = self.lock().reigns.last_key_value().map(|(term, node)| (*term, *node));
        assert_eq!(newest, Some((term, node)), "node {node} serves in term {term}, and another reign has begun since");
    }

    /// A publisher makes up a message.
    pub(super) fn invents(&self, number: Number, key: u64) {
        self.lock().keys.insert(number, key);
    }

    /// A message is stored by a committed entry.
    pub(super) fn stores(&self, number: Number, index: u64) {
        let known = *self.lock().stored.entry(number).or_insert(index);
        assert!(known == index, "message {number} is stored twice: by entries {known} and {index}");
    }

    /// A publisher hears that its message is stored.
    pub(super) fn acknowledges(&self, number: Number) {
        let mut inner = self.lock();
        assert!(inner.stored.contains_key(&number), "message {number} is acknowledged and not committed");
        inner.covered.acknowledged += 1;
        inner.acknowledged.insert(number);
    }

    /// A shard lets a consumer have a message.
    pub(super) fn delivers(&self, node: u64, number: Number) {
        let mut inner = self.lock();
        inner.covered.deliveries += 1;
        assert!(!inner.settled.contains(&number), "node {node} delivers message {number}, whose settlement was confirmed");
        let key = inner.keys[&number];
        let earlier = inner.keys.range(..number).filter(|(_, other)| **other == key).map(|(earlier, _)| *earlier);
        let open = earlier.into_iter().find(|earlier| inner.stored.contains_key(earlier) && !inner.asked_to_settle.contains(earlier));
        assert!(open.is_none(), "node {node} delivers message {number} before {open:?} of the same key {key}, which nobody has settled");
    }

    /// A consumer asks to settle a message.
    pub(super) fn asks_to_settle(&self, number: Number) {
        self.lock().asked_to_settle.insert(number);
    }

    /// A consumer hears that it is settled.
    pub(super) fn settles(&self, number: Number) {
        let mut inner = self.lock();
        inner.covered.settled += 1;
        inner.settled.insert(number);
    }

    /// Acknowledged messages that no consumer has asked to settle.
    pub(super) fn open(&self) -> Vec<Number> {
        let inner = self.lock();
        inner.acknowledged.difference(&inner.asked_to_settle).copied().collect()
    }

    /// Stored messages that no consumer has asked to settle.
    pub(super) fn undelivered(&self) -> Vec<Number> {
        let inner = self.lock();
        inner.stored.keys().filter(|number| !inner.asked_to_settle.contains(number)).copied().collect()
    }
}
