//! `/ws`: the protocol over WebSocket, held against a WebSocket client that nobody here wrote, and against raw bytes that no client sends.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use prost::Message;
use qwerq_proto::{Frame, FrameDecoder, MAX_FRAME_BYTES, Opcode, encode_frame, wire};
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message as WebSocketMessage, WebSocket};

use support::broker::Broker;
use support::raw::Raw;

/// A WebSocket of the broker, and the frames that its messages brought.
struct Client {
    socket: WebSocket<TcpStream>,
    frames: BytesMut,
}

/// How a connection ended: the close code and its reason.
type Closed = Option<(u16, String)>;

impl Client {
    /// Connects, or says with which status it was refused.
    fn connect(broker: &Broker, headers: &[(&'static str, &str)]) -> Result<Client, u16> {
        let mut request = format!("ws://{}/ws", broker.http).into_client_request().expect("an address");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        let stream = TcpStream::connect(broker.http).expect("HTTP listens");
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Client { socket, frames: BytesMut::new() }),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => Err(response.status().as_u16()),
            Err(error) => panic!("no handshake: {error}"),
        }
    }

    fn open(broker: &Broker) -> Client {
        Client::connect(broker, &[]).unwrap_or_else(|status| panic!("refused with {status}"))
    }

    /// Connects and says HELLO.
    fn hello(broker: &Broker) -> Client {
        let mut client = Client::open(broker);
        client.send(&[hello("")]);
        let frame = client.next().expect("an answer");
        assert_eq!(frame.opcode, Opcode::HelloAck as u8);
        client
    }

    /// Sends frames in one message.
    fn send(&mut self, frames: &[Vec<u8>]) {
        self.socket.send(WebSocketMessage::Binary(frames.concat().into())).expect("the broker reads");
    }

    /// The next frame that is no heartbeat, or how the connection was closed.
    fn next(&mut self) -> Result<Frame, Closed> {
        loop {
            let decoded = FrameDecoder::new(MAX_FRAME_BYTES).decode(&mut self.frames).expect("the broker speaks frames");
            if let Some(frame) = decoded.filter(|frame| frame.opcode != Opcode::Heartbeat as u8) {
                return Ok(frame);
            }
            match self.socket.read() {
                Ok(WebSocketMessage::Binary(message)) => {
                    assert!(self.frames.is_empty(), "a frame never spans two messages");
                    self.frames.extend_from_slice(&message);
                }
                Ok(WebSocketMessage::Close(close)) => {
                    return Err(close.map(|close| (close.code.into(), close.reason.as_str().to_owned())));
                }
                Ok(other) => panic!("{other:?} is no frame"),
                Err(_) => return Err(None),
            }
        }
    }

    /// The next frames are this error and the end, with this close code.
    fn expect_refusal(&mut self, name: &str, code: CloseCode) {
        let frame = self.next().expect("an ERROR");
        assert_eq!(frame.opcode, Opcode::Error as u8);
        let error = wire::Error::decode(frame.payload).expect("an ERROR");
        assert_eq!(error.name, name, "{}", error.message);
        assert_eq!(self.next().map(|frame| frame.opcode), Err(Some((code.into(), name.to_owned()))));
    }
}

fn frame(opcode: Opcode, request_id: Option<u32>, message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, opcode, request_id, message);
    bytes
}

fn hello(token: &str) -> Vec<u8> {
    let hello = wire::Hello { min_protocol: 1, max_protocol: 1, token: token.to_owned(), ..wire::Hello::default() };
    frame(Opcode::Hello, None, &hello)
}

fn publish(queue: &str, request_id: u32, payload: Vec<u8>) -> Vec<u8> {
    let item = wire::PublishItem { payload: Bytes::from(payload), ..wire::PublishItem::default() };
    let publish = wire::Publish { queue: queue.to_owned(), items: vec![item], ..wire::Publish::default() };
    frame(Opcode::Publish, Some(request_id), &publish)
}

