//! `serve`: puts the parts together, runs until told to stop, takes them apart in order.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use crate::calls::Calls;
use crate::cluster::{Cluster, Node};
use crate::config::{ClusterConfig, Config};
use crate::http::{Access, HttpState, Metrics, Readiness};
use crate::policies::Policies;
use crate::proto_text::ProtoText;
use crate::registry::Registry;
use crate::shard::{Command, Ended, Fault, Parts, Shard, StartError};
use crate::token::Token;
use crate::traces::Tracer;
use crate::{http, net};

/// How long a node that leads may take to hand over before it stops. With the drain that follows it is less than engines give.
const HAND_OVER: Duration = Duration::from_secs(3);

/// How long HTTP requests may go on after a stop.
const HTTP_DRAIN: Duration = Duration::from_secs(2);

/// Why the broker does not run, or stopped running.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A port cannot be had.
    #[error("cannot listen on {address}; is another broker running? Choose another port with {flag}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The flag that changes it.
        flag: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// What is in the data directory cannot be used.
    #[error("cannot start on the data directory {}: {source}", directory.display())]
    Start {
        /// The directory.
        directory: std::path::PathBuf,
        /// The reason.
        source: Box<StartError>,
    },
    /// The broker had to stop; nothing unacknowledged was acknowledged.
    #[error("the broker had to stop")]
    Fault(#[source] Box<Fault>),
    /// The system refused a thread, or a task died.
    #[error("the broker lost its {what}")]
    Lost {
        /// What is missing.
        what: &'static str,
    },
}

/// Where a running broker listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The binary protocol.
    pub broker: SocketAddr,
    /// HTTP.
    pub http: SocketAddr,
    /// Other nodes; `None`: the broker runs alone.
    pub cluster: Option<SocketAddr>,
}

/// Runs a broker until `stop` completes, then drains it. `proto_text` compiles what comes as text over HTTP.
///
/// # Errors
/// [`ServeError`]; the process should exit non-zero.
pub async fn serve(
    config: Config,
    proto_text: Arc<dyn ProtoText>,
    on_ready: impl FnOnce(Addresses),
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let config = Arc::new(config);
    let metrics = Arc::new(Metrics::new());
    let readiness = Arc::new(Readiness::new());
    let registry = Arc::new(Registry::new());
    let policies = Arc::new(Policies::new(config.schema_mode));
    let max_message_bytes = config.queue_defaults.max_message_bytes;
    let calls = Arc::new(Calls::new(Arc::clone(&registry), Arc::clone(&policies), Arc::clone(&metrics), max_message_bytes));
    // Both ports are taken before recovery, so that a second broker fails at once; they answer when it is done.
    let broker_listener = listen(SocketAddr::new(config.bind, config.port), "--port").await?;
    let http_listener = listen(SocketAddr::new(config.bind, config.http_port), "--metrics-port").await?;
    let mut addresses = Addresses { broker: address_of(&broker_listener)?, http: address_of(&http_listener)?, cluster: None };

    // HTTP answers at once, so that probes can tell a start that takes its time from a process that hangs.
    let (commands, inbox) = std::sync::mpsc::channel();
    let (stop_sender, stop_receiver) = watch::channel(false);
    let tracer = config.otlp_endpoint.clone().map(|endpoint| Tracer::start(endpoint, Arc::clone(&metrics)));
    let (node, cluster) = match &config.cluster {
        Some(cluster) => {
            let listener = listen(cluster.bind, "--cluster-bind").await?;
            addresses.cluster = Some(address_of(&listener)?);
            let (node, cluster) = become_node(&config, cluster, listener, addresses)?;
            (Some(Arc::new(node)), Some(cluster))
        }
        None => (None, None),
    };
    let shared = Arc::new(net::Shared::new(
        Arc::clone(&config),
        Arc::clone(&metrics),
        Arc::clone(&registry),
        Arc::clone(&policies),
        Arc::clone(&calls),
        tracer.clone(),
        cluster.clone(),
        commands.clone(),
    ));
    let web = tokio::spawn(serve_http(http_listener, Arc::clone(&shared), Arc::clone(&readiness), proto_text, stop_receiver.clone()));
    let parts = Parts {
        config: Arc::clone(&config),
        metrics,
        registry,
        policies,
        calls: Arc::clone(&calls),
        tracer: tracer.clone(),
        back: commands.clone(),
        node,
        cluster: cluster.clone(),
    };
    let starting = tokio::task::spawn_blocking(move || Shard::start(parts, inbox));
    let mut stop = std::pin::pin!(stop);
    let started = tokio::select! {
        started = starting => started,
        () = &mut stop => {
            // Recovery may take longer than an engine waits, and ends with the process as it would with a kill.
            tracing::info!("stopping before recovery has ended; the next start begins it anew");
            return Ok(());
        }
    };
    let shard = started
        .map_err(|_| ServeError::Lost { what: "starting thread" })?
        .map_err(|source| ServeError::Start { directory: config.data_dir.clone(), source: Box::new(source) })?;
    let (ended, shard_ended) = oneshot::channel();
    let run = move || {
        // Nobody listens any more only when the process is ending anyway.
        let _ = ended.send(run_shard(shard));
    };
    let thread = std::thread::Builder::new().name("shard".to_owned()).spawn(run);
    let thread = thread.map_err(|_| ServeError::Lost { what: "shard thread" })?;

    let connections = tokio::spawn(net::serve(broker_listener, shared, stop_receiver));
    let clockwork = {
        let calls = Arc::clone(&calls);
        tokio::spawn(async move { calls.keep_time().await })
    };
    readiness.set_ready();
    on_ready(addresses);

    let mut shard_ended = std::pin::pin!(shard_ended);
    tokio::select! {
        outcome = &mut shard_ended => return Err(failed(outcome)),
        () = &mut stop => {}
    }
    readiness.set_draining();
    if let Some(cluster) = &cluster {
        tokio::select! {
            outcome = &mut shard_ended => return Err(failed(outcome)),
            _ = tokio::time::timeout(HAND_OVER, cluster.hand_over()) => {}
        }
    }
    tracing::info!("stopping: no new connections; what is in flight is finished");
    calls.drain();
    stop_sender.send_replace(true);
    tokio::select! {
        outcome = &mut shard_ended => return Err(failed(outcome)),
        _ = connections => {}
    }
    clockwork.abort();
    // The shard holds a sender itself, so this arrives.
    let _ = commands.send(Command::Stop);
    let outcome = shard_ended.await;
    let _ = thread.join();
    if let Some(tracer) = tracer {
        tracer.flush().await;
    }
    let _ = tokio::time::timeout(HTTP_DRAIN, web).await;
    match outcome {
        Ok(Ok(())) => Ok(()),
        other => Err(failed(other)),
    }
}

