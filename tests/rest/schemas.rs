//! Contracts over HTTP: text in, text and descriptors out, and what a new version breaks.

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::cli::json_lines;
use crate::support::http::ask;
use crate::{ORDER, get, post, register_order};

#[test]
fn text_becomes_a_contract_and_comes_back_in_three_forms() {
    let broker = Broker::start(&[]);
    let body = json!({"files": {"order.proto": ORDER}, "message_type": "shop.v1.Order"});
    let registered = post(&broker, "/api/v1/schemas/orders", &body).ok();
    assert_eq!((&registered["version"], &registered["existed"], &registered["active"]), (&json!(1), &json!(false), &json!(true)));
    assert_eq!(post(&broker, "/api/v1/schemas/orders", &body).ok()["existed"], true);
    let text = get(&broker, "/api/v1/schemas/orders/versions/1?format=proto");
    assert_eq!((text.text(), text.header("content-type")), (ORDER, Some("text/plain; charset=utf-8")));
    let set = get(&broker, "/api/v1/schemas/orders/versions/active?format=descriptor");
    assert_eq!(set.header("content-type"), Some("application/x-protobuf"));
    let whole = get(&broker, "/api/v1/schemas/orders/versions/active").ok();
    assert_eq!((&whole["message_type"], &whole["sources"][0]["path"]), (&json!("shop.v1.Order"), &json!("order.proto")));
    // The descriptors register as what they are, under any name.
    let headers = [("content-type", "application/x-protobuf")];
    let copy = ask(broker.http, "POST", "/api/v1/schemas/copy?message_type=shop.v1.Order", &headers, &set.body).ok();
    assert_eq!(copy["fingerprint"], whole["fingerprint"]);
    let printed = get(&broker, "/api/v1/schemas/copy/versions/1?format=proto");
    assert!(printed.text().contains("message Order"), "{}", printed.text());
    let base64 = json!({"descriptor_set_base64": whole["descriptor_set_base64"], "message_type": "shop.v1.Receipt"});
    assert_eq!(post(&broker, "/api/v1/schemas/receipts", &base64).ok()["message_type"], "shop.v1.Receipt");
    let listed = get(&broker, "/api/v1/schemas").ok();
    let queues: Vec<_> = listed["versions"].as_array().expect("a list").iter().map(|version| version["queue"].clone()).collect();
    assert_eq!(queues, ["copy", "orders", "receipts"]);
    assert_eq!(ask(broker.http, "DELETE", "/api/v1/schemas/copy", &[], b"").status, 204);
    get(&broker, "/api/v1/schemas/copy").problem(404, "schema-not-found");
}

#[test]
fn a_new_version_is_checked_compared_activated_and_retired() {
    let broker = Broker::start(&[]);
    register_order(&broker, "orders");
    let with = |text: String| json!({"files": {"order.proto": text}, "message_type": "shop.v1.Order", "reply_type": "shop.v1.Receipt"});
    let broken = with(ORDER.replace("uint64 quantity = 2;", "string quantity = 2;"));
    let verdict = post(&broker, "/api/v1/schemas/orders/check", &broken).ok();
    assert_eq!((&verdict["allowed"], &verdict["breaks"][0]["path"]), (&json!(false), &json!("shop.v1.Order.quantity")), "{verdict}");
    post(&broker, "/api/v1/schemas/orders", &broken).problem(409, "schema-incompatible");
    let wider = with(ORDER.replace("uint64 quantity = 2;", "uint64 quantity = 2; string note = 9;"));
    assert_eq!(post(&broker, "/api/v1/schemas/orders", &wider).ok()["version"], 2);
    let history = get(&broker, "/api/v1/schemas/orders").ok();
    let active: Vec<_> = history["versions"].as_array().expect("a list").iter().map(|version| version["active"].clone()).collect();
    assert_eq!(active, [false, true]);
    let diff = get(&broker, "/api/v1/schemas/orders/diff?from=1").ok();
    assert_eq!((&diff["from"], &diff["to"]), (&json!(1), &json!(2)));
    assert!(diff["texts"][0]["diff"].as_str().is_some_and(|text| text.contains("+  uint64 quantity = 2; string note = 9;")), "{diff}");
    post(&broker, "/api/v1/schemas/orders/versions/1/activate", &json!({})).problem(409, "schema-incompatible");
    let back = post(&broker, "/api/v1/schemas/orders/versions/1/activate", &json!({"force": true})).ok();
    assert_eq!((&back["version"], &back["active"]), (&json!(1), &json!(true)));
    assert_eq!(post(&broker, "/api/v1/schemas/orders/versions/2/retire", &json!({})).ok()["retired"], true);
    post(&broker, "/api/v1/schemas/orders/versions/7/activate", &json!({})).problem(404, "schema-not-found");
    get(&broker, "/api/v1/schemas/orders/versions/latest").problem(400, "invalid-argument");
    get(&broker, "/api/v1/schemas/orders/diff?from=7").problem(404, "schema-not-found");
    post(&broker, "/api/v1/queues/orders/messages", &json!({"body": {"id": "a"}})).ok();
    let clients = get(&broker, "/api/v1/schemas/orders/clients").ok();
    let client = clients["clients"].as_array().expect("a list").iter().find(|client| client["role"] == "publish").expect("who published");
    assert_eq!((&client["client"], &client["version"]), (&json!("http"), &json!(1)), "{clients}");
}

