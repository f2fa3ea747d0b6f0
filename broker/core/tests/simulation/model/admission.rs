//! The publish rules: limits and idempotency keys, counting what is pending; a duplicate is told of before any limit.

use qwerq_core::options::OnFull;
use qwerq_core::{Admission, MessageId, Millis, NewMessage, QueueId, Rejection};

use super::Model;

/// A message that was admitted and is not durable yet.
pub(crate) struct PendingItem {
    pub(crate) queue: QueueId,
    pub(crate) size: u32,
    pub(crate) idempotency_key: String,
    pub(crate) id: MessageId,
}

impl Model {
    pub(crate) fn admit(
        &self,
        id: QueueId,
        pending: &[PendingItem],
        now: Millis,
        message: &NewMessage<'_>,
    ) -> Result<Admission, Rejection> {
        let queue = &self.queues[&id];
        let pending: Vec<_> = pending.iter().filter(|item| item.queue == id).collect();
        let (name, options) = (queue.name.clone(), &queue.options);
        if message.size > u64::from(options.max_message_bytes) {
            return Err(Rejection::MessageTooLarge { queue: name, size: message.size, max: options.max_message_bytes });
        }
        if !message.idempotency_key.is_empty() {
            let live = || queue.keys.iter().filter(|known| known.until > now);
            if let Some(first) = live().find(|known| known.key == message.idempotency_key) {
                return Ok(Admission::Duplicate { id: first.id, seq: first.seq });
            }
            if let Some(first) = pending.iter().find(|item| item.idempotency_key == message.idempotency_key) {
                return Ok(Admission::DuplicateOfPending { id: first.id });
            }
            let keyed = pending.iter().filter(|item| !item.idempotency_key.is_empty()).count();
            if u64::try_from(live().count() + keyed).unwrap() >= options.dedup_max_keys {
                return Err(Rejection::DedupFull { queue: name, max: options.dedup_max_keys });
            }
        }
        if options.on_full == OnFull::Reject {
            let holder = queue.groups.values().filter_map(|group| Some((queue.unsettled(group).next()?.0, &group.name)));
            let holder = holder.min_by_key(|(oldest, _)| *oldest).map(|(_, name)| name.clone());
            let messages = queue.messages() + u64::try_from(pending.len()).unwrap();
            let bytes = queue.bytes() + pending.iter().map(|item| u64::from(item.size)).sum::<u64>() + message.size;
            for (limit, value, is_hit) in [
                ("max_messages", options.max_messages, messages >= options.max_messages),
                ("max_bytes", options.max_bytes, bytes > options.max_bytes),
            ] {
                if value != 0 && is_hit {
                    return Err(Rejection::QueueFull { queue: name, limit, value, holder });
                }
            }
        }
        Ok(Admission::New)
    }
}
