//! Small files that are replaced as a whole: after a crash a name has the old bytes or the new ones.

use std::io;

use qwerq_broker::files::{DiskFiles, File, Files};

/// The file's bytes; `None` when there is no such file.
pub(crate) fn read(files: &DiskFiles, name: &str) -> io::Result<Option<Vec<u8>>> {
    if !files.list()?.iter().any(|listed| listed == name) {
        return Ok(None);
    }
    let file = files.open(name)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap()];
    file.read_at(0, &mut bytes)?;
    Ok(Some(bytes))
}

/// Durable on return.
pub(crate) fn replace(files: &DiskFiles, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = format!("{name}.new");
    if files.list()?.contains(&new) {
        files.remove(&new)?;
    }
    let file = files.create(&new)?;
    file.write_at(0, bytes)?;
    file.sync_data()?;
    files.rename(&new, name)?;
    files.sync_dir()
}
