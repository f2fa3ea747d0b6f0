//! Answering other nodes. Who is refused hears why, and so does this node's log.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::image::Incoming;
use super::super::lease::Lease;
use super::super::link::Standing;
use super::super::log::Log;
use super::super::raft::{LogId, Raft, Vote};
use super::super::record;
use super::super::{home, rpc};
use super::{
    FRAME_BYTES_MAX, Hello, Identity, ImageEnd, ImageHead, ImageWanted, Refused, VERSION, Welcome, Wire, append, broken, json, kind,
};
use crate::files::Files;
use crate::store::Applied;

/// What answering takes.
pub(crate) struct Answering<F: Files> {
    pub(crate) identity: Arc<Identity>,
    pub(crate) raft: openraft::Raft<Raft>,
    pub(crate) log: Log<F>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) standing: Arc<Standing>,
    /// Where a snapshot is put together.
    pub(crate) data_dir: PathBuf,
    /// Told when one is complete: then this node starts anew, from it.
    pub(crate) replaced: mpsc::UnboundedSender<()>,
    /// One snapshot is taken at a time.
    pub(crate) receiving: tokio::sync::Mutex<()>,
    /// One is complete: what this node still is says nothing any more. Whoever answers holds it until the answer is durable.
    pub(crate) ended: tokio::sync::RwLock<bool>,
}

/// How long a leader may be silent in the middle of a snapshot.
const CHUNK_WAIT: Duration = Duration::from_secs(30);

