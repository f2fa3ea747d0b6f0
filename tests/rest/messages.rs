//! Publishing and looking, in JSON by the contract and raw.

use serde_json::{Value, json};

use crate::support::broker::Broker;
use crate::support::cli::json_lines;
use crate::support::http::ask;
use crate::{get, post, register_order, send};

const RAW: (&str, &str) = ("content-type", "application/x-protobuf");

#[test]
fn json_becomes_the_contracts_payload_and_comes_back_as_json() {
    let broker = Broker::start(&[]);
    register_order(&broker, "orders");
    let body = json!({"id": "o-1", "quantity": 2, "state": "STATE_PAID", "placedAt": "2026-12-01T08:00:00Z", "signature": "AQI="});
    let message = json!({"body": body, "headers": {"source": "web"}, "ordering_key": "c-7"});
    let published = post(&broker, "/api/v1/queues/orders/messages", &message).ok();
    assert_eq!((&published["seq"], &published["version"], &published["durability"]), (&json!(0), &json!(1), &json!("fsync")));
    let page = get(&broker, "/api/v1/queues/orders/messages").ok();
    let stored = &page["messages"][0];
    let mut expected = body.clone();
    expected["quantity"] = json!("2");
    assert_eq!(stored["body"], expected);
    assert_eq!(
        (&stored["headers"], &stored["ordering_key"], &stored["schema_version"]),
        (&json!({"source": "web"}), &json!("c-7"), &json!(1))
    );
    assert_eq!(stored["id"], published["id"]);
    // The command line says the same, and the broker validated the same bytes.
    let consumed = json_lines(&broker, &["peek", "-q", "orders", "--json"]).remove(0);
    for key in ["id", "seq", "queue", "headers", "published_at", "ordering_key", "body"] {
        assert_eq!(stored[key], consumed[key], "{key}");
    }
}

#[test]
fn json_that_breaks_the_contract_is_refused_with_its_field() {
    let broker = Broker::start(&[]);
    register_order(&broker, "orders");
    let refused = post(&broker, "/api/v1/queues/orders/messages", &json!({"body": {"quantity": "many"}})).problem(422, "schema-violation");
    assert_eq!((&refused["details"]["path"], &refused["details"]["type"]), (&json!("quantity"), &json!("shop.v1.Order")), "{refused}");
    let unknown = post(&broker, "/api/v1/queues/orders/messages", &json!({"body": {"colour": "red"}})).problem(422, "schema-violation");
    assert!(unknown["detail"].as_str().is_some_and(|detail| detail.contains("colour")), "{unknown}");
    let raw = ask(broker.http, "POST", "/api/v1/queues/orders/messages", &[RAW], b"\x08\x01").problem(422, "schema-violation");
    assert_eq!((&raw["details"]["path"], &raw["details"]["version"]), (&json!("id"), &json!("1")));
    assert_eq!(get(&broker, "/api/v1/queues/orders").ok()["depth"], 0);
}

#[test]
fn one_bad_message_of_an_array_does_not_hold_up_the_others_unless_it_is_atomic() {
    let broker = Broker::start(&[]);
    register_order(&broker, "orders");
    let batch = json!([{"body": {"id": "a"}}, {"body": {"quantity": "many"}}, {"payload_base64": "CAE="}, {"body": {"id": "d"}}]);
    let answer = post(&broker, "/api/v1/queues/orders/messages", &batch).ok();
    assert_eq!((&answer["published"], &answer["refused"]), (&json!(2), &json!(2)));
    let results = answer["results"].as_array().expect("a list");
    let words: Vec<_> = results.iter().map(|result| result["seq"].as_u64().map_or(result["error"]["code"].clone(), Value::from)).collect();
    assert_eq!(words, [json!(0), json!("schema-violation"), json!("schema-violation"), json!(1)]);
    let refused = post(&broker, "/api/v1/queues/orders/messages?atomic=true", &batch).problem(422, "schema-violation");
    assert_eq!(refused["details"]["index"], "1");
    let late = json!([{"body": {"id": "a"}}, {"payload_base64": "CAE="}]);
    let refused = post(&broker, "/api/v1/queues/orders/messages?atomic=true", &late).problem(422, "schema-violation");
    assert_eq!(refused["details"]["index"], "1");
    assert_eq!(get(&broker, "/api/v1/queues/orders").ok()["depth"], 2);
    assert_eq!(post(&broker, "/api/v1/queues/orders/messages", &json!([])).ok(), json!({"published": 0, "refused": 0, "results": []}));
}

