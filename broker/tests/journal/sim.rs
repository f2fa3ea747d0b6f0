//! A disk in memory that keeps, at a power loss, what was synced, and does what it likes with the rest: it drops,
//! tears (at sectors or bytes), reorders and flips it. Deterministic for a seed.
//!
//! Every changing operation is a step; the crash can be armed at any of them, and may then have happened in part.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use qwerq_broker::files::{File, Files};

use super::rng::Rng;

const SECTOR: u64 = 512;

/// A directory on the simulated disk.
#[derive(Clone)]
pub(crate) struct SimFiles {
    disk: Arc<Mutex<Disk>>,
}

/// An open file on the simulated disk; useless after a crash, like the process that opened it.
pub(crate) struct SimFile {
    disk: Arc<Mutex<Disk>>,
    inode: usize,
    life: u64,
}

struct Disk {
    rng: Rng,
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    /// Changes of names since the last directory sync.
    name_changes: Vec<(String, Option<usize>)>,
    armed: Option<Armed>,
    is_down: bool,
    sync_failed: bool,
    life: u64,
    steps: u64,
}

struct Armed {
    step: u64,
    how: Failure,
}

/// What happens at the armed step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The process ends there.
    Crash,
    /// The first sync from there on fails; what it should have synced may never reach the disk, though reads show it.
    Sync,
}

#[derive(Default)]
struct Inode {
    /// What reads show.
    cached: Vec<u8>,
    /// What a power loss leaves for certain.
    synced: Vec<u8>,
    /// Written since, in order.
    writes: Vec<(u64, Vec<u8>)>,
}

impl SimFiles {
    pub(crate) fn new(seed: u64) -> SimFiles {
        SimFiles {
            disk: Arc::new(Mutex::new(Disk {
                rng: Rng::new(seed),
                inodes: Vec::new(),
                names: BTreeMap::new(),
                synced_names: BTreeMap::new(),
                name_changes: Vec::new(),
                armed: None,
                is_down: false,
                sync_failed: false,
                life: 0,
                steps: 0,
            })),
        }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }

    /// Arms a failure `after` further steps.
    pub(crate) fn arm(&self, after: u64, how: Failure) {
        let mut disk = self.disk();
        let step = disk.steps.saturating_add(after);
        disk.armed = Some(Armed { step, how });
    }

    /// Steps taken so far.
    pub(crate) fn steps(&self) -> u64 {
        self.disk().steps
    }

    /// Whether the armed crash has come.
    pub(crate) fn is_down(&self) -> bool {
        self.disk().is_down
    }

    /// Whether the armed sync failure has come.
    pub(crate) fn sync_failed(&self) -> bool {
        self.disk().sync_failed
    }

    /// The caller has dealt with the failed sync.
    pub(crate) fn forgive_sync(&self) {
        self.disk().sync_failed = false;
    }

    /// The power fails: whatever was not synced may be lost. Then the machine is up again.
    pub(crate) fn power_loss(&self) {
        let mut disk = self.disk();
        disk.lose_power();
        disk.restart();
    }

    /// The process is killed: the system still has all that was written. Then it may start again.
    pub(crate) fn kill(&self) {
        self.disk().restart();
    }

    /// Changes what is on the disk, synced, behind the journal's back.
    pub(crate) fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut disk = self.disk();
        let inode = disk.names[name];
        let inode = &mut disk.inodes[inode];
        inode.write_back();
        change(&mut inode.synced);
        inode.cached.clone_from(&inode.synced);
    }

    /// The bytes of a file as reads show them.
    pub(crate) fn contents(&self, name: &str) -> Vec<u8> {
        let disk = self.disk();
        disk.inodes[disk.names[name]].cached.clone()
    }
}

impl Disk {
    /// Takes a step; `true` when it must not be completed because the process ends here.
    fn step(&mut self) -> io::Result<bool> {
        if self.is_down {
            return Err(down());
        }
        self.steps += 1;
        if let Some(armed) = &self.armed
            && armed.how == Failure::Crash
            && self.steps >= armed.step
        {
            self.armed = None;
            self.is_down = true;
            return Ok(true);
        }
        Ok(false)
    }

    fn change_name(&mut self, name: &str, inode: Option<usize>) {
        match inode {
            Some(inode) => self.names.insert(name.to_owned(), inode),
            None => self.names.remove(name),
        };
        self.name_changes.push((name.to_owned(), inode));
    }

    fn lose_power(&mut self) {
        // The directory is a file system's own journal: its changes reach the disk in order, up to some point.
        let changes = std::mem::take(&mut self.name_changes);
        let kept = self.rng.below(changes.len() + 1);
        for (name, inode) in changes.into_iter().take(kept) {
            match inode {
                Some(inode) => self.synced_names.insert(name, inode),
                None => self.synced_names.remove(&name),
            };
        }
        self.names.clone_from(&self.synced_names);
        let rng = &mut self.rng;
        for inode in &mut self.inodes {
            inode.lose_power(rng);
        }
    }

    fn restart(&mut self) {
        self.life += 1;
        self.is_down = false;
        self.sync_failed = false;
        self.armed = None;
    }
}

