//! Subscriptions without a group: ROLE_TAIL, and consumers of a stream that name none. They get messages without leases and create nothing.

use qwerq_core::{QueueId, Seq, SubscriptionKey};
use qwerq_proto::wire::start_at::At;
use qwerq_proto::{ErrorCode, wire};

use super::consume::{bounds, start_of};
use super::{Fault, Shard, reply};

impl Shard {
    /// Follows the end of a queue or stream that exists.
    pub(super) fn open_tail(
        &mut self,
        key: SubscriptionKey,
        consume: &wire::Consume,
    ) -> Result<Result<wire::ConsumeAck, wire::Error>, Fault> {
        let is_elsewhere = consume.start_at.is_some_and(|start| !matches!(start.at, None | Some(At::End(_))));
        if is_elsewhere || !consume.group.is_empty() {
            return Ok(Err(ErrorCode::InvalidArgument
                .with("a tail has no group and begins at the end; subscribe with the role CONSUME for either, or look back with peek")));
        }
        // What was published before is not told any more.
        self.commit()?;
        let queue = match self.queue_of(&consume.queue) {
            Ok(queue) => queue,
            Err(error) => return Ok(Err(error)),
        };
        let (id, end) = (queue.id, queue.next_seq());
        Ok(self.begin_reading(key, id, end, consume))
    }

    /// Reads a stream from where the client says, by default from its end.
    pub(super) fn open_reader(
        &mut self,
        key: SubscriptionKey,
        id: QueueId,
        consume: &wire::Consume,
    ) -> Result<Result<wire::ConsumeAck, wire::Error>, Fault> {
        self.commit()?;
        let queue = self.state.queue(id).expect("just found or created");
        let end = wire::StartAt { at: Some(At::End(true)) };
        let start = start_of(queue, Some(consume.start_at.as_ref().unwrap_or(&end))).max(queue.first_seq());
        Ok(self.begin_reading(key, id, start, consume))
    }

    fn begin_reading(
        &mut self,
        key: SubscriptionKey,
        queue: QueueId,
        from: Seq,
        consume: &wire::Consume,
    ) -> Result<wire::ConsumeAck, wire::Error> {
        self.dispatch.read(key, queue, from, bounds(consume)).map_err(|rejection| reply::refusal(&rejection))?;
        Ok(wire::ConsumeAck { subscription: consume.subscription, ..wire::ConsumeAck::default() })
    }
}
