//! Publishing: from a decoded, validated request to an entry in the batch. The payload is copied once, into the batch's buffer.

use bytes::Bytes;
use qwerq_core::dispatch::{GroupKey, Reason};
use qwerq_core::entry::{ItemHead, MESSAGES_PER_ENTRY_MAX, Origin};
use qwerq_core::options::{OnInvalid, SchemaMode};
use qwerq_core::stored::{Content, key_hash};
use qwerq_core::{Admission, MessageId, Millis, NewMessage, Queue, QueueId, QueueOptions, Rejection};
use qwerq_proto::wire::{self, PublishItem};
use qwerq_proto::{ErrorCode, MESSAGE_ID_BYTES, name};

use super::command::PublishCommand;
use super::letters::{Cause, RESERVED_HEADER};
use super::log::MovedMessage;
use super::reply::{self, ItemReply, PublishReply, Reply};
use super::{Fault, Shard};

/// Most headers of a message.
const HEADERS_MAX: usize = 64;

/// Most bytes of a message's header names and values.
const HEADER_BYTES_MAX: usize = 32 << 10;

/// Longest idempotency or ordering key, in bytes.
const KEY_BYTES_MAX: usize = 1_024;

/// Shard number in ULIDs; there is one shard.
const SHARD: u16 = 0;

impl Shard {
    pub(super) fn publish(&mut self, mut command: PublishCommand) -> Result<(), Fault> {
        let queue = match self.publish_target(&command) {
            Ok(Some(queue)) => queue,
            Ok(None) => self.create_queue(&command.publish.queue)?,
            Err(error) => {
                self.refuse_publish(&mut command, &error);
                return Ok(());
            }
        };
        self.clients.published(command.asker.session, queue, &command.publish.contract, self.clock.now());
        if let Err(error) = self.judge_again(queue, &mut command) {
            self.refuse_publish(&mut command, &error);
            return Ok(());
        }
        command.violations.iter().for_each(|(_, error)| self.metrics.judged(&command.publish.queue, error));
        let bytes: usize = command.publish.items.iter().map(item_bytes).sum();
        if !self.log.has_room(bytes) {
            self.commit()?;
        }
        let mut items = Vec::with_capacity(command.publish.items.len());
        if command.publish.atomic && !self.admits_all(queue, &command, &mut items) {
            self.reply_publish(&mut command, items);
            return Ok(());
        }
        items.clear();
        let mut violations = std::mem::take(&mut command.violations).into_iter().peekable();
        let mut invalid = Vec::new();
        let mut position = 0;
        for chunk in command.publish.items.chunks(MESSAGES_PER_ENTRY_MAX) {
            let now = self.clock.now();
            let entry = self.log.len();
            let (mut writer, payload_at) = self.log.begin_publish(now, queue, chunk.len());
            for item in chunk {
                let violation = violations.next_if(|(at, _)| *at == position).map(|(_, error)| error);
                let outcome = match violation {
                    None => self.admit(&self.pending, queue, item, now),
                    Some(error) if self.is_letter(queue, item, &error) => {
                        let id = self.message_id(queue, item, now);
                        self.pending.messages += 1;
                        invalid.push((position, id, error.clone()));
                        items.push(ItemReply::DeadLettered { id, error: Box::new(error) });
                        position += 1;
                        continue;
                    }
                    Some(error) => Err(error),
                };
                position += 1;
                items.push(match outcome {
                    Err(error) => ItemReply::Refused(Box::new(error)),
                    Ok(Admission::Duplicate { id, seq }) => ItemReply::Duplicate { id, seq },
                    Ok(Admission::DuplicateOfPending { id }) => {
                        ItemReply::DuplicateOfPending { id, queue, key: item.idempotency_key.clone() }
                    }
                    Ok(Admission::New) => {
                        let at = writer.positioned();
                        let id = self.message_id(queue, item, now);
                        let size = message_size(item);
                        self.pending.add(queue, &new_message(item, size), id);
                        let options = &self.state.queue(queue).expect("just found or created").options;
                        let (due, expires_at) = times(options, item, now);
                        let head = ItemHead {
                            size: u32::try_from(size).expect("admission checked the size"),
                            key: key_hash(&item.ordering_key),
                            due,
                            expires_at,
                            dedup: (!item.idempotency_key.is_empty()).then(|| (item.idempotency_key.clone(), id)),
                        };
                        let content = content(item, id, now, command.schema_version);
                        writer.item(self.log.buffer(), head, |out| content.encode(out));
                        if due == 0 { ItemReply::Stored { id, entry, at } } else { ItemReply::Delayed { id } }
                    }
                });
            }
            self.log.end_publish(now, queue, writer, payload_at);
        }
        self.bury_invalid(queue, &command, invalid);
        self.reply_publish(&mut command, items);
        Ok(())
    }