impl Inode {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        overwrite(&mut self.cached, offset, bytes);
        self.writes.push((offset, bytes.to_vec()));
    }

    fn write_back(&mut self) {
        for (offset, bytes) in self.writes.drain(..) {
            overwrite(&mut self.synced, offset, &bytes);
        }
    }

    fn lose_power(&mut self, rng: &mut Rng) {
        let mut pieces = Vec::new();
        let chance = rng.pick(&[0, 30, 60, 90, 100]);
        let tears_bytes = rng.percent(30);
        for (offset, bytes) in self.writes.drain(..) {
            for (offset, bytes) in sectors(offset, &bytes) {
                if !rng.percent(chance) {
                    continue;
                }
                let (mut from, mut to) = (0, bytes.len());
                if tears_bytes && rng.percent(30) {
                    from = rng.below(to);
                    to = from + rng.below(to - from + 1);
                }
                let mut bytes = bytes[from..to].to_vec();
                if !bytes.is_empty() && rng.percent(3) {
                    let at = rng.below(bytes.len());
                    bytes[at] ^= 1 << rng.below(8);
                }
                let from = u64::try_from(from).unwrap();
                pieces.push((offset + from, bytes));
            }
        }
        if rng.percent(50) {
            rng.shuffle(&mut pieces);
        }
        for (offset, bytes) in pieces {
            overwrite(&mut self.synced, offset, &bytes);
        }
        self.cached.clone_from(&self.synced);
    }
}

fn overwrite(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let offset = usize::try_from(offset).unwrap();
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

/// Splits a write where sectors of the disk begin.
fn sectors(mut offset: u64, mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let room = usize::try_from(SECTOR - offset % SECTOR).unwrap();
        let (piece, rest) = bytes.split_at(room.min(bytes.len()));
        pieces.push((offset, piece));
        offset += u64::try_from(piece.len()).unwrap();
        bytes = rest;
    }
    pieces
}

fn down() -> io::Error {
    io::Error::other("the simulated machine is down")
}

impl Files for SimFiles {
    type File = SimFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let disk = self.disk();
        if disk.is_down {
            return Err(down());
        }
        Ok(disk.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<SimFile> {
        let mut disk = self.disk();
        let ends = disk.step()?;
        if disk.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = disk.inodes.len();
        disk.inodes.push(Inode::default());
        disk.change_name(name, Some(inode));
        if ends {
            return Err(down());
        }
        drop(disk);
        self.open(name)
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let disk = self.disk();
        if disk.is_down {
            return Err(down());
        }
        let inode = *disk.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(SimFile { disk: Arc::clone(&self.disk), inode, life: disk.life })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        let ends = disk.step()?;
        let inode = *disk.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        disk.change_name(to, Some(inode));
        disk.change_name(from, None);
        if ends { Err(down()) } else { Ok(()) }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        let ends = disk.step()?;
        if !disk.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        disk.change_name(name, None);
        if ends { Err(down()) } else { Ok(()) }
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.step()? {
            return Err(down());
        }
        disk.synced_names = disk.names.clone();
        disk.name_changes.clear();
        Ok(())
    }

    fn display(&self, name: &str) -> String {
        format!("journal/{name}")
    }
}

impl SimFile {
    fn disk(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let disk = self.disk.lock().unwrap();
        if disk.is_down || disk.life != self.life {
            return Err(down());
        }
        Ok(disk)
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let disk = self.disk()?;
        let cached = &disk.inodes[self.inode].cached;
        let start = usize::try_from(offset).unwrap().min(cached.len());
        let count = buffer.len().min(cached.len() - start);
        buffer[..count].copy_from_slice(&cached[start..start + count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk()?;
        if disk.step()? {
            // A call that the process did not see return has written some of it.
            let part = disk.rng.below(bytes.len() + 1);
            disk.inodes[self.inode].write(offset, &bytes[..part]);
            return Err(down());
        }
        disk.inodes[self.inode].write(offset, bytes);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk()?;
        let fails = disk
            .armed
            .as_ref()
            .is_some_and(|armed| armed.how == Failure::Sync && disk.steps >= armed.step && !disk.inodes[self.inode].writes.is_empty());
        if fails {
            disk.armed = None;
            disk.sync_failed = true;
            // The system gives up on these writes, and shows them as if they had arrived.
            let shown = disk.inodes[self.inode].cached.clone();
            let Disk { inodes, rng, .. } = &mut *disk;
            inodes[self.inode].lose_power(rng);
            inodes[self.inode].cached = shown;
            return Err(io::Error::other("simulated I/O error"));
        }
        if disk.step()? {
            return Err(down());
        }
        disk.inodes[self.inode].write_back();
        Ok(())
    }

    fn forget_cache(&self) -> io::Result<()> {
        let mut disk = self.disk()?;
        let inode = &mut disk.inodes[self.inode];
        inode.cached.clone_from(&inode.synced);
        for (offset, bytes) in &inode.writes {
            overwrite(&mut inode.cached, *offset, bytes);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let disk = self.disk()?;
        Ok(u64::try_from(disk.inodes[self.inode].cached.len()).unwrap())
    }
}