/// Runs a shard, and the one that follows it when a cluster has sent it other files.
fn run_shard(mut shard: Shard) -> Result<(), Fault> {
    loop {
        match shard.run()? {
            Ended::Stopped => return Ok(()),
            Ended::Replaced(parts, commands) => {
                let started = Shard::start(parts, commands);
                shard = started.map_err(|error| Fault::Restart(Box::new(error)))?;
            }
        }
    }
}

/// The node of a cluster that this broker is to be.
fn become_node(config: &Config, cluster: &ClusterConfig, listener: TcpListener, ports: Addresses) -> Result<(Node, Cluster), ServeError> {
    let lost = || ServeError::Lost { what: "listening socket" };
    let port = ports.cluster.ok_or_else(lost)?.port();
    let listener = listener.into_std().map_err(|_| lost())?;
    let address = cluster.address(port, ports.broker.port(), ports.http.port());
    tracing::info!(
        node = cluster.node_id,
        raft = address.raft,
        client = address.client,
        http = address.http,
        "a node of a cluster (preview)"
    );
    let node = Node::new(cluster.clone(), &config.data_dir, config.auth_token.clone(), listener, address);
    node.map_err(|source| ServeError::Start {
        directory: cluster.dir.clone(),
        source: Box::new(Fault::Io { action: "opening the cluster's directory".to_owned(), source }.into()),
    })
}

fn failed(outcome: Result<Result<(), Fault>, oneshot::error::RecvError>) -> ServeError {
    match outcome {
        Ok(Err(fault)) => ServeError::Fault(Box::new(fault)),
        Ok(Ok(())) | Err(_) => ServeError::Lost { what: "shard thread" },
    }
}

async fn listen(address: SocketAddr, flag: &'static str) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, flag, source })
}

fn address_of(listener: &TcpListener) -> Result<SocketAddr, ServeError> {
    listener.local_addr().map_err(|_| ServeError::Lost { what: "listening socket" })
}

fn serve_http(
    listener: TcpListener,
    shared: Arc<net::Shared>,
    readiness: Arc<Readiness>,
    proto_text: Arc<dyn ProtoText>,
    mut stop: watch::Receiver<bool>,
) -> impl Future<Output = ()> + Send + 'static {
    let config = &shared.config;
    let access = Access::new(config.auth_token.as_deref().map(Token::new), &config.allowed_hosts, &config.allowed_origins);
    let state = HttpState::new(readiness, access, shared, proto_text);
    async move {
        http::serve(listener, state, async move {
            // A closed channel means the same as a stop.
            let _ = stop.wait_for(|stop| *stop).await;
        })
        .await;
    }
}
