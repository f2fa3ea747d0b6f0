//! One connection: a task that reads frames and one that writes them, over whatever transport. Protocol errors are answered once, then
//! the connection closes; others never notice.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::BytesMut;
use prost::Message;
use qwerq_core::SessionId;
use qwerq_proto::{ErrorCode, Frame, FrameDecoder, FrameError, MAX_FRAME_BYTES, MAX_FRAME_BYTES_BEFORE_HELLO, Opcode, encode_frame, wire};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::{HEARTBEAT, HELLO_TIMEOUT};
use crate::http::Transport;
use crate::shard::{Command, Outbox, Window};

use super::transport::{Ending, Farewell, Sink, Source, StreamSink, StreamSource};
use super::{Shared, hello, requests, stopped, websocket};

/// How much is read at once.
const READ_BYTES: usize = 128 << 10;

/// Silence that ends a connection.
const SILENCE: Duration = Duration::from_secs(2 * HEARTBEAT.as_secs());

/// How often the shard hears that frames arrive, whatever they are.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// How long clients may take to finish after GOAWAY.
const DRAIN: Duration = Duration::from_secs(5);

/// How long a peer may take to read the last frames.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves one client until either side ends it.
pub(super) async fn serve(socket: TcpStream, peer: SocketAddr, shared: Arc<Shared>, stop: watch::Receiver<bool>) {
    // Latency matters more than segments; both ends write whole batches anyway.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%peer, %error, "TCP_NODELAY is not available");
    }
    let (read, write) = socket.into_split();
    let connection = shared.metrics.connected(Transport::Tcp);
    converse(StreamSource(read), StreamSink(write), Arc::default(), &shared, stop, &peer.to_string()).await;
    drop(connection);
}

/// Serves one client over a WebSocket whose handshake is done.
pub(super) async fn serve_websocket(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    peer: &str,
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
) {
    let outbox = Arc::default();
    let (source, sink) = websocket::transport(stream, &outbox);
    let connection = shared.metrics.connected(Transport::WebSocket);
    converse(source, sink, outbox, &shared, stop, peer).await;
    drop(connection);
}

/// Speaks the protocol over any transport.
async fn converse(
    mut source: impl Source,
    sink: impl Sink,
    outbox: Arc<Outbox>,
    shared: &Arc<Shared>,
    stop: watch::Receiver<bool>,
    peer: &str,
) {
    // Said before the outbox is closed, so that the writer finds it.
    let farewell = Arc::new(OnceLock::new());
    let mut writer = tokio::spawn(write_frames(sink, Arc::clone(&outbox), Arc::clone(&farewell)));
    let session = shared.new_session();
    let mut buffer = BytesMut::new();
    let refused;
    match greet(&mut source, &mut buffer, shared, session).await {
        Ok((request_id, client, ack)) => {
            outbox.append(|out| encode_frame(out, Opcode::HelloAck, request_id, &ack));
            outbox.wake();
            let _entered = shared.connections.enter(session, peer, &client);
            let window = Arc::new(Window::default());
            shared.calls.opened(session, Arc::clone(&outbox));
            let schema_events = ack.features.iter().any(|feature| feature == hello::SCHEMA_EVENTS);
            let any_node = hello::is_any_node(&ack);
            let opened =
                Command::Opened { session, outbox: Arc::clone(&outbox), window: Arc::clone(&window), client, schema_events, any_node };
            shared.send(opened);
            let mut reader = Reader {
                session,
                shared,
                outbox: &outbox,
                window,
                decoder: FrameDecoder::new(MAX_FRAME_BYTES),
                told_shard: Instant::now(),
            };
            let end = tokio::select! {
                end = reader.run(&mut source, buffer, stop) => end,
                // The peer is gone, or it was cut off since it does not read.
                _ = &mut writer => Err(Ending::Gone),
            };
            if let Err(Ending::Protocol(error)) = &end {
                tracing::debug!(%peer, code = error.name, message = error.message, "protocol error");
                reader.say(error);
            }
            shared.calls.closed(session, end.is_ok());
            let _ = farewell.set(match &end {
                Ok(()) => Farewell::Draining,
                Err(Ending::Gone) => Farewell::Left,
                Err(Ending::Protocol(error)) => Farewell::Refused(error.name.clone()),
            });
            // The shard closes the outbox once it has answered all that came before.
            shared.send(Command::Closed { session, graceful: end.is_ok() });
            refused = matches!(end, Err(Ending::Protocol(_)));
        }
        Err(ending) => {
            if let Ending::Protocol(error) = ending {
                shared.metrics.refused(&error);
                outbox.append(|out| encode_frame(out, Opcode::Error, None, &*error));
                let _ = farewell.set(Farewell::Refused(error.name));
            }
            outbox.close();
            refused = true;
        }
    }
    // The writer ends by itself when the outbox is drained or the socket gone, unless the peer does not read.
    if !writer.is_finished() && timeout(LAST_WORDS, &mut writer).await.is_err() {
        writer.abort();
    }
    if refused {
        linger(&mut source).await;
    }
}

