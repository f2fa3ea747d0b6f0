//! [`Session`]: a connection to one node that expects to be let down: whatever goes wrong is an `Err`, and nothing is waited for for ever.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::BytesMut;
use prost::Message;
use qwerq_proto::{Frame, FrameDecoder, MAX_FRAME_BYTES, Opcode, encode_frame, wire};

/// How long a node that is paused or cut off is waited for.
const PATIENCE: Duration = Duration::from_secs(4);

/// Why a session has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The node answered with an error.
    Error(Box<wire::Error>),
    /// It is not there, does not answer, or has closed.
    Gone,
}

pub(crate) struct Session {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Session {
    /// Connects and says HELLO.
    pub(crate) fn open(address: SocketAddr, features: &[&str]) -> Result<Session, Ended> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(|_| Ended::Gone)?;
        stream.set_read_timeout(Some(PATIENCE)).expect("TCP");
        stream.set_nodelay(true).expect("TCP");
        let mut session = Session { stream, buffer: BytesMut::new() };
        let features = features.iter().map(|feature| (*feature).to_owned()).collect();
        let hello = wire::Hello { min_protocol: 1, max_protocol: 1, client_name: "checker".to_owned(), features, ..wire::Hello::default() };
        let _: wire::HelloAck = session.ask(Opcode::Hello, &hello, Opcode::HelloAck)?;
        Ok(session)
    }

    pub(crate) fn send(&mut self, opcode: Opcode, message: &impl Message) -> Result<(), Ended> {
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, opcode, None, message);
        self.stream.write_all(&bytes).map_err(|_| Ended::Gone)
    }

    /// The next frame that is no heartbeat.
    pub(crate) fn next(&mut self) -> Result<Frame, Ended> {
        let decoder = FrameDecoder::new(MAX_FRAME_BYTES);
        loop {
            if let Some(frame) = decoder.decode(&mut self.buffer).expect("the broker speaks frames") {
                if frame.opcode == Opcode::Error as u8 {
                    return Err(Ended::Error(Box::new(wire::Error::decode(frame.payload).expect("an ERROR"))));
                }
                if frame.opcode != Opcode::Heartbeat as u8 {
                    return Ok(frame);
                }
                continue;
            }
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return Err(Ended::Gone),
                Ok(read) => self.buffer.extend_from_slice(&chunk[..read]),
            }
        }
    }

    /// A request, and its answer.
    pub(crate) fn ask<M: Message + Default>(&mut self, opcode: Opcode, request: &impl Message, answer: Opcode) -> Result<M, Ended> {
        self.send(opcode, request)?;
        let frame = self.next()?;
        assert_eq!(Opcode::from_u8(frame.opcode), Some(answer));
        Ok(M::decode(frame.payload).expect("the payload is what the opcode demands"))
    }

    /// Publishes one message to a queue.
    pub(crate) fn publish(&mut self, queue: &str, item: wire::PublishItem) -> Result<wire::PublishResult, Ended> {
        let publish = wire::Publish { queue: queue.to_owned(), items: vec![item], ..wire::Publish::default() };
        let mut ack: wire::PublishAck = self.ask(Opcode::Publish, &publish, Opcode::PublishAck)?;
        let result = ack.results.remove(0);
        match result.error {
            Some(error) => Err(Ended::Error(Box::new(error))),
            None => Ok(result),
        }
    }
}