#[test]
fn the_same_frames_run_over_websocket() {
    let broker = Broker::start(&[]);
    let mut client = Client::hello(&broker);
    // Several frames in one message, small and large.
    let large: Vec<u8> = (0..900_000_u32).map(|i| (i % 251) as u8).collect();
    let frames = [publish("orders", 1, b"small".to_vec()), publish("orders", 2, large.clone()), publish("orders", 3, large.clone())];
    client.send(&frames);
    for request_id in 1..=3 {
        let ack = client.next().expect("PUBLISH_ACK");
        assert_eq!((ack.opcode, ack.request_id), (Opcode::PublishAck as u8, Some(request_id)));
    }
    let consume = wire::Consume { subscription: 1, queue: "orders".to_owned(), prefetch: 10, ..wire::Consume::default() };
    client.send(&[frame(Opcode::Consume, None, &consume)]);
    assert_eq!(client.next().expect("CONSUME_ACK").opcode, Opcode::ConsumeAck as u8);
    let mut payloads = Vec::new();
    let mut leases = Vec::new();
    while payloads.len() < 3 {
        let deliver = wire::Deliver::decode(client.next().expect("MESSAGE").payload).expect("a MESSAGE");
        leases.extend(deliver.messages.iter().map(|message| message.lease_id.clone()));
        payloads.extend(deliver.messages.into_iter().map(|message| message.payload));
    }
    assert_eq!(payloads, [Bytes::from_static(b"small"), large.clone().into(), large.into()]);
    client.send(&[frame(Opcode::Ack, Some(9), &wire::Settle { lease_ids: leases, confirm: true, ..wire::Settle::default() })]);
    let settled = wire::Settled::decode(client.next().expect("SETTLED").payload).expect("a SETTLED");
    assert_eq!(settled.settled, 3);
    assert_eq!(broker.metric("qwerq_connections{transport=\"websocket\"}"), 1.0);
    // A client that leaves in order is left in order.
    client.socket.close(None).expect("the broker is there");
    assert_eq!(client.next().map(|frame| frame.opcode), Err(Some((1000, String::new()))));
}

#[test]
fn hello_authenticates() {
    let broker = Broker::start_with(&[], &[("QWERQ_AUTH_TOKEN", "s3cret")]);
    for token in ["", "wrong", "s3cret "] {
        let mut client = Client::open(&broker);
        client.send(&[hello(token)]);
        client.expect_refusal("unauthorized", CloseCode::Policy);
    }
    let mut client = Client::open(&broker);
    client.send(&[hello("s3cret")]);
    assert_eq!(client.next().expect("HELLO_ACK").opcode, Opcode::HelloAck as u8);
    let mut client = Client::open(&broker);
    client.send(&[publish("orders", 1, Vec::new())]);
    client.expect_refusal("hello-required", CloseCode::Protocol);
}

#[test]
fn pages_of_other_sites_are_refused_unless_they_are_allowed() {
    let broker = Broker::start(&["--allowed-origins", "https://app.example,http://localhost:5173"]);
    let own = format!("http://{}", broker.http);
    for origin in [own.as_str(), "https://app.example", "http://localhost:5173"] {
        assert!(Client::connect(&broker, &[("origin", origin)]).is_ok(), "{origin}");
    }
    for origin in ["https://evil.example", "null", "http://localhost", "https://app.example.evil.example"] {
        assert_eq!(Client::connect(&broker, &[("origin", origin)]).err(), Some(403), "{origin}");
    }
    // A name that the page's owner lets resolve to this address.
    let headers = [("origin", "http://evil.example"), ("host", "evil.example")];
    assert_eq!(Client::connect(&broker, &headers).err(), Some(403));
}

#[test]
fn what_is_no_handshake_is_told_what_to_do() {
    let broker = Broker::start(&[]);
    let (status, body) = broker.get("/ws");
    assert_eq!(status, 426);
    assert!(body.contains("ws://HOST:PORT/ws"), "{body}");
}