    /// Whether what breaks the contract goes to the dead letters instead of being refused.
    fn is_letter(&self, queue: QueueId, item: &PublishItem, error: &wire::Error) -> bool {
        let options = &self.state.queue(queue).expect("just found or created").options;
        options.on_invalid == OnInvalid::Dlq
            && error.known_code() == Some(ErrorCode::SchemaViolation)
            && check_item(item).is_ok()
            && message_size(item) <= u64::from(options.max_message_bytes)
    }

    /// Writes what breaks the contract as dead letters. There was room for the whole publish, and headers are small beside it.
    fn bury_invalid(&mut self, queue: QueueId, command: &PublishCommand, mut invalid: Vec<(usize, MessageId, wire::Error)>) {
        let now = self.clock.now();
        while !invalid.is_empty() {
            let rest = invalid.split_off(invalid.len().min(MESSAGES_PER_ENTRY_MAX));
            let messages: Vec<_> = invalid
                .iter()
                .map(|(position, id, error)| {
                    let item = &command.publish.items[*position];
                    let mut stored = Vec::new();
                    content(item, *id, now, command.schema_version).encode(&mut stored);
                    let detail = |name: &str| error.details.get(name).map_or("", String::as_str);
                    let text = format!(
                        "{}: {} [path={}, offset={}, version={}]",
                        error.name,
                        error.message,
                        detail("path"),
                        detail("offset"),
                        command.schema_version
                    );
                    let cause = Cause {
                        reason: Reason::Invalid.word(),
                        error: &text,
                        queue: &command.publish.queue,
                        seq: None,
                        group: None,
                        attempts: 0,
                        first_at: now,
                        now,
                    };
                    let size = message_size(item) + cause.append(&mut stored) as u64;
                    let size = u32::try_from(size).expect("a frame is smaller");
                    MovedMessage { head: ItemHead { size, key: key_hash(&item.ordering_key), ..ItemHead::default() }, stored }
                })
                .collect();
            self.log.push_moved(now, Origin::Invalid { queue, count: messages.len() }, messages);
            invalid = rest;
        }
    }

    /// The queue that a publish goes to; `None`: it is to be created.
    fn publish_target(&self, command: &PublishCommand) -> Result<Option<QueueId>, wire::Error> {
        let queue = &command.publish.queue;
        if name::is_dlq(queue) {
            return Err(ErrorCode::ReservedQueue
                .with(format!("`{queue}` holds dead letters; only the broker writes to it. Publish to the queue itself."))
                .detail("queue", queue));
        }
        if self.storage_full {
            return Err(ErrorCode::StorageFull
                .with("the disk is down to its reserve; consume, purge or make room, then publish again")
                .retry_after_ms(1_000));
        }
        if let Some(queue) = self.state.queue_named(queue) {
            return Ok(Some(queue.id));
        }
        self.may_create(queue).map(|()| None)
    }

    /// The connection judged the payloads by the contract that it saw. When the queue had none then and has one now, they are judged here.
    fn judge_again(&self, queue: QueueId, command: &mut PublishCommand) -> Result<(), wire::Error> {
        if command.schema_version != 0 {
            return Ok(());
        }
        let queue = self.state.queue(queue).expect("just found or created");
        let Some(contract) = self.registry.get(&queue.name) else {
            if self.policies.mode(&queue.name) == SchemaMode::Strict {
                return Err(contract_required(&queue.name));
            }
            return Ok(());
        };
        let Some(active) = contract.active() else { return Ok(()) };
        command.schema_version = active.version;
        let unknown = self.policies.unknown(&queue.name);
        for (at, item) in command.publish.items.iter().enumerate() {
            if let Err(violation) = active.contract.validate(&item.payload, unknown) {
                command.violations.push((at, violation.to_error(active.version)));
            }
        }
        Ok(())
    }

    /// Whether an atomic publish can be stored as a whole; if not, `items` says why.
    fn admits_all(&mut self, queue: QueueId, command: &PublishCommand, items: &mut Vec<ItemReply>) -> bool {
        let mut violations = command.violations.iter().peekable();
        let mut pending = self.pending.clone();
        let now = self.clock.now();
        let mut refused = 0;
        let mut verdicts: Vec<Option<wire::Error>> = Vec::with_capacity(command.publish.items.len());
        for (at, item) in command.publish.items.iter().enumerate() {
            let violation = violations.next_if(|(position, _)| *position == at).map(|(_, error)| error.clone());
            let verdict = violation.map_or_else(|| self.admit(&pending, queue, item, now), Err);
            if verdict.is_ok() {
                pending.add(queue, &new_message(item, message_size(item)), MessageId([0; 16]));
            }
            refused += usize::from(verdict.is_err());
            verdicts.push(verdict.err());
        }
        if refused == 0 {
            return true;
        }
        let neighbour = || {
            ErrorCode::AtomicRefused
                .with(format!("{refused} of {} items were refused, and the publish is atomic", command.publish.items.len()))
        };
        items.extend(verdicts.into_iter().map(|verdict| ItemReply::Refused(Box::new(verdict.unwrap_or_else(neighbour)))));
        false
    }

