//! Why an app did not start, or ended before it was told to.

use std::io;

use crate::error::Error;
use crate::worker::MissingState;

/// What ended an [`App`](crate::App), or kept it from starting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// Nothing would ever happen.
    #[error("the app has nothing to do; give it a consumer with `.worker(..)` or a service with `.service(..)`")]
    Empty,
    /// A worker wants a state that the app was not given.
    #[error("worker {worker} cannot run: {missing}")]
    MissingState {
        /// The path of the worker's function.
        worker: &'static str,
        /// What it wants.
        missing: MissingState,
    },
    /// Handlers could not tell which one they get.
    #[error("the app was given two states of type {0}; wrap one of them in a type of its own")]
    StateTwice(&'static str),
    /// A worker could not subscribe, or its subscription ended.
    #[error("worker {worker} of queue {queue}: {source}")]
    Worker {
        /// The path of the worker's function.
        worker: &'static str,
        /// Its queue.
        queue: &'static str,
        /// What the client says.
        source: Error,
    },
    /// A service could not subscribe to a method's calls, or its subscription ended.
    #[error("service {service}, calls of {queue}: {source}")]
    Service {
        /// The service's name.
        service: &'static str,
        /// The method's queue.
        queue: &'static str,
        /// What the client says.
        source: Error,
    },
    /// The app could not be told to stop.
    #[error("cannot listen for signals: {0}; run the app with `run_until` instead")]
    Signals(#[source] io::Error),
    /// The connection was lost while the app was stopping; what was handled last may be delivered once more.
    #[error("the last messages were handled, but the broker may not know: {0}; it delivers them again")]
    Close(#[source] Error),
}
