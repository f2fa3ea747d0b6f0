//! Ctrl-C and SIGTERM. Listened to once, from before the first message is taken: a listener made anew in each round of a loop would miss the
//! signal that comes in between.

use std::io;

/// The signals that ask a process to end.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// From now on neither signal ends the process by itself.
    pub(crate) fn listen() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The next of them.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The signal that asks a process to end.
#[cfg(windows)]
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: tokio::signal::windows::CtrlC,
}

#[cfg(windows)]
impl Signals {
    /// From now on the signal does not end the process by itself.
    pub(crate) fn listen() -> io::Result<Signals> {
        Ok(Signals { interrupt: tokio::signal::windows::ctrl_c()? })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) {
        let _ = self.interrupt.recv().await;
    }
}