    fn admit(&self, pending: &qwerq_core::Pending, queue: QueueId, item: &PublishItem, now: u64) -> Result<Admission, wire::Error> {
        check_item(item)?;
        let queue = self.state.queue(queue).expect("just found or created");
        let message = new_message(item, message_size(item));
        queue.admit(pending, now, &message).map_err(|rejection| self.refused(queue, now, &rejection))
    }

    /// A refusal by a full queue says how long whoever holds it up has been away.
    pub(super) fn refused(&self, queue: &Queue, now: Millis, rejection: &Rejection) -> wire::Error {
        let error = reply::refusal(rejection);
        let Rejection::QueueFull { holder: Some(holder), .. } = rejection else { return error };
        let group = queue.group(holder).map(|group| GroupKey { queue: queue.id, group: group.id });
        let Some(idle_ms) = group.and_then(|key| self.dispatch.idle_ms(key, now)) else { return error };
        let message = format!("{}, and has had no consumer for {}", error.message, seconds(idle_ms));
        wire::Error { message, ..error }.detail("idle_ms", idle_ms)
    }

    fn message_id(&self, queue: QueueId, item: &PublishItem, now: u64) -> MessageId {
        if let Ok(id) = <[u8; MESSAGE_ID_BYTES]>::try_from(item.id.as_ref()) {
            return MessageId(id);
        }
        let counter = (self.state.admitted() + self.pending.messages) & u64::from(u32::MAX);
        MessageId::ulid(now, SHARD, queue, u32::try_from(counter).expect("masked to 32 bits"))
    }

    fn refuse_publish(&mut self, command: &mut PublishCommand, error: &wire::Error) {
        command.publish.items.iter().for_each(|_| self.metrics.judged(&command.publish.queue, error));
        let items = command.publish.items.iter().map(|_| ItemReply::Refused(Box::new(error.clone()))).collect();
        self.reply_publish(command, items);
    }

    fn reply_publish(&mut self, command: &mut PublishCommand, items: Vec<ItemReply>) {
        let traced = std::mem::take(&mut command.traced);
        let traced = (!traced.is_empty()).then(|| (command.publish.queue.as_str().into(), traced));
        self.replies.push(Reply::Publish(PublishReply {
            asker: command.asker,
            window_bytes: command.window_bytes,
            schema_version: command.schema_version,
            contract_unknown: command.contract_unknown,
            items,
            received: command.received,
            traced,
        }));
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}

fn content(item: &PublishItem, id: MessageId, now: Millis, schema_version: u32) -> Content<'_, impl Iterator<Item = (&str, &str)>> {
    Content {
        id,
        published_at: now,
        schema_version,
        headers: item.headers.iter().map(|header| (header.name.as_str(), header.value.as_str())),
        ordering_key: &item.ordering_key,
        payload: &item.payload,
    }
}

/// When an item falls due (0: at once) and when it expires (0: never). A ttl counts from being due.
fn times(options: &QueueOptions, item: &PublishItem, now: Millis) -> (Millis, Millis) {
    let delay = item.delay_ms.unwrap_or(if item.deliver_at_ms.is_some() { 0 } else { options.delay_ms });
    let due = item.deliver_at_ms.unwrap_or_else(|| now.saturating_add(delay));
    let expires_at = match item.ttl_ms.unwrap_or(options.message_ttl_ms) {
        0 => 0,
        ttl => due.max(now).saturating_add(ttl),
    };
    (if due > now { due } else { 0 }, expires_at)
}

pub(crate) fn contract_required(queue: &str) -> wire::Error {
    let text =
        format!("queue `{queue}` has no contract and the mode is strict; register one: qwer-q schema register -q {queue} -p FILE -m TYPE");
    ErrorCode::ContractRequired.with(text).detail("queue", queue)
}

/// Payload and headers: what limits count.
fn message_size(item: &PublishItem) -> u64 {
    let headers: usize = item.headers.iter().map(|header| header.name.len() + header.value.len()).sum();
    (item.payload.len() + headers) as u64
}

/// What an item takes in a batch at most.
fn item_bytes(item: &PublishItem) -> usize {
    const FIXED: usize = 128;
    let headers: usize = item.headers.iter().map(|header| header.name.len() + header.value.len() + 16).sum();
    FIXED + item.payload.len() + headers + item.ordering_key.len() + item.idempotency_key.len()
}

