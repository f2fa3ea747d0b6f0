//! A connection that speaks frames and nothing more, so that tests can say what no client would.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::BytesMut;
use prost::Message;
use qwerq_proto::{Frame, FrameDecoder, MAX_FRAME_BYTES, Opcode, encode_frame, wire};

/// A bare connection.
pub(crate) struct Raw {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Raw {
    /// Connects and says nothing.
    pub(crate) fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).expect("the broker listens");
        stream.set_nodelay(true).expect("TCP");
        Raw { stream, buffer: BytesMut::new() }
    }

    /// Connects and says HELLO.
    pub(crate) fn hello(address: SocketAddr) -> Raw {
        let mut raw = Raw::connect(address);
        let hello = wire::Hello { min_protocol: 1, max_protocol: 1, client_name: "test".to_owned(), ..wire::Hello::default() };
        raw.send(Opcode::Hello, None, &hello);
        let _: wire::HelloAck = raw.expect(Opcode::HelloAck);
        raw
    }

    /// Writes bytes as they are; whether the peer still took them.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, opcode: Opcode, request_id: Option<u32>, message: &impl Message) {
        let mut bytes = Vec::new();
        encode_frame(&mut bytes, opcode, request_id, message);
        self.stream.write_all(&bytes).expect("the broker reads");
    }

    /// The next frame that is no heartbeat; `None` when the broker closed the connection.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let decoder = FrameDecoder::new(MAX_FRAME_BYTES);
        loop {
            if let Some(frame) = decoder.decode(&mut self.buffer).expect("the broker speaks frames") {
                if frame.opcode != Opcode::Heartbeat as u8 {
                    return Some(frame);
                }
                continue;
            }
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("reading fails: {error}"),
            }
        }
    }

    /// The next frame, which must have this opcode.
    pub(crate) fn expect<M: Message + Default>(&mut self, opcode: Opcode) -> M {
        let frame = self.next().expect("the connection is open");
        let got = Opcode::from_u8(frame.opcode);
        if got == Some(Opcode::Error) && opcode != Opcode::Error {
            panic!("ERROR {:?} instead of {}", wire::Error::decode(frame.payload), opcode.name());
        }
        assert_eq!(got, Some(opcode));
        M::decode(frame.payload).expect("the payload is what the opcode demands")
    }

    /// The next frame is this error.
    pub(crate) fn expect_error(&mut self, name: &str) -> wire::Error {
        let error: wire::Error = self.expect(Opcode::Error);
        assert_eq!(error.name, name, "{error:?}");
        error
    }

    /// Publishes and returns the results.
    pub(crate) fn publish(&mut self, publish: &wire::Publish) -> Vec<wire::PublishResult> {
        self.send(Opcode::Publish, None, publish);
        self.expect::<wire::PublishAck>(Opcode::PublishAck).results
    }

    /// Publishes payloads without anything else.
    pub(crate) fn publish_payloads(&mut self, queue: &str, payloads: &[&[u8]]) -> Vec<wire::PublishResult> {
        let item = |payload: &&[u8]| wire::PublishItem { payload: bytes::Bytes::copy_from_slice(payload), ..wire::PublishItem::default() };
        self.publish(&wire::Publish { queue: queue.to_owned(), items: payloads.iter().map(item).collect(), ..wire::Publish::default() })
    }
}

/// Consuming, one message at a time.
impl Raw {
    /// Subscribes as 1 to a group of a queue with room for `prefetch` messages, working on one at a time.
    pub(crate) fn consume(&mut self, queue: &str, group: &str, prefetch: u32) -> wire::ConsumeAck {
        self.consume_as(&wire::Consume {
            subscription: 1,
            queue: queue.to_owned(),
            group: group.to_owned(),
            prefetch,
            ..wire::Consume::default()
        })
    }

    pub(crate) fn consume_as(&mut self, consume: &wire::Consume) -> wire::ConsumeAck {
        self.send(Opcode::Consume, None, consume);
        self.expect(Opcode::ConsumeAck)
    }

    /// The next deliveries, exactly so many.
    pub(crate) fn take(&mut self, count: usize) -> Vec<wire::Delivered> {
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.extend(self.expect::<wire::Deliver>(Opcode::Message).messages);
        }
        assert_eq!(taken.len(), count, "{taken:?}");
        taken
    }

    /// The next delivery.
    pub(crate) fn take_one(&mut self) -> wire::Delivered {
        self.take(1).remove(0)
    }

    /// The next delivery; those that come in the same frame go behind the others in `waiting`.
    pub(crate) fn take_one_of_many(&mut self, waiting: &mut std::collections::VecDeque<wire::Delivered>) -> wire::Delivered {
        waiting.extend(self.expect::<wire::Deliver>(Opcode::Message).messages);
        waiting.pop_front().expect("a MESSAGE holds messages")
    }

    /// ACK, NACK, REJECT, RELEASE or EXTEND_VISIBILITY of one lease, confirmed; what is delivered meanwhile comes back too.
    pub(crate) fn settle(
        &mut self,
        opcode: Opcode,
        delivered: &wire::Delivered,
        settle: wire::Settle,
    ) -> (wire::Settled, Vec<wire::Delivered>) {
        let settle = wire::Settle { lease_ids: vec![delivered.lease_id.clone()], confirm: true, ..settle };
        self.send(opcode, None, &settle);
        let mut meanwhile = Vec::new();
        loop {
            let frame = self.next().expect("the connection is open");
            match Opcode::from_u8(frame.opcode) {
                Some(Opcode::Message) => meanwhile.extend(wire::Deliver::decode(frame.payload).expect("a MESSAGE").messages),
                Some(Opcode::Settled | Opcode::ExtendVisibilityAck) => {
                    return (wire::Settled::decode(frame.payload).expect("a SETTLED"), meanwhile);
                }
                other => panic!("{other:?} instead of SETTLED"),
            }
        }
    }

    /// Acknowledges, and waits until it is durable.
    pub(crate) fn ack(&mut self, delivered: &wire::Delivered) -> Vec<wire::Delivered> {
        let (settled, meanwhile) = self.settle(Opcode::Ack, delivered, wire::Settle::default());
        assert_eq!(settled.settled, 1, "{settled:?}");
        meanwhile
    }

    /// A request that is answered by one frame.
    pub(crate) fn ask<M: Message + Default>(&mut self, opcode: Opcode, request: &impl Message, answer: Opcode) -> M {
        self.send(opcode, None, request);
        self.expect(answer)
    }

    /// Creates a queue.
    pub(crate) fn create(&mut self, name: &str, options: wire::QueueOptions) -> wire::QueueInfo {
        let create = wire::QueueCreate { name: name.to_owned(), options: Some(options) };
        self.ask(Opcode::QueueCreate, &create, Opcode::QueueInfoResponse)
    }

    /// What the broker says of a queue.
    pub(crate) fn info(&mut self, name: &str) -> wire::QueueInfo {
        self.ask(Opcode::QueueInfo, &wire::QueueName { name: name.to_owned() }, Opcode::QueueInfoResponse)
    }

    /// The dead letters of a queue.
    pub(crate) fn letters(&mut self, queue: &str) -> Vec<wire::Delivered> {
        let wanted = wire::DeadLetters { queue: queue.to_owned(), ..wire::DeadLetters::default() };
        self.ask::<wire::Fetched>(Opcode::DeadLetters, &wanted, Opcode::Fetched).messages
    }
}

/// The value of a header.
pub(crate) fn header<'a>(delivered: &'a wire::Delivered, name: &str) -> Option<&'a str> {
    delivered.headers.iter().find(|header| header.name == name).map(|header| header.value.as_str())
}
