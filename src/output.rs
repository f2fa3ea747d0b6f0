//! What goes to stdout: lines of JSON, text and tables; and whether colour or progress may be shown.
//!
//! Everything else goes to stderr. A failed write becomes a [`Failure`], a closed pipe a silent one.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

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

/// Whether stdout may carry colour: a terminal, and the user has not set `NO_COLOR`.
pub(crate) fn colour() -> bool {
    io::stdout().is_terminal() && !no_color()
}

/// The same for stderr, where logs go.
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
