//! A node: its disk, which outlives it, and what runs while it is up. Starting one is what `node.rs` and `shard/start.rs` do with real
//! directories: settle a snapshot, open, heal, begin where the log begins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::super::campaign;
use super::super::committed::Queue;
use super::super::lease::Lease;
use super::super::link::{Link, Standing};
use super::super::log::{Desk, Synced, next};
use super::super::machine::Machine;
use super::super::mark::Mark;
use super::super::points::Points;
use super::super::raft::{Address, LogId, Membership, Raft, StoredMembership, config};
use super::super::record;
use super::super::watch::Watch;
use super::disk::SimFiles;
use super::network::{Dialler, End, Net};
use super::runtime::{dice, sleep, spawn_on, up_to};
use super::shard::{Door, Shard, Shown, found};
use crate::files::Files;
use crate::journal::{self, Journal, JournalError};
use crate::store::{Applied, Store, StoreOptions};

/// The entry before a cluster's first.
const FOUNDING: Applied = Applied { term: 0, index: 1, crc: 0 };

/// Small, so that a run fills several of them.
const SEGMENT_BYTES: u32 = 8 << 10;

pub(super) fn store_options() -> StoreOptions {
    StoreOptions { map_bytes: 32 << 20, ..StoreOptions::default() }
}

/// A node and its disk.
pub(super) struct Node {
    pub(super) id: u64,
    net: Net,
    dir: PathBuf,
    points: SimFiles,
    pub(super) journal: SimFiles,
    /// What the journal of a fresh directory begins after.
    begins_after: Option<Applied>,
    /// Its disk takes its time.
    pub(super) slow: bool,
    /// It does nothing any more.
    pub(super) hangs: bool,
    pub(super) up: Option<Up>,
}

/// What there is of a running node.
pub(super) struct Up {
    desk: Arc<Mutex<Desk<SimFiles>>>,
    busy: Arc<Mutex<bool>>,
    standing: Arc<Standing>,
    shown: Arc<Mutex<Shown>>,
    /// It heals, as far as the world knows.
    healing: bool,
}

pub(super) fn address(node: u64) -> Address {
    Address { raft: format!("node-{node}"), client: String::new(), http: String::new() }
}

fn files() -> SimFiles {
    SimFiles::new(dice(super::rng::Rng::next))
}

impl Node {
    /// A node with an empty disk.
    pub(super) fn new(id: u64, net: &Net, home: &std::path::Path) -> Node {
        let dir = home.join(format!("node-{id}"));
        Node { id, net: net.clone(), dir, points: files(), journal: files(), begins_after: None, slow: false, hangs: false, up: None }
    }

    /// Makes it one of those that a cluster begins with.
    pub(super) fn found(&mut self, members: &BTreeSet<u64>) {
        let last = record::log_id(0, FOUNDING.index);
        let nodes: BTreeMap<u64, Address> = members.iter().map(|id| (*id, address(*id))).collect();
        let membership = Membership::new(vec![members.clone()], nodes);
        let mark = Mark { last: Some(last), membership: StoredMembership::new(Some(last), membership) };
        std::fs::create_dir_all(self.dir.join("store")).unwrap();
        found(&self.dir.join("store"), &mark, FOUNDING);
        self.begins_after = Some(FOUNDING);
        let points = Points { cluster_id: Some("simulated".to_owned()), purged: Some(last), healing: None, ..Points::new(self.id) };
        points.save(&self.points).unwrap();
    }

    /// Has a snapshot that was received take the place of store and journal.
    fn settle(&mut self) {
        let incoming = self.dir.join("incoming");
        if !incoming.exists() {
            return;
        }
        let store = self.dir.join("store");
        if store.exists() {
            std::fs::remove_dir_all(&store).unwrap();
        }
        std::fs::rename(&incoming, &store).unwrap();
        let store = Store::open(&store, store_options()).unwrap();
        let applied = store.applied().unwrap();
        self.journal = files();
        self.begins_after = Some(applied);
        let mut points = Points::load(&self.points).unwrap().unwrap_or_else(|| Points::new(self.id));
        points.purged = Mark::of(&store).unwrap().and_then(|mark| mark.last).or(points.purged);
        points.save(&self.points).unwrap();
        self.net.ledger.note(self.id, format!("takes over a snapshot through {}", applied.index));
        self.net.ledger.count(|covered| &mut covered.snapshots);
    }

