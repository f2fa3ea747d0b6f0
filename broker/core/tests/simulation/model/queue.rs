//! A queue as the rules see it: what is stored, what is delayed, who reads it, which idempotency keys are known.

use std::collections::{BTreeMap, BTreeSet};

use qwerq_core::options::{OnExpiry, OnFailure};
use qwerq_core::{DelayedKey, GroupId, MessageId, Millis, QueueOptions, Seq};

use super::Group;
use super::group::Idle;

pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) options: QueueOptions,
    pub(crate) next_seq: Seq,
    pub(crate) stored: BTreeMap<Seq, Stored>,
    pub(crate) next_delayed: u64,
    /// By due time, then in order of acceptance.
    pub(crate) delayed: BTreeMap<DelayedKey, Delayed>,
    pub(crate) groups: BTreeMap<GroupId, Group>,
    /// Every idempotency key's last recording.
    pub(crate) keys: Vec<Remembered>,
    /// Expired messages of a queue without groups whose end is proposed.
    pub(crate) leaving: BTreeSet<Seq>,
    /// Messages that retention has proposed to let go.
    pub(crate) going: BTreeSet<Seq>,
    /// A floor is proposed and not durable yet; until then nobody watches the age of the oldest.
    pub(crate) floor_is_coming: bool,
    /// Something came, or the limits changed, since it was last looked at whether it is within them.
    pub(crate) grew: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) size: u32,
    pub(crate) key: u64,
    pub(crate) at: Millis,
    pub(crate) expires_at: Millis,
    /// What its publisher sent, wherever it has moved since.
    pub(crate) message: u64,
    /// Tells it from every other time that the message was stored.
    pub(crate) copy: u64,
    /// Whose dead letter it is.
    pub(crate) letter_of: Option<GroupId>,
}

impl Stored {
    pub(crate) fn is_expired(&self, now: Millis) -> bool {
        self.expires_at != 0 && self.expires_at <= now
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Delayed {
    pub(crate) size: u32,
    pub(crate) key: u64,
    pub(crate) expires_at: Millis,
    pub(crate) message: u64,
}

pub(crate) struct Remembered {
    pub(crate) key: String,
    pub(crate) id: MessageId,
    pub(crate) seq: Option<Seq>,
    pub(crate) until: Millis,
}

impl Queue {
    pub(crate) fn new(name: String, options: QueueOptions) -> Queue {
        Queue {
            name,
            options,
            next_seq: 0,
            stored: BTreeMap::new(),
            next_delayed: 0,
            delayed: BTreeMap::new(),
            groups: BTreeMap::new(),
            keys: Vec::new(),
            leaving: BTreeSet::new(),
            going: BTreeSet::new(),
            floor_is_coming: false,
            grew: true,
        }
    }

    /// Limits and the use of groups are looked at anew.
    pub(crate) fn look_again(&mut self) {
        self.grew = true;
        self.groups.values_mut().for_each(|group| group.idle = Idle::Unknown);
    }

    /// Timers and proposals are gone; a start looks at everything again.
    pub(crate) fn crash(&mut self) {
        self.leaving.clear();
        self.going.clear();
        self.floor_is_coming = false;
        self.grew = true;
        self.groups.values_mut().for_each(Group::crash);
    }

    pub(crate) fn is_dlq(&self) -> bool {
        self.name.ends_with(".dlq")
    }

    /// A dead letter never becomes one again.
    pub(crate) fn on_failure(&self) -> OnFailure {
        if self.is_dlq() { OnFailure::RetryForever } else { self.options.on_failure }
    }

    pub(crate) fn on_expiry(&self) -> OnExpiry {
        if self.is_dlq() { OnExpiry::Drop } else { self.options.on_expiry }
    }

    pub(crate) fn unsettled<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = (Seq, Stored)> + 'a {
        self.stored.iter().filter(|(seq, _)| !group.settled.contains(seq)).map(|(seq, stored)| (*seq, *stored))
    }

    /// Messages that limits count.
    pub(crate) fn messages(&self) -> u64 {
        u64::try_from(self.stored.len() + self.delayed.len()).unwrap()
    }

    /// Bytes that limits count.
    pub(crate) fn bytes(&self) -> u64 {
        self.live_bytes() + self.delayed.values().map(|delayed| u64::from(delayed.size)).sum::<u64>()
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.stored.values().map(|stored| u64::from(stored.size)).sum()
    }

    pub(crate) fn is_settled_by_all(&self, seq: Seq) -> bool {
        !self.groups.is_empty() && self.groups.values().all(|group| group.settled.contains(&seq))
    }

    /// Intervals of settled messages above the lowest unsettled one.
    pub(crate) fn settled_intervals(&self, group: &Group) -> u64 {
        let floor = (0..self.next_seq).find(|seq| !group.settled.contains(seq)).unwrap_or(self.next_seq);
        let starts = (floor + 1..self.next_seq).filter(|seq| group.settled.contains(seq) && !group.settled.contains(&(seq - 1)));
        u64::try_from(starts.count()).unwrap()
    }

    /// Beyond `max_unsettled` intervals nothing new begins; what lies between settled messages must go on, or the group were stuck.
    pub(crate) fn pauses(&self, group: &Group, seq: Seq) -> bool {
        group.settled.last().is_none_or(|last| *last < seq) && self.is_paused(group)
    }

    pub(crate) fn is_paused(&self, group: &Group) -> bool {
        // Of n positions at most half can be intervals; counting them is slow.
        self.options.max_unsettled <= self.next_seq / 2 && self.settled_intervals(group) >= self.options.max_unsettled
    }

    /// Delayed messages that are due, in the order in which they come.
    pub(crate) fn due(&self, now: Millis) -> Vec<DelayedKey> {
        self.delayed.keys().filter(|key| key.due <= now).copied().collect()
    }
}
