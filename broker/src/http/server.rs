//! HTTP connections: accept, time limits, and an orderly end. What is answered is the router's business.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a client may take to send the head of its next request; a connection that is idle for so long is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// How long accepting rests when the system has no room for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Who has sent a request, as an extension of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Serves HTTP until `shutdown` completes; then answers what is in flight and returns. A client that stops in the middle of
/// its request can hold up the return, so a caller that must end bounds the wait.
pub(super) async fn serve(listener: TcpListener, router: Router, shutdown: impl Future<Output = ()> + Send) {
    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => {
                    connections.spawn(converse(socket, Peer(peer), router.clone(), stopped.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "an HTTP connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = &mut shutdown => break,
        }
    }
    drop(listener);
    stop.send_replace(true);
    while connections.join_next().await.is_some() {}
}

async fn converse(socket: TcpStream, peer: Peer, router: Router, mut stopped: watch::Receiver<bool>) {
    // Answers are written whole; waiting for more to send only delays them.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY is not available");
    }
    let router = TowerToHyperService::new(router);
    let with_peer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(socket), with_peer)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = async { drop(stopped.wait_for(|stopped| *stopped).await) } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection broke");
    }
}
