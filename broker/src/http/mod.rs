//! The HTTP port: probes, metrics, REST under /api/v1, and a page that says where to go.
//!
//! This module asks the broker through sessions ([`LocalSession`]) and what [`HttpState`] holds, and never touches journal, store or
//! client sockets. Who may ask is decided in [`access`], once per group of routes. Every route but WebSockets is entered into its group
//! with `routes!`, which also enters it into the OpenAPI document. Read on in [`router`], then `api/`.

pub mod access;
mod api;
mod asyncapi;
mod contracts;
mod dashboard;
mod events;
mod extract;
mod login;
pub mod metrics;
mod openapi;
mod problem;
mod quantity;
mod readiness;
mod server;
mod trouble;
mod ws;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Extension, Router};
use qwerq_proto::{ErrorCode, MAX_FRAME_BYTES};
use serde::Deserialize;
use tokio::net::TcpListener;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::net::{LocalSession, Shared};
use crate::proto_text::ProtoText;

pub use access::Access;
use contracts::Contracts;
pub use metrics::{Activity, CallOutcome, GroupFigures, GroupsOf, Metrics, QueueStats, Stats, Tally, Transport};
use problem::{Problem, ProblemBody};
pub use readiness::Readiness;

/// Longest body of a request, in bytes: what one frame of the protocol takes.
const BODY_BYTES_MAX: usize = MAX_FRAME_BYTES as usize;

/// How long a request may take, its body included, unless it is one that waits.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// What the routes may see of the broker. Cheap to clone.
#[derive(Clone)]
pub struct HttpState {
    metrics: Arc<Metrics>,
    readiness: Arc<Readiness>,
    access: Arc<Access>,
    broker: Arc<Shared>,
    feed: events::Feed,
    contracts: Arc<Contracts>,
    proto_text: Arc<dyn ProtoText>,
}

impl HttpState {
    /// The routes of `broker`; `proto_text` compiles what is uploaded as text.
    #[must_use]
    pub fn new(readiness: Arc<Readiness>, access: Access, broker: Arc<Shared>, proto_text: Arc<dyn ProtoText>) -> HttpState {
        HttpState {
            metrics: Arc::clone(&broker.metrics),
            readiness,
            access: Arc::new(access),
            broker,
            feed: events::Feed::default(),
            contracts: Arc::default(),
            proto_text,
        }
    }

    /// A session with the broker, under the name that `schema clients` shows.
    fn session(&self, client: &str) -> LocalSession {
        LocalSession::open(&self.broker, client)
    }

    fn access(&self) -> &Arc<Access> {
        &self.access
    }
}

/// Serves HTTP until `shutdown` completes; then answers what is in flight and returns. A client that stops in the middle of
/// its request can hold up the return, so a caller that must end bounds the wait.
pub async fn serve(listener: TcpListener, state: HttpState, shutdown: impl Future<Output = ()> + Send) {
    let connections_max = state.broker.config.http_connections;
    server::serve(listener, router(state), connections_max, shutdown).await;
}

