//! Traces: what a collector is told about a message whose publisher records a trace. The collector here takes OTLP and reads it with
//! messages of its own.

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

use bytes::Bytes;
use prost::Message;
use qwerq_proto::wire;

use support::broker::Broker;
use support::raw::Raw;

/// A span as it arrived.
#[derive(Debug, Clone)]
struct Span {
    name: String,
    trace_id: String,
    span_id: String,
    parent: String,
    start: u64,
    end: u64,
    attributes: BTreeMap<String, String>,
    failed: bool,
}

/// The parts of OTLP that are looked at, by the numbers of opentelemetry-proto.
mod otlp {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Request {
        #[prost(message, repeated, tag = "1")]
        pub(crate) resource_spans: Vec<ResourceSpans>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ResourceSpans {
        #[prost(message, optional, tag = "1")]
        pub(crate) resource: Option<Resource>,
        #[prost(message, repeated, tag = "2")]
        pub(crate) scope_spans: Vec<ScopeSpans>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Resource {
        #[prost(message, repeated, tag = "1")]
        pub(crate) attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ScopeSpans {
        #[prost(message, repeated, tag = "2")]
        pub(crate) spans: Vec<Span>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Span {
        #[prost(bytes = "vec", tag = "1")]
        pub(crate) trace_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        pub(crate) span_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "4")]
        pub(crate) parent_span_id: Vec<u8>,
        #[prost(string, tag = "5")]
        pub(crate) name: String,
        #[prost(fixed64, tag = "7")]
        pub(crate) start: u64,
        #[prost(fixed64, tag = "8")]
        pub(crate) end: u64,
        #[prost(message, repeated, tag = "9")]
        pub(crate) attributes: Vec<KeyValue>,
        #[prost(message, optional, tag = "15")]
        pub(crate) status: Option<Status>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Status {
        #[prost(int32, tag = "3")]
        pub(crate) code: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct KeyValue {
        #[prost(string, tag = "1")]
        pub(crate) key: String,
        #[prost(message, optional, tag = "2")]
        pub(crate) value: Option<AnyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct AnyValue {
        #[prost(oneof = "Value", tags = "1, 3")]
        pub(crate) value: Option<Value>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Value {
        #[prost(string, tag = "1")]
        Text(String),
        #[prost(int64, tag = "3")]
        Number(i64),
    }

    pub(crate) fn text(attribute: &KeyValue) -> String {
        match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
            Some(Value::Text(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            None => String::new(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes OTLP over HTTP on a port of its own and hands out what arrives.
fn collector() -> (SocketAddr, Receiver<Span>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let (arrived, spans) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let (head, body) = request(&mut stream);
            assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
            assert!(head.to_ascii_lowercase().contains("content-type: application/x-protobuf\r\n"), "{head}");
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("the broker reads");
            let request = otlp::Request::decode(body.as_slice()).expect("OTLP");
            for of_resource in request.resource_spans {
                let resource = of_resource.resource.expect("a resource");
                let service = resource.attributes.iter().find(|attribute| attribute.key == "service.name").map(otlp::text);
                assert_eq!(service.as_deref(), Some("qwer-q"));
                for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                    let span = Span {
                        trace_id: hex(&span.trace_id),
                        span_id: hex(&span.span_id),
                        parent: hex(&span.parent_span_id),
                        start: span.start,
                        end: span.end,
                        attributes: span.attributes.iter().map(|attribute| (attribute.key.clone(), otlp::text(attribute))).collect(),
                        failed: span.status.is_some_and(|status| status.code == 2),
                        name: span.name,
                    };
                    if arrived.send(span).is_err() {
                        return;
                    }
                }
            }
        }
    });
    (address, spans)
}

/// The head and the body of an HTTP request.
fn request(stream: &mut impl Read) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 << 10];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end + 2]).into_owned();
            let length = head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ").map(str::to_owned));
            let length: usize = length.expect("a length").parse().expect("a number");
            if bytes.len() >= end + 4 + length {
                return (head, bytes[end + 4..end + 4 + length].to_vec());
            }
        }
        let got = stream.read(&mut chunk).expect("the broker writes");
        assert!(got > 0, "the broker hung up in the middle of a request");
        bytes.extend_from_slice(&chunk[..got]);
    }
}

fn item(payload: &'static [u8], traceparent: &str) -> wire::PublishItem {
    let header = wire::Header { name: "traceparent".to_owned(), value: traceparent.to_owned() };
    wire::PublishItem { payload: Bytes::from_static(payload), headers: vec![header], ..wire::PublishItem::default() }
}

#[test]
fn a_traced_message_is_followed_from_publish_to_ack() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PUBLISHER: &str = "00f067aa0ba902b7";
    let (address, spans) = collector();
    let mut broker = Broker::start(&["--otlp-endpoint", &format!("http://{address}")]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("shop.proto");
    std::fs::write(&file, "syntax = \"proto3\"; message Order { string id = 1; }").expect("writable");
    let done = broker.run(&["schema", "register", "-q", "orders", "-p", file.to_str().expect("UTF-8"), "-m", "Order"]);
    assert!(done.status.success(), "{done:?}");

    let mut raw = Raw::hello(broker.address);
    let traced = format!("00-{TRACE}-{PUBLISHER}-01");
    let other = TRACE.replace('4', "5");
    let items = vec![
        item(b"\x0a\x01a", &traced),
        item(b"\x0a\x01b", &format!("00-{TRACE}-{PUBLISHER}-00")),
        item(b"\x08\x01", &format!("00-{other}-{PUBLISHER}-01")),
        item(b"\x0a\x01c", "nonsense"),
    ];
    let results = raw.publish(&wire::Publish { queue: "orders".to_owned(), items, ..wire::Publish::default() });
    raw.consume("orders", "billing", 10);
    for message in raw.take(3) {
        raw.ack(&message);
    }
    drop(raw);
    // A stop sends what has not been sent.
    assert!(broker.terminate().success());
    let spans: Vec<Span> = spans.try_iter().collect();
    let named = |trace: &str, name: &str| -> Span {
        let found: Vec<_> = spans.iter().filter(|span| span.trace_id == trace && span.name == name).collect();
        assert_eq!(found.len(), 1, "{name} in {spans:#?}");
        found[0].clone()
    };
    let (publish, validate, commit) = (named(TRACE, "publish orders"), named(TRACE, "validate"), named(TRACE, "commit"));
    let (deliver, ack) = (named(TRACE, "deliver orders"), named(TRACE, "ack orders"));
    assert_eq!((publish.parent.as_str(), deliver.parent.as_str()), (PUBLISHER, PUBLISHER));
    assert_eq!((&validate.parent, &commit.parent, &ack.parent), (&publish.span_id, &publish.span_id, &deliver.span_id));
    assert!(publish.start <= validate.start && validate.end <= commit.start && commit.end <= publish.end, "{spans:#?}");
    assert!(publish.end <= deliver.start + 1_000_000 && deliver.start <= deliver.end && deliver.start <= ack.start && ack.start <= ack.end);
    let id = hex(&results[0].id);
    for span in [&publish, &commit, &deliver, &ack] {
        assert_eq!(span.attributes["messaging.message.id"], id, "{span:?}");
        assert_eq!((span.attributes["messaging.destination.name"].as_str(), span.failed), ("orders", false));
    }
    assert_eq!(deliver.attributes["qwerq.attempt"], "1");
    // What was refused has a trace that ends there.
    let (refused, judged) = (named(&other, "publish orders"), named(&other, "validate"));
    assert!(refused.failed && judged.failed);
    assert_eq!(refused.attributes["error.type"], "schema-violation");
    assert_eq!(spans.len(), 7, "{spans:#?}");
}

#[test]
fn a_collector_that_is_not_there_holds_up_nobody() {
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let mut broker = Broker::start(&["--otlp-endpoint", &format!("http://{nobody}")]);
    let mut raw = Raw::hello(broker.address);
    let traced = item(b"x", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    raw.publish(&wire::Publish { queue: "orders".to_owned(), items: vec![traced], ..wire::Publish::default() });
    drop(raw);
    assert!(broker.terminate().success());
}
