//! What a person says about messages: the options of `publish`, and what `consume` makes of each message.

mod support;

use std::process::Stdio;

use serde_json::{Value, json};
use support::broker::Broker;
use support::cli::{contains_all, data, done, fails, json_lines, payload, stderr, stdout, with_stdin};

/// The payloads of printed messages, as text.
fn texts(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8(payload(message)).expect("text")).collect()
}

fn info(broker: &Broker, queue: &str) -> Value {
    json_lines(broker, &["queue", "info", queue, "--json"]).remove(0)
}

#[test]
fn a_known_idempotency_key_stores_nothing_and_says_so() {
    let broker = Broker::start(&[]);
    let keyed = |body: &str| json_lines(&broker, &["publish", "-q", "q", "--body", body, "--idempotency-key", "k-1", "--json"]).remove(0);
    let (first, second) = (keyed("a"), keyed("b"));
    assert_eq!((&first["duplicate"], &second["duplicate"]), (&json!(false), &json!(true)));
    assert_eq!((&second["id"], &second["seq"]), (&first["id"], &json!(0)));
    let said = done(&broker, &["publish", "-q", "q", "--body", "c", "--idempotency-key", "k-1"]);
    contains_all(&said, &["was published before", "seq 0", "idempotency key"]);
    let lines = with_stdin(&broker, &["publish", "-q", "q", "--idempotency-key", "k-2"], "a\nb\nc\n");
    assert_eq!(stdout(&lines), "published 3 messages, 2 of them known by the idempotency key\n");
    assert_eq!(info(&broker, "q")["depth"], 2);
}

#[test]
fn the_version_of_the_contract_is_told() {
    let broker = Broker::start(&[]);
    let receipt = json_lines(&broker, &["publish", "-q", "plain", "--body", "x", "--json"]).remove(0);
    assert_eq!(receipt["version"], Value::Null);
    done(&broker, &["schema", "register", "-q", "orders", "-p", &data("order.proto"), "-m", "t.Order"]);
    let receipt = json_lines(&broker, &["publish", "-q", "orders", "--body", r#"{"id": "o-1"}"#, "--json"]).remove(0);
    assert_eq!(receipt["version"], 1);
}

#[test]
fn atomic_lines_are_stored_all_or_none() {
    let broker = Broker::start(&[]);
    done(&broker, &["schema", "register", "-q", "legacy", "-p", &data("legacy.proto"), "-m", "t2.R"]);
    // The second is no R; the third of the next lacks a required field, which only the broker sees.
    for (lines, parts) in [
        ("{\"id\": \"a\"}\n{\"idd\": \"b\"}\n", &["error: line 2: not a t2.R", "none of 2 messages was published, since 1 of them"][..]),
        (
            "{\"id\": \"a\"}\n{\"id\": \"b\"}\n\n{\"nums\": [1]}\n",
            &["error: line 4: schema-violation: ", "path: id\n", "none of 3 messages was published, since 1 of them", "without --atomic"],
        ),
    ] {
        let output = with_stdin(&broker, &["publish", "-q", "legacy", "--atomic"], lines);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""), "{lines}");
        contains_all(&stderr(&output), parts);
        assert_eq!(stderr(&output).matches("error: line").count(), 1, "{}", stderr(&output));
        assert_eq!(info(&broker, "legacy")["depth"], 0);
    }
    let lines = "{\"id\": \"a\"}\n{\"id\": \"b\"}\n";
    let output = with_stdin(&broker, &["publish", "-q", "legacy", "--atomic"], lines);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "published 2 messages\n"));
    let receipts = with_stdin(&broker, &["publish", "-q", "legacy", "--atomic", "--json"], lines);
    let seqs: Vec<Value> =
        stdout(&receipts).lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["seq"].clone()).collect();
    assert_eq!(seqs, [2, 3]);
    assert_eq!(with_stdin(&broker, &["publish", "-q", "legacy", "--atomic"], "").status.code(), Some(0), "nothing is not an error");
}