/// Reads what a refused peer still sends, for a moment: a socket that is closed with unread bytes takes the error back from the peer.
async fn linger(source: &mut impl Source) {
    const PATIENCE: Duration = Duration::from_secs(1);
    // Whatever becomes of it, the connection is over.
    let _ = timeout(PATIENCE, source.discard(1 << 20)).await;
}

/// Reads HELLO.
async fn greet(
    source: &mut impl Source,
    buffer: &mut BytesMut,
    shared: &Shared,
    session: SessionId,
) -> Result<(Option<u32>, String, wire::HelloAck), Ending> {
    let decoder = FrameDecoder::new(MAX_FRAME_BYTES_BEFORE_HELLO);
    let first = async {
        loop {
            if let Some(frame) = decoder.decode(buffer).map_err(|error| Ending::protocol(frame_error(&error)))? {
                return Ok(frame);
            }
            source.read(buffer).await?;
        }
    };
    let Ok(frame) = timeout(HELLO_TIMEOUT, first).await else {
        return Err(Ending::protocol(ErrorCode::HelloTimeout.with("no HELLO arrived within 5 s")));
    };
    let Frame { opcode, request_id, payload } = frame?;
    if opcode != Opcode::Hello as u8 {
        let text = format!("the first frame is HELLO (0x40), this one is {opcode:#04x}");
        return Err(Ending::protocol(ErrorCode::HelloRequired.with(text)));
    }
    let hello = wire::Hello::decode(payload)
        .map_err(|error| Ending::protocol(ErrorCode::MalformedMessage.with(format!("HELLO does not decode as qwerq.v1.Hello: {error}"))))?;
    let ack = hello::judge(shared, session, &hello).map_err(Ending::protocol)?;
    Ok((request_id, hello.client_name, ack))
}

/// The reading side of a connection that has said HELLO.
struct Reader<'a> {
    session: SessionId,
    shared: &'a Arc<Shared>,
    outbox: &'a Arc<Outbox>,
    window: Arc<Window>,
    decoder: FrameDecoder,
    /// When the shard last heard of this connection because it was read from; calls do not pass by there.
    told_shard: Instant,
}

impl Reader<'_> {
    /// Reads until the connection ends; `Ok`: the broker ended it, since it stops.
    async fn run(&mut self, source: &mut impl Source, mut buffer: BytesMut, mut stop: watch::Receiver<bool>) -> Result<(), Ending> {
        let mut draining = None;
        loop {
            // One look at the clock for all that one read has brought.
            let now = Instant::now();
            while let Some(frame) = self.decoder.decode(&mut buffer).map_err(|error| Ending::protocol(frame_error(&error)))? {
                requests::handle(self.shared, self.session, &self.window, frame, now.into_std()).await.map_err(Ending::protocol)?;
            }
            self.tell_shard(now);
            let missing = self.decoder.missing(&buffer);
            buffer.reserve(missing.max(READ_BYTES));
            let until = draining.unwrap_or_else(|| Instant::now() + SILENCE);
            let got = tokio::select! {
                biased;
                got = timeout_at(until, source.read(&mut buffer)) => got,
                () = stopped(&mut stop), if draining.is_none() => {
                    draining = Some(Instant::now() + DRAIN);
                    self.outbox.append(|out| {
                        let goaway = wire::GoAway { reason: "the broker is shutting down".to_owned(), leader: String::new() };
                        encode_frame(out, Opcode::GoAway, None, &goaway);
                    });
                    self.outbox.wake();
                    continue;
                }
            };
            match got {
                Ok(read) => read?,
                Err(_) if draining.is_some() => return Ok(()),
                Err(_) => {
                    let text = format!("nothing was heard for {} s; send a heartbeat every {} s", SILENCE.as_secs(), HEARTBEAT.as_secs());
                    return Err(Ending::protocol(ErrorCode::HeartbeatLost.with(text)));
                }
            }
        }
    }

    /// A connection that only calls and replies is alive too, and consumers on it should be known to be.
    fn tell_shard(&mut self, now: Instant) {
        if now.duration_since(self.told_shard) >= SIGN_OF_LIFE {
            self.told_shard = now;
            self.shared.send(Command::Heartbeat(self.session));
        }
    }

    /// Says something about the connection behind all replies so far.
    fn say(&self, error: &wire::Error) {
        let mut frames = Vec::new();
        encode_frame(&mut frames, Opcode::Error, None, error);
        self.shared.send(Command::Reply { session: self.session, frames });
    }
}

