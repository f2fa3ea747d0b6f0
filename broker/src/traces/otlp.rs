//! Spans as OTLP has them: the few messages of opentelemetry-proto 1.x that a trace needs, by their numbers.
//!
//! Written down here, since a span's fields are known and fixed, and the crates for it bring a second HTTP stack.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use prost::Message;

use super::span::{Span, Work};

/// `opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<OtlpSpan>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 3")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

const KIND_INTERNAL: i32 = 1;
const KIND_SERVER: i32 = 2;
const STATUS_ERROR: i32 = 2;

/// Where the process's clock and the world's agree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    instant: Instant,
    unix_nanos: u64,
}

impl Epoch {
    pub(super) fn now() -> Epoch {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Epoch { instant: Instant::now(), unix_nanos: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) }
    }

    fn unix_nanos(&self, at: Instant) -> u64 {
        let nanos = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        match at.checked_duration_since(self.instant) {
            Some(after) => self.unix_nanos.saturating_add(nanos(after)),
            None => self.unix_nanos.saturating_sub(nanos(self.instant.duration_since(at))),
        }
    }
}

/// A batch of spans of this process; `instance` tells it from other brokers.
pub(super) fn request(spans: &[Span], epoch: Epoch, instance: &str) -> Request {
    let version = env!("CARGO_PKG_VERSION");
    let resource = Resource {
        attributes: vec![text("service.name", "qwer-q"), text("service.version", version), text("service.instance.id", instance)],
    };
    let scope = Scope { name: "qwer-q".to_owned(), version: version.to_owned() };
    let scope_spans = ScopeSpans { scope: Some(scope), spans: spans.iter().map(|span| on_wire(span, epoch)).collect() };
    Request { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans: vec![scope_spans] }] }
}

fn on_wire(span: &Span, epoch: Epoch) -> OtlpSpan {
    let mut attributes = vec![
        text("messaging.system", "qwer-q"),
        text("messaging.operation.name", span.work.name()),
        text("messaging.destination.name", &span.queue),
    ];
    if let Some(message) = &span.message {
        let id: String = message.iter().map(|byte| format!("{byte:02x}")).collect();
        attributes.push(text("messaging.message.id", &id));
    }
    if span.attempt > 0 {
        let value = Some(AnyValue { value: Some(Value::Number(span.attempt.into())) });
        attributes.push(KeyValue { key: "qwerq.attempt".to_owned(), value });
    }
    if let Some(error) = &span.error {
        attributes.push(text("error.type", error));
    }
    let operation = span.work.name();
    OtlpSpan {
        trace_id: span.parent.trace_id.to_vec(),
        span_id: span.id.to_vec(),
        parent_span_id: span.parent.span_id.to_vec(),
        name: if span.work.names_queue() { format!("{operation} {}", span.queue) } else { operation.to_owned() },
        kind: if matches!(span.work, Work::Validate | Work::Commit) { KIND_INTERNAL } else { KIND_SERVER },
        start_time_unix_nano: epoch.unix_nanos(span.started),
        end_time_unix_nano: epoch.unix_nanos(span.ended),
        attributes,
        status: span.error.as_ref().map(|error| Status { message: error.clone(), code: STATUS_ERROR }),
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(Value::Text(value.to_owned())) }) }
}
