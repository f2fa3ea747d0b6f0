//! Asking other nodes: openraft's network, and the few things that a node asks besides.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use openraft::error::{Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse};
use openraft::{OptionalSend, Snapshot};
use rand::RngExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::super::image;
use super::super::lease::Lease;
use super::super::log::{Log, next};
use super::super::raft::{Address, LogId, Raft, Vote};
use super::super::rpc;
use super::{
    FRAME_BYTES_MAX, Hello, Identity, ImageEnd, ImageHead, ImageWanted, VERSION, Welcome, Wire, append, begin, broken, end, json, kind,
};
use crate::files::Files;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(1);

/// How long entries may be on their way before the connection counts as lost.
const APPEND: Duration = Duration::from_secs(4);

/// How long a node may take over a chunk of a snapshot, or over its end.
const CHUNK: Duration = Duration::from_secs(30);

/// The first and the longest pause before a node that is not there is asked again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

type Failure<E> = RPCError<u64, Address, E>;

/// Makes openraft's connections.
pub(crate) struct Dialler<F: Files> {
    pub(crate) identity: Arc<Identity>,
    pub(crate) log: Log<F>,
    pub(crate) lease: Arc<Lease>,
}

impl<F: Files> RaftNetworkFactory<Raft> for Dialler<F> {
    type Network = Peer<F>;

    async fn new_client(&mut self, target: u64, node: &Address) -> Peer<F> {
        Peer {
            identity: Arc::clone(&self.identity),
            log: self.log.clone(),
            lease: Arc::clone(&self.lease),
            target,
            address: node.raft.clone(),
            wire: None,
            under_way: None,
        }
    }
}

/// Another node, and a connection to it while there is one.
pub(crate) struct Peer<F: Files> {
    identity: Arc<Identity>,
    log: Log<F>,
    lease: Arc<Lease>,
    target: u64,
    address: String,
    /// Gone while a request is under way: whoever gives up on an answer gives up the connection.
    wire: Option<Wire>,
    /// Entries that are being sent.
    under_way: Option<UnderWay>,
}

/// Entries on their way. Openraft gives up on an answer after a heartbeat and sends the same again; large ones, and those that meet a slow
/// disk, take longer than that. So they are sent on, and the answer counts for the next attempt.
struct UnderWay {
    request: Range,
    sent: Instant,
    task: JoinHandle<(Option<Wire>, io::Result<Bytes>)>,
}

