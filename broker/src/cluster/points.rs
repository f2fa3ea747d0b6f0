//! What a node must never forget besides its log: who it is, whom it voted for, what is gone from its log. One small file, replaced as a
//! whole, so that after a crash it is the old one or the new one.

use std::io;

use serde::{Deserialize, Serialize};

use crate::files::{File, Files};

use super::raft::{LogId, Vote};
use super::record::journal_index;

/// The file's name, in the cluster's directory.
pub(crate) const NAME: &str = "cluster.json";

/// The file's format.
const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Points {
    pub(crate) version: u32,
    pub(crate) node_id: u64,
    /// None: no cluster has taken this node up.
    pub(crate) cluster_id: Option<String>,
    pub(crate) vote: Option<Vote>,
    /// The last entry that is gone from the log.
    pub(crate) purged: Option<LogId>,
    /// Nodes that the bootstrap still has to take up: `id=host:port`.
    pub(crate) invited: Vec<(u64, String)>,
    /// The node has no files yet, or has lost them, and does not vote before it has this entry, or, while none is known, at all.
    pub(crate) healing: Option<Healing>,
}

/// How far a node that lost its files must come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Healing {
    /// The leader's last index when it was first heard of.
    pub(crate) until: Option<u64>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PointsError {
    /// The system refuses.
    #[error("{file}: {action} failed")]
    Io { file: String, action: &'static str, source: io::Error },
    /// It is damaged.
    #[error(
        "{file} is damaged, and without it this node could vote twice; it cannot come back under its number. Remove it from the cluster \
         (`qwer-q cluster remove`), empty its data directory, and start it with a new --cluster-node-id to add it again"
    )]
    Damaged { file: String },
    /// A newer version wrote it.
    #[error("{file} was written by a newer version (format {found}, this one knows {VERSION}); start that version")]
    Newer { file: String, found: u32 },
}

impl Points {
    /// Of a node with an empty directory. It may be one that voted before and has lost its disk, so it must catch up before it votes.
    pub(crate) fn new(node_id: u64) -> Points {
        let healing = Some(Healing { until: None });
        Points { version: VERSION, node_id, cluster_id: None, vote: None, purged: None, invited: Vec::new(), healing }
    }

    /// The node has lost its log: it does not vote before it has caught up, see `healing.rs`.
    pub(crate) fn lose_log(&mut self) {
        self.healing = Some(Healing { until: None });
        self.purged = None;
    }

    /// A leader that comes back does not go on in its term, which openraft would have it do: it may have lost entries that others have
    /// already (see `log.rs`), and would give their indexes to other entries of the same term. It stands for election again.
    pub(crate) fn resign(&mut self) {
        if let Some(vote) = self.vote.as_mut().filter(|vote| vote.leader_id.voted_for == Some(self.node_id)) {
            vote.committed = false;
        }
    }

    /// The journal's index of the oldest entry that is kept.
    pub(crate) fn kept_from(&self) -> Option<u64> {
        self.purged.map(|purged| journal_index(purged.index) + 1)
    }

    /// Reads the file; `None` when there is none.
    pub(crate) fn load<F: Files>(files: &F) -> Result<Option<Points>, PointsError> {
        let io = |action| move |source| PointsError::Io { file: files.display(NAME), action, source };
        if !files.list().map_err(io("listing the directory"))?.iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let file = files.open(NAME).map_err(io("opening it"))?;
        let length = file.len().map_err(io("reading it"))?;
        let damaged = || PointsError::Damaged { file: files.display(NAME) };
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| damaged())?];
        file.read_at(0, &mut bytes).map_err(io("reading it"))?;
        let (crc, json) = bytes.split_first_chunk::<9>().ok_or_else(damaged)?;
        if *crc != checksum(json) {
            return Err(damaged());
        }
        let found: Version = serde_json::from_slice(json).map_err(|_| damaged())?;
        if found.version > VERSION {
            return Err(PointsError::Newer { file: files.display(NAME), found: found.version });
        }
        serde_json::from_slice(json).map(Some).map_err(|_| damaged())
    }

    /// Replaces the file; durable on return.
    pub(crate) fn save<F: Files>(&self, files: &F) -> Result<(), PointsError> {
        let io = |action| move |source| PointsError::Io { file: files.display(NAME), action, source };
        let json = serde_json::to_vec(self).expect("numbers and text");
        let new = format!("{NAME}.new");
        if files.list().map_err(io("listing the directory"))?.contains(&new) {
            files.remove(&new).map_err(io("removing an unfinished one"))?;
        }
        let file = files.create(&new).map_err(io("creating its successor"))?;
        file.write_at(0, &[&checksum(&json)[..], &json].concat()).map_err(io("writing its successor"))?;
        file.sync_data().map_err(io("syncing its successor"))?;
        files.rename(&new, NAME).map_err(io("replacing it"))?;
        files.sync_dir().map_err(io("syncing the directory"))
    }
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Eight hexadecimal digits and a line end, so that the file stays readable.
fn checksum(json: &[u8]) -> [u8; 9] {
    let text = format!("{:08x}\n", crc32c::crc32c(json));
    text.as_bytes().try_into().expect("nine bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::DiskFiles;

    #[test]
    fn points_come_back_and_a_damaged_file_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let files = DiskFiles::open(home.path()).unwrap();
        assert_eq!(Points::load(&files).unwrap(), None);
        let mut points = Points::new(3);
        points.save(&files).unwrap();
        points.vote = Some(Vote::new_committed(7, 3));
        points.healing = Some(Healing { until: None });
        points.save(&files).unwrap();
        assert_eq!(Points::load(&files).unwrap(), Some(points));

        let path = home.path().join(NAME);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            assert!(matches!(Points::load(&files), Err(PointsError::Damaged { .. })), "byte {at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(matches!(Points::load(&files), Err(PointsError::Damaged { .. })), "{at} bytes");
        }
    }
}
