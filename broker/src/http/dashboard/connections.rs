//! Who is connected, and what each consumes.

use askama::Template;
use axum::response::Response;

use super::consumer::{self, ConsumerView};
use super::frame::{Frame, Section, page};
use super::quantity::counted;
use super::visit::Visit;

struct ConnectionView {
    client: String,
    number: String,
    subscriptions: String,
    in_flight: String,
}

#[derive(Template)]
#[template(path = "connections.html")]
struct ConnectionsPage {
    frame: Frame,
    summary: String,
    connections: Vec<ConnectionView>,
    show_queue: bool,
    consumers: Vec<ConsumerView>,
}

/// The connections
#[utoipa::path(get, path = "/connections", tag = "dashboard", responses((status = 200, description = "The page", body = String, content_type = "text/html")))]
pub(super) async fn connections(visit: Visit) -> Response {
    let connections: Vec<ConnectionView> = Vec::new();
    let consumers = consumer::of(&visit, None).await;
    let summary = counted(connections.len() as u64, "connection", "connections");
    page(&ConnectionsPage { frame: visit.frame("Connections", Section::Connections), summary, connections, show_queue: true, consumers })
}
