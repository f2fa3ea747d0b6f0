//! The options of a queue: one table, used by `queue create` for that queue and by `serve` for the queues that it will make.
//!
//! Values become [`QueueOptions`] of the wire; what they mean is the broker's business (docs/operating.md).

use clap::{ArgMatches, Args, Command, FromArgMatches};
use qwerq_proto::wire::QueueOptions;
use serde_json::{Value, json};

use crate::setting::{Setting, count, one_of};
use crate::{duration, size};

/// Every queue option.
pub(crate) const QUEUE_OPTIONS: &[Setting<QueueOptions>] = &[
    Setting {
        flag: "mode",
        short: None,
        value: "queue|stream",
        default: "queue",
        doc: "A queue, where acknowledged messages go, or a stream, where they stay.",
        set: |o, text| store(&mut o.mode, one_of(text, &["queue", "stream"])),
    },
    Setting {
        flag: "schema-mode",
        short: None,
        value: "permissive|strict",
        default: "the broker's",
        doc: "Whether a payload needs a contract and may carry unknown fields.",
        set: |o, text| store(&mut o.schema_mode, one_of(text, &["permissive", "strict"])),
    },
    Setting {
        flag: "on-invalid",
        short: None,
        value: "reject|dlq",
        default: "reject",
        doc: "What happens to a payload that breaks the contract.",
        set: |o, text| store(&mut o.on_invalid, one_of(text, &["reject", "dlq"])),
    },
    Setting {
        flag: "compatibility",
        short: None,
        value: "LEVEL[,DIRECTION[,AGAINST]]",
        default: "wire-json,full,last",
        doc: "What a new contract version must keep: none, wire, wire-json or source; \
              backward, forward or full; against last or all.",
        set: |o, text| store(&mut o.compatibility, compatibility(text)),
    },
    Setting {
        flag: "visibility-timeout",
        short: None,
        value: "DURATION",
        default: "30s",
        doc: "How long a delivered message is held for its consumer before it is delivered again.",
        set: |o, text| store(&mut o.visibility_timeout_ms, at_least_1ms(text)),
    },
    Setting {
        flag: "max-deliveries",
        short: None,
        value: "N",
        default: "5",
        doc: "Deliveries of a message before --on-failure decides.",
        set: |o, text| store(&mut o.max_deliveries, count(text)),
    },
    Setting {
        flag: "on-failure",
        short: None,
        value: "dlq|drop|retry-forever",
        default: "dlq",
        doc: "What happens after --max-deliveries.",
        set: |o, text| store(&mut o.on_failure, one_of(text, &["dlq", "drop", "retry-forever"])),
    },
    Setting {
        flag: "retry-backoff",
        short: None,
        value: "FIRST[..MAX]",
        default: "1s..60s",
        doc: "Wait before a nacked message comes again: the first, doubling up to the longest; 0s or none: at once.",
        set: retry_backoff,
    },
    Setting {
        flag: "max-messages",
        short: None,
        value: "N",
        default: "1000000, none for a stream",
        doc: "Messages that the queue holds at most, or none for no limit.",
        set: |o, text| store(&mut o.max_messages, count_or_none(text)),
    },
    Setting {
        flag: "max-bytes",
        short: None,
        value: "SIZE",
        default: "1GiB",
        doc: "Bytes that the queue holds at most.",
        set: |o, text| store(&mut o.max_bytes, size::parse(text)),
    },
    Setting {
        flag: "max-age",
        short: None,
        value: "DURATION",
        default: "none",
        doc: "How long a stream keeps its messages.",
        set: |o, text| store(&mut o.max_age_ms, duration_or_none(text)),
    },
    Setting {
        flag: "on-full",
        short: None,
        value: "reject|drop-oldest",
        default: "reject, drop-oldest for a stream",
        doc: "What happens to a publish at --max-messages or --max-bytes.",
        set: |o, text| store(&mut o.on_full, one_of(text, &["reject", "drop-oldest"])),
    },
    Setting {
        flag: "dedup-window",
        short: None,
        value: "DURATION",
        default: "5m",
        doc: "How long an idempotency key is remembered.",
        set: |o, text| store(&mut o.dedup_window_ms, duration::parse_ms(text)),
    },
    Setting {
        flag: "dedup-max-keys",
        short: None,
        value: "N",
        default: "1000000",
        doc: "Idempotency keys remembered at most; beyond it keyed publishes are refused.",
        set: |o, text| store(&mut o.dedup_max_keys, count(text)),
    },
    Setting {
        flag: "message-ttl",
        short: None,
        value: "DURATION",
        default: "none",
        doc: "How long a message waits before it expires.",
        set: |o, text| store(&mut o.message_ttl_ms, duration_or_none(text)),
    },
    Setting {
        flag: "on-expiry",
        short: None,
        value: "drop|dlq",
        default: "drop",
        doc: "What happens to an expired message.",
        set: |o, text| store(&mut o.on_expiry, one_of(text, &["drop", "dlq"])),
    },
    Setting {
        flag: "delay",
        short: None,
        value: "DURATION",
        default: "none",
        doc: "How long a message waits before it can be delivered.",
        set: |o, text| store(&mut o.delay_ms, duration_or_none(text)),
    },
    Setting {
        flag: "max-message-bytes",
        short: None,
        value: "SIZE",
        default: "1MiB",
        doc: "Largest message, its headers included.",
        set: |o, text| store(&mut o.max_message_bytes, size::parse(text)),
    },
    Setting {
        flag: "group-expiry",
        short: None,
        value: "DURATION",
        default: "none",
        doc: "A consumer group without consumers for so long is removed.",
        set: |o, text| store(&mut o.group_expiry_ms, duration_or_none(text)),
    },
    Setting {
        flag: "max-unsettled",
        short: None,
        value: "N",
        default: "1000000",
        doc: "Intervals that a group may settle above its floor before dispatch pauses.",
        set: |o, text| store(&mut o.max_unsettled, count(text)),
    },
];

