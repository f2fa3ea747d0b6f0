//! A session without a socket: HTTP asks the broker through it, exactly as a client asks through its connection.
//!
//! Requests go through `requests::handle` and come back through an outbox, so no rule of the broker is written a second time for HTTP. It
//! knows neither JSON nor paths; those are `http/api/`'s.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use prost::Message;
use qwerq_core::SessionId;
use qwerq_proto::{ErrorCode, Frame, FrameDecoder, MAX_FRAME_BYTES, Opcode, wire};

use crate::shard::{Command, Outbox, Window};

use super::{Shared, requests};

/// A session of this process, open until it is dropped. What it asked for and did not wait to hear is cancelled then.
#[derive(Debug)]
pub struct LocalSession {
    shared: Arc<Shared>,
    session: SessionId,
    outbox: Arc<Outbox>,
    window: Arc<Window>,
    received: BytesMut,
    last_request: u32,
}

impl LocalSession {
    /// Opens a session; `client` is what `schema clients` calls it.
    #[must_use]
    pub fn open(shared: &Arc<Shared>, client: &str) -> LocalSession {
        let session = shared.new_session();
        let (outbox, window) = (Arc::new(Outbox::default()), Arc::new(Window::default()));
        shared.calls.opened(session, Arc::clone(&outbox));
        let opened = Command::Opened {
            session,
            outbox: Arc::clone(&outbox),
            window: Arc::clone(&window),
            client: client.to_owned(),
            schema_events: false,
            any_node: false,
        };
        shared.send(opened);
        LocalSession { shared: Arc::clone(shared), session, outbox, window, received: BytesMut::new(), last_request: 0 }
    }

    /// What all sessions share.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Asks for something whose answer is an `Answer`.
    ///
    /// # Errors
    /// What the broker refuses it with.
    pub async fn ask<Answer: Message + Default>(&mut self, opcode: Opcode, request: &impl Message) -> Result<Answer, wire::Error> {
        let frame = self.ask_frame(opcode, request).await?;
        Answer::decode(frame.payload).map_err(|error| {
            tracing::error!(opcode = opcode.name(), %error, "the broker does not understand its own answer");
            ErrorCode::Internal.with(format!("the answer to {} cannot be read", opcode.name()))
        })
    }

    /// Asks, and gives the answer as it comes.
    ///
    /// # Errors
    /// What the broker refuses it with.
    pub async fn ask_frame(&mut self, opcode: Opcode, request: &impl Message) -> Result<Frame, wire::Error> {
        let length = request.encoded_len();
        if length > MAX_FRAME_BYTES as usize {
            let text = format!("the request has {length} bytes, at most {MAX_FRAME_BYTES} fit one frame");
            return Err(ErrorCode::FrameTooLarge.with(text).detail("bytes", length).detail("limit", MAX_FRAME_BYTES));
        }
        self.last_request += 1;
        let request_id = Some(self.last_request);
        let frame = Frame { opcode: opcode as u8, request_id, payload: Bytes::from(request.encode_to_vec()) };
        requests::handle(&self.shared, self.session, &self.window, frame, Instant::now()).await?;
        loop {
            let frame = self.next_frame().await?;
            // Answers to what an earlier caller gave up on come as well; nobody waits for them.
            // An error of no request ends the session, as when this node does not lead its cluster.
            if frame.request_id != request_id && !(frame.request_id.is_none() && frame.opcode == Opcode::Error as u8) {
                continue;
            }
            return match frame.opcode == Opcode::Error as u8 {
                false => Ok(frame),
                true => Err(wire::Error::decode(frame.payload)
                    .unwrap_or_else(|_| ErrorCode::Internal.with(format!("the refusal of {} cannot be read", opcode.name())))),
            };
        }
    }

    async fn next_frame(&mut self) -> Result<Frame, wire::Error> {
        // Answers are as large as the broker makes them; the limit is there for peers that are not trusted.
        let decoder = FrameDecoder::new(u32::MAX);
        loop {
            let decoded = decoder.decode(&mut self.received);
            match decoded.map_err(|error| ErrorCode::Internal.with(format!("the broker's answer is broken: {error}")))? {
                Some(frame) => return Ok(frame),
                None => match self.outbox.take(Vec::new()).await {
                    Some(frames) => self.received.extend_from_slice(&frames),
                    None => return Err(ErrorCode::Draining.with("the broker is shutting down; repeat the request when it is back")),
                },
            }
        }
    }
}

impl Drop for LocalSession {
    fn drop(&mut self) {
        self.shared.calls.closed(self.session, false);
        self.shared.send(Command::Closed { session: self.session, graceful: true });
    }
}
