//! SIGTERM and Ctrl-C, which end what runs until it is told to stop: `serve`, `consume` and `bench`.

use std::future::Future;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output;

/// Catches both signals from now on; the future completes at the first. Must be called inside the runtime.
pub(crate) fn interruption() -> impl Future<Output = ()> {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        match signals {
            (Ok(terminate), Ok(interrupt)) => first(terminate, interrupt).await,
            _ => {
                output::note("warning: signals cannot be handled here; only a kill ends this process");
                std::future::pending().await
            }
        }
    }
}

async fn first(mut terminate: Signal, mut interrupt: Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
