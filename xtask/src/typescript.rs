//! What the tests of TypeScript need: the npm packages that its folders pin, and the runtime's own tests.
//!
//! tsc and protoc-gen-es come from sdk-templates/typescript/runtime; tests elsewhere find them there. No other folder is installed.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::step::{Outcome, Step, root};

/// The runtime's folder, which pins every tool.
fn runtime() -> PathBuf {
    root().join("sdk-templates/typescript/runtime")
}

/// Installs the pinned packages, unless they are there already.
///
/// # Errors
/// When npm fails, or is missing in CI.
pub(crate) fn install() -> Result<()> {
    let changed = |file: &str| runtime().join(file).metadata().and_then(|metadata| metadata.modified()).ok();
    // npm writes the first when it has installed the second.
    if changed("node_modules/.package-lock.json") >= changed("package-lock.json") {
        return Ok(());
    }
    let install = Step::new("typescript packages", "npm", &["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
    let outcome = install.directory(&runtime()).run()?;
    ensure!(outcome != Outcome::Failed, "the packages of {} are not installed", runtime().display());
    Ok(())
}

/// The runtime's tests.
pub(crate) fn tests() -> Step {
    Step::new("typescript", "npm", &["test", "--silent"]).directory(&runtime())
}
