//! What an operator does to queues, consumer groups and dead letters: the real binary against a real broker.
//!
//! The rules are the broker's and tested with it; here counts that every command reaches them and says what happened.

mod support;

use std::process::Stdio;

use qwerq_proto::{Opcode, wire};
use serde_json::{Value, json};
use support::broker::Broker;
use support::cli::{contains_all, data, done, fails, json_lines, payload, stderr, stdout, with_stdin};
use support::raw::Raw;

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

/// An option as its flag is given first, as it is changed to, and the fact that `queue info` shows.
struct Case {
    flag: &'static str,
    first: &'static str,
    changed: &'static str,
    fact: &'static str,
}

const fn case(flag: &'static str, first: &'static str, changed: &'static str, fact: &'static str) -> Case {
    Case { flag, first, changed, fact }
}

const OPTIONS: &[Case] = &[
    case("schema-mode", "strict", "permissive", "schema_mode"),
    case("on-invalid", "dlq", "reject", "on_invalid"),
    case("compatibility", "source,backward,all", "wire,forward,last", "compatibility"),
    case("visibility-timeout", "45s", "2m", "visibility_timeout"),
    case("max-deliveries", "7", "8", "max_deliveries"),
    case("on-failure", "drop", "retry-forever", "on_failure"),
    case("retry-backoff", "500ms..2h", "2s..3s", "retry_backoff"),
    case("max-messages", "5000", "6000", "max_messages"),
    case("max-bytes", "64MiB", "2GiB", "max_bytes"),
    case("on-full", "drop-oldest", "reject", "on_full"),
    case("dedup-window", "10m", "1h", "dedup_window"),
    case("dedup-max-keys", "9", "10", "dedup_max_keys"),
    case("message-ttl", "2h", "3h", "message_ttl"),
    case("on-expiry", "dlq", "drop", "on_expiry"),
    case("delay", "10s", "20s", "delay"),
    case("max-message-bytes", "64KiB", "128KiB", "max_message_bytes"),
    case("group-expiry", "2h", "3h", "group_expiry"),
    case("max-unsettled", "1000", "2000", "max_unsettled"),
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
    let flags: Vec<String> = OPTIONS.iter().flat_map(|option| [format!("--{}", option.flag), option.first.to_owned()]).collect();
    let run = |broker: &Broker, verb: &str, flags: &[String]| {
        let mut args = vec!["queue", verb, "jobs"];
        args.extend(flags.iter().map(String::as_str));
        done(broker, &args)
    };
    assert_eq!(run(&broker, "create", &flags), "queue jobs is ready\n");
    assert_shown(&broker, "jobs", OPTIONS.iter().map(|option| (option.fact, option.first)));
    // What is not named stays.
    for Case { flag, changed, fact, .. } in OPTIONS {
        assert_eq!(run(&broker, "update", &[format!("--{flag}"), (*changed).to_owned()]), "queue jobs is updated\n");
        assert_shown(&broker, "jobs", [(*fact, *changed)].into_iter());
    }
    broker.kill();
    broker.restart();
    assert_shown(&broker, "jobs", OPTIONS.iter().map(|option| (option.fact, option.changed)));

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

#[test]
fn a_group_of_a_stream_is_moved_by_seek() {
    let broker = Broker::start(&[]);
    done(&broker, &["queue", "create", "events", "--mode", "stream"]);
    publish(&broker, "events", "a\nb\nc\n");
    let consume = |n: &str| texts(&json_lines(&broker, &["consume", "-q", "events", "-g", "audit", "-n", n]));
    assert_eq!(consume("3"), ["a", "b", "c"]);
    for (from, next) in [("beginning", "a"), ("offset=2", "c"), ("time=1970-01-01T00:00:00Z", "a")] {
        assert_eq!(
            done(&broker, &["group", "seek", "audit", "-q", "events", "--from", from]),
            "group audit of events goes on from there\n"
        );
        assert_eq!(consume("1"), [next], "{from}");
    }
    done(&broker, &["group", "seek", "audit", "-q", "events", "--from", "end"]);
    assert_eq!(group(&broker, "events", "audit")["lag"], 0);
    let missing = fails(&broker, 1, &["group", "seek", "g", "-q", "events", "--from", "end"]);
    contains_all(&missing, &["group-not-found", "`qwer-q group list -q events`"]);
}

fn letters(broker: &Broker, filter: &[&str]) -> Vec<Value> {
    let mut args = vec!["dlq", "list", "-q", "orders", "--json"];
    args.extend(filter);
    json_lines(broker, &args)
}

/// Three orders that the group billing has rejected and the group mail has not seen.
fn rejected() -> Broker {
    let broker = Broker::start(&[]);
    done(&broker, &["schema", "register", "-q", "orders", "-p", &data("order.proto"), "-m", "t.Order"]);
    done(&broker, &["group", "create", "mail", "-q", "orders"]);
    publish(&broker, "orders", "{\"id\": \"o-1\"}\n{\"id\": \"o-2\"}\n{\"id\": \"o-3\"}\n");
    for (n, reason) in [("2", "no such customer"), ("1", "out of stock")] {
        json_lines(&broker, &["consume", "-q", "orders", "-g", "billing", "-n", n, "--reject", reason]);
    }
    broker
}

#[test]
fn dead_letters_say_why_and_are_chosen_by_what_they_say() {
    let broker = rejected();
    let all = letters(&broker, &[]);
    assert_eq!(all.len(), 3);
    let (first, id) = (&all[0], all[0]["id"].as_str().expect("an id"));
    assert_eq!((&first["reason"], &first["error"]), (&json!("rejected"), &json!("no such customer")));
    assert_eq!((&first["group"], &first["attempts"]), (&json!("billing"), &json!(1)));
    assert_eq!((&first["source_queue"], &first["source_seq"]), (&json!("orders"), &json!(0)));
    for time in ["first_failed_at", "failed_at", "published_at"] {
        assert!(first[time].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z')), "{first}");
    }
    for (filter, count) in [
        (&["-g", "billing"][..], 3),
        (&["-g", "mail"], 0),
        (&["--reason", "rejected"], 3),
        (&["--reason", "expired"], 0),
        (&["--id", id], 1),
        (&["--since", "1h"], 3),
        (&["--until", "1h"], 0),
        (&["--since", "2999-01-01T00:00:00Z"], 0),
        (&["--until", "2999-01-01T00:00:00Z", "--since", "1970-01-01T00:00:00Z"], 3),
        (&["-n", "2"], 2),
    ] {
        assert_eq!(letters(&broker, filter).len(), count, "{filter:?}");
    }
    let table = done(&broker, &["dlq", "list", "-q", "orders.dlq"]);
    contains_all(&table, &["REASON", "ATTEMPTS", "FAILED AT", id, "billing", "no such customer", "out of stock"]);

    // By their source queue's contract, whichever way they are read.
    let shown = json_lines(&broker, &["dlq", "peek", "-q", "orders", "-n", "1"]).remove(0);
    assert_eq!((&shown["body"], &shown["queue"]), (&json!({"id": "o-1"}), &json!("orders.dlq")));
    assert_eq!(shown["headers"]["qwerq-reason"], "rejected");
    assert_eq!(json_lines(&broker, &["peek", "-q", "orders.dlq"])[2]["body"], json!({"id": "o-3"}));
    assert_eq!(json_lines(&broker, &["consume", "-q", "orders.dlq", "-n", "1"])[0]["body"], json!({"id": "o-1"}));
}

#[test]
fn dead_letters_go_back_to_their_group_or_elsewhere_or_away() {
    let broker = rejected();
    let id = letters(&broker, &[])[1]["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        done(&broker, &["dlq", "redrive", "-q", "orders", "--id", &id]),
        "redrove 1 dead letter of orders to where they come from\n"
    );
    let back = json_lines(&broker, &["consume", "-q", "orders", "-g", "billing", "-n", "1"]).remove(0);
    assert_eq!((&back["body"], &back["attempt"]), (&json!({"id": "o-2"}), &json!(1)));
    assert_eq!(group(&broker, "orders", "mail")["lag"], 3, "the other group sees nothing twice");

    let to_repaired = ["dlq", "redrive", "-q", "orders", "--to", "repaired", "-n", "1"];
    contains_all(&fails(&broker, 1, &to_repaired), &["queue-not-found", "qwer-q queue create repaired"]);
    done(&broker, &["queue", "create", "repaired"]);
    let said = done(&broker, &to_repaired);
    assert_eq!(said, "redrove 1 dead letter of orders to queue repaired\n");
    assert_eq!(info(&broker, "repaired")["depth"], 1);
    let said = json_lines(&broker, &["dlq", "redrive", "-q", "orders", "--all-groups", "--json"]).remove(0);
    assert_eq!(said, json!({"redriven": 1, "refused": 0, "refusal": null}));
    assert_eq!(group(&broker, "orders", "mail")["lag"], 4);
    assert_eq!(letters(&broker, &[]).len(), 0);

    json_lines(&broker, &["consume", "-q", "orders", "-g", "mail", "-n", "4", "--reject", "hopeless"]);
    assert_eq!(done(&broker, &["dlq", "purge", "-q", "orders", "-g", "billing"]), "removed 0 dead letters of orders\n");
    assert_eq!(done(&broker, &["dlq", "purge", "-q", "orders", "-n", "1", "--yes"]), "removed 1 dead letter of orders\n");
    assert_eq!(json_lines(&broker, &["dlq", "purge", "-q", "orders", "--json"])[0], json!({"purged": 3}));
    assert_eq!(letters(&broker, &[]).len(), 0);
}

#[test]
fn a_dead_letter_that_is_refused_stays_and_the_command_fails() {
    let broker = rejected();
    let file = broker.data().with_file_name("other.proto");
    std::fs::write(&file, "syntax = \"proto3\"; package t; message Other { int32 id = 1; }").expect("the directory is ours");
    done(&broker, &["schema", "register", "-q", "others", "-p", &file.display().to_string(), "-m", "t.Other"]);
    let output = broker.run(&["dlq", "redrive", "-q", "orders", "--to", "others"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "redrove 0 dead letters of orders to queue others\n"));
    contains_all(&stderr(&output), &["3 dead letters stay", "schema-violation", "next: `qwer-q dlq peek -q orders`"]);
    done(&broker, &["group", "delete", "billing", "-q", "orders"]);
    let output = broker.run(&["dlq", "redrive", "-q", "orders", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let done: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!((&done["redriven"], &done["refused"]), (&json!(0), &json!(3)));
    contains_all(done["refusal"].as_str().expect("text"), &["group-not-found"]);
    assert_eq!(letters(&broker, &[]).len(), 3);
}

#[test]
fn bulk_work_on_dead_letters_goes_on_until_all_is_done() {
    const LETTERS: usize = 2500;
    let broker = Broker::start(&[]);
    let lines: String = (0..LETTERS).map(|number| format!("m{number}\n")).collect();
    publish(&broker, "orders", &lines);
    let consume = |fate: &[&str]| {
        let count = LETTERS.to_string();
        let mut args = vec!["consume", "-q", "orders", "-n", &count];
        args.extend(fate);
        json_lines(&broker, &args).len()
    };
    assert_eq!(consume(&["--reject", "x"]), LETTERS);
    assert_eq!(letters(&broker, &[]).len(), LETTERS);
    assert_eq!(
        done(&broker, &["dlq", "redrive", "-q", "orders"]),
        format!("redrove {LETTERS} dead letters of orders to where they come from\n")
    );
    assert_eq!(consume(&["--reject", "x"]), LETTERS);
    assert_eq!(done(&broker, &["dlq", "purge", "-q", "orders"]), format!("removed {LETTERS} dead letters of orders\n"));
    assert_eq!(letters(&broker, &[]).len(), 0);
}

#[test]
fn queues_are_listed_at_once_or_in_parts() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    for name in ["b", "a", "log", "orders.eu"] {
        let mode = (name == "log").then(|| "stream".to_owned());
        raw.create(name, wire::QueueOptions { mode, ..wire::QueueOptions::default() });
    }
    let mut listed = |list: wire::QueueList| {
        let listed: wire::QueueListResponse = raw.ask(Opcode::QueueList, &list, Opcode::QueueListResponse);
        let names: Vec<String> = listed.queues.into_iter().map(|queue| queue.name).collect();
        (names.join(" "), listed.next)
    };
    let part = |after: &str, limit, mode: &str, search: &str| wire::QueueList {
        search: search.to_owned(),
        after: after.to_owned(),
        limit,
        mode: mode.to_owned(),
    };
    for (list, names, next) in [
        // What clients from before there were parts ask for.
        (wire::QueueList::default(), "a b log orders.eu", ""),
        (part("", 2, "", ""), "a b", "b"),
        (part("b", 2, "", ""), "log orders.eu", ""),
        // Behind a name, whether there is such a queue or not.
        (part("c", 1, "", ""), "log", "log"),
        (part("", 0, "queue", ""), "a b orders.eu", ""),
        (part("", 1, "stream", ""), "log", ""),
        (part("", 10, "", "o"), "log orders.eu", ""),
        (part("z", 0, "", ""), "", ""),
    ] {
        assert_eq!(listed(list.clone()), (names.to_owned(), next.to_owned()), "{list:?}");
    }
    raw.send(Opcode::QueueList, None, &part("", 0, "pile", ""));
    assert!(raw.expect_error("invalid-argument").message.contains("pile"));
}