/// Four groups of routes, by who may ask: anyone; whoever has the token; whoever is about to present it; and the rest, which browsers can
/// be tricked into asking and which therefore looks at Host and Origin too.
fn router(state: HttpState) -> Router {
    let mut document = openapi::head();
    // Methods that a route does not take are answered inside their group, so that its guard stands before them too.
    let mut group = |routes: OpenApiRouter<HttpState>| {
        let (router, described) = routes.split_for_parts();
        document.merge(described);
        router.method_not_allowed_fallback(method_not_allowed)
    };
    let access = state.access();
    let patient = api::patient_routes().route_layer(from_fn_with_state(api::PATIENCE, in_time));
    let prompt = api::routes().routes(routes!(asyncapi::asyncapi_json)).route_layer(from_fn_with_state(REQUEST_TIMEOUT, in_time));
    let events = OpenApiRouter::new().route("/api/v1/ws", any(events::events));
    let api = prompt.merge(patient).merge(events).route_layer(from_fn_with_state(state.clone(), when_ready));
    let scraped = group(scraped()).layer(from_fn_with_state(Arc::clone(access), access::require_token));
    let open = group(open().route_layer(from_fn_with_state(REQUEST_TIMEOUT, in_time)))
        .layer(from_fn_with_state(Arc::clone(access), access::without_token));
    let pages = dashboard::pages().route_layer(from_fn_with_state(state.clone(), when_ready));
    let pages = guarded().merge(pages).route_layer(from_fn_with_state(REQUEST_TIMEOUT, in_time));
    let guarded = group(pages.merge(api))
        .fallback(not_found)
        .layer(from_fn_with_state(Arc::clone(access), access::guard))
        .layer(from_fn(dashboard::instead_of_problems));
    let all = group(probes()).merge(scraped).merge(open).merge(guarded);
    openapi::complete(&mut document);
    all.layer(Extension(openapi::Document::new(&document)))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(access::careful))
        .with_state(state)
}

/// For anyone.
fn probes() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

/// For whoever has the token, under any name.
fn scraped() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(scrape))
}

/// For whoever is about to present the token: login pages, and WebSockets that speak HELLO.
fn open() -> OpenApiRouter<HttpState> {
    let login = OpenApiRouter::new().routes(routes!(login::login)).routes(routes!(login::logout));
    login.merge(dashboard::open()).route("/ws", any(ws::protocol))
}

/// For whoever has the token or a login, besides `api/`.
fn guarded() -> OpenApiRouter<HttpState> {
    OpenApiRouter::new().routes(routes!(openapi::openapi_json))
}

/// Middleware of what needs the shard, which a start may keep away for a while.
async fn when_ready(State(state): State<HttpState>, request: Request, next: Next) -> Response {
    match state.readiness.refusal() {
        Some("starting") => {
            let problem =
                ErrorCode::Starting.with("the broker reads what it has stored; /readyz says when it is done").retry_after_ms(1_000);
            Problem::from(problem).into_response()
        }
        _ => next.run(request).await,
    }
}

/// Middleware: an end to requests that take too long, mostly because their body does not come.
async fn in_time(State(limit): State<Duration>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let text = format!("the request took longer than {} s", limit.as_secs());
            Problem::new(ErrorCode::Timeout, text).with_status(StatusCode::REQUEST_TIMEOUT).into_response()
        }
    }
}

/// The process runs and answers
#[utoipa::path(get, path = "/healthz", tag = "operation", security(()), responses((status = 200, description = "It does", body = String, content_type = "text/plain")))]
async fn healthz() -> &'static str {
    "ok\n"
}

/// What is to be ready.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
struct ReadyQuery {
    /// Of a cluster only the node that leads.
    leader: bool,
}