/// The flags of the table, as `queue create` takes them.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueueOptionArgs(pub(crate) Box<QueueOptions>);

impl Args for QueueOptionArgs {
    fn augment_args(command: Command) -> Command {
        command.args(QUEUE_OPTIONS.iter().map(|option| option.argument(false)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        QueueOptionArgs::augment_args(command)
    }
}

impl FromArgMatches for QueueOptionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<QueueOptionArgs, clap::Error> {
        let mut args = QueueOptionArgs::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in QUEUE_OPTIONS {
            if let Some(text) = matches.get_one::<String>(option.flag) {
                (option.set)(&mut self.0, text).map_err(|why| clap::Error::raw(clap::error::ErrorKind::InvalidValue, why))?;
            }
        }
        Ok(())
    }
}

/// The flags of the table, as `queue update` takes them: what is left out stays.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueueChangeArgs(pub(crate) QueueOptionArgs);

impl Args for QueueChangeArgs {
    fn augment_args(command: Command) -> Command {
        command.args(QUEUE_OPTIONS.iter().map(Setting::change))
    }

    fn augment_args_for_update(command: Command) -> Command {
        QueueChangeArgs::augment_args(command)
    }
}

impl FromArgMatches for QueueChangeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<QueueChangeArgs, clap::Error> {
        QueueOptionArgs::from_arg_matches(matches).map(QueueChangeArgs)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// The options as `queue info` shows them: name and value, in the table's order; those that the broker did not state are left out.
pub(crate) fn shown(options: &QueueOptions) -> Vec<(&'static str, String)> {
    let word = |value: &Option<String>| value.clone();
    let number = |value: Option<u64>| value.map(|n| n.to_string());
    let number_or_none = |value: Option<u64>| value.map(|n| if n == 0 { "none".to_owned() } else { n.to_string() });
    let bytes = |value: Option<u64>| value.map(size::format);
    let time = |value: Option<u64>| value.map(duration::format_ms);
    let time_or_none = |value: Option<u64>| value.map(|ms| if ms == 0 { "none".to_owned() } else { duration::format_ms(ms) });
    let backoff = options.retry_backoff_first_ms.map(|first| {
        if first == 0 {
            return "none".to_owned();
        }
        let max = options.retry_backoff_max_ms.unwrap_or(first);
        format!("{}..{}", duration::format_ms(first), duration::format_ms(max))
    });
    let all = [
        ("mode", word(&options.mode)),
        ("schema_mode", word(&options.schema_mode)),
        ("on_invalid", word(&options.on_invalid)),
        ("compatibility", word(&options.compatibility)),
        ("visibility_timeout", time(options.visibility_timeout_ms)),
        ("max_deliveries", options.max_deliveries.map(|n| n.to_string())),
        ("on_failure", word(&options.on_failure)),
        ("retry_backoff", backoff),
        ("max_messages", number_or_none(options.max_messages)),
        ("max_bytes", bytes(options.max_bytes)),
        ("max_age", time_or_none(options.max_age_ms)),
        ("on_full", word(&options.on_full)),
        ("dedup_window", time(options.dedup_window_ms)),
        ("dedup_max_keys", number(options.dedup_max_keys)),
        ("message_ttl", time_or_none(options.message_ttl_ms)),
        ("on_expiry", word(&options.on_expiry)),
        ("delay", time_or_none(options.delay_ms)),
        ("max_message_bytes", bytes(options.max_message_bytes)),
        ("group_expiry", time_or_none(options.group_expiry_ms)),
        ("max_unsettled", number(options.max_unsettled)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The options for programs: names as on the wire, times in milliseconds, sizes in bytes; 0 is none.
pub(crate) fn json(options: &QueueOptions) -> Value {
    let all = json!({
        "mode": options.mode,
        "schema_mode": options.schema_mode,
        "on_invalid": options.on_invalid,
        "compatibility": options.compatibility,
        "visibility_timeout_ms": options.visibility_timeout_ms,
        "max_deliveries": options.max_deliveries,
        "on_failure": options.on_failure,
        "retry_backoff_first_ms": options.retry_backoff_first_ms,
        "retry_backoff_max_ms": options.retry_backoff_max_ms,
        "max_messages": options.max_messages,
        "max_bytes": options.max_bytes,
        "max_age_ms": options.max_age_ms,
        "on_full": options.on_full,
        "dedup_window_ms": options.dedup_window_ms,
        "dedup_max_keys": options.dedup_max_keys,
        "message_ttl_ms": options.message_ttl_ms,
        "on_expiry": options.on_expiry,
        "delay_ms": options.delay_ms,
        "max_message_bytes": options.max_message_bytes,
        "group_expiry_ms": options.group_expiry_ms,
        "max_unsettled": options.max_unsettled,
    });
    match all {
        Value::Object(all) => all.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}

fn store<V>(field: &mut Option<V>, value: Result<V, String>) -> Result<(), String> {
    *field = Some(value?);
    Ok(())
}

fn at_least_1ms(text: &str) -> Result<u64, String> {
    match duration::parse_ms(text)? {
        0 => Err("it must be longer than 0".to_owned()),
        ms => Ok(ms),
    }
}

/// On the wire 0 means none.
fn duration_or_none(text: &str) -> Result<u64, String> {
    if text == "none" { Ok(0) } else { duration::parse_ms(text) }
}

fn count_or_none(text: &str) -> Result<u64, String> {
    if text == "none" { Ok(0) } else { count(text) }
}

fn retry_backoff(options: &mut QueueOptions, text: &str) -> Result<(), String> {
    let (first, max) = match text.split_once("..") {
        None if text == "none" => (0, None),
        Some((first, max)) => (duration::parse_ms(first)?, Some(duration::parse_ms(max)?)),
        None => (duration::parse_ms(text)?, None),
    };
    if max.is_some_and(|max| max < first) {
        return Err(format!("'{text}': the longest wait is shorter than the first"));
    }
    options.retry_backoff_first_ms = Some(first);
    // A first wait beyond the default longest one would otherwise never be kept.
    options.retry_backoff_max_ms = max.or((first > 60_000).then_some(first));
    Ok(())
}

/// The full form `LEVEL,DIRECTION,AGAINST` of what may be abbreviated.
fn compatibility(text: &str) -> Result<String, String> {
    let mut parts = text.split(',');
    let level = one_of(parts.next().unwrap_or_default(), &["none", "wire", "wire-json", "source"])?;
    let direction = one_of(parts.next().unwrap_or("full"), &["backward", "forward", "full"])?;
    let against = one_of(parts.next().unwrap_or("last"), &["last", "all"])?;
    match parts.next() {
        None => Ok(format!("{level},{direction},{against}")),
        Some(_) => Err(format!("'{text}' has more than three parts")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(flag: &str, text: &str) -> Result<QueueOptions, String> {
        let option = QUEUE_OPTIONS.iter().find(|option| option.flag == flag).expect("a known flag");
        let mut options = QueueOptions::default();
        (option.set)(&mut options, text).map(|()| options)
    }

    #[test]
    fn every_value_is_stored_and_shown_as_written() {
        for (flag, text) in [
            ("mode", "stream"),
            ("schema-mode", "strict"),
            ("on-invalid", "dlq"),
            ("compatibility", "source,backward,all"),
            ("visibility-timeout", "5m"),
            ("max-deliveries", "7"),
            ("on-failure", "retry-forever"),
            ("retry-backoff", "500ms..2h"),
            ("retry-backoff", "none"),
            ("max-messages", "10000000"),
            ("max-messages", "none"),
            ("max-bytes", "64GiB"),
            ("max-age", "7d"),
            ("on-full", "drop-oldest"),
            ("dedup-window", "0"),
            ("dedup-max-keys", "1"),
            ("message-ttl", "none"),
            ("on-expiry", "dlq"),
            ("delay", "10s"),
            ("max-message-bytes", "64KiB"),
            ("group-expiry", "2h"),
            ("max-unsettled", "1000"),
        ] {
            let options = set(flag, text).expect(flag);
            assert_eq!(shown(&options), [(&*flag.replace('-', "_"), text.to_owned())]);
        }
        assert_eq!(QUEUE_OPTIONS.len(), 20);
    }

    #[test]
    fn abbreviations_are_completed() {
        for (text, full) in [("wire", "wire,full,last"), ("source,forward", "source,forward,last"), ("none,full,all", "none,full,all")] {
            assert_eq!(set("compatibility", text).expect(text).compatibility.as_deref(), Some(full));
        }
        let backoff = set("retry-backoff", "2s").expect("one wait");
        assert_eq!((backoff.retry_backoff_first_ms, backoff.retry_backoff_max_ms), (Some(2000), None));
        let long = set("retry-backoff", "5m").expect("a long wait");
        assert_eq!(long.retry_backoff_max_ms, Some(300_000));
    }

    #[test]
    fn wrong_values_are_refused() {
        for (flag, text) in [
            ("mode", "topic"),
            ("compatibility", "wire,full,last,x"),
            ("compatibility", "wire,,last"),
            ("visibility-timeout", "0"),
            ("max-deliveries", "0"),
            ("max-deliveries", "4294967296"),
            ("retry-backoff", "5m..1s"),
            ("retry-backoff", "..1s"),
            ("max-bytes", "1MB"),
        ] {
            assert!(set(flag, text).is_err(), "{flag} {text}");
        }
    }
}
