//! What one group is about to deliver: the cursor over fresh messages, what is ready again, key locks, and who has credit.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::dispatch::isolation::{Isolation, is_suspect};
use crate::dispatch::subscription::Subscription;
use crate::group::Group;
use crate::ids::{Millis, Seq, SubscriptionKey};
use crate::queue::Queue;

#[derive(Debug, Default)]
pub(crate) struct GroupRun {
    /// Fresh messages begin here; everything below was delivered, parked or settled.
    cursor: Seq,
    /// Messages below the cursor that wait for a consumer.
    pub(crate) ready: BTreeSet<Seq>,
    /// The same, put aside since they must be delivered alone.
    pub(crate) suspects: BTreeSet<Seq>,
    pub(crate) isolation: Option<Isolation>,
    /// Leased messages and their lease's counter.
    pub(crate) leased: FxHashMap<Seq, u64>,
    /// Messages that wait for their retry, and until when.
    pub(crate) backing_off: FxHashMap<Seq, Millis>,
    /// Expired messages whose end is proposed and not durable yet.
    pub(crate) leaving: FxHashSet<Seq>,
    /// Messages that retention took since the last delivery.
    pub(crate) skipped: u64,
    pub(crate) consumers: u32,
    /// Since when there is none.
    pub(crate) idle_since: Option<Millis>,
    /// Whether the group is in the list of runnable ones.
    pub(crate) queued: bool,
    /// Consumers with credit, least loaded first.
    offers: BTreeSet<(u32, SubscriptionKey)>,
    keys: BTreeMap<u64, KeyRun>,
    /// The key that a message holds.
    held: FxHashMap<Seq, u64>,
    redelivered_last: bool,
}

/// One ordering key: who holds it, and who comes after.
#[derive(Debug)]
struct KeyRun {
    holder: Seq,
    waiting: BTreeSet<Seq>,
}

impl GroupRun {
    pub(crate) fn new(floor: Seq) -> GroupRun {
        GroupRun { cursor: floor, ..GroupRun::default() }
    }

    pub(crate) fn offer(&mut self, key: SubscriptionKey, subscription: &Subscription) {
        if subscription.has_credit() {
            self.offers.insert((subscription.in_flight, key));
        }
    }

    pub(crate) fn withdraw(&mut self, key: SubscriptionKey, subscription: &Subscription) {
        self.offers.remove(&(subscription.in_flight, key));
    }

    pub(crate) fn least_loaded(&self) -> Option<SubscriptionKey> {
        self.offers.first().map(|(_, key)| *key)
    }

    /// The consumer with credit that has no leases.
    pub(crate) fn idle(&self) -> Option<SubscriptionKey> {
        self.offers.first().filter(|(in_flight, _)| *in_flight == 0).map(|(_, key)| *key)
    }

    pub(crate) fn is_offered(&self, key: SubscriptionKey, subscription: &Subscription) -> bool {
        self.offers.contains(&(subscription.in_flight, key))
    }

    /// Whether there may be anything to do about suspects: those that are not put aside yet are ready.
    pub(crate) fn may_have_suspects(&self) -> bool {
        !self.ready.is_empty() || !self.suspects.is_empty() || self.isolation.is_some()
    }

    /// Whether a suspect waits, or somebody for one, and none is leased.
    pub(crate) fn may_isolate(&self) -> bool {
        match self.isolation {
            None => !self.suspects.is_empty(),
            Some(Isolation::Reserved { .. }) => true,
            Some(Isolation::Running { .. }) => false,
        }
    }

    /// Takes out what nobody gets any more at the head of the suspects.
    pub(crate) fn forget_spent_suspects(&mut self, queue: &Queue, group: &Group, now: Millis) {
        while self.suspects.first().is_some_and(|seq| is_spent(queue, group, *seq, now)) {
            self.suspects.pop_first();
        }
    }

    /// New options may decide otherwise about who is a suspect.
    pub(crate) fn review_suspects(&mut self) {
        self.ready.append(&mut self.suspects);
    }

    /// Takes out what nobody gets any more at the head of the ready ones, and puts suspects aside, so that the first may go to anybody.
    pub(crate) fn sift_ready(&mut self, queue: &Queue, group: &Group, now: Millis) {
        while let Some(&seq) = self.ready.first() {
            if is_spent(queue, group, seq, now) {
                self.ready.pop_first();
            } else if is_suspect(queue, group, seq) {
                self.ready.pop_first();
                self.suspects.insert(seq);
            } else {
                return;
            }
        }
    }

    /// A lease has ended; says whether it was the isolated suspect's.
    pub(crate) fn end_isolation(&mut self, counter: u64) -> bool {
        let ended = self.isolation == Some(Isolation::Running { counter });
        if ended {
            self.isolation = None;
        }
        ended
    }

    /// The next message to deliver: ready and fresh ones alternate, so that neither starves the other.
    pub(crate) fn pick(&mut self, queue: &Queue, group: &Group, now: Millis) -> Option<Seq> {
        self.sift_ready(queue, group, now);
        let picked = if self.redelivered_last {
            self.pick_fresh(queue, group, now).map(|seq| (seq, false)).or_else(|| self.ready.pop_first().map(|seq| (seq, true)))
        } else {
            self.ready.pop_first().map(|seq| (seq, true)).or_else(|| self.pick_fresh(queue, group, now).map(|seq| (seq, false)))
        };
        let (seq, again) = picked?;
        self.redelivered_last = again;
        Some(seq)
    }

    /// What was just picked goes to nobody now; a fresh message is fresh again.
    pub(crate) fn put_back(&mut self, seq: Seq) {
        if self.redelivered_last {
            self.ready.insert(seq);
            return;
        }
        self.cursor = seq;
        if let Some(key) = self.held.remove(&seq) {
            let run = self.keys.remove(&key).expect("a held key has a run");
            debug_assert!(run.waiting.is_empty(), "nobody waits for a key that was just taken");
        }
    }

