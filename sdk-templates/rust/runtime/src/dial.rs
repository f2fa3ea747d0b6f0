//! How a byte stream to a broker comes to be. TCP by default; anything that reads and writes will do.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connected byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Opens a byte stream to an address.
#[derive(Clone)]
pub struct Dial(Arc<dyn Fn(String) -> Dialing + Send + Sync>);

impl Dial {
    /// Opens streams by calling `open` with the address.
    pub fn new<F, Fut, S>(open: F) -> Dial
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<S>> + Send + 'static,
        S: Stream + 'static,
    {
        Dial(Arc::new(move |address| {
            let opening = open(address);
            Box::pin(async move { Ok(Box::new(opening.await?) as Box<dyn Stream>) })
        }))
    }

    /// TCP without Nagle's delay; the address is `host:port`.
    #[must_use]
    pub fn tcp() -> Dial {
        Dial::new(|address| async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }

    /// Opens a stream to that address.
    ///
    /// # Errors
    /// Whatever kept it from opening.
    pub async fn open(&self, address: &str) -> io::Result<Box<dyn Stream>> {
        (self.0)(address.to_owned()).await
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dial")
    }
}
