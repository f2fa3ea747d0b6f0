//! `/api/v1/ws`: what happens, as JSON, once a second, for the dashboard and whoever else watches. docs/events.md is the reference.
//!
//! One task samples the broker for all who watch, and none when nobody does. Each of them looks at the newest sample only: who reads
//! slowly misses ticks and costs no memory. Read on in `feed.rs`, `rates.rs` and `view.rs`.

mod feed;
mod rates;
mod view;

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use qwerq_proto::{Opcode, wire};
use tokio::time::timeout;

use crate::net::LocalSession;

use super::HttpState;
use super::server::Peer;
pub(super) use feed::Feed;
use feed::Sample;
use view::{Event, GroupView, Watch};

/// Longest message of a client, in bytes.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// How long a client may take to read one event.
const PATIENCE: Duration = Duration::from_secs(30);

/// Opens the stream of events.
pub(super) async fn events(State(state): State<HttpState>, peer: Option<Extension<Peer>>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.max_message_size(REQUEST_BYTES_MAX).max_frame_size(REQUEST_BYTES_MAX).on_upgrade(|socket| async move {
        // However it ends, nobody is left to hear of it.
        let _ = Watcher::new(socket, state).run().await;
        // It was one of the connections that there may be until now.
        drop(peer);
    })
}

/// Nothing can be said any more.
struct Gone;

/// One client.
struct Watcher {
    socket: WebSocket,
    state: HttpState,
    watch: Watch,
    /// For what the samples do not have; opened when it is needed.
    session: Option<LocalSession>,
}

impl Watcher {
    fn new(socket: WebSocket, state: HttpState) -> Watcher {
        Watcher { socket, state, watch: Watch::default(), session: None }
    }

    async fn run(mut self) -> Result<(), Gone> {
        let mut draining = self.state.broker.draining();
        let mut samples = self.state.feed.subscribe(&self.state.broker);
        let mut greeted = false;
        loop {
            tokio::select! {
                biased;
                () = async { drop(draining.wait_for(|draining| *draining).await) } => {
                    let close = CloseFrame { code: close_code::AWAY, reason: "the broker is shutting down".into() };
                    return self.send(Message::Close(Some(close))).await;
                }
                message = self.socket.recv() => match message {
                    Some(Ok(Message::Text(text))) => {
                        self.request(text.as_str()).await?;
                        // What it asks for it sees at once.
                        if greeted {
                            let sample = samples.borrow().clone();
                            self.tell(sample.as_deref(), true).await?;
                        }
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(Message::Binary(_))) => self.complain("events are asked for in text messages").await?,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Gone),
                },
                changed = samples.changed() => {
                    changed.map_err(|_| Gone)?;
                    let sample = samples.borrow_and_update().clone();
                    self.tell(sample.as_deref(), !greeted).await?;
                    greeted |= sample.is_some();
                }
            }
        }
    }

    /// Takes a request; a wrong one changes nothing and is answered.
    async fn request(&mut self, text: &str) -> Result<(), Gone> {
        match Watch::parse(text) {
            Ok(watch) => {
                self.watch = watch;
                Ok(())
            }
            Err(error) => self.complain(&error).await,
        }
    }

    async fn complain(&mut self, message: &str) -> Result<(), Gone> {
        self.event(&Event::Error { message }).await
    }

    async fn tell(&mut self, sample: Option<&Sample>, is_snapshot: bool) -> Result<(), Gone> {
        let Some(sample) = sample else { return Ok(()) };
        for change in &sample.changes {
            if !is_snapshot {
                self.event(&Event::Schema { queue: &change.queue, version: change.version, before: change.before }).await?;
            }
        }
        let mut groups = Vec::new();
        for queue in self.watch.with_groups().to_vec() {
            if let Some(of_queue) = self.groups(&queue).await {
                groups.push((queue, of_queue));
            }
        }
        let moment = view::Moment::of(sample, &self.watch, groups);
        let event = if is_snapshot { Event::Snapshot(moment) } else { Event::Tick(moment) };
        self.event(&event).await
    }

    /// The groups of a queue, asked as any client asks; `None`: there is no such queue.
    async fn groups(&mut self, queue: &str) -> Option<Vec<GroupView>> {
        let session = match &mut self.session {
            Some(session) => session,
            none => none.insert(self.state.session("dashboard")),
        };
        let asked = wire::QueueName { name: queue.to_owned() };
        let info: wire::QueueInfo = session.ask(Opcode::QueueInfo, &asked).await.ok()?;
        Some(info.groups.into_iter().map(GroupView::from).collect())
    }

    async fn event(&mut self, event: &Event<'_>) -> Result<(), Gone> {
        let text = serde_json::to_string(event).expect("an event is made of text, numbers and lists");
        self.send(Message::Text(text.into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Gone> {
        match timeout(PATIENCE, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }
}

/// The newest sample, as it is passed around.
type Newest = Option<Arc<Sample>>;
