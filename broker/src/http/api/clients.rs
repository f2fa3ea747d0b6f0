//! /api/v1/consumers and /api/v1/connections: who is there and what they hold.

use axum::Json;
use axum::extract::State;
use qwerq_proto::ErrorCode;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::HttpState;
use crate::http::extract::Query;
use crate::http::problem::Problem;
use crate::shard::{Command, ConsumerInfo};
use crate::timestamp;

pub(super) fn routes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(consumers)).routes(routes!(connections))
}

/// Somebody who gets messages or calls.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Consumer {
    /// Number of its connection; `/api/v1/connections` has the same.
    pub(crate) session: u64,
    /// What the client calls itself.
    pub(crate) client: String,
    /// Its number on that connection; a fetch that waits has none.
    pub(crate) subscription: Option<u32>,
    pub(crate) queue: String,
    /// None of a reader without a group, and of a responder.
    pub(crate) group: Option<String>,
    /// `consume`, `fetch`, `read` or `serve`.
    #[schema(example = "consume")]
    pub(crate) role: &'static str,
    /// Messages that it may hold; of a reader, what is left of its last grant.
    pub(crate) prefetch: u32,
    pub(crate) prefetch_bytes: u64,
    /// Messages that it works on at once; not known of readers and responders.
    pub(crate) concurrency: Option<u32>,
    /// Messages, or calls, that it holds.
    pub(crate) in_flight: u64,
    /// A lease of it expired, so it gets nothing until its connection shows a sign of life.
    pub(crate) silent: bool,
}

impl From<ConsumerInfo> for Consumer {
    fn from(info: ConsumerInfo) -> Consumer {
        let role = match (&info.group, info.subscription) {
            (None, _) => "read",
            (Some(_), None) => "fetch",
            (Some(_), Some(_)) => "consume",
        };
        Consumer {
            session: info.session.0,
            client: info.client,
            subscription: info.subscription,
            queue: info.queue,
            role,
            prefetch: info.prefetch,
            prefetch_bytes: info.prefetch_bytes,
            concurrency: info.group.is_some().then_some(info.concurrency),
            in_flight: info.in_flight.into(),
            silent: info.silent,
            group: info.group,
        }
    }
}

/// Everybody who gets messages or calls.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Consumers {
    consumers: Vec<Consumer>,
}

/// Whose consumers.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ConsumersQuery {
    /// Only of this queue.
    queue: Option<String>,
}

/// Who consumes, fetches, reads and serves
#[utoipa::path(
    get, path = "/api/v1/consumers", tag = "operation", params(ConsumersQuery),
    responses((status = 200, description = "Consumers by connection, then responders", body = Consumers))
)]
pub(crate) async fn consumers(State(state): State<HttpState>, Query(query): Query<ConsumersQuery>) -> Result<Json<Consumers>, Problem> {
    Ok(Json(Consumers { consumers: all(&state, query.queue).await? }))
}

/// Consumers and responders, of one queue if named.
pub(crate) async fn all(state: &HttpState, queue: Option<String>) -> Result<Vec<Consumer>, Problem> {
    let (reply, answer) = oneshot::channel();
    // A shard that is gone drops the question, and with it the answer.
    let _ = state.broker.shard.send(Command::Consumers(queue.clone(), reply));
    let found = answer.await.map_err(|_| Problem::new(ErrorCode::Draining, "the broker is shutting down"))?;
    let connections = state.broker.connections.list();
    let client = |session| connections.iter().find(|known| known.session == session).map_or_else(String::new, |known| known.client.clone());
    let responders = state.broker.calls.responders().into_iter().filter(|(_, of, ..)| queue.as_ref().is_none_or(|queue| queue == of));
    let responder = |(key, queue, bounds, calls): (qwerq_core::SubscriptionKey, String, qwerq_core::dispatch::Bounds, usize)| Consumer {
        session: key.session.0,
        client: client(key.session),
        subscription: u32::try_from(key.number).ok(),
        queue,
        group: None,
        role: "serve",
        prefetch: bounds.messages,
        prefetch_bytes: bounds.bytes,
        concurrency: None,
        in_flight: calls as u64,
        silent: false,
    };
    Ok(found.into_iter().map(Consumer::from).chain(responders.map(responder)).collect())
}

/// A client's connection.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Connection {
    /// Its number in this process.
    pub(crate) session: u64,
    /// Address and port of the other side.
    #[schema(example = "127.0.0.1:53412")]
    pub(crate) peer: String,
    /// What the client calls itself.
    pub(crate) client: String,
    #[schema(format = DateTime)]
    pub(crate) connected_at: String,
    /// Its subscriptions, fetches and responders.
    pub(crate) consumers: usize,
    /// Messages and calls that it holds.
    pub(crate) in_flight: u64,
}

/// Every client's connection.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Connections {
    connections: Vec<Connection>,
}

/// Who is connected
///
/// Requests over HTTP are not: they come and go.
#[utoipa::path(
    get, path = "/api/v1/connections", tag = "operation",
    responses((status = 200, description = "Connections, oldest first", body = Connections))
)]
pub(crate) async fn connections(State(state): State<HttpState>) -> Result<Json<Connections>, Problem> {
    let consumers = all(&state, None).await?;
    Ok(Json(Connections { connections: connected(&state, &consumers) }))
}

/// Connections, oldest first; `consumers` are those of all queues.
pub(crate) fn connected(state: &HttpState, consumers: &[Consumer]) -> Vec<Connection> {
    let mut of_session = std::collections::BTreeMap::<u64, (usize, u64)>::new();
    for consumer in consumers {
        let (count, in_flight) = of_session.entry(consumer.session).or_default();
        *count += 1;
        *in_flight += consumer.in_flight;
    }
    let connection = |info: crate::net::ConnectionInfo| {
        let (consumers, in_flight) = of_session.get(&info.session.0).copied().unwrap_or_default();
        let since = info.since.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Connection {
            session: info.session.0,
            peer: info.peer,
            client: info.client,
            connected_at: timestamp::format_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            consumers,
            in_flight,
        }
    };
    state.broker.connections.list().into_iter().map(connection).collect()
}