/// Answers for as long as it is polled.
pub(crate) async fn serve<F: Files>(listener: &TcpListener, answering: Arc<Answering<F>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => drop(connections.spawn(converse(stream, peer, Arc::clone(&answering)))),
                Err(error) => {
                    // Out of file descriptors, mostly; a connection that ends makes room.
                    tracing::warn!(%error, "a connection of another node could not be accepted");
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn converse<F: Files>(stream: TcpStream, peer: SocketAddr, answering: Arc<Answering<F>>) {
    let mut wire = Wire::new(stream);
    let ended = async {
        let Some(hello) = answering.greet(&mut wire, peer).await? else { return Ok(()) };
        wire.frame_bytes_max = FRAME_BYTES_MAX;
        while let Some((kind, body)) = wire.receive().await? {
            answering.answer(&mut wire, kind, body, hello.from).await?;
        }
        io::Result::Ok(())
    };
    if let Err(error) = ended.await {
        tracing::debug!(%peer, %error, "a connection of another node has ended");
    }
}

impl<F: Files> Answering<F> {
    /// Reads HELLO; `None`: it is refused.
    async fn greet(&self, wire: &mut Wire, peer: SocketAddr) -> io::Result<Option<Hello>> {
        let patience = crate::config::HELLO_TIMEOUT;
        let first = tokio::time::timeout(patience, wire.expect(kind::HELLO)).await;
        let hello: Hello = json(&first.map_err(|_| broken("no HELLO came"))??)?;
        let own = self.log.points().cluster_id;
        if let Err(reason) = self.judge(&hello, own.as_deref()) {
            tracing::warn!(%peer, node = hello.from, "another node is refused: {reason}");
            wire.send_json(kind::REFUSED, &Refused { reason }).await?;
            return Ok(None);
        }
        if own.is_none() && !hello.probe && hello.cluster.is_some() {
            let cluster = hello.cluster.clone();
            tracing::info!(node = hello.from, cluster, "a cluster takes this node up");
            self.log.change_points(move |points| points.cluster_id = cluster).await.map_err(io::Error::other)?;
        }
        let welcome = Welcome { node_id: self.identity.node_id, cluster: own, address: self.identity.address.clone() };
        wire.send_json(kind::WELCOME, &welcome).await?;
        Ok(Some(hello))
    }

    fn judge(&self, hello: &Hello, own: Option<&str>) -> Result<(), String> {
        let node_id = self.identity.node_id;
        if !self.identity.admits(&hello.token) {
            return Err("the token is not this cluster's; start all nodes with the same --auth-token-file".to_owned());
        }
        if hello.version != VERSION {
            let versions =
                format!("node {} speaks version {} of the protocol between nodes, node {node_id} {VERSION}", hello.from, hello.version);
            return Err(format!("{versions}; update the older one"));
        }
        if hello.to != node_id {
            return Err(format!(
                "this is node {node_id}, not {}; check --cluster-peers and the addresses in `qwer-q cluster status`",
                hello.to
            ));
        }
        if hello.from == node_id {
            return Err(format!("there are two nodes {node_id}; start one of them with another --cluster-node-id"));
        }
        match (own, hello.cluster.as_deref()) {
            (Some(own), Some(theirs)) if own != theirs => Err(format!(
                "node {} belongs to cluster {theirs}, node {node_id} to {own}; a node changes its cluster only with an empty data directory",
                hello.from
            )),
            _ => Ok(()),
        }
    }

    async fn answer(&self, wire: &mut Wire, kind: u8, body: bytes::Bytes, from: u64) -> io::Result<()> {
        if kind == kind::IMAGE {
            return self.receive_image(wire, &json(&body)?, from).await;
        }
        let ended = self.ended.read().await;
        if *ended {
            return Err(io::Error::other("this node starts anew, from a snapshot"));
        }
        match kind {
            kind::APPEND => {
                let response = rpc::append(&self.raft, &self.log, &self.standing, append::decode(body)?).await.map_err(io::Error::other)?;
                wire.send_json(kind::APPENDED, &response).await
            }
            kind::VOTE => {
                let response =
                    rpc::vote(&self.raft, &self.log, &self.standing, &self.lease, json(&body)?).await.map_err(io::Error::other)?;
                wire.send_json(kind::VOTED, &response).await
            }
            kind::ELECT if self.log.is_healing() => Err(broken("this node does not vote before it has caught up")),
            kind::ELECT => {
                tracing::info!(node = from, "the leader hands over to this node");
                self.raft.trigger().elect().await.map_err(io::Error::other)?;
                wire.send(kind::ELECTING, &[]).await
            }
            kind::PRE_VOTE => {
                let would_vote = rpc::pre_vote(&self.log, &self.standing, &self.lease, json(&body)?);
                wire.send_json(kind::PRE_VOTED, &would_vote).await
            }
            other => Err(broken(format!("a frame of kind {other} is no request"))),
        }
    }

    /// Puts a snapshot together beside the data, and has the node start from it.
    async fn receive_image(&self, wire: &mut Wire, head: &ImageHead, from: u64) -> io::Result<()> {
        let Ok(_alone) = self.receiving.try_lock() else {
            return wire.send_json(kind::REFUSED, &Refused { reason: "another snapshot is being taken".to_owned() }).await;
        };
        let vote = self.raft.metrics().borrow().vote;
        let Some(last) = head.meta.last_log_id else { return Err(broken("a snapshot of nothing")) };
        let wanted = self.wants(head.vote, last).await?;
        wire.send_json(kind::IMAGE_WANTED, &ImageWanted { wanted, vote }).await?;
        if !wanted {
            return Ok(());
        }
        tracing::info!(node = from, through = last.index, "the leader sends a snapshot");
        let directory = home::begin_incoming(&self.data_dir)?;
        let mut incoming = blocking(move || Incoming::begin(&directory).map_err(io::Error::other)).await?;
        let mut received = ImageEnd { chunks: 0, crc: 0 };
        loop {
            let received_next = tokio::time::timeout(CHUNK_WAIT, wire.receive()).await;
            let (kind, body) = received_next.map_err(|_| io::ErrorKind::TimedOut)??.ok_or(io::ErrorKind::UnexpectedEof)?;
            match kind {
                kind::CHUNK => {
                    let (crc, chunk) = body.split_first_chunk::<4>().ok_or_else(|| broken("a chunk without its checksum"))?;
                    if crc32c::crc32c(chunk) != u32::from_le_bytes(*crc) {
                        return Err(broken(format!("chunk {} of the snapshot does not match its checksum", received.chunks)));
                    }
                    received.chunks += 1;
                    received.crc = crc32c::crc32c_append(received.crc, chunk);
                    let chunk = body.slice(4..);
                    incoming = blocking(move || {
                        incoming.add(&chunk).map_err(io::Error::other)?;
                        Ok(incoming)
                    })
                    .await?;
                }
                kind::IMAGE_END => {
                    let end: ImageEnd = json(&body)?;
                    if (end.chunks, end.crc) != (received.chunks, received.crc) {
                        return Err(broken("the snapshot does not match its checksum"));
                    }
                    break;
                }
                other => return Err(broken(format!("a frame of kind {other} is no part of a snapshot"))),
            }
        }
        let applied = Applied { term: last.leader_id.term, index: record::journal_index(last.index), crc: 0 };
        blocking(move || incoming.finish(applied).map_err(io::Error::other)).await?;
        // From here on nothing is promised that the snapshot does not have; and what was promised meanwhile to a later leader counts for more.
        let mut ended = self.ended.write().await;
        if !self.wants(head.vote, last).await? {
            return Err(io::Error::other("the log has gone on without the snapshot"));
        }
        let data_dir = self.data_dir.clone();
        blocking(move || home::complete_incoming(&data_dir)).await?;
        *ended = true;
        // Nobody listens any more only when the node is stopping; the next start finds the snapshot.
        let _ = self.replaced.send(());
        tracing::info!(chunks = received.chunks, "the snapshot is complete");
        wire.send(kind::IMAGE_TAKEN, &[]).await
    }

    /// Whether a snapshot of a leader with that vote is more than what this node has.
    async fn wants(&self, vote: Vote, last: LogId) -> io::Result<bool> {
        let own = self.raft.metrics().borrow().vote;
        let promised = self.log.points().vote.is_none_or(|promised| vote >= promised);
        Ok(vote >= own && promised && !self.log.holds(last).await.map_err(io::Error::other)?)
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
