//! Calls: request, reply, nothing stored. One in flight for the latency, a window of them for the rate.

use std::time::{Duration, Instant};

use qwerq::{Client, Message, ServeOptions};
use tokio::task::JoinSet;

use super::latency::Latency;
use super::load::{Load, Sample};
use super::target::Target;
use crate::failure::Failure;

/// Calls in flight at most; a line holds no more than this beyond what the responder has.
const WINDOW_MAX: usize = 1_000;

/// How long a call may take before the run fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a run gave.
pub(super) struct Calls {
    /// From asking to the reply, one call in flight.
    pub(super) latency: Latency,
    calls: u64,
    elapsed: Duration,
}

impl Calls {
    /// Calls a second, with the window full.
    pub(super) fn per_second(&self) -> f64 {
        self.calls as f64 / self.elapsed.as_secs_f64()
    }
}

/// Measures calls of one queue, with a connection each for caller and responder, which replies with what it was sent.
pub(super) async fn run(target: &Target, load: &Load, sample: &Sample, contract: bool) -> Result<Calls, Failure> {
    let load = Load { queues: 1, connections: 1, ..load.clone() };
    load.prepare(target, sample, contract).await?;
    let queue = load.queue_names().remove(0);
    let window = load.window.min(WINDOW_MAX);
    let (calling, serving) = (target.connect(1).await?, target.connect(1).await?);
    let concurrency = u32::try_from(window).expect("at most a thousand");
    let mut responder = serving.serve(&queue, ServeOptions { concurrency, ..ServeOptions::default() }).await?;
    let answering = async {
        while let Some(call) = responder.next().await {
            let call = call?;
            let payload = call.payload.clone();
            call.reply(Message::new(payload))?;
        }
        Err(Failure::failed("serving ended before the run did"))
    };
    let asking = async {
        let latency = one_at_a_time(&calling, &queue, &load, sample).await?;
        let (calls, elapsed) = windowed(&calling, &queue, &load, sample, window).await?;
        Ok(Calls { latency, calls, elapsed })
    };
    let outcome = tokio::select! {
        outcome = asking => outcome,
        ended = answering => ended,
    }?;
    calling.close().await?;
    serving.close().await?;
    load.clean_up(target).await?;
    Ok(outcome)
}

async fn one_at_a_time(client: &Client, queue: &str, load: &Load, sample: &Sample) -> Result<Latency, Failure> {
    let mut latency = Latency::new();
    let mut pace = load.pace();
    while pace.due(1).await > 0 {
        let due = pace.due_at(pace.sent - 1);
        client.call(queue, sample.message(), PATIENCE).await?;
        latency.record(Instant::now().saturating_duration_since(due));
    }
    Ok(latency)
}

/// As many callers as the window has places, each with one call in flight.
async fn windowed(client: &Client, queue: &str, load: &Load, sample: &Sample, window: usize) -> Result<(u64, Duration), Failure> {
    let started = Instant::now();
    let mut callers = JoinSet::new();
    // The rate is for the latency; here each caller goes as fast as replies come.
    let each = Load { connections: window, rate: None, ..load.clone() };
    for _ in 0..window {
        let (client, queue, sample, mut pace) = (client.clone(), queue.to_owned(), sample.clone(), each.pace());
        callers.spawn(async move {
            while pace.due(1).await > 0 {
                client.call(&queue, sample.message(), PATIENCE).await?;
            }
            Ok::<u64, Failure>(pace.sent)
        });
    }
    let mut calls = 0;
    while let Some(ended) = callers.join_next().await {
        calls += ended.map_err(|error| Failure::failed(error.to_string()))??;
    }
    Ok((calls, started.elapsed()))
}
