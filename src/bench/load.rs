//! How much of what a scenario sends: sizes, windows, connections, and when it ends.

use std::time::{Duration, Instant};

use qwerq::{Message, NewSchema};
use tokio::task::yield_now;

use super::target::Target;
use crate::contract::Contract;
use crate::failure::Failure;
use qwerq::Client;

/// What the flags of `bench` say about the load.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) payload_bytes: usize,
    /// Publishes in flight, per connection.
    pub(super) window: usize,
    pub(super) connections: usize,
    pub(super) queues: usize,
    pub(super) groups: usize,
    /// Different ordering keys; 0: none.
    pub(super) keys: usize,
    /// Messages a second over all connections; none: as fast as it goes.
    pub(super) rate: Option<f64>,
    pub(super) until: Until,
}

/// When a run ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    Elapsed(Duration),
    Messages(u64),
}

/// The contract of the bench: six fields of the usual kinds.
const PROTO: &str = r#"syntax = "proto3";

package qwerq.bench;

message Order {
  string id = 1;
  string customer = 2;
  uint64 quantity = 3;
  double price = 4;
  fixed64 created_at = 5;
  string note = 6;
}
"#;

const MESSAGE_TYPE: &str = "qwerq.bench.Order";

/// The contract and a payload that keeps it; scenarios without a contract send the same bytes.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    descriptor_set: Vec<u8>,
    payload: bytes::Bytes,
}

impl Sample {
    /// A payload of `bytes` bytes, or of the smallest number above that an order takes.
    pub(super) fn new(bytes: usize) -> Result<Sample, Failure> {
        let compiled = compile()?;
        let contract = Contract::new(&compiled, MESSAGE_TYPE).map_err(|why| cannot_compile(&why))?;
        let mut note = bytes;
        loop {
            let payload = contract.encode(&order(note)).map_err(|why| cannot_compile(&why))?;
            if payload.len() <= bytes || note == 0 {
                return Ok(Sample { descriptor_set: compiled, payload: payload.into() });
            }
            note -= (payload.len() - bytes).min(note);
        }
    }

    pub(super) fn message(&self) -> Message {
        Message::new(self.payload.clone())
    }

    /// Gives `queue` the contract.
    pub(super) async fn register(&self, client: &Client, queue: &str) -> Result<(), Failure> {
        let schema = NewSchema {
            queue: queue.to_owned(),
            descriptor_set: self.descriptor_set.clone().into(),
            message_type: MESSAGE_TYPE.to_owned(),
            // Calls are answered with what was asked.
            reply_type: Some(MESSAGE_TYPE.to_owned()),
            ..NewSchema::default()
        };
        client.register_schema(schema).await?;
        Ok(())
    }
}

fn order(note: usize) -> String {
    let note = "x".repeat(note);
    format!(r#"{{"id":"o-0000000001","customer":"c-4711","quantity":"2","price":9.99,"createdAt":"1796125683","note":"{note}"}}"#)
}

fn compile() -> Result<Vec<u8>, Failure> {
    let directory = tempfile::tempdir().map_err(|error| cannot_compile(&error))?;
    let path = directory.path().join("bench.proto");
    std::fs::write(&path, PROTO).map_err(|error| cannot_compile(&error))?;
    let compiled = qwerq_codegen::compile::compile(&path, &[]).map_err(|error| cannot_compile(&error))?;
    Ok(compiled.descriptor_set)
}

fn cannot_compile(why: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("cannot make the bench's contract: {why}"))
}

impl Load {
    /// The names of the queues of a scenario.
    pub(super) fn queue_names(&self) -> Vec<String> {
        (0..self.queues).map(|i| format!("qwerq-bench-{i}")).collect()
    }

    /// Fresh queues, with the sample's contract if `contract`.
    pub(super) async fn prepare(&self, target: &Target, sample: &Sample, contract: bool) -> Result<(), Failure> {
        let client = target.connect(1).await?;
        for queue in self.queue_names() {
            target.fresh_queue(&client, &queue).await?;
            if contract {
                sample.register(&client, &queue).await?;
            }
        }
        Ok(client.close().await?)
    }