    fn open(&self, points: &Points) -> Result<(Store, Journal<SimFiles>, Option<LogId>), JournalError> {
        std::fs::create_dir_all(self.dir.join("store")).unwrap();
        let store = Store::open(&self.dir.join("store"), store_options()).unwrap();
        let mut options = journal::Options::new(u128::from(self.id));
        options.segment_bytes = SEGMENT_BYTES;
        options.keep_from = points.kept_from();
        // A directory that was written to says itself what it begins after.
        let written = !self.journal.list().unwrap().is_empty();
        options.begins_after = self.begins_after.filter(|_| !written);
        let mut last = None;
        let journal = Journal::open(self.journal.clone(), options, store.applied().unwrap(), &mut |entry| {
            last = Some(record::log_id_of(&entry)?);
            Ok(())
        })?;
        Ok((store, journal, last))
    }

    /// Starts it on what its disk holds.
    pub(super) fn start(&mut self) {
        self.settle();
        let mut points = match Points::load(&self.points).unwrap() {
            Some(points) => points,
            None => Points::new(self.id),
        };
        let opened = match self.open(&points) {
            Err(error) if error.is_damage() => {
                self.net.ledger.note(self.id, format!("is damaged and begins empty: {error}"));
                points.lose_log();
                points.save(&self.points).unwrap();
                self.journal = files();
                self.begins_after = None;
                std::fs::remove_dir_all(self.dir.join("store")).unwrap();
                self.open(&points)
            }
            opened => opened,
        };
        let (store, journal, last) = opened.unwrap();
        let store = Arc::new(store);
        let mark = Mark::of(&store).unwrap().unwrap_or_default();
        let last = last.or_else(|| mark.last.max(points.purged));
        let applied = next(mark.last);
        let healing = points.healing.is_some();
        let reader = journal.reader();
        let (log, desk) = Desk::open(journal, self.points.clone(), points, last, applied);
        let standing = Arc::new(Standing::default());
        let lease = Arc::new(Lease::new(self.id));
        let door = Door::default();
        let queue = Queue::new({
            let door = door.clone();
            move || door.ring()
        });
        let shown = Arc::new(Mutex::new(Shown::default()));
        let machine = Machine::new(log.clone(), Arc::clone(&queue), Arc::clone(&store));
        let dialler = Dialler { node: self.id, net: self.net.clone(), log: log.clone(), lease: Arc::clone(&lease) };
        self.net.ledger.note(self.id, format!("starts with its log through {last:?}{}", if healing { ", healing" } else { "" }));
        let up = Up {
            desk: Arc::new(Mutex::new(desk)),
            busy: Arc::default(),
            standing: Arc::clone(&standing),
            shown: Arc::clone(&shown),
            healing,
        };
        let (id, net, incoming) = (self.id, self.net.clone(), self.dir.join("incoming"));
        spawn_on(id, async move {
            let settings = Arc::new(config("simulated"));
            let raft = match openraft::Raft::new(id, settings, dialler, log.clone(), machine).await {
                Ok(raft) => raft,
                Err(error) => {
                    net.ledger.note(id, format!("does not start: {error}"));
                    return standing.failed.store(true, std::sync::atomic::Ordering::Release);
                }
            };
            let end = End {
                raft: raft.clone(),
                log: log.clone(),
                lease: Arc::clone(&lease),
                standing: Arc::clone(&standing),
                queue: Arc::clone(&queue),
                incoming,
                door: door.clone(),
            };
            net.plug(id, end);
            spawn_on(id, observe(net.clone(), raft.clone()));
            let watch = Watch {
                log: log.clone(),
                lease: Arc::clone(&lease),
                standing: Arc::clone(&standing),
                queue: Arc::clone(&queue),
                segments_kept: 1,
            };
            spawn_on(id, {
                let raft = raft.clone();
                async move { watch.follow(&raft).await }
            });
            spawn_on(id, {
                let (net, raft, log, standing) = (net.clone(), raft.clone(), log.clone(), Arc::clone(&standing));
                async move { campaign::watch(&raft, &log, &standing, |to, _, last| net.clone().pre_vote(id, to, last)).await }
            });
            spawn_on(id, {
                let (mut synced, standing, queue) = (log.synced(), Arc::clone(&standing), Arc::clone(&queue));
                async move {
                    if synced.wait_for(|synced| *synced == Synced::Failed).await.is_ok() {
                        standing.failed.store(true, std::sync::atomic::Ordering::Release);
                        queue.nudge();
                    }
                }
            });
            let link = Link { raft, log, queue, lease, standing, mark, answers: Vec::new(), stop: None, thread: None };
            Shard::new(id, net, link, store, reader, door, shown).run().await;
        });
        self.up = Some(up);
    }

