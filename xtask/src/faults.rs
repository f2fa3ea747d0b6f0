//! `cargo xtask faults`: plants each known fault (`tests/faults/*.patch` of the broker and of its core) in a copy of the sources and expects a test
//! to fail there. A test that no fault can fail proves nothing.
//!
//! A patch begins with what it breaks and a line `Caught by: <arguments of cargo test>`; a line `With: NAME=VALUE` sets a variable for it. The sources themselves have no
//! switches for faults; a patch that does not apply any more is an error.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::step::{Outcome, Step, root, target_dir};
use crate::tally::Tally;

/// A planted fault.
struct Fault {
    name: String,
    patch: PathBuf,
    /// Arguments of the `cargo test` that must fail.
    caught_by: Vec<String>,
    /// A variable for that.
    with: Option<(String, String)>,
}

/// Arguments of `faults`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only those whose name has this in it.
    name: Option<String>,
}

/// Plants every fault, also after one went unnoticed.
///
/// # Errors
/// Names the faults that no test noticed, or says why one could not be planted.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut unnoticed = Vec::new();
    let mut faults = all()?;
    faults.retain(|fault| args.name.as_ref().is_none_or(|name| fault.name.contains(name)));
    ensure!(!faults.is_empty(), "no fault has such a name; `ls broker/tests/faults broker/core/tests/faults` lists them");
    for fault in &faults {
        let copy = target_dir().join("faults").join(&fault.name);
        copy_sources(&copy).with_context(|| format!("copying the sources to {}", copy.display()))?;
        if !is_noticed(fault, &copy)? {
            unnoticed.push(fault.name.as_str());
        }
        fs::remove_dir_all(&copy)?;
    }
    println!("{} of {} planted faults noticed", faults.len() - unnoticed.len(), faults.len());
    ensure!(unnoticed.is_empty(), "no test noticed: {}", unnoticed.join(", "));
    Ok(())
}

/// Where the patches are.
const FOLDERS: [&str; 2] = ["broker/core/tests/faults", "broker/tests/faults"];

fn all() -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for folder in FOLDERS {
        let before = faults.len();
        let folder = root().join(folder);
        for entry in fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
            let patch = entry?.path();
            if patch.extension().is_some_and(|extension| extension == "patch") {
                faults.push(read(patch)?);
            }
        }
        ensure!(faults.len() > before, "no *.patch in {}", folder.display());
    }
    faults.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(faults)
}

fn read(patch: PathBuf) -> Result<Fault> {
    let text = fs::read_to_string(&patch).with_context(|| format!("reading {}", patch.display()))?;
    let Some(caught_by) = text.lines().find_map(|line| line.strip_prefix("Caught by: ")) else {
        bail!("{} has no line `Caught by: <arguments of cargo test>`", patch.display());
    };
    let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let caught_by = caught_by.split_whitespace().map(str::to_owned).collect();
    let with = text.lines().find_map(|line| line.strip_prefix("With: ")?.split_once('='));
    let with = with.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(Fault { name, patch, caught_by, with })
}

/// Applies the patch to the copy and runs the test there.
fn is_noticed(fault: &Fault, copy: &Path) -> Result<bool> {
    println!("==> fault {}", fault.name);
    let patch = fault.patch.to_string_lossy();
    // The copy lies inside the repository; git is to take it for a folder of its own.
    let ceiling = target_dir();
    let apply = Step::new("plant", "git", &["apply", "--verbose", &patch])
        .directory(copy)
        .env("GIT_CEILING_DIRECTORIES", &ceiling.to_string_lossy())
        .run()?;
    ensure!(apply == Outcome::Passed, "{} does not apply: renew it for the sources of today", fault.patch.display());
    let build = ceiling.join("faults").join("build");
    let test = |name, more: &[&str]| {
        let arguments = ["test"].into_iter().chain(fault.caught_by.iter().map(String::as_str));
        let arguments: Vec<_> = arguments.chain(more.iter().copied()).collect();
        // One folder for all faults, so that dependencies are built once; not the workspace's own, where cargo would take
        // what it built from a copy for what it builds from the sources.
        let step = Step::cargo(name, &arguments).directory(copy).env("CARGO_TARGET_DIR", &build.to_string_lossy());
        fault.with.iter().fold(step, |step, (name, value)| step.env(name, value))
    };
    ensure!(test("build", &["--no-run"]).run()? == Outcome::Passed, "{} does not compile", fault.name);
    let mut tally = Tally::default();
    let outcome = test("test that must fail", &[]).run_tests(&mut tally)?;
    Ok(outcome == Outcome::Failed)
}

/// Copies what cargo needs, over whatever an earlier run left.
fn copy_sources(copy: &Path) -> Result<()> {
    if copy.exists() {
        fs::remove_dir_all(copy)?;
    }
    copy_folder(root(), copy)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    const LEFT_OUT: [&str; 3] = [".git", "node_modules", "target"];
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        if LEFT_OUT.iter().any(|left_out| name == *left_out) {
            continue;
        }
        let (from, to) = (entry.path(), to.join(name));
        if kind.is_dir() {
            copy_folder(&from, &to)?;
        } else if kind.is_file() {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_listed_in_the_docs_and_no_other() {
        let page = fs::read_to_string(root().join("docs/simulation.md")).unwrap();
        let (_, tables) = page.split_once("## Which faults").unwrap();
        let mut listed: Vec<_> = tables.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect();
        listed.sort();
        let rows = all().unwrap().into_iter().map(|fault| {
            let text = fs::read_to_string(&fault.patch).unwrap();
            format!("| `{}` | {} |", fault.name, text.lines().next().unwrap_or_default())
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort();
        assert_eq!(listed, rows);
    }

    #[test]
    fn every_patch_says_which_test_notices_it() {
        for fault in all().unwrap() {
            assert!(!fault.caught_by.is_empty(), "{}", fault.name);
        }
    }
}
