//! Publishers: batches with keys, idempotency keys, delays and ttls; and payloads that break the contract.

use qwerq_core::entry::{ItemHead, ItemWriter, Origin, PUBLISH_KIND, Publish};
use qwerq_core::stored::key_hash;
use qwerq_core::{Admission, Body, MessageId, NewMessage, Rejection};

use super::World;
use super::batch::Waiting;

/// Enough for the model; streams may have no limit of their own.
const STORED_MAX: u64 = 2_500;

impl World {
    pub(super) fn publish(&mut self) {
        let Some(queue) = self.any_source() else { return };
        if self.model.queues[&queue].messages() > STORED_MAX {
            return;
        }
        let items = if self.large { self.dice.within(100, 300) } else { self.dice.within(1, 4) };
        let mut payload = vec![0xee; 3];
        let start = payload.len();
        let mut writer = ItemWriter::begin_publish(&mut payload, self.now, queue, 4);
        for _ in 0..items {
            let size = self.dice.within_u32(0, 70);
            let ordering_key = *self.dice.pick(&["", "", "", "a", "b", "c"]).expect("six");
            let long = "long ".repeat(100);
            let idempotency_key = *self.dice.pick(&["", "", "", "", "", "", "1", "2", "3", "4", "5", long.as_str()]).expect("twelve");
            let due = if self.dice.one_in(6) { self.now + self.dice.within(1, 3_000) } else { 0 };
            let expires_at = if self.dice.one_in(5) { due.max(self.now) + self.dice.within(1, 3_000) } else { 0 };
            let message = NewMessage { size: size.into(), idempotency_key };
            let given = self.state.queue(queue).expect("the model has it").admit(&self.admission, self.now, &message);
            assert_eq!(given, self.model.admit(queue, &self.admitted, self.now, &message), "admission of {message:?} to {queue:?}");
            say!(
                self,
                "publish {size} bytes to {queue:?}, key {ordering_key:?}, idempotency key `{idempotency_key:.5}`, due {due}, expires {expires_at}: {given:?}"
            );
            match given {
                Ok(Admission::New) => {
                    let stored = self.stored_form(size);
                    let mut id = MessageId([0; 16]);
                    id.0[..8].copy_from_slice(&stored[..8]);
                    self.admission.add(queue, &message, id);
                    let idempotency_key = idempotency_key.to_owned();
                    self.admitted.push(crate::model::PendingItem { queue, size, idempotency_key: idempotency_key.clone(), id });
                    let dedup = (!idempotency_key.is_empty()).then_some((idempotency_key, id));
                    let head = ItemHead { size, key: key_hash(ordering_key), due, expires_at, dedup };
                    writer.item(&mut payload, head, |out| out.extend_from_slice(&stored));
                    self.covered.published += 1;
                    self.covered.delayed += u64::from(due != 0);
                    self.covered.with_ttl += u64::from(expires_at != 0);
                }
                Ok(Admission::Duplicate { .. }) => self.covered.duplicates += 1,
                Ok(Admission::DuplicateOfPending { .. }) => self.covered.pending_duplicates += 1,
                Err(Rejection::MessageTooLarge { .. }) => self.covered.too_large += 1,
                Err(Rejection::DedupFull { .. }) => self.covered.dedup_full += 1,
                Err(Rejection::QueueFull { .. }) => self.covered.queue_full += 1,
                Err(other) => panic!("a publish is not refused with {other:?}"),
            }
        }
        if !writer.is_empty() {
            let body = Body::Publish(Publish { queue, items: writer.finish() });
            self.batch.push(Waiting { now: self.now, kind: PUBLISH_KIND, payload: payload[start..].to_vec(), body });
        }
    }

    /// A new message's number, and some bytes behind it.
    fn stored_form(&mut self, size: u32) -> Vec<u8> {
        let mut stored = self.next_message.to_le_bytes().to_vec();
        self.next_message += 1;
        stored.resize(8 + usize::try_from(size % 17).expect("below 17"), 0xaa);
        stored
    }

    /// With on_invalid = dlq a payload that breaks the contract is accepted, as a dead letter of nobody.
    pub(super) fn publish_invalid(&mut self) {
        let Some(queue) = self.any_source() else { return };
        let items = (0..self.dice.within(1, 3)).map(|_| {
            let size = self.dice.within_u32(0, 70);
            (ItemHead { size, key: self.dice.below(3), ..ItemHead::default() }, size)
        });
        let heads: Vec<_> = items.collect();
        let items: Vec<_> = heads.into_iter().map(|(head, size)| (head, self.stored_form(size))).collect();
        say!(self, "publish {} invalid messages to {queue:?}", items.len());
        self.covered.letters_invalid += super::count(items.len());
        self.enter_moved(&Origin::Invalid { queue, count: items.len() }, items);
    }
}
