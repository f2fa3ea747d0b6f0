//! The documents that describe the HTTP side, held against other people's tools: AsyncAPI's parser, schemathesis, and curl.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::corpus::say;
use crate::{get, post, register_order, send};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A tool of a test, or the name of what is missing: on a laptop the test is left out then, in CI it fails.
fn tool(path: PathBuf, missing: &str) -> Option<PathBuf> {
    if path.exists() {
        return Some(path);
    }
    let missing = format!("{} is not there: {missing}", path.display());
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!in_ci, "{missing}");
    say(&format!("Skipped: {missing}"));
    None
}

/// A broker with contracts, streams, messages, groups and a dead letter.
fn furnished(environment: &[(&str, &str)]) -> Broker {
    let broker = Broker::start_with(&[], environment);
    register_order(&broker, "orders");
    send(&broker, "PUT", "/api/v1/queues/log", &json!({"mode": "stream"})).ok();
    for queue in ["log", "plain"] {
        post(&broker, &format!("/api/v1/queues/{queue}/messages"), &json!([{"payload_text": "a"}, {"payload_text": "b"}])).ok();
        send(&broker, "PUT", &format!("/api/v1/queues/{queue}/groups/billing"), &json!({})).ok();
    }
    post(&broker, "/api/v1/queues/orders/messages", &json!([{"body": {"id": "a"}}, {"body": {"id": "b", "quantity": 7}}])).ok();
    let fetched = post(&broker, "/api/v1/queues/orders/fetch", &json!({"group": "billing"})).ok();
    let lease = &fetched["messages"][0]["lease_id"];
    post(&broker, "/api/v1/queues/orders/reject", &json!({"lease_ids": [lease], "reason": "no such customer"})).ok();
    broker
}

#[test]
fn asyncapi_has_a_channel_for_every_queue_and_a_schema_for_every_contract() {
    let broker = furnished(&[]);
    let document = get(&broker, "/api/v1/asyncapi.json").ok();
    assert_eq!(document["asyncapi"], "3.0.0");
    let channels: Vec<_> = document["channels"].as_object().expect("channels").keys().collect();
    assert_eq!(channels, ["log", "orders", "plain"], "a dead letter queue is no channel of its own");
    let schema = &document["components"]["schemas"]["orders--shop.v1.Order"];
    assert_eq!(schema["properties"]["placedAt"], json!({"type": "string", "format": "date-time"}));
    assert_eq!(document["operations"]["orders--call"]["reply"]["messages"][0]["$ref"], "#/channels/orders/messages/reply");
    let one = get(&broker, "/api/v1/asyncapi.json?search=log").ok();
    assert_eq!(one["channels"].as_object().map(serde_json::Map::len), Some(1));
}

#[test]
fn asyncapis_own_parser_has_nothing_against_the_document() {
    let folder = root().join("tests/asyncapi");
    let Some(_) = tool(folder.join("node_modules/@asyncapi/parser"), "run `npm ci` in tests/asyncapi") else { return };
    let broker = furnished(&[]);
    // A type that holds itself, and one name for two types.
    let tree = json!({"files": {"t.proto": "syntax = \"proto3\"; package shop.v1; message Order { map<string, Order> children = 1; }"}});
    post(&broker, "/api/v1/schemas/trees", &tree).ok();
    let document = get(&broker, "/api/v1/asyncapi.json");
    let mut parser = Command::new("node");
    let mut child = parser.arg(folder.join("validate.mjs")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node runs");
    child.stdin.take().expect("stdin is piped").write_all(&document.body).expect("the parser reads");
    let output = child.wait_with_output().expect("the parser ends");
    let said: Value = serde_json::from_slice(&output.stdout).expect("the parser's findings");
    assert_eq!(said["channels"], json!(["log", "orders", "plain", "trees"]));
    // That there is a later minor version of AsyncAPI is no fault of a document.
    let faults: Vec<_> =
        said["found"].as_array().expect("a list").iter().filter(|found| found["code"] != "asyncapi-latest-version").collect();
    assert!(output.status.success() && faults.is_empty(), "{faults:?}");
}

#[test]
fn schemathesis_finds_no_server_error_and_no_answer_that_is_not_documented() {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder));
    let Some(schemathesis) = tool(target.join("python/bin/schemathesis"), "run `cargo xtask test`") else { return };
    let token = "s3cret";
    let broker = furnished(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let hooks = root().join("tests/schemathesis");
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
        response_schema_conformance,negative_data_rejection,missing_required_header,unsupported_method,allow_header_conformance";
    let run = Command::new(schemathesis)
        .args(["run", &format!("http://{}/api/v1/openapi.json", broker.http)])
        .args(["--checks", checks, "--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--seed", "1"])
        .args(["--generation-deterministic", "--no-shrink", "--continue-on-failure", "--warnings", "off"])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", &hooks)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(folder.path())
        .output()
        .expect("schemathesis runs");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("No issues found") || said.contains("generated"), "{said}");
    assert_eq!(get(&broker, "/healthz").status, 200);
}

#[test]
fn the_guides_first_three_commands_publish_and_fetch() {
    let Some(_) = tool(PathBuf::from("/usr/bin/curl"), "install curl") else { return };
    let guide = std::fs::read_to_string(root().join("docs/rest.md")).expect("docs/rest.md is there");
    let block = guide.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of commands");
    assert_eq!(block.matches("curl ").count(), 3);
    let broker = Broker::start(&[]);
    let commands = block.replace("localhost:9877", &broker.http.to_string());
    let ran = Command::new("sh").args(["-euc", &commands]).output().expect("sh runs");
    let said = String::from_utf8(ran.stdout).expect("text");
    assert!(ran.status.success() && said.contains(r#""body":{"id":"o-1","quantity":3}"#), "{said}");
}
