//! Dead letters as operators handle them: listed, purged, redriven, chosen by group, id, reason and time. Each request looks at a bounded
//! number of letters and says where to go on, so that a large dead letter queue holds nobody up.

use std::collections::BTreeMap;

use prost::Message;
use qwerq_core::entry::{ItemHead, Origin};
use qwerq_core::stored::{Content, key_hash};
use qwerq_core::{Body, GroupId, MessageId, NewMessage, Queue, QueueId, Seq};
use qwerq_proto::wire;
use qwerq_proto::{ErrorCode, Opcode, name};

use super::command::Asker;
use super::letters::{GROUP, REASON, RESERVED_HEADER};
use super::log::MovedMessage;
use super::{Fault, Shard, reply};

/// Letters that one request looks at, at most.
const LOOKED_AT_MAX: usize = 1_000;

/// Payload bytes after which a request goes no further.
const BYTES_MAX: usize = 8 << 20;

/// Letters that DEAD_LETTERS gives when the request does not say how many.
const LISTED_DEFAULT: u32 = 100;

/// Letters that were chosen, and where to go on.
struct Chosen {
    queue: QueueId,
    letters: Vec<(Seq, wire::Delivered)>,
    next: Option<Seq>,
}

fn header<'a>(letter: &'a wire::Delivered, name: &str) -> Option<&'a str> {
    letter.headers.iter().find(|header| header.name == name).map(|header| header.value.as_str())
}

fn matches(wanted: &wire::DeadLetters, letter: &wire::Delivered) -> bool {
    (wanted.id.is_empty() || wanted.id == letter.id)
        && (wanted.group.is_empty() || header(letter, GROUP) == Some(&wanted.group))
        && (wanted.reason.is_empty() || header(letter, REASON) == Some(&wanted.reason))
}

/// Another payload is for one message: in place of many payloads it would be a mistake.
fn check_payload(redrive: &wire::Redrive, wanted: &wire::DeadLetters) -> Result<(), wire::Error> {
    match redrive.payload.is_some() && wanted.id.is_empty() {
        false => Ok(()),
        true => Err(ErrorCode::InvalidArgument.with("a redrive with another payload is for one message; name it by its id")),
    }
}

impl Shard {
    pub(super) fn dead_letters(&mut self, asker: Asker, wanted: &wire::DeadLetters) -> Result<(), Fault> {
        let wanted = wire::DeadLetters { max: if wanted.max == 0 { LISTED_DEFAULT } else { wanted.max }, ..wanted.clone() };
        let reply = match self.choose(&wanted)? {
            Ok(chosen) => {
                let next_seq = chosen.next;
                let messages = chosen.letters.into_iter().map(|(seq, letter)| wire::Delivered { seq, ..letter }).collect();
                reply::frame(asker, Opcode::Fetched, &wire::Fetched { messages, next_seq })
            }
            Err(error) => reply::error(asker, &error),
        };
        self.replies.push(reply);
        Ok(())
    }

    pub(super) fn dead_letters_purge(&mut self, asker: Asker, wanted: &wire::DeadLetters) -> Result<(), Fault> {
        self.commit()?;
        let reply = match self.choose(wanted)? {
            Ok(Chosen { queue, letters, next }) => {
                let messages = letters.len() as u64;
                if !letters.is_empty() {
                    self.commit_alone(Body::Removed { queue, seqs: letters.into_iter().map(|(seq, _)| seq).collect() })?;
                }
                reply::frame(asker, Opcode::QueuePurged, &wire::Purged { messages, next_seq: next })
            }
            Err(error) => reply::error(asker, &error),
        };
        self.replies.push(reply);
        Ok(())
    }

    pub(super) fn redrive(&mut self, asker: Asker, redrive: &wire::Redrive) -> Result<(), Fault> {
        // Letters that are being written, and publishes that count in the target's limits, come first.
        self.commit()?;
        let wanted = redrive.letters.clone().unwrap_or_default();
        let chosen = match check_payload(redrive, &wanted).and_then(|()| self.redrive_target(redrive, &wanted.queue)) {
            Ok(to) => self.choose(&wanted)?.map(|chosen| (to, chosen)),
            Err(error) => Err(error),
        };
        let reply = match chosen {
            Ok((to, chosen)) => reply::frame(asker, Opcode::Redriven, &self.redrive_all(redrive, to, chosen)?),
            Err(error) => reply::error(asker, &error),
        };
        self.replies.push(reply);
        Ok(())
    }

    /// The queue that letters go to.
    fn redrive_target(&self, redrive: &wire::Redrive, source: &str) -> Result<QueueId, wire::Error> {
        let to = if redrive.to.is_empty() { source } else { &redrive.to };
        if name::is_dlq(to) {
            return Err(ErrorCode::ReservedQueue
                .with(format!("`{to}` holds dead letters, and only the broker writes to it; redrive to the queue that is to handle them"))
                .detail("queue", to));
        }
        Ok(self.queue_of(to)?.id)
    }

