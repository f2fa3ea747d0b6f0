//! How a journal is set up: the choices of whoever opens it. What they cost is in docs/operating.md.

use super::record::Applied;

/// Bytes of a segment unless stated otherwise: room for the largest batch (a 16 MiB frame), and small enough
/// that an empty data directory stays small.
pub const SEGMENT_BYTES_DEFAULT: u32 = 20 * 1024 * 1024;

/// When what was appended reaches the disk. In every mode it reaches the system before `append` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Before `append` returns.
    Fsync,
    /// When the caller runs a [`SyncJob`](super::SyncJob), at intervals.
    Interval,
    /// When the system pleases, and before a checkpoint.
    None,
}

/// Set-up of a journal.
#[derive(Clone, Debug)]
pub struct Options {
    /// Id of the store that this journal belongs to; the caller made it up once, at random, and keeps it.
    pub store_id: u128,
    /// Size of a segment in bytes, a multiple of eight.
    pub segment_bytes: u32,
    /// When appends are synced.
    pub durability: Durability,
    /// The oldest index that must stay readable after opening; `None`: what follows the store's checkpoint.
    pub keep_from: Option<u64>,
    /// What an empty directory begins after; `None`: an empty directory is a new journal's, or a lost one.
    pub begins_after: Option<Applied>,
    /// Written segments kept for reuse; further ones are removed.
    pub spares_max: usize,
}

impl Options {
    /// The defaults for a store with this id.
    pub fn new(store_id: u128) -> Options {
        Options {
            store_id,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            durability: Durability::Fsync,
            keep_from: None,
            begins_after: None,
            spares_max: 4,
        }
    }
}
