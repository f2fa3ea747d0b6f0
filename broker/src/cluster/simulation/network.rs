//! The network between nodes, and between clients and nodes: it delays, loses, repeats and reorders, and its links fail in one direction or
//! both. What travels between nodes is encoded as `network/` encodes it; what a node does with it is `rpc.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use openraft::SnapshotMeta;
use openraft::error::{Fatal, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse};
use openraft::{OptionalSend, Snapshot};
use tokio::sync::oneshot;

use super::super::committed::Queue;
use super::super::image::{self, Incoming};
use super::super::lease::Lease;
use super::super::link::Standing;
use super::super::log::{Log, next};
use super::super::network::append;
use super::super::raft::{Address, LogId, Raft, Vote};
use super::super::{record, rpc};
use super::disk::SimFiles;
use super::ledger::Ledger;
use super::runtime::{WORLD, dice, instant, sleep, spawn_on, up_to};
use super::shard::Door;
use crate::store::Applied;

/// What can be reached of a node while it runs.
#[derive(Clone)]
pub(super) struct End {
    pub(super) raft: openraft::Raft<Raft>,
    pub(super) log: Log<SimFiles>,
    pub(super) lease: Arc<Lease>,
    pub(super) standing: Arc<Standing>,
    pub(super) queue: Arc<Queue>,
    /// Where a snapshot is put together.
    pub(super) incoming: PathBuf,
    pub(super) door: Door,
}

/// How links behave.
#[derive(Debug, Clone)]
pub(super) struct Weather {
    /// Percent of what is sent that is lost.
    pub(super) loss: usize,
    /// Percent that arrives twice.
    pub(super) repeats: usize,
    /// Milliseconds on the way, at most.
    pub(super) delay_ms: usize,
    /// Links, by from and to, on which nothing arrives.
    pub(super) cut: BTreeSet<(u64, u64)>,
    /// Nodes that get no answer to what they ask, since it does not arrive. They hear and answer what they are asked.
    pub(super) mute: BTreeSet<u64>,
}

impl Weather {
    pub(super) fn fair() -> Weather {
        Weather { loss: 0, repeats: 0, delay_ms: 2, cut: BTreeSet::new(), mute: BTreeSet::new() }
    }
}

/// The network; clones are the same one.
#[derive(Clone)]
pub(super) struct Net {
    inner: Arc<Mutex<Inner>>,
    pub(super) ledger: Ledger,
}

struct Inner {
    weather: Weather,
    ends: BTreeMap<u64, End>,
}

type Answering<A> = Pin<Box<dyn Future<Output = Option<A>> + Send>>;

