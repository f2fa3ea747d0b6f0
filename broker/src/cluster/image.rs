//! A snapshot as it travels: all rows and messages of a store, in chunks, and the store that is built of them on the other side.
//!
//! A chunk is a series of items. `0 | key length u32 | value length u32 | key | value` is a row, `1 | key (13 bytes) | length u32 | payload`
//! a message; numbers are little-endian, rows come before messages, each in key order. It knows nothing of sockets nor of what a row means.

use std::io;
use std::path::Path;

use tokio::sync::mpsc;

use super::raft::Image;
use crate::store::{Applied, Checkpoint, Location, MessageKey, MessageRun, Payloads, RowChange, Store, StoreError, StoreOptions};

/// Bytes of a chunk, roughly: it ends behind the item that fills it.
const CHUNK_BYTES: usize = 1 << 20;

/// Chunks that are read ahead.
const AHEAD: usize = 2;

const ROW: u8 = 0;
const MESSAGE: u8 = 1;

/// Reads a snapshot in chunks, on a thread of its own, until all is read or nobody receives any more.
pub(crate) fn read(image: Image) -> mpsc::Receiver<Result<Vec<u8>, StoreError>> {
    let (chunks, receiver) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        // Nobody receives any more: then nobody wants the rest.
        each_chunk(&image, |chunk| chunks.blocking_send(chunk).is_ok());
    });
    receiver
}

/// Gives `take` the chunks of a snapshot, until it wants no more or one cannot be read.
pub(crate) fn each_chunk(image: &Image, mut take: impl FnMut(Result<Vec<u8>, StoreError>) -> bool) {
    let mut rows_from = Some(Vec::new());
    let mut messages_from = Some(MessageKey { queue: 0, space: 0, number: 0 });
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES + (64 << 10));
        let read = if let Some(from) = rows_from.take() {
            image.0.rows(&from, CHUNK_BYTES, &mut |key, value| put_row(&mut chunk, key, value)).map(|next| rows_from = next)
        } else if let Some(from) = messages_from.take() {
            let each = &mut |key: MessageKey, payload: &[u8]| put_message(&mut chunk, key, payload);
            image.0.messages(from, CHUNK_BYTES, each).map(|next| messages_from = next)
        } else {
            return;
        };
        let failed = read.is_err();
        if !take(read.map(|()| chunk)) || failed {
            return;
        }
    }
}

fn put_row(chunk: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    chunk.push(ROW);
    put_length(chunk, key.len());
    put_length(chunk, value.len());
    chunk.extend_from_slice(key);
    chunk.extend_from_slice(value);
}

fn put_message(chunk: &mut Vec<u8>, key: MessageKey, payload: &[u8]) {
    chunk.push(MESSAGE);
    chunk.extend_from_slice(&key.to_bytes());
    put_length(chunk, payload.len());
    chunk.extend_from_slice(payload);
}

fn put_length(chunk: &mut Vec<u8>, length: usize) {
    chunk.extend_from_slice(&u32::try_from(length).expect("rows and messages are smaller than 4 GiB").to_le_bytes());
}

/// A store that is being built of a snapshot.
pub(crate) struct Incoming {
    store: Store,
}

/// Why a chunk is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IncomingError {
    /// The new store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is no chunk.
    #[error("a chunk of the snapshot does not decode")]
    Broken,
}

impl Incoming {
    /// Begins a store in an empty directory.
    pub(crate) fn begin(directory: &Path) -> Result<Incoming, IncomingError> {
        Ok(Incoming { store: Store::open(directory, StoreOptions::default())? })
    }

    /// Adds a chunk.
    pub(crate) fn add(&mut self, chunk: &[u8]) -> Result<(), IncomingError> {
        let mut checkpoint = Checkpoint::default();
        let mut rest = chunk;
        while let Some((kind, behind)) = rest.split_first() {
            rest = behind;
            match *kind {
                ROW => {
                    let (key, value) = (length(&mut rest)?, length(&mut rest)?);
                    let key = bytes(&mut rest, key)?.to_vec();
                    let value = bytes(&mut rest, value)?.to_vec();
                    checkpoint.rows.push(RowChange::Put { key, value });
                }
                MESSAGE => {
                    let key = MessageKey::from_bytes(bytes(&mut rest, MessageKey::BYTES)?).ok_or(IncomingError::Broken)?;
                    let len = length(&mut rest)?;
                    let payload = bytes(&mut rest, len)?;
                    let offset = payload.as_ptr().addr() - chunk.as_ptr().addr();
                    let offset = u32::try_from(offset).map_err(|_| IncomingError::Broken)?;
                    let len = u32::try_from(len).map_err(|_| IncomingError::Broken)?;
                    push(&mut checkpoint.messages, key, Location { segment: 0, offset, len });
                }
                _ => return Err(IncomingError::Broken),
            }
        }
        self.store.checkpoint(checkpoint, &Chunk(chunk))?;
        Ok(())
    }

    /// Ends the store: it reaches `applied`. Durable on return.
    pub(crate) fn finish(self, applied: Applied) -> Result<(), IncomingError> {
        self.store.checkpoint(Checkpoint { applied, ..Checkpoint::default() }, &Chunk(&[]))?;
        Ok(())
    }
}

/// Adds a message to the run that it continues.
fn push(runs: &mut Vec<MessageRun>, key: MessageKey, location: Location) {
    if let Some(run) = runs.last_mut() {
        let next = MessageKey { number: run.first.number + run.locations.len() as u64, ..run.first };
        if next == key {
            run.locations.push(location);
            return;
        }
    }
    runs.push(MessageRun { first: key, locations: vec![location] });
}

fn length(rest: &mut &[u8]) -> Result<usize, IncomingError> {
    let (length, behind) = rest.split_first_chunk::<4>().ok_or(IncomingError::Broken)?;
    *rest = behind;
    Ok(u32::from_le_bytes(*length) as usize)
}

fn bytes<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], IncomingError> {
    let (bytes, behind) = rest.split_at_checked(length).ok_or(IncomingError::Broken)?;
    *rest = behind;
    Ok(bytes)
}

/// The payloads of a chunk, at their places in it.
struct Chunk<'a>(&'a [u8]);

impl Payloads for Chunk<'_> {
    fn read(&self, location: Location, out: &mut Vec<u8>) -> io::Result<()> {
        let start = location.offset as usize;
        let payload = self.0.get(start..start + location.len as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.clear();
        out.extend_from_slice(payload);
        Ok(())
    }
}
