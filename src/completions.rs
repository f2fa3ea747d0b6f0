//! `qwer-q completions SHELL`: what a shell needs to complete commands and flags, made from the command line itself.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell that reads the completions
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the completions.
pub(crate) fn run(args: CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "qwer-q", &mut script);
    let mut output = Output::stdout();
    output.bytes(&script)?;
    output.flush()
}
