//! What an operator does to queues, consumer groups and dead letters: the real binary against a real broker.
//!
//! The rules are the broker's and tested with it; here counts that every command reaches them and says what happened.

mod support;

use std::process::Stdio;

use serde_json::{Value, json};
use support::broker::Broker;
use support::cli::{contains_all, data, done, fails, json_lines, payload, stderr, stdout, with_stdin};

fn info(broker: &Broker, queue: &str) -> Value {
    json_lines(broker, &["queue", "info", queue, "--json"]).remove(0)
}

fn group(broker: &Broker, queue: &str, name: &str) -> Value {
    json_lines(broker, &["group", "info", name, "-q", queue, "--json"]).remove(0)
}

fn publish(broker: &Broker, queue: &str, lines: &str) {
    let output = with_stdin(broker, &["publish", "-q", queue], lines);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// The payloads of consumed or peeked lines, as text.
fn texts(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8(payload(message)).expect("text")).collect()
}

/// Flag, value at first, value after an update, and the fact that `queue info` shows.
const OPTIONS: &[(&str, &str, &str, &str)] = &[
    ("schema-mode", "strict", "permissive", "schema_mode"),
    ("on-invalid", "dlq", "reject", "on_invalid"),
    ("compatibility", "source,backward,all", "wire,forward,last", "compatibility"),
    ("visibility-timeout", "45s", "2m", "visibility_timeout"),
    ("max-deliveries", "7", "8", "max_deliveries"),
    ("on-failure", "drop", "retry-forever", "on_failure"),
    ("retry-backoff", "500ms..2h", "2s..3s", "retry_backoff"),
    ("max-messages", "5000", "6000", "max_messages"),
    ("max-bytes", "64MiB", "2GiB", "max_bytes"),
    ("on-full", "drop-oldest", "reject", "on_full"),
    ("dedup-window", "10m", "1h", "dedup_window"),
    ("dedup-max-keys", "9", "10", "dedup_max_keys"),
    ("message-ttl", "2h", "3h", "message_ttl"),
    ("on-expiry", "dlq", "drop", "on_expiry"),
    ("delay", "10s", "20s", "delay"),
    ("max-message-bytes", "64KiB", "128KiB", "max_message_bytes"),
    ("group-expiry", "2h", "3h", "group_expiry"),
    ("max-unsettled", "1000", "2000", "max_unsettled"),
];

/// The facts of `queue info`, as a person reads them.
fn shown(broker: &Broker, queue: &str) -> Vec<(String, String)> {
    let text = done(broker, &["queue", "info", queue]);
    text.lines().filter_map(|line| line.split_once(' ')).map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

fn assert_shown(broker: &Broker, queue: &str, facts: impl Iterator<Item = (&'static str, &'static str)>) {
    let shown = shown(broker, queue);
    for (fact, value) in facts {
        assert!(shown.contains(&(fact.to_owned(), value.to_owned())), "{fact} is {value}: {shown:?}");
    }
}

#[test]
fn every_option_is_set_shown_changed_and_kept() {
    let mut broker = Broker::start(&[]);
    let flags = |values: &dyn Fn(&(&'static str, &'static str, &'static str, &'static str)) -> &'static str| -> Vec<String> {
        OPTIONS.iter().flat_map(|option| [format!("--{}", option.0), values(option).to_owned()]).collect()
    };
    let run = |broker: &Broker, verb: &str, flags: &[String]| {
        let mut args = vec!["queue", verb, "jobs"];
        args.extend(flags.iter().map(String::as_str));
        done(broker, &args)
    };
    assert_eq!(run(&broker, "create", &flags(&|option| option.1)), "queue jobs is ready\n");
    assert_shown(&broker, "jobs", OPTIONS.iter().map(|option| (option.3, option.1)));
    // What is not named stays.
    for (flag, _, changed, fact) in OPTIONS {
        assert_eq!(run(&broker, "update", &[format!("--{flag}"), (*changed).to_owned()]), "queue jobs is updated\n");
        assert_shown(&broker, "jobs", [(*fact, *changed)].into_iter());
    }
    broker.kill();
    broker.restart();
    assert_shown(&broker, "jobs", OPTIONS.iter().map(|option| (option.3, option.2)));

    done(&broker, &["queue", "create", "events", "--mode", "stream", "--max-age", "7d", "--max-bytes", "1MiB"]);
    assert_shown(&broker, "events", [("mode", "stream"), ("max_age", "7d"), ("max_bytes", "1MiB")].into_iter());
    contains_all(&fails(&broker, 1, &["queue", "update", "nothing", "--max-deliveries", "2"]), &["queue-not-found", "`qwer-q queue list`"]);
    contains_all(&fails(&broker, 2, &["queue", "update", "jobs"]), &["no option is named", "qwer-q queue update --help"]);
}

