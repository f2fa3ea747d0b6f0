//! Which dead letters a command is about, and reading them page by page.

use std::time::SystemTime;

use clap::Args;
use qwerq::{Client, DeadLetterFilter, MessageId, Peeked};
use qwerq_proto::name::DLQ_SUFFIX;

use crate::broker::{self, valid_name};
use crate::failure::Failure;
use crate::{moment, setting};

/// Letters of one request.
const PAGE: u64 = 256;

/// Why a message becomes a dead letter.
const REASONS: &[&str] = &["max-deliveries", "rejected", "invalid", "expired"];

#[derive(Debug, Args)]
#[command(next_help_heading = "Which dead letters")]
pub(super) struct ChoiceArgs {
    /// Queue that they come from
    #[arg(short, long, value_name = "QUEUE", value_parser = valid_name)]
    queue: String,
    /// Only of this consumer group
    #[arg(short, long, value_name = "GROUP", value_parser = valid_name)]
    group: Option<String>,
    /// Only the message with this id
    #[arg(long, value_name = "ID")]
    id: Option<MessageId>,
    /// Only for this reason
    #[arg(long, value_name = "max-deliveries|rejected|invalid|expired", value_parser = |text: &str| setting::one_of(text, REASONS))]
    reason: Option<String>,
    /// Only since then: 2026-12-01T08:00:00Z, or 10m for the last ten minutes
    #[arg(long, value_name = "T", value_parser = moment::parse_past)]
    since: Option<SystemTime>,
    /// Only before then: 2026-12-01T08:00:00Z, or 30d for what is older than thirty days
    #[arg(long, value_name = "T", value_parser = moment::parse_past)]
    until: Option<SystemTime>,
    /// At most so many, the oldest ones
    #[arg(short = 'n', long = "count", value_name = "N", value_parser = setting::count::<u64>)]
    count: Option<u64>,
}

impl ChoiceArgs {
    /// The queue that the letters come from; naming its dead letter queue means the same.
    pub(super) fn queue(&self) -> &str {
        self.queue.strip_suffix(DLQ_SUFFIX).unwrap_or(&self.queue)
    }

    pub(super) fn dead_letter_queue(&self) -> String {
        format!("{}{DLQ_SUFFIX}", self.queue())
    }

    pub(super) fn filter(&self) -> DeadLetterFilter {
        DeadLetterFilter {
            group: self.group.clone(),
            id: self.id,
            reason: self.reason.clone(),
            since: self.since,
            until: self.until,
            max: self.count,
        }
    }

    /// What is meant, for a question.
    pub(super) fn words(&self) -> &'static str {
        let all = DeadLetterFilter::default();
        if self.filter() == all { "all dead letters" } else { "the dead letters that are chosen here" }
    }
}

/// The chosen letters, oldest first.
pub(super) struct Letters<'a> {
    queue: &'a str,
    filter: DeadLetterFilter,
    /// Where the next page begins, if there may be one.
    from_seq: Option<u64>,
    left: u64,
}

impl<'a> Letters<'a> {
    pub(super) fn new(choice: &'a ChoiceArgs) -> Letters<'a> {
        Letters { queue: choice.queue(), filter: choice.filter(), from_seq: Some(0), left: choice.count.unwrap_or(u64::MAX) }
    }

    /// The next of them; none when there are no more. A page may be empty.
    pub(super) async fn next_page(&mut self, client: &Client) -> Result<Option<Vec<Peeked>>, Failure> {
        let Some(from_seq) = self.from_seq.filter(|_| self.left > 0) else {
            return Ok(None);
        };
        self.filter.max = Some(self.left.min(PAGE));
        let page = client.dead_letters(self.queue, &self.filter, from_seq).await;
        let page = page.map_err(|error| broker::failure(error, Some(self.queue)))?;
        self.left = self.left.saturating_sub(u64::try_from(page.letters.len()).expect("a page is small"));
        self.from_seq = page.next_seq.or(page.letters.last().map(|last| last.seq + 1));
        Ok(Some(page.letters))
    }
}
