//! The connection's task: connects, runs one session after another over its socket, waits between them, and ends when the client is
//! closed. All decisions about frames are `session`'s, the order of addresses is `route`'s.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use prost::Message as _;
use qwerq_proto::{ErrorCode, FrameDecoder, MAX_FRAME_BYTES, MAX_FRAME_BYTES_BEFORE_HELLO, Opcode, PROTOCOL_VERSION, encode_frame, wire};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep};
use tracing::{debug, warn};

use crate::backoff::Backoff;
use crate::carry::Carry;
use crate::dial::Stream;
use crate::error::{ConnectError, Error, Refusal};
use crate::route::Route;
use crate::session::{Agreed, Exit, Session};
use crate::shared::Shared;

/// Bytes to make room for before a read.
const READ_BYTES: usize = 64 * 1024;

/// Reads in a row before writing has its turn.
const READS_MAX: usize = 8;

/// The heartbeat interval when the broker states none.
const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(10);

/// How long the first connection waits for a cluster that has no leader.
const ELECTION_PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait when a node that knows no leader does not say.
const ELECTION_PAUSE: Duration = Duration::from_millis(250);

/// The longest wait between two rounds through a cluster that is there and has no leader.
const ELECTION_PAUSE_MAX: Duration = Duration::from_secs(2);

/// What this client would like of the broker; see docs/protocol.md.
const CLUSTER: &str = "cluster";
const ANY_NODE: &str = "any-node";

/// A stream on which HELLO has been said and answered.
struct Link {
    address: String,
    stream: Box<dyn Stream>,
    input: BytesMut,
    agreed: Agreed,
}

/// Connects for the first time and leaves the task running.
pub(crate) async fn start(shared: Arc<Shared>) -> Result<(), Error> {
    let until = Instant::now() + ELECTION_PATIENCE;
    let link = loop {
        match connect(&shared, None).await {
            Ok(link) => break link,
            Err(Unconnected { error, electing: None }) => return Err(error),
            Err(Unconnected { error, electing: Some(pause) }) => {
                let pause = pause + jitter(pause);
                if Instant::now() + pause > until {
                    return Err(error);
                }
                tokio::time::sleep(pause).await;
            }
        }
    };
    tokio::spawn(run(shared, link));
    Ok(())
}

async fn run(shared: Arc<Shared>, mut link: Link) {
    let mut carry = Carry::default();
    let mut backoff = Backoff::new(shared.settings.reconnect);
    loop {
        let began = Instant::now();
        // Whoever led last is the likeliest to lead again.
        let last = link.address.clone();
        let mut connection = Connection::new(Arc::clone(&shared), carry, link, began);
        let ended = std::future::poll_fn(|cx| connection.poll(cx)).await;
        let leader = match ended {
            Ok(Exit::Closed) => {
                connection.session.closed();
                Carry::default().fail(&shared, &Error::Closed);
                // The broker has seen everything; a failure to say goodbye loses nothing.
                let _ = connection.stream.shutdown().await;
                return;
            }
            Ok(Exit::GoAway { leader }) => leader,
            Err(Lost(why)) => {
                warn!(why, "the connection to the broker is lost");
                None
            }
        };
        carry = connection.session.lost(Instant::now());
        drop(connection.stream);
        backoff.connected_for(began.elapsed());
        link = match reconnect(&shared, &mut carry, &mut backoff, leader.as_deref().unwrap_or(&last)).await {
            Ok(link) => link,
            Err(error) => {
                carry.fail(&shared, &error);
                return;
            }
        };
    }
}

/// Comes back, or says why not: the client is closed, or its patience is over.
async fn reconnect(shared: &Arc<Shared>, carry: &mut Carry, backoff: &mut Backoff, leader: &str) -> Result<Link, Error> {
    let mut last = Unconnected { error: Error::Disconnected { maybe_stored: false }, electing: None };
    let mut closing = pin!(std::future::poll_fn(|cx| {
        // Hear first, look second: see `bell`.
        let _ = shared.bell.heard(cx);
        if carry.wants_close(shared) { Poll::Ready(()) } else { Poll::Pending }
    }));
    loop {
        let Some(mut pause) = backoff.next() else {
            return Err(last.error);
        };
        if let Some(electing) = last.electing {
            // The cluster is there, and an election takes a moment only.
            pause = pause.clamp(electing, ELECTION_PAUSE_MAX.max(electing)) + jitter(electing);
        }
        let attempt = async {
            tokio::time::sleep(pause).await;
            connect(shared, Some(leader)).await
        };
        tokio::select! {
            biased;
            () = &mut closing => return Err(Error::Closed),
            attempt = attempt => match attempt {
                Ok(link) => {
                    backoff.connected();
                    debug!("connected again");
                    return Ok(link);
                }
                // Trying again would not change the broker's mind.
                Err(Unconnected { error: error @ Error::Refused(_), .. }) => return Err(error),
                Err(unconnected) => {
                    debug!(error = %unconnected.error, "could not connect");
                    last = unconnected;
                }
            },
        }
    }
}

