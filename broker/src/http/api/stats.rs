//! /api/v1/stats: the broker as a whole, and the settings in force.

use axum::Json;
use axum::extract::State;
use qwerq_core::options::SchemaMode;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::config::Durability;
use crate::http::{GroupsOf, HttpState};
use crate::queue_options::options_on_wire;

use super::queue_options::QueueOptions;

pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(stats))
}

/// The broker as a whole.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stats {
    version: &'static str,
    uptime_ms: u64,
    /// Queues and streams, dead letter queues among them.
    queues: usize,
    /// Messages that are stored, in all of them.
    depth: u64,
    bytes: u64,
    ready: u64,
    delayed: u64,
    backing_off: u64,
    in_flight: u64,
    /// Messages in dead letter queues.
    dead_letters: u64,
    connections: u64,
    /// What happened since the start.
    since_start: Totals,
    settings: Settings,
}

/// What happened since the start.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Totals {
    published: u64,
    /// Deliveries, repeats included.
    consumed: u64,
    acked: u64,
    nacked: u64,
    dead_lettered: u64,
    redriven: u64,
    dropped: u64,
    expired: u64,
}

/// Settings in force.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Settings {
    /// When a publish is acknowledged: `fsync`, `interval` or `none`.
    #[schema(example = "fsync")]
    durability: &'static str,
    /// Of `interval`: how often.
    fsync_interval_ms: Option<u64>,
    /// Of queues without a mode of their own: `permissive` or `strict`.
    #[schema(example = "permissive")]
    schema_mode: &'static str,
    /// A first publish or consume makes its queue.
    auto_create: bool,
    /// How long a commit waits for company.
    batch_interval_ms: u64,
    /// Clients must present a token.
    token: bool,
    data_dir: String,
    /// Options of queues that are made without their own.
    queue_defaults: QueueOptions,
}

/// The broker as a whole
#[utoipa::path(
    get, path = "/api/v1/stats", tag = "operation",
    responses((status = 200, description = "What it holds, what happened, and how it is set", body = Stats))
)]
pub(crate) async fn stats(State(state): State<HttpState>) -> Json<Stats> {
    let queues = state.broker.stats(GroupsOf::None).await.queues;
    let sum = |of: fn(&crate::http::QueueStats) -> u64| queues.iter().map(of).sum();
    let metrics = &state.metrics;
    let config = &state.broker.config;
    let ms = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (durability, interval) = match config.durability {
        Durability::Fsync => ("fsync", None),
        Durability::Interval(interval) => ("interval", Some(ms(interval))),
        Durability::None => ("none", None),
    };
    Json(Stats {
        version: env!("CARGO_PKG_VERSION"),
        uptime_ms: ms(metrics.uptime()),
        queues: queues.len(),
        depth: sum(|queue| queue.depth),
        bytes: sum(|queue| queue.bytes),
        ready: sum(|queue| queue.ready),
        delayed: sum(|queue| queue.delayed),
        backing_off: sum(|queue| queue.backing_off),
        in_flight: sum(|queue| queue.in_flight),
        dead_letters: sum(|queue| if qwerq_proto::name::is_dlq(&queue.name) { queue.depth } else { 0 }),
        connections: metrics.connections(),
        since_start: Totals {
            published: metrics.published.get(),
            consumed: metrics.consumed.get(),
            acked: metrics.acked.get(),
            nacked: metrics.nacked.get(),
            dead_lettered: metrics.dead_lettered.get(),
            redriven: metrics.redriven.get(),
            dropped: metrics.dropped.get(),
            expired: metrics.expired.get(),
        },
        settings: Settings {
            durability,
            fsync_interval_ms: interval,
            schema_mode: match config.schema_mode {
                SchemaMode::Permissive => "permissive",
                SchemaMode::Strict => "strict",
            },
            auto_create: config.auto_create,
            batch_interval_ms: ms(config.batch_interval),
            token: config.auth_token.is_some(),
            data_dir: config.data_dir.display().to_string(),
            queue_defaults: options_on_wire(&config.queue_defaults, config.schema_mode).into(),
        },
    })
}
