//! Operators: queues, groups, options, purges, seeks.

use qwerq_core::dispatch::GroupKey;
use qwerq_core::options::{Mode, OnExpiry, OnFailure, OnFull};
use qwerq_core::{Body, QueueOptions, Seq};

use super::World;
use crate::random::Random;

impl World {
    fn any_options(&mut self, mode: Mode) -> QueueOptions {
        let dice = &mut self.dice;
        let scale = if self.large { 50 } else { 1 };
        let many = |dice: &mut Random, few: u64| if dice.one_in(2) { 1_000_000 } else { dice.within(1, few) };
        let drops_oldest = mode == Mode::Stream || dice.one_in(4);
        QueueOptions {
            mode,
            max_deliveries: dice.within_u32(1, 4),
            on_failure: *dice.pick(&[OnFailure::Dlq, OnFailure::Dlq, OnFailure::Drop, OnFailure::RetryForever]).expect("four"),
            retry_backoff_first_ms: dice.below(1_000),
            retry_backoff_max_ms: dice.below(5_000),
            max_messages: if mode == Mode::Stream && dice.one_in(2) { 0 } else { dice.within(5, 60) * scale },
            max_bytes: dice.within(200, 3_000) * scale,
            max_age_ms: if mode == Mode::Stream && dice.one_in(2) { dice.within(100, 6_000) } else { 0 },
            on_full: if drops_oldest { OnFull::DropOldest } else { OnFull::Reject },
            on_expiry: if dice.one_in(2) { OnExpiry::Dlq } else { OnExpiry::Drop },
            dedup_window_ms: dice.within(1, 6_000),
            dedup_max_keys: many(dice, 5),
            max_message_bytes: 64,
            group_expiry_ms: if dice.one_in(4) { dice.within(1_000, 9_000) } else { 0 },
            max_unsettled: if self.large { 1_000_000 } else { many(dice, 6) },
            ..QueueOptions::default()
        }
    }

    /// Few names, so that one batch creates the same twice.
    pub(super) fn create_queue(&mut self) {
        let name = *self.dice.pick(&["orders", "mails", "invoices"]).expect("three");
        let mode = if self.dice.one_in(4) { Mode::Stream } else { Mode::Queue };
        let options = self.any_options(mode);
        say!(self, "create queue {name}: {options:?}");
        let body = self.state.create_queue(name, options);
        self.enter(body);
    }

    pub(super) fn update_queue(&mut self) {
        let Some(queue) = self.any_source() else { return };
        let options = self.any_options(self.model.queues[&queue].options.mode);
        say!(self, "update {queue:?}: {options:?}");
        self.enter(Body::QueueUpdated { queue, options });
    }

    pub(super) fn delete_queue(&mut self) {
        let Some(queue) = self.any_queue() else { return };
        say!(self, "delete {queue:?}");
        self.enter(Body::QueueDeleted { queue });
    }

    /// The beginning, the end, or somewhere between.
    fn any_position(&mut self, next_seq: Seq) -> Seq {
        match self.dice.below(4) {
            0 => next_seq,
            1 => self.dice.within(0, next_seq + 1),
            _ => 0,
        }
    }

    pub(super) fn create_group(&mut self) {
        let Some(queue) = self.any_queue() else { return };
        let name = *self.dice.pick(&["default", "billing", "audit"]).expect("three");
        let floor = self.any_position(self.model.queues[&queue].next_seq);
        say!(self, "create group {name} of {queue:?} at {floor}");
        let body = self.state.create_group(queue, name, floor);
        self.enter(body);
    }

    pub(super) fn delete_group(&mut self) {
        let Some(GroupKey { queue, group }) = self.any_group() else { return };
        say!(self, "delete {group:?} of {queue:?}");
        self.enter(Body::GroupDeleted { queue, group });
    }

    pub(super) fn purge(&mut self) {
        let Some(queue) = self.any_queue() else { return };
        let (next_seq, next_delayed) = (self.model.queues[&queue].next_seq, self.model.queues[&queue].next_delayed);
        let (to, delayed_to) = (self.dice.within(0, next_seq + 1), self.dice.within(0, next_delayed + 1));
        say!(self, "purge {queue:?} below {to}, of what is delayed below {delayed_to}");
        self.enter(Body::Purged { queue, to, delayed_to });
        self.covered.purges += 1;
    }

    /// A seek is committed by itself, so that no delivery that ended before it is counted after it.
    pub(super) fn seek(&mut self) {
        self.commit();
        let Some(GroupKey { queue, group }) = self.any_group() else { return };
        let to = self.any_position(self.model.queues[&queue].next_seq);
        say!(self, "{group:?} of {queue:?} seeks {to}");
        self.enter(Body::Sought { queue, group, to });
        self.covered.seeks += 1;
        self.commit();
    }

    pub(super) fn settle_through(&mut self) {
        let Some(GroupKey { queue, group }) = self.any_group() else { return };
        let through = self.dice.within(0, self.model.queues[&queue].next_seq + 1);
        say!(self, "{group:?} of {queue:?} is done with everything through {through}");
        self.enter(Body::SettledThrough { queue, group, through });
        self.covered.settled_through += 1;
    }
}
