//! [`Image`]: all rows and messages of a store, as they travel in a snapshot.
//!
//! It knows nothing of Raft; what a row means is the state machine's affair.

use std::collections::BTreeSet;
use std::io;

use qwerq_broker::store::{Applied, Checkpoint, Location, MessageKey, MessageRun, Payloads, RowChange, Snapshot, Store, StoreError};
use serde::{Deserialize, Serialize};

/// What a store holds, in key order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Image {
    pub(crate) rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// By [`MessageKey::to_bytes`].
    pub(crate) messages: Vec<([u8; MessageKey::BYTES], Vec<u8>)>,
}

/// Bytes that one look into the store gives.
const CHUNK_BYTES: usize = 64 * 1024;

impl Image {
    pub(crate) fn of(view: &Snapshot) -> Result<Image, StoreError> {
        let mut image = Image::default();
        let mut from = Some(Vec::new());
        while let Some(key) = from {
            from = view.rows(&key, CHUNK_BYTES, &mut |key, value| image.rows.push((key.to_vec(), value.to_vec())))?;
        }
        let mut from = Some(MessageKey { queue: 0, space: 0, number: 0 });
        while let Some(key) = from {
            let each = &mut |key: MessageKey, payload: &[u8]| image.messages.push((key.to_bytes(), payload.to_vec()));
            from = view.messages(key, CHUNK_BYTES, each)?;
        }
        Ok(image)
    }

    fn keys(&self) -> impl Iterator<Item = MessageKey> {
        self.messages.iter().map(|(key, _)| MessageKey::from_bytes(key).expect("thirteen bytes are a key"))
    }

    /// Replaces all that `store` holds. When it is cut short, the rows are the old ones or the new ones, but the
    /// messages may be missing: the caller must then do it again.
    pub(crate) fn install(&self, store: &Store, applied: Applied) -> Result<(), StoreError> {
        // A checkpoint drops queues after it has added messages, so the old ones go in one of their own. Here alone do
        // the ids of dropped queues come back: they are the same queues, as the leader has them.
        let old: BTreeSet<u32> = Image::of(&store.snapshot()?)?.keys().map(|key| key.queue).collect();
        if !old.is_empty() {
            let dropped_queues = old.into_iter().collect();
            store.checkpoint(Checkpoint { dropped_queues, applied: store.applied()?, ..Checkpoint::default() }, self)?;
        }

        let puts = self.rows.iter().cloned().map(|(key, value)| RowChange::Put { key, value });
        let rows = [RowChange::DeletePrefix { prefix: Vec::new() }].into_iter().chain(puts).collect();
        let messages = self.keys().zip(0..).map(|(first, segment)| {
            let len = u32::try_from(self.messages[segment as usize].1.len()).unwrap();
            MessageRun { first, locations: vec![Location { segment, offset: 0, len }] }
        });
        store.checkpoint(Checkpoint { rows, messages: messages.collect(), applied, ..Checkpoint::default() }, self)?;
        Ok(())
    }
}

/// Each message is a segment of its own.
impl Payloads for Image {
    fn read(&self, location: Location, out: &mut Vec<u8>) -> io::Result<()> {
        out.clone_from(&self.messages[location.segment as usize].1);
        Ok(())
    }
}
