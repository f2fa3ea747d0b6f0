//! A node of a cluster: its identity, its directories, and the thread on which its Raft, its connections to other nodes and its housekeeping
//! run. A node outlives its Raft: after a snapshot was received, the shard ends and starts anew, with another Raft on new files.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openraft::ServerState;
use tokio::sync::{mpsc, oneshot, watch};

use super::campaign;
use super::change::{Changer, change_members};
use super::committed::Queue;
use super::home::{self, HomeError};
use super::lease::Lease;
use super::link::{Link, Standing};
use super::log::{Log, Synced, chain, next};
use super::machine::Machine;
use super::mark::Mark;
use super::network::{Answering, Dialler, Identity, pre_vote, serve};
use super::points::{Points, PointsError};
use super::raft::{Address, LogId, Membership, Metrics, Raft, StoredMembership, config};
use super::status::{Change, Cluster, ClusterError, ClusterStatus, LEADER_SILENT, Member, Role};
use super::watch::Watch;
use crate::config::ClusterConfig;
use crate::files::DiskFiles;
use crate::journal::{Applied, Journal};
use crate::store::Store;

/// Segments of the journal that stay for nodes that are behind, though a checkpoint covers them.
const SEGMENTS_KEPT: usize = 8;

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// Its votes cannot be read or written.
    #[error(transparent)]
    Points(#[from] Box<dyn std::error::Error + Send + Sync>),
    /// The directory is another node's.
    #[error("it is node {found}'s, not node {wanted}'s; start with --cluster-node-id {found}, or choose another --data-dir")]
    OtherNode {
        /// Whose it is.
        found: u64,
        /// What was asked for.
        wanted: u64,
    },
    /// The directory is a member's, and the broker was to run alone.
    #[error("it belongs to a node of a cluster; start it with the --cluster flags that it had")]
    Member,
    /// The directory holds a lone broker's data.
    #[error(
        "it holds the data of a broker that ran alone; add --cluster-bootstrap to make it the first node of a cluster, or choose an empty \
         --data-dir for a node that is to join one"
    )]
    Alone,
    /// Raft does not start.
    #[error("Raft does not start: {0}")]
    Raft(String),
}

impl From<PointsError> for MemberError {
    fn from(error: PointsError) -> MemberError {
        MemberError::Points(Box::new(error))
    }
}

impl From<HomeError> for MemberError {
    fn from(error: HomeError) -> MemberError {
        MemberError::Points(Box::new(error))
    }
}

type ChangeRequest = (Change, oneshot::Sender<Result<(), ClusterError>>);

/// A node.
pub(crate) struct Node {
    config: ClusterConfig,
    data_dir: PathBuf,
    files: DiskFiles,
    identity: Arc<Identity>,
    listener: TcpListener,
    view: Arc<View>,
    changes: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<ChangeRequest>>>,
}

/// What a shard has opened.
pub(crate) struct Opened {
    pub(crate) store: Arc<Store>,
    pub(crate) journal: Journal<DiskFiles>,
    /// The last entry of the journal, if it is above what the store includes.
    pub(crate) last: Option<(u64, u64)>,
}

/// What can be seen of a node from outside, whichever Raft it runs.
#[derive(Default)]
struct View {
    running: Mutex<Option<Running>>,
}

#[derive(Clone)]
struct Running {
    metrics: watch::Receiver<Metrics>,
    log: Log<DiskFiles>,
    lease: Arc<Lease>,
    standing: Arc<Standing>,
}

impl View {
    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// A node, and the handle by which others see it.
    ///
    /// # Errors
    /// When its directory cannot be had.
    pub(crate) fn new(
        config: ClusterConfig,
        data_dir: &Path,
        token: Option<String>,
        listener: TcpListener,
        address: Address,
    ) -> std::io::Result<(Node, Cluster)> {
        let files = DiskFiles::open(&config.dir)?;
        let overrides: BTreeMap<u64, String> = config.peers.iter().cloned().collect();
        let identity = Arc::new(Identity { node_id: config.node_id, address, token, overrides });
        let view = Arc::new(View::default());
        let (sender, receiver) = mpsc::unbounded_channel();
        let cluster = {
            let (view, node_id) = (Arc::clone(&view), config.node_id);
            Cluster::new(move || view.status(node_id), sender)
        };
        let changes = Arc::new(tokio::sync::Mutex::new(receiver));
        Ok((Node { config, data_dir: data_dir.to_owned(), files, identity, listener, view, changes }, cluster))
    }

