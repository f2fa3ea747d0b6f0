//! /metrics as Prometheus reads it: its own checker, the dashboard and the rules that speak of it, and how large it becomes.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};

use support::broker::Broker;
use support::corpus::say;
use support::raw::Raw;

fn docs(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn scrape(broker: &Broker) -> String {
    let (status, body) = broker.get("/metrics");
    assert_eq!(status, 200, "{body}");
    body
}

/// The value of a sample that stands there.
fn sample(page: &str, name: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is in {page}")).parse().expect("a number")
}

/// A cluster of one.
fn node() -> Broker {
    Broker::start(&["--cluster-node-id", "1", "--cluster-bind", "127.0.0.1:0", "--cluster-bootstrap"])
}

/// A broker that has seen something of everything.
fn used_broker() -> Broker {
    let broker = Broker::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("shop.proto");
    fs::write(&file, "syntax = \"proto3\"; message Order { string id = 1; }").expect("writable");
    let done = broker.run(&["schema", "register", "-q", "orders", "-p", file.to_str().expect("UTF-8"), "-m", "Order"]);
    assert!(done.status.success(), "{done:?}");
    let mut raw = Raw::hello(broker.address);
    raw.publish_payloads("orders", &[b"", b"", b"\x08\x01"]);
    let item = |key: &str| wire::PublishItem { idempotency_key: key.to_owned(), ..wire::PublishItem::default() };
    raw.publish(&wire::Publish { queue: "orders".to_owned(), items: vec![item("a"), item("a"), item("b")], ..wire::Publish::default() });
    raw.publish(&wire::Publish { queue: "orders".to_owned(), items: vec![item("b")], ..wire::Publish::default() });
    raw.consume("orders", "billing", 10);
    let messages = raw.take(4);
    raw.ack(&messages[0]);
    raw.settle(Opcode::Reject, &messages[1], wire::Settle { reason: "hopeless".to_owned(), ..wire::Settle::default() });
    // A lease that nobody has.
    let settle = wire::Settle { lease_ids: vec![Bytes::from_static(&[7; 24])], confirm: true, ..wire::Settle::default() };
    raw.send(Opcode::Ack, None, &settle);
    let settled: wire::Settled = raw.expect(Opcode::Settled);
    assert_eq!(settled.refused.len(), 1);
    raw.send(Opcode::QueueInfo, None, &wire::QueueName { name: "nothing".to_owned() });
    raw.expect_error("queue-not-found");
    broker
}

#[test]
fn what_happened_is_counted() {
    let broker = used_broker();
    // The connection that did it is gone; its leases are too, once its end is known. What is counted does not depend on that.
    let page = scrape(&broker);
    for (name, value) in [
        ("qwerq_messages_published_total", 4.0),
        ("qwerq_messages_duplicate_total", 2.0),
        ("qwerq_messages_acked_total", 1.0),
        ("qwerq_messages_dead_lettered_total", 1.0),
        ("qwerq_dead_letters", 1.0),
        ("qwerq_validation_failures_total{queue=\"orders\",code=\"schema-violation\"}", 1.0),
        ("qwerq_refusals_total{code=\"schema-violation\"}", 1.0),
        ("qwerq_refusals_total{code=\"stale-lease\"}", 1.0),
        ("qwerq_refusals_total{code=\"queue-not-found\"}", 1.0),
        ("qwerq_group_lag{queue=\"orders\",group=\"billing\"}", 2.0),
        ("qwerq_queue_depth{queue=\"orders.dlq\"}", 1.0),
        ("qwerq_publish_seconds_count", 3.0),
        ("qwerq_queues", 2.0),
        ("qwerq_groups", 1.0),
    ] {
        assert_eq!(sample(&page, name), value, "{name}");
    }
    assert!(sample(&page, "qwerq_deliver_seconds_count") >= 4.0);
    for positive in ["qwerq_memory_resident_bytes", "qwerq_journal_bytes", "qwerq_store_bytes", "qwerq_disk_free_bytes"] {
        assert!(sample(&page, positive) > 0.0, "{positive}");
    }
}

/// promtool with these arguments and that on its stdin; `None`, and said so, where it is not installed.
fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let started = Command::new("promtool").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
            assert!(!in_ci, "promtool does not start ({error}): install the package prometheus");
            say("Skipped: promtool is not installed");
            return None;
        }
    };
    child.stdin.take().expect("stdin is piped").write_all(input.as_bytes()).expect("promtool reads");
    let done = child.wait_with_output().expect("promtool ends");
    Some((done.status.success(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()))
}

