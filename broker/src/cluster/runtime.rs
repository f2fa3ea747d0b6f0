//! What the cluster's tasks run on: tokio. In unit tests the simulation's executor stands in its place, see `simulation/`.

#[cfg(not(test))]
pub(crate) use openraft::TokioRuntime as Runtime;

#[cfg(test)]
pub(crate) use super::simulation::Runtime;

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