#[test]
fn text_that_does_not_compile_says_where_and_what_to_do() {
    let broker = Broker::start(&[]);
    let refused = |body: Value, status, code| post(&broker, "/api/v1/schemas/orders", &body).problem(status, code)["detail"].to_string();
    let detail = refused(json!({"files": {"a.proto": "syntax = \"proto3\";\nmessage A { Nothing n = 1; }"}}), 422, "schema-invalid");
    assert!(detail.contains("a.proto:2:"), "{detail}");
    let detail = refused(json!({"files": {"a.proto": "edition = \"2023\"; message A {}"}}), 422, "schema-invalid");
    assert!(detail.contains("descriptor set"), "{detail}");
    let detail = refused(json!({"files": {"a.proto": "syntax = \"proto3\"; message A {} message B {}"}}), 400, "invalid-argument");
    assert!(detail.contains("A, B"), "{detail}");
    refused(json!({"files": {"a.proto": "syntax = \"proto3\"; message A {}"}, "message_type": "B"}), 422, "type-not-found");
    refused(json!({"files": {"a.proto": "", "b.proto": ""}}), 400, "invalid-argument");
    refused(json!({"files": {"a.proto": ""}, "root": "b.proto"}), 400, "invalid-argument");
    refused(json!({}), 400, "invalid-argument");
    refused(json!({"descriptor_set_base64": "/w==", "message_type": "A"}), 422, "schema-invalid");
    let files = json!({"files": {"a.proto": "syntax = \"proto3\"; import \"b.proto\"; message A { B b = 1; }",
        "b.proto": "syntax = \"proto3\"; message B {}"}, "root": "a.proto"});
    assert_eq!(post(&broker, "/api/v1/schemas/orders", &files).ok()["message_type"], "A");
}

#[test]
fn a_payload_is_judged_without_being_published() {
    let broker = Broker::start(&[]);
    post(&broker, "/api/v1/schemas/orders/validate", &json!({"body": {}})).problem(404, "schema-not-found");
    register_order(&broker, "orders");
    assert_eq!(post(&broker, "/api/v1/schemas/orders/validate", &json!({"body": {"id": "o-1"}})).ok(), json!({"version": 1, "bytes": 5}));
    for payload in [json!({"body": {"id": 1}}), json!({"payload_base64": "CgU="})] {
        let problem = post(&broker, "/api/v1/schemas/orders/validate", &payload).problem(422, "schema-violation");
        assert_eq!(problem["details"]["path"], "id", "{payload}");
    }
    assert_eq!(get(&broker, "/api/v1/queues/orders").ok()["depth"], 0);
}

const PRICING: &str = "syntax = \"proto3\"; package shop.v1;
message Question { string sku = 1; }
message Quote { int64 cents = 1; }
message Reason { string text = 1; }
service Pricing { rpc GetQuote (Question) returns (Quote); rpc Explain (Quote) returns (Reason); }
";

