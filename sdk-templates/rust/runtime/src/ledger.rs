//! The leases that one connection holds: who still has them, when they must be renewed, and what is to be said about them.
//!
//! A lease ends with its connection, so every connection has a ledger of its own; when it closes, the deliveries that are still around
//! learn that they are stale. Settling is a note in the ledger; `session` turns the notes into ACK frames, many leases each.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use qwerq_proto::frame::encode_header;
use qwerq_proto::{LEASE_ID_BYTES, Opcode, wire};
use tokio::time::Instant;

use crate::arrival::Arrival;
use crate::bell::Bell;
use crate::delivery::Delivery;
use crate::error::Error;
use crate::lock::Lock;
use crate::outcome::Outcome;
use crate::wire_time::millis;

/// A lease id as the broker gave it.
pub type LeaseId = [u8; LEASE_ID_BYTES];

/// Leases of one frame at most.
const NOTE_LEASES_MAX: usize = 4096;

/// Protobuf field of `Settle.lease_ids`.
const LEASE_IDS_FIELD: u32 = 1;

/// A lease is renewed when this part of its length has passed. Sweeps happen as often, so that no lease is older than twice that part,
/// a third, when it is renewed.
const RENEW_PART: u32 = 6;

/// What the ledger does about a lease while its delivery lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Renews it, and gives it back when the client closes.
    Renewed,
    /// Nothing: it outlives the connection and ends by its timeout.
    Detached,
}

/// What is said about leases.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settlement {
    /// Done; the group never sees the message again.
    Ack,
    /// Failed; deliver it again, after the queue's backoff or the given delay. Counts an attempt.
    Nack {
        /// Instead of the queue's `retry_backoff`; zero: at once.
        delay: Option<Duration>,
        /// Goes into the dead letter's headers; may be empty.
        reason: String,
    },
    /// Hopeless; failure handling at once.
    Reject {
        /// Goes into the dead letter's headers.
        reason: String,
    },
    /// Not begun; back to the queue without counting an attempt.
    Release,
}

/// A settlement or a renewal, as a frame says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Say {
    Settle(Settlement),
    Extend { length_ms: u64 },
}

impl Say {
    pub(crate) fn opcode(&self) -> Opcode {
        match self {
            Say::Settle(Settlement::Ack) => Opcode::Ack,
            Say::Settle(Settlement::Nack { .. }) => Opcode::Nack,
            Say::Settle(Settlement::Reject { .. }) => Opcode::Reject,
            Say::Settle(Settlement::Release) => Opcode::Release,
            Say::Extend { .. } => Opcode::ExtendVisibility,
        }
    }
}

/// The same thing said about several leases: one frame.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) say: Say,
    pub(crate) leases: Vec<LeaseId>,
    /// Where the answers go, if somebody wants them.
    pub(crate) outcome: Option<Arc<Outcome<()>>>,
}

impl Note {
    /// Appends the frame that says it. The leases, which may be many, are written without an allocation each.
    pub(crate) fn encode(&self, out: &mut BytesMut, id: Option<u32>) {
        let rest = self.without_leases();
        let lease_bytes = key_len(LEASE_IDS_FIELD) + encoded_len_varint(LEASE_ID_BYTES as u64) + LEASE_ID_BYTES;
        let payload_bytes = self.leases.len() * lease_bytes + rest.encoded_len();
        out.reserve(payload_bytes + 16);
        encode_header(out, self.say.opcode(), id, payload_bytes);
        for lease in &self.leases {
            encode_key(LEASE_IDS_FIELD, WireType::LengthDelimited, out);
            encode_varint(LEASE_ID_BYTES as u64, out);
            out.put_slice(lease);
        }
        rest.encode_raw(out);
    }

    fn without_leases(&self) -> wire::Settle {
        let mut settle = wire::Settle { confirm: self.outcome.is_some(), ..wire::Settle::default() };
        match &self.say {
            Say::Settle(Settlement::Ack | Settlement::Release) => {}
            Say::Settle(Settlement::Nack { delay, reason }) => {
                settle.delay_ms = delay.map(millis);
                settle.reason.clone_from(reason);
            }
            Say::Settle(Settlement::Reject { reason }) => settle.reason.clone_from(reason),
            Say::Extend { length_ms } => settle.visibility_timeout_ms = *length_ms,
        }
        settle
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    bell: Arc<Bell>,
    max_lease: Duration,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    slots: Vec<Slot>,
    free: Vec<u32>,
    notes: Vec<Note>,
    held: usize,
    sweep_due: Option<Instant>,
}

#[derive(Debug)]
enum Slot {
    Free,
    Held(Held),
    /// The broker has taken it back; its guard does not know yet.
    Lost,
}

#[derive(Debug)]
struct Held {
    lease: LeaseId,
    /// The subscription it came by; none: FETCH.
    subscription: Option<u32>,
    granted_at: Instant,
    renewed_at: Instant,
    length_ms: u64,
    keep: Keep,
    renew: bool,
}

/// The slot of a lease that has been settled.
const SETTLED: u32 = u32::MAX;

/// What a delivery holds on to. Dropped unsettled, the lease is no longer renewed and runs to its end.
#[derive(Debug)]
pub(crate) struct Lease {
    ledger: Arc<Ledger>,
    slot: u32,
    lease: LeaseId,
}

/// Where the answer to a confirmed settlement will be.
#[derive(Debug)]
pub(crate) struct Confirmation {
    outcome: Arc<Outcome<()>>,
    index: u32,
}

impl Confirmation {
    pub(crate) async fn wait(self) -> Result<(), Error> {
        std::future::poll_fn(|cx| self.outcome.poll(self.index, cx)).await
    }
}

impl Lease {
    pub(crate) fn id(&self) -> &LeaseId {
        &self.lease
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.ledger.state.lock().is_lost(self.slot)
    }