#[test]
fn a_nacked_message_comes_again_after_the_delay_that_was_given() {
    let broker = Broker::start(&[]);
    done(&broker, &["queue", "create", "jobs", "--retry-backoff", "1h..2h"]);
    done(&broker, &["publish", "-q", "jobs", "--body", "x"]);
    assert_eq!(json_lines(&broker, &["consume", "-q", "jobs", "-n", "1", "--nack", "--delay", "0"])[0]["attempt"], 1);
    assert_eq!(json_lines(&broker, &["consume", "-q", "jobs", "-n", "1", "--nack"])[0]["attempt"], 2);
    assert_eq!(info(&broker, "jobs")["backing_off"], 1, "an hour, as the queue says");
}

#[test]
fn from_decides_where_a_new_group_begins_and_is_ignored_for_one_that_exists() {
    let broker = Broker::start(&[]);
    assert_eq!(with_stdin(&broker, &["publish", "-q", "q"], "a\nb\nc\n").status.code(), Some(0));
    // Without it the messages go when the first group is done.
    done(&broker, &["group", "create", "keeper", "-q", "q"]);
    let from = |group: &'static str, from: &'static str, n: &'static str| ["consume", "-q", "q", "-g", group, "--from", from, "-n", n];
    assert_eq!(texts(&json_lines(&broker, &from("first", "beginning", "3"))), ["a", "b", "c"]);
    assert_eq!(texts(&json_lines(&broker, &from("second", "offset=1", "1"))), ["b"]);
    let again = broker.run(&from("second", "beginning", "1"));
    assert_eq!(again.status.code(), Some(0));
    contains_all(&stderr(&again), &["note: ", "second", "--from is ignored", "qwer-q group seek second -q q --from"]);
    let message: Value = serde_json::from_str(&stdout(&again)).expect("the note is on stderr");
    assert_eq!(message["seq"], 2);
}

#[test]
fn what_does_not_go_together_is_wrong_usage() {
    let broker = Broker::start(&[]);
    for (args, part) in [
        (&["consume", "-q", "q", "--ack", "--nack"][..], "cannot be used with"),
        (&["consume", "-q", "q", "--nack", "--reject", "x"], "cannot be used with"),
        (&["consume", "-q", "q", "--reject", "x", "--leave"], "cannot be used with"),
        (&["consume", "-q", "q", "--delay", "1s"], "--nack"),
        (&["consume", "-q", "q", "--tail", "-g", "g"], "cannot be used with"),
        (&["consume", "-q", "q", "--tail", "--from", "beginning"], "cannot be used with"),
        (&["consume", "-q", "q", "--tail", "--nack"], "cannot be used with"),
        (&["consume", "-q", "q", "--from", "7"], "offset=N"),
        (&["publish", "-q", "q", "--body", "x", "--delay", "1s", "--deliver-at", "2030-01-01T00:00:00Z"], "cannot be used with"),
        (&["publish", "-q", "q", "--body", "x", "--deliver-at", "tomorrow"], "2026-12-01T11:48:03Z"),
        (&["publish", "-q", "q", "--body", "x", "--ttl", "soon"], "soon"),
        (&["dlq", "redrive", "-q", "q", "--to", "r", "--all-groups"], "cannot be used with"),
        (&["dlq", "list", "-q", "q", "--reason", "bad-luck"], "max-deliveries"),
        (&["dlq", "list", "-q", "q", "--since", "yesterday"], "10m for ten minutes ago"),
        (&["dlq", "list", "-q", "q", "--id", "7"], "26 letters"),
        (&["group", "seek", "g", "-q", "q"], "--from"),
    ] {
        contains_all(&fails(&broker, 2, args), &[part]);
    }
}

