//! A worker: a handler and how its queue is consumed. `#[qwerq::consumer]` describes it, [`App`](crate::App) runs it, and
//! [`testing`](crate::testing) drives it without a broker.
//!
//! One attempt is `attempt`, many at once are `running`; neither knows how a message was encoded. What handlers are given is `ctx`,
//! `state` and `body`, what they say is `failure`.

use std::fmt;
use std::time::Duration;

use crate::contract::ContractInfo;
use crate::subscription::{ConsumeOptions, StartAt};

pub(crate) mod attempt;
pub(crate) mod body;
pub(crate) mod ctx;
pub(crate) mod failure;
pub(crate) mod handling;
pub(crate) mod running;
pub(crate) mod state;

#[doc(hidden)]
pub use attempt::{Attempting, Outcome};
pub use body::Body;
pub use handling::{Consumer, ConsumerFn, Handling};
pub use state::{MissingState, States};

use ctx::Ctx;

/// Messages that a subscription holds at most when nobody says; the broker's default.
const PREFETCH_DEFAULT: u32 = 32;

/// What becomes of a message whose payload does not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUndecodable {
    /// To failure handling at once, with the decoder's words as the reason: another attempt would read the same bytes.
    #[default]
    Reject,
    /// Back to the queue, as after a failed attempt: another consumer of the group may be able to read it.
    Nack,
}

/// A handler and how its queue is consumed.
pub struct Worker {
    pub(crate) name: &'static str,
    pub(crate) queue: &'static str,
    pub(crate) contract: Option<ContractInfo>,
    pub(crate) options: ConsumeOptions,
    pub(crate) on_undecodable: OnUndecodable,
    pub(crate) check: fn(&States) -> Result<(), MissingState>,
    pub(crate) handle: fn(Ctx) -> Attempting,
}

impl Worker {
    /// What generated code says; see `#[qwerq::consumer]`.
    #[doc(hidden)]
    #[must_use]
    pub fn new(
        name: &'static str,
        queue: &'static str,
        check: fn(&States) -> Result<(), MissingState>,
        handle: fn(Ctx) -> Attempting,
    ) -> Worker {
        let options = ConsumeOptions::default();
        Worker { name, queue, contract: None, options, on_undecodable: OnUndecodable::default(), check, handle }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn contract(mut self, contract: ContractInfo) -> Worker {
        self.options.contract = contract.known_fingerprint();
        self.contract = Some(contract);
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub fn group(mut self, group: &str) -> Worker {
        self.options.group = group.to_owned();
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub fn concurrency(mut self, messages: u32) -> Worker {
        self.options.concurrency = messages;
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub fn prefetch(mut self, messages: u32) -> Worker {
        self.options.prefetch = messages;
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub fn visibility_timeout_ms(mut self, ms: u64) -> Worker {
        self.options.visibility_timeout = Some(Duration::from_millis(ms));
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub fn start_at(mut self, start: StartAt) -> Worker {
        self.options.start_at = Some(start);
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub fn on_undecodable(mut self, policy: OnUndecodable) -> Worker {
        self.on_undecodable = policy;
        self
    }

    /// The function's path, as logs and errors say it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The queue that it consumes.
    #[must_use]
    pub fn queue(&self) -> &'static str {
        self.queue
    }

    /// How it consumes.
    #[must_use]
    pub fn options(&self) -> &ConsumeOptions {
        &self.options
    }

    /// Handlers that run at once.
    pub(crate) fn at_once(&self) -> usize {
        self.options.concurrency.max(1) as usize
    }

    /// The options as the broker is told them: with less than one message for each handler some would never have work.
    pub(crate) fn consume_options(&self) -> ConsumeOptions {
        let concurrency = self.options.concurrency.max(1);
        let prefetch = match self.options.prefetch {
            0 => concurrency.saturating_mul(2).max(PREFETCH_DEFAULT),
            messages => messages.max(concurrency),
        };
        ConsumeOptions { concurrency, prefetch, ..self.options.clone() }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("name", &self.name)
            .field("queue", &self.queue)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
