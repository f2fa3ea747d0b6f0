//! Who consumes, as pages show it.

use super::visit::Visit;

/// One consumer.
pub(super) struct ConsumerView {
    pub(super) client: String,
    pub(super) queue: String,
    pub(super) group: String,
    pub(super) role: &'static str,
    pub(super) connection: String,
    pub(super) in_flight: String,
    pub(super) prefetch: String,
}

/// The consumers of a queue, or of all.
pub(super) async fn of(_visit: &Visit, _queue: Option<&str>) -> Vec<ConsumerView> {
    Vec::new()
}
