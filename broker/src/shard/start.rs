//! Starting a shard: lock and open the store, load the rows, replay the journal above the last checkpoint, begin an epoch. In a cluster the
//! journal is not replayed: Raft says what of it is committed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use qwerq_core::{Body, Dispatch, Entry, Pending, State};
use rustc_hash::FxHashMap;

use crate::calls::Calls;
use crate::cluster::{self, Cluster, Link, Mark, MemberError, Node, Opened, Points};
use crate::config::{Config, Durability};
use crate::files::DiskFiles;
use crate::http::Metrics;
use crate::journal::{self, Journal, JournalError};
use crate::policies::Policies;
use crate::registry::Registry;
use crate::store::{Applied, Checkpoint, Checkpointer, Location, Store, StoreError, StoreOptions};
use crate::traces::Tracer;

use super::activity::Activities;
use super::checkpoint::{Checkpoints, JournalPayloads, messages_of};
use super::clock::Clock;
use super::command::Command;
use super::deliver::DeliverFrames;
use super::fault::Fault;
use super::fetch::Fetches;
use super::latencies::Latencies;
use super::log::Log;
use super::payloads::{Locations, Payloads};
use super::reign::Reign;
use super::traces::Traces;
use super::{Shard, apply_entry};

/// Why a shard does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal cannot be opened or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It cannot be the node of a cluster that it is meant to be.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// The first commit failed, or what is stored does not hold together.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl StartError {
    /// Whether files are damaged that other nodes have copies of.
    fn is_damage(&self) -> bool {
        match self {
            StartError::Store(error) => error.is_damage(),
            StartError::Journal(error) => error.is_damage(),
            StartError::Member(_) | StartError::Fault(_) => false,
        }
    }
}

/// What a shard is started with.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) policies: Arc<Policies>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// For the shard's own helpers to report with.
    pub(crate) back: Sender<Command>,
    /// The node of a cluster that this shard is to be, and how the cluster is seen.
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) cluster: Option<Cluster>,
}

/// A data directory that is open.
struct Found {
    store: Arc<Store>,
    state: State,
    journal: Journal<DiskFiles>,
    locations: Locations,
    /// Bytes of the journal above the checkpoint.
    bytes: usize,
    /// The last entry of a cluster's log above the checkpoint.
    last: Option<(u64, u64)>,
}

/// What a data directory is opened as.
enum As<'a> {
    /// The data of a broker that runs alone.
    Alone,
    /// The same, to begin a cluster with. A start that was cut short may have begun that.
    Founder,
    /// The data of a member.
    Member(&'a Points),
}

impl Shard {
    /// Opens the data directory and brings the shard to where it was.
    ///
    /// # Errors
    /// [`StartError`]; it names the file and what to do.
    pub(crate) fn start(parts: Parts, commands: Receiver<Command>) -> Result<Shard, StartError> {
        match parts.node.clone() {
            None => Shard::start_alone(parts, commands),
            Some(node) => Shard::start_member(parts, commands, &node),
        }
    }

    fn start_alone(parts: Parts, commands: Receiver<Command>) -> Result<Shard, StartError> {
        let found = open(&parts.config, As::Alone)?;
        let mut shard = Shard::with(parts, commands, found, None)?;
        shard.restore_contracts()?;
        let epoch = shard.state.epoch() + 1;
        shard.commit_alone(Body::Epoch { epoch })?;
        shard.dispatch = Dispatch::new(&shard.state, rand::random());
        Ok(shard)
    }

    fn start_member(parts: Parts, commands: Receiver<Command>, node: &Node) -> Result<Shard, StartError> {
        let points = match node.prepare()? {
            Some(points) => points,
            None => begin_cluster(&parts.config, node)?,
        };
        let (points, found) = match open(&parts.config, As::Member(&points)) {
            Err(error) if error.is_damage() => {
                let points = node.heal(points, &error)?;
                let found = open(&parts.config, As::Member(&points))?;
                (points, found)
            }
            found => (points, found?),
        };
        Shard::with(parts, commands, found, Some((node, points)))
    }