    /// Removes what `prepare` made.
    pub(super) async fn clean_up(&self, target: &Target) -> Result<(), Failure> {
        let client = target.connect(1).await?;
        for queue in self.queue_names() {
            target.drop_queue(&client, &queue).await?;
        }
        Ok(client.close().await?)
    }

    /// The n-th message of a connection.
    pub(super) fn message(&self, sample: &Sample, n: u64) -> Message {
        let message = sample.message();
        match u64::try_from(self.keys) {
            Ok(keys) if keys > 0 => message.ordering_key(format!("key-{}", n % keys)),
            _ => message,
        }
    }

    /// How one connection of this load paces itself from now on.
    pub(super) fn pace(&self) -> Pace {
        let connections = self.connections as f64;
        let interval = self.rate.map(|rate| Duration::from_secs_f64(connections / rate));
        let messages = match self.until {
            Until::Messages(n) => Some(n.div_ceil(u64::try_from(self.connections).unwrap_or(1))),
            Until::Elapsed(_) => None,
        };
        let time = match self.until {
            Until::Elapsed(time) => Some(time),
            Until::Messages(_) => None,
        };
        Pace { started: Instant::now(), interval, messages, time, sent: 0 }
    }
}

/// When the next messages of a connection are due, and when there are none any more.
pub(super) struct Pace {
    started: Instant,
    interval: Option<Duration>,
    messages: Option<u64>,
    time: Option<Duration>,
    pub(super) sent: u64,
}

impl Pace {
    /// Waits until at least one message is due and returns how many are, at most `max`; 0: the run is over. Counts them as sent.
    pub(super) async fn due(&mut self, max: u64) -> u64 {
        loop {
            let elapsed = self.started.elapsed();
            if self.time.is_some_and(|time| elapsed >= time) {
                return 0;
            }
            let left = self.messages.map_or(u64::MAX, |messages| messages - self.sent);
            let due = match self.interval {
                None => u64::MAX,
                Some(interval) => {
                    let so_far = elapsed.as_nanos() / interval.as_nanos().max(1) + 1;
                    u64::try_from(so_far).unwrap_or(u64::MAX) - self.sent
                }
            };
            if due > 0 || left == 0 {
                let now = due.min(left).min(max);
                self.sent += now;
                return now;
            }
            // A timer's granularity is a millisecond, which would show in the latencies.
            yield_now().await;
        }
    }

    /// When the n-th message was due; with no rate, now.
    pub(super) fn due_at(&self, n: u64) -> Instant {
        match self.interval {
            Some(interval) => self.started + interval.mul_f64(n as f64),
            None => Instant::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_has_the_size_that_was_asked_for() {
        for bytes in [128, 200, 256, 1_024] {
            let sample = Sample::new(bytes).expect("a sample");
            assert!((bytes - 1..=bytes).contains(&sample.payload.len()), "{bytes}");
        }
        assert!(Sample::new(1).expect("the smallest order").payload.len() > 30);
    }

    #[tokio::test]
    async fn a_run_of_messages_ends_with_the_last() {
        let load =
            Load { payload_bytes: 1, window: 1, connections: 2, queues: 1, groups: 1, keys: 0, rate: None, until: Until::Messages(101) };
        let mut pace = load.pace();
        assert_eq!((pace.due(50).await, pace.due(50).await), (50, 1));
        assert_eq!(pace.due(50).await, 0);
    }

    #[tokio::test]
    async fn a_rate_makes_messages_due_one_after_the_other() {
        let load = Load {
            payload_bytes: 1,
            window: 1,
            connections: 1,
            queues: 1,
            groups: 1,
            keys: 0,
            rate: Some(1e6),
            until: Until::Messages(20),
        };
        let mut pace = load.pace();
        let mut total = 0;
        loop {
            match pace.due(5).await {
                0 => break,
                n => total += n,
            }
        }
        assert_eq!(total, 20);
        assert_eq!(pace.due_at(10) - pace.due_at(0), Duration::from_micros(10));
    }
}
