//! What became of every acknowledged message. A message may leave only because somebody settled it or somebody let it go.

use std::collections::{BTreeMap, BTreeSet};

/// Messages by what their publishers sent.
#[derive(Default)]
pub(crate) struct Ledger {
    fates: BTreeMap<u64, Fate>,
}

#[derive(Default)]
struct Fate {
    acked: bool,
    /// Purged, dropped, expired, passed over by a seek, gone with its queue: the rules say that it may be gone.
    let_go: bool,
}

impl Ledger {
    pub(crate) fn accepted(&mut self, message: u64) {
        assert!(self.fates.insert(message, Fate::default()).is_none(), "message {message} is accepted twice");
    }

    pub(crate) fn acked(&mut self, message: u64) {
        self.fates.entry(message).or_default().acked = true;
    }

    pub(crate) fn let_go(&mut self, message: u64) {
        self.fates.entry(message).or_default().let_go = true;
    }

    /// Every message is somewhere, or was acknowledged, or was let go.
    pub(crate) fn check(&self, stored: &BTreeSet<u64>) {
        for (message, fate) in &self.fates {
            assert!(
                fate.acked || fate.let_go || stored.contains(message),
                "message {message} was acknowledged to its publisher and is lost"
            );
        }
    }
}
