//! [`Files`] over a real directory: `pread`, `pwrite`, `fdatasync`.
//!
//! The directory is locked for as long as a clone lives, so that two brokers never write one journal.
//! The rules about what a failure means are the journal's, not this file's.

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};

use super::{File, Files};

/// A locked directory on a real disk.
#[derive(Clone, Debug)]
pub struct DiskFiles {
    directory: Arc<Directory>,
}

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// Synced for the names in it; holds the lock.
    handle: fs::File,
}

impl DiskFiles {
    /// Opens `path`, creating it and what is missing above it, and locks it against other processes.
    pub fn open(path: &Path) -> io::Result<DiskFiles> {
        create_durably(path)?;
        let handle = fs::File::open(path)?;
        match handle.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("{} is in use by another process", path.display())));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(DiskFiles { directory: Arc::new(Directory { path: path.to_owned(), handle }) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path.join(name)
    }
}

/// Creates a directory so that it survives a power loss: a new name is durable only once its parent is synced.
fn create_durably(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    create_durably(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::File::open(parent)?.sync_all()
}

impl Files for DiskFiles {
    type File = DiskFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory.path)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<DiskFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.path(name))?;
        Ok(DiskFile { file })
    }

    fn open(&self, name: &str) -> io::Result<DiskFile> {
        let file = OpenOptions::new().read(true).write(true).open(self.path(name))?;
        Ok(DiskFile { file })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.directory.handle.sync_all()
    }

    fn display(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// A file on a real disk.
#[derive(Debug)]
pub struct DiskFile {
    file: fs::File,
}

impl File for DiskFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            match self.file.read_at(&mut buffer[filled..], at) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn forget_cache(&self) -> io::Result<()> {
        fadvise(&self.file, 0, None, Advice::DontNeed)?;
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_use_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b/journal");
        let first = DiskFiles::open(&path).unwrap();
        let error = DiskFiles::open(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        drop(first);
        DiskFiles::open(&path).unwrap();
    }

    #[test]
    fn a_read_past_the_end_is_short() {
        let home = tempfile::tempdir().unwrap();
        let files = DiskFiles::open(home.path()).unwrap();
        let file = files.create("a").unwrap();
        file.write_at(4, b"abcd").unwrap();
        let mut buffer = [0xff; 8];
        assert_eq!(file.read_at(2, &mut buffer).unwrap(), 6);
        assert_eq!(&buffer, b"\0\0abcd\xff\xff");
        assert_eq!(file.len().unwrap(), 8);
    }
}
