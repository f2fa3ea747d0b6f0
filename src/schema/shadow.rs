//! The shadow check: a candidate judges stored messages and dead letters, before anybody depends on it.

use qwerq::{Client, NewSchema, Peeked};
use qwerq_broker::registry::{Contract, Unknown, Violation};
use qwerq_proto::{ErrorCode, name};
use serde_json::{Value, json};

use crate::broker;
use crate::failure::Failure;
use crate::output::Output;

/// Messages that are asked for at once.
const PAGE: u32 = 500;

/// What a candidate says of stored messages.
pub(super) struct Shadow {
    queues: Vec<Judged>,
}

/// The messages of one queue.
struct Judged {
    queue: String,
    messages: u64,
    refused: Vec<Refused>,
}

struct Refused {
    seq: u64,
    schema_version: u32,
    violation: Violation,
}

/// Judges the newest `last` messages of the queue and of its dead letter queue.
pub(super) async fn run(client: &Client, candidate: &NewSchema, last: u32) -> Result<Shadow, Failure> {
    let contract = Contract::compile(&candidate.descriptor_set, &candidate.message_type, candidate.reply_type.as_deref())
        .map_err(|error| Failure::failed(error.to_string()))?;
    let mut queues = Vec::new();
    for queue in [candidate.queue.clone(), format!("{}{}", candidate.queue, name::DLQ_SUFFIX)] {
        if let Some(judged) = judge(client, &contract, queue, last).await? {
            queues.push(judged);
        }
    }
    Ok(Shadow { queues })
}

/// `None`: there is no such queue.
async fn judge(client: &Client, contract: &Contract, queue: String, last: u32) -> Result<Option<Judged>, Failure> {
    let info = match client.queue_info(&queue).await {
        Ok(info) => info,
        Err(error) if error.code() == Some(ErrorCode::QueueNotFound) => return Ok(None),
        Err(error) => return Err(broker::failure(error, Some(&queue))),
    };
    let strict = info.options.and_then(|options| options.schema_mode).is_some_and(|mode| mode == "strict");
    let unknown = if strict { Unknown::Refuse } else { Unknown::Accept };
    let mut judged = Judged { queue, messages: 0, refused: Vec::new() };
    let mut from = newest(client, &judged.queue, (info.first_seq, info.next_seq), last).await?;
    while from < info.next_seq {
        let messages = peek(client, &judged.queue, from).await?;
        let Some(newest) = messages.last().map(|message| message.seq) else { break };
        for message in messages.iter().filter(|message| message.seq < info.next_seq) {
            judged.messages += 1;
            if let Err(violation) = contract.validate(&message.payload, unknown) {
                judged.refused.push(Refused { seq: message.seq, schema_version: message.schema_version, violation });
            }
        }
        from = newest + 1;
    }
    Ok(Some(judged))
}

/// The position of the first of the newest `last` messages; there may be gaps between them, so it is looked for further and further back.
async fn newest(client: &Client, queue: &str, (first_seq, next_seq): (u64, u64), last: u32) -> Result<u64, Failure> {
    let wanted = usize::try_from(last).expect("32 bits fit");
    let mut span = u64::from(last);
    loop {
        let start = next_seq.saturating_sub(span).max(first_seq);
        let (mut seqs, mut from) = (Vec::new(), start);
        while from < next_seq {
            let messages = peek(client, queue, from).await?;
            let Some(newest) = messages.last().map(|message| message.seq) else { break };
            seqs.extend(messages.iter().map(|message| message.seq).filter(|seq| *seq < next_seq));
            from = newest + 1;
        }
        match seqs.len().checked_sub(wanted) {
            Some(at) => return Ok(seqs[at]),
            None if start <= first_seq => return Ok(start),
            None => span = span.saturating_mul(4),
        }
    }
}

async fn peek(client: &Client, queue: &str, from: u64) -> Result<Vec<Peeked>, Failure> {
    client.peek(queue, from, PAGE).await.map_err(|error| broker::failure(error, Some(queue)))
}

impl Shadow {
    /// How many messages the candidate refuses.
    pub(super) fn refused(&self) -> usize {
        self.queues.iter().map(|queue| queue.refused.len()).sum()
    }

    pub(super) fn print(&self, output: &mut Output) -> Result<(), Failure> {
        for queue in &self.queues {
            for refused in &queue.refused {
                let (seq, version, violation) = (refused.seq, refused.schema_version, &refused.violation);
                output.line(format!("stored: {} seq {seq}, accepted under version {version}: {violation}", queue.queue))?;
            }
            output.line(format!("stored: {}: {} of {} messages would be refused", queue.queue, queue.refused.len(), queue.messages))?;
        }
        Ok(())
    }

    pub(super) fn json(&self) -> Value {
        let refused = |refused: &Refused| {
            json!({
                "seq": refused.seq,
                "schema_version": refused.schema_version,
                "violation": refused.violation.kind.name(),
                "path": refused.violation.path,
                "offset": refused.violation.offset,
                "message": refused.violation.message,
            })
        };
        let queue = |queue: &Judged| {
            json!({
                "queue": queue.queue,
                "messages": queue.messages,
                "refused": queue.refused.iter().map(refused).collect::<Vec<_>>(),
            })
        };
        self.queues.iter().map(queue).collect()
    }
}
