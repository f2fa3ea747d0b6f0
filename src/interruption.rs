//! SIGTERM and Ctrl-C, which end what runs until it is told to stop: `serve`, `consume` and `bench`.

use std::future::Future;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output;

/// Catches both signals from now on; the future completes at the first. Must be called inside the runtime.
pub(crate) fn interruption() -> impl Future<Output = ()> {
    let signals = Signals::catch();
    async move {
        match signals {
            Some(mut signals) => signals.next().await,
            None => never_interrupted().await,
        }
    }
}

/// The same for a command that takes its time to end: whoever interrupts it a second time does not want to wait.
pub(crate) fn interruption_then_exit() -> impl Future<Output = ()> {
    let signals = Signals::catch();
    async move {
        let Some(mut signals) = signals else { return never_interrupted().await };
        signals.next().await;
        tokio::spawn(async move {
            signals.next().await;
            output::note("interrupted again: ending at once, as by a kill");
            std::process::exit(1);
        });
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> Option<Signals> {
        Some(Signals { terminate: signal(SignalKind::terminate()).ok()?, interrupt: signal(SignalKind::interrupt()).ok()? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn never_interrupted() {
    output::note("warning: signals cannot be handled here; only a kill ends this process");
    std::future::pending().await
}
