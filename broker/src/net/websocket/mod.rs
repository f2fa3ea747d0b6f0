//! The protocol over WebSocket: a binary message holds whole frames.
//!
//! Written by hand, since a library hands out whole messages: it would have to hold as much of a message as the largest frame has before
//! it is known who sends it. Here bytes pass through as they arrive, and the limits of frames hold as they do on TCP. The handshake is
//! `http/ws.rs`'s; read on in `frame.rs`.

mod frame;

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, BytesMut};
use qwerq_proto::{ErrorCode, FRAME_HEADER_BYTES};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::shard::Outbox;

use super::transport::{Ending, Farewell, Sink, Source, discard};
use frame::{BINARY, CLOSE, CONTINUATION, CONTROL_BYTES_MAX, Header, PING, PONG, TEXT, header_of, take_header, unmask};

/// How much is read at once: little at first, more from those who send much.
const READ_BYTES: [usize; 2] = [8 << 10, 64 << 10];

/// Bytes after which a message is sent and the next one begun; a larger frame has a message of its own.
const MESSAGE_BYTES: usize = 1 << 20;

/// Close codes of RFC 6455.
const NORMAL: u16 = 1000;
const GOING_AWAY: u16 = 1001;
const PROTOCOL_ERROR: u16 = 1002;
const UNSUPPORTED_DATA: u16 = 1003;
const POLICY_VIOLATION: u16 = 1008;
const TOO_BIG: u16 = 1009;

/// Both ends of a WebSocket whose handshake is done. `outbox` is the connection's: pongs go out by its writer.
pub(super) fn transport<S>(
    stream: S,
    outbox: &Arc<Outbox>,
) -> (WebSocketSource<tokio::io::ReadHalf<S>>, WebSocketSink<tokio::io::WriteHalf<S>>)
where
    S: AsyncRead + AsyncWrite,
{
    let (read, write) = tokio::io::split(stream);
    let between = Arc::new(Between { pong: Mutex::new(None), close_code: AtomicU16::new(0), outbox: Arc::clone(outbox) });
    let source = WebSocketSource {
        read,
        raw: BytesMut::new(),
        sends_much: false,
        payload: None,
        in_message: false,
        boundary: Boundary::default(),
        failed: None,
        between: Arc::clone(&between),
    };
    (source, WebSocketSink { write, between })
}

/// What the reading side has the writing side say.
struct Between {
    /// The payload of the last ping that was not answered yet.
    pong: Mutex<Option<Vec<u8>>>,
    /// A close code that only the reading side knows of; 0: none.
    close_code: AtomicU16,
    outbox: Arc<Outbox>,
}