    /// Ends it where it stands. With `power`, what was not synced may be lost.
    pub(super) fn crash(&mut self, power: bool) {
        self.net.unplug(self.id);
        super::runtime::kill(self.id);
        super::runtime::pause(self.id, false);
        self.up = None;
        for files in [&self.journal, &self.points] {
            if power { files.power_loss() } else { files.kill() }
        }
    }

    /// Its disk is replaced by an empty one, as if a volume were not mounted.
    pub(super) fn lose_disk(&mut self) {
        (self.points, self.journal, self.begins_after) = (files(), files(), None);
        for part in ["store", "incoming"] {
            let path = self.dir.join(part);
            if path.exists() {
                std::fs::remove_dir_all(path).unwrap();
            }
        }
    }

    /// Flips bits of what is on the disk; says whether there is something to flip.
    pub(super) fn damage(&mut self) -> bool {
        let names: Vec<String> = self.journal.list().unwrap();
        let Some(name) = names.iter().max_by_key(|name| self.journal.contents(name).iter().filter(|byte| **byte != 0).count()) else {
            return false;
        };
        let end = self.journal.contents(name).iter().rposition(|byte| *byte != 0).unwrap_or(0);
        // Not in the last batch, which would be taken for a torn tail.
        if end < 2_000 {
            return false;
        }
        let at = dice(|rng| 200 + rng.below(end / 2));
        self.journal.damage(name, |bytes| bytes[at] ^= 0x5a);
        true
    }

    /// Has the disk work, when there is something for it.
    pub(super) fn serve_disk(&self) {
        let Some(up) = &self.up else { return };
        let mut busy = up.busy.lock().unwrap();
        if self.hangs || *busy || !up.desk.lock().unwrap().has_work() {
            return;
        }
        *busy = true;
        let (desk, busy) = (Arc::clone(&up.desk), Arc::clone(&up.busy));
        let stalls = dice(|rng| rng.percent(2));
        let takes = match self.slow {
            true => up_to(50, 700),
            false => up_to(0, if stalls { 150 } else { 3 }),
        };
        spawn_on(self.id, async move {
            sleep(takes).await;
            desk.lock().unwrap().work();
            *busy.lock().unwrap() = false;
        });
    }

    /// What the world may see of it.
    pub(super) fn shown(&self) -> Shown {
        self.up.as_ref().map(|up| up.shown.lock().unwrap().clone()).unwrap_or_default()
    }

    /// Whether its process ends by itself: its files failed, or are to be replaced by a snapshot.
    pub(super) fn is_over(&self) -> Option<&'static str> {
        use std::sync::atomic::Ordering::Acquire;
        let up = self.up.as_ref()?;
        if self.journal.is_down() || self.points.is_down() {
            return Some("crashes in the middle of a write");
        }
        if up.standing.failed.load(Acquire) {
            return Some("stops because its disk has failed");
        }
        up.standing.replaced.load(Acquire).then_some("starts anew from a snapshot")
    }

    pub(super) fn is_healing(&mut self) -> bool {
        let Some(up) = &mut self.up else { return false };
        if up.healing
            && let Some(end) = self.net.end(self.id)
            && !end.log.is_healing()
        {
            up.healing = false;
            self.net.ledger.note(self.id, "has healed");
            self.net.ledger.count(|covered| &mut covered.healed);
        }
        up.healing
    }
}

/// Counts purges.
async fn observe(net: Net, raft: openraft::Raft<Raft>) {
    let mut metrics = raft.metrics();
    let mut purged = None;
    loop {
        {
            let now = metrics.borrow_and_update();
            if now.purged > purged {
                purged = now.purged;
                net.ledger.count(|covered| &mut covered.purges);
            }
        }
        if metrics.changed().await.is_err() {
            return;
        }
    }
}
