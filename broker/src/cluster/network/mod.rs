//! The port between nodes: who may speak on it, and what is said.
//!
//! A connection begins with HELLO, in which each side says who it is and which cluster it belongs to; then the dialling side asks and the
//! other answers, one request at a time. Frames are `length u32 | kind u8 | body`, little-endian. Everything but APPEND and the chunks of a
//! snapshot is JSON. Read on in `peer.rs` (asking) and `server.rs` (answering).

pub(super) mod append;
mod peer;
mod server;

use std::collections::BTreeMap;
use std::io;

use bytes::{Buf, Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::raft::{Address, Vote};
use crate::token::Token;

pub(crate) use peer::{Dialler, pre_vote, probe, tell_to_elect};
pub(crate) use server::{Answering, serve};

/// The version of what is spoken here.
const VERSION: u16 = 1;

/// The largest frame: entries of a request are bounded, but one turn may be as large as a journal's segment.
const FRAME_BYTES_MAX: u32 = 64 << 20;

/// The largest frame before HELLO is through.
const HELLO_BYTES_MAX: u32 = 16 << 10;

/// What a frame is.
mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const WELCOME: u8 = 2;
    pub(super) const REFUSED: u8 = 3;
    pub(super) const APPEND: u8 = 10;
    pub(super) const APPENDED: u8 = 11;
    pub(super) const VOTE: u8 = 12;
    pub(super) const VOTED: u8 = 13;
    pub(super) const ELECT: u8 = 14;
    pub(super) const ELECTING: u8 = 15;
    pub(super) const PRE_VOTE: u8 = 16;
    pub(super) const PRE_VOTED: u8 = 17;
    pub(super) const IMAGE: u8 = 20;
    pub(super) const IMAGE_WANTED: u8 = 21;
    pub(super) const CHUNK: u8 = 22;
    pub(super) const IMAGE_END: u8 = 23;
    pub(super) const IMAGE_TAKEN: u8 = 24;
}

/// What every connection of a node needs.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) node_id: u64,
    pub(crate) address: Address,
    pub(crate) token: Option<String>,
    /// Addresses that count for more than those of the membership.
    pub(crate) overrides: BTreeMap<u64, String>,
}

impl Identity {
    fn admits(&self, presented: &str) -> bool {
        self.token.as_deref().is_none_or(|token| Token::new(token).matches(presented))
    }
}

/// The first frame of whoever dials.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    version: u16,
    from: u64,
    to: u64,
    cluster: Option<String>,
    token: String,
    /// It only wants to know who answers.
    probe: bool,
}

/// The answer to it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) node_id: u64,
    pub(crate) cluster: Option<String>,
    pub(crate) address: Address,
}

/// The other answer to it; also to a request that makes no sense.
#[derive(Debug, Serialize, Deserialize)]
struct Refused {
    reason: String,
}

/// Announces a snapshot.
#[derive(Debug, Serialize, Deserialize)]
struct ImageHead {
    vote: Vote,
    meta: openraft::SnapshotMeta<u64, Address>,
}

/// Whether it is wanted.
#[derive(Debug, Serialize, Deserialize)]
struct ImageWanted {
    wanted: bool,
    /// What the answering node has voted.
    vote: Vote,
}

/// Ends a snapshot.
#[derive(Debug, Serialize, Deserialize)]
struct ImageEnd {
    chunks: u64,
    crc: u32,
}

/// A connection between two nodes.
struct Wire {
    stream: TcpStream,
    received: BytesMut,
    frame_bytes_max: u32,
}

fn broken(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

impl Wire {
    fn new(stream: TcpStream) -> Wire {
        // Latency matters more than segments; each side writes whole frames anyway.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY is not available");
        }
        Wire { stream, received: BytesMut::new(), frame_bytes_max: HELLO_BYTES_MAX }
    }

    async fn send(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(5 + body.len());
        begin(&mut frame, kind);
        frame.extend_from_slice(body);
        self.send_frame(&end(frame)?).await
    }

    async fn send_json(&mut self, kind: u8, body: &impl Serialize) -> io::Result<()> {
        self.send(kind, &serde_json::to_vec(body).expect("numbers and text")).await
    }

    /// Sends a whole frame.
    async fn send_frame(&mut self, frame: &[u8]) -> io::Result<()> {
        self.stream.write_all(frame).await
    }

    /// The next frame; `None`: the other side has closed.
    async fn receive(&mut self) -> io::Result<Option<(u8, Bytes)>> {
        const READ_BYTES: usize = 128 << 10;
        loop {
            if let Some(head) = self.received.first_chunk::<5>() {
                let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
                let kind = head[4];
                if length > self.frame_bytes_max {
                    return Err(broken(format!("a frame of {length} bytes is too large")));
                }
                let whole = 5 + length as usize;
                if self.received.len() >= whole {
                    let mut frame = self.received.split_to(whole).freeze();
                    frame.advance(5);
                    return Ok(Some((kind, frame)));
                }
                self.received.reserve(whole - self.received.len());
            }
            self.received.reserve(READ_BYTES);
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return if self.received.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    /// The next frame, which must be of this kind.
    async fn expect(&mut self, wanted: u8) -> io::Result<Bytes> {
        match self.receive().await? {
            Some((kind, body)) if kind == wanted => Ok(body),
            Some((kind::REFUSED, body)) => Err(io::Error::other(json::<Refused>(&body)?.reason)),
            Some((kind, _)) => Err(broken(format!("a frame of kind {kind} came instead of {wanted}"))),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Begins a frame whose body is to follow.
fn begin(frame: &mut Vec<u8>, kind: u8) {
    frame.extend_from_slice(&[0, 0, 0, 0, kind]);
}

/// Ends a frame that began with [`begin`].
fn end(mut frame: Vec<u8>) -> io::Result<Bytes> {
    let length = u32::try_from(frame.len() - 5).ok().filter(|length| *length <= FRAME_BYTES_MAX);
    let length = length.ok_or_else(|| broken(format!("a frame of {} bytes is too large", frame.len())))?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    Ok(Bytes::from(frame))
}

fn json<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    serde_json::from_slice(body).map_err(|error| broken(error.to_string()))
}
