//! [`Room`]: how much the store can still take, and the reserve that publishes may not touch.
//!
//! On a full map LMDB cannot even delete, so the shard refuses publishes while the reserve is
//! untouched: it belongs to acks, dead letters and deletes.

use super::StoreError;
use super::environment::{Environment, Table};

/// Two generations of 64 MiB: what may be on its way when publishes are first refused.
const TWO_GENERATIONS: u64 = 128 * 1024 * 1024;

/// Space of the map and of the disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// In use in the map; pages that were freed do not count.
    pub map_used: u64,
    /// What the map can grow to.
    pub map_bytes: u64,
    /// What this user may still write on the disk, free pages of the store's file included.
    pub disk_free: u64,
    /// Size of the disk.
    pub disk_bytes: u64,
}

impl Room {
    pub(super) fn measure(environment: &Environment) -> Result<Self, StoreError> {
        let info = environment.env.info();
        let main = environment.env.unnamed_database_stat();
        let page_bytes = u64::from(main.page_size);
        let txn = environment.read()?;
        let pages = |table: Table| -> Result<usize, StoreError> {
            let stat = table.stat(&txn).map_err(|error| environment.fail(error))?;
            Ok(stat.branch_pages + stat.leaf_pages + stat.overflow_pages)
        };
        // Two meta pages, and the table of tables.
        let mut used = 2 + main.branch_pages + main.leaf_pages + main.overflow_pages;
        for table in environment.tables() {
            used += pages(table)?;
        }
        let bytes = |pages: usize| u64::try_from(pages).expect("a page count fits") * page_bytes;
        let map_used = bytes(used);
        let file_bytes = bytes(info.last_page_number + 1);
        let disk = rustix::fs::statvfs(environment.dir()).map_err(|error| StoreError::Io {
            action: "ask for the free space of",
            path: environment.dir().to_owned(),
            source: error.into(),
        })?;
        Ok(Self {
            map_used,
            map_bytes: u64::try_from(info.map_size).expect("a map's size fits"),
            disk_free: disk.f_bavail * disk.f_frsize + file_bytes.saturating_sub(map_used),
            disk_bytes: disk.f_blocks * disk.f_frsize,
        })
    }

    /// Whether publishes must be refused.
    #[must_use]
    pub fn is_low(&self) -> bool {
        let map_free = self.map_bytes.saturating_sub(self.map_used);
        map_free < reserve(self.map_bytes) || self.disk_free < reserve(self.disk_bytes)
    }
}

/// 5% of the whole, at least two generations, but never more than a quarter: a small disk still
/// takes messages.
fn reserve(whole: u64) -> u64 {
    (whole / 20).max(TWO_GENERATIONS.min(whole / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_five_percent_at_least_two_generations_at_most_a_quarter() {
        const MIB: u64 = 1024 * 1024;
        for (whole, expected) in [(64 * MIB, 16 * MIB), (512 * MIB, 128 * MIB), (1024 * MIB, 128 * MIB), (20 * 1024 * MIB, 1024 * MIB)] {
            assert_eq!(reserve(whole), expected, "of {whole}");
        }
    }

    #[test]
    fn either_limit_makes_room_low() {
        const GIB: u64 = 1024 * 1024 * 1024;
        let ample = Room { map_used: GIB, map_bytes: 100 * GIB, disk_free: 50 * GIB, disk_bytes: 100 * GIB };
        assert!(!ample.is_low());
        assert!(Room { map_used: 96 * GIB, ..ample }.is_low());
        assert!(Room { disk_free: 4 * GIB, ..ample }.is_low());
    }
}
