//! What stands in for a broker when a handler publishes or calls: takes every publish and keeps it, and has services answer calls. It holds no
//! queue and delivers nothing; workers are driven by `worker`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use qwerq_proto::{ErrorCode, FrameDecoder, MAX_FRAME_BYTES, Opcode, PROTOCOL_VERSION, encode_frame, wire};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use crate::builder::Reconnect;
use crate::call::CallInfo;
use crate::client::Client;
use crate::dial::Dial;
use crate::id::MessageId;
use crate::lock::Lock;
use crate::message::{Headers, Message, PublishOptions};
use crate::serving::{Method, Serve};
use crate::wire_time::from_epoch_millis;

/// Bytes that wait between client and stand-in before a writer waits.
const STREAM_BYTES: usize = 64 * 1024;

/// Stands in for a broker, for handlers that hold a client: to publish, and to call services.
#[derive(Debug, Default)]
#[must_use = "nobody is connected to it before `connect`"]
pub struct StandIn {
    methods: Vec<Method>,
}

/// What was published to a [`StandIn`].
#[derive(Debug, Clone, Default)]
pub struct Outbox(Arc<Lock<Vec<Outgoing>>>);

/// A message that was published.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outgoing {
    /// The queue that it went to.
    pub queue: String,
    /// Payload, headers, keys.
    pub message: Message,
}

impl Outbox {
    /// What was published so far, in order. A publish that returned is in it.
    #[must_use]
    pub fn published(&self) -> Vec<Outgoing> {
        self.0.lock().clone()
    }
}

impl Outgoing {
    /// The message as a consumer would read it.
    ///
    /// # Errors
    /// When the payload is no such message.
    pub fn decode<M: prost::Message + Default>(&self) -> Result<M, prost::DecodeError> {
        M::decode(self.message.payload.clone())
    }

    fn of(queue: &str, item: wire::PublishItem) -> Outgoing {
        let text = |text: String| Some(text).filter(|text| !text.is_empty());
        let options = PublishOptions {
            headers: Headers::from_wire(item.headers),
            ordering_key: text(item.ordering_key),
            idempotency_key: text(item.idempotency_key),
            delay: item.delay_ms.map(Duration::from_millis),
            deliver_at: item.deliver_at_ms.map(from_epoch_millis),
            ttl: item.ttl_ms.map(Duration::from_millis),
            id: MessageId::from_slice(&item.id),
        };
        Outgoing { queue: queue.to_owned(), message: Message { payload: item.payload, options } }
    }
}

impl StandIn {
    /// Takes publishes; calls find nobody.
    pub fn new() -> StandIn {
        StandIn::default()
    }

    /// Has a service answer calls.
    pub fn service(mut self, server: impl Serve) -> StandIn {
        self.methods.extend(server.methods());
        self
    }

    /// A client of it, and where its publishes are found. Whatever is neither publish nor call is refused as `unsupported`.
    ///
    /// # Panics
    /// Never: nothing can keep it from connecting.
    pub async fn connect(self) -> (Client, Outbox) {
        let (outbox, methods) = (Outbox::default(), Arc::new(self.methods));
        let dial = Dial::new({
            let outbox = outbox.clone();
            move |_| {
                let (near, far) = tokio::io::duplex(STREAM_BYTES);
                let connection = Connection { outbox: outbox.clone(), methods: Arc::clone(&methods) };
                // It ends with the client's end of the stream.
                tokio::spawn(connection.run(far));
                std::future::ready(Ok(near))
            }
        });
        let builder = Client::builder("stand-in").dial(dial).reconnect(Reconnect::never());
        (builder.connect().await.expect("HELLO is answered"), outbox)
    }
}

/// One client's connection.
struct Connection {
    outbox: Outbox,
    methods: Arc<Vec<Method>>,
}

/// Frames on their way to the client.
type Out = mpsc::UnboundedSender<BytesMut>;

