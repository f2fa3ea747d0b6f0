//! What comes to each queue and leaves it, for those who watch rates. One thread counts, so these are plain numbers.

use qwerq_core::QueueId;
use rustc_hash::FxHashMap;

use crate::http::Activity;

/// The counts of all queues. What happens comes in runs of one queue, so the last one is at hand.
#[derive(Default)]
pub(super) struct Activities {
    queues: FxHashMap<QueueId, Activity>,
    current: Option<(QueueId, Activity)>,
}

impl Activities {
    /// The counts of a queue, to add to.
    pub(super) fn of(&mut self, queue: QueueId) -> &mut Activity {
        if self.current.is_none_or(|(current, _)| current != queue) {
            self.put_back();
            let activity = self.queues.get(&queue).copied().unwrap_or_default();
            self.current = Some((queue, activity));
        }
        &mut self.current.as_mut().expect("just set").1
    }

    /// The counts of a queue so far.
    pub(super) fn get(&self, queue: QueueId) -> Activity {
        match self.current {
            Some((current, activity)) if current == queue => activity,
            _ => self.queues.get(&queue).copied().unwrap_or_default(),
        }
    }

    /// Forgets a queue that was deleted.
    pub(super) fn forget(&mut self, queue: QueueId) {
        self.current.take_if(|(current, _)| *current == queue);
        self.queues.remove(&queue);
    }

    fn put_back(&mut self) {
        if let Some((queue, activity)) = self.current.take() {
            self.queues.insert(queue, activity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_has_counts_of_its_own() {
        let (a, b) = (QueueId(1), QueueId(2));
        let mut activities = Activities::default();
        activities.of(a).published += 2;
        activities.of(b).acked += 1;
        activities.of(a).published += 3;
        assert_eq!(activities.get(a).published, 5);
        assert_eq!(activities.get(b), Activity { acked: 1, ..Activity::default() });
        activities.forget(a);
        assert_eq!((activities.get(a), activities.get(b).acked), (Activity::default(), 1));
    }
}