#[test]
fn promtool_accepts_the_page() {
    for page in [scrape(&used_broker()), scrape(&node()), scrape(&Broker::start(&["--metrics-per-queue", "false"]))] {
        let Some((_, said)) = promtool(&["check", "metrics"], &page) else { return };
        let complaints: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        // The one name that was given before its rules were looked at.
        let known = "qwerq_in_flight_count non-histogram and non-summary metrics should not have \"_count\" suffix";
        assert_eq!(complaints, [known]);
    }
}

#[test]
fn promtool_accepts_the_alert_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/alerts.yml");
    let Some((passed, said)) = promtool(&["check", "rules", path.to_str().expect("UTF-8")], "") else { return };
    assert!(passed, "{said}");
}

#[test]
fn alerts_fire_for_trouble_and_for_nothing_else() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/alerts.test.yml");
    let Some((passed, said)) = promtool(&["test", "rules", path.to_str().expect("UTF-8")], "") else { return };
    assert!(passed, "{said}");
}

#[test]
fn every_alert_is_tried() {
    let tests = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/alerts.test.yml")).expect("it is there");
    for name in docs("alerts.yml").lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname: {name}\n        exp_alerts:\n")), "tests/data/alerts.test.yml never sees {name} fire");
    }
}

/// Families by name, with their types.
fn families(page: &str) -> BTreeMap<String, String> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

/// The names of the broker's metrics that a text speaks of.
fn names_in(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !word(c)).filter(|name| name.starts_with("qwerq_")).map(str::to_owned).collect()
}

/// A name as the page has it: a histogram's series go by the family.
fn family_of(name: &str, families: &BTreeMap<String, String>) -> Option<String> {
    if families.contains_key(name) {
        return Some(name.to_owned());
    }
    let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix))?;
    (families.get(family).map(String::as_str) == Some("histogram")).then(|| family.to_owned())
}

#[test]
fn dashboard_rules_and_docs_speak_of_metrics_that_there_are() {
    // A node has all that a lone broker has.
    let families = families(&scrape(&node()));
    assert!(self::families(&scrape(&used_broker())).keys().all(|family| families.contains_key(family)));
    let dashboard: serde_json::Value = serde_json::from_str(&docs("grafana-dashboard.json")).expect("the dashboard is JSON");
    let mut expressions = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().filter(|targets| !targets.is_empty());
        let targets = targets.unwrap_or_else(|| panic!("the panel {} shows nothing", panel["title"]));
        expressions.extend(targets.iter().map(|target| target["expr"].as_str().expect("an expression").to_owned()));
    }
    for expression in &expressions {
        assert!(!names_in(expression).is_empty(), "{expression} asks for nothing of the broker");
    }
    let dashboard_names = names_in(&expressions.join("\n"));
    for (what, names) in [
        ("the dashboard", dashboard_names),
        ("alerts.yml", names_in(&docs("alerts.yml"))),
        ("monitoring.md", names_in(&docs("monitoring.md"))),
    ] {
        for name in names {
            assert!(family_of(&name, &families).is_some(), "{what} speaks of {name}, which is not there");
        }
    }
    let described: BTreeSet<_> = names_in(&docs("monitoring.md")).iter().filter_map(|name| family_of(name, &families)).collect();
    for family in families.keys() {
        assert!(described.contains(family), "docs/monitoring.md does not describe {family}");
    }
}

#[test]
fn many_queues_are_a_small_page() {
    // Not what a release build takes: it says that nothing is quadratic.
    const QUEUES: usize = 20_000;
    let broker = Broker::start(&["--durability", "none"]);
    let mut raw = Raw::hello(broker.address);
    for number in 0..QUEUES {
        let create = wire::QueueCreate { name: format!("a-queue-with-a-name-of-some-length.{number}"), options: None };
        raw.send(Opcode::QueueCreate, None, &create);
        // Answers are read as they come, so that neither side's buffers fill.
        let _: wire::QueueInfo = raw.expect(Opcode::QueueInfoResponse);
    }
    let page = scrape(&broker);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert_eq!(sample(&page, "qwerq_queues"), 20_000.0);
    assert_eq!(sample(&page, "qwerq_queue_depth{queue=\"_all\"}"), 0.0);
}
