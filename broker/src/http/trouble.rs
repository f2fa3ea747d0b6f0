//! What is wrong with a queue, worst first, and the order of queues by it.
//!
//! It judges the figures of a queue and how many dead letters it has; what to do about it, `explain` knows. The dashboard's overview and
//! the events that keep it live say the same, since both ask here.

use std::cmp::Reverse;
use std::collections::HashMap;

use qwerq_proto::{name, wire};
use serde::Serialize;

use super::quantity::{count, counted};
use super::{GroupFigures, QueueStats};

/// From this share of a limit on a queue is near full, in percent.
const NEAR_FULL_PERCENT: u64 = 80;

/// What of a queue can be trouble.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Signs {
    /// Dead letters that there are.
    dead_letters: u64,
    /// How many of them came in the last ten seconds.
    recent: u64,
    stuck_keys: u64,
    unattended: u64,
    /// How much of the nearer limit is used.
    fill_percent: u64,
    refuses: bool,
}

impl Signs {
    fn of(queue: &QueueStats, dead_letters: u64, recent: u64) -> Signs {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share in percent, rounded before it is cut")]
        let fill_percent = ((queue.fill * 10_000.0).round() / 100.0) as u64;
        let &QueueStats { stuck_keys, unattended, refuses, .. } = queue;
        Signs { dead_letters, recent, stuck_keys, unattended, fill_percent, refuses }
    }

    /// Of what QUEUE_INFO says of a queue.
    pub(super) fn of_info(queue: &wire::QueueInfo, dead_letters: u64) -> Signs {
        let groups = || queue.groups.iter().cloned().map(GroupFigures::from);
        Signs {
            dead_letters,
            recent: 0,
            stuck_keys: groups().map(|group| group.stuck_keys()).sum(),
            unattended: groups().map(|group| group.unattended()).max().unwrap_or(0),
            fill_percent: fullest_percent(queue),
            refuses: queue.options.as_ref().is_some_and(|options| options.on_full.as_deref() == Some("reject")),
        }
    }

    /// What is wrong, worst first.
    pub(super) fn troubles(self) -> Vec<Trouble> {
        let Signs { dead_letters: stored, recent, stuck_keys, unattended, fill_percent, refuses } = self;
        let found = [
            (stored > 0).then_some(Trouble::DeadLetters { recent, stored }),
            (stuck_keys > 0).then_some(Trouble::StuckKeys(stuck_keys)),
            (unattended > 0).then_some(Trouble::NoConsumer(unattended)),
            // A stream that drops its oldest is meant to be full.
            (refuses && fill_percent >= NEAR_FULL_PERCENT).then_some(Trouble::NearFull(fill_percent)),
        ];
        let mut troubles: Vec<Trouble> = found.into_iter().flatten().collect();
        troubles.sort_by_key(|trouble| Reverse(weight(*trouble)));
        troubles
    }
}

/// A queue as it is judged.
#[derive(Debug, Clone, Default)]
pub(super) struct Judged {
    /// It holds the dead letters of another queue, and is judged as a part of that one.
    pub(super) is_part: bool,
    /// In its dead letter queue.
    pub(super) dead_letters: u64,
    /// Worst first.
    pub(super) troubles: Vec<Trouble>,
}

/// Judges all queues, in their order; `lately` is how many dead letters each got in the last ten seconds.
pub(super) fn judge(queues: &[QueueStats], lately: impl Fn(usize) -> u64) -> Vec<Judged> {
    let letters: HashMap<&str, u64> =
        queues.iter().filter_map(|queue| Some((queue.name.strip_suffix(name::DLQ_SUFFIX)?, queue.depth))).collect();
    // Only the owners of dead letters are asked for by name: they are few.
    let owners: std::collections::HashSet<&str> =
        queues.iter().map(|queue| &*queue.name).filter(|name| letters.contains_key(name)).collect();
    let judge = |(at, queue): (usize, &QueueStats)| {
        if queue.name.strip_suffix(name::DLQ_SUFFIX).is_some_and(|owner| owners.contains(owner)) {
            return Judged { is_part: true, ..Judged::default() };
        }
        let dead_letters = letters.get(&*queue.name).copied().unwrap_or(0);
        Judged { is_part: false, dead_letters, troubles: Signs::of(queue, dead_letters, lately(at)).troubles() }
    };
    queues.iter().enumerate().map(judge).collect()
}

/// One thing that is wrong. The order of the variants is the order of their weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// There are dead letters, and how many came lately.
    DeadLetters { recent: u64, stored: u64 },
    /// Ordering keys wait behind a message that fails, or that nobody takes.
    StuckKeys(u64),
    /// Messages wait for a group that nobody consumes for.
    NoConsumer(u64),
    /// The queue is about to refuse, or to drop its oldest.
    NearFull(u64),
}

/// A trouble as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct TroubleView {
    /// What kind it is, for programs.
    kind: &'static str,
    /// `bad` or `warn`; a class of the style sheet too.
    pub(super) severity: &'static str,
    /// In words.
    pub(super) text: String,
}

