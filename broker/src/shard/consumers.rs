//! Who consumes, with names in place of numbers. Responders are not the shard's: `calls` knows them.

use super::Shard;
use super::command::ConsumerInfo;

impl Shard {
    /// Every consumer, or those of one queue.
    pub(super) fn consumers(&self, of: Option<&str>) -> Vec<ConsumerInfo> {
        let wanted = of.map(|name| self.state.queue_named(name).map(|queue| queue.id));
        let mut consumers = Vec::new();
        for consumer in self.dispatch.consumers() {
            if wanted.is_some_and(|wanted| wanted != Some(consumer.queue)) {
                continue;
            }
            let Some(queue) = self.state.queue(consumer.queue) else { continue };
            let group = consumer.group.and_then(|group| queue.groups().get(&group)).map(|group| group.name.clone());
            consumers.push(ConsumerInfo {
                session: consumer.subscription.session,
                client: self.sessions.get(&consumer.subscription.session).map_or_else(String::new, |session| session.client.clone()),
                subscription: u32::try_from(consumer.subscription.number).ok(),
                queue: queue.name.to_string(),
                group,
                prefetch: consumer.bounds.messages,
                prefetch_bytes: consumer.bounds.bytes,
                concurrency: consumer.concurrency,
                in_flight: consumer.in_flight,
                silent: consumer.silent,
            });
        }
        consumers
    }
}
