//! What the tests of TypeScript need: the npm packages that its folders pin, and the runtime's own tests.
//!
//! tsc and protoc-gen-es come from sdk-templates/typescript/runtime; tests elsewhere find them there.

use std::path::PathBuf;

use anyhow::Result;

use crate::npm;
use crate::step::{Step, root};

/// The runtime's folder, which pins every tool.
fn runtime() -> PathBuf {
    root().join("sdk-templates/typescript/runtime")
}

/// Installs the pinned packages, unless they are there already.
///
/// # Errors
/// When npm fails, or is missing in CI.
pub(crate) fn install() -> Result<()> {
    npm::install("typescript packages", &runtime())
}

/// The runtime's tests.
pub(crate) fn tests() -> Step {
    Step::new("typescript", "npm", &["test", "--silent"]).directory(&runtime())
}
