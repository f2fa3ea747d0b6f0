//! An app: a client, workers, services, and what they share; runs until it is told to stop. Owns when things begin and end. What a worker
//! does with a message is `worker`'s, what a service does with a call is `serving`'s.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::call::ServeOptions;
use crate::client::Client;
use crate::error::Error;
use crate::serving::{self, Method, Serve};
use crate::subscription::ConsumeOptions;
use crate::worker::running::Running;
use crate::worker::state::States;
use crate::worker::{Consumer, ConsumerFn, Worker};

mod error;
mod signals;
pub(crate) mod stop;

pub use error::AppError;

use signals::Signals;
use stop::{Stop, Stopper};

/// Workers and services on one connection.
///
/// ```no_run
/// use qwerq::{App, Client, Failure, Raw, State};
///
/// #[qwerq::consumer("notes", group = "archive", concurrency = 8)]
/// async fn archive(Raw(note): Raw, State(folder): State<String>) -> Result<(), Failure> {
///     tokio::task::spawn_blocking(move || std::fs::write(folder, note)).await??;
///     Ok(())
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let client = Client::connect("localhost:9876").await?;
///     App::new(client).state("notes".to_owned()).worker(archive).run().await?;
///     Ok(())
/// }
/// ```
///
/// A lost connection ends nothing: the client comes back, and so do subscriptions. An app ends when it is told to stop, or when a
/// subscription ends with an error, which then is the app's. Either way it stops as it should: nothing new is taken, what waits unstarted
/// goes back uncounted, what runs is finished, and the last settlements are confirmed before [`App::run`] returns. Dropping the future cuts
/// all of it short.
#[must_use = "an app does nothing until it runs"]
pub struct App {
    client: Client,
    states: States,
    workers: Vec<Worker>,
    methods: Vec<(Method, ServeOptions)>,
    grace: Option<Duration>,
    ready: Option<Box<dyn FnOnce() + Send>>,
}

impl App {
    /// An app on that connection, which it closes when it ends. Handlers that publish may hold clones of the client; what outlives the app
    /// needs one of its own.
    pub fn new(client: Client) -> App {
        App { client, states: States::default(), workers: Vec::new(), methods: Vec::new(), grace: None, ready: None }
    }