#[test]
fn a_rejected_message_goes_where_the_queue_sends_failures() {
    let broker = Broker::start(&[]);
    for (queue, on_failure, letters) in [("kept", "dlq", 1), ("gone", "drop", 0)] {
        done(&broker, &["queue", "create", queue, "--on-failure", on_failure]);
        done(&broker, &["publish", "-q", queue, "--body", "x"]);
        assert_eq!(json_lines(&broker, &["consume", "-q", queue, "-n", "1", "--reject", "no such customer"]).len(), 1);
        assert_eq!(info(&broker, queue)["depth"], 0);
        if letters > 0 {
            assert_eq!(json_lines(&broker, &["dlq", "list", "-q", queue, "--json"]).len(), letters);
        }
    }
    let queues = json_lines(&broker, &["queue", "list", "--json"]);
    assert_eq!(queues.iter().map(|queue| queue["name"].as_str().expect("a name")).collect::<Vec<_>>(), ["gone", "kept", "kept.dlq"]);
}

#[test]
fn a_message_that_is_left_stays_leased_after_the_command_has_ended() {
    let broker = Broker::start(&[]);
    done(&broker, &["queue", "create", "held", "--visibility-timeout", "1h"]);
    let lines = with_stdin(&broker, &["publish", "-q", "held"], "a\nb\n");
    assert_eq!(lines.status.code(), Some(0));
    let left = json_lines(&broker, &["consume", "-q", "held", "-n", "1", "--leave"]).remove(0);
    assert!(left["lease_id"].as_str().is_some_and(|id| id.len() == 48 && id.bytes().all(|byte| byte.is_ascii_hexdigit())), "{left}");
    let facts = info(&broker, "held");
    assert_eq!((&facts["in_flight"], &facts["ready"]), (&json!(1), &json!(1)));
    let next = json_lines(&broker, &["consume", "-q", "held", "-n", "1"]).remove(0);
    assert_eq!((&next["seq"], next.get("lease_id")), (&json!(1), None));

    done(&broker, &["queue", "create", "brief", "--visibility-timeout", "2s"]);
    done(&broker, &["publish", "-q", "brief", "--body", "x"]);
    json_lines(&broker, &["consume", "-q", "brief", "-n", "1", "--leave"]);
    assert_eq!(json_lines(&broker, &["consume", "-q", "brief", "-n", "1"])[0]["attempt"], 2, "its lease has run out");
    assert_eq!(done(&broker, &["consume", "-q", "brief", "--leave", "--wait", "1ms"]), "");
}

#[test]
fn a_tail_shows_what_comes_and_leaves_no_trace() {
    let broker = Broker::start(&[]);
    for (queue, mode) in [("jobs", "queue"), ("events", "stream")] {
        done(&broker, &["queue", "create", queue, "--mode", mode]);
        done(&broker, &["publish", "-q", queue, "--body", "before"]);
        let mut tail =
            broker.command(&["consume", "-q", queue, "--tail", "-n", "1"]).stdout(Stdio::piped()).spawn().expect("the binary starts");
        // It may not follow yet when the first ones are published.
        while tail.try_wait().expect("it is ours").is_none() {
            done(&broker, &["publish", "-q", queue, "--body", "x"]);
        }
        let output = tail.wait_with_output().expect("it has ended");
        let line: Value = serde_json::from_str(&stdout(&output)).expect("one line of JSON");
        assert_eq!((output.status.code(), payload(&line).as_slice()), (Some(0), b"x".as_slice()));
        let facts = info(&broker, queue);
        assert_eq!((&facts["groups"], &facts["in_flight"], &facts["ready"]), (&json!([]), &json!(0), &facts["depth"]));
    }
    contains_all(&fails(&broker, 1, &["consume", "-q", "nothing", "--tail"]), &["queue-not-found"]);
}

