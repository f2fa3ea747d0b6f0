//! A consumer group as the rules see it: what it settled, what was attempted, what happened to it since the start.

use std::collections::{BTreeMap, BTreeSet};

use qwerq_core::{Millis, Seq};

#[derive(Default)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// Each one, also those before the group was.
    pub(crate) settled: BTreeSet<Seq>,
    pub(crate) attempts: BTreeMap<Seq, Attempt>,
    /// Copies that it acknowledged, and must not get again unless somebody asks for it.
    pub(crate) acked: BTreeSet<u64>,
    /// Delivered in this epoch.
    pub(crate) delivered: BTreeSet<Seq>,
    /// Those with attempts that dispatch wakes up for, as their time has not come yet.
    pub(crate) waiting: BTreeSet<Seq>,
    pub(crate) last: Option<Class>,
    /// A message may have been taken for a pull's answer and put back, as it did not fit: it then counts as redelivered.
    pub(crate) blurred: bool,
    /// Expired messages whose end is proposed.
    pub(crate) leaving: BTreeSet<Seq>,
    /// Messages that a stream let go before the group settled them, since its last delivery.
    pub(crate) skipped: u64,
    pub(crate) idle: Idle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) ended: u32,
    pub(crate) not_before: Millis,
    pub(crate) first_at: Millis,
    pub(crate) suspect: bool,
}

/// Which of the two kinds that alternate a delivery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Fresh,
    Again,
}

/// Whether anybody uses a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Idle {
    /// Not looked at since it changed.
    #[default]
    Unknown,
    Since(Millis),
    /// Its end is proposed.
    Ending,
}

impl Group {
    /// What is durable stays.
    pub(crate) fn crash(&mut self) {
        self.delivered.clear();
        self.waiting = self.attempts.keys().copied().collect();
        self.last = None;
        self.blurred = false;
        self.leaving.clear();
        self.skipped = 0;
        self.idle = Idle::Unknown;
    }

    pub(crate) fn settle(&mut self, seq: Seq) -> bool {
        self.attempts.remove(&seq);
        self.waiting.remove(&seq);
        self.settled.insert(seq)
    }

    pub(crate) fn settle_below(&mut self, to: Seq) {
        self.settled.extend(0..to);
        self.attempts.retain(|seq, _| *seq >= to);
        self.waiting.retain(|seq| *seq >= to);
    }

    /// Nothing is remembered but the name and what `settled` says.
    pub(crate) fn begin_anew(&mut self, settled: BTreeSet<Seq>) {
        *self = Group { name: std::mem::take(&mut self.name), settled, idle: self.idle, blurred: self.blurred, ..Group::default() };
    }
}
