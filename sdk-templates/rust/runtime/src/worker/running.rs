//! A worker that consumes: takes as many messages as may be handled at once, one task each, until it is told to stop. Then it takes nothing
//! more, gives back what waits unstarted, and finishes what has begun.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::app::stop::Stop;
use crate::client::Client;
use crate::error::Error;
use crate::subscription::Subscription;
use crate::worker::ctx::Ctx;
use crate::worker::state::States;
use crate::worker::{Worker, attempt};

/// How long handlers that are cut short have to notice.
const CUT_SHORT: Duration = Duration::from_secs(1);

/// A worker whose subscription is open.
#[derive(Debug)]
pub(crate) struct Running {
    worker: Arc<Worker>,
    subscription: Subscription,
    group: Arc<str>,
    states: Arc<States>,
}

impl Running {
    /// Subscribes.
    pub(crate) async fn open(client: &Client, worker: Worker, states: Arc<States>) -> Result<Running, Error> {
        let subscription = client.consume(worker.queue, worker.consume_options()).await?;
        let group = subscription.group().into();
        Ok(Running { worker: Arc::new(worker), subscription, group, states })
    }

    /// Works until `stop`, or until the subscription ends; an error is what ended it.
    pub(crate) async fn run(mut self, stop: Stop) -> Result<(), Error> {
        let mut handlers = JoinSet::new();
        let ended = self.take(&mut handlers, &stop).await;
        // Not `Subscription::drain`, which would wait for a broker that may be away: closing the client waits for what can be waited for.
        drop(self.subscription);
        finish(handlers, &stop).await;
        ended
    }

    async fn take(&mut self, handlers: &mut JoinSet<()>, stop: &Stop) -> Result<(), Error> {
        let mut stopping = pin!(stop.stopping());
        loop {
            tokio::select! {
                biased;
                () = &mut stopping => return Ok(()),
                // Panics were caught, so there is nothing to look at.
                Some(_) = handlers.join_next(), if !handlers.is_empty() => {}
                next = self.subscription.next(), if handlers.len() < self.worker.at_once() => match next {
                    Some(delivery) => {
                        let ctx = Ctx::new(delivery?, Arc::clone(&self.group), Arc::clone(&self.states), stop.clone());
                        let worker = Arc::clone(&self.worker);
                        handlers.spawn(async move { attempt::settle(&worker, ctx).await });
                    }
                    None => return Ok(()),
                },
            }
        }
    }
}

/// Waits for what runs, or cuts it short when the app's patience is over.
pub(crate) async fn finish(mut running: JoinSet<()>, stop: &Stop) {
    let mut abandoned = pin!(stop.abandoned());
    loop {
        tokio::select! {
            biased;
            next = running.join_next() => match next {
                Some(_) => {}
                None => return,
            },
            () = &mut abandoned => {
                running.abort_all();
                // Whoever blocks its thread cannot be cut short, so nobody waits for it for long.
                let cut_short = async { while running.join_next().await.is_some() {} };
                if tokio::time::timeout(CUT_SHORT, cut_short).await.is_err() {
                    running.detach_all();
                }
                return;
            }
        }
    }
}