    fn pick_fresh(&mut self, queue: &Queue, group: &Group, now: Millis) -> Option<Seq> {
        // A pause holds back what lies beyond the last settled message. What lies before it must go on, or a group that was rebuilt or
        // created over many gaps would never close them.
        let end = if is_paused(queue, group) { group.settled_end() } else { queue.next_seq() };
        loop {
            let seq = group.next_unsettled(self.cursor);
            if seq >= end {
                return None;
            }
            self.cursor = seq + 1;
            // After a rebuild the cursor passes messages that wait for their retry; they come by themselves.
            if !group.attempts().is_empty() && group.attempts().contains_key(&seq) {
                continue;
            }
            let facts = queue.messages().get(seq).expect("what a group has not settled is stored");
            if facts.is_expired(now) {
                continue;
            }
            if self.lock_key(facts.key, seq) {
                return Some(seq);
            }
        }
    }

    pub(crate) fn cursor(&self) -> Seq {
        self.cursor
    }

    /// The message of an ordering key that is in flight or next.
    pub(crate) fn key_holder(&self, key: u64) -> Option<Seq> {
        self.keys.get(&key).map(|run| run.holder)
    }

    /// Whether a message is among those that a pause holds back.
    pub(crate) fn is_paused_at(&self, queue: &Queue, group: &Group, seq: Seq) -> bool {
        seq >= self.cursor && is_paused(queue, group) && seq >= group.settled_end()
    }

    /// Takes the key for `seq`, or lets `seq` wait for it. Messages without a key are always free.
    pub(crate) fn lock_key(&mut self, key: u64, seq: Seq) -> bool {
        if key == 0 {
            return true;
        }
        let run = self.keys.entry(key).or_insert_with(|| KeyRun { holder: seq, waiting: BTreeSet::new() });
        if run.holder == seq {
            self.held.insert(seq, key);
            return true;
        }
        run.waiting.insert(seq);
        false
    }

    /// The message is settled: nothing more happens to it. Gives the time of its retry, if it waited for one.
    pub(crate) fn forget(&mut self, seq: Seq, group: &Group) -> Option<Millis> {
        if !self.ready.is_empty() {
            self.ready.remove(&seq);
        }
        if !self.suspects.is_empty() {
            self.suspects.remove(&seq);
        }
        if !self.leaving.is_empty() {
            self.leaving.remove(&seq);
        }
        self.unlock_key_of(seq, group);
        if self.backing_off.is_empty() { None } else { self.backing_off.remove(&seq) }
    }

    /// The next message of its key becomes ready. Those that were settled while they waited are passed over.
    fn unlock_key_of(&mut self, seq: Seq, group: &Group) {
        let Some(key) = self.held.remove(&seq) else {
            return;
        };
        let run = self.keys.get_mut(&key).expect("a held key has a run");
        let next = std::iter::from_fn(|| run.waiting.pop_first()).find(|next| !group.is_settled(*next));
        match next {
            Some(next) => {
                run.holder = next;
                self.held.insert(next, key);
                self.ready.insert(next);
            }
            None => {
                self.keys.remove(&key);
            }
        }
    }

    /// Everything below `to` is settled; `group` has that already. Gives the retries that are void.
    pub(crate) fn forget_below(&mut self, to: Seq, group: &Group) -> Vec<(Seq, Millis)> {
        self.cursor = self.cursor.max(to);
        self.ready = self.ready.split_off(&to);
        self.suspects = self.suspects.split_off(&to);
        self.leaving.retain(|seq| *seq >= to);
        let mut void: Vec<_> = self.backing_off.extract_if(|seq, _| *seq < to).collect();
        void.sort_unstable();
        let mut gone: Vec<_> = self.held.keys().filter(|seq| **seq < to).copied().collect();
        gone.sort_unstable();
        for seq in gone {
            self.unlock_key_of(seq, group);
        }
        void
    }

    /// Begins anew at `floor`; whoever consumes goes on.
    pub(crate) fn restart(&mut self, floor: Seq) {
        *self = GroupRun {
            consumers: self.consumers,
            idle_since: self.idle_since,
            queued: self.queued,
            offers: std::mem::take(&mut self.offers),
            ..GroupRun::new(floor)
        };
    }

    pub(crate) fn blocked_keys(&self) -> u64 {
        self.keys.values().filter(|run| !run.waiting.is_empty()).count() as u64
    }
}

/// A message that is to be leased, and what its lease needs to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Picked {
    pub(crate) seq: Seq,
    /// Payload and headers.
    pub(crate) bytes: u32,
    /// 1 for the first delivery.
    pub(crate) attempt: u32,
    /// When it was published, or fell due.
    pub(crate) at: Millis,
}

impl Picked {
    pub(crate) fn new(queue: &Queue, group: &Group, seq: Seq) -> Picked {
        let (bytes, at) = queue.messages().get(seq).map_or((0, 0), |facts| (facts.size, facts.at));
        let attempts = group.attempts();
        let attempt = if attempts.is_empty() { 1 } else { attempts.get(&seq).map_or(1, |attempt| attempt.ended + 1) };
        Picked { seq, bytes, attempt, at }
    }
}

fn is_paused(queue: &Queue, group: &Group) -> bool {
    group.settled_intervals() as u64 >= queue.options.max_unsettled
}

/// Settled, or expired: what has expired is taken away by a sweep, which knows of it.
fn is_spent(queue: &Queue, group: &Group, seq: Seq, now: Millis) -> bool {
    group.is_settled(seq) || queue.messages().get(seq).is_some_and(|facts| facts.is_expired(now))
}
