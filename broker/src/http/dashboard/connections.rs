//! Who is connected, and what each consumes.

use askama::Template;
use axum::response::Response;

use crate::http::api::clients::{Connection, connected};
use crate::http::quantity::{count, counted};

use super::consumer::{self, ConsumerView};
use super::frame::{ErrorPage, Frame, Section, page};
use super::visit::Visit;

struct ConnectionView {
    client: String,
    number: String,
    peer: String,
    since: String,
    consumers: String,
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
pub(super) async fn connections(visit: Visit) -> Result<Response, ErrorPage> {
    let consumers = consumer::of(&visit, None).await?;
    let connections: Vec<ConnectionView> = connected(visit.state(), &consumers).into_iter().map(ConnectionView::from).collect();
    Ok(page(&ConnectionsPage {
        frame: visit.frame("Clients", Section::Connections),
        summary: counted(connections.len() as u64, "connection", "connections"),
        connections,
        show_queue: true,
        consumers: consumers.into_iter().map(ConsumerView::from).collect(),
    }))
}

impl From<Connection> for ConnectionView {
    fn from(connection: Connection) -> ConnectionView {
        ConnectionView {
            client: connection.client,
            peer: connection.peer,
            since: connection.connected_at,
            number: connection.session.to_string(),
            consumers: count(connection.consumers as u64),
            in_flight: count(connection.in_flight),
        }
    }
}
