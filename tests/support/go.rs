//! Generated Go as a project has it: a module with the one dependency that the runtime pins.
//!
//! Without Go tests are skipped by name; in CI they fail.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::corpus::say;

/// Whether there is no Go; said so.
///
/// # Panics
/// In CI, where there is none.
pub(crate) fn is_missing() -> bool {
    let missing = Command::new("go").arg("version").output().is_err();
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!(missing && in_ci), "`go` is not installed");
    if missing {
        say("Skipped: `go` is not installed");
    }
    missing
}

/// A module of that import path.
pub(crate) fn module(import_path: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk-templates/go/runtime");
    let pinned = fs::read_to_string(runtime.join("go.mod")).expect("go.mod");
    let requirement = pinned.lines().find(|line| line.starts_with("require google.golang.org/protobuf ")).expect("the one dependency");
    fs::write(folder.path().join("go.mod"), format!("module {import_path}\n\ngo 1.24\n\n{requirement}\n")).expect("written");
    fs::copy(runtime.join("go.sum"), folder.path().join("go.sum")).expect("copied");
    folder
}
