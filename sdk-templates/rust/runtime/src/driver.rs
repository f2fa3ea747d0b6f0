//! The connection's task: connects, runs one session after another, waits between them, and ends when the client is closed.

use std::sync::Arc;

use crate::error::Error;
use crate::shared::Shared;

/// Connects for the first time and leaves the task running.
pub(crate) async fn start(shared: Arc<Shared>) -> Result<(), Error> {
    let address = shared.settings.addresses.first().map_or("", String::as_str);
    shared
        .settings
        .dial
        .open(address)
        .await
        .map_err(|_| Error::Closed)?;
    Ok(())
}