#[test]
fn what_cannot_be_undone_needs_yes_where_nobody_can_be_asked() {
    let broker = Broker::start(&[]);
    publish(&broker, "jobs", "a\nb\n");
    for (verb, deed) in [("purge", "remove all messages of queue jobs"), ("delete", "delete queue jobs")] {
        let output = broker.command(&["queue", verb, "jobs"]).stdin(Stdio::null()).output().expect("the binary runs");
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{verb}");
        contains_all(&stderr(&output), &[deed, "no terminal", "next: say --yes"]);
    }
    assert_eq!(info(&broker, "jobs")["depth"], 2, "nothing was done");
    assert_eq!(done(&broker, &["queue", "purge", "jobs", "--yes"]), "removed 2 messages from queue jobs\n");
    assert_eq!(info(&broker, "jobs")["depth"], 0);
    assert_eq!(done(&broker, &["queue", "purge", "-q", "jobs", "-y"]), "removed 0 messages from queue jobs\n");
    assert_eq!(done(&broker, &["queue", "delete", "jobs", "-y"]), "queue jobs is deleted\n");
    for verb in ["purge", "delete"] {
        contains_all(&fails(&broker, 1, &["queue", verb, "jobs", "--yes"]), &["queue-not-found", "jobs"]);
    }
}

#[test]
fn groups_begin_where_they_are_told_and_are_listed_and_deleted() {
    let broker = Broker::start(&[]);
    publish(&broker, "orders", "a\nb\nc\n");
    for (name, from, lag) in
        [("all", None, 3), ("new", Some("end"), 0), ("two", Some("offset=1"), 2), ("late", Some("time=2999-01-01T00:00:00Z"), 0)]
    {
        let mut args = vec!["group", "create", name, "-q", "orders"];
        args.extend(from.iter().flat_map(|from| ["--from", from]));
        assert_eq!(done(&broker, &args), format!("group {name} of orders is ready\n"));
        assert_eq!(group(&broker, "orders", name)["lag"], lag, "{name}");
    }
    contains_all(&done(&broker, &["group", "list", "-q", "orders"]), &["GROUP", "LAG", "all", "new", "two"]);
    let names: Vec<_> =
        json_lines(&broker, &["group", "list", "-q", "orders", "--json"]).iter().map(|group| group["name"].clone()).collect();
    assert_eq!(names, ["all", "late", "new", "two"]);
    assert_eq!(texts(&json_lines(&broker, &["consume", "-q", "orders", "-g", "two", "-n", "2"])), ["b", "c"]);
    contains_all(&done(&broker, &["group", "info", "two", "-q", "orders"]), &["ACK FLOOR", "two"]);

    contains_all(&fails(&broker, 1, &["group", "create", "all", "-q", "orders"]), &["group-exists", "next: "]);
    assert_eq!(done(&broker, &["group", "delete", "all", "-q", "orders"]), "group all of orders is deleted\n");
    for verb in ["info", "delete"] {
        contains_all(
            &fails(&broker, 1, &["group", verb, "all", "-q", "orders"]),
            &["group-not-found", "all", "`qwer-q group list -q orders`"],
        );
    }
    contains_all(&fails(&broker, 1, &["group", "list", "-q", "nothing"]), &["queue-not-found"]);
    contains_all(&fails(&broker, 2, &["group", "create", "x", "-q", "orders", "--from", "yesterday"]), &["yesterday", "offset=N"]);
}

#[test]
fn peek_shows_and_takes_nothing() {
    let broker = Broker::start(&[]);
    let lines: String = (0..300).map(|number| format!("m{number}\n")).collect();
    publish(&broker, "plain", &lines);
    assert_eq!(texts(&json_lines(&broker, &["peek", "-q", "plain", "-n", "2"])), ["m0", "m1"]);
    assert_eq!(json_lines(&broker, &["peek", "-q", "plain"]).len(), 10);
    let all = json_lines(&broker, &["peek", "-q", "plain", "-n", "1000"]);
    assert_eq!((all.len(), all[299]["seq"].clone(), all[299].get("attempt")), (300, json!(299), None));
    assert_eq!(texts(&json_lines(&broker, &["peek", "-q", "plain", "--from-seq", "298", "--json"])), ["m298", "m299"]);
    let facts = info(&broker, "plain");
    assert_eq!((&facts["depth"], &facts["in_flight"], &facts["groups"]), (&json!(300), &json!(0), &json!([])));
    assert_eq!(json_lines(&broker, &["consume", "-q", "plain", "-n", "1"])[0]["attempt"], 1);

    done(&broker, &["schema", "register", "-q", "orders", "-p", &data("order.proto"), "-m", "t.Order"]);
    done(&broker, &["publish", "-q", "orders", "--body", r#"{"id": "o-1"}"#]);
    assert_eq!(json_lines(&broker, &["peek", "-q", "orders"])[0]["body"], json!({"id": "o-1"}));

    contains_all(&fails(&broker, 1, &["peek", "-q", "nothing"]), &["queue-not-found", "`qwer-q queue list`"]);
    assert_eq!(json_lines(&broker, &["queue", "list", "--json"]).len(), 2, "peek makes no queue");
}