    /// Makes the directories what the last run meant them to be, and says what the node has promised. `None`: it is to begin a cluster.
    pub(crate) fn prepare(&self) -> Result<Option<Points>, MemberError> {
        home::settle(&self.data_dir, &self.files)?;
        let found = Points::load(&self.files)?;
        if let Some(points) = &found
            && points.node_id != self.config.node_id
        {
            return Err(MemberError::OtherNode { found: points.node_id, wanted: self.config.node_id });
        }
        match found {
            Some(points) if points.cluster_id.is_some() || !self.config.bootstrap => Ok(Some(points)),
            _ if self.config.bootstrap => Ok(None),
            _ if home::holds_data(&self.data_dir) => Err(MemberError::Alone),
            _ => {
                let points = Points::new(self.config.node_id);
                points.save(&self.files)?;
                Ok(Some(points))
            }
        }
    }

    /// The mark of a cluster that begins with this node alone, after the journal's record `applied`.
    pub(crate) fn first_mark(&self, applied: Applied) -> Mark {
        let last = founding(applied);
        let members = BTreeMap::from([(self.config.node_id, self.identity.address.clone())]);
        let membership = Membership::new(vec![[self.config.node_id].into()], members);
        Mark { last: Some(last), membership: StoredMembership::new(Some(last), membership) }
    }

    /// Takes note that the cluster has begun: its first mark is in the store, and the journal begins after it.
    pub(crate) fn begin(&self, applied: Applied) -> Result<Points, MemberError> {
        let cluster_id = format!("{:032x}", rand::random::<u128>());
        let others = self.config.peers.iter().filter(|(id, _)| *id != self.config.node_id);
        let points = Points {
            cluster_id: Some(cluster_id),
            purged: Some(founding(applied)),
            invited: others.cloned().collect(),
            healing: None,
            ..Points::new(self.config.node_id)
        };
        points.save(&self.files)?;
        tracing::info!(cluster = points.cluster_id, node = points.node_id, "a cluster begins with this node");
        Ok(points)
    }

    /// Sets damaged files aside: the node begins empty and gets everything from its peers.
    pub(crate) fn heal(&self, mut points: Points, damage: &dyn std::error::Error) -> Result<Points, MemberError> {
        points.lose_log();
        // First: a node that is empty and does not know why would vote.
        points.save(&self.files)?;
        let place = home::set_aside(&self.data_dir)?;
        tracing::error!(
            damage = %chain(damage),
            kept = %place.display(),
            "THIS NODE'S FILES ARE DAMAGED. They are set aside, and everything is copied from the other nodes; it does not vote before that"
        );
        Ok(points)
    }

    /// Starts Raft on what the shard has opened. `wake` tells the shard to look for committed entries.
    pub(crate) fn start(&self, points: Points, opened: Opened, wake: impl Fn() + Send + Sync + 'static) -> Result<Link, MemberError> {
        let Opened { store, journal, last } = opened;
        let mark = Mark::of(&store).map_err(|error| MemberError::Points(Box::new(error)))?.unwrap_or_default();
        let last = last.map_or(mark.last.max(points.purged), |(term, index)| Some(super::record::log_id(term, index)));
        if points.cluster_id.is_none() {
            tracing::info!("this node waits for a cluster to take it up: `qwer-q cluster add {}=HOST:PORT` at the leader", points.node_id);
        }
        let applied = next(mark.last);
        let name = points.cluster_id.clone().unwrap_or_default();
        let io = |error: std::io::Error| MemberError::Points(Box::new(error));
        let log = Log::start(journal, self.files.clone(), points, last, applied).map_err(io)?;
        let standing = Arc::new(Standing::default());
        standing.applied.store(applied, Ordering::Release);
        let lease = Arc::new(Lease::new(self.config.node_id));
        let queue = Queue::new(wake);
        let task = Task {
            name,
            data_dir: self.data_dir.clone(),
            identity: Arc::clone(&self.identity),
            log: log.clone(),
            lease: Arc::clone(&lease),
            standing: Arc::clone(&standing),
            queue: Arc::clone(&queue),
            changes: Arc::clone(&self.changes),
            view: Arc::clone(&self.view),
        };
        let listener = self.listener.try_clone().map_err(io)?;
        let machine = Machine::new(log.clone(), Arc::clone(&queue), store);
        let (stop, stopped) = oneshot::channel();
        let (started, raft) = std::sync::mpsc::channel();
        let run = move || task.run(listener, machine, &started, stopped);
        let thread = std::thread::Builder::new().name("raft".to_owned()).spawn(run).map_err(io)?;
        let raft = raft.recv().map_err(|_| MemberError::Raft("its thread has ended".to_owned()))?.map_err(MemberError::Raft)?;
        Ok(Link { raft, log, queue, lease, standing, mark, answers: Vec::new(), stop: Some(stop), thread: Some(thread) })
    }
}

