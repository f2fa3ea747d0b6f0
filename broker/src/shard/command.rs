//! What connections and HTTP ask of a shard. Commands of one connection are handled in the order in which it sent them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use qwerq_core::SessionId;
use qwerq_proto::{Opcode, wire};
use tokio::sync::oneshot;

use crate::files::{DiskFiles, Files};
use crate::http::{GroupsOf, Stats};
use crate::journal::{JournalError, Spare, Synced};
use crate::registry::Contract;
use crate::registry::compatibility::{Candidate, Verdict};
use crate::store::{Checkpoint, Checkpointed, StoreError};

use super::explain::Explaining;
use super::outbox::Outbox;
use super::traces::Traced;

/// Who asked, and how to answer.
#[derive(Debug, Clone, Copy)]
pub struct Asker {
    /// The connection.
    pub session: SessionId,
    /// The request id of a correlated request.
    pub request_id: Option<u32>,
}

/// How much a connection has published and not heard of yet.
#[derive(Debug, Default)]
pub struct Window {
    requests: AtomicU32,
    bytes: AtomicU64,
}

impl Window {
    /// Takes room for a publish; says no when the window is full. A single publish always fits.
    pub fn enter(&self, bytes: u64, requests_max: u32, bytes_max: u64) -> bool {
        let requests = self.requests.fetch_add(1, Ordering::AcqRel);
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        let fits = requests == 0 || (requests < requests_max && before + bytes <= bytes_max);
        if !fits {
            self.leave(bytes);
        }
        fits
    }

