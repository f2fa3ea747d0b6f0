//! Client sockets, and the only place that touches them: accept, HELLO, frames in, frames out.
//!
//! A connection decodes, authorises and validates; what remains becomes a command for the shard, in order. Replies come back through the
//! connection's outbox. Read on in `connection.rs`, then `requests.rs`.

mod cluster;
mod connection;
mod connections;
mod hello;
mod local;
mod requests;
mod transport;
mod websocket;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use qwerq_core::SessionId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::calls::Calls;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::http::{GroupsOf, Metrics, Stats};
use crate::policies::Policies;
use crate::registry::Registry;
use crate::shard::Command;
use crate::token::Token;
use crate::traces::Tracer;

pub use connections::{ConnectionInfo, Connections};
pub use local::LocalSession;

/// What every connection shares.
#[derive(Debug)]
pub struct Shared {
    /// The broker's set-up.
    pub config: Arc<Config>,
    /// The secret, if there is one.
    pub token: Option<Token>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Compiled contracts.
    pub registry: Arc<Registry>,
    /// Schema modes.
    pub policies: Arc<Policies>,
    /// Calls in flight.
    pub calls: Arc<Calls>,
    /// Who is connected.
    pub connections: Arc<Connections>,
    /// The shard.
    pub shard: Sender<Command>,
    /// For messages whose publisher records a trace; `None`: for none.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The cluster that this broker is a node of; `None`: it runs alone.
    pub(crate) cluster: Option<Cluster>,
    next_session: AtomicU64,
    /// Connections over WebSocket, which HTTP accepts.
    websockets: TaskTracker,
    /// Whether connections are to end.
    draining: watch::Sender<bool>,
}

impl Shared {
    /// What connections of a broker share.
    #[must_use]
    #[expect(clippy::too_many_arguments, reason = "each is a part of the broker, put together in one place")]
    pub(crate) fn new(
        config: Arc<Config>,
        metrics: Arc<Metrics>,
        registry: Arc<Registry>,
        policies: Arc<Policies>,
        calls: Arc<Calls>,
        tracer: Option<Arc<Tracer>>,
        cluster: Option<Cluster>,
        shard: Sender<Command>,
    ) -> Shared {
        let token = config.auth_token.as_deref().map(Token::new);
        Shared {
            config,
            token,
            metrics,
            registry,
            policies,
            calls,
            connections: Arc::default(),
            shard,
            tracer,
            cluster,
            next_session: AtomicU64::new(1),
            websockets: TaskTracker::new(),
            draining: watch::Sender::new(false),
        }
    }

    /// A broker with the usual settings whose shard is played by the test.
    #[cfg(test)]
    pub(crate) fn in_tests(shard: Sender<Command>) -> Shared {
        use qwerq_core::options::SchemaMode;
        let config = Config {
            bind: std::net::Ipv4Addr::LOCALHOST.into(),
            port: 0,
            http_port: 0,
            data_dir: "nowhere".into(),
            schema_mode: SchemaMode::Permissive,
            batch_interval: std::time::Duration::ZERO,
            auth_token: None,
            durability: crate::Durability::Fsync,
            auto_create: true,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            metrics_per_queue: None,
            http_connections: 4_096,
            otlp_endpoint: None,
            queue_defaults: qwerq_core::QueueOptions::default(),
            cluster: None,
        };
        let (metrics, registry) = (Arc::new(Metrics::new()), Arc::new(Registry::new()));
        let policies = Arc::new(Policies::new(SchemaMode::Permissive));
        let calls = Arc::new(Calls::new(Arc::clone(&registry), Arc::clone(&policies), Arc::clone(&metrics), 1 << 20));
        Shared::new(Arc::new(config), metrics, registry, policies, calls, None, None, shard)
    }

    /// What the shard holds at this moment, or within a few of its turns where there are many queues: it tells of a part at a time, so
    /// that it is never away for long. One that is gone holds nothing; the process is ending.
    pub async fn stats(&self, groups_of: GroupsOf) -> Stats {
        let mut stats = self.some_stats(groups_of, Arc::from("")).await;
        while stats.is_partial {
            let last = stats.queues.last().map_or_else(|| Arc::from(""), |queue| Arc::clone(&queue.name));
            stats.append(self.some_stats(groups_of, last).await);
        }
        stats
    }

    async fn some_stats(&self, groups_of: GroupsOf, after: Arc<str>) -> Stats {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Stats(groups_of, after, reply));
        answer.await.unwrap_or_default()
    }

    /// Becomes true when connections are to end.
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Serves a WebSocket once its handshake is done; `upgraded` gives nothing when that failed. `held` is kept until the connection ends.
    pub(crate) fn serve_websocket<S>(
        self: &Arc<Self>,
        peer: String,
        upgraded: impl Future<Output = Option<S>> + Send + 'static,
        held: impl Send + 'static,
    ) where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (shared, stop) = (Arc::clone(self), self.draining.subscribe());
        self.websockets.spawn(async move {
            if let Some(stream) = upgraded.await {
                connection::serve_websocket(stream, &peer, shared, stop).await;
            }
            drop(held);
        });
    }

    fn new_session(&self) -> SessionId {
        SessionId(self.next_session.fetch_add(1, Ordering::Relaxed))
    }

    /// Hands a command to the shard. When the shard is gone the process is ending, and so is every connection.
    fn send(&self, command: Command) {
        let _ = self.shard.send(command);
    }
}

/// Accepts connections until `stop` says so, then lets them end: each client hears GOAWAY and may finish what is in flight.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let for_connections = stop.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => {
                    connections.spawn(connection::serve(socket, peer, Arc::clone(&shared), for_connections.clone()));
                }
                Err(error) => {
                    // Out of file descriptors, mostly; a connection that ends makes room.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::task::yield_now().await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = stopped(&mut stop) => break,
        }
    }
    drop(listener);
    shared.draining.send_replace(true);
    while connections.join_next().await.is_some() {}
    shared.websockets.close();
    shared.websockets.wait().await;
}

/// Completes when the broker stops. A sender that is gone means the same.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}
