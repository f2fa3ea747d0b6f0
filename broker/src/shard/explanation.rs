//! What EXPLAIN says: a stable cause, one sentence for people, and details for programs. It decides nothing.

use std::collections::HashMap;

use qwerq_core::dispatch::{Consumers, GroupStats, Head, Obstacle};
use qwerq_core::{DelayedKey, Millis, Queue, Seq, SessionId};
use qwerq_proto::wire;

/// A dead letter that a message became.
#[derive(Debug)]
pub(super) struct Letter {
    /// Its position in the dead letter queue.
    pub(super) seq: Seq,
    /// Where the message was.
    pub(super) source_seq: Option<Seq>,
    /// Whose.
    pub(super) group: Option<String>,
    /// Why.
    pub(super) reason: String,
    /// The consumer's words, or the broker's.
    pub(super) error: String,
}

/// Finds words for what is in the way in one queue.
pub(super) struct Teller<'a> {
    pub(super) queue: &'a Queue,
    pub(super) now: Millis,
    /// What the client of a connection calls itself.
    pub(super) client: &'a dyn Fn(SessionId) -> &'a str,
}

/// Details for programs.
type Details = Vec<(&'static str, String)>;

impl<'a> Teller<'a> {
    pub(super) fn message(&self, group: &str, seq: Seq, obstacle: &Obstacle) -> wire::Explanation {
        let mut details = vec![("seq", seq.to_string())];
        self.add_details(obstacle, &mut details);
        explanation(group, obstacle.name(), self.message_text(group, seq, obstacle), details)
    }

    pub(super) fn key(&self, group: &str, ordering_key: &str, head: &Head) -> wire::Explanation {
        let Some(seq) = head.seq else {
            let text = format!("group `{group}` has no unsettled message with the ordering key `{ordering_key}`");
            return explanation(group, head.obstacle.name(), text, vec![("ordering_key", ordering_key.to_owned())]);
        };
        let mut told = self.message(group, seq, &head.obstacle);
        told.text = format!("key `{ordering_key}` waits in group `{group}`: {}", told.text);
        told.details.insert("ordering_key".to_owned(), ordering_key.to_owned());
        told
    }

    pub(super) fn group(&self, group: &str, head: &Head, stats: GroupStats, lag: u64) -> wire::Explanation {
        let mut told = match head.seq {
            Some(seq) => {
                let told = self.message(group, seq, &head.obstacle);
                wire::Explanation { text: format!("group `{group}` waits: {}", told.text), ..told }
            }
            None => explanation(group, head.obstacle.name(), format!("group `{group}` is idle: it has settled every message"), Vec::new()),
        };
        let figures = [
            ("lag", lag),
            ("in_flight", stats.in_flight),
            ("backing_off", stats.backing_off),
            ("blocked_keys", stats.blocked_keys),
            ("consumers", stats.consumers.into()),
        ];
        told.details.extend(figures.map(|(name, value)| (name.to_owned(), value.to_string())));
        told
    }

    pub(super) fn delayed(&self, key: DelayedKey) -> wire::Explanation {
        let remaining_ms = key.due.saturating_sub(self.now);
        let text = format!("the message is in delay: it falls due in {}, and gets its position then", duration(remaining_ms));
        explanation("", "delayed", text, vec![("remaining_ms", remaining_ms.to_string()), ("due_ms", key.due.to_string())])
    }

    pub(super) fn dead_lettered(&self, letter: &Letter) -> wire::Explanation {
        let message = letter.source_seq.map_or_else(|| "the message".to_owned(), |seq| format!("message {seq}"));
        let by = letter.group.as_ref().map_or_else(String::new, |group| format!(" by group `{group}`"));
        let Letter { seq, reason, error, .. } = letter;
        let dlq = self.queue.dlq_name();
        let text = format!("{message} is dead-lettered{by} with the reason {reason} ({error}): it is message {seq} of `{dlq}`");
        let mut details = vec![("reason", reason.clone()), ("error", error.clone()), ("dead_letter_seq", seq.to_string())];
        details.extend(letter.source_seq.map(|seq| ("seq", seq.to_string())));
        explanation(letter.group.as_deref().unwrap_or_default(), "dead-lettered", text, details)
    }

    pub(super) fn no_group(&self, seq: Option<Seq>) -> wire::Explanation {
        let name = &self.queue.name;
        let text = match seq {
            Some(seq) => format!("queue `{name}` has no group: message {seq} is kept for whoever comes"),
            None => format!("queue `{name}` has no group: its messages are kept for whoever comes"),
        };
        explanation("", "no-group", text, seq.map(|seq| ("seq", seq.to_string())).into_iter().collect())
    }

    pub(super) fn unknown(&self, group: &str, which: &str) -> wire::Explanation {
        let text =
            format!("queue `{}` has no message {which}: it was settled by all groups, expired or purged, or never there", self.queue.name);
        explanation(group, Obstacle::NotFound.name(), text, Vec::new())
    }

    fn message_text(&self, group: &str, seq: Seq, obstacle: &Obstacle) -> String {
        let most = self.queue.options.max_deliveries;
        match obstacle {
            Obstacle::NotFound => format!("queue `{}` has no message {seq}", self.queue.name),
            Obstacle::Settled => format!("message {seq} is settled for group `{group}`: acknowledged, dropped, expired or purged"),
            Obstacle::Expired => format!("message {seq} has expired and is being taken away"),
            Obstacle::Leased { session, is_detached, attempt, remaining_ms, is_alone } => {
                let how = if *is_detached { "detached by" } else { "by" };
                let alone = if *is_alone { ", alone since it is a suspect" } else { "" };
                let (who, remaining) = (self.who(*session), duration(*remaining_ms));
                format!("message {seq} is leased {how} {who} with {remaining} remaining, attempt {attempt} of {most}{alone}")
            }
            Obstacle::Settling { attempt } => {
                format!("message {seq} is being settled: the end of attempt {attempt} is on its way to the disk")
            }
            Obstacle::BackingOff { attempts, remaining_ms } => {
                format!("message {seq} is in backoff for another {} after attempt {attempts} of {most}", duration(*remaining_ms))
            }
            Obstacle::KeyBlocked { by, because } => {
                format!("message {seq} has its key blocked by message {by}: {}", self.message_text(group, *by, because))
            }
            Obstacle::IsolatedSuspect { after, remaining_ms } => {
                let until = match (after, remaining_ms) {
                    (Some(other), _) => format!("until suspect {other} is done"),
                    (None, Some(remaining)) => format!("for a consumer to become idle, {} at most", duration(*remaining)),
                    (None, None) => "for a consumer".to_owned(),
                };
                format!("message {seq} is an isolated suspect on its last attempt and waits {until}")
            }
            Obstacle::NoConsumer => format!("message {seq} is ready, and group `{group}` has no consumer"),
            Obstacle::NoCredit(consumers) => {
                format!("message {seq} is ready, and group `{group}` has no credit: {}", consumers_text(consumers))
            }
            Obstacle::SilentConsumers(consumers) => {
                format!(
                    "message {seq} is ready, and no consumer of group `{group}` was heard since its lease expired: {}",
                    consumers_text(consumers)
                )
            }
            Obstacle::Paused { intervals, limit } => {
                format!(
                    "message {seq} waits while group `{group}` is paused: {intervals} intervals are settled out of order, max_unsettled is {limit}"
                )
            }
            Obstacle::Ready => format!("message {seq} is ready and goes to the next consumer of group `{group}`"),
            // An obstacle of the group's, or one that is newer than this text.
            other => format!("message {seq} is {} in group `{group}`", other.name()),
        }
    }

    fn add_details(&self, obstacle: &Obstacle, details: &mut Details) {
        let mut add = |name, value: &dyn ToString| details.push((name, value.to_string()));
        let most = self.queue.options.max_deliveries;
        match obstacle {
            Obstacle::Leased { session, is_detached, attempt, remaining_ms, is_alone } => {
                add("connection", &session.0);
                add("client", &(self.client)(*session));
                add("detached", is_detached);
                add("attempt", attempt);
                add("max_deliveries", &most);
                add("remaining_ms", remaining_ms);
                add("suspect", is_alone);
            }
            Obstacle::Settling { attempt } => add("attempt", attempt),
            Obstacle::BackingOff { attempts, remaining_ms } => {
                add("attempts", attempts);
                add("max_deliveries", &most);
                add("remaining_ms", remaining_ms);
            }
            Obstacle::KeyBlocked { by, because } => {
                add("blocked_by", by);
                add("blocked_by_cause", &because.name());
            }
            Obstacle::IsolatedSuspect { after, remaining_ms } => {
                after.iter().for_each(|seq| add("suspect_in_flight", seq));
                remaining_ms.iter().for_each(|remaining| add("remaining_ms", remaining));
            }
            Obstacle::NoCredit(consumers) | Obstacle::SilentConsumers(consumers) => {
                add("consumers", &consumers.all);
                add("silent_consumers", &consumers.silent);
                add("paused_consumers", &consumers.paused);
                add("in_flight", &consumers.in_flight);
            }
            Obstacle::Paused { intervals, limit } => {
                add("settled_intervals", intervals);
                add("max_unsettled", limit);
            }
            _ => {}
        }
    }

    fn who(&self, session: SessionId) -> String {
        match (self.client)(session) {
            "" => format!("connection {}", session.0),
            client => format!("`{client}` on connection {}", session.0),
        }
    }
}

fn explanation(group: &str, cause: &str, text: String, details: Details) -> wire::Explanation {
    let details: HashMap<_, _> = details.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    wire::Explanation { group: group.to_owned(), cause: cause.to_owned(), text, details }
}

fn consumers_text(consumers: &Consumers) -> String {
    let plural = |count: u64, one: &str, many: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {many}") };
    let held = plural(consumers.in_flight, "unsettled message", "unsettled messages");
    let mut text = format!("{} holding {held}", plural(consumers.all.into(), "consumer", "consumers"));
    for (count, what) in [(consumers.paused, "paused"), (consumers.silent, "silent"), (consumers.reserved, "kept for a suspect")] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}

/// `450 ms`, `12.3 s`, `5 min`, `2 h 30 min`.
fn duration(ms: u64) -> String {
    let minutes = ms / 60_000;
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        120_000..7_200_000 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        for (ms, text) in
            [(0, "0 ms"), (999, "999 ms"), (12_345, "12.3 s"), (119_999, "119.9 s"), (300_000, "5 min"), (9_000_000, "2 h 30 min")]
        {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn consumers_are_counted_in_words() {
        let consumers = Consumers { all: 2, silent: 1, paused: 0, reserved: 0, in_flight: 1 };
        assert_eq!(consumers_text(&consumers), "2 consumers holding 1 unsettled message, 1 silent");
    }
}