#[test]
fn a_reader_of_a_stream_begins_where_it_is_told_and_leaves_nothing_behind() {
    let broker = Broker::start(&[]);
    done(&broker, &["queue", "create", "events", "--mode", "stream"]);
    let lines: String = (0..300).map(|number| format!("m{number}\n")).collect();
    assert_eq!(with_stdin(&broker, &["publish", "-q", "events"], &lines).status.code(), Some(0));
    for _ in 0..2 {
        let all = texts(&json_lines(&broker, &["consume", "-q", "events", "--from", "beginning", "-n", "300"]));
        assert_eq!((all.len(), all[0].as_str(), all[299].as_str()), (300, "m0", "m299"));
    }
    assert_eq!(texts(&json_lines(&broker, &["consume", "-q", "events", "--from", "offset=298", "-n", "2"])), ["m298", "m299"]);
    assert_eq!(texts(&json_lines(&broker, &["consume", "-q", "events", "--from", "time=1970-01-01T00:00:00Z", "-n", "1"])), ["m0"]);
    assert_eq!(done(&broker, &["consume", "-q", "events", "--wait", "100ms"]), "", "it begins at the end");
    assert_eq!(info(&broker, "events")["groups"], json!([]));
    let said = fails(&broker, 2, &["consume", "-q", "events", "--from", "beginning", "-n", "1", "--nack"]);
    contains_all(&said, &["without a consumer group", "next: name a group with --group"]);
}

#[test]
fn a_delayed_message_has_no_seq_yet_and_comes_when_it_is_due() {
    let broker = Broker::start(&[]);
    let later = json_lines(&broker, &["publish", "-q", "q", "--body", "later", "--delay", "1h", "--json"]).remove(0);
    assert_eq!(later["seq"], Value::Null);
    contains_all(&done(&broker, &["publish", "-q", "q", "--body", "much later", "--deliver-at", "2999-01-01T00:00:00Z"]), &["delayed"]);
    for when in [["--delay", "1ms"], ["--deliver-at", "1970-01-01T00:00:00Z"]] {
        done(&broker, &["publish", "-q", "q", "--body", "soon", when[0], when[1]]);
        assert_eq!(texts(&json_lines(&broker, &["consume", "-q", "q", "-n", "1"])), ["soon"]);
    }
    let facts = info(&broker, "q");
    assert_eq!((&facts["delayed"], &facts["depth"]), (&json!(2), &json!(2)));
    assert_eq!(done(&broker, &["queue", "purge", "q", "--yes"]), "removed 2 messages from queue q\n");
}

#[test]
fn an_expired_message_becomes_a_dead_letter_where_the_queue_says_so() {
    let broker = Broker::start(&[]);
    done(&broker, &["queue", "create", "q", "--on-expiry", "dlq"]);
    done(&broker, &["group", "create", "g", "-q", "q"]);
    done(&broker, &["publish", "-q", "q", "--body", "x", "--ttl", "1ms"]);
    while info(&broker, "q")["depth"] != 0 {
        std::thread::yield_now();
    }
    assert_eq!(json_lines(&broker, &["dlq", "list", "-q", "q", "--json"])[0]["reason"], "expired");
}

#[test]
fn an_invalid_message_may_go_to_the_dead_letters_and_the_receipt_says_so() {
    let broker = Broker::start(&[]);
    done(&broker, &["queue", "create", "legacy", "--on-invalid", "dlq"]);
    done(&broker, &["schema", "register", "-q", "legacy", "-p", &data("legacy.proto"), "-m", "t2.R"]);
    let receipt = json_lines(&broker, &["publish", "-q", "legacy", "--hex", "", "--json"]).remove(0);
    assert!(receipt["dead_lettered"].as_str().is_some_and(|why| why.contains("id")), "{receipt}");
    contains_all(&done(&broker, &["publish", "-q", "legacy", "--hex", ""]), &["went to the dead letter queue"]);
    let lines = with_stdin(&broker, &["publish", "-q", "legacy"], "{\"id\": \"a\"}\n{\"nums\": [1]}\n");
    assert_eq!((lines.status.code(), stdout(&lines).as_str()), (Some(0), "published 2 messages, 1 of them to the dead letter queue\n"));
    let letter = json_lines(&broker, &["dlq", "list", "-q", "legacy", "--json"]).remove(0);
    assert_eq!((&letter["reason"], &letter["group"]), (&json!("invalid"), &Value::Null));
    contains_all(letter["error"].as_str().expect("text"), &["id"]);
}
