//! One connection: a task that reads frames and one that writes them. Protocol errors are answered once, then the connection closes;
//! others never notice.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use prost::Message;
use qwerq_core::SessionId;
use qwerq_proto::{ErrorCode, Frame, FrameDecoder, FrameError, MAX_FRAME_BYTES, MAX_FRAME_BYTES_BEFORE_HELLO, Opcode, encode_frame, wire};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::{HEARTBEAT, HELLO_TIMEOUT};
use crate::shard::{Command, Outbox, Window};

use super::{Shared, hello, requests, stopped};

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
    shared.metrics.connections.inc();
    let (read, write) = socket.into_split();
    converse(read, write, &shared, stop, &peer.to_string()).await;
    shared.metrics.connections.dec();
}

/// Speaks the protocol over any byte stream.
async fn converse(
    mut read: impl AsyncRead + Unpin,
    write: impl AsyncWrite + Unpin + Send + 'static,
    shared: &Arc<Shared>,
    stop: watch::Receiver<bool>,
    peer: &str,
) {
    let outbox = Arc::new(Outbox::default());
    let mut writer = tokio::spawn(write_frames(write, Arc::clone(&outbox)));
    let session = shared.new_session();
    let mut buffer = BytesMut::new();
    let refused;
    match greet(&mut read, &mut buffer, shared, session).await {
        Ok((request_id, client, ack)) => {
            outbox.append(|out| encode_frame(out, Opcode::HelloAck, request_id, &ack));
            outbox.wake();
            let _entered = shared.connections.enter(session, peer, &client);
            let window = Arc::new(Window::default());
            shared.calls.opened(session, Arc::clone(&outbox));
            shared.send(Command::Opened { session, outbox: Arc::clone(&outbox), window: Arc::clone(&window), client });
            let mut reader = Reader {
                session,
                shared,
                outbox: &outbox,
                window,
                decoder: FrameDecoder::new(MAX_FRAME_BYTES),
                told_shard: Instant::now(),
            };
            let end = tokio::select! {
                end = reader.run(&mut read, buffer, stop) => end,
                // The peer is gone, or it was cut off since it does not read.
                _ = &mut writer => Err(Ending::Gone),
            };
            if let Err(Ending::Protocol(error)) = &end {
                tracing::debug!(%peer, code = error.name, message = error.message, "protocol error");
                reader.say(error);
            }
            shared.calls.closed(session, end.is_ok());
            // The shard closes the outbox once it has answered all that came before.
            shared.send(Command::Closed { session, graceful: end.is_ok() });
            refused = matches!(end, Err(Ending::Protocol(_)));
        }
        Err(error) => {
            if let Some(error) = error {
                outbox.append(|out| encode_frame(out, Opcode::Error, None, &error));
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
        linger(&mut read).await;
    }
}

/// Reads what a refused peer still sends, for a moment: a socket that is closed with unread bytes takes the error back from the peer.
async fn linger(read: &mut (impl AsyncRead + Unpin)) {
    const PATIENCE: Duration = Duration::from_secs(1);
    let mut rest = read.take(1 << 20);
    let mut nowhere = tokio::io::sink();
    let drained = tokio::io::copy(&mut rest, &mut nowhere);
    // Whatever becomes of it, the connection is over.
    let _ = timeout(PATIENCE, drained).await;
}

/// Why a connection ends other than by the broker's own stopping.
enum Ending {
    /// The peer does not speak the protocol.
    Protocol(Box<wire::Error>),
    /// The peer has closed, or was killed, or the network is gone; no difference can be seen from here.
    Gone,
}

/// Reads HELLO. `Err(None)`: the client went away.
async fn greet(
    read: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    shared: &Shared,
    session: SessionId,
) -> Result<(Option<u32>, String, wire::HelloAck), Option<wire::Error>> {
    let decoder = FrameDecoder::new(MAX_FRAME_BYTES_BEFORE_HELLO);
    let first = async {
        loop {
            match decoder.decode(buffer) {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => {}
                Err(error) => return Err(Some(frame_error(&error))),
            }
            // A read of nothing is the end; so is an error, and neither can be answered.
            if !matches!(read.read_buf(buffer).await, Ok(1..)) {
                return Err(None);
            }
        }
    };
    let Ok(frame) = timeout(HELLO_TIMEOUT, first).await else {
        return Err(Some(ErrorCode::HelloTimeout.with("no HELLO arrived within 5 s")));
    };
    let Frame { opcode, request_id, payload } = frame?;
    if opcode != Opcode::Hello as u8 {
        return Err(Some(ErrorCode::HelloRequired.with(format!("the first frame is HELLO (0x40), this one is {opcode:#04x}"))));
    }
    let hello = wire::Hello::decode(payload)
        .map_err(|error| Some(ErrorCode::MalformedMessage.with(format!("HELLO does not decode as qwerq.v1.Hello: {error}"))))?;
    let ack = hello::judge(shared, session, &hello).map_err(Some)?;
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
    async fn run(
        &mut self,
        read: &mut (impl AsyncRead + Unpin),
        mut buffer: BytesMut,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), Ending> {
        let mut draining = None;
        loop {
            while let Some(frame) = self.decoder.decode(&mut buffer).map_err(|error| Ending::protocol(frame_error(&error)))? {
                requests::handle(self.shared, self.session, &self.window, frame).await.map_err(Ending::protocol)?;
            }
            self.tell_shard();
            let missing = self.decoder.missing(&buffer);
            buffer.reserve(missing.max(READ_BYTES));
            let until = draining.unwrap_or_else(|| Instant::now() + SILENCE);
            let got = tokio::select! {
                biased;
                got = timeout_at(until, read.read_buf(&mut buffer)) => got,
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
                Ok(Ok(1..)) => {}
                Ok(_) => return Err(Ending::Gone),
                Err(_) if draining.is_some() => return Ok(()),
                Err(_) => {
                    let text = format!("nothing was heard for {} s; send a heartbeat every {} s", SILENCE.as_secs(), HEARTBEAT.as_secs());
                    return Err(Ending::protocol(ErrorCode::HeartbeatLost.with(text)));
                }
            }
        }
    }

    /// A connection that only calls and replies is alive too, and consumers on it should be known to be.
    fn tell_shard(&mut self) {
        let now = Instant::now();
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

impl Ending {
    fn protocol(error: wire::Error) -> Ending {
        Ending::Protocol(Box::new(error))
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
async fn write_frames(mut write: impl AsyncWrite + Unpin, outbox: Arc<Outbox>) {
    /// A buffer that grew beyond this is not kept.
    const KEEP_BYTES: usize = 1 << 20;
    let mut heartbeat = Vec::new();
    encode_frame(&mut heartbeat, Opcode::Heartbeat, None, &wire::Heartbeat {});
    let mut spare = Vec::new();
    loop {
        let taken = timeout(HEARTBEAT, outbox.take(std::mem::take(&mut spare))).await;
        let frames = match taken {
            Ok(Some(frames)) => frames,
            Ok(None) => break,
            Err(_) => heartbeat.clone(),
        };
        if write.write_all(&frames).await.is_err() {
            break;
        }
        if frames.capacity() <= KEEP_BYTES {
            spare = frames;
        }
    }
    // The peer learns from this that nothing more comes; if it is gone already, nobody minds.
    let _ = write.shutdown().await;
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use tokio::io::DuplexStream;

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
        let served = tokio::spawn(async move { converse(read, write, &shared, stop, "a test").await });
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
        let served = tokio::spawn(async move { converse(read, write, &shared, stop, "a test").await });
        let connected = Instant::now();
        let frame = next(&mut client, &mut BytesMut::new()).await.expect("an ERROR");
        assert_eq!(wire::Error::decode(frame.payload).expect("an ERROR").name, "hello-timeout");
        assert_eq!(connected.elapsed().as_secs(), HELLO_TIMEOUT.as_secs());
        drop(client);
        served.await.expect("the connection ends");
        assert!(inbox.try_recv().is_err(), "the shard never hears of it");
    }
}
