//! A worker without a broker: one attempt at a time, or all of them as a queue would make them.

use std::sync::Arc;

use crate::app::stop::{Stop, Stopper};
use crate::ledger::Settlement;
use crate::testing::Parcel;
use crate::worker::attempt::{self, End};
use crate::worker::{Consumer, States, Worker};

/// Attempts that a queue makes when nobody says; the broker's default.
const MAX_DELIVERIES_DEFAULT: u32 = 5;

/// The group of a consumer that names none.
const GROUP_DEFAULT: &str = "default";

/// A worker that is driven by a test.
#[derive(Debug)]
#[must_use = "a worker does nothing until something is delivered to it"]
pub struct TestWorker {
    worker: Worker,
    states: Arc<States>,
    max_deliveries: u32,
    stopper: Stopper,
    stop: Stop,
}

/// What a worker made of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Handled {
    /// What the broker would be told: ack, nack with its delay and reason, or reject with its reason.
    pub settlement: Settlement,
    /// The handler panicked; the text is in the reason.
    pub panicked: bool,
    /// The payload was not the handler's message, so the handler was not called.
    pub undecodable: bool,
}

/// What became of a message in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Acknowledged.
    Acked,
    /// Given up by the worker, with its reason.
    Rejected(String),
    /// Given up by the queue after its `max_deliveries`, with the last attempt's reason.
    OutOfAttempts(String),
}

impl TestWorker {
    pub(crate) fn new<C: Consumer>() -> TestWorker {
        let (stopper, stop) = Stopper::new();
        TestWorker { worker: C::worker(), states: Arc::default(), max_deliveries: MAX_DELIVERIES_DEFAULT, stopper, stop }
    }

    /// Something that handlers share; see [`App::state`](crate::App::state).
    ///
    /// # Panics
    /// When one of that type was given before.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> TestWorker {
        let states = Arc::get_mut(&mut self.states).expect("handlers borrow the states only while they run");
        states.insert(value);
        if let Some(type_name) = states.twice() {
            panic!("two states of type {type_name} were given");
        }
        self
    }

    /// Attempts that [`TestWorker::deliver_until_settled`] makes at most. Default: 5, as the broker's.
    pub fn max_deliveries(mut self, attempts: u32) -> TestWorker {
        self.max_deliveries = attempts.max(1);
        self
    }

    /// What the attribute says.
    #[must_use]
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Lets handlers see that the app is stopping.
    pub fn stop(&self) {
        self.stopper.stop();
    }

    /// Delivers a message for the first time.
    ///
    /// # Panics
    /// As [`TestWorker::deliver`].
    pub async fn send(&self, message: &impl prost::Message) -> Handled {
        self.deliver(Parcel::of(message)).await
    }

    /// Makes one attempt.
    ///
    /// # Panics
    /// When the worker wants a state that it was not given: an app would not start.
    pub async fn deliver(&self, parcel: Parcel) -> Handled {
        if let Err(missing) = (self.worker.check)(&self.states) {
            panic!("worker {} cannot run: {missing}", self.worker.name);
        }
        let group = match self.worker.options.group.as_str() {
            "" => GROUP_DEFAULT,
            group => group,
        };
        let ctx = parcel.open(self.worker.queue, group, Arc::clone(&self.states), self.stop.clone());
        let (end, settlement) = attempt::run(&self.worker, &ctx).await;
        Handled { settlement, panicked: end == End::Panicked, undecodable: end == End::Undecodable }
    }

    /// Makes attempts as a queue would, without its delays, until the message is settled for good. Each attempt, and how it ended.
    ///
    /// # Panics
    /// As [`TestWorker::deliver`].
    pub async fn deliver_until_settled(&self, parcel: Parcel) -> (Vec<Handled>, Fate) {
        let (mut parcel, mut attempts) = (parcel, Vec::new());
        loop {
            let handled = self.deliver(parcel.clone()).await;
            attempts.push(handled.clone());
            let fate = match handled.settlement {
                Settlement::Ack => Fate::Acked,
                Settlement::Reject { reason } => Fate::Rejected(reason),
                Settlement::Nack { reason, .. } if parcel.number() >= self.max_deliveries => Fate::OutOfAttempts(reason),
                Settlement::Nack { .. } | Settlement::Release => {
                    parcel = parcel.next_attempt();
                    continue;
                }
            };
            return (attempts, fate);
        }
    }
}