fn new_message(item: &PublishItem, size: u64) -> NewMessage<'_> {
    NewMessage { size, idempotency_key: &item.idempotency_key }
}

/// What is wrong with an item whatever its queue holds.
fn check_item(item: &PublishItem) -> Result<(), wire::Error> {
    check_headers(&item.headers)?;
    for (what, key) in [("ordering_key", &item.ordering_key), ("idempotency_key", &item.idempotency_key)] {
        if key.len() > KEY_BYTES_MAX {
            return Err(ErrorCode::InvalidArgument.with(format!("{what} has {} bytes, at most {KEY_BYTES_MAX} are allowed", key.len())));
        }
    }
    if item.delay_ms.is_some() && item.deliver_at_ms.is_some() {
        return Err(ErrorCode::InvalidArgument.with("a message has a delay or a deliver_at, not both"));
    }
    check_id(&item.id)
}

fn check_id(id: &Bytes) -> Result<(), wire::Error> {
    if id.is_empty() || id.len() == MESSAGE_ID_BYTES {
        return Ok(());
    }
    Err(ErrorCode::InvalidArgument.with(format!("a message id has {MESSAGE_ID_BYTES} bytes, this one {}", id.len())))
}

/// What is wrong with the headers of a message, a request or a reply.
pub(crate) fn check_headers(headers: &[wire::Header]) -> Result<(), wire::Error> {
    if headers.is_empty() {
        return Ok(());
    }
    if headers.len() > HEADERS_MAX {
        return Err(ErrorCode::InvalidHeader.with(format!("{} headers, at most {HEADERS_MAX} are allowed", headers.len())));
    }
    let mut bytes = 0;
    for header in headers {
        bytes += header.name.len() + header.value.len();
        if header.name.is_empty() {
            return Err(ErrorCode::InvalidHeader.with("a header has no name"));
        }
        if header.name.starts_with(RESERVED_HEADER) {
            return Err(ErrorCode::InvalidHeader
                .with(format!("header `{}`: names that start with `qwerq-` are the broker's", header.name))
                .detail("header", &header.name));
        }
    }
    if bytes > HEADER_BYTES_MAX {
        return Err(ErrorCode::InvalidHeader.with(format!("headers of {bytes} bytes, at most {HEADER_BYTES_MAX} are allowed")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_headers(headers: &[(&str, &str)]) -> PublishItem {
        let headers = headers.iter().map(|(name, value)| wire::Header { name: (*name).to_owned(), value: (*value).to_owned() }).collect();
        PublishItem { headers, ..PublishItem::default() }
    }

    #[test]
    fn headers_keep_the_rules() {
        assert!(check_item(&with_headers(&[("traceparent", "00-a-b-01"), ("a", "")])).is_ok());
        let large = "x".repeat(HEADER_BYTES_MAX);
        let many: Vec<_> = (0..=HEADERS_MAX).map(|_| ("a", "b")).collect();
        for (headers, says) in [
            (vec![("", "v")], "no name"),
            (vec![("qwerq-reason", "v")], "qwerq-reason"),
            (vec![("a", large.as_str())], "32769"),
            (many, "65 headers"),
        ] {
            let error = check_item(&with_headers(&headers)).unwrap_err();
            assert_eq!(error.known_code(), Some(ErrorCode::InvalidHeader));
            assert!(error.message.contains(says), "{}", error.message);
        }
    }

    #[test]
    fn a_delay_is_the_items_or_the_queues_and_a_ttl_counts_from_being_due() {
        let plain = QueueOptions::default();
        let both = QueueOptions { delay_ms: 100, message_ttl_ms: 1_000, ..QueueOptions::default() };
        let item = |delay_ms, deliver_at_ms, ttl_ms| PublishItem { delay_ms, deliver_at_ms, ttl_ms, ..PublishItem::default() };
        for (options, item, expected) in [
            (&plain, item(None, None, None), (0, 0)),
            (&plain, item(Some(0), None, None), (0, 0)),
            (&plain, item(Some(7), None, Some(5)), (57, 62)),
            (&plain, item(None, Some(90), Some(5)), (90, 95)),
            (&plain, item(None, Some(40), Some(5)), (0, 55)),
            (&both, item(None, None, None), (150, 1_150)),
            (&both, item(Some(0), None, None), (0, 1_050)),
            (&both, item(None, Some(60), Some(0)), (60, 0)),
        ] {
            assert_eq!(times(options, &item, 50), expected, "{item:?}");
        }
    }

    #[test]
    fn ids_have_sixteen_bytes() {
        let item = |id: &'static [u8]| PublishItem { id: Bytes::from_static(id), ..PublishItem::default() };
        assert!(check_item(&item(&[])).is_ok());
        assert!(check_item(&item(&[0; 16])).is_ok());
        assert!(check_item(&item(&[0; 15])).is_err());
    }
}