impl Between {
    fn answer_ping(&self, payload: &[u8]) {
        // A panic cannot leave half a payload behind.
        *self.pong.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload.to_vec());
        self.outbox.nudge();
    }

    fn take_pong(&self) -> Option<Vec<u8>> {
        self.pong.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The payload of a WebSocket frame that is being read.
struct Payload {
    header: Header,
    /// Bytes of it that were read.
    at: u64,
}

/// The reading half.
pub(super) struct WebSocketSource<R> {
    read: R,
    /// What was read and not yet looked at.
    raw: BytesMut,
    sends_much: bool,
    payload: Option<Payload>,
    /// A binary message has begun and not ended.
    in_message: bool,
    boundary: Boundary,
    /// What is wrong with the bytes behind those that were handed out.
    failed: Option<Ending>,
    between: Arc<Between>,
}

impl<R: AsyncRead + Unpin + Send> Source for WebSocketSource<R> {
    async fn read(&mut self, buffer: &mut BytesMut) -> Result<(), Ending> {
        loop {
            if let Some(ending) = self.failed.take() {
                return Err(ending);
            }
            let before = buffer.len();
            let passed = self.pass(buffer);
            if buffer.len() > before {
                // Frames that came before what is wrong are heard first.
                self.failed = passed.err();
                return Ok(());
            }
            passed?;
            self.raw.reserve(READ_BYTES[usize::from(self.sends_much)]);
            let room = self.raw.capacity() - self.raw.len();
            match self.read.read_buf(&mut self.raw).await {
                Ok(got @ 1..) => self.sends_much |= got == room,
                Ok(0) | Err(_) => return Err(Ending::Gone),
            }
        }
    }

    async fn discard(&mut self, bytes: u64) {
        discard(&mut self.read, bytes).await;
    }
}

impl<R> WebSocketSource<R> {
    /// Passes on what is in `raw`, as far as it goes.
    fn pass(&mut self, buffer: &mut BytesMut) -> Result<(), Ending> {
        loop {
            let Some(payload) = &mut self.payload else {
                let Some(header) = take_header(&mut self.raw).map_err(malformed)? else { return Ok(()) };
                self.begin(header)?;
                continue;
            };
            let left = payload.header.length - payload.at;
            if payload.header.is_control() {
                let length = usize::try_from(left).expect("a control frame is small");
                if self.raw.len() < length {
                    return Ok(());
                }
                let (mask, opcode) = (payload.header.mask, payload.header.opcode);
                let mut bytes = self.raw.split_to(length);
                unmask(mask, 0, &mut bytes);
                self.payload = None;
                match opcode {
                    PING => self.between.answer_ping(&bytes),
                    CLOSE => return Err(Ending::Gone),
                    _ => {}
                }
                continue;
            }
            let here = usize::try_from(left).unwrap_or(usize::MAX).min(self.raw.len());
            let bytes = &mut self.raw[..here];
            unmask(payload.header.mask, payload.at, bytes);
            self.boundary.pass(bytes);
            buffer.extend_from_slice(bytes);
            self.raw.advance(here);
            payload.at += here as u64;
            if payload.at < payload.header.length {
                return Ok(());
            }
            let fin = payload.header.fin;
            self.payload = None;
            if fin {
                self.in_message = false;
                if !self.boundary.is_reached() {
                    return Err(malformed("a frame begins in one WebSocket message and ends in another"));
                }
            }
        }
    }

    fn begin(&mut self, header: Header) -> Result<(), Ending> {
        match header.opcode {
            TEXT => {
                self.between.close_code.store(UNSUPPORTED_DATA, Ordering::Relaxed);
                return Err(malformed("a text message carries no frames; send them in binary messages"));
            }
            BINARY if self.in_message => return Err(malformed("a WebSocket message begins before the last one has ended")),
            CONTINUATION if !self.in_message => return Err(malformed("a WebSocket message continues that has not begun")),
            BINARY => self.in_message = true,
            _ => {}
        }
        self.payload = Some(Payload { header, at: 0 });
        Ok(())
    }
}

fn malformed(text: &str) -> Ending {
    Ending::protocol(ErrorCode::MalformedFrame.with(text))
}

/// Follows the protocol's frames through a message, so that it is known whether a whole one ends there.
#[derive(Default)]
struct Boundary {
    /// The frame's header, as far as it was read.
    header: [u8; FRAME_HEADER_BYTES],
    read: usize,
    /// Bytes of its payload that are missing.
    missing: u64,
}

impl Boundary {
    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.missing > 0 {
                let here = usize::try_from(self.missing).unwrap_or(usize::MAX).min(bytes.len());
                self.missing -= here as u64;
                bytes = &bytes[here..];
                continue;
            }
            let here = (FRAME_HEADER_BYTES - self.read).min(bytes.len());
            self.header[self.read..self.read + here].copy_from_slice(&bytes[..here]);
            self.read += here;
            bytes = &bytes[here..];
            if self.read == FRAME_HEADER_BYTES {
                self.read = 0;
                self.missing = length_in(&self.header) as u64;
            }
        }
    }

    fn is_reached(&self) -> bool {
        self.read == 0 && self.missing == 0
    }
}

/// The length that a frame's header claims.
fn length_in(header: &[u8; FRAME_HEADER_BYTES]) -> usize {
    let &[_, _, a, b, c, d] = header;
    u32::from_be_bytes([a, b, c, d]) as usize
}

/// The writing half.
pub(super) struct WebSocketSink<W> {
    write: W,
    between: Arc<Between>,
}

impl<W: AsyncWrite + Unpin + Send + 'static> Sink for WebSocketSink<W> {
    async fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        if let Some(payload) = self.between.take_pong() {
            self.message(PONG, &payload).await?;
        }
        let mut rest = frames;
        while !rest.is_empty() {
            let (message, next) = rest.split_at(whole_frames(rest, MESSAGE_BYTES));
            self.message(BINARY, message).await?;
            rest = next;
        }
        Ok(())
    }

    async fn close(&mut self, farewell: &Farewell) {
        let (code, reason) = match farewell {
            Farewell::Left => (NORMAL, ""),
            Farewell::Draining => (GOING_AWAY, "the broker is shutting down"),
            Farewell::Refused(name) => (close_code(name), name.as_str()),
        };
        let code = match self.between.close_code.load(Ordering::Relaxed) {
            0 => code,
            known => known,
        };
        let mut payload = code.to_be_bytes().to_vec();
        payload.extend_from_slice(reason.as_bytes());
        payload.truncate(CONTROL_BYTES_MAX);
        // If the peer is gone already, nobody minds.
        if self.message(CLOSE, &payload).await.is_ok() {
            let _ = self.write.shutdown().await;
        }
    }
}

