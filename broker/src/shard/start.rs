//! Starting a shard: lock and open the store, load the rows, replay the journal above the last checkpoint, begin an epoch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use qwerq_core::{Body, Dispatch, Entry, Pending, State};
use rustc_hash::FxHashMap;

use crate::calls::Calls;
use crate::config::{Config, Durability};
use crate::files::DiskFiles;
use crate::http::Metrics;
use crate::journal::{self, Journal, JournalError};
use crate::policies::Policies;
use crate::registry::Registry;
use crate::store::{Checkpointer, Location, Store, StoreError, StoreOptions};
use crate::traces::Tracer;

use super::activity::Activities;
use super::checkpoint::{Checkpoints, JournalPayloads};
use super::clock::Clock;
use super::command::Command;
use super::deliver::DeliverFrames;
use super::fault::Fault;
use super::fetch::Fetches;
use super::latencies::Latencies;
use super::log::Log;
use super::payloads::{Locations, Payloads};
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
    /// The first commit failed, or what is stored does not hold together.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Shard {
    /// Opens the data directory and brings the shard to where it was.
    ///
    /// # Errors
    /// [`StartError`]; it names the file and what to do.
    pub fn start(
        config: Arc<Config>,
        metrics: Arc<Metrics>,
        registry: Arc<Registry>,
        policies: Arc<Policies>,
        calls: Arc<Calls>,
        tracer: Option<Arc<Tracer>>,
        (back, commands): (Sender<Command>, Receiver<Command>),
    ) -> Result<Shard, StartError> {
        let store = Arc::new(Store::open(&config.data_dir.join("store"), StoreOptions::default())?);
        let mut state = State::default();
        store.load(|key, value| state.load(key, value))?;
        state.loaded();
        let files = DiskFiles::open(&config.data_dir.join("journal"))
            .map_err(|source| Fault::Io { action: format!("opening {}", config.data_dir.join("journal").display()), source })?;
        let mut options = journal::Options::new(u128::from_be_bytes(store.store_id()));
        options.durability = match config.durability {
            Durability::Fsync => journal::Durability::Fsync,
            Durability::Interval(_) => journal::Durability::Interval,
            Durability::None => journal::Durability::None,
        };
        let after = store.applied()?;
        let mut locations = Locations::default();
        let mut bytes = 0;
        let journal = Journal::open(files, options, after, &mut |record| {
            bytes += record.payload.len();
            let entry = Entry::decode(record.kind, record.payload)?;
            apply_entry(&mut state, &mut locations, entry.now, entry.body, |range| Location {
                segment: record.position.segment,
                offset: record.position.offset + range.start,
                len: range.end - range.start,
            });
            Ok(())
        })?;
        let payloads = Payloads::new(locations, journal.reader(), store.reader());
        state.check_invariants();
        let checkpointer = Checkpointer::start(Arc::clone(&store), JournalPayloads(journal.reader()))?;
        let (latencies, room) = (Latencies::new(&metrics), store.room()?);
        let mut shard = Shard {
            clock: Clock::starting_after(state.clock()),
            dispatch: Dispatch::new(&state, 0),
            config,
            metrics,
            registry,
            policies,
            calls,
            store,
            commands,
            back,
            state,
            pending: Pending::default(),
            log: Log::new(journal),
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
            traces: Traces::new(tracer),
            room,
            held: VecDeque::new(),
            storage_full: false,
            more_due: false,
            last_sync: Instant::now(),
            syncing: false,
            stopping: false,
        };
        shard.restore_contracts()?;
        let epoch = shard.state.epoch() + 1;
        shard.commit_alone(Body::Epoch { epoch })?;
        shard.dispatch = Dispatch::new(&shard.state, rand::random());
        Ok(shard)
    }
}
