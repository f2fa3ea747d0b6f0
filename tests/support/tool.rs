//! Tools that a test needs. On a laptop without them the test says so and passes; in CI it fails, so that nothing is left out unseen.

use std::ffi::OsString;
use std::path::Path;

use super::broker::BINARY;
use super::corpus::say;

/// Whether all of them are on the PATH.
pub(crate) fn are_installed(tools: &[&str]) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_missing = |tool: &&&str| !std::env::split_paths(&folders).any(|folder| folder.join(tool).is_file());
    tools.iter().find(is_missing).is_none_or(|tool| skipped(&format!("`{tool}` is not installed")))
}

/// Says what is missing, or fails in CI; never true.
pub(crate) fn skipped(missing: &str) -> bool {
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!in_ci, "{missing}");
    say(&format!("Skipped: {missing}"));
    false
}

/// A PATH on which this build's `qwer-q` comes first.
pub(crate) fn path() -> OsString {
    let binaries = Path::new(BINARY).parent().expect("a binary is in a folder").to_owned();
    let rest = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(binaries).chain(std::env::split_paths(&rest))).expect("no folder has a colon in its name")
}