#[test]
fn a_service_becomes_the_contracts_that_the_command_line_makes_of_it() {
    let broker = Broker::start(&[]);
    let body = json!({"files": {"pricing.proto": PRICING}, "service": "shop.v1.Pricing"});
    let registered = post(&broker, "/api/v1/schemas", &body).ok();
    let contracts: Vec<_> = registered["contracts"].as_array().expect("a list").iter().collect();
    let seen: Vec<_> = contracts.iter().map(|contract| (&contract["queue"], &contract["message_type"], &contract["reply_type"])).collect();
    let explain = (&json!("pricing.explain"), &json!("shop.v1.Quote"), &json!("shop.v1.Reason"));
    let quote = (&json!("pricing.get_quote"), &json!("shop.v1.Question"), &json!("shop.v1.Quote"));
    assert_eq!(seen, [explain, quote], "{registered}");

    // The command line finds everything registered already.
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("pricing.proto");
    std::fs::write(&file, PRICING).expect("written");
    let file = file.to_str().expect("a path in UTF-8");
    for known in json_lines(&broker, &["schema", "register", "-p", file, "--service", "shop.v1.Pricing", "--json"]) {
        assert_eq!((&known["existed"], &known["version"]), (&json!(true), &json!(1)), "{known}");
    }
    let answer = post(&broker, "/api/v1/queues/pricing.get_quote/call", &json!({"body": {"sku": "a"}}));
    answer.problem(424, "no-responders");

    // Descriptors do as well, and the queues can be called otherwise.
    let set = get(&broker, "/api/v1/schemas/pricing.explain/versions/1").ok()["descriptor_set_base64"].clone();
    let elsewhere = json!({"descriptor_set_base64": set, "service": "shop.v1.Pricing", "queue": "eu.desk"});
    let registered = post(&broker, "/api/v1/schemas", &elsewhere).ok();
    assert_eq!(registered["contracts"][1]["queue"], "eu.desk.get_quote");
    assert_eq!(registered["contracts"][1]["fingerprint"], contracts[1]["fingerprint"]);
}

#[test]
fn a_service_is_registered_as_a_whole_or_not_at_all() {
    let broker = Broker::start(&[]);
    let service = |text: &str, force| json!({"files": {"pricing.proto": text}, "service": "shop.v1.Pricing", "force": force});
    post(&broker, "/api/v1/schemas", &service(PRICING, false)).ok();
    // `explain` comes first and would pass: only the request of `get_quote` breaks.
    let broken = PRICING.replace("string sku = 1;", "int32 sku = 1;").replace("string text = 1;", "string text = 1; string more = 2;");
    let refused = post(&broker, "/api/v1/schemas", &service(&broken, false)).problem(409, "schema-incompatible");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("nothing is registered")), "{refused}");
    for queue in ["pricing.explain", "pricing.get_quote"] {
        assert_eq!(get(&broker, &format!("/api/v1/schemas/{queue}")).ok()["versions"].as_array().map(Vec::len), Some(1), "{queue}");
    }
    let forced = post(&broker, "/api/v1/schemas", &service(&broken, true)).ok();
    assert_eq!(forced["contracts"][1]["version"], 2);

    let streams = PRICING.replace("returns (Quote);", "returns (stream Quote);");
    for (body, says) in [
        (service(&streams, false), "GetQuote"),
        (json!({"files": {"pricing.proto": PRICING}, "service": "shop.v1.Prices"}), "shop.v1.Pricing"),
        (json!({"files": {"pricing.proto": PRICING}, "service": "shop.v1.Pricing", "queue": ".hidden"}), "another prefix"),
        (json!({"descriptor_set_base64": "AAAA", "service": "shop.v1.Pricing"}), "descriptor set"),
    ] {
        let problem = post(&broker, "/api/v1/schemas", &body).problem(422, "schema-invalid");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(says)), "{says}: {problem}");
    }
    post(&broker, "/api/v1/schemas", &json!({"service": "shop.v1.Pricing"})).problem(400, "invalid-argument");
    post(&broker, "/api/v1/schemas", &json!({"files": {"pricing.proto": PRICING}})).problem(400, "invalid-argument");
}