impl Connection {
    async fn run(self, stream: DuplexStream) {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let (out, mut frames) = mpsc::unbounded_channel::<BytesMut>();
        let write = async {
            while let Some(frame) = frames.recv().await {
                writer.write_all(&frame).await?;
            }
            writer.shutdown().await
        };
        let read = async move {
            let (decoder, mut input) = (FrameDecoder::new(MAX_FRAME_BYTES), BytesMut::new());
            loop {
                while let Some(frame) = decoder.decode(&mut input).map_err(io::Error::other)? {
                    let opcode = Opcode::from_u8(frame.opcode).ok_or_else(|| io::Error::other("an unknown opcode"))?;
                    self.take(opcode, frame.request_id, frame.payload, &out).map_err(io::Error::other)?;
                }
                if reader.read_buf(&mut input).await? == 0 {
                    return Ok(());
                }
            }
        };
        // Whatever ends it, the client sees that the stream has ended.
        let _: (io::Result<()>, io::Result<()>) = tokio::join!(read, write);
    }

    fn take(&self, opcode: Opcode, id: Option<u32>, payload: Bytes, out: &Out) -> Result<(), prost::DecodeError> {
        match opcode {
            Opcode::Hello => {
                let ack = wire::HelloAck {
                    protocol: PROTOCOL_VERSION,
                    max_frame_bytes: MAX_FRAME_BYTES,
                    // A test may pause the clock, and then hours pass in a moment.
                    heartbeat_ms: u32::MAX / 4,
                    ..wire::HelloAck::default()
                };
                say(out, Opcode::HelloAck, id, &ack);
            }
            Opcode::Publish => say(out, Opcode::PublishAck, id, &self.publish(wire::Publish::decode(payload)?)),
            Opcode::Call => self.call(wire::Call::decode(payload)?, id, out.clone()),
            Opcode::Heartbeat | Opcode::Cancel => {}
            _ => {
                let text = format!("what stands in for a broker in tests takes publishes and calls, not {}", opcode.name());
                say(out, Opcode::Error, id, &ErrorCode::Unsupported.with(text));
            }
        }
        Ok(())
    }

    fn publish(&self, publish: wire::Publish) -> wire::PublishAck {
        let mut published = self.outbox.0.lock();
        let results = publish.items.into_iter().map(|item| {
            let seq = published.len() as u64;
            let outgoing = Outgoing::of(&publish.queue, item);
            let id = outgoing.message.options.id.unwrap_or(MessageId(u128::from(seq).to_be_bytes()));
            published.push(outgoing);
            wire::PublishResult { id: Bytes::copy_from_slice(id.as_bytes()), seq: Some(seq), ..wire::PublishResult::default() }
        });
        wire::PublishAck { results: results.collect(), durability: wire::Durability::None.into(), contract_unknown: false }
    }

    /// Answers beside the connection, since a handler may call while it is called.
    fn call(&self, call: wire::Call, id: Option<u32>, out: Out) {
        let Some(method) = self.methods.iter().find(|method| method.queue() == call.queue).cloned() else {
            let text = format!("no service of the test answers {}", call.queue);
            return say(&out, Opcode::Error, id, &ErrorCode::NoResponders.with(text));
        };
        let info = CallInfo {
            headers: Headers::from_wire(call.headers),
            schema_version: 0,
            deadline: tokio::time::Instant::now() + Duration::from_millis(call.timeout_ms),
        };
        tokio::spawn(async move {
            let response = match method.answer(call.payload, info).await {
                Ok(payload) => wire::CallResponse { payload, ..wire::CallResponse::default() },
                Err(status) => wire::CallResponse { error: Some(status.code.with(status.message)), ..wire::CallResponse::default() },
            };
            say(&out, Opcode::CallResponse, id, &response);
        });
    }
}

fn say(out: &Out, opcode: Opcode, id: Option<u32>, message: &impl prost::Message) {
    let mut frame = BytesMut::new();
    encode_frame(&mut frame, opcode, id, message);
    // A client that has gone needs no answer.
    let _ = out.send(frame);
}
