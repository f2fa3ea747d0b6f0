//! Traces: spans of what the broker does for messages whose publisher records a trace, sent to a collector by OTLP over HTTP.
//!
//! Off unless `--otlp-endpoint` is set; then nobody holds a [`Tracer`], and a message costs one look at an `Option`. Which messages are
//! traced is the publishers' choice: the flag `sampled` of `traceparent`. Nothing here waits for the collector: what it does not take in
//! time is dropped and counted. docs/monitoring.md says what the spans mean. Read on in `span.rs` and `otlp.rs`.

mod context;
mod endpoint;
mod otlp;
mod span;

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::http::Metrics;

pub(crate) use context::{Context, TRACEPARENT};
pub use endpoint::Endpoint;
use otlp::Epoch;
pub(crate) use span::{Span, Work, new_id};

/// Spans that may wait for the collector.
const WAITING_MAX: usize = 16_384;

/// Spans of one request.
const BATCH_MAX: usize = 1_024;

/// How long a span waits for company.
const COMPANY: Duration = Duration::from_millis(500);

/// How long the collector may take for one request.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a stop waits for the last spans to be sent.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How often a collector that fails is complained about.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

enum Sent {
    Span(Box<Span>),
    /// Whoever waits for all before it to be sent.
    Flush(oneshot::Sender<()>),
}

/// Takes spans that have ended. Any thread may hold it.
#[derive(Debug)]
pub struct Tracer {
    spans: mpsc::Sender<Sent>,
    metrics: Arc<Metrics>,
}

impl Tracer {
    /// Starts the task that sends spans to `endpoint`.
    pub(crate) fn start(endpoint: Endpoint, metrics: Arc<Metrics>) -> Arc<Tracer> {
        let (spans, received) = mpsc::channel(WAITING_MAX);
        tokio::spawn(export(received, endpoint, Arc::clone(&metrics)));
        Arc::new(Tracer { spans, metrics })
    }

    /// Takes a span; it never waits.
    pub(crate) fn ended(&self, span: Span) {
        if self.spans.try_send(Sent::Span(Box::new(span))).is_err() {
            self.metrics.spans_dropped.add(1);
        }
    }

    /// Waits until what has ended so far is sent, but not for long.
    pub(crate) async fn flush(&self) {
        let (reply, sent) = oneshot::channel();
        let flushed = async {
            if self.spans.send(Sent::Flush(reply)).await.is_ok() {
                // A task that is gone has nothing more to send.
                let _ = sent.await;
            }
        };
        let _ = timeout(LAST_WORDS, flushed).await;
    }
}

async fn export(mut received: mpsc::Receiver<Sent>, endpoint: Endpoint, metrics: Arc<Metrics>) {
    let (epoch, instance) = (Epoch::now(), format!("{:032x}", rand::random::<u128>()));
    let mut complained: Option<Instant> = None;
    let mut waiting = Vec::new();
    let mut open = true;
    while open {
        let mut spans = Vec::new();
        open = collect(&mut received, &mut spans, &mut waiting).await;
        if !spans.is_empty() {
            let body = otlp::request(&spans, epoch, &instance).encode_to_vec();
            let outcome = timeout(PATIENCE, endpoint.send(body)).await.unwrap_or_else(|_| Err("it does not answer".to_owned()));
            let count = spans.len() as u64;
            match outcome {
                Ok(()) => metrics.spans_exported.add(count),
                Err(error) => {
                    metrics.spans_dropped.add(count);
                    if complained.is_none_or(|last| last.elapsed() >= COMPLAIN_EVERY) {
                        complained = Some(Instant::now());
                        tracing::warn!(%endpoint, %error, spans = count, "the collector takes no spans; they are dropped");
                    }
                }
            }
        }
        for reply in waiting.drain(..) {
            // Whoever flushed may not wait any more.
            let _ = reply.send(());
        }
    }
}

/// Collects spans until there are many, somebody wants them sent, or the first one has waited long enough; says whether more may come.
async fn collect(received: &mut mpsc::Receiver<Sent>, spans: &mut Vec<Span>, waiting: &mut Vec<oneshot::Sender<()>>) -> bool {
    let mut next = received.recv().await;
    let until = Instant::now() + COMPANY;
    loop {
        match next {
            None => return false,
            Some(Sent::Span(span)) => spans.push(*span),
            Some(Sent::Flush(reply)) => {
                waiting.push(reply);
                return true;
            }
        }
        if spans.len() >= BATCH_MAX {
            return true;
        }
        match timeout_at(until, received.recv()).await {
            Ok(received) => next = received,
            Err(_) => return true,
        }
    }
}
