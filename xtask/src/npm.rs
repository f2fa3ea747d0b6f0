//! Folders whose package.json pins tools for tests: installed when their lock is newer than what is there.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::step::{Outcome, Step};

/// Installs what a folder pins, unless it is there already. Without npm the step is skipped; in CI that is an error.
///
/// # Errors
/// When npm fails, or is missing in CI.
pub(crate) fn install(name: &'static str, folder: &Path) -> Result<()> {
    let changed = |file: &str| folder.join(file).metadata().and_then(|metadata| metadata.modified()).ok();
    // npm writes the first when it has installed the second.
    if changed("node_modules/.package-lock.json") >= changed("package-lock.json") {
        return Ok(());
    }
    let outcome = Step::new(name, "npm", &["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).directory(folder).run()?;
    ensure!(outcome != Outcome::Failed, "the packages of {} are not installed", folder.display());
    Ok(())
}