    fn with(parts: Parts, commands: Receiver<Command>, found: Found, member: Option<(&Node, Points)>) -> Result<Shard, StartError> {
        let Found { store, state, journal, locations, bytes, last } = found;
        let payloads = Payloads::new(locations, journal.reader(), store.reader());
        state.check_invariants();
        let checkpointer = Checkpointer::start(Arc::clone(&store), JournalPayloads(journal.reader()))?;
        let (latencies, room) = (Latencies::new(&parts.metrics), store.room()?);
        let (log, reign) = match member {
            None => (Log::new(journal), None),
            Some((node, points)) => {
                let log = Log::proposing(journal.batch_bytes_max());
                let back = parts.back.clone();
                let opened = Opened { store: Arc::clone(&store), journal, last };
                let link: Link = node.start(points, opened, move || drop(back.send(Command::Committed)))?;
                (log, Some(Box::new(Reign::new(link))))
            }
        };
        Ok(Shard {
            clock: Clock::starting_after(state.clock()),
            dispatch: Dispatch::new(&State::default(), 0),
            config: Arc::clone(&parts.config),
            metrics: Arc::clone(&parts.metrics),
            registry: Arc::clone(&parts.registry),
            policies: Arc::clone(&parts.policies),
            calls: Arc::clone(&parts.calls),
            store,
            commands,
            back: parts.back.clone(),
            state,
            pending: Pending::default(),
            log,
            payloads,
            checkpoints: Checkpoints::new(checkpointer, bytes),
            sessions: FxHashMap::default(),
            clients: super::clients::Clients::default(),
            touched: Vec::new(),
            replies: Vec::new(),
            frames: DeliverFrames::default(),
            fetches: Fetches::default(),
            firsts: Vec::new(),
            scratch: Vec::new(),
            latencies,
            activities: Activities::default(),
            traces: Traces::new(parts.tracer.clone()),
            room,
            held: VecDeque::new(),
            storage_full: false,
            more_due: false,
            last_sync: Instant::now(),
            syncing: false,
            stopping: false,
            reign,
            replaced: false,
            parts,
        })
    }
}

/// Opens store and journal. What a cluster's journal holds above the checkpoint is left to Raft.
fn open(config: &Config, opening: As<'_>) -> Result<Found, StartError> {
    let store = Arc::new(Store::open(&config.data_dir.join("store"), StoreOptions::default())?);
    let member = match opening {
        As::Alone if Mark::of(&store)?.is_some() => return Err(MemberError::Member.into()),
        As::Alone | As::Founder => None,
        As::Member(points) => Some(points),
    };
    let mut state = State::default();
    store.load(|key, value| if cluster::is_own(key) { Ok(()) } else { state.load(key, value) })?;
    state.loaded();
    let files = DiskFiles::open(&config.data_dir.join("journal"))
        .map_err(|source| Fault::Io { action: format!("opening {}", config.data_dir.join("journal").display()), source })?;
    let mut options = journal::Options::new(u128::from_be_bytes(store.store_id()));
    options.durability = match config.durability {
        Durability::Fsync => journal::Durability::Fsync,
        Durability::Interval(_) => journal::Durability::Interval,
        Durability::None => journal::Durability::None,
    };
    options.keep_from = member.and_then(Points::kept_from);
    let after = store.applied()?;
    let mut locations = Locations::default();
    let mut bytes = 0;
    let mut last = None;
    let journal = Journal::open(files, options, after, &mut |record| {
        if member.is_some() {
            last = Some(cluster::id_of(&record)?);
            return Ok(());
        }
        bytes += record.payload.len();
        let entry = Entry::decode(record.kind, record.payload)?;
        apply_entry(&mut state, &mut locations, entry.now, entry.body, |range| Location {
            segment: record.position.segment,
            offset: record.position.offset + range.start,
            len: range.end - range.start,
        });
        Ok(())
    })?;
    Ok(Found { store, state, journal, locations, bytes, last })
}

/// Makes of a broker that ran alone, or of an empty directory, the first node of a cluster: what it has goes into the store together with
/// the cluster's first members, and the log begins behind it. Every step may be repeated after a crash.
fn begin_cluster(config: &Config, node: &Node) -> Result<Points, StartError> {
    let Found { store, mut state, mut journal, mut locations, .. } = open(config, As::Founder)?;
    let last = journal.last();
    // The entry before the first of the cluster's log has an index of its own.
    let applied = if last.index == 0 { Applied { index: 1, ..last } } else { last };
    let mut changes = state.take_changes();
    changes.rows.push(node.first_mark(applied).row());
    let removed = messages_of(changes.removed);
    let checkpoint = Checkpoint {
        rows: changes.rows,
        messages: locations.freeze(),
        removed,
        dropped_queues: changes.dropped.into_iter().map(|queue| queue.0).collect(),
        applied,
    };
    store.checkpoint(checkpoint, &JournalPayloads(journal.reader()))?;
    journal.restart_after(applied)?;
    Ok(node.begin(applied)?)
}
