//! What the passing of time leads to: leases expire, retries fall due, messages outlive their ttl, unused groups go.

use qwerq_core::dispatch::{DeadLetter, Ending, GroupKey, Reason};
use qwerq_core::entry::Cause;
use qwerq_core::options::OnExpiry;
use qwerq_core::{Millis, Proposal, QueueId, Seq};

use super::group::Idle;
use super::{Expected, Model};

impl Model {
    /// What dispatch must propose at `now`, but for retention.
    pub(crate) fn tick(&mut self, now: Millis) -> Vec<Expected> {
        for group in self.queues.values_mut().flat_map(|queue| queue.groups.values_mut()) {
            group.waiting.retain(|seq| group.attempts[seq].not_before > now);
        }
        let mut expected = self.expire_leases(now);
        expected.extend(self.expire_messages(now));
        expected.extend(self.end_idle_groups(now));
        expected
    }

    /// Leases whose time has come end and count; their subscriptions get nothing more until they are heard.
    fn expire_leases(&mut self, now: Millis) -> Vec<Expected> {
        let due: Vec<_> = self.leases.iter().filter(|lease| !lease.settling && lease.deadline <= now).cloned().collect();
        for lease in &due {
            for subscription in self.subscriptions.iter_mut().filter(|subscription| subscription.serial == lease.serial) {
                subscription.silent = true;
            }
        }
        due.iter().map(|lease| self.end_attempt(lease.id, Cause::Expired, now, now..=now, "")).collect()
    }

    /// Expired messages that nobody holds end for each group that has not settled them; without a group they go for good.
    fn expire_messages(&mut self, now: Millis) -> Vec<Expected> {
        let mut expected = Vec::new();
        for (id, group, seq, at) in self.expiring() {
            if at > now {
                continue;
            }
            let queue = self.queues.get_mut(&id).unwrap();
            let attempt = group.and_then(|key| queue.groups[&key.group].attempts.get(&seq).copied());
            expected.push(Expected::exactly(match (queue.on_expiry(), group) {
                (OnExpiry::Dlq, _) => Proposal::DeadLetter(Box::new(DeadLetter {
                    queue: id,
                    group: group.map(|key| key.group),
                    seq,
                    reason: Reason::Expired,
                    error: String::new(),
                    attempts: attempt.map_or(0, |attempt| attempt.ended),
                    first_at: attempt.map_or(now, |attempt| attempt.first_at),
                })),
                (OnExpiry::Drop, Some(group)) => Proposal::Settle { group, seq, ending: Ending::Expired },
                (OnExpiry::Drop, None) => Proposal::Remove { queue: id, seqs: vec![seq], ending: Ending::Expired },
            }));
            match group {
                Some(key) => queue.groups.get_mut(&key.group).unwrap().leaving.insert(seq),
                None => queue.leaving.insert(seq),
            };
        }
        expected
    }

    /// Messages that will expire, for whom, and when; not those that are leased or whose end is proposed.
    fn expiring(&self) -> Vec<(QueueId, Option<GroupKey>, Seq, Millis)> {
        let mut expiring = Vec::new();
        for (id, queue) in &self.queues {
            for (seq, stored) in queue.stored.iter().filter(|(_, stored)| stored.expires_at != 0) {
                if queue.groups.is_empty() && !queue.leaving.contains(seq) {
                    expiring.push((*id, None, *seq, stored.expires_at));
                }
                for (group_id, group) in &queue.groups {
                    let key = GroupKey { queue: *id, group: *group_id };
                    if !group.settled.contains(seq) && !group.leaving.contains(seq) && !self.is_leased(key, *seq) {
                        expiring.push((*id, Some(key), *seq, stored.expires_at));
                    }
                }
            }
        }
        expiring
    }

    /// Groups that had no consumer for `group_expiry`, as far as dispatch has looked at them.
    fn end_idle_groups(&mut self, now: Millis) -> Vec<Expected> {
        let mut expected = Vec::new();
        for key in self.group_keys() {
            let is_used = self.consumers(key) > 0;
            let queue = self.queues.get_mut(&key.queue).unwrap();
            let expiry = queue.options.group_expiry_ms;
            let group = queue.groups.get_mut(&key.group).unwrap();
            match group.idle {
                Idle::Unknown if !is_used && expiry != 0 => group.idle = Idle::Since(now),
                Idle::Since(since) if since + expiry <= now => {
                    group.idle = Idle::Ending;
                    expected.push(Expected::exactly(Proposal::DeleteGroup { group: key }));
                }
                _ => {}
            }
        }
        expected
    }

    /// When dispatch must look again at the latest.
    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        let leases = self.leases.iter().filter(|lease| !lease.settling).map(|lease| lease.deadline);
        let groups = || self.queues.values().flat_map(|queue| queue.groups.values().map(move |group| (queue, group)));
        let retries = groups().flat_map(|(_, group)| group.waiting.iter().map(|seq| group.attempts[seq].not_before));
        let idle = groups().filter_map(|(queue, group)| match group.idle {
            Idle::Since(since) => Some(since + queue.options.group_expiry_ms),
            Idle::Unknown | Idle::Ending => None,
        });
        let expiring = self.expiring().into_iter().map(|(.., at)| at);
        leases.chain(retries).chain(idle).chain(expiring).chain(self.queues.values().filter_map(|queue| queue.next_age())).min()
    }

    /// When the next delayed message falls due.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.queues.values().filter_map(|queue| queue.delayed.keys().next().map(|key| key.due)).min()
    }
}