impl Net {
    pub(super) fn new(ledger: Ledger) -> Net {
        Net { inner: Arc::new(Mutex::new(Inner { weather: Weather::fair(), ends: BTreeMap::new() })), ledger }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub(super) fn set_weather(&self, weather: Weather) {
        self.lock().weather = weather;
    }

    pub(super) fn weather(&self) -> Weather {
        self.lock().weather.clone()
    }

    pub(super) fn plug(&self, node: u64, end: End) {
        self.lock().ends.insert(node, end);
    }

    pub(super) fn unplug(&self, node: u64) {
        let gone = self.lock().ends.remove(&node);
        drop(gone);
    }

    pub(super) fn end(&self, node: u64) -> Option<End> {
        self.lock().ends.get(&node).cloned()
    }

    pub(super) fn nodes(&self) -> Vec<u64> {
        self.lock().ends.keys().copied().collect()
    }

    fn is_cut(&self, from: u64, to: u64) -> bool {
        self.lock().weather.cut.contains(&(from, to))
    }

    /// How long something is on its way; `None`: it is lost.
    fn travels(&self, from: u64, to: u64) -> Option<Duration> {
        let weather = self.weather();
        let lost = weather.cut.contains(&(from, to)) || dice(|rng| rng.percent(weather.loss));
        let slow = dice(|rng| rng.percent(3));
        (!lost).then(|| up_to(0, if slow { weather.delay_ms * 20 } else { weather.delay_ms }))
    }

    /// Carries something to a node and runs it there. If it is lost, `arrive` is dropped.
    fn carry(&self, from: u64, to: u64, arrive: impl FnOnce(End) -> Option<Answering<()>> + Send + 'static) {
        let Some(delay) = self.travels(from, to) else { return };
        let net = self.clone();
        spawn_on(WORLD, async move {
            sleep(delay).await;
            if net.is_cut(from, to) {
                return;
            }
            // What a node is that is about to start anew says nothing any more.
            if let Some(end) = net.end(to).filter(|end| !end.standing.replaced.load(Ordering::Acquire))
                && let Some(work) = arrive(end)
            {
                spawn_on(to, async move {
                    // It has answered, or it has not.
                    let _ = work.await;
                });
            }
        });
    }

    /// Carries something back to whoever asked.
    pub(super) fn carry_back<A: Send + 'static>(&self, from: u64, to: u64, answer: A, give: impl FnOnce(A) + Send + 'static) {
        let Some(delay) = self.travels(from, to) else { return };
        let net = self.clone();
        spawn_on(WORLD, async move {
            sleep(delay).await;
            if !net.is_cut(from, to) {
                give(answer);
            }
        });
    }

    /// Has a node answer something. Fails, after a while, when a message is lost on either way.
    async fn ask<Q, A>(&self, from: u64, to: u64, request: Q, answer: fn(End, Q) -> Answering<A>) -> io::Result<A>
    where
        Q: Clone + Send + 'static,
        A: Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let sender = Arc::new(Mutex::new(Some(sender)));
        let weather = self.weather();
        let times = match weather.mute.contains(&from) {
            true => 0,
            false => 1 + usize::from(dice(|rng| rng.percent(weather.repeats))),
        };
        for _ in 0..times {
            let (net, sender, request) = (self.clone(), Arc::clone(&sender), request.clone());
            self.carry(from, to, move |end| {
                let answering = answer(end, request);
                Some(Box::pin(async move {
                    let answer = answering.await?;
                    let sender = sender.lock().unwrap().take()?;
                    net.carry_back(to, from, answer, move |answer| drop(sender.send(answer)));
                    Some(())
                }))
            });
        }
        drop(sender);
        match receiver.await {
            Ok(answer) => Ok(answer),
            Err(_) => {
                sleep(up_to(20, 200)).await;
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
    }

    /// Asks a node whether it would vote for this one, whose log ends with `last`.
    pub(super) async fn pre_vote(self, from: u64, to: u64, last: Option<LogId>) -> Option<bool> {
        self.ask(from, to, last, answer_pre_vote).await.ok()
    }

    /// Puts a client's request at a node's door.
    pub(super) fn request(&self, node: u64, knock: impl FnOnce(&Door) + Send + 'static) {
        self.carry(WORLD, node, move |end| {
            knock(&end.door);
            None
        });
    }
}

/// Makes openraft's connections.
pub(super) struct Dialler {
    pub(super) node: u64,
    pub(super) net: Net,
    pub(super) log: Log<SimFiles>,
    pub(super) lease: Arc<Lease>,
}

impl RaftNetworkFactory<Raft> for Dialler {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, _: &Address) -> Peer {
        Peer { node: self.node, target, net: self.net.clone(), log: self.log.clone(), lease: Arc::clone(&self.lease) }
    }
}

/// Another node.
pub(super) struct Peer {
    node: u64,
    target: u64,
    net: Net,
    log: Log<SimFiles>,
    lease: Arc<Lease>,
}

type Failure = RPCError<u64, Address, RaftError<u64>>;

fn failed(error: &io::Error) -> Failure {
    RPCError::Unreachable(Unreachable::new(error))
}

