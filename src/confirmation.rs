//! The question before something is destroyed. Asks on a terminal; without one, only `--yes` answers.

use std::io::{self, IsTerminal, Write};

use clap::Args;

use crate::failure::Failure;

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ConfirmationArgs {
    /// Do not ask; needed where there is no terminal to ask on
    #[arg(short = 'y', long)]
    yes: bool,
}

impl ConfirmationArgs {
    /// Returns when the user wants it. `deed` completes "this would ...", such as `delete queue jobs`.
    pub(crate) fn ask(self, deed: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !on_a_terminal() {
            return Err(Failure::usage(format!("this would {deed}, and there is no terminal to ask on"))
                .next_step("say --yes if that is what you want"));
        }
        ask(deed)
    }

    /// The same for deeds that scripts do without further ado: only a terminal is asked.
    pub(crate) fn ask_people(self, deed: &str) -> Result<(), Failure> {
        if self.yes || !on_a_terminal() { Ok(()) } else { ask(deed) }
    }
}

fn on_a_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn ask(deed: &str) -> Result<(), Failure> {
    let mut stderr = io::stderr();
    let mut answer = String::new();
    write!(stderr, "This will {deed}. Go on? [y/N] ")
        .and_then(|()| stderr.flush())
        .and_then(|()| io::stdin().read_line(&mut answer))
        .map_err(|error| Failure::failed(format!("cannot ask: {error}")).next_step("say --yes to go on without"))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::failed("not confirmed, so nothing was done")),
    }
}