/// Up to as much.
fn jitter(most: Duration) -> Duration {
    Duration::from_micros(rand::random_range(0..=u64::try_from(most.as_micros()).unwrap_or(u64::MAX)))
}

/// Why a round through the addresses gave no connection.
struct Unconnected {
    error: Error,
    /// A node of a cluster answered, and nobody who leads was found: another round makes sense, not before that.
    electing: Option<Duration>,
}

/// Tries the leader, if one is known, and then every address once, and goes where nodes say that the leader is.
async fn connect(shared: &Shared, leader: Option<&str>) -> Result<Link, Unconnected> {
    let settings = &shared.settings;
    let mut route = Route::new(leader, &settings.addresses);
    let mut tried = Vec::new();
    let mut electing = None;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    while let Some(address) = route.next() {
        let attempt = async {
            let stream = settings.dial.open(&address).await?;
            hello(shared, &address, stream).await
        };
        let outcome = tokio::time::timeout(settings.connect_timeout, attempt).await;
        match outcome {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(HelloError::Said(error))) => return Err(Unconnected { error, electing: None }),
            Ok(Err(HelloError::NotLeader(refusal))) => {
                electing = electing.max(Some(refusal.retry_after.unwrap_or(ELECTION_PAUSE)));
                if let Some(leader) = refusal.detail("leader") {
                    route.redirect(leader);
                }
                last = io::Error::other(Error::Unavailable(refusal));
            }
            Ok(Err(HelloError::Io(error))) => last = error,
            Err(_) => {
                let text = format!("no answer within {:?}", settings.connect_timeout);
                last = io::Error::new(io::ErrorKind::TimedOut, text);
            }
        }
        tried.push(format!("{address}: {last}"));
    }
    let error = Error::Connect(Arc::new(ConnectError { addr: settings.addresses.join(", "), tried, source: last }));
    Err(Unconnected { error, electing })
}

enum HelloError {
    Io(io::Error),
    /// The broker answered, and it was no.
    Said(Error),
    /// A node of a cluster answered that does not lead.
    NotLeader(Box<Refusal>),
}

impl From<io::Error> for HelloError {
    fn from(error: io::Error) -> HelloError {
        HelloError::Io(error)
    }
}

async fn hello(shared: &Shared, address: &str, mut stream: Box<dyn Stream>) -> Result<Link, HelloError> {
    let settings = &shared.settings;
    let hello = wire::Hello {
        min_protocol: PROTOCOL_VERSION,
        max_protocol: PROTOCOL_VERSION,
        client_name: settings.name.clone(),
        client_version: settings.version.clone(),
        token: settings.token.0.clone(),
        features: [CLUSTER].into_iter().chain(settings.any_node.then_some(ANY_NODE)).map(str::to_owned).collect(),
    };
    let mut out = BytesMut::new();
    encode_frame(&mut out, Opcode::Hello, None, &hello);
    stream.write_all(&out).await?;
    stream.flush().await?;

    let decoder = FrameDecoder::new(MAX_FRAME_BYTES_BEFORE_HELLO);
    let mut input = BytesMut::with_capacity(READ_BYTES);
    let frame = loop {
        if let Some(frame) = decoder.decode(&mut input).map_err(not_a_broker)? {
            break frame;
        }
        if stream.read_buf(&mut input).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed before HELLO_ACK").into());
        }
    };
    match Opcode::from_u8(frame.opcode) {
        Some(Opcode::HelloAck) => {
            let ack = wire::HelloAck::decode(frame.payload).map_err(not_a_broker)?;
            if ack.protocol != PROTOCOL_VERSION {
                let text = format!("the broker chose protocol {}, this client speaks {PROTOCOL_VERSION}", ack.protocol);
                return Err(HelloError::Said(Error::protocol(text)));
            }
            let agreed = agree(&ack, settings.heartbeat);
            // Before anybody can publish on this connection.
            shared.set_cluster(agreed.cluster);
            debug!(session = ack.session, broker = ack.broker_version, "connected");
            Ok(Link { address: address.to_owned(), stream, input, agreed })
        }
        Some(Opcode::Error) => {
            let error = wire::Error::decode(frame.payload).map_err(not_a_broker)?;
            match Error::from(error) {
                Error::Unavailable(refusal) if refusal.known() == Some(ErrorCode::NotLeader) => Err(HelloError::NotLeader(refusal)),
                // A broker that is going down is as good as one that is not there.
                error @ (Error::Unavailable(_) | Error::Fault(_)) => Err(io::Error::other(error).into()),
                error => Err(HelloError::Said(error)),
            }
        }
        _ => Err(not_a_broker(format_args!("opcode {:#04x} instead of HELLO_ACK", frame.opcode))),
    }
}

