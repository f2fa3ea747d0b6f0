//! Subscriptions of the role SERVE. Their calls never pass through here; their numbers do, since a connection's subscriptions of all
//! roles share them.

use qwerq_core::SubscriptionKey;
use qwerq_core::dispatch::Bounds;
use qwerq_proto::{Opcode, wire};

use super::command::Asker;
use super::consume::{PREFETCH_BYTES_DEFAULT, PREFETCH_DEFAULT, or_default};
use super::{Fault, Shard, reply};

impl Shard {
    pub(super) fn serve_calls(&mut self, asker: Asker, consume: &wire::Consume) -> Result<(), Fault> {
        let key = SubscriptionKey { session: asker.session, number: consume.subscription.into() };
        let granted = if self.has_subscription(key) {
            Err(reply::refusal(&qwerq_core::Rejection::SubscriptionExists { number: key.number }))
        } else {
            self.calls.check_serve(consume)
        };
        if let Err(error) = granted {
            let error = wire::Error { subscription: Some(consume.subscription), ..error };
            self.replies.push(reply::error(asker, &error));
            return Ok(());
        }
        let bounds = Bounds {
            messages: or_default(consume.prefetch, PREFETCH_DEFAULT),
            bytes: or_default(consume.prefetch_bytes, PREFETCH_BYTES_DEFAULT),
        };
        let ack = wire::ConsumeAck { subscription: consume.subscription, ..wire::ConsumeAck::default() };
        self.replies.push(reply::frame(asker, Opcode::ConsumeAck, &ack));
        // The replies up to this one are out before the first call is.
        self.commit()?;
        self.calls.serve(key, bounds, consume);
        Ok(())
    }

    /// Whether the connection has a subscription of that number, in any role.
    pub(super) fn has_subscription(&self, key: SubscriptionKey) -> bool {
        self.dispatch.has_subscription(key) || self.calls.has_responder(key)
    }
}
