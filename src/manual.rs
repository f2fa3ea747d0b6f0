//! `qwer-q man`: the help of a command as a page for man(1), made from the command line itself.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Command whose page is printed, such as `queue create` [default: qwer-q itself]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,
    /// Write the pages of all commands into this folder instead
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints one page, or writes all of them.
pub(crate) fn run(args: ManArgs) -> Result<(), Failure> {
    let mut root = Arguments::command();
    // Gives every command its full name and the flags that it inherits.
    root.build();
    let mut output = Output::stdout();
    match &args.out {
        Some(folder) => output.line(format!("wrote {} pages to {}", write_pages(&root, folder)?, folder.display()))?,
        None => output.bytes(&page(find(&root, &args.command)?)?)?,
    }
    output.flush()
}

/// The command of that name below `root`.
fn find<'a>(root: &'a Command, names: &[String]) -> Result<&'a Command, Failure> {
    names.iter().try_fold(root, |command, name| {
        command.find_subcommand(name).ok_or_else(|| {
            let path = command.get_bin_name().unwrap_or("qwer-q");
            Failure::usage(format!("`{path}` has no command `{name}`")).next_step(format!("`{path} --help` lists its commands"))
        })
    })
}

fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let man = Man::new(command.clone()).section("1").source(concat!("qwer-q ", env!("CARGO_PKG_VERSION"))).manual("QWER-Q");
    man.render(&mut page).map_err(|error| Failure::failed(format!("the page of {} cannot be made: {error}", command.get_name())))?;
    Ok(page)
}

/// Writes the pages of a command and of all below it; how many.
fn write_pages(command: &Command, folder: &Path) -> Result<usize, Failure> {
    let file = folder.join(format!("{}.1", file_stem(command)));
    let write = |page: Vec<u8>| fs::create_dir_all(folder).and_then(|()| fs::write(&file, page));
    write(page(command)?).map_err(|error| Failure::failed(format!("cannot write {}: {error}", file.display())))?;
    command.get_subcommands().filter(|child| child.get_name() != "help").try_fold(1, |count, child| Ok(count + write_pages(child, folder)?))
}

/// `qwer-q-queue-create`.
fn file_stem(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}