impl From<Trouble> for TroubleView {
    fn from(trouble: Trouble) -> TroubleView {
        let (kind, severity, text) = match trouble {
            Trouble::DeadLetters { recent: 0, stored } => ("dead-letters", "warn", counted(stored, "dead letter", "dead letters")),
            Trouble::DeadLetters { recent, stored } => {
                ("dead-letters", "bad", format!("{}, {} in 10 s", counted(stored, "dead letter", "dead letters"), count(recent)))
            }
            Trouble::StuckKeys(keys) => ("stuck-keys", "bad", counted(keys, "key stuck", "keys stuck")),
            Trouble::NoConsumer(ready) => ("no-consumer", "bad", format!("no consumer, {} waiting", count(ready))),
            Trouble::NearFull(percent) => ("near-full", if percent >= 100 { "bad" } else { "warn" }, format!("{percent}% full")),
        };
        TroubleView { kind, severity, text }
    }
}

/// The share of the limit that is used most.
pub(super) fn fullest_percent(queue: &wire::QueueInfo) -> u64 {
    let Some(options) = &queue.options else { return 0 };
    let percent = |used: u64, limit: Option<u64>| limit.filter(|limit| *limit > 0).map_or(0, |limit| used.saturating_mul(100) / limit);
    percent(queue.depth, options.max_messages).max(percent(queue.bytes, options.max_bytes))
}

/// Growth of the dead letters first, then stuck keys, no consumers, near full, and dead letters that lie there.
fn weight(trouble: Trouble) -> (u8, u64) {
    match trouble {
        Trouble::DeadLetters { recent, .. } if recent > 0 => (5, recent),
        Trouble::StuckKeys(keys) => (4, keys),
        Trouble::NoConsumer(ready) => (3, ready),
        Trouble::NearFull(percent) => (2, percent),
        Trouble::DeadLetters { stored, .. } => (1, stored),
    }
}

/// Where queues with these troubles stand: smaller is further up.
pub(super) fn rank(troubles: &[Trouble]) -> Reverse<Vec<(u8, u64)>> {
    Reverse(troubles.iter().map(|trouble| weight(*trouble)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One group's figures as a queue's, of which 100 messages make it full.
    fn queue(lag: u64, consumers: u32, blocked_keys: u64, backing_off: u64) -> wire::QueueInfo {
        wire::QueueInfo {
            options: Some(wire::QueueOptions { max_messages: Some(100), on_full: Some("reject".into()), ..Default::default() }),
            groups: vec![wire::GroupInfo { lag, consumers, blocked_keys, backing_off, ..Default::default() }],
            depth: lag,
            ..Default::default()
        }
    }

    fn troubles(queue: &wire::QueueInfo, dead: u64, recent: u64) -> Vec<Trouble> {
        Signs { recent, ..Signs::of_info(queue, dead) }.troubles()
    }

    #[test]
    fn a_queue_that_works_has_no_trouble() {
        assert_eq!(troubles(&queue(50, 1, 3, 0), 0, 0), []);
        assert_eq!(troubles(&queue(0, 0, 0, 0), 0, 0), []);
    }

    #[test]
    fn each_trouble_is_seen() {
        assert_eq!(troubles(&queue(50, 0, 0, 0), 0, 0), [Trouble::NoConsumer(50)]);
        assert_eq!(troubles(&queue(50, 1, 3, 1), 0, 0), [Trouble::StuckKeys(3)]);
        assert_eq!(troubles(&queue(80, 1, 0, 0), 0, 0), [Trouble::NearFull(80)]);
        assert_eq!(troubles(&queue(1, 1, 0, 0), 7, 0), [Trouble::DeadLetters { recent: 0, stored: 7 }]);
    }

    #[test]
    fn dead_letters_that_grow_come_first_and_those_that_lie_there_last() {
        let ranked =
            |dead, recent| troubles(&queue(100, 0, 2, 0), dead, recent).into_iter().map(|trouble| weight(trouble).0).collect::<Vec<_>>();
        assert_eq!(ranked(5, 1), [5, 4, 3, 2]);
        assert_eq!(ranked(5, 0), [4, 3, 2, 1]);
        let worst_first = [
            vec![Trouble::DeadLetters { recent: 1, stored: 1 }],
            vec![Trouble::StuckKeys(2), Trouble::NoConsumer(9)],
            vec![Trouble::StuckKeys(2)],
            vec![Trouble::NoConsumer(900)],
            vec![Trouble::NearFull(99)],
            vec![Trouble::DeadLetters { recent: 0, stored: 900 }],
            vec![],
        ];
        assert!(worst_first.is_sorted_by_key(|troubles| rank(troubles)));
    }

    #[test]
    fn a_dead_letter_queue_is_judged_with_its_queue_or_alone() {
        let queue = |name: &str, depth| QueueStats { name: name.into(), depth, ..QueueStats::default() };
        let queues = [queue("gone.dlq", 2), queue("orders", 1), queue("orders.dlq", 3)];
        let judged = judge(&queues, |at| if at == 1 { 2 } else { 0 });
        let seen: Vec<_> = judged.iter().map(|judged| (judged.is_part, judged.dead_letters)).collect();
        assert_eq!(seen, [(false, 0), (false, 3), (true, 0)]);
        assert_eq!(judged[1].troubles, [Trouble::DeadLetters { recent: 2, stored: 3 }]);
    }

    #[test]
    fn figures_of_the_shard_and_of_the_wire_are_judged_alike() {
        let stats = |fill| QueueStats { fill, refuses: true, stuck_keys: 3, unattended: 50, ..QueueStats::default() };
        for (fill, depth) in [(0.79, 79), (0.8, 80), (0.83, 83), (1.0, 100)] {
            let wire = wire::QueueInfo { depth, ..queue(50, 0, 3, 0) };
            assert_eq!(Signs::of(&stats(fill), 0, 0).troubles(), troubles(&wire, 0, 0), "{fill}");
        }
    }
}
