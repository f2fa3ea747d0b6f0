//! The publish page: a form that is made from the contract, or without one a text whose bytes are the payload.

use askama::Template;
use axum::response::Response;

use super::asked::QueueName;
use super::duration;
use super::form::{MessageForm, forms};
use super::frame::{ErrorPage, Frame, Section, page};
use super::queue_head::{QueueHead, Tab};
use super::visit::Visit;

#[derive(Template)]
#[template(path = "publish.html")]
struct PublishPage {
    frame: Frame,
    head: QueueHead,
    /// Empty without a contract.
    root_type: String,
    contract: String,
    delay: String,
    ttl: String,
    messages: Vec<MessageForm>,
}

/// A form that publishes to a queue
#[utoipa::path(
    get, path = "/queues/{queue}/publish", tag = "dashboard", params(("queue" = String, Path, description = "Name of the queue")),
    responses(
        (status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 404, description = "A page that says that there is no such queue", body = String, content_type = "text/html"),
    )
)]
pub(super) async fn publish(mut visit: Visit, QueueName(name): QueueName) -> Result<Response, ErrorPage> {
    let queue = visit.queue(&name).await?;
    let head = QueueHead::of(&mut visit, &queue, Tab::Publish).await?;
    let readable = visit.contract(&name, 0).await;
    let root = readable.as_ref().and_then(|readable| Some((&readable.version, readable.message.as_ref()?)));
    let options = queue.options.unwrap_or_default();
    let or_none = |ms: Option<u64>| ms.filter(|ms| *ms > 0).map_or_else(|| "none".to_owned(), duration::shown);
    let (root_type, contract, messages) = match root {
        Some((version, message)) => {
            (message.full_name().to_owned(), format!("{} v{}", version.contract.message_type(), version.version), forms(message))
        }
        None => Default::default(),
    };
    Ok(page(&PublishPage {
        frame: visit.frame(format!("Publish to {name}"), if head.is_stream { Section::Streams } else { Section::Queues }),
        head,
        root_type,
        contract,
        delay: or_none(options.delay_ms),
        ttl: or_none(options.message_ttl_ms),
        messages,
    }))
}