fn not_a_broker(what: impl std::fmt::Display) -> HelloError {
    HelloError::Said(Error::protocol(format_args!("what answered is not a QWER-Q broker: {what}")))
}

fn agree(ack: &wire::HelloAck, wanted_heartbeat: Option<Duration>) -> Agreed {
    let or_max = |limit: u32| {
        if limit == 0 { usize::MAX } else { limit as usize }
    };
    let heartbeat = match ack.heartbeat_ms {
        0 => HEARTBEAT_DEFAULT,
        ms => Duration::from_millis(ms.into()),
    };
    Agreed {
        max_frame_bytes: if ack.max_frame_bytes == 0 { MAX_FRAME_BYTES } else { ack.max_frame_bytes },
        window_requests: or_max(ack.publish_window_requests),
        window_bytes: or_max(ack.publish_window_bytes),
        heartbeat: wanted_heartbeat.map_or(heartbeat, |wanted| wanted.min(heartbeat)),
        silence: heartbeat * 2,
        cluster: ack.features.iter().any(|feature| feature == CLUSTER),
    }
}

/// A session and the socket that it lives on.
struct Connection {
    session: Session,
    stream: Box<dyn Stream>,
    input: BytesMut,
    decoder: FrameDecoder,
    timer: Pin<Box<Sleep>>,
    shared: Arc<Shared>,
    /// Bytes have been written that a buffering stream may still hold.
    unflushed: bool,
}

impl Connection {
    fn new(shared: Arc<Shared>, carry: Carry, link: Link, now: Instant) -> Connection {
        let session = Session::new(Arc::clone(&shared), carry, link.agreed, now);
        let timer = Box::pin(tokio::time::sleep_until(session.deadline()));
        Connection {
            session,
            stream: link.stream,
            input: link.input,
            decoder: FrameDecoder::new(link.agreed.max_frame_bytes),
            timer,
            shared,
            unflushed: false,
        }
    }

    /// Runs the session until it ends. Reads first, since replies open the window; then picks up work; then writes it in few calls.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Exit, Lost>> {
        loop {
            // Hear first, look second: see `bell`.
            let _ = self.shared.bell.heard(cx);
            let more_to_read = self.read(cx)?;
            let now = Instant::now();
            self.session.pump();
            self.write(cx, now)?;
            if let Some(exit) = self.session.exit(now) {
                return Poll::Ready(Ok(exit));
            }
            let ticked = self.tick(cx)?;
            if !more_to_read && !ticked {
                return Poll::Pending;
            }
        }
    }

    /// Reads and takes in what is there. Says whether there may be more.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, Lost> {
        for _ in 0..READS_MAX {
            while let Some(frame) = self.decoder.decode(&mut self.input).map_err(lost)? {
                self.session.receive(frame, Instant::now())?;
            }
            let free = self.input.capacity() - self.input.len();
            if free < READ_BYTES / 8 {
                self.input.reserve(READ_BYTES.max(self.decoder.missing(&self.input)));
            }
            match pin!(self.stream.read_buf(&mut self.input)).poll(cx) {
                Poll::Ready(Ok(0)) => return Err(lost("the broker closed the connection")),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Err(lost(error)),
                Poll::Pending => return Ok(false),
            }
        }
        Ok(true)
    }

    fn write(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<(), Lost> {
        while !self.session.outgoing().is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, self.session.outgoing()) {
                Poll::Ready(Ok(0)) => return Err(lost("the connection takes no more bytes")),
                Poll::Ready(Ok(bytes)) => {
                    self.session.wrote(bytes, now);
                    self.unflushed = true;
                    // Room in the buffer is room for what waits in the lanes.
                    self.session.pump();
                }
                Poll::Ready(Err(error)) => return Err(lost(error)),
                Poll::Pending => return Ok(()),
            }
        }
        if self.unflushed {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Ready(flushed) => flushed.map_err(lost)?,
                Poll::Pending => return Ok(()),
            }
            self.unflushed = false;
        }
        Ok(())
    }

    /// Says whether the time demanded something, so that there may be work.
    fn tick(&mut self, cx: &mut Context<'_>) -> Result<bool, Lost> {
        let deadline = self.session.deadline();
        if deadline < self.timer.deadline() {
            self.timer.as_mut().reset(deadline);
        }
        if self.timer.as_mut().poll(cx).is_pending() {
            return Ok(false);
        }
        self.session.tick(Instant::now())?;
        self.timer.as_mut().reset(self.session.deadline());
        Ok(true)
    }
}

/// Why a connection ended that nobody wanted to end. Only ever logged: callers learn what became of their requests.
#[derive(Debug)]
struct Lost(String);

impl From<Error> for Lost {
    fn from(error: Error) -> Lost {
        Lost(error.to_string())
    }
}

fn lost(what: impl std::fmt::Display) -> Lost {
    Lost(what.to_string())
}