#[test]
fn messages_hold_whole_frames_and_no_text() {
    let broker = Broker::start(&[]);
    let mut client = Client::hello(&broker);
    client.socket.send(WebSocketMessage::Text("hello".into())).expect("the broker reads");
    client.expect_refusal("malformed-frame", CloseCode::Unsupported);

    let mut client = Client::hello(&broker);
    let whole = publish("orders", 1, b"whole".to_vec());
    let (head, tail) = whole.split_at(9);
    client.send(&[whole.clone(), head.to_vec()]);
    client.socket.send(WebSocketMessage::Binary(tail.to_vec().into())).ok();
    // What came before it counts.
    assert_eq!(client.next().expect("PUBLISH_ACK").opcode, Opcode::PublishAck as u8);
    client.expect_refusal("malformed-frame", CloseCode::Protocol);
    assert_eq!(broker.metric("qwerq_queue_depth{queue=\"orders\"}"), 1.0);
}

#[test]
fn limits_hold_before_hello_and_after_it() {
    let broker = Broker::start(&[]);
    let mut client = Client::open(&broker);
    // The header alone is enough; the rest never comes.
    client.send(&[vec![Opcode::Hello as u8, 0, 0, 0, 0x10, 0x01]]);
    client.expect_refusal("frame-too-large", CloseCode::Size);
    let mut client = Client::hello(&broker);
    client.send(&[vec![Opcode::Publish as u8, 0, 0x01, 0, 0, 0x01]]);
    client.expect_refusal("frame-too-large", CloseCode::Size);
}

#[test]
fn pings_are_answered_and_are_no_frames() {
    let broker = Broker::start(&[]);
    let mut client = Client::hello(&broker);
    client.socket.send(WebSocketMessage::Ping(Bytes::from_static(b"there?"))).expect("the broker reads");
    loop {
        match client.socket.read().expect("the connection is open") {
            WebSocketMessage::Pong(payload) => return assert_eq!(payload, b"there?"[..]),
            WebSocketMessage::Binary(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_broker_that_stops_says_goaway_and_closes() {
    let mut broker = Broker::start(&[]);
    let mut client = Client::hello(&broker);
    let stopping = std::thread::spawn(move || broker.terminate());
    let goaway = client.next().expect("GOAWAY");
    assert_eq!(goaway.opcode, Opcode::GoAway as u8);
    // It settles what it holds and leaves; then nothing keeps the broker.
    client.socket.close(None).expect("the broker is there");
    while client.next().is_ok() {}
    assert!(stopping.join().expect("the broker was stopped").success());
}

#[test]
fn both_transports_see_the_same_queues() {
    let broker = Broker::start(&[]);
    let mut tcp = Raw::hello(broker.address);
    tcp.publish_payloads("orders", &[b"by tcp"]);
    let mut client = Client::hello(&broker);
    let fetch = wire::Fetch { queue: "orders".to_owned(), max: 1, wait_ms: 60_000, ..wire::Fetch::default() };
    client.send(&[frame(Opcode::Fetch, Some(1), &fetch)]);
    let fetched = wire::Fetched::decode(client.next().expect("FETCHED").payload).expect("a FETCHED");
    assert_eq!(fetched.messages[0].payload, b"by tcp"[..]);
}

/// Bytes that no WebSocket library sends.
#[test]
fn websocket_frames_that_break_rfc_6455_end_the_connection() {
    let broker = Broker::start(&[]);
    for (bytes, says) in [
        (&[0x82, 0x01, 0x00][..], "not masked"),
        (&[0xc2, 0x80, 0, 0, 0, 0], "reserved bits"),
        (&[0x80, 0x80, 0, 0, 0, 0], "has not begun"),
        (&[0x09, 0x80, 0, 0, 0, 0], "control frame"),
    ] {
        let mut stream = TcpStream::connect(broker.http).expect("HTTP listens");
        let handshake = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
                         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(handshake.as_bytes()).expect("the broker reads");
        stream.write_all(bytes).expect("the broker reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the broker closes");
        let text = String::from_utf8_lossy(&answer);
        // The example of RFC 6455.
        assert!(text.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{text}");
        assert!(text.contains("malformed-frame") && text.contains(says), "{text}");
    }
}
