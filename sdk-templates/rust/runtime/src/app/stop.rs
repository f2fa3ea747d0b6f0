//! How an app's parts learn that it is stopping. There are two words, and the second only follows the first: stop taking work, and give up
//! what still runs. Whoever listens late hears them as well.

use std::sync::Arc;

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    Stopping,
    Abandoned,
}

/// Says it.
#[derive(Debug, Clone)]
pub(crate) struct Stopper(Arc<watch::Sender<Phase>>);

/// Hears it.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<Phase>);

impl Stopper {
    pub(crate) fn new() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(Phase::Running);
        (Stopper(Arc::new(sender)), Stop(receiver))
    }

    /// Take nothing more.
    pub(crate) fn stop(&self) {
        self.raise(Phase::Stopping);
    }

    /// Give up what still runs.
    pub(crate) fn abandon(&self) {
        self.raise(Phase::Abandoned);
    }

    fn raise(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let raised = phase > *now;
            *now = phase.max(*now);
            raised
        });
    }
}

impl Stop {
    pub(crate) fn is_stopping(&self) -> bool {
        *self.0.borrow() >= Phase::Stopping
    }

    pub(crate) async fn stopping(&self) {
        self.reached(Phase::Stopping).await;
    }

    pub(crate) async fn abandoned(&self) {
        self.reached(Phase::Abandoned).await;
    }

    /// An app that was dropped says nothing more; then all of its parts have been dropped as well.
    async fn reached(&self, phase: Phase) {
        let mut phases = self.0.clone();
        if phases.wait_for(|now| *now >= phase).await.is_err() {
            std::future::pending().await
        }
    }
}