    /// Gives the room back: the publish is answered.
    pub fn leave(&self, bytes: u64) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// A publish whose payloads were judged by the connection that brought it.
#[derive(Debug)]
pub struct PublishCommand {
    /// Who asked.
    pub asker: Asker,
    /// The request.
    pub publish: wire::Publish,
    /// Bytes that it takes in the window.
    pub window_bytes: u64,
    /// Version of the contract that the payloads keep; 0: the queue had none.
    pub schema_version: u32,
    /// The publisher's fingerprint is unknown; the active version judged.
    pub contract_unknown: bool,
    /// Items that break the contract, by position.
    pub violations: Vec<(usize, wire::Error)>,
    /// When it arrived.
    pub received: Instant,
    /// Items whose publisher records a trace, if traces are on.
    pub traced: Vec<Traced>,
}

/// A contract that was compiled and wants to become a queue's.
#[derive(Debug)]
pub struct RegisterCommand {
    /// Who asked.
    pub asker: Asker,
    /// The queue.
    pub queue: String,
    /// The compiled contract.
    pub contract: Arc<Contract>,
    /// Source files, when given.
    pub sources: Arc<Vec<wire::SourceFile>>,
    /// Register although it breaks the queue's rule.
    pub force: bool,
    /// Only judge.
    pub dry_run: bool,
    /// What is known of its compatibility.
    pub check: Check,
}

/// A known version that wants to become the active one.
#[derive(Debug)]
pub struct ActivateCommand {
    /// Who asked.
    pub asker: Asker,
    /// The request.
    pub select: wire::SchemaSelect,
    /// What is known of its compatibility.
    pub check: Check,
}

/// The compatibility check of a command, as far as it has come.
#[derive(Debug, Default)]
pub struct Check {
    /// What a comparison said.
    pub verdict: Option<Verdict>,
    /// Where the shard says what it wants compared before it answers. Dropped without a word: it has answered.
    pub wanted: Option<oneshot::Sender<Compare>>,
}

/// What is to be compared.
#[derive(Debug)]
pub struct Compare {
    /// The candidate, unless the connection has it.
    pub candidate: Option<Candidate>,
    /// The versions that it is compared with.
    pub bases: Vec<Candidate>,
}

/// What a shard is asked to do.
pub enum Command {
    /// A connection has said HELLO.
    Opened {
        /// The connection.
        session: SessionId,
        /// Where its frames go.
        outbox: Arc<Outbox>,
        /// Its publish window.
        window: Arc<Window>,
        /// What the client calls itself.
        client: String,
        /// It wants to hear of contracts that change.
        schema_events: bool,
        /// It speaks of the cluster only, to whichever node this is.
        any_node: bool,
    },
    /// A connection is gone.
    Closed {
        /// The connection.
        session: SessionId,
        /// The broker ended it, so nothing counts as an attempt. A client that leaves in order has unsubscribed before; one that was
        /// killed looks no different from here.
        graceful: bool,
    },
    /// A sign of life.
    Heartbeat(SessionId),
    /// A frame that the connection has made itself and that must keep its place among the replies.
    Reply {
        /// The connection.
        session: SessionId,
        /// Whole frames.
        frames: Vec<u8>,
    },
    /// PUBLISH.
    Publish(Box<PublishCommand>),
    /// CONSUME.
    Consume(Asker, Box<wire::Consume>),
    /// FETCH.
    Fetch(Asker, Box<wire::Fetch>),
    /// CANCEL.
    Cancel(SessionId, wire::Cancel),
    /// CREDIT.
    Credit(SessionId, wire::Credit),
    /// UNSUBSCRIBE.
    Unsubscribe(Asker, wire::Unsubscribe),
    /// ACK, NACK, REJECT, RELEASE or EXTEND_VISIBILITY.
    Settle(Asker, Opcode, wire::Settle),
    /// QUEUE_CREATE.
    QueueCreate(Asker, Box<wire::QueueCreate>),
    /// QUEUE_UPDATE.
    QueueUpdate(Asker, Box<wire::QueueUpdate>),
    /// QUEUE_DELETE.
    QueueDelete(Asker, String),
    /// QUEUE_INFO.
    QueueInfo(Asker, String),
    /// QUEUE_PURGE.
    QueuePurge(Asker, String),
    /// QUEUE_LIST.
    QueueList(Asker, wire::QueueList),
    /// GROUP_CREATE.
    GroupCreate(Asker, wire::GroupRequest),
    /// GROUP_DELETE.
    GroupDelete(Asker, wire::GroupRequest),
    /// SCHEMA_REGISTER, compiled.
    Register(Box<RegisterCommand>),
    /// SCHEMA_GET.
    SchemaGet(Asker, wire::SchemaGet),
    /// SCHEMA_LIST.
    SchemaList(Asker, wire::SchemaList),
    /// SCHEMA_ACTIVATE.
    SchemaActivate(Box<ActivateCommand>),
    /// SCHEMA_RETIRE.
    SchemaRetire(Asker, wire::SchemaSelect),
    /// SCHEMA_CLIENTS.
    SchemaClients(Asker, String),
    /// SCHEMA_DELETE.
    SchemaDelete(Asker, String),
    /// PEEK.
    Peek(Asker, wire::Peek),
    /// EXPLAIN.
    Explain(Asker, wire::Explain),
    /// An EXPLAIN goes on looking for its message.
    Explaining(Box<Explaining>),
    /// SEEK.
    Seek(Asker, wire::GroupRequest),
    /// COMMIT_OFFSET.
    CommitOffset(Asker, wire::CommitOffset),
    /// DEAD_LETTERS.
    DeadLetters(Asker, wire::DeadLetters),
    /// REDRIVE.
    Redrive(Asker, wire::Redrive),
    /// DEAD_LETTERS_PURGE.
    DeadLettersPurge(Asker, wire::DeadLetters),
    /// Somebody wants to know what the shard holds: a part of the queues at a time, those behind a name.
    Stats(GroupsOf, Arc<str>, oneshot::Sender<Stats>),
    /// Who consumes; of one queue if named.
    Consumers(Option<String>, oneshot::Sender<Vec<ConsumerInfo>>),
    /// A spare segment was written.
    Spare(Result<Spare<<DiskFiles as Files>::File>, JournalError>),
    /// What was appended so far is on the disk; then the checkpoint may be written.
    Synced(Result<Synced, JournalError>, Option<Box<Checkpoint>>),
    /// A checkpoint has ended.
    Checkpointed(Result<Checkpointed, StoreError>),
    /// The cluster has something for the shard.
    Committed,
    /// Commit what there is and end.
    Stop,
}

impl Command {
    /// Who waits for an answer, if somebody does.
    pub(super) fn asker(&self) -> Option<Asker> {
        match self {
            Command::Publish(command) => Some(command.asker),
            Command::Register(command) => Some(command.asker),
            Command::SchemaActivate(command) => Some(command.asker),
            Command::Settle(asker, _, settle) => settle.confirm.then_some(*asker),
            Command::Consume(asker, _)
            | Command::Fetch(asker, _)
            | Command::Unsubscribe(asker, _)
            | Command::QueueCreate(asker, _)
            | Command::QueueUpdate(asker, _)
            | Command::QueueDelete(asker, _)
            | Command::QueueInfo(asker, _)
            | Command::QueuePurge(asker, _)
            | Command::QueueList(asker, _)
            | Command::GroupCreate(asker, _)
            | Command::GroupDelete(asker, _)
            | Command::SchemaGet(asker, _)
            | Command::SchemaList(asker, _)
            | Command::SchemaRetire(asker, _)
            | Command::SchemaDelete(asker, _)
            | Command::SchemaClients(asker, _)
            | Command::Peek(asker, _)
            | Command::Explain(asker, _)
            | Command::Seek(asker, _)
            | Command::CommitOffset(asker, _)
            | Command::DeadLetters(asker, _)
            | Command::Redrive(asker, _)
            | Command::DeadLettersPurge(asker, _) => Some(*asker),
            Command::Opened { .. }
            | Command::Closed { .. }
            | Command::Heartbeat(_)
            | Command::Reply { .. }
            | Command::Cancel(..)
            | Command::Credit(..)
            | Command::Explaining(_)
            | Command::Stats(..)
            | Command::Consumers(..)
            | Command::Spare(_)
            | Command::Synced(..)
            | Command::Checkpointed(_)
            | Command::Committed
            | Command::Stop => None,
        }
    }

    /// The connection that sent it, if one did.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Command::Opened { session, .. }
            | Command::Closed { session, .. }
            | Command::Heartbeat(session)
            | Command::Reply { session, .. }
            | Command::Cancel(session, _)
            | Command::Credit(session, _)
            | Command::Settle(Asker { session, .. }, ..) => Some(*session),
            other => other.asker().map(|asker| asker.session),
        }
    }

    /// Whether it must keep its place behind what its connection sent before: publishes, and what is answered in order.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        match self {
            Command::Publish(_) | Command::Reply { .. } => true,
            other => other.asker().is_some_and(|asker| asker.request_id.is_none()),
        }
    }
}

/// A consumer, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerInfo {
    /// The connection.
    pub session: SessionId,
    /// What its client calls itself.
    pub client: String,
    /// The client's number of the subscription; `None`: a fetch that waits.
    pub subscription: Option<u32>,
    /// The queue.
    pub queue: String,
    /// The group; `None`: it reads without one.
    pub group: Option<String>,
    /// Messages that it may hold; of a reader, what is left of its last grant.
    pub prefetch: u32,
    /// The same in bytes.
    pub prefetch_bytes: u64,
    /// Messages that it works on at once; of a reader 0.
    pub concurrency: u32,
    /// Messages that it holds.
    pub in_flight: u32,
    /// A lease of it expired, so it gets nothing until its connection shows a sign of life.
    pub silent: bool,
}
