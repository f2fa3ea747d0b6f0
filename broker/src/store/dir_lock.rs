//! [`DirLock`]: one process per data directory.
//!
//! The lock is the kernel's (`flock`), so it ends with its process however that dies. The
//! file's text only serves to name the holder to whoever is refused.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use super::StoreError;

/// Holds a data directory until dropped.
#[derive(Debug)]
pub(super) struct DirLock {
    _file: File,
}

impl DirLock {
    /// Creates the directory if there is none, and takes it.
    pub(super) fn take(dir: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(|source| denied(existing(dir), "create a directory in", source))?;
        let path = dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|source| denied(dir, "create a file in", source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { path: dir.to_owned(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(denied(&path, "lock", source)),
        }
        sign(&mut file).map_err(|source| denied(&path, "write to", source))?;
        Ok(Self { _file: file })
    }
}

/// Says who may not write where, when that is what went wrong.
pub(super) fn denied(path: &Path, action: &'static str, source: io::Error) -> StoreError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::NotWritable { path, uid: rustix::process::geteuid().as_raw(), source }
        }
        _ => StoreError::Io { action, path, source },
    }
}

/// The nearest directory that exists: the one whose owner matters.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|path| path.is_dir()).unwrap_or(path)
}

fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{} {}", std::process::id(), host())
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Names the process whose number the file holds. A number from another host, such as another
/// container on the same volume, says nothing here, so the host is named instead.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.read_to_string(&mut text);
    let Some((pid, its_host)) = read.ok().and_then(|_| text.trim().split_once(' ')) else {
        return "another process".to_owned();
    };
    if its_host != host() {
        return format!("process {pid} on host {its_host}");
    }
    match fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim()),
        Err(_) => format!("process {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_by_name_until_the_first_ends() {
        let dir = tempfile::tempdir().unwrap();
        let first = DirLock::take(dir.path()).unwrap();
        let refusal = DirLock::take(dir.path()).unwrap_err().to_string();
        let pid = format!("process {} (", std::process::id());
        assert!(refusal.contains(&pid), "{refusal}");
        assert!(refusal.contains(&dir.path().display().to_string()), "{refusal}");
        drop(first);
        DirLock::take(dir.path()).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named_with_the_uid() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("not/there");
        assert_eq!(existing(&missing), dir.path());
        for (kind, names_uid) in
            [(io::ErrorKind::PermissionDenied, true), (io::ErrorKind::ReadOnlyFilesystem, true), (io::ErrorKind::NotFound, false)]
        {
            let refusal = denied(dir.path(), "lock", kind.into()).to_string();
            let start = format!("uid {} cannot write to {}", rustix::process::geteuid().as_raw(), dir.path().display());
            assert_eq!(refusal.starts_with(&start), names_uid, "{refusal}");
        }
    }
}
