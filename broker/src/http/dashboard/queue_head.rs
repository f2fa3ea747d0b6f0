//! The top of every page about one queue: its name, what it is, what is wrong with it, and the way to its other pages.

use qwerq_proto::{Opcode, name, wire};

use crate::http::quantity::count;
use crate::http::trouble::{Signs, TroubleView};

use super::frame::ErrorPage;
use super::visit::Visit;

/// A page of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Overview,
    Messages,
    Publish,
    DeadLetters,
    Contract,
    Options,
}

/// A link to one of them.
pub(super) struct TabView {
    pub(super) text: &'static str,
    pub(super) href: String,
    pub(super) is_current: bool,
    /// How many dead letters there are, if there are.
    pub(super) count: Option<String>,
}

/// What queue_head.html prints.
pub(super) struct QueueHead {
    pub(super) name: String,
    /// Where one came from: address and words.
    pub(super) up: (&'static str, &'static str),
    pub(super) is_stream: bool,
    pub(super) mode: String,
    pub(super) schema_mode: String,
    pub(super) troubles: Vec<TroubleView>,
    pub(super) tabs: Vec<TabView>,
    /// Dead letters of the queue.
    pub(super) dead: u64,
}

impl QueueHead {
    /// The head of `queue`'s page `tab`.
    pub(super) async fn of(visit: &mut Visit, queue: &wire::QueueInfo, tab: Tab) -> Result<QueueHead, ErrorPage> {
        let is_dlq = name::is_dlq(&queue.name);
        let dead = if is_dlq { 0 } else { dead_letters(visit, &queue.name).await };
        let options = queue.options.clone().unwrap_or_default();
        let mode = options.mode.unwrap_or_default();
        let is_stream = mode == "stream";
        let here = |suffix: &str| format!("/queues/{}{suffix}", queue.name);
        let all = [
            (Tab::Overview, "Overview", here(""), true),
            (Tab::Messages, "Messages", here("/messages"), true),
            (Tab::Publish, "Publish", here("/publish"), !is_dlq),
            (Tab::DeadLetters, "Dead letters", here("/dead-letters"), !is_dlq),
            (Tab::Contract, "Contract", here("/contract"), !is_dlq),
            (Tab::Options, "Options", here("/options"), true),
        ];
        let tabs = all.into_iter().filter(|(.., is_there)| *is_there).map(|(of, text, href, _)| TabView {
            text,
            href,
            is_current: of == tab,
            count: (of == Tab::DeadLetters && dead > 0).then(|| count(dead)),
        });
        Ok(QueueHead {
            name: queue.name.clone(),
            up: if is_stream { ("/streams", "Streams") } else { ("/", "Queues") },
            is_stream,
            schema_mode: options.schema_mode.unwrap_or_default(),
            troubles: Signs::of_info(queue, dead).troubles().into_iter().map(TroubleView::from).collect(),
            tabs: tabs.collect(),
            dead,
            mode,
        })
    }
}

/// How many dead letters a queue has. A queue without a dead letter queue has none.
async fn dead_letters(visit: &mut Visit, queue: &str) -> u64 {
    let request = wire::QueueName { name: format!("{queue}.dlq") };
    visit.try_ask::<wire::QueueInfo>(Opcode::QueueInfo, &request).await.map_or(0, |dlq| dlq.depth)
}
