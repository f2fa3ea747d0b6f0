//! What the cluster's tasks run on: tokio. In unit tests the simulation's executor stands in its place, see `simulation/`.

use std::time::{Duration, Instant};

#[cfg(not(test))]
pub(crate) use openraft::TokioRuntime as Runtime;

#[cfg(test)]
pub(crate) use super::simulation::Runtime;

/// What this node's clock shows.
#[cfg(not(test))]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The same, or the system's in tests that run in no simulation.
#[cfg(test)]
pub(crate) fn now() -> Instant {
    super::simulation::now().unwrap_or_else(Instant::now)
}

/// A part of `most`, at random.
#[cfg(not(test))]
pub(crate) fn part_of(most: Duration) -> Duration {
    most.mul_f64(rand::random())
}

/// The same, by the seed.
#[cfg(test)]
pub(crate) fn part_of(most: Duration) -> Duration {
    super::simulation::part_of(most)
}

/// Runs work that may wait for the disk without holding up other tasks. `None`: it panicked.
#[cfg(not(test))]
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// The same, at once.
#[cfg(test)]
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    std::future::ready(Some(work())).await
}
