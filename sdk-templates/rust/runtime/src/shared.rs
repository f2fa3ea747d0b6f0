//! What a client's handles and its connection task have in common: the inbox of work, the publish window, the lanes.
//!
//! Handles leave work here and ring; the task (`driver`, `session`) picks it up. Neither ever waits for the other under a lock.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use qwerq_proto::{FRAME_OVERHEAD_BYTES, MAX_FRAME_BYTES, Opcode, wire};
use tokio::sync::oneshot;

use crate::bell::Bell;
use crate::builder::ClientBuilder;
use crate::call::Call;
use crate::carry;
use crate::delivery::Delivery;
use crate::error::Error;
use crate::feed::Feed;
use crate::lane::Lane;
use crate::ledger::Note;
use crate::lock::Lock;
use crate::request::Request;
use crate::retry_key::RetryKeys;
use crate::subscription::ConsumeOptions;
use crate::window::Window;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: ClientBuilder,
    pub(crate) bell: Arc<Bell>,
    pub(crate) window: Window,
    inbox: Lock<Inbox>,
    lanes: Lock<HashMap<Destination, Arc<Lane>>>,
    next_request: AtomicU32,
    next_subscription: AtomicU32,
    /// Calls that arrived and have not been answered.
    pub(crate) calls_held: AtomicUsize,
    /// What one frame carries at most beside its overhead, in bytes, as last negotiated.
    frame_room: AtomicUsize,
    /// Whether the broker, when last heard, was a node of a cluster.
    cluster: AtomicBool,
    pub(crate) retry_keys: RetryKeys,
}

/// A queue and the contract that its publishers declare.
type Destination = (String, Option<[u8; 32]>);

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) commands: VecDeque<Command>,
    pub(crate) lanes: VecDeque<Arc<Lane>>,
    /// No more commands.
    closed: bool,
    /// The task has ended; nobody will look at lanes again.
    ended: bool,
}

/// Work for the connection task.
#[derive(Debug)]
pub(crate) enum Command {
    Request(Request),
    /// Nobody waits for that request any more.
    Cancel(u32),
    Subscribe(Open, oneshot::Sender<Result<wire::ConsumeAck, Error>>),
    Unsubscribe {
        number: u32,
        keep_leases: bool,
        reply: Option<oneshot::Sender<Result<(), Error>>>,
    },
    /// A frame without a reply; lost with its connection.
    Post {
        opcode: Opcode,
        payload: Vec<u8>,
    },
    /// Leases that no ledger knows, such as detached ones.
    Settle(Note),
    Close(Option<oneshot::Sender<Result<(), Error>>>),
}

/// A subscription as it is opened, and opened again after a reconnect.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    pub(crate) feed: Fed,
    pub(crate) options: Arc<ConsumeOptions>,
}

/// What a subscription is fed with.
#[derive(Debug, Clone)]
pub(crate) enum Fed {
    Deliveries(Arc<Feed<Delivery>>),
    Calls(Arc<Feed<Call>>),
}

impl Shared {
    pub(crate) fn new(settings: ClientBuilder) -> Shared {
        Shared {
            window: Window::new(settings.publish_window, settings.publish_window_bytes),
            settings,
            bell: Arc::default(),
            inbox: Lock::default(),
            lanes: Lock::default(),
            next_request: AtomicU32::new(1),
            next_subscription: AtomicU32::new(1),
            calls_held: AtomicUsize::new(0),
            frame_room: AtomicUsize::new((MAX_FRAME_BYTES - FRAME_OVERHEAD_BYTES) as usize),
            cluster: AtomicBool::new(false),
            retry_keys: RetryKeys::new(),
        }
    }

    pub(crate) fn next_request(&self) -> u32 {
        self.next_request.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn next_subscription(&self) -> u32 {
        self.next_subscription.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn frame_room(&self) -> usize {
        self.frame_room.load(Ordering::Relaxed)
    }

    pub(crate) fn set_frame_room(&self, bytes: usize) {
        self.frame_room.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.cluster.load(Ordering::Relaxed)
    }

    pub(crate) fn set_cluster(&self, is: bool) {
        self.cluster.store(is, Ordering::Relaxed);
    }

    /// The lane of that queue and contract.
    pub(crate) fn lane(&self, queue: &str, contract: Option<[u8; 32]>) -> Arc<Lane> {
        let mut lanes = self.lanes.lock();
        let destination = (queue.to_owned(), contract);
        Arc::clone(lanes.entry(destination).or_insert_with(|| Arc::new(Lane::new(queue.to_owned(), contract))))
    }

    /// Leaves a command for the task.
    pub(crate) fn command(&self, command: Command) -> Result<(), Error> {
        let mut inbox = self.inbox.lock();
        if inbox.closed {
            return Err(Error::Closed);
        }
        inbox.commands.push_back(command);
        drop(inbox);
        self.bell.ring();
        Ok(())
    }

    /// Leaves a frame without a reply for the task.
    pub(crate) fn post(&self, opcode: Opcode, payload: Vec<u8>) -> Result<(), Error> {
        self.command(Command::Post { opcode, payload })
    }

    /// Tells the task that a lane has work. When there is no task any more, the work fails here.
    pub(crate) fn list(&self, lane: &Arc<Lane>) {
        let mut inbox = self.inbox.lock();
        if inbox.ended {
            drop(inbox);
            carry::fail_lane(self, lane, &Error::Closed);
            return;
        }
        inbox.lanes.push_back(Arc::clone(lane));
        drop(inbox);
        self.bell.ring();
    }

    /// Takes all that has been left.
    pub(crate) fn take(&self) -> (VecDeque<Command>, VecDeque<Arc<Lane>>) {
        let mut inbox = self.inbox.lock();
        (std::mem::take(&mut inbox.commands), std::mem::take(&mut inbox.lanes))
    }

    /// Accepts nothing more.
    pub(crate) fn close(&self) {
        self.inbox.lock().closed = true;
        self.window.close();
    }

    /// The task ends: takes all that has been left, for the last time.
    pub(crate) fn end(&self) -> (VecDeque<Command>, VecDeque<Arc<Lane>>) {
        self.inbox.lock().ended = true;
        self.take()
    }
}

impl Open {
    /// CONSUME, now.
    pub(crate) fn to_wire(&self) -> wire::Consume {
        match &self.feed {
            Fed::Deliveries(feed) => self.options.to_wire(feed.number, &feed.queue, false, feed.position()),
            Fed::Calls(feed) => self.options.to_wire(feed.number, &feed.queue, true, None),
        }
    }
}

impl Fed {
    pub(crate) fn number(&self) -> u32 {
        match self {
            Fed::Deliveries(feed) => feed.number,
            Fed::Calls(feed) => feed.number,
        }
    }

    /// Ends the feed; see [`Feed::end`].
    pub(crate) fn end(&self, error: Option<Error>) {
        match self {
            Fed::Deliveries(feed) => feed.end(error),
            Fed::Calls(feed) => feed.end(error),
        }
    }

    /// The connection is gone: drops what nobody has taken yet and whose lease or caller went with it. What came without a lease is as
    /// good as before, and a reader that keeps its own position would never see it again.
    pub(crate) fn disconnected(&self) {
        match self {
            Fed::Deliveries(feed) => feed.retain(|delivery| delivery.lease_id().is_none()),
            Fed::Calls(feed) => drop(feed.clear()),
        }
    }

    /// Drops what nobody has taken yet.
    pub(crate) fn clear(&self) {
        match self {
            Fed::Deliveries(feed) => drop(feed.clear()),
            Fed::Calls(feed) => drop(feed.clear()),
        }
    }
}