fn answer_append(end: End, bytes: Bytes) -> Answering<AppendEntriesResponse<u64>> {
    Box::pin(async move {
        let request = append::decode(bytes).expect("it comes as it was sent");
        rpc::append(&end.raft, &end.log, &end.standing, request).await.ok()
    })
}

fn answer_vote(end: End, request: VoteRequest<u64>) -> Answering<VoteResponse<u64>> {
    Box::pin(async move { rpc::vote(&end.raft, &end.log, &end.standing, &end.lease, request).await.ok() })
}

fn answer_pre_vote(end: End, last: Option<LogId>) -> Answering<bool> {
    Box::pin(async move { Some(rpc::pre_vote(&end.log, &end.standing, &end.lease, last)) })
}

/// A snapshot on its way.
#[derive(Clone)]
struct Parcel {
    vote: Vote,
    meta: SnapshotMeta<u64, Address>,
    chunks: Arc<Vec<Vec<u8>>>,
}

/// As `network/server.rs` takes a snapshot in.
fn answer_image(end: End, parcel: Parcel) -> Answering<Vote> {
    Box::pin(async move {
        let vote = end.raft.metrics().borrow().vote;
        let last = parcel.meta.last_log_id.expect("a snapshot of something");
        let wanted = parcel.vote >= vote && !end.log.holds(last).await.ok()?;
        if !wanted || end.standing.replaced.load(Ordering::Acquire) {
            return Some(vote);
        }
        if end.incoming.exists() {
            std::fs::remove_dir_all(&end.incoming).unwrap();
        }
        std::fs::create_dir_all(&end.incoming).unwrap();
        let mut incoming = Incoming::begin(&end.incoming).unwrap();
        for chunk in parcel.chunks.iter() {
            incoming.add(chunk).unwrap();
        }
        let applied = Applied { term: last.leader_id.term, index: record::journal_index(last.index), crc: 0 };
        incoming.finish(applied).unwrap();
        end.standing.replaced.store(true, Ordering::Release);
        end.queue.nudge();
        Some(vote)
    })
}

impl RaftNetwork<Raft> for Peer {
    async fn append_entries(
        &mut self,
        mut request: AppendEntriesRequest<Raft>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failure> {
        request.leader_commit = rpc::committed(&self.log, request.leader_commit);
        let mut bytes = Vec::new();
        append::encode(&request, &mut bytes);
        let sent = instant();
        let response = self.net.ask(self.node, self.target, Bytes::from(bytes), answer_append).await.map_err(|error| failed(&error))?;
        rpc::appended(&self.lease, request.vote.leader_id.term, self.target, sent, &response);
        Ok(response)
    }

    async fn vote(&mut self, request: VoteRequest<u64>, _: RPCOption) -> Result<VoteResponse<u64>, Failure> {
        self.net.ask(self.node, self.target, request, answer_vote).await.map_err(|error| failed(&error))
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<Raft>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<Raft, Fatal<u64>>> {
        let mut chunks = Vec::new();
        image::each_chunk(&snapshot.snapshot, |chunk| {
            chunks.push(chunk.expect("the store can be read"));
            true
        });
        self.net.ledger.note(self.node, format!("sends node {} a snapshot through {:?}", self.target, snapshot.meta.last_log_id));
        let parcel = Parcel { vote, meta: snapshot.meta, chunks: Arc::new(chunks) };
        drop(snapshot.snapshot);
        self.log.trailing().sends(self.target, next(parcel.meta.last_log_id).saturating_sub(1));
        let outcome = tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = self.net.ask(self.node, self.target, parcel, answer_image) => match sent {
                Ok(vote) => Ok(SnapshotResponse::new(vote)),
                Err(error) => Err(StreamingError::Unreachable(Unreachable::new(&error))),
            },
        };
        self.log.trailing().has_sent(self.target, outcome.is_ok(), instant());
        outcome
    }

    fn backoff(&self) -> Backoff {
        Backoff::new((0..).map(|round: u32| Duration::from_millis(25 << round.min(4))))
    }
}