fn frame_error(error: &FrameError) -> wire::Error {
    let detailed = error.code().with(error.to_string());
    match error {
        FrameError::TooLarge { length, limit, .. } => detailed.detail("bytes", length).detail("limit", limit),
        _ => detailed,
    }
}

/// Writes what the outbox collects; says so when there is nothing to say.
async fn write_frames(mut sink: impl Sink, outbox: Arc<Outbox>, farewell: Arc<OnceLock<Farewell>>) {
    /// A buffer that grew beyond this is not kept.
    const KEEP_BYTES: usize = 1 << 20;
    let mut heartbeat = Vec::new();
    encode_frame(&mut heartbeat, Opcode::Heartbeat, None, &wire::Heartbeat {});
    let mut spare = Vec::new();
    let mut said = Instant::now();
    loop {
        let taken = timeout_at(said + HEARTBEAT, outbox.take(std::mem::take(&mut spare))).await;
        let frames = match taken {
            Ok(Some(frames)) => frames,
            Ok(None) => break,
            Err(_) => heartbeat.clone(),
        };
        if sink.write(&frames).await.is_err() {
            break;
        }
        // What a transport says by itself is no heartbeat.
        if !frames.is_empty() {
            said = Instant::now();
        }
        if frames.capacity() <= KEEP_BYTES {
            spare = frames;
        }
    }
    sink.close(farewell.get().unwrap_or(&Farewell::Left)).await;
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    fn shared() -> (Arc<Shared>, Receiver<Command>) {
        let (commands, inbox) = channel();
        (Arc::new(Shared::in_tests(commands)), inbox)
    }

    async fn next(client: &mut DuplexStream, buffer: &mut BytesMut) -> Option<Frame> {
        let decoder = FrameDecoder::new(MAX_FRAME_BYTES);
        loop {
            if let Some(frame) = decoder.decode(buffer).expect("frames") {
                return Some(frame);
            }
            if client.read_buf(buffer).await.expect("a pipe") == 0 {
                return None;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_broker_shows_signs_of_life_and_silence_of_two_heartbeats_ends_the_connection() {
        let (shared, inbox) = shared();
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(server);
        let (_running, stop) = watch::channel(false);
        let served =
            tokio::spawn(async move { converse(StreamSource(read), StreamSink(write), Arc::default(), &shared, stop, "a test").await });
        let mut hello = Vec::new();
        encode_frame(&mut hello, Opcode::Hello, Some(5), &wire::Hello { min_protocol: 1, max_protocol: 1, ..wire::Hello::default() });
        client.write_all(&hello).await.expect("a pipe");
        let mut buffer = BytesMut::new();
        let ack = next(&mut client, &mut buffer).await.expect("HELLO_ACK");
        assert_eq!((ack.opcode, ack.request_id), (Opcode::HelloAck as u8, Some(5)));
        let greeted = Instant::now();
        let beat = next(&mut client, &mut buffer).await.expect("a heartbeat");
        assert_eq!((beat.opcode, greeted.elapsed().as_secs()), (Opcode::Heartbeat as u8, HEARTBEAT.as_secs()));
        served.await.expect("the connection ends");
        assert!((SILENCE..SILENCE + LAST_WORDS + Duration::from_secs(2)).contains(&greeted.elapsed()), "{:?}", greeted.elapsed());
        assert!(matches!(inbox.recv(), Ok(Command::Opened { .. })));
        let Ok(Command::Reply { frames, .. }) = inbox.recv() else { panic!("the error goes behind earlier replies") };
        let error = wire::Error::decode(&frames[6..]).expect("an ERROR");
        assert_eq!(error.name, "heartbeat-lost");
        assert!(matches!(inbox.recv(), Ok(Command::Closed { graceful: false, .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_says_nothing_is_told_so_after_five_seconds() {
        let (shared, inbox) = shared();
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(server);
        let (_running, stop) = watch::channel(false);
        let served =
            tokio::spawn(async move { converse(StreamSource(read), StreamSink(write), Arc::default(), &shared, stop, "a test").await });
        let connected = Instant::now();
        let frame = next(&mut client, &mut BytesMut::new()).await.expect("an ERROR");
        assert_eq!(wire::Error::decode(frame.payload).expect("an ERROR").name, "hello-timeout");
        assert_eq!(connected.elapsed().as_secs(), HELLO_TIMEOUT.as_secs());
        drop(client);
        served.await.expect("the connection ends");
        assert!(inbox.try_recv().is_err(), "the shard never hears of it");
    }
}
