//! The spans of a shard: what it does for messages whose publisher records a trace. Without a tracer they are off.
//!
//! It keeps the contexts of deliveries until their acks, in memory and not for ever: a trace may lack its last span, a message never
//! anything.

use std::sync::Arc;
use std::time::Instant;

use qwerq_core::stored::Fields;
use qwerq_core::{Delivery, LeaseId, MessageId};
use rustc_hash::FxHashMap;

use crate::traces::{Context, Span, TRACEPARENT, Tracer, Work, new_id};

use super::reply::ItemReply;

/// Deliveries whose acks are waited for; beyond it all are forgotten.
const HANDED_MAX: usize = 10_000;

/// A message of a publish whose trace is recorded.
#[derive(Debug, Clone)]
pub struct Traced {
    /// Which item of the publish.
    pub(crate) at: usize,
    /// The publisher's span.
    pub(crate) parent: Context,
    /// When its payload was judged, from and to; `None`: it was not.
    pub(crate) judged: Option<(Instant, Instant)>,
}

/// A delivery that is traced.
struct Handed {
    /// The span of the delivery.
    parent: Context,
    queue: Arc<str>,
    message: [u8; 16],
    attempt: u32,
}

pub(super) struct Traces {
    tracer: Option<Arc<Tracer>>,
    /// By the number of the lease.
    handed: FxHashMap<u64, Handed>,
    /// Deliveries of this turn, which end when it does.
    delivering: Vec<Span>,
    /// Acks that wait for the commit.
    acking: Vec<Span>,
    /// When the last batch was written, from and to.
    committed: Option<(Instant, Instant)>,
}

impl Traces {
    pub(super) fn new(tracer: Option<Arc<Tracer>>) -> Traces {
        Traces { tracer, handed: FxHashMap::default(), delivering: Vec::new(), acking: Vec::new(), committed: None }
    }

    pub(super) fn are_on(&self) -> bool {
        self.tracer.is_some()
    }

    /// A batch is durable, and with it the acks that it holds.
    pub(super) fn committed(&mut self, started: Instant) {
        let Some(tracer) = &self.tracer else { return };
        let ended = Instant::now();
        self.committed = Some((started, ended));
        self.acking.drain(..).for_each(|span| tracer.ended(Span { ended, ..span }));
    }

    /// A publish is answered.
    pub(super) fn published(&mut self, queue: &Arc<str>, traced: &[Traced], items: &[ItemReply], received: Instant, ended: Instant) {
        let Some(tracer) = &self.tracer else { return };
        for Traced { at, parent, judged } in traced {
            let (message, error, is_stored) = match &items[*at] {
                ItemReply::Stored { id, .. } | ItemReply::Delayed { id } => (Some(*id), None, true),
                ItemReply::Duplicate { id, .. } | ItemReply::DuplicateOfPending { id, .. } => (Some(*id), None, false),
                ItemReply::DeadLettered { id, error } => (Some(*id), Some(error.name.clone()), true),
                ItemReply::Refused(error) => (None, Some(error.name.clone()), false),
            };
            let message = message.map(|MessageId(id)| id);
            let publish = Span {
                work: Work::Publish,
                parent: *parent,
                id: new_id(),
                started: received,
                ended,
                queue: Arc::clone(queue),
                message,
                attempt: 0,
                error,
            };
            let part = |work, (started, ended)| Span {
                work,
                parent: publish.context(),
                id: new_id(),
                started,
                ended,
                error: if work == Work::Validate { publish.error.clone() } else { None },
                ..publish.clone()
            };
            judged.iter().for_each(|times| tracer.ended(part(Work::Validate, *times)));
            self.committed.iter().filter(|_| is_stored).for_each(|times| tracer.ended(part(Work::Commit, *times)));
            tracer.ended(publish);
        }
    }

    /// A message is on its way to a consumer.
    pub(super) fn delivering(&mut self, queue: impl FnOnce() -> Arc<str>, delivery: &Delivery, stored: &[u8]) {
        let fields = Fields::of(stored);
        let Some(parent) = fields.header(TRACEPARENT).and_then(Context::sampled) else { return };
        let now = Instant::now();
        let span = Span {
            work: Work::Deliver,
            parent,
            id: new_id(),
            started: now,
            ended: now,
            queue: queue(),
            message: fields.id(),
            attempt: delivery.attempt,
            error: None,
        };
        if self.handed.len() >= HANDED_MAX {
            self.handed.clear();
        }
        let handed = Handed {
            parent: span.context(),
            queue: Arc::clone(&span.queue),
            message: span.message.unwrap_or_default(),
            attempt: delivery.attempt,
        };
        self.handed.insert(delivery.lease_id.counter, handed);
        self.delivering.push(span);
    }

    /// The turn's deliveries have been handed to their connections.
    pub(super) fn delivered(&mut self) {
        let Some(tracer) = &self.tracer else { return };
        if !self.delivering.is_empty() {
            let ended = Instant::now();
            self.delivering.drain(..).for_each(|span| tracer.ended(Span { ended, ..span }));
        }
    }

    /// A lease was acknowledged; the span ends with the next commit.
    pub(super) fn acking(&mut self, lease: LeaseId) {
        let Some(Handed { parent, queue, message, attempt }) = self.handed.remove(&lease.counter) else { return };
        let now = Instant::now();
        let span =
            Span { work: Work::Ack, parent, id: new_id(), started: now, ended: now, queue, message: Some(message), attempt, error: None };
        self.acking.push(span);
    }
}
