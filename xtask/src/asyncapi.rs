//! What the test of the AsyncAPI document needs: the parser that tests/asyncapi pins.

use anyhow::Result;

use crate::npm;
use crate::step::root;

/// Installs the pinned packages, unless they are there already.
///
/// # Errors
/// When npm fails, or is missing in CI.
pub(crate) fn install() -> Result<()> {
    npm::install("asyncapi packages", &root().join("tests/asyncapi"))
}
