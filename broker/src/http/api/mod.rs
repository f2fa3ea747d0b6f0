//! REST under /api/v1, one file a noun. Handlers turn JSON into the protocol's messages and back and know no rule of the broker: they ask
//! through a session, and what it refuses becomes a problem.
//!
//! Shapes are those of the command line's `--json`: names as on the wire, times in RFC 3339, durations in milliseconds.

mod queue_options;
mod queues;
mod schema_version;

use utoipa_axum::router::OpenApiRouter;

use super::HttpState;

/// Every route of REST.
pub(super) fn routes() -> OpenApiRouter<HttpState> {
    queues::routes()
}
