//! What the tests in a browser need: the packages that tests/browser pins. Chromium itself is the system's (`.ci/run`).

use anyhow::Result;

use crate::npm;
use crate::step::root;

/// Installs the pinned packages, unless they are there already.
///
/// # Errors
/// When npm fails, or is missing in CI.
pub(crate) fn install() -> Result<()> {
    npm::install("browser packages", &root().join("tests/browser"))
}
