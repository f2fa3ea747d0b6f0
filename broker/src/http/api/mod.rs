//! REST under /api/v1, one file a noun. Handlers turn JSON into the protocol's messages and back and know no rule of the broker: they ask
//! through a session, and what it refuses becomes a problem.
//!
//! Shapes are those of the command line's `--json`: names as on the wire, times in RFC 3339, durations in milliseconds.

mod calls;
mod candidate;
pub(super) mod clients;
pub(super) mod cluster;
mod dead_letters;
mod explain;
mod finding;
mod groups;
mod leases;
mod message;
mod messages;
mod new_message;
mod peek;
mod queue_options;
mod queues;
mod schema_version;
mod schemas;
mod start_at;
mod stats;
mod streams;
mod validate;

use std::time::Duration;

use utoipa_axum::router::OpenApiRouter;

use super::HttpState;

/// How long a request may take that waits for a message or a reply, and has been told how long at most.
pub(super) const PATIENCE: Duration = Duration::from_millis(calls::TIMEOUT_MS_MAX + 30_000);

/// Every route of REST but those that wait.
pub(super) fn routes() -> OpenApiRouter<HttpState> {
    [
        messages::routes(),
        leases::routes(),
        groups::routes(),
        dead_letters::routes(),
        explain::routes(),
        schemas::routes(),
        streams::routes(),
        stats::routes(),
        clients::routes(),
        cluster::routes(),
        validate::routes(),
    ]
    .into_iter()
    .fold(queues::routes(), OpenApiRouter::merge)
}

/// Those that wait for a message, a reply or another node.
pub(super) fn patient_routes() -> OpenApiRouter<HttpState> {
    leases::patient_routes().merge(calls::patient_routes()).merge(cluster::patient_routes())
}
