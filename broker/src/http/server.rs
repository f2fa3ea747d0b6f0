//! HTTP connections: accept, how many there may be, time limits, and an orderly end. What is answered is the router's business.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// How long a client may take to send the head of its next request; a connection that is idle for so long is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// How long accepting rests when the system has no room for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Who has sent a request, as an extension of it. A connection that becomes a WebSocket keeps its peer until it ends: it is still one of
/// the connections that there may be.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    _slot: Arc<OwnedSemaphorePermit>,
}

/// Where connections come in, as many at a time as there may be.
struct Door {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    connections_max: usize,
    /// Somebody has waited outside since the last one came in without waiting.
    is_full: bool,
}

impl Door {
    fn new(listener: TcpListener, connections_max: usize) -> Door {
        let slots = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
        Door { listener, slots, connections_max, is_full: false }
    }

    /// The next connection, once there is room. Those who come too early wait in the system's backlog, where they cost this process nothing.
    async fn next(&mut self) -> io::Result<(TcpStream, Peer)> {
        let slot = match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => {
                self.is_full = false;
                slot
            }
            Err(_) => {
                if !self.is_full {
                    tracing::warn!(
                        connections = self.connections_max,
                        "all HTTP connections are taken; the next ones wait (--http-connections)"
                    );
                    self.is_full = true;
                }
                Arc::clone(&self.slots).acquire_owned().await.expect("nobody closes the semaphore")
            }
        };
        let (socket, address) = self.listener.accept().await?;
        Ok((socket, Peer { address, _slot: Arc::new(slot) }))
    }
}

/// Serves HTTP to at most `connections_max` at a time until `shutdown` completes; then answers what is in flight and returns. A client
/// that stops in the middle of its request can hold up the return, so a caller that must end bounds the wait.
pub(super) async fn serve(listener: TcpListener, router: Router, connections_max: usize, shutdown: impl Future<Output = ()> + Send) {
    let mut door = Door::new(listener, connections_max);
    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            accepted = door.next() => match accepted {
                Ok((socket, peer)) => {
                    connections.spawn(converse(socket, peer, router.clone(), stopped.clone()));
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
    drop(door);
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
        request.extensions_mut().insert(peer.clone());
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

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Serves a router with nothing behind it until the test ends.
    async fn served(connections_max: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "here" })).route("/", post(|body: String| async { body }));
        tokio::spawn(serve(listener, router, connections_max, std::future::pending()));
        address
    }

    async fn send(socket: &mut TcpStream, text: &str) {
        socket.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads one answer whose body is `here`.
    async fn answered(socket: &mut TcpStream) {
        let mut answer = Vec::new();
        while !answer.ends_with(b"here") {
            assert_ne!(socket.read_buf(&mut answer).await.unwrap(), 0, "{}", String::from_utf8_lossy(&answer));
        }
    }

    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

    #[tokio::test]
    async fn who_comes_when_all_connections_are_taken_waits_until_one_ends() {
        let address = served(2).await;
        let mut inside = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
        for socket in &mut inside {
            send(socket, REQUEST).await;
            answered(socket).await;
        }
        let mut outside = TcpStream::connect(address).await.unwrap();
        send(&mut outside, REQUEST).await;
        // Who is inside is served as before, and who is outside is not.
        for socket in &mut inside {
            send(socket, REQUEST).await;
            answered(socket).await;
        }
        assert_eq!(outside.try_read(&mut [0; 1]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let [first, _second] = inside;
        drop(first);
        answered(&mut outside).await;
    }

    /// The clock jumps to the next timer whenever everybody waits, so nothing here takes any time.
    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_come_ends_the_connection() {
        let address = served(10).await;
        for said in ["", "GET / HTTP/1.1\r\nHost: local"] {
            let mut socket = TcpStream::connect(address).await.unwrap();
            send(&mut socket, said).await;
            let mut answer = String::new();
            socket.read_to_string(&mut answer).await.unwrap();
            assert!(!answer.contains("200 OK"), "{answer}");
        }
    }
}