/// The broker takes requests, or knows which node of its cluster does
#[utoipa::path(
    get, path = "/readyz", tag = "operation", security(()), params(ReadyQuery),
    responses(
        (status = 200, description = "It does", body = String, content_type = "text/plain"),
        (status = 400, description = "The query is no good", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "It is starting or draining, or a node that is not fit to follow, or, if that was asked, does not lead", body = String, content_type = "text/plain"),
    )
)]
async fn readyz(State(state): State<HttpState>, extract::Query(query): extract::Query<ReadyQuery>) -> Response {
    let status = || state.broker.cluster.as_ref().map(|cluster| cluster.status());
    let refusal = state.readiness.refusal().or_else(|| readiness::of_a_node(&status()?, query.leader));
    match refusal {
        None => "ready\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

/// Metrics for Prometheus
#[utoipa::path(
    get, path = "/metrics", tag = "operation",
    responses((status = 200, description = "In Prometheus's text format", body = String, content_type = "text/plain"))
)]
async fn scrape(State(state): State<HttpState>) -> Response {
    let most = if state.broker.config.metrics_per_queue == Some(true) { usize::MAX } else { metrics::QUEUES_ONE_BY_ONE };
    let stats = state.broker.stats(GroupsOf::AtMost(most)).await;
    let one_by_one = state.broker.config.metrics_per_queue;
    let text = match &state.broker.cluster {
        Some(cluster) => state.metrics.render_node(&stats, one_by_one, cluster),
        None => state.metrics.render(&stats, one_by_one),
    };
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

async fn not_found(request: Request) -> Problem {
    let text = format!("there is nothing at {}; /api/v1/openapi.json lists what there is", request.uri().path());
    Problem::new(ErrorCode::Unsupported, text).with_status(StatusCode::NOT_FOUND)
}

async fn method_not_allowed(request: Request) -> Problem {
    let text = format!("{} does not take {}; the header Allow lists what it takes", request.uri().path(), request.method());
    Problem::new(ErrorCode::Unsupported, text).with_status(StatusCode::METHOD_NOT_ALLOWED)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;

    use super::*;
    use crate::shard::Command;
    use crate::token::Token;

    /// A served broker whose parts the test holds.
    struct Served {
        address: std::net::SocketAddr,
        metrics: Arc<Metrics>,
        readiness: Arc<Readiness>,
        stop: oneshot::Sender<()>,
        task: tokio::task::JoinHandle<()>,
    }

    async fn serve_with(access: Access, queues: Vec<QueueStats>) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let readiness = Arc::new(Readiness::new());
        let (commands, asked) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            while let Ok(Command::Stats(_, _, reply)) = asked.recv() {
                let in_flight = queues.iter().map(|queue| queue.in_flight).sum();
                let _ = reply.send(Stats { queues: queues.clone(), in_flight, ..Stats::default() });
            }
        });
        let broker = Arc::new(Shared::in_tests(commands));
        let metrics = Arc::clone(&broker.metrics);
        let no_text = Arc::new(crate::proto_text::NoProtoText);
        let state = HttpState::new(Arc::clone(&readiness), access, broker, no_text);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve(listener, state, async move {
            let _ = stopped.await;
        }));
        Served { address, metrics, readiness, stop, task }
    }

    impl Served {
        /// Sends a GET with these header lines and returns the status and the whole answer.
        async fn get(&self, path: &str, headers: &str) -> (u16, String) {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            let status = answer.split(' ').nth(1).expect("a status line").parse().unwrap();
            (status, answer)
        }
    }

    const LOCAL: &str = "Host: localhost:9877\r\n";

    /// Guarded like all pages, and made without asking the shard, which here knows one answer.
    const PAGE: &str = "/api/v1/openapi.json";

    #[tokio::test]
    async fn readiness_is_503_until_ready_and_again_while_draining() {
        let served = serve_with(Access::new(None, &[], &[]), vec![]).await;
        assert_eq!(served.get("/healthz", LOCAL).await.0, 200);
        let (status, answer) = served.get("/readyz", LOCAL).await;
        assert_eq!(status, 503);
        assert!(answer.ends_with("starting\n"), "{answer}");
        served.readiness.set_ready();
        assert_eq!(served.get("/readyz", LOCAL).await.0, 200);
        served.readiness.set_draining();
        let (status, answer) = served.get("/readyz", LOCAL).await;
        assert_eq!(status, 503);
        assert!(answer.ends_with("draining\n"), "{answer}");
        assert_eq!(served.get("/healthz", LOCAL).await.0, 200);
    }

    #[tokio::test]
    async fn a_scrape_shows_counters_and_the_queues_of_that_moment() {
        let orders = QueueStats { name: "orders".into(), depth: 7, in_flight: 2, ..QueueStats::default() };
        let served = serve_with(Access::new(None, &[], &[]), vec![orders]).await;
        served.metrics.published.add(3);
        let (status, answer) = served.get("/metrics", "Host: prometheus-target\r\n").await;
        assert_eq!(status, 200);
        for line in [
            "content-type: text/plain; version=0.0.4; charset=utf-8\r\n",
            "\nqwerq_messages_published_total 3\n",
            "\nqwerq_messages_nacked_total 0\n",
            "\nqwerq_queue_depth{queue=\"orders\"} 7\n",
            "\nqwerq_in_flight_count 2\n",
        ] {
            assert!(answer.contains(line), "{line:?} in {answer}");
        }
    }

    #[tokio::test]
    async fn without_a_token_the_host_must_be_ours() {
        let served = serve_with(Access::new(None, &["Queue.Example".to_owned()], &[]), vec![]).await;
        for (host, status) in [
            ("Host: localhost\r\n", 200),
            ("Host: LOCALHOST:9877\r\n", 200),
            ("Host: 127.0.0.1:9877\r\n", 200),
            ("Host: 10.1.2.3\r\n", 200),
            ("Host: [::1]:9877\r\n", 200),
            ("Host: queue.example:9877\r\n", 200),
            ("Host: evil.example\r\n", 403),
            ("Host: evil.example:9877\r\n", 403),
            ("Host: localhost.evil.example\r\n", 403),
            ("Host: 127.0.0.1.evil.example\r\n", 403),
            ("Host: evil.example@localhost\r\n", 403),
            ("Host: localhost\r\nHost: evil.example\r\n", 403),
            ("Host: \r\n", 403),
            ("", 403),
            // Without a token to check, a token changes nothing.
            ("Host: evil.example\r\nAuthorization: Bearer t\r\n", 403),
        ] {
            assert_eq!(served.get(PAGE, host).await.0, status, "{host:?}");
        }
        let (status, answer) = served.get(PAGE, "Host: evil.example\r\n").await;
        assert_eq!(status, 403);
        assert!(answer.contains("evil.example") && answer.contains("--allowed-hosts"), "{answer}");
        for path in ["/healthz", "/metrics"] {
            assert_eq!(served.get(path, "Host: evil.example\r\n").await.0, 200, "{path}");
        }
        assert_eq!(served.get("/nothing", LOCAL).await.0, 404);
        assert_eq!(served.get("/nothing", "Host: evil.example\r\n").await.0, 403);
        assert_eq!(served.get("http://evil.example/", LOCAL).await.0, 403);
    }

    #[tokio::test]
    async fn a_token_closes_all_but_the_probes() {
        let served = serve_with(Access::new(Some(Token::new("s3cret")), &[], &[]), vec![]).await;
        served.readiness.set_ready();
        for (headers, status) in [
            ("", 401),
            ("Authorization: Bearer wrong\r\n", 401),
            ("Authorization: Basic s3cret\r\n", 401),
            ("Authorization: s3cret\r\n", 401),
            ("Authorization: Bearer wrong\r\nAuthorization: Bearer s3cret\r\n", 401),
            ("Authorization: Bearer s3cret\r\n", 200),
            ("authorization: bearer s3cret\r\n", 200),
        ] {
            for path in [PAGE, "/metrics"] {
                let headers = format!("Host: anything.example\r\n{headers}");
                assert_eq!(served.get(path, &headers).await.0, status, "{path} {headers:?}");
            }
            for path in ["/healthz", "/readyz"] {
                assert_eq!(served.get(path, &format!("{LOCAL}{headers}")).await.0, 200, "{path} {headers:?}");
            }
        }
        assert_eq!(served.get("/nothing", LOCAL).await.0, 401);
        let (_, answer) = served.get(PAGE, LOCAL).await;
        assert!(answer.contains("www-authenticate: Bearer\r\n"), "{answer}");
    }

    #[tokio::test]
    async fn serve_returns_after_shutdown() {
        let served = serve_with(Access::new(None, &[], &[]), vec![]).await;
        assert_eq!(served.get("/healthz", LOCAL).await.0, 200);
        served.stop.send(()).expect("the server waits for it");
        served.task.await.unwrap();
    }
}
