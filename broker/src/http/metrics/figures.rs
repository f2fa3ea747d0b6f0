//! What the broker holds at one moment. It is asked of the shard each time, so that it cannot drift from the truth.

use std::sync::Arc;

use qwerq_proto::wire;

/// Whose groups somebody wants to know of beside the queues: there can be many.
#[derive(Debug, Clone, Copy, Default)]
pub enum GroupsOf {
    /// Nobody's.
    #[default]
    None,
    /// All, if there are no more than so many queues.
    AtMost(usize),
}

impl GroupsOf {
    /// Whether groups are wanted, where there are so many queues.
    #[must_use]
    pub fn wants(self, queues: usize) -> bool {
        match self {
            GroupsOf::None => false,
            GroupsOf::AtMost(most) => queues <= most,
        }
    }
}

/// What a shard holds.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// The queues, by name.
    pub queues: Vec<QueueStats>,
    /// Leased messages.
    pub in_flight: u64,
    /// Open subscriptions and waiting fetches.
    pub consumers: u64,
    /// Consumer groups.
    pub groups: u64,
    /// Messages that they have not settled, each group by itself.
    pub lag: u64,
    /// Messages that consumers would take beside what they hold.
    pub credit: u64,
    /// Bytes of frames that clients have not read yet.
    pub outbox_bytes: u64,
    /// Bytes of the last batches, kept in memory for deliveries.
    pub tail_bytes: u64,
    /// What the journal takes on the disk.
    pub journal_bytes: u64,
    /// What the store takes in its map.
    pub store_bytes: u64,
    /// What its map can grow to.
    pub store_bytes_max: u64,
    /// What may still be written on the store's disk.
    pub disk_free_bytes: u64,
    /// Publishes are refused, since room is short.
    pub storage_full: bool,
    /// There are more queues behind the last one.
    pub is_partial: bool,
}

impl Stats {
    /// Adds what `more` tells of further queues; about the shard as a whole both say the same.
    pub(crate) fn append(&mut self, more: Stats) {
        self.queues.extend(more.queues);
        self.consumers += more.consumers;
        self.groups += more.groups;
        self.lag += more.lag;
        self.is_partial = more.is_partial;
    }
}

/// What one queue holds at one moment, in messages unless named otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueStats {
    /// The queue's name, which keeps the naming rule.
    pub name: Arc<str>,
    /// It is a stream.
    pub is_stream: bool,
    /// Stored and not settled by all groups, delayed ones included.
    pub depth: u64,
    /// Payloads and headers of those, in bytes.
    pub bytes: u64,
    /// Could be delivered now.
    pub ready: u64,
    /// Not due yet.
    pub delayed: u64,
    /// Wait for their next attempt.
    pub backing_off: u64,
    /// Leased.
    pub in_flight: u64,
    /// Ordering keys whose next message waits for the one before it.
    pub blocked_keys: u64,
    /// Those of them that wait behind a message that failed, or that nobody takes.
    pub stuck_keys: u64,
    /// Messages that wait for a group that nobody consumes for; of several groups the most.
    pub unattended: u64,
    /// Open subscriptions and waiting fetches.
    pub consumers: u64,
    /// A dead letter queue that holds more than its limits; it refuses nothing.
    pub over_limit: bool,
    /// How near it is to the nearer of its limits: 0 empty, 1 full.
    pub fill: f64,
    /// When it is full it refuses.
    pub refuses: bool,
    /// The contract's active version; 0: none.
    pub schema_version: u32,
    /// What has happened since the broker's start.
    pub activity: Activity,
    /// Its groups by name, if they were asked for.
    pub groups: Vec<GroupFigures>,
}

impl Default for QueueStats {
    fn default() -> QueueStats {
        QueueStats {
            name: Arc::from(""),
            is_stream: false,
            depth: 0,
            bytes: 0,
            ready: 0,
            delayed: 0,
            backing_off: 0,
            in_flight: 0,
            blocked_keys: 0,
            stuck_keys: 0,
            unattended: 0,
            consumers: 0,
            over_limit: false,
            fill: 0.0,
            refuses: false,
            schema_version: 0,
            activity: Activity::default(),
            groups: Vec::new(),
        }
    }
}

impl QueueStats {
    /// Whether it holds another queue's dead letters.
    #[must_use]
    pub fn is_dlq(&self) -> bool {
        self.name.ends_with(".dlq")
    }
}

/// Messages that came to a queue and left it since the broker's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Accepted and durable; dead letters that arrive in a dead letter queue are not counted.
    pub published: u64,
    /// Handed out, repeats included.
    pub delivered: u64,
    /// Settled by an ack.
    pub acked: u64,
    /// Became dead letters.
    pub dead_lettered: u64,
}

/// What one group holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFigures {
    /// The group's name, which keeps the naming rule.
    pub name: String,
    /// Everything before it is settled.
    pub ack_floor: u64,
    /// Messages that it has not settled.
    pub lag: u64,
    /// Leased.
    pub in_flight: u64,
    /// Wait for their next attempt.
    pub backing_off: u64,
    /// Ordering keys whose next message waits for the one before it.
    pub blocked_keys: u64,
    /// Open subscriptions and waiting fetches.
    pub consumers: u64,
}

impl GroupFigures {
    /// Ordering keys that wait behind a message that failed, or that nobody takes. One whose message is being worked on is not stuck.
    #[must_use]
    pub fn stuck_keys(&self) -> u64 {
        if self.backing_off > 0 || self.consumers == 0 { self.blocked_keys } else { 0 }
    }

    /// Messages that wait while nobody consumes for the group.
    #[must_use]
    pub fn unattended(&self) -> u64 {
        if self.consumers == 0 { self.lag } else { 0 }
    }
}

impl From<wire::GroupInfo> for GroupFigures {
    fn from(group: wire::GroupInfo) -> GroupFigures {
        let wire::GroupInfo { name, ack_floor, lag, in_flight, backing_off, consumers, blocked_keys } = group;
        GroupFigures { name, ack_floor, lag, in_flight, backing_off, blocked_keys, consumers: consumers.into() }
    }
}
