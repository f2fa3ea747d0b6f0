//! Dead letters: which ones, and looking at them, sending them back, removing them.
//!
//! The broker does bulk work in bounded pieces and says where it stopped; the calls here go on from there until all is done. What a letter
//! tells about itself stands in its headers.

use std::time::SystemTime;

use bytes::Bytes;
use qwerq_proto::{Opcode, wire};

use crate::arrival::Fetched;
use crate::client::Client;
use crate::delivery::Peeked;
use crate::error::{Error, Refusal};
use crate::id::MessageId;
use crate::request::Repeat;
use crate::wire_time::epoch_millis;

/// Which of a queue's dead letters. What is not set does not narrow the choice; the default is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Dead-lettered by this consumer group.
    pub group: Option<String>,
    /// The message's id.
    pub id: Option<MessageId>,
    /// `max-deliveries`, `rejected`, `invalid` or `expired`.
    pub reason: Option<String>,
    /// Dead-lettered then or later.
    pub since: Option<SystemTime>,
    /// Dead-lettered before then.
    pub until: Option<SystemTime>,
    /// At most so many, the oldest ones.
    pub max: Option<u64>,
}

/// Where redriven letters go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RedriveTo {
    /// Back to the group that each comes from; the other groups of the queue do not see it again.
    #[default]
    Group,
    /// To every group of the queue that it comes from: published anew.
    AllGroups,
    /// To another queue.
    Queue(String),
}

/// Some of a queue's dead letters. See [`Client::dead_letters`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetterPage {
    /// The letters, oldest first; none of those that were looked at may be meant.
    pub letters: Vec<Peeked>,
    /// Where the next page begins; `None`: there are no more.
    pub next_seq: Option<u64>,
}

/// What became of redriven letters. See [`Client::redrive`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redriven {
    /// How many went.
    pub redriven: u64,
    /// How many stay, since they were refused.
    pub refused: u64,
    /// Why the first of those stays.
    pub refusal: Option<Refusal>,
}

impl DeadLetterFilter {
    fn to_wire(&self, queue: &str, from_seq: u64, max: u32) -> wire::DeadLetters {
        wire::DeadLetters {
            queue: queue.to_owned(),
            group: self.group.clone().unwrap_or_default(),
            id: self.id.map_or_else(Bytes::new, |id| Bytes::copy_from_slice(id.as_bytes())),
            reason: self.reason.clone().unwrap_or_default(),
            since_ms: self.since.map(epoch_millis),
            until_ms: self.until.map(epoch_millis),
            max,
            from_seq,
        }
    }
}

/// Where bulk work stands.
struct Progress {
    from_seq: u64,
    /// Letters that may still be dealt with.
    left: Option<u64>,
}

impl Progress {
    fn start(filter: &DeadLetterFilter) -> Progress {
        Progress { from_seq: 0, left: filter.max }
    }

    /// `max` of the next request, in which 0 is no limit.
    fn max(&self) -> u32 {
        self.left.map_or(0, |left| u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// Whether there is more to do after a piece of that many letters.
    fn goes_on(&mut self, letters: u64, next_seq: Option<u64>) -> Result<bool, Error> {
        self.left = self.left.map(|left| left.saturating_sub(letters));
        let Some(next_seq) = next_seq.filter(|_| self.left != Some(0)) else {
            return Ok(false);
        };
        if next_seq <= self.from_seq {
            return Err(Error::protocol(format_args!("the broker goes on at {next_seq} and was asked from {} on", self.from_seq)));
        }
        self.from_seq = next_seq;
        Ok(true)
    }
}

impl Client {
    /// A page of a queue's dead letters, from position `from_seq` of the dead letter queue on: up to `max` of the filter, or 100, and no
    /// more than the broker looks at in one go.
    ///
    /// # Errors
    /// `queue-not-found`, `invalid-argument`; see [`Error`].
    pub async fn dead_letters(&self, queue: &str, filter: &DeadLetterFilter, from_seq: u64) -> Result<DeadLetterPage, Error> {
        if filter.max == Some(0) {
            return Ok(DeadLetterPage::default());
        }
        let max = filter.max.map_or(0, |max| u32::try_from(max).unwrap_or(u32::MAX));
        let reply = self.ask(Opcode::DeadLetters, &filter.to_wire(queue, from_seq, max), Repeat::Safe).await?;
        let page = Fetched::decode(&reply.expect(Opcode::Fetched)?)?;
        Ok(DeadLetterPage { letters: page.arrivals.into_iter().map(Peeked::new).collect(), next_seq: page.next_seq })
    }

    /// Sends dead letters back, each in one durable step, with their attempts counted anew. Those that are refused (their payload breaks
    /// the contract that is active now) stay.
    ///
    /// # Errors
    /// `queue-not-found`, `invalid-argument`; see [`Error`]. What went before the error stays where it went.
    pub async fn redrive(&self, queue: &str, filter: &DeadLetterFilter, to: &RedriveTo) -> Result<Redriven, Error> {
        let mut total = Redriven::default();
        let mut progress = Progress::start(filter);
        while progress.left != Some(0) {
            let request = wire::Redrive {
                letters: Some(filter.to_wire(queue, progress.from_seq, progress.max())),
                to: match to {
                    RedriveTo::Queue(queue) => queue.clone(),
                    RedriveTo::Group | RedriveTo::AllGroups => String::new(),
                },
                all_groups: *to == RedriveTo::AllGroups,
                payload: None,
            };
            let piece: wire::Redriven = self.request(Opcode::Redrive, &request, Opcode::Redriven, Repeat::Unsafe).await?;
            total.redriven += piece.redriven;
            total.refused += piece.refused;
            total.refusal = total.refusal.or_else(|| piece.refusal.map(Refusal::from));
            if !progress.goes_on(piece.redriven + piece.refused, piece.next_seq)? {
                break;
            }
        }
        Ok(total)
    }

    /// Removes dead letters and says how many.
    ///
    /// # Errors
    /// `queue-not-found`, `invalid-argument`; see [`Error`]. What was removed before the error is gone.
    pub async fn purge_dead_letters(&self, queue: &str, filter: &DeadLetterFilter) -> Result<u64, Error> {
        let mut removed = 0;
        let mut progress = Progress::start(filter);
        while progress.left != Some(0) {
            let request = filter.to_wire(queue, progress.from_seq, progress.max());
            let piece: wire::Purged = self.request(Opcode::DeadLettersPurge, &request, Opcode::QueuePurged, Repeat::Unsafe).await?;
            removed += piece.messages;
            if !progress.goes_on(piece.messages, piece.next_seq)? {
                break;
            }
        }
        Ok(removed)
    }
}
