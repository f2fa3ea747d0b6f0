//! What the shard tells of itself: to the metrics page, and to those who watch queues.

use qwerq_core::dispatch::GroupKey;
use qwerq_core::options::{Mode, OnFull};
use qwerq_core::{Group, Queue};

use crate::http::{GroupFigures, GroupsOf, QueueStats, Stats};

use super::Shard;

/// Queues that are told of in one go: what else waits for the shard waits no longer than about a millisecond.
const QUEUES_AT_ONCE: usize = 1_000;

impl Shard {
    /// The shard as a whole, and the queues behind the name `after`, as many as are told of in one go.
    pub(super) fn stats(&self, groups_of: GroupsOf, after: &str) -> Stats {
        let count = self.state.queue_count();
        let mut stats = Stats {
            queues: Vec::with_capacity(count.min(QUEUES_AT_ONCE)),
            in_flight: self.dispatch.in_flight(),
            credit: self.dispatch.free_credit(),
            outbox_bytes: self.sessions.values().map(|session| session.outbox.waiting_bytes()).sum(),
            tail_bytes: self.payloads.tail_bytes(),
            journal_bytes: self.journal_bytes(),
            store_bytes: self.room.map_used,
            store_bytes_max: self.room.map_bytes,
            disk_free_bytes: self.room.disk_free,
            storage_full: self.storage_full,
            ..Stats::default()
        };
        for queue in self.state.queues_after(after).take(QUEUES_AT_ONCE) {
            let figures = self.figures(queue, groups_of.wants(count));
            stats.consumers += figures.consumers;
            stats.groups += queue.groups().len() as u64;
            stats.lag += queue.groups().values().map(|group| queue.lag(group)).sum::<u64>();
            stats.queues.push(figures);
        }
        stats.is_partial = stats.queues.len() == QUEUES_AT_ONCE;
        stats
    }

    fn journal_bytes(&self) -> u64 {
        let of_cluster = || self.reign.as_ref().map(|reign| reign.link.journal_bytes());
        self.log.journal_bytes().or_else(of_cluster).unwrap_or_default()
    }

    /// What a queue holds; with `groups`, each group too.
    pub(super) fn figures(&self, queue: &Queue, groups: bool) -> QueueStats {
        let live = queue.messages().count();
        let mut figures = QueueStats {
            name: queue.name.clone(),
            is_stream: queue.options.mode == Mode::Stream,
            depth: queue.stored_messages(),
            bytes: queue.stored_bytes(),
            delayed: queue.delayed().count(),
            over_limit: queue.is_dlq() && queue.is_over_limits(),
            fill: fill(queue),
            refuses: queue.options.on_full == OnFull::Reject,
            schema_version: queue.schemas().active().map_or(0, |record| record.version),
            activity: self.activities.get(queue.id),
            ..QueueStats::default()
        };
        let mut most_busy = 0;
        for group in queue.groups().values() {
            let of_group = self.group_figures(queue, group);
            figures.in_flight += of_group.in_flight;
            figures.backing_off += of_group.backing_off;
            figures.blocked_keys += of_group.blocked_keys;
            figures.consumers += of_group.consumers;
            figures.stuck_keys += of_group.stuck_keys();
            figures.unattended = figures.unattended.max(of_group.unattended());
            most_busy = most_busy.max(of_group.in_flight + of_group.backing_off);
            if groups {
                figures.groups.push(GroupFigures { name: group.name.clone(), ..of_group });
            }
        }
        figures.groups.sort_by(|a, b| a.name.cmp(&b.name));
        // With several groups: what the busiest one still has to take.
        figures.ready = live.saturating_sub(most_busy);
        figures
    }

    /// A group's figures, without its name.
    fn group_figures(&self, queue: &Queue, group: &Group) -> GroupFigures {
        let stats = self.dispatch.group_stats(GroupKey { queue: queue.id, group: group.id });
        GroupFigures {
            name: String::new(),
            ack_floor: group.ack_floor(),
            lag: queue.lag(group),
            in_flight: stats.in_flight,
            backing_off: stats.backing_off,
            blocked_keys: stats.blocked_keys,
            consumers: stats.consumers.into(),
        }
    }
}

/// How near a queue is to the nearer of its limits.
fn fill(queue: &Queue) -> f64 {
    let of = |value: u64, limit: u64| if limit == 0 { 0.0 } else { approximately(value) / approximately(limit) };
    of(queue.stored_messages(), queue.options.max_messages).max(of(queue.stored_bytes(), queue.options.max_bytes))
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people needs no 64 bits")]
fn approximately(value: u64) -> f64 {
    value as f64
}