/// The entry before a cluster's first: what was in the journal of the broker that ran alone.
fn founding(applied: Applied) -> LogId {
    super::record::log_id(0, applied.index)
}

/// What runs on the node's thread.
struct Task {
    name: String,
    data_dir: PathBuf,
    identity: Arc<Identity>,
    log: Log<DiskFiles>,
    lease: Arc<Lease>,
    standing: Arc<Standing>,
    queue: Arc<Queue>,
    changes: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<ChangeRequest>>>,
    view: Arc<View>,
}

impl Task {
    fn run(
        self,
        listener: TcpListener,
        machine: Machine<DiskFiles>,
        started: &std::sync::mpsc::Sender<Result<openraft::Raft<Raft>, String>>,
        stopped: oneshot::Receiver<()>,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(started.send(Err(error.to_string()))),
        };
        runtime.block_on(async {
            let dialler = Dialler { identity: Arc::clone(&self.identity), log: self.log.clone(), lease: Arc::clone(&self.lease) };
            let settings = Arc::new(config(&self.name));
            let raft = openraft::Raft::new(self.identity.node_id, settings, dialler, self.log.clone(), machine).await;
            let raft = match raft {
                Ok(raft) => raft,
                Err(error) => return drop(started.send(Err(chain(&error)))),
            };
            let running = Running {
                metrics: raft.metrics(),
                log: self.log.clone(),
                lease: Arc::clone(&self.lease),
                standing: Arc::clone(&self.standing),
            };
            *self.view.lock() = Some(running);
            let _ = started.send(Ok(raft.clone()));
            self.keep_house(listener, &raft, stopped).await;
            if let Err(error) = raft.shutdown().await {
                tracing::warn!(%error, "Raft does not stop in order");
            }
        });
    }

    /// Everything but Raft itself, until the node stops.
    async fn keep_house(&self, listener: TcpListener, raft: &openraft::Raft<Raft>, stopped: oneshot::Receiver<()>) {
        let listener = listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "the node cannot listen for others");
                self.standing.failed.store(true, Ordering::Release);
                return self.queue.nudge();
            }
        };
        let (replaced, mut was_replaced) = mpsc::unbounded_channel();
        let answering = Arc::new(Answering {
            identity: Arc::clone(&self.identity),
            raft: raft.clone(),
            log: self.log.clone(),
            lease: Arc::clone(&self.lease),
            standing: Arc::clone(&self.standing),
            data_dir: self.data_dir.clone(),
            replaced,
            receiving: tokio::sync::Mutex::new(()),
            ended: tokio::sync::RwLock::new(false),
        });
        let changer = Changer {
            identity: Arc::clone(&self.identity),
            raft: raft.clone(),
            log: self.log.clone(),
            standing: Arc::clone(&self.standing),
            queue: Arc::clone(&self.queue),
            status: {
                let (view, node_id) = (Arc::clone(&self.view), self.identity.node_id);
                Box::new(move || view.status(node_id))
            },
        };
        let watch = Watch {
            log: self.log.clone(),
            lease: Arc::clone(&self.lease),
            standing: Arc::clone(&self.standing),
            queue: Arc::clone(&self.queue),
            segments_kept: SEGMENTS_KEPT,
        };
        let everything = async {
            tokio::join!(
                serve(&listener, answering),
                watch.follow(raft),
                campaign::watch(raft, &self.log, &self.standing, |id, address, last| {
                    let (identity, cluster) = (Arc::clone(&self.identity), self.log.points().cluster_id);
                    async move { pre_vote(&identity, cluster, id, &address.raft, last).await.ok() }
                }),
                async {
                    let mut changes = self.changes.lock().await;
                    change_members(&changer, &mut changes).await;
                },
                async {
                    let mut synced = self.log.synced();
                    if synced.wait_for(|synced| *synced == Synced::Failed).await.is_ok() {
                        self.standing.failed.store(true, Ordering::Release);
                        self.queue.nudge();
                    }
                },
                async {
                    if was_replaced.recv().await.is_some() {
                        self.standing.replaced.store(true, Ordering::Release);
                        self.queue.nudge();
                    }
                }
            )
        };
        tokio::select! {
            _ = everything => {}
            // A sender that is gone means the same.
            _ = stopped => {}
        }
    }
}

