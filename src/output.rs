//! What goes to stdout: lines of JSON, text and tables; and what stdout is: whether it may carry colour, how wide it is.
//!
//! Everything else goes to stderr. A failed write becomes a [`Failure`], a closed pipe a silent one.

use std::io::{self, IsTerminal, Write};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::failure::Failure;

/// Buffered stdout; call [`Output::flush`] when what was written must be seen.
pub(crate) struct Output {
    out: io::BufWriter<io::Stdout>,
}

impl Output {
    pub(crate) fn stdout() -> Output {
        Output { out: io::BufWriter::with_capacity(64 * 1024, io::stdout()) }
    }

    /// One JSON object as one line.
    pub(crate) fn json(&mut self, object: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, object).map_err(|error| Failure::stdout(&io::Error::from(error)))?;
        self.bytes(b"\n")
    }

    /// One line of text.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        self.bytes(text.as_ref().as_bytes())?;
        self.bytes(b"\n")
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out.write_all(bytes).map_err(|error| Failure::stdout(&error))
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| Failure::stdout(&error))
    }
}

/// Completes when whoever read our stdout has gone, with the failure that says so. Without it a command that waits for messages would
/// learn of that only when it writes the next one.
pub(crate) async fn stdout_closed() -> Failure {
    let (gone, closed) = oneshot::channel();
    std::thread::spawn(move || {
        let stdout = io::stdout();
        // No event is asked for, so only an error or a hang-up ends the poll; a file or a terminal has neither.
        if poll(&mut [PollFd::new(&stdout, PollFlags::empty())], None).is_ok() {
            // The command may have ended by itself.
            let _ = gone.send(());
        }
    });
    match closed.await {
        Ok(()) => Failure::stdout(&io::Error::from(io::ErrorKind::BrokenPipe)),
        Err(_) => std::future::pending().await,
    }
}

/// Whether stdout may carry colour: a terminal, and the user has not set `NO_COLOR`.
pub(crate) fn colour() -> bool {
    io::stdout().is_terminal() && !no_color()
}

/// How many columns a line has on stdout; `None` if it is no terminal, and lines may have any length.
pub(crate) fn columns() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    // A terminal that was never told its size says 0.
    tcgetwinsize(&stdout).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Whether stderr, where logs go, may carry colour.
pub(crate) fn colour_on_stderr() -> bool {
    io::stderr().is_terminal() && !no_color()
}

fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// A note on stderr that is neither result nor failure.
pub(crate) fn note(text: impl AsRef<str>) {
    // A stderr that is gone has no reader to tell.
    let _ = writeln!(io::stderr(), "{}", text.as_ref());
}
