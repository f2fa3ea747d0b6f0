//! A broker that does what the test says, frame by frame, over in-memory streams: no ports, and with paused time fully deterministic.

#![expect(clippy::unwrap_used, reason = "tests panic when something is not as scripted")]
#![expect(dead_code, reason = "each test binary uses its own part of this")]

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use qwerq::proto::{Frame, FrameDecoder, MAX_FRAME_BYTES, Opcode, encode_frame, wire};
use qwerq::{Client, ClientBuilder, Dial, Message};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

/// Bytes that a stream holds before its writer waits.
const STREAM_BYTES: usize = 1024 * 1024;

/// Where the client's connections arrive.
pub(crate) struct Broker {
    arriving: mpsc::UnboundedReceiver<(String, DuplexStream)>,
}

/// A way to dial, and the broker at its end.
pub(crate) fn broker() -> (Dial, Broker) {
    broker_with(STREAM_BYTES)
}

/// The same with streams that hold so many bytes.
pub(crate) fn broker_with(stream_bytes: usize) -> (Dial, Broker) {
    let (arrive, arriving) = mpsc::unbounded_channel();
    let arrive = Arc::new(arrive);
    let dial = Dial::new(move |address: String| {
        let arrive = Arc::clone(&arrive);
        async move {
            let (near, far) = tokio::io::duplex(stream_bytes);
            let refused = |_| std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            arrive.send((address, far)).map_err(refused)?;
            Ok(near)
        }
    });
    (dial, Broker { arriving })
}

/// A client with default settings, and its first connection.
pub(crate) async fn connected() -> (Client, Peer, Broker) {
    let (dial, broker) = broker();
    connect(Client::builder("test").dial(dial), broker).await
}

/// A client with those settings, and its first connection.
pub(crate) async fn connect(builder: ClientBuilder, mut broker: Broker) -> (Client, Peer, Broker) {
    let (client, peer) = tokio::join!(builder.connect(), broker.accept());
    (client.unwrap(), peer, broker)
}

impl Broker {
    /// The next connection, before HELLO.
    pub(crate) async fn arrival(&mut self) -> (String, Peer) {
        let (address, stream) = self.arriving.recv().await.unwrap();
        (address, Peer::new(stream))
    }

    /// The next connection, with HELLO answered by default limits.
    pub(crate) async fn accept(&mut self) -> Peer {
        self.accept_with(hello_ack()).await
    }

    /// The next connection, with HELLO answered by `ack`.
    pub(crate) async fn accept_with(&mut self, ack: wire::HelloAck) -> Peer {
        let (_, mut peer) = self.arrival().await;
        peer.hello(ack).await;
        peer
    }
}

/// What a broker with default settings agrees to.
pub(crate) fn hello_ack() -> wire::HelloAck {
    wire::HelloAck {
        protocol: 1,
        max_frame_bytes: MAX_FRAME_BYTES,
        max_message_bytes: 1024 * 1024,
        publish_window_requests: 1024,
        publish_window_bytes: 16 * 1024 * 1024,
        heartbeat_ms: 10_000,
        ..wire::HelloAck::default()
    }
}

/// The broker's end of one connection. Dropped, the connection is lost.
pub(crate) struct Peer {
    stream: Box<dyn qwerq::Stream>,
    input: BytesMut,
    decoder: FrameDecoder,
}

impl Peer {
    pub(crate) fn new(stream: impl qwerq::Stream + 'static) -> Peer {
        Peer { stream: Box::new(stream), input: BytesMut::new(), decoder: FrameDecoder::new(MAX_FRAME_BYTES) }
    }