    /// Something that handlers share: those with an argument `State<T>` get a clone of it. One for each type.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> App {
        self.states.insert(value);
        self
    }

    /// Runs a function under `#[qwerq::consumer]`.
    pub fn worker<F, Args>(self, function: F) -> App
    where
        F: ConsumerFn<Args>,
    {
        self.worker_with(function, |options| options)
    }

    /// Runs a function under `#[qwerq::consumer]` with other options than its attribute says, such as a group from the environment.
    pub fn worker_with<F, Args>(mut self, function: F, change: impl FnOnce(ConsumeOptions) -> ConsumeOptions) -> App
    where
        F: ConsumerFn<Args>,
    {
        // The function's type says it all.
        let _ = function;
        let mut worker = F::Consumer::worker();
        worker.options = change(worker.options);
        self.workers.push(worker);
        self
    }

    /// Answers the calls of a service: the server that `#[qwerq::service]` makes. Up to 32 at once for each method.
    pub fn service(self, service: impl Serve) -> App {
        self.service_with(service, ServeOptions::default())
    }

    /// Answers the calls of a service with other options.
    pub fn service_with(mut self, service: impl Serve, options: ServeOptions) -> App {
        self.methods.extend(service.methods().into_iter().map(|method| (method, options.clone())));
        self
    }

    /// How long handlers may take to finish after the app was told to stop; the attempts of those that take longer count as failed, and
    /// callers of unfinished calls are told. Default: as long as it takes, or until a second signal.
    pub fn grace(mut self, grace: Duration) -> App {
        self.grace = Some(grace);
        self
    }

    /// Calls `ready` once, when every subscription is open.
    pub fn on_ready(mut self, ready: impl FnOnce() + Send + 'static) -> App {
        self.ready = Some(Box::new(ready));
        self
    }

    /// Runs until Ctrl-C or SIGTERM. A second signal cuts short what still runs. From here on these signals do not end the process by
    /// themselves any more, not even after the app has ended.
    ///
    /// # Errors
    /// What kept it from starting, or ended it before it was told to stop; see [`AppError`].
    pub async fn run(self) -> Result<(), AppError> {
        let mut signals = Signals::listen().map_err(AppError::Signals)?;
        let (stopper, stop) = Stopper::new();
        let (control, grace) = (stopper.clone(), self.grace);
        let told = async move {
            signals.next().await;
            control.stop();
            tokio::select! {
                () = signals.next() => {}
                () = patience(grace) => {}
            }
            control.abandon();
        };
        self.run_told(told, stopper, stop).await
    }

    /// Runs until `stop` completes.
    ///
    /// # Errors
    /// See [`App::run`].
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), AppError> {
        let (stopper, heard) = Stopper::new();
        let (control, grace) = (stopper.clone(), self.grace);
        let told = async move {
            stop.await;
            control.stop();
            patience(grace).await;
            control.abandon();
        };
        self.run_told(told, stopper, heard).await
    }

    /// Runs beside the future that says when to stop.
    async fn run_told(self, told: impl Future<Output = ()>, stopper: Stopper, stop: Stop) -> Result<(), AppError> {
        let told = pin!(async {
            told.await;
            pending::<Infallible>().await
        });
        tokio::select! {
            biased;
            never = told => match never {},
            ended = self.work(stopper, stop) => ended,
        }
    }

    async fn work(mut self, stopper: Stopper, stop: Stop) -> Result<(), AppError> {
        self.check()?;
        let client = self.client.clone();
        let ready = self.ready.take();
        let ended = tokio::select! {
            biased;
            // A broker that is away would keep it waiting.
            () = stop.stopping() => Ok(()),
            parts = self.open(&stop) => match parts {
                Ok(parts) => {
                    ready.into_iter().for_each(|ready| ready());
                    run_all(parts, &stopper).await
                }
                Err(error) => Err(error),
            },
        };
        let closed = client.close().await;
        ended.and(closed.map_err(AppError::Close))
    }

    fn check(&self) -> Result<(), AppError> {
        if self.workers.is_empty() && self.methods.is_empty() {
            return Err(AppError::Empty);
        }
        if let Some(type_name) = self.states.twice() {
            return Err(AppError::StateTwice(type_name));
        }
        for worker in &self.workers {
            (worker.check)(&self.states).map_err(|missing| AppError::MissingState { worker: worker.name, missing })?;
        }
        Ok(())
    }

    /// Opens every subscription; nothing is handled before all are open.
    async fn open(self, stop: &Stop) -> Result<Vec<Part>, AppError> {
        let states = Arc::new(self.states);
        let mut parts: Vec<Part> = Vec::new();
        for worker in self.workers {
            let (name, queue) = (worker.name, worker.queue);
            let failed = move |source: Error| AppError::Worker { worker: name, queue, source };
            let running = Running::open(&self.client, worker, Arc::clone(&states)).await.map_err(failed)?;
            let stop = stop.clone();
            parts.push(Box::pin(async move { running.run(stop).await.map_err(failed) }));
        }
        for (method, options) in self.methods {
            let (service, queue) = (method.service(), method.queue());
            let failed = move |source: Error| AppError::Service { service, queue, source };
            let at_once = options.at_once();
            let responder = self.client.serve(queue, method.serve_options(options)).await.map_err(failed)?;
            let stop = stop.clone();
            parts.push(Box::pin(async move { serving::answer_calls(method, responder, at_once, stop).await.map_err(failed) }));
        }
        Ok(parts)
    }
}

/// A worker or a method that runs.
type Part = std::pin::Pin<Box<dyn Future<Output = Result<(), AppError>> + Send>>;

/// Runs all until all have ended. When one ends the others are told to stop; the first error is the app's.
async fn run_all(parts: Vec<Part>, stopper: &Stopper) -> Result<(), AppError> {
    let mut running: JoinSet<Result<(), AppError>> = parts.into_iter().collect();
    let mut ended = Ok(());
    while let Some(part) = running.join_next().await {
        stopper.stop();
        match part {
            Ok(part) => ended = ended.and(part),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Only dropping the set cancels a part, and then nobody is here.
            Err(_) => {}
        }
    }
    ended
}

/// Passes when handlers have had long enough; never without a limit.
async fn patience(grace: Option<Duration>) {
    match grace {
        Some(grace) => tokio::time::sleep(grace).await,
        None => pending().await,
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("states", &self.states)
            .field("workers", &self.workers)
            .field("methods", &self.methods)
            .finish_non_exhaustive()
    }
}