    /// When it is renewed no longer; now, when it has ended already.
    pub(crate) fn renewed_until(&self) -> Instant {
        match self.ledger.state.lock().slots[self.slot as usize] {
            Slot::Held(ref held) => held.granted_at + self.ledger.max_lease,
            Slot::Lost | Slot::Free => Instant::now(),
        }
    }

    /// Settles without waiting.
    pub(crate) fn settle(self, settlement: Settlement) -> Result<(), Error> {
        self.end(settlement, false).map(|_| ())
    }

    /// Settles; the confirmation says when it is durable.
    pub(crate) fn settle_confirmed(self, settlement: Settlement) -> Result<Confirmation, Error> {
        self.end(settlement, true).map(|confirmation| confirmation.expect("asked for"))
    }

    /// Makes the lease end `length` from now.
    pub(crate) fn extend(&self, length: Duration) -> Result<Confirmation, Error> {
        let length_ms = millis(length);
        let mut state = self.ledger.state.lock();
        match &mut state.slots[self.slot as usize] {
            Slot::Held(held) => held.length_ms = length_ms,
            Slot::Lost | Slot::Free => return Err(Error::stale_lease()),
        }
        let confirmation = state.write(Say::Extend { length_ms }, self.lease, true);
        drop(state);
        self.ledger.bell.ring();
        Ok(confirmation.expect("asked for"))
    }

    /// Frees the slot and writes the note under one lock.
    fn end(mut self, settlement: Settlement, confirm: bool) -> Result<Option<Confirmation>, Error> {
        let slot = std::mem::replace(&mut self.slot, SETTLED);
        let mut state = self.ledger.state.lock();
        let lost = state.is_lost(slot);
        state.free(slot);
        if lost {
            return Err(Error::stale_lease());
        }
        let confirmation = state.write(Say::Settle(settlement), self.lease, confirm);
        drop(state);
        self.ledger.bell.ring();
        Ok(confirmation)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.slot != SETTLED {
            self.ledger.state.lock().free(self.slot);
        }
    }
}

impl Ledger {
    pub(crate) fn new(bell: Arc<Bell>, max_lease: Duration) -> Ledger {
        Ledger { bell, max_lease, state: Lock::default() }
    }

    /// Takes down the leases of messages that have just arrived, and makes deliveries of them. A message without a lease (of a reader
    /// that follows the tail) becomes a delivery without one.
    pub(crate) fn deliveries(
        self: &Arc<Ledger>,
        queue: &Arc<str>,
        arrivals: Vec<Arrival>,
        subscription: Option<u32>,
        keep: Keep,
        now: Instant,
    ) -> Vec<Delivery> {
        let mut state = self.state.lock();
        let deliver = |arrival: Arrival| {
            let length_ms = arrival.lease_ms;
            let lease = arrival.lease.map(|lease| {
                let renew = keep == Keep::Renewed && length_ms > 0;
                if renew {
                    state.sweep_due = earlier(state.sweep_due, now + renew_part(length_ms));
                }
                let held = Held { lease, subscription, granted_at: now, renewed_at: now, length_ms, keep, renew };
                Lease { ledger: Arc::clone(self), slot: state.hold(held), lease }
            });
            Delivery::new(Arc::clone(queue), arrival, lease)
        };
        arrivals.into_iter().map(deliver).collect()
    }

