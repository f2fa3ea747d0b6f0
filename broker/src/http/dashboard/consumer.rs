//! Who consumes, reads and serves, as pages show it.

use qwerq_proto::ErrorCode;

use crate::http::api::clients::{self, Consumer};
use crate::http::quantity::count;

use super::frame::ErrorPage;
use super::visit::Visit;

/// One of them.
pub(super) struct ConsumerView {
    pub(super) client: String,
    pub(super) queue: String,
    pub(super) group: String,
    pub(super) role: String,
    pub(super) connection: String,
    pub(super) in_flight: String,
    pub(super) prefetch: String,
}

impl From<Consumer> for ConsumerView {
    fn from(consumer: Consumer) -> ConsumerView {
        ConsumerView {
            client: consumer.client,
            queue: consumer.queue,
            group: consumer.group.unwrap_or_default(),
            // A lease of it expired: it gets nothing until it shows a sign of life.
            role: if consumer.silent { format!("{}, silent", consumer.role) } else { consumer.role.to_owned() },
            connection: consumer.session.to_string(),
            in_flight: count(consumer.in_flight),
            prefetch: count(u64::from(consumer.prefetch)),
        }
    }
}

/// Those of a queue, or of all.
pub(super) async fn of(visit: &Visit, queue: Option<&str>) -> Result<Vec<Consumer>, ErrorPage> {
    clients::all(visit.state(), queue.map(str::to_owned))
        .await
        .map_err(|_| visit.refused(ErrorCode::Draining.with("The broker is shutting down.")))
}
