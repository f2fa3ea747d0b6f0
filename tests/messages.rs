//! What a person says about messages: the options of `publish`, and what `consume` makes of each message.

mod support;

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