    /// What has been written down since the last time.
    pub(crate) fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut self.state.lock().notes)
    }

    /// Leases that somebody still holds.
    pub(crate) fn held(&self) -> usize {
        self.state.lock().held
    }

    /// When the next sweep is due; `None` without leases to renew.
    pub(crate) fn sweep_due(&self) -> Option<Instant> {
        self.state.lock().sweep_due
    }

    /// Writes down the renewals that are due at `now`, and gives up those that are too old.
    pub(crate) fn sweep(&self, now: Instant) {
        let mut state = self.state.lock();
        if state.sweep_due.is_none_or(|due| now < due) {
            return;
        }
        state.sweep_due = None;
        let mut due: Vec<(u64, LeaseId)> = Vec::new();
        let mut next: Option<Instant> = None;
        for slot in &mut state.slots {
            let Slot::Held(held) = slot else { continue };
            held.renew &= now.duration_since(held.granted_at) < self.max_lease;
            if !held.renew {
                continue;
            }
            let part = renew_part(held.length_ms);
            if now.duration_since(held.renewed_at) >= part {
                held.renewed_at = now;
                due.push((held.length_ms, held.lease));
            }
            next = earlier(next, now + part);
        }
        state.sweep_due = next;
        for (length_ms, lease) in due {
            state.write(Say::Extend { length_ms }, lease, false);
        }
    }

    /// The client closes: gives back uncounted what was fetched and is still held, but for detached leases.
    pub(crate) fn release_fetched(&self) {
        let mut state = self.state.lock();
        let fetched = |held: &Held| held.subscription.is_none() && held.keep == Keep::Renewed;
        let leases: Vec<LeaseId> = state.held_leases(fetched).collect();
        state.lose(fetched);
        for lease in leases {
            state.write(Say::Settle(Settlement::Release), lease, false);
        }
    }

    /// The broker has taken back the leases of a subscription.
    pub(crate) fn lose_subscription(&self, subscription: u32) {
        let mut state = self.state.lock();
        state.lose(|held| held.subscription == Some(subscription));
    }

    /// The connection is gone, and all leases with it. Returns what has not been said, so that those who wait can be told.
    pub(crate) fn close(&self) -> Vec<Note> {
        let mut state = self.state.lock();
        state.closed = true;
        state.lose(|_| true);
        std::mem::take(&mut state.notes)
    }
}

/// The age at which a lease of that length is renewed, and the longest time between two sweeps.
fn renew_part(length_ms: u64) -> Duration {
    (Duration::from_millis(length_ms) / RENEW_PART).max(Duration::from_millis(1))
}

fn earlier(a: Option<Instant>, b: Instant) -> Option<Instant> {
    Some(a.map_or(b, |a| a.min(b)))
}

impl State {
    fn hold(&mut self, held: Held) -> u32 {
        let slot = self.free_slot();
        if self.closed {
            return slot;
        }
        self.held += 1;
        self.slots[slot as usize] = Slot::Held(held);
        slot
    }

    /// A slot that reads as lost until something is held in it.
    fn free_slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Slot::Lost;
            return slot;
        }
        self.slots.push(Slot::Lost);
        u32::try_from(self.slots.len() - 1).expect("prefetch bounds the leases far below 4 G")
    }

    fn free(&mut self, slot: u32) {
        if matches!(self.slots[slot as usize], Slot::Held(_)) {
            self.held -= 1;
        }
        self.slots[slot as usize] = Slot::Free;
        self.free.push(slot);
    }

    fn is_lost(&self, slot: u32) -> bool {
        !matches!(self.slots[slot as usize], Slot::Held(_))
    }

    fn held_leases(&self, which: impl Fn(&Held) -> bool) -> impl Iterator<Item = LeaseId> {
        self.slots.iter().filter_map(move |slot| match slot {
            Slot::Held(held) if which(held) => Some(held.lease),
            _ => None,
        })
    }

    fn lose(&mut self, which: impl Fn(&Held) -> bool) {
        for slot in &mut self.slots {
            if matches!(slot, Slot::Held(held) if which(held)) {
                *slot = Slot::Lost;
                self.held -= 1;
            }
        }
    }

    fn write(&mut self, say: Say, lease: LeaseId, confirm: bool) -> Option<Confirmation> {
        let fits = |note: &Note| note.say == say && note.outcome.is_some() == confirm && note.leases.len() < NOTE_LEASES_MAX;
        // A confirmation also says that what was said before it has been heard, so it never joins an earlier note.
        let position = match confirm {
            true => self.notes.len().checked_sub(1).filter(|last| fits(&self.notes[*last])),
            false => self.notes.iter().position(fits),
        };
        let position = position.unwrap_or_else(|| {
            let outcome = confirm.then(|| Arc::new(Outcome::new()));
            self.notes.push(Note { say, leases: Vec::new(), outcome });
            self.notes.len() - 1
        });
        let note = &mut self.notes[position];
        let index = u32::try_from(note.leases.len()).expect("at most NOTE_LEASES_MAX");
        note.leases.push(lease);
        note.outcome.as_ref().map(|outcome| Confirmation { outcome: Arc::clone(outcome), index })
    }
}
