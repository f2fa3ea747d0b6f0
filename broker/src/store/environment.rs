//! The LMDB environment: its tables, their formats, and the rows of `meta`.
//!
//! Every stored row is documented here. Nothing outside this folder names heed.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | `format` | u32 |
//! | | `store-id` | 16 random bytes, made at creation |
//! | | `applied` | term u64, index u64, journal checksum u32 |
//! | `rows` | the core's | the core's, followed by its checksum |
//! | `messages` | [`MessageKey`] of the first | a block, see `block.rs` |
//! | `removed` | key of a block | bitmap of its removed messages, followed by a checksum |
//! | `unfinished` | [`MessageKey`] of the first | last number u64: written by a checkpoint that has not ended |
//!
//! Numbers in values are little-endian. Values of `meta` end with a checksum as rows do:
//! CRC-32C over key and value.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, MdbError, RoTxn, RwTxn, WithoutTls};

use super::dir_lock::{DirLock, denied};
use super::{Applied, StoreError};

/// The newest format that this program reads and the one that it writes.
pub(super) const FORMAT: u32 = 1;

pub(super) type Table = Database<'static, Bytes, Bytes>;

const META: &str = "meta";
const FORMAT_KEY: &[u8] = b"format";
const STORE_ID_KEY: &[u8] = b"store-id";
const APPLIED_KEY: &[u8] = b"applied";

/// Read transactions that may be open at once; each takes 64 bytes of the lock file.
const READERS_MAX: u32 = 1024;

#[derive(Debug)]
pub(super) struct Environment {
    pub(super) env: Env<WithoutTls>,
    pub(super) rows: Table,
    pub(super) messages: Table,
    pub(super) removed: Table,
    pub(super) unfinished: Table,
    meta: Table,
    store_id: [u8; 16],
    dir: PathBuf,
    // Released last: the environment is closed by then.
    _lock: DirLock,
}

impl Environment {
    pub(super) fn open(dir: &Path, map_bytes: usize) -> Result<Self, StoreError> {
        let lock = DirLock::take(dir)?;
        let fail = |error| lmdb_error(dir, error);
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(map_bytes).max_dbs(8).max_readers(READERS_MAX);
        #[expect(unsafe_code, reason = "the map is sound while nobody else changes the file; the lock sees to that")]
        let env = unsafe { options.open(dir) }.map_err(fail)?;
        refuse_newer(dir, &env)?;

        let txn = env.write_txn().map_err(fail)?;
        let tables = env.create_databases_and_commit(txn, |opener, txn| {
            let mut table = |name| opener.create_database::<Bytes, Bytes>(txn, Some(name));
            let tables = [table(META)?, table("rows")?, table("messages")?, table("removed")?, table("unfinished")?];
            let [meta, ..] = tables;
            if meta.get(txn, FORMAT_KEY)?.is_none() {
                sync_dirs(dir)?;
                let id: [u8; 16] = rand::random();
                put_sealed(meta, txn, FORMAT_KEY, &FORMAT.to_le_bytes())?;
                put_sealed(meta, txn, STORE_ID_KEY, &id)?;
                put_sealed(meta, txn, APPLIED_KEY, &applied_bytes(Applied::default()))?;
            }
            Ok(CommitOrAbort::<_, ()>::Commit(tables))
        });
        let [meta, rows, messages, removed, unfinished] = tables.map_err(fail)?.unwrap_commit();
        let mut environment = Self { env, rows, messages, removed, unfinished, meta, store_id: [0; 16], dir: dir.to_owned(), _lock: lock };
        let txn = environment.read()?;
        let store_id = environment.meta(&txn, STORE_ID_KEY)?;
        drop(txn);
        environment.store_id = store_id;
        Ok(environment)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn store_id(&self) -> [u8; 16] {
        self.store_id
    }

    pub(super) fn applied(&self, txn: &RoTxn<'_>) -> Result<Applied, StoreError> {
        self.meta(txn, APPLIED_KEY).map(applied_from)
    }

    pub(super) fn put_applied(&self, txn: &mut RwTxn<'_>, applied: Applied) -> Result<(), StoreError> {
        put_sealed(self.meta, txn, APPLIED_KEY, &applied_bytes(applied)).map_err(|e| self.fail(e))
    }

    /// Pretends that another program wrote the store.
    #[cfg(test)]
    pub(super) fn put_format(&self, txn: &mut RwTxn<'_>, format: u32) -> Result<(), StoreError> {
        put_sealed(self.meta, txn, FORMAT_KEY, &format.to_le_bytes()).map_err(|e| self.fail(e))
    }

    /// All tables.
    pub(super) fn tables(&self) -> [Table; 5] {
        [self.meta, self.rows, self.messages, self.removed, self.unfinished]
    }

    pub(super) fn read(&self) -> Result<RoTxn<'_, WithoutTls>, StoreError> {
        self.env.read_txn().map_err(|error| self.fail(error))
    }