impl View {
    fn status(&self, node_id: u64) -> ClusterStatus {
        let running = self.lock().clone();
        let Some(Running { metrics, log, lease, standing }) = running else { return unknown(node_id) };
        let metrics = metrics.borrow().clone();
        let points = log.points();
        let serves = standing.serving.load(Ordering::Acquire) != 0;
        let hears = standing.heard().is_some_and(|heard| heard.elapsed() < LEADER_SILENT);
        let leader = metrics.current_leader.filter(|leader| if *leader == node_id { serves } else { hears });
        let last_log_index = metrics.last_log_index.map_or(0, |index| index + 1);
        let membership = metrics.membership_config.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        let role = match metrics.state {
            ServerState::Leader if serves => Role::Leader,
            ServerState::Leader | ServerState::Candidate => Role::Candidate,
            ServerState::Learner if voters.contains(&node_id) => Role::Follower,
            ServerState::Learner => Role::Learner,
            ServerState::Follower | ServerState::Shutdown => Role::Follower,
        };
        let now = Instant::now();
        let member = |(id, address): (&u64, &Address)| {
            let voter = voters.contains(id);
            let matched = metrics.replication.as_ref().filter(|_| serves).and_then(|nodes| nodes.get(id)).copied().flatten();
            let matched_index = match *id == node_id && serves {
                true => Some(last_log_index),
                false => matched.map(|matched| matched.index + 1),
            };
            let contact = lease.last_contact(*id).filter(|_| serves && *id != node_id).map(|at| now.saturating_duration_since(at));
            Member {
                id: *id,
                raft_address: address.raft.clone(),
                client_address: address.client.clone(),
                http_address: address.http.clone(),
                voter,
                role: if *id == node_id {
                    Some(role)
                } else if leader == Some(*id) {
                    Some(Role::Leader)
                } else if !voter {
                    Some(Role::Learner)
                } else {
                    leader.map(|_| Role::Follower)
                },
                matched_index,
                lag: matched_index.map(|matched| last_log_index.saturating_sub(matched)),
                last_contact_ms: contact.map(|contact| u64::try_from(contact.as_millis()).unwrap_or(u64::MAX)),
            }
        };
        let applied_index = standing.applied.load(Ordering::Acquire);
        ClusterStatus {
            cluster_id: points.cluster_id.unwrap_or_default(),
            node_id,
            role,
            term: metrics.current_term,
            leader,
            last_log_index,
            committed_index: applied_index.max(metrics.last_applied.map_or(0, |last| last.index + 1)),
            applied_index,
            snapshot_index: metrics.snapshot.map_or(0, |last| last.index + 1),
            purged_index: metrics.purged.map_or(0, |last| last.index + 1),
            healing: points.healing.is_some(),
            members: membership.nodes().map(member).collect(),
        }
    }
}

fn unknown(node_id: u64) -> ClusterStatus {
    ClusterStatus {
        cluster_id: String::new(),
        node_id,
        role: Role::Follower,
        term: 0,
        leader: None,
        last_log_index: 0,
        committed_index: 0,
        applied_index: 0,
        snapshot_index: 0,
        purged_index: 0,
        healing: false,
        members: Vec::new(),
    }
}

/// How often the node that began the cluster looks for those that it is to take up.
pub(super) const LOOK_FOR_INVITED: Duration = Duration::from_millis(500);
