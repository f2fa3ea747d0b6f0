//! What outlives a connection: open subscriptions, work that was never written, publishes that may go out again. And how those are told
//! whom no further connection can help.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use qwerq_proto::wire;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::Error;
use crate::lane::{Batch, Key, Lane};
use crate::ledger::Note;
use crate::message::Published;
use crate::retry_key::RETRY_BUDGET;
use crate::shared::{Command, Open, Shared};

/// What outlives a connection.
#[derive(Debug, Default)]
pub(crate) struct Carry {
    pub(crate) open: BTreeMap<u32, Opened>,
    pub(crate) commands: VecDeque<Command>,
    pub(crate) lanes: VecDeque<Arc<Lane>>,
}

#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) open: Open,
    /// Who waits for the first CONSUME_ACK.
    pub(crate) reply: Option<oneshot::Sender<Result<wire::ConsumeAck, Error>>>,
    /// UNSUBSCRIBE is on its way; what still arrives goes back.
    pub(crate) ending: bool,
}

impl Carry {
    /// Whether something waits that somebody wanted done.
    fn has_unsent(&self) -> bool {
        !self.lanes.is_empty() || self.commands.iter().any(|command| matches!(command, Command::Request(_) | Command::Settle(_)))
    }

    /// Whether the client has been closed meanwhile; looks into the inbox.
    pub(crate) fn wants_close(&mut self, shared: &Shared) -> bool {
        let (commands, lanes) = shared.take();
        self.commands.extend(commands);
        self.lanes.extend(lanes);
        self.commands.iter().any(|command| matches!(command, Command::Close(_)))
    }

    /// There will be no further connection: tells everybody why.
    pub(crate) fn fail(mut self, shared: &Shared, error: &Error) {
        shared.close();
        let (commands, lanes) = shared.end();
        self.commands.extend(commands);
        self.lanes.extend(lanes);
        let unsent = self.has_unsent();
        for lane in self.lanes {
            fail_lane(shared, &lane, error);
        }
        for opened in self.open.into_values() {
            opened.open.feed.clear();
            match opened.reply {
                Some(reply) => drop(reply.send(Err(error.clone()))),
                None => opened.open.feed.end(Some(error.clone()).filter(|error| !matches!(error, Error::Closed))),
            }
        }
        for command in self.commands {
            match command {
                Command::Request(request) => drop(request.reply.send(Err(error.clone()))),
                Command::Subscribe(_, reply) => drop(reply.send(Err(error.clone()))),
                Command::Unsubscribe { reply, .. } => answer(reply, Ok(())),
                Command::Settle(note) => fail_note(note, error),
                Command::Close(reply) if unsent => answer(reply, Err(Error::Disconnected { maybe_stored: false })),
                Command::Close(reply) => answer(reply, Ok(())),
                Command::Cancel(_) | Command::Post { .. } => {}
            }
        }
    }
}

/// Fails all that waits in a lane, for there is no connection any more. What had been sent on an earlier one may be stored, whatever
/// became of the later ones.
pub(crate) fn fail_lane(shared: &Shared, lane: &Lane, error: &Error) {
    while let Some(batch) = lane.take() {
        match batch.lost_at {
            Some(_) => resolve_all(shared, &batch, &Error::Disconnected { maybe_stored: true }),
            None => resolve_all(shared, &batch, error),
        }
    }
}

pub(crate) fn resolve(shared: &Shared, batch: &Batch, results: impl Iterator<Item = Result<Published, Error>>) {
    let (mut messages, mut bytes) = (0_usize, 0_usize);
    for entry in &batch.entries {
        messages += entry.window_messages as usize;
        bytes += entry.window_bytes as usize;
    }
    batch.outcome.resolve(batch.entries.iter().zip(results).map(|(entry, result)| (entry.index, as_asked(entry.key, result))));
    let numbers = || batch.entries.iter().filter_map(|entry| if let Key::Client(number) = entry.key { Some(number) } else { None });
    if numbers().next().is_some() {
        shared.retry_keys.settle(numbers());
    }
    shared.window.give(messages, bytes);
}

/// To its caller a message that the client sent twice was published once.
fn as_asked(key: Key, result: Result<Published, Error>) -> Result<Published, Error> {
    match key {
        Key::Client(_) => result.map(|published| Published { duplicate: false, ..published }),
        Key::Caller | Key::None => result,
    }
}

pub(crate) fn resolve_all(shared: &Shared, batch: &Batch, error: &Error) {
    resolve(shared, batch, batch.entries.iter().map(|_| Err(error.clone())));
}

/// What of a batch may go out again after its connection was lost; the rest is told.
pub(crate) fn survivors(shared: &Shared, mut batch: Batch, maybe_stored: bool, now: Instant) -> Option<Batch> {
    if !maybe_stored {
        return Some(batch);
    }
    batch.lost_at.get_or_insert(now);
    keep(shared, batch, |key| match key {
        Key::None => false,
        Key::Caller => true,
        Key::Client(number) => shared.retry_keys.is_kept(number),
    })
}

/// What of a batch that is about to go out again the broker will still know; the rest is told.
pub(crate) fn in_time(shared: &Shared, batch: Batch, now: Instant) -> Option<Batch> {
    match batch.lost_at {
        Some(lost_at) if now.duration_since(lost_at) > RETRY_BUDGET => keep(shared, batch, |key| !matches!(key, Key::Client(_))),
        _ => Some(batch),
    }
}

/// Those that `may` be sent twice; the rest may have been stored. A part of an atomic batch would break it, so it is kept as a whole or
/// not at all.
fn keep(shared: &Shared, batch: Batch, may: impl Fn(Key) -> bool) -> Option<Batch> {
    let all = batch.entries.iter().all(|entry| may(entry.key));
    if all {
        return Some(batch);
    }
    let keeps = |key: Key| !batch.atomic && may(key);
    if let Some(dead) = batch.filter(|_, entry| !keeps(entry.key)) {
        resolve_all(shared, &dead, &Error::Disconnected { maybe_stored: true });
    }
    batch.filter(|_, entry| keeps(entry.key))
}

/// Puts batches back in front of their lanes, in the order in which they were sent.
pub(crate) fn put_back(batches: Vec<(Arc<Lane>, Batch)>, listed: &mut VecDeque<Arc<Lane>>) {
    for (lane, batch) in batches.into_iter().rev() {
        if lane.push_front(std::iter::once(batch)) {
            listed.push_back(lane);
        }
    }
}

pub(crate) fn fail_note(note: Note, error: &Error) {
    let count = u32::try_from(note.leases.len()).expect("a frame holds far fewer than 4 G leases");
    if let Some(outcome) = note.outcome {
        outcome.resolve((0..count).map(|index| (index, Err(error.clone()))));
    }
}

pub(crate) fn answer(reply: Option<oneshot::Sender<Result<(), Error>>>, result: Result<(), Error>) {
    if let Some(reply) = reply {
        // Whoever does not wait any more needs no answer.
        let _ = reply.send(result);
    }
}
