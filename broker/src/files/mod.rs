//! The seam between the journal and the disk: every file operation that durability rests on.
//!
//! Owns the two traits and the real implementation ([`DiskFiles`]). It knows names inside one directory
//! and nothing of what the files hold. The crash simulation (`broker/tests/journal/`) implements the same
//! traits over memory and forgets, tears or flips what was not synced.

mod disk;

use std::io;

pub use disk::{DiskFile, DiskFiles};

/// One directory of files. Clones name the same directory.
pub trait Files: Clone + Send + Sync + 'static {
    /// An open file of this directory.
    type File: File;

    /// The names in the directory, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates an empty file that must not exist yet. Its name is durable only after [`Files::sync_dir`].
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Gives a file another name, replacing what had it. Durable only after [`Files::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name. Open handles stay usable. Durable only after [`Files::sync_dir`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all creations, renames and removals so far durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// How an error message names this file, its directory included.
    fn display(&self, name: &str) -> String;
}

/// An open file. All methods take `&self`: a reader and the writer share one handle.
pub trait File: Send + Sync + 'static {
    /// Reads at `offset` into the whole of `buffer`; returns fewer bytes only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`, growing the file if needed. Durable only after [`File::sync_data`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything written so far durable, the file's length included. After a failure nothing is known
    /// about what was written: the caller must stop.
    fn sync_data(&self) -> io::Result<()>;

    /// Asks the system to forget its cached copy of what is synced, so that the next read shows what the
    /// disk holds. After a failed sync the cache may show bytes that never arrived there.
    fn forget_cache(&self) -> io::Result<()>;

    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}
