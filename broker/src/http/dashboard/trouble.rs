//! What is wrong with a queue, worst first, and the order of queues by it.
//!
//! It judges what QUEUE_LIST says of a queue and its dead letters; what to do about it, `explain` knows.

use std::cmp::Reverse;

use qwerq_proto::wire;

use super::quantity::{count, counted};

/// From this share of a limit on a queue is near full, in percent.
const NEAR_FULL_PERCENT: u64 = 80;

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

/// A trouble as a page shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TroubleView {
    /// The class: `bad` or `warn`.
    pub(super) severity: &'static str,
    pub(super) text: String,
}

impl Trouble {
    pub(super) fn view(self) -> TroubleView {
        let (severity, text) = match self {
            Trouble::DeadLetters { recent: 0, stored } => ("warn", counted(stored, "dead letter", "dead letters")),
            Trouble::DeadLetters { recent, stored } => {
                ("bad", format!("{}, {} in the last 10 s", counted(stored, "dead letter", "dead letters"), count(recent)))
            }
            Trouble::StuckKeys(keys) => ("bad", counted(keys, "key stuck", "keys stuck")),
            Trouble::NoConsumer(ready) => ("bad", format!("no consumer, {} waiting", count(ready))),
            Trouble::NearFull(percent) => (if percent >= 100 { "bad" } else { "warn" }, format!("{percent}% full")),
        };
        TroubleView { severity, text }
    }
}

/// What is wrong with `queue`, worst first. `dead` is how many dead letters it has, `recent` how many of them came in the last ten seconds.
pub(super) fn troubles(queue: &wire::QueueInfo, dead: u64, recent: u64) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    if dead > 0 {
        troubles.push(Trouble::DeadLetters { recent, stored: dead });
    }
    // A key whose message is being worked on is no trouble; one whose message failed, or waits for nobody, is.
    let stuck = queue.groups.iter().filter(|group| group.backing_off > 0 || group.consumers == 0).map(|group| group.blocked_keys).sum();
    if stuck > 0 {
        troubles.push(Trouble::StuckKeys(stuck));
    }
    let unattended = queue.groups.iter().filter(|group| group.consumers == 0).map(|group| group.lag).max().unwrap_or(0);
    if unattended > 0 {
        troubles.push(Trouble::NoConsumer(unattended));
    }
    // A stream that drops its oldest is meant to be full.
    let refuses = queue.options.as_ref().is_some_and(|options| options.on_full.as_deref() == Some("reject"));
    let fullest = fullest_percent(queue);
    if refuses && fullest >= NEAR_FULL_PERCENT {
        troubles.push(Trouble::NearFull(fullest));
    }
    troubles.sort_by_key(|trouble| Reverse(weight(*trouble)));
    troubles
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

    fn queue(lag: u64, consumers: u32, blocked_keys: u64, backing_off: u64) -> wire::QueueInfo {
        wire::QueueInfo {
            options: Some(wire::QueueOptions { max_messages: Some(100), on_full: Some("reject".into()), ..Default::default() }),
            groups: vec![wire::GroupInfo { lag, consumers, blocked_keys, backing_off, ..Default::default() }],
            depth: lag,
            ..Default::default()
        }
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
}