    /// The next frame, heartbeats included; `None` at the end of the stream.
    pub(crate) async fn any_frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.input).unwrap() {
                return Some(frame);
            }
            if self.stream.read_buf(&mut self.input).await.unwrap() == 0 {
                return None;
            }
        }
    }

    /// The next frame that is no heartbeat.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        loop {
            let frame = self.any_frame().await?;
            if frame.opcode != Opcode::Heartbeat as u8 {
                return Some(frame);
            }
        }
    }

    /// The next frame, which must carry that.
    pub(crate) async fn expect<M: prost::Message + Default>(&mut self, opcode: Opcode) -> (Option<u32>, M) {
        let frame = self.frame().await.unwrap_or_else(|| panic!("the client hung up instead of {}", opcode.name()));
        let got = Opcode::from_u8(frame.opcode).unwrap();
        assert_eq!(got.name(), opcode.name());
        (frame.request_id, M::decode(frame.payload).unwrap())
    }

    /// Waits for the client to hang up; until then only heartbeats may come.
    pub(crate) async fn expect_end(&mut self) {
        let frame = self.frame().await;
        assert!(frame.is_none(), "{frame:?}");
    }

    /// Reads into nothing until the client hangs up.
    pub(crate) async fn drain(&mut self) {
        while self.any_frame().await.is_some() {}
    }

    pub(crate) async fn send(&mut self, opcode: Opcode, id: Option<u32>, message: &impl prost::Message) {
        let mut out = BytesMut::new();
        encode_frame(&mut out, opcode, id, message);
        self.stream.write_all(&out).await.unwrap();
    }

    /// Reads HELLO and agrees to `ack`.
    pub(crate) async fn hello(&mut self, ack: wire::HelloAck) -> wire::Hello {
        let (id, hello) = self.expect::<wire::Hello>(Opcode::Hello).await;
        self.send(Opcode::HelloAck, id, &ack).await;
        hello
    }

    /// Reads a PUBLISH.
    pub(crate) async fn publish(&mut self) -> (Option<u32>, wire::Publish) {
        self.expect(Opcode::Publish).await
    }

    /// Acknowledges a PUBLISH of `count` messages with seqs from `first_seq`.
    pub(crate) async fn publish_ack(&mut self, id: Option<u32>, first_seq: u64, count: usize) {
        let results = (first_seq..).take(count).map(stored).collect();
        self.send(Opcode::PublishAck, id, &publish_ack(results)).await;
    }

    /// Reads a CONSUME and agrees to it.
    pub(crate) async fn consume_ack(&mut self) -> wire::Consume {
        let (id, consume) = self.expect::<wire::Consume>(Opcode::Consume).await;
        let ack = wire::ConsumeAck {
            subscription: consume.subscription,
            group: "default".to_owned(),
            visibility_timeout_ms: 30_000,
            ..wire::ConsumeAck::default()
        };
        self.send(Opcode::ConsumeAck, id, &ack).await;
        consume
    }

    /// Delivers messages of those seqs; see [`delivered`].
    pub(crate) async fn deliver(&mut self, subscription: u32, seqs: impl IntoIterator<Item = u64>) {
        let messages = seqs.into_iter().map(delivered).collect();
        self.send(Opcode::Message, None, &wire::Deliver { subscription, messages }).await;
    }

    pub(crate) async fn error(&mut self, id: Option<u32>, error: wire::Error) {
        self.send(Opcode::Error, id, &error).await;
    }

    /// Reads an UNSUBSCRIBE and carries it out.
    pub(crate) async fn unsubscribe(&mut self) -> wire::Unsubscribe {
        let (id, unsubscribe) = self.expect::<wire::Unsubscribe>(Opcode::Unsubscribe).await;
        let ended = wire::SubscriptionEnded { subscription: unsubscribe.subscription, reason: None };
        self.send(Opcode::SubscriptionEnded, id, &ended).await;
        unsubscribe
    }
}

pub(crate) fn publish_ack(results: Vec<wire::PublishResult>) -> wire::PublishAck {
    wire::PublishAck { results, durability: wire::Durability::Fsync.into(), contract_unknown: false }
}

pub(crate) fn stored(seq: u64) -> wire::PublishResult {
    wire::PublishResult { id: id_of(seq), seq: Some(seq), ..wire::PublishResult::default() }
}

pub(crate) fn refused(error: wire::Error) -> wire::PublishResult {
    wire::PublishResult { error: Some(error), ..wire::PublishResult::default() }
}

/// A delivery with payload `message <seq>` and a lease of 30 s whose id is the seq.
pub(crate) fn delivered(seq: u64) -> wire::Delivered {
    wire::Delivered {
        lease_id: lease_of(seq),
        seq,
        attempt: 1,
        lease_ms: 30_000,
        id: id_of(seq),
        published_at_ms: 1_700_000_000_000,
        payload: format!("message {seq}").into(),
        ..wire::Delivered::default()
    }
}

fn id_of(seq: u64) -> Bytes {
    Bytes::copy_from_slice(&u128::from(seq).to_be_bytes())
}

fn lease_of(seq: u64) -> Bytes {
    let mut lease = [0; 24];
    lease[16..].copy_from_slice(&seq.to_be_bytes());
    Bytes::copy_from_slice(&lease)
}

/// The seqs behind lease ids made by [`delivered`].
pub(crate) fn seqs(settle: &wire::Settle) -> Vec<u64> {
    settle.lease_ids.iter().map(|lease| u64::from_be_bytes(lease[16..].try_into().unwrap())).collect()
}

pub(crate) fn payloads(publish: &wire::Publish) -> Vec<&str> {
    publish.items.iter().map(|item| std::str::from_utf8(&item.payload).unwrap()).collect()
}

pub(crate) fn message(text: &str) -> Message {
    Message::new(text.to_owned())
}

/// Lets the client's task run until it has nothing to do. Needs paused time: the runtime moves on only when all tasks wait.
pub(crate) async fn settle_down() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Encodes for payloads of typed tests.
pub(crate) fn bytes_of(message: &impl prost::Message) -> Bytes {
    message.encode_to_vec().into()
}