/// What tells requests apart: the vote, the entry before the first, the last one.
type Range = (Vote, Option<LogId>, Option<LogId>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connects to a node and says who is there.
async fn dial(identity: &Identity, cluster: Option<String>, to: u64, address: &str, probe: bool) -> io::Result<(Wire, Welcome)> {
    let address = identity.overrides.get(&to).map_or(address, String::as_str);
    let greeted = async {
        let mut wire = Wire::new(TcpStream::connect(address).await?);
        let token = identity.token.clone().unwrap_or_default();
        let hello = Hello { version: VERSION, from: identity.node_id, to, cluster, token, probe };
        wire.send_json(kind::HELLO, &hello).await?;
        let welcome = json(&wire.expect(kind::WELCOME).await?)?;
        wire.frame_bytes_max = FRAME_BYTES_MAX;
        Ok((wire, welcome))
    };
    timeout(CONNECT, greeted).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Asks a node who it is.
pub(crate) async fn probe(identity: &Identity, cluster: Option<String>, to: u64, address: &str) -> io::Result<Welcome> {
    dial(identity, cluster, to, address, true).await.map(|(_, welcome)| welcome)
}

/// Has a node ask for votes at once.
pub(crate) async fn tell_to_elect(identity: &Identity, cluster: Option<String>, to: u64, address: &str) -> io::Result<()> {
    let (mut wire, _) = dial(identity, cluster, to, address, false).await?;
    wire.send(kind::ELECT, &[]).await?;
    let answer = timeout(CONNECT, wire.expect(kind::ELECTING)).await;
    answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map(drop)
}

/// Asks a node whether it would vote for this one, whose log ends with `last`.
pub(crate) async fn pre_vote(
    identity: &Identity,
    cluster: Option<String>,
    to: u64,
    address: &str,
    last: Option<LogId>,
) -> io::Result<bool> {
    let (mut wire, _) = dial(identity, cluster, to, address, false).await?;
    wire.send_json(kind::PRE_VOTE, &last).await?;
    json(&wire.expect(kind::PRE_VOTED).await?)
}

impl<F: Files> Peer<F> {
    /// The connection, which the caller gives back after a whole answer.
    async fn wire(&mut self) -> io::Result<Wire> {
        if let Some(wire) = self.wire.take() {
            return Ok(wire);
        }
        let cluster = self.log.points().cluster_id;
        dial(&self.identity, cluster, self.target, &self.address, false).await.map(|(wire, _)| wire)
    }

    async fn ask(&mut self, frame: Vec<u8>, answer: u8) -> io::Result<Bytes> {
        let frame = end(frame)?;
        let fresh = self.wire.is_none();
        let mut wire = self.wire().await?;
        let asked = async {
            wire.send_frame(&frame).await?;
            wire.expect(answer).await
        };
        let body = match asked.await {
            Ok(body) => body,
            // The other side may have been restarted since.
            Err(_) if !fresh => {
                wire = self.wire().await?;
                wire.send_frame(&frame).await?;
                wire.expect(answer).await?
            }
            Err(error) => return Err(error),
        };
        self.wire = Some(wire);
        Ok(body)
    }

    /// Sends entries, or waits for the answer to the same ones that were sent before; also returns when that was.
    async fn append(&mut self, request: Range, frame: Vec<u8>) -> io::Result<(Instant, Bytes)> {
        let frame = end(frame)?;
        let mut again = self.wire.is_some() || self.under_way.is_some();
        loop {
            if let Some(under_way) = &mut self.under_way {
                let ended = (&mut under_way.task).await;
                let known = (under_way.request, under_way.sent);
                self.under_way = None;
                let (wire, answer) = ended.map_err(io::Error::other)?;
                self.wire = wire;
                match answer {
                    Ok(body) if known.0 == request => return Ok((known.1, body)),
                    // The other side may have been restarted since.
                    Err(error) if !again => return Err(error),
                    Err(_) => again = false,
                    Ok(_) => {}
                }
            }
            let mut wire = self.wire().await?;
            let frame = frame.clone();
            let sent = Instant::now();
            let task = tokio::spawn(async move {
                let answer = async {
                    wire.send_frame(&frame).await?;
                    wire.expect(kind::APPENDED).await
                };
                let answer = timeout(APPEND, answer).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                (answer.is_ok().then_some(wire), answer)
            });
            self.under_way = Some(UnderWay { request, sent, task });
        }
    }
}

fn failure<E: std::error::Error>(target: u64, error: &io::Error) -> Failure<E> {
    tracing::debug!(node = target, %error, "a node does not answer");
    match error.kind() {
        io::ErrorKind::InvalidData => RPCError::Network(NetworkError::new(error)),
        _ => RPCError::Unreachable(Unreachable::new(error)),
    }
}

impl<F: Files> RaftNetwork<Raft> for Peer<F> {
    async fn append_entries(
        &mut self,
        mut request: AppendEntriesRequest<Raft>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failure<RaftError<u64>>> {
        if !rpc::is_whole(&request) {
            return Err(failure(self.target, &broken("the log was not read whole, and is not sent so")));
        }
        request.leader_commit = rpc::committed(&self.log, request.leader_commit);
        let range = (request.vote, request.prev_log_id, request.entries.last().map(|entry| entry.log_id));
        let mut frame = Vec::with_capacity(64 + request.entries.iter().map(super::super::log::bytes_of).sum::<usize>());
        begin(&mut frame, kind::APPEND);
        append::encode(&request, &mut frame);
        let answered = self.append(range, frame).await.and_then(|(sent, body)| Ok((sent, json(&body)?)));
        let (sent, response): (Instant, AppendEntriesResponse<u64>) = answered.map_err(|error| failure(self.target, &error))?;
        rpc::appended(&self.lease, request.vote.leader_id.term, self.target, sent, &response);
        Ok(response)
    }

    async fn vote(&mut self, request: VoteRequest<u64>, _: RPCOption) -> Result<VoteResponse<u64>, Failure<RaftError<u64>>> {
        let mut frame = Vec::new();
        begin(&mut frame, kind::VOTE);
        serde_json::to_writer(&mut frame, &request).expect("numbers");
        let answered = self.ask(frame, kind::VOTED).await.and_then(|body| json(&body));
        answered.map_err(|error| failure(self.target, &error))
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<Raft>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<Raft, Fatal<u64>>> {
        let target = self.target;
        tracing::info!(
            node = target,
            through = snapshot.meta.last_log_id.map(|last| last.index),
            "a node is so far behind that it gets a snapshot"
        );
        self.log.trailing().sends(target, next(snapshot.meta.last_log_id).saturating_sub(1));
        let log = self.log.clone();
        let outcome = tokio::select! {
            sent = self.send_image(vote, snapshot) => match sent {
                Ok(vote) => Ok(SnapshotResponse::new(vote)),
                Err(error) => {
                    tracing::warn!(node = target, %error, "the snapshot did not get through; it is sent again");
                    Err(StreamingError::Unreachable(Unreachable::new(&error)))
                }
            },
            closed = cancel => Err(StreamingError::Closed(closed)),
        };
        log.trailing().has_sent(target, outcome.is_ok(), Instant::now());
        outcome
    }

    fn backoff(&self) -> Backoff {
        let (first, longest) = PAUSE;
        let pauses = (0..).map(move |round: u32| {
            let pause = first.saturating_mul(1 << round.min(8)).min(longest);
            pause.mul_f64(rand::rng().random_range(0.5..1.0))
        });
        Backoff::new(pauses)
    }
}

impl<F: Files> Peer<F> {
    /// Sends a snapshot in chunks; returns the other node's vote.
    async fn send_image(&mut self, vote: Vote, snapshot: Snapshot<Raft>) -> io::Result<Vote> {
        let slow = || io::Error::new(io::ErrorKind::TimedOut, "the node takes too long over the snapshot");
        let mut wire = self.wire().await?;
        wire.send_json(kind::IMAGE, &ImageHead { vote, meta: snapshot.meta }).await?;
        let answer = timeout(CHUNK, wire.expect(kind::IMAGE_WANTED)).await.map_err(|_| slow())??;
        let answer: ImageWanted = json(&answer)?;
        if !answer.wanted {
            return Ok(answer.vote);
        }
        let mut ending = ImageEnd { chunks: 0, crc: 0 };
        let mut chunks = image::read(*snapshot.snapshot);
        while let Some(chunk) = chunks.recv().await {
            let chunk = chunk.map_err(io::Error::other)?;
            let mut frame = Vec::with_capacity(chunk.len() + 16);
            begin(&mut frame, kind::CHUNK);
            frame.extend_from_slice(&crc32c::crc32c(&chunk).to_le_bytes());
            frame.extend_from_slice(&chunk);
            ending.chunks += 1;
            ending.crc = crc32c::crc32c_append(ending.crc, &chunk);
            timeout(CHUNK, wire.send_frame(&end(frame)?)).await.map_err(|_| slow())??;
        }
        wire.send_json(kind::IMAGE_END, &ending).await?;
        timeout(CHUNK, wire.expect(kind::IMAGE_TAKEN)).await.map_err(|_| slow())??;
        Ok(answer.vote)
    }
}