#[test]
fn without_a_contract_json_text_and_bytes_are_the_payload() {
    let broker = Broker::start(&[]);
    let messages = json!([{"body": {"n": 1}}, {"payload_text": "hello"}, {"payload_base64": "/w=="}, {}]);
    post(&broker, "/api/v1/queues/plain/messages", &messages).ok();
    let page = get(&broker, "/api/v1/queues/plain/messages").ok();
    let texts: Vec<_> = page["messages"].as_array().expect("a list").iter().map(|message| message["payload_text"].clone()).collect();
    assert_eq!(texts, [json!("{\"n\":1}"), json!("hello"), json!(null), json!("")]);
    assert_eq!(page["messages"][2]["payload_base64"], "/w==");
    let both = json!({"payload_text": "a", "payload_base64": "YQ=="});
    post(&broker, "/api/v1/queues/plain/messages", &both).problem(400, "invalid-argument");
}

#[test]
fn raw_payloads_go_in_and_out_byte_for_byte() {
    let broker = Broker::start(&[]);
    register_order(&broker, "orders");
    let about = ("qwerq-message", r#"{"headers": {"Name": "J\u00fcrgen"}, "ordering_key": "k"}"#);
    ask(broker.http, "POST", "/api/v1/queues/orders/messages", &[RAW, about], b"\x0a\x03o-1\x10\x02").ok();
    for accept in ["application/x-protobuf", "application/octet-stream"] {
        let answer = ask(broker.http, "GET", "/api/v1/queues/orders/messages", &[("accept", accept)], b"");
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-protobuf")));
        assert_eq!(answer.body, b"\x0a\x03o-1\x10\x02");
        let about: Value = serde_json::from_str(answer.header("qwerq-message").expect("the rest")).expect("JSON");
        assert_eq!((&about["headers"]["Name"], &about["ordering_key"], &about["seq"]), (&json!("Jürgen"), &json!("k"), &json!(0)));
    }
    let none = ask(broker.http, "GET", "/api/v1/queues/orders/messages?from_seq=1", &[("accept", "application/x-protobuf")], b"");
    assert_eq!((none.status, none.body.len()), (204, 0));
    let twice = ("qwerq-message", r#"{"payload_text": "x"}"#);
    ask(broker.http, "POST", "/api/v1/queues/orders/messages", &[RAW, twice], b"").problem(400, "invalid-argument");
}

#[test]
fn messages_are_looked_through_in_pages_and_by_filter() {
    let broker = Broker::start(&[]);
    let messages: Vec<_> = (0..50)
        .map(|n| json!({"payload_text": n.to_string(), "ordering_key": format!("k-{}", n % 7), "headers": {"parity": (n % 2).to_string()}}))
        .collect();
    let published = post(&broker, "/api/v1/queues/q/messages", &json!(messages)).ok();
    let texts = |query: &str| {
        let page = get(&broker, &format!("/api/v1/queues/q/messages?{query}")).ok();
        let texts: Vec<_> =
            page["messages"].as_array().expect("a list").iter().map(|m| m["payload_text"].as_str().map(str::to_owned)).collect();
        (texts.into_iter().map(|text| text.expect("text")).collect::<Vec<_>>(), page["next"].clone())
    };
    assert_eq!(texts("").0.len(), 20);
    assert_eq!(texts("limit=2&from_seq=10"), (vec!["10".to_owned(), "11".to_owned()], json!(12)));
    assert_eq!(texts("ordering_key=k-3").0, ["3", "10", "17", "24", "31", "38", "45"]);
    assert_eq!(texts("ordering_key=k-3&header=parity=0&limit=2"), (vec!["10".to_owned(), "24".to_owned()], json!(25)));
    assert_eq!(texts("header=parity&from_seq=48").0, ["48", "49"]);
    assert_eq!(texts("header=nothing"), (vec![], json!(null)));
    let id = published["results"][30]["id"].as_str().expect("an id");
    assert_eq!(texts(&format!("id={id}")).0, ["30"]);
    assert_eq!(texts("since=2000-01-01T00:00:00Z&until=2001-01-01T00:00:00Z").0, Vec::<String>::new());
    get(&broker, "/api/v1/queues/q/messages?id=7").problem(400, "invalid-argument");
    get(&broker, "/api/v1/queues/q/messages?since=yesterday").problem(400, "invalid-argument");
    get(&broker, "/api/v1/queues/nothing/messages").problem(404, "queue-not-found");
}

#[test]
fn a_known_idempotency_key_stores_nothing_and_delays_have_no_position() {
    let broker = Broker::start(&[]);
    let keyed = json!({"payload_text": "a", "idempotency_key": "k"});
    let first = post(&broker, "/api/v1/queues/q/messages", &keyed).ok();
    let second = post(&broker, "/api/v1/queues/q/messages", &keyed).ok();
    assert_eq!((&first["duplicate"], &second["duplicate"], &second["id"]), (&json!(false), &json!(true), &first["id"]));
    let delayed = post(&broker, "/api/v1/queues/q/messages", &json!({"payload_text": "b", "delay_ms": 3_600_000})).ok();
    assert_eq!(delayed["seq"], json!(null));
    let later = json!({"payload_text": "c", "deliver_at": "2999-01-01T00:00:00Z", "id": "01KBCS6XTW0000000000000001"});
    assert_eq!(post(&broker, "/api/v1/queues/q/messages", &later).ok()["id"], "01KBCS6XTW0000000000000001");
    assert_eq!(get(&broker, "/api/v1/queues/q").ok()["delayed"], 2);
}

#[test]
fn a_message_that_is_too_large_and_a_body_that_is_say_their_limits() {
    let broker = Broker::start(&[]);
    send(&broker, "PUT", "/api/v1/queues/small", &json!({"max_message_bytes": 10})).ok();
    let large = json!({"payload_text": "x".repeat(11)});
    let refused = post(&broker, "/api/v1/queues/small/messages", &large).problem(413, "message-too-large");
    assert_eq!(refused["details"]["limit"], "10");
    let body = vec![b' '; (16 << 20) + 1];
    ask(broker.http, "POST", "/api/v1/queues/small/messages", &[crate::JSON], &body).problem(413, "frame-too-large");
}

#[test]
fn a_stream_is_read_from_a_place() {
    let broker = Broker::start(&[]);
    send(&broker, "PUT", "/api/v1/queues/log", &json!({"mode": "stream"})).ok();
    let batch: Vec<_> = (0..5).map(|n| json!({"payload_text": n.to_string()})).collect();
    post(&broker, "/api/v1/queues/log/messages", &json!(batch)).ok();
    let read = |query: &str| {
        let page = get(&broker, &format!("/api/v1/streams/log/messages?{query}")).ok();
        let texts: Vec<_> = page["messages"].as_array().expect("a list").iter().map(|message| message["payload_text"].clone()).collect();
        (json!(texts), page["next"].clone())
    };
    assert_eq!(read(""), (json!(["0", "1", "2", "3", "4"]), json!(5)));
    assert_eq!(read("from=offset=3&limit=1"), (json!(["3"]), json!(4)));
    assert_eq!(read("from=end"), (json!([]), json!(5)));
    assert_eq!(read("from=time=2000-01-01T00:00:00Z&limit=2"), (json!(["0", "1"]), json!(2)));
    assert_eq!(read("from=time=2999-01-01T00:00:00Z"), (json!([]), json!(5)));
    get(&broker, "/api/v1/streams/log/messages?from=here").problem(400, "invalid-argument");
    send(&broker, "PUT", "/api/v1/queues/q", &json!({})).ok();
    get(&broker, "/api/v1/streams/q/messages").problem(409, "wrong-mode");
}
