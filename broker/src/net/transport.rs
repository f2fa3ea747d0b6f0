//! What a connection reads from and writes to, so that it speaks the same over TCP and over WebSocket.
//!
//! A transport carries bytes one way and whole frames the other; it knows nothing of what they say. TCP is below, WebSocket in
//! `websocket/`. Read on in `connection.rs`, which uses both ends.

use std::future::Future;
use std::io;

use bytes::BytesMut;
use qwerq_proto::wire;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Why nothing more is read from a connection, other than by the broker's own stopping.
pub(super) enum Ending {
    /// The peer does not speak the protocol.
    Protocol(Box<wire::Error>),
    /// The peer has closed, or was killed, or the network is gone; no difference can be seen from here.
    Gone,
}

impl Ending {
    pub(super) fn protocol(error: wire::Error) -> Ending {
        Ending::Protocol(Box::new(error))
    }
}

/// Why the broker says nothing more. TCP cannot say it; WebSocket has codes for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Farewell {
    /// The peer left.
    Left,
    /// The broker stops.
    Draining,
    /// The peer broke a rule; the error's stable name.
    Refused(String),
}

/// Where a connection's bytes come from.
pub(super) trait Source: Send {
    /// Appends what arrives next to `buffer`: at least one byte, or it is an [`Ending`]. Dropping the future loses nothing.
    fn read(&mut self, buffer: &mut BytesMut) -> impl Future<Output = Result<(), Ending>> + Send;

    /// Reads and drops at most `bytes`, until the peer has closed.
    fn discard(&mut self, bytes: u64) -> impl Future<Output = ()> + Send;
}

/// Where a connection's frames go.
pub(super) trait Sink: Send + 'static {
    /// Writes whole frames, one or more. With none it still writes what the transport itself has to say.
    fn write(&mut self, frames: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Tells the peer that nothing more comes. If it is gone already, nobody minds.
    fn close(&mut self, farewell: &Farewell) -> impl Future<Output = ()> + Send;
}

/// The reading half of a byte stream that carries frames and nothing else.
pub(super) struct StreamSource<R>(pub(super) R);

/// The writing half.
pub(super) struct StreamSink<W>(pub(super) W);

impl<R: AsyncRead + Unpin + Send> Source for StreamSource<R> {
    async fn read(&mut self, buffer: &mut BytesMut) -> Result<(), Ending> {
        // A read of nothing is the end; so is an error, and neither can be answered.
        match self.0.read_buf(buffer).await {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) => Err(Ending::Gone),
        }
    }

    async fn discard(&mut self, bytes: u64) {
        discard(&mut self.0, bytes).await;
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Sink for StreamSink<W> {
    async fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        self.0.write_all(frames).await
    }

    async fn close(&mut self, _: &Farewell) {
        let _ = self.0.shutdown().await;
    }
}

/// Reads and drops at most `bytes`, until the peer has closed.
pub(super) async fn discard(read: &mut (impl AsyncRead + Unpin), bytes: u64) {
    // Whatever becomes of it, the connection is over.
    let _ = tokio::io::copy(&mut read.take(bytes), &mut tokio::io::sink()).await;
}