    pub(super) fn write(&self) -> Result<RwTxn<'_>, StoreError> {
        self.env.write_txn().map_err(|error| self.fail(error))
    }

    /// Names the store in an LMDB error.
    pub(super) fn fail(&self, error: heed::Error) -> StoreError {
        lmdb_error(&self.dir, error)
    }

    fn meta<const N: usize>(&self, txn: &RoTxn<'_>, key: &'static [u8]) -> Result<[u8; N], StoreError> {
        read_meta(&self.dir, self.meta, txn, key)
    }
}

/// Makes the entries of new files and directories durable: LMDB syncs contents only. A journal whose store has vanished could not be told from
/// somebody else's.
fn sync_dirs(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()?;
    for above in dir.canonicalize()?.ancestors().skip(1).take(2) {
        // A directory above that may not be read was not made here.
        if let Ok(above) = File::open(above) {
            above.sync_all()?;
        }
    }
    Ok(())
}

/// Refuses a store that a newer program wrote, before anything of it is touched.
fn refuse_newer(dir: &Path, env: &Env<WithoutTls>) -> Result<(), StoreError> {
    let fail = |error| lmdb_error(dir, error);
    let txn = env.read_txn().map_err(fail)?;
    let meta: Option<Table> = env
        .open_databases_and_commit(txn, |opener, txn| opener.open_database(txn, Some(META)).map(CommitOrAbort::<_, ()>::Commit))
        .map_err(fail)?
        .unwrap_commit();
    let Some(meta) = meta else {
        return Ok(());
    };
    let txn = env.read_txn().map_err(fail)?;
    let found = u32::from_le_bytes(read_meta(dir, meta, &txn, FORMAT_KEY)?);
    if found > FORMAT {
        return Err(StoreError::NewerFormat { path: dir.to_owned(), found, supported: FORMAT });
    }
    Ok(())
}

fn read_meta<const N: usize>(dir: &Path, meta: Table, txn: &RoTxn<'_>, key: &'static [u8]) -> Result<[u8; N], StoreError> {
    let sealed = meta.get(txn, key).map_err(|error| lmdb_error(dir, error))?;
    sealed
        .and_then(|sealed| unseal(key, sealed))
        .and_then(|value| value.try_into().ok())
        .ok_or_else(|| StoreError::CorruptRow { table: META, key: key.to_owned() })
}

const APPLIED_BYTES: usize = 20;

fn applied_bytes(applied: Applied) -> [u8; APPLIED_BYTES] {
    let mut bytes = [0; APPLIED_BYTES];
    bytes[..8].copy_from_slice(&applied.term.to_le_bytes());
    bytes[8..16].copy_from_slice(&applied.index.to_le_bytes());
    bytes[16..].copy_from_slice(&applied.crc.to_le_bytes());
    bytes
}

fn applied_from(bytes: [u8; APPLIED_BYTES]) -> Applied {
    let (term, rest) = bytes.split_first_chunk().expect("20 bytes hold 8");
    let (index, crc) = rest.split_first_chunk().expect("12 bytes hold 8");
    Applied {
        term: u64::from_le_bytes(*term),
        index: u64::from_le_bytes(*index),
        crc: u32::from_le_bytes(crc.try_into().expect("4 bytes are left")),
    }
}

/// Writes a value followed by its checksum.
pub(super) fn put_sealed(table: Database<'_, Bytes, Bytes>, txn: &mut RwTxn<'_>, key: &[u8], value: &[u8]) -> heed::Result<()> {
    use io::Write as _;
    let crc = crc32c::crc32c_append(crc32c::crc32c(key), value);
    table.put_reserved(txn, key, value.len() + 4, |space| {
        space.write_all(value)?;
        space.write_all(&crc.to_le_bytes())
    })
}

/// The value without its checksum; `None` when that does not match.
pub(super) fn unseal<'a>(key: &[u8], sealed: &'a [u8]) -> Option<&'a [u8]> {
    let (value, crc) = sealed.split_last_chunk::<4>()?;
    let expected = crc32c::crc32c_append(crc32c::crc32c(key), value);
    (u32::from_le_bytes(*crc) == expected).then_some(value)
}

fn lmdb_error(dir: &Path, error: heed::Error) -> StoreError {
    let path = dir.to_owned();
    let full = |detail: &str| StoreError::Full { path: path.clone(), detail: detail.to_owned() };
    match error {
        heed::Error::Mdb(MdbError::MapFull) => full("the map is full"),
        heed::Error::Io(error) if is_no_space(dir, &error) => full("the disk is full"),
        heed::Error::Io(error) => denied(dir, "use the store in", error),
        error => StoreError::Lmdb { path, message: error.to_string() },
    }
}

fn is_no_space(dir: &Path, error: &io::Error) -> bool {
    const NEXT_TO_NOTHING: u64 = 1024 * 1024;
    // LMDB reports a write that the disk had no room for as an I/O error, when a part of it did fit.
    let cut_short = error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        || cut_short && rustix::fs::statvfs(dir).is_ok_and(|disk| disk.f_bavail * disk.f_frsize < NEXT_TO_NOTHING)
}