impl<W: AsyncWrite + Unpin> WebSocketSink<W> {
    async fn message(&mut self, opcode: u8, payload: &[u8]) -> io::Result<()> {
        let header = header_of(opcode, payload.len());
        self.write.write_all_buf(&mut Buf::chain(header.as_slice(), payload)).await?;
        self.write.flush().await
    }
}

/// The close code of an error's stable name.
fn close_code(name: &str) -> u16 {
    const POLICY: [ErrorCode; 3] = [ErrorCode::Unauthorized, ErrorCode::HelloTimeout, ErrorCode::HeartbeatLost];
    if name == ErrorCode::FrameTooLarge.name() {
        TOO_BIG
    } else if POLICY.iter().any(|code| code.name() == name) {
        POLICY_VIOLATION
    } else {
        PROTOCOL_ERROR
    }
}

/// How many bytes of `frames` the whole frames take that fit `max` bytes; the first one always does.
fn whole_frames(frames: &[u8], max: usize) -> usize {
    let mut end = 0;
    while let Some(header) = frames[end..].first_chunk() {
        let next = end + FRAME_HEADER_BYTES + length_in(header);
        if end > 0 && next > max {
            break;
        }
        end = next;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a masked client frame.
    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = header_of(first & 0x0f, payload.len());
        frame[0] = first;
        frame[1] |= 0x80;
        let mask = [7, 0, 99, 255];
        frame.extend_from_slice(&mask);
        let mut payload = payload.to_vec();
        unmask(mask, 0, &mut payload);
        frame.extend(payload);
        frame
    }

    /// What a source makes of bytes that arrive in pieces of `step`, and the word of what ends it.
    async fn read_all(bytes: &[u8], step: usize) -> (Vec<u8>, Option<String>, Arc<Between>) {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let outbox = Arc::new(Outbox::default());
        let (mut source, sink) = transport(server, &outbox);
        let bytes = bytes.to_vec();
        let writing = tokio::spawn(async move {
            for piece in bytes.chunks(step) {
                client.write_all(piece).await.expect("a pipe");
                tokio::task::yield_now().await;
            }
        });
        let mut buffer = BytesMut::new();
        let ending = loop {
            match source.read(&mut buffer).await {
                Ok(()) => {}
                Err(Ending::Gone) => break None,
                Err(Ending::Protocol(error)) => break Some(error.message),
            }
        };
        writing.await.expect("the writer ends");
        (buffer.to_vec(), ending, sink.between)
    }

    /// A frame of the protocol with so many bytes of payload.
    fn frame_of(length: u32) -> Vec<u8> {
        let mut frame = vec![0x0a, 0];
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend((0..length).map(|i| (i % 251) as u8));
        frame
    }

    #[tokio::test]
    async fn frames_arrive_however_their_message_is_cut() {
        let frames = [frame_of(3), frame_of(0), frame_of(300)].concat();
        let whole = masked(0x82, &frames);
        let parts = [masked(0x02, &frames[..5]), masked(0x89, b"ping"), masked(0x00, b""), masked(0x80, &frames[5..])].concat();
        for bytes in [whole, parts] {
            for step in [1, 2, 7, 1 << 16] {
                let (read, ending, _) = read_all(&bytes, step).await;
                assert_eq!((read.as_slice(), ending), (frames.as_slice(), None), "in steps of {step}");
            }
        }
    }

    #[tokio::test]
    async fn a_ping_is_answered_with_its_payload() {
        let (_, _, between) = read_all(&masked(0x89, b"still there?"), 3).await;
        assert_eq!(between.take_pong().as_deref(), Some(&b"still there?"[..]));
    }

    #[tokio::test]
    async fn what_breaks_the_rules_is_refused_after_what_came_before_it() {
        let good = frame_of(2);
        let half = &frame_of(9)[..8];
        for (bytes, says) in [
            (masked(0x82, half), "ends in another"),
            (masked(0x82, &good[..5]), "ends in another"),
            (masked(0x81, b"text"), "text message"),
            (masked(0x80, b""), "has not begun"),
            ([masked(0x02, b""), masked(0x82, b"")].concat(), "before the last one"),
            (vec![0x82, 0x01, 0x00], "masked"),
        ] {
            let bytes = [masked(0x82, &good), bytes].concat();
            let (read, ending, _) = read_all(&bytes, 1 << 16).await;
            assert!(read.starts_with(&good), "{read:x?}");
            assert!(ending.as_ref().is_some_and(|text| text.contains(says)), "{ending:?}");
        }
    }

    #[test]
    fn messages_hold_whole_frames() {
        let frames = [frame_of(4), frame_of(10), frame_of(1)].concat();
        for (max, length) in [(0, 10), (10, 10), (25, 10), (26, 26), (33, 33), (1_000, 33)] {
            assert_eq!(whole_frames(&frames, max), length, "within {max}");
        }
    }
}
