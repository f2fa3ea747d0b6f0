//! The message browser: what a queue or stream holds, page by page, found by position, key or text. Looking leases nothing.

use askama::Template;
use axum::response::Response;
use qwerq_proto::{Opcode, wire};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::quantity::{count, counted};

use super::asked::{Asked, QueueName};
use super::frame::{ErrorPage, Frame, Section, page};
use super::link::encoded;
use super::message::{Contracts, MessageView};
use super::pager::Pager;
use super::queue_head::{QueueHead, Tab};
use super::visit::Visit;

/// Messages of one page.
const ROWS: usize = 50;

/// Messages that one request to the shard gives.
const PEEKED: u32 = 200;

/// Messages that one page looks at when it looks for something.
const LOOKED_AT_MAX: usize = 5_000;

/// What is looked for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct Sought {
    /// First position.
    from: String,
    /// The whole ordering key.
    key: String,
    /// Part of the payload's text, of an id or of a header.
    text: String,
}

impl Sought {
    fn is_anything(&self) -> bool {
        self.key.is_empty() && self.text.is_empty()
    }

    fn matches(&self, message: &wire::Delivered) -> bool {
        (self.key.is_empty() || message.ordering_key == self.key) && (self.text.is_empty() || self.is_in(message))
    }

    fn is_in(&self, message: &wire::Delivered) -> bool {
        let text = self.text.as_bytes();
        let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        let headers = || message.headers.iter().any(|header| header.name.contains(&self.text) || header.value.contains(&self.text));
        holds(&message.payload) || headers() || super::message::id_text(&message.id) == self.text
    }
}

#[derive(Template)]
#[template(path = "messages.html")]
struct MessagesPage {
    frame: Frame,
    head: QueueHead,
    from_word: &'static str,
    from: String,
    key: String,
    text: String,
    messages: Vec<MessageView>,
    nothing: &'static str,
    pager: Pager,
}

/// The messages of a queue
#[utoipa::path(
    get, path = "/queues/{queue}/messages", tag = "dashboard", params(("queue" = String, Path, description = "Name of the queue"), Sought),
    responses(
        (status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 404, description = "A page that says that there is no such queue", body = String, content_type = "text/html"),
    )
)]
pub(super) async fn messages(mut visit: Visit, QueueName(name): QueueName, Asked(sought): Asked<Sought>) -> Result<Response, ErrorPage> {
    let queue = visit.queue(&name).await?;
    let head = QueueHead::of(&mut visit, &queue, Tab::Messages).await?;
    // A stream is read from the end backwards by people: what came last is what they look for.
    let from = match sought.from.trim().parse() {
        Ok(from) => from,
        Err(_) if head.is_stream => queue.next_seq.saturating_sub(ROWS as u64).max(queue.first_seq),
        Err(_) => queue.first_seq,
    };
    let found = find(&mut visit, &name, &sought, from).await?;
    let pager = found.pager(&name, &sought, from, queue.first_seq);
    let mut contracts = Contracts::of(&name);
    let mut messages = Vec::with_capacity(found.messages.len());
    for message in found.messages {
        messages.push(contracts.view(&mut visit, message).await);
    }
    Ok(page(&MessagesPage {
        frame: visit.frame(format!("Messages of {name}"), if head.is_stream { Section::Streams } else { Section::Queues }),
        from_word: if head.is_stream { "From offset" } else { "From position" },
        head,
        from: from.to_string(),
        nothing: if sought.is_anything() { "No messages from here on." } else { "Nothing of that kind among what was looked at." },
        key: sought.key,
        text: sought.text,
        messages,
        pager,
    }))
}

struct Found {
    messages: Vec<wire::Delivered>,
    looked_at: usize,
    /// Where to go on; `None`: that is all.
    next: Option<u64>,
}

/// Looks from `from` on for what is sought, at a bounded number of messages.
async fn find(visit: &mut Visit, queue: &str, sought: &Sought, from: u64) -> Result<Found, ErrorPage> {
    let mut found = Found { messages: Vec::new(), looked_at: 0, next: Some(from) };
    let max = if sought.is_anything() { u32::try_from(ROWS).expect("50") + 1 } else { PEEKED };
    while let Some(from_seq) = found.next.filter(|_| found.looked_at < LOOKED_AT_MAX) {
        let peek = wire::Peek { queue: queue.to_owned(), from_seq, max, ..wire::Peek::default() };
        let peeked: wire::Fetched = visit.ask(Opcode::Peek, &peek).await?;
        found.next = None;
        for message in peeked.messages {
            let seq = message.seq;
            if sought.matches(&message) {
                if found.messages.len() == ROWS {
                    found.next = Some(seq);
                    return Ok(found);
                }
                found.messages.push(message);
            }
            found.looked_at += 1;
            found.next = Some(seq + 1);
        }
    }
    Ok(found)
}

impl Found {
    fn pager(&self, queue: &str, sought: &Sought, from: u64, first: u64) -> Pager {
        let link = |from: u64| format!("/queues/{queue}/messages?from={from}&key={}&text={}", encoded(&sought.key), encoded(&sought.text));
        let words = match sought.is_anything() {
            true => String::new(),
            false => format!("{} of {} found", count(self.messages.len() as u64), counted(self.looked_at as u64, "message", "messages")),
        };
        Pager {
            words,
            previous: (from > first).then(|| link(from.saturating_sub(ROWS as u64).max(first))),
            previous_text: "Earlier",
            next: self.next.map(link),
            next_text: "Later",
        }
    }
}