    fn redrive_all(&mut self, redrive: &wire::Redrive, to: QueueId, chosen: Chosen) -> Result<wire::Redriven, Fault> {
        let mut outcome = wire::Redriven { next_seq: chosen.next, ..wire::Redriven::default() };
        let mut by_group: BTreeMap<Option<GroupId>, (Vec<Seq>, Vec<MovedMessage>)> = BTreeMap::new();
        let anew = redrive.all_groups || !redrive.to.is_empty();
        for (seq, mut letter) in chosen.letters {
            if let Some(payload) = &redrive.payload {
                letter.payload = payload.clone();
                // Whatever the letter was accepted under, these bytes were not.
                letter.schema_version = 0;
            }
            match self.admit_letter(to, &letter, anew) {
                Ok((only, message)) => {
                    let (seqs, messages) = by_group.entry(only).or_default();
                    seqs.push(seq);
                    messages.push(message);
                    outcome.redriven += 1;
                }
                Err(error) => {
                    outcome.refused += 1;
                    outcome.refusal.get_or_insert(error);
                }
            }
        }
        for (only, (seqs, messages)) in by_group {
            let now = self.clock.now();
            self.log.push_moved(now, Origin::Redriven { from: chosen.queue, seqs, to, only }, messages);
        }
        self.commit()?;
        Ok(outcome)
    }

    /// What arrives instead of a letter, and for which group alone, if its queue takes it.
    fn admit_letter(&mut self, to: QueueId, letter: &wire::Delivered, anew: bool) -> Result<(Option<GroupId>, MovedMessage), wire::Error> {
        let queue = self.state.queue(to).expect("just looked up");
        let group = header(letter, GROUP).filter(|_| !anew);
        let only = group
            .map(|group| self.group_of(&queue.name, group).map(|(_, id)| id))
            .transpose()
            .map_err(|error| wire::Error { message: format!("{}; redrive for all groups or to another queue", error.message), ..error })?;
        let schema_version = self.judge_letter(queue, letter)?;
        let kept = || letter.headers.iter().filter(|header| !header.name.starts_with(RESERVED_HEADER));
        let size = letter.payload.len() + kept().map(|header| header.name.len() + header.value.len()).sum::<usize>();
        let message = NewMessage { size: size as u64, idempotency_key: "" };
        let id = <[u8; 16]>::try_from(letter.id.as_ref()).map(MessageId).expect("a stored id has 16 bytes");
        let now = self.clock.now();
        queue.admit(&self.pending, now, &message).map_err(|rejection| self.refused(queue, now, &rejection))?;
        self.pending.add(to, &message, id);
        let mut stored = Vec::with_capacity(letter.payload.len() + 64);
        let content = Content {
            id,
            published_at: letter.published_at_ms,
            schema_version,
            headers: kept().map(|header| (header.name.as_str(), header.value.as_str())),
            ordering_key: &letter.ordering_key,
            payload: &letter.payload,
        };
        content.encode(&mut stored);
        let size = u32::try_from(size).expect("a message fits a frame");
        Ok((only, MovedMessage { head: ItemHead { size, key: key_hash(&letter.ordering_key), ..ItemHead::default() }, stored }))
    }

    /// The version of the target's contract that a letter keeps: the active one, else the one that it was accepted under.
    fn judge_letter(&self, queue: &Queue, letter: &wire::Delivered) -> Result<u32, wire::Error> {
        let Some(contract) = self.registry.get(&queue.name) else { return Ok(0) };
        let Some(active) = contract.active() else { return Ok(0) };
        let unknown = self.policies.unknown(&queue.name);
        let Err(violation) = active.contract.validate(&letter.payload, unknown) else { return Ok(active.version) };
        let accepted = contract.version(letter.schema_version);
        match accepted.filter(|version| version.contract.validate(&letter.payload, unknown).is_ok()) {
            Some(version) => Ok(version.version),
            None => Err(violation.to_error(active.version)),
        }
    }

    /// The letters that a request means, from where it begins, as many as one request handles.
    fn choose(&mut self, wanted: &wire::DeadLetters) -> Result<Result<Chosen, wire::Error>, Fault> {
        if name::is_dlq(&wanted.queue) {
            let source = wanted.queue.trim_end_matches(".dlq");
            return Ok(Err(ErrorCode::InvalidArgument.with(format!("name the queue that the letters come from: `{source}`"))));
        }
        let dlq = format!("{}.dlq", wanted.queue);
        let Some(queue) = self.state.queue_named(&dlq) else {
            // A queue without dead letters has none to choose from.
            return Ok(self.queue_of(&wanted.queue).map(|queue| Chosen { queue: queue.id, letters: Vec::new(), next: None }));
        };
        let queue = (queue.id, queue.messages().next_at(wanted.from_seq));
        let (id, mut next) = queue;
        let max = if wanted.max == 0 { usize::MAX } else { wanted.max as usize };
        let (mut letters, mut looked_at, mut bytes) = (Vec::new(), 0, 0);
        while let Some(seq) = next.filter(|_| looked_at < LOOKED_AT_MAX && bytes < BYTES_MAX && letters.len() < max) {
            let messages = self.state.queue(id).expect("just found").messages();
            let facts = messages.get(seq).expect("a stored message has facts");
            next = messages.next_at(seq + 1);
            looked_at += 1;
            if wanted.since_ms.is_some_and(|since| facts.at < since) || wanted.until_ms.is_some_and(|until| facts.at >= until) {
                continue;
            }
            let letter =
                self.payloads.with(id, seq, |stored| wire::Delivered::decode(stored).expect("what is stored was encoded by us"))?;
            if matches(wanted, &letter) {
                bytes += letter.payload.len();
                letters.push((seq, letter));
            }
        }
        let next = next.filter(|_| letters.len() < max);
        Ok(Ok(Chosen { queue: id, letters, next }))
    }
}
