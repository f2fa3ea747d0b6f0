//! The protocol under abuse: oversized, truncated, garbled and unknown frames get a typed error, cost no memory, and disturb nobody else.

mod support;

use bytes::Bytes;
use qwerq_proto::{MAX_FRAME_BYTES, MAX_FRAME_BYTES_BEFORE_HELLO, Opcode, wire};
use support::broker::Broker;
use support::raw::Raw;

/// Resident memory of a process, in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

fn header(opcode: Opcode, flags: u8, length: u32) -> Vec<u8> {
    let mut bytes = vec![opcode as u8, flags];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

/// A bystander's connection still works.
fn still_serves(bystander: &mut Raw) {
    let results = bystander.publish_payloads("bystander", &[b"x"]);
    assert!(results[0].error.is_none(), "{results:?}");
}

#[test]
fn a_length_beyond_the_limit_is_refused_before_allocation() {
    let broker = Broker::start(&[]);
    let mut bystander = Raw::hello(broker.address);
    still_serves(&mut bystander);
    let before = resident_kib(broker.pid());
    for round in 0..8 {
        for length in [0xffff_ffff, 0x7fff_ffff, MAX_FRAME_BYTES + 1] {
            let mut raw = Raw::hello(broker.address);
            raw.write(&header(Opcode::Publish, 0, length));
            let error = raw.expect_error("frame-too-large");
            assert_eq!(error.details["bytes"], length.to_string());
            assert!(raw.next().is_none(), "a protocol error closes the connection");
            let mut early = Raw::connect(broker.address);
            early.write(&header(Opcode::Hello, 0, length));
            early.expect_error("frame-too-large");
        }
        let mut early = Raw::connect(broker.address);
        early.write(&header(Opcode::Hello, 0, MAX_FRAME_BYTES_BEFORE_HELLO + 1));
        early.expect_error("frame-too-large");
        assert!(early.next().is_none(), "round {round}");
    }
    let grown = resident_kib(broker.pid()).saturating_sub(before);
    assert!(grown < 8 * 1024, "memory grew by {grown} KiB");
    still_serves(&mut bystander);
}

#[test]
fn a_frame_of_exactly_the_limit_is_taken() {
    let broker = Broker::start(&["--max-message-bytes", "16711680"]);
    // HELLO of exactly 4 KiB.
    let fill = |n: usize| wire::Hello { min_protocol: 1, max_protocol: 1, client_name: "x".repeat(n), ..wire::Hello::default() };
    let limit = MAX_FRAME_BYTES_BEFORE_HELLO as usize;
    let hello = (0..limit).rev().map(fill).find(|hello| prost::Message::encoded_len(hello) == limit).expect("some length fits");
    let mut raw = Raw::connect(broker.address);
    raw.send(Opcode::Hello, None, &hello);
    let _: wire::HelloAck = raw.expect(Opcode::HelloAck);
    // PUBLISH of exactly 16 MiB, in messages of at most 1 MiB and one that fills up.
    let item = |bytes: usize| wire::PublishItem { payload: Bytes::from(vec![0; bytes]), ..wire::PublishItem::default() };
    let mut publish = wire::Publish { queue: "large".to_owned(), items: vec![item(1 << 20); 15], ..wire::Publish::default() };
    let limit = MAX_FRAME_BYTES as usize;
    publish.items.push(item(1));
    let mut rest = limit - prost::Message::encoded_len(&publish);
    while prost::Message::encoded_len(&publish) != limit {
        publish.items.pop();
        publish.items.push(item(rest));
        let length = prost::Message::encoded_len(&publish);
        rest = if length > limit { rest - (length - limit) } else { rest + (limit - length) };
    }
    let results = raw.publish(&publish);
    assert_eq!(results.len(), 16);
    assert!(results.iter().all(|result| result.error.is_none()), "{results:?}");
}

#[test]
fn garbage_gets_a_typed_error_and_others_do_not_notice() {
    let broker = Broker::start(&[]);
    let mut bystander = Raw::hello(broker.address);
    let mut cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("an unnegotiated flag", header(Opcode::Publish, 0b10, 0), "unnegotiated-flag"),
        ("the flag MORE", header(Opcode::Publish, 0b100, 0), "unnegotiated-flag"),
        ("a correlated frame without room for its id", header(Opcode::Publish, 1, 3), "malformed-frame"),
        ("HELLO again", header(Opcode::Hello, 0, 0), "hello-required"),
    ];
    let mut garbled = header(Opcode::Publish, 0, 4);
    garbled.extend_from_slice(&[0xff; 4]);
    cases.push(("a payload that is no PUBLISH", garbled, "malformed-message"));
    for (what, bytes, name) in cases {
        let mut raw = Raw::hello(broker.address);
        raw.write(&bytes);
        raw.expect_error(name);
        assert!(raw.next().is_none(), "{what} closes the connection");
        still_serves(&mut bystander);
    }
    let mut raw = Raw::connect(broker.address);
    raw.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    raw.expect_error("frame-too-large");
    let mut raw = Raw::connect(broker.address);
    raw.write(&header(Opcode::Publish, 0, 0));
    raw.expect_error("hello-required");
    still_serves(&mut bystander);
}

#[test]
fn an_unknown_opcode_is_answered_and_the_connection_stays() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    raw.write(&[0xee, 1, 0, 0, 0, 4, 0, 0, 0, 9]);
    let frame = raw.next().expect("the connection is open");
    assert_eq!((frame.opcode, frame.request_id), (Opcode::Error as u8, Some(9)));
    let error: wire::Error = prost::Message::decode(frame.payload).expect("an ERROR");
    assert_eq!(error.name, "unsupported");
    still_serves(&mut raw);
}

#[test]
fn a_truncated_frame_is_no_publish() {
    let broker = Broker::start(&[]);
    let mut bystander = Raw::hello(broker.address);
    let mut raw = Raw::hello(broker.address);
    let publish = wire::Publish {
        queue: "cut".to_owned(),
        items: vec![wire::PublishItem { payload: Bytes::from_static(b"never"), ..wire::PublishItem::default() }],
        ..wire::Publish::default()
    };
    let mut bytes = Vec::new();
    qwerq_proto::encode_frame(&mut bytes, Opcode::Publish, None, &publish);
    raw.write(&bytes[..bytes.len() - 1]);
    drop(raw);
    still_serves(&mut bystander);
    bystander.send(Opcode::QueueInfo, None, &wire::QueueName { name: "cut".to_owned() });
    bystander.expect_error("queue-not-found");
}

#[test]
fn replies_come_in_order_unless_correlated_ones_carry_their_id() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    for n in 0..50_u32 {
        let item = wire::PublishItem { payload: Bytes::from(n.to_be_bytes().to_vec()), ..wire::PublishItem::default() };
        let publish = wire::Publish { queue: "order".to_owned(), items: vec![item], ..wire::Publish::default() };
        raw.send(Opcode::Publish, None, &publish);
        raw.send(Opcode::QueueInfo, None, &wire::QueueName { name: format!("missing-{n}") });
        raw.send(Opcode::QueueInfo, Some(n), &wire::QueueName { name: "order".to_owned() });
    }
    for n in 0..50_u32 {
        let ack: wire::PublishAck = raw.expect(Opcode::PublishAck);
        assert_eq!(ack.results[0].seq, Some(u64::from(n)));
        let error = raw.expect_error("queue-not-found");
        assert_eq!(error.details["queue"], format!("missing-{n}"));
        let frame = raw.next().expect("a reply");
        assert_eq!((frame.opcode, frame.request_id), (Opcode::QueueInfoResponse as u8, Some(n)));
    }
}

#[test]
fn names_that_break_the_rule_are_refused_wherever_they_arrive() {
    let broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    for name in ["", ".hidden", "-flag", "a b", "<script>", "../x", &"n".repeat(252)] {
        let results = raw.publish_payloads(name, &[b"x"]);
        assert_eq!(results[0].error.as_ref().expect("refused").name, "invalid-name", "{name:?}");
        raw.send(Opcode::Consume, None, &wire::Consume { queue: name.to_owned(), ..wire::Consume::default() });
        raw.expect_error("invalid-name");
        raw.send(Opcode::QueueCreate, None, &wire::QueueCreate { name: name.to_owned(), options: None });
        raw.expect_error("invalid-name");
    }
    raw.send(Opcode::Consume, None, &wire::Consume { queue: "q".to_owned(), group: "a/b".to_owned(), ..wire::Consume::default() });
    raw.expect_error("invalid-name");
}

#[test]
fn a_token_closes_the_broker() {
    let broker = Broker::start(&["--auth-token", "s3cret"]);
    for token in ["", "wrong", "s3cre"] {
        let mut raw = Raw::connect(broker.address);
        let hello = wire::Hello { min_protocol: 1, max_protocol: 1, token: token.to_owned(), ..wire::Hello::default() };
        raw.send(Opcode::Hello, None, &hello);
        raw.expect_error("unauthorized");
        assert!(raw.next().is_none());
    }
    let mut raw = Raw::connect(broker.address);
    let hello = wire::Hello { min_protocol: 1, max_protocol: 9, token: "s3cret".to_owned(), ..wire::Hello::default() };
    raw.send(Opcode::Hello, None, &hello);
    let ack: wire::HelloAck = raw.expect(Opcode::HelloAck);
    assert_eq!(ack.protocol, 1);
    let mut raw = Raw::connect(broker.address);
    let future = wire::Hello { min_protocol: 2, max_protocol: 3, token: "s3cret".to_owned(), ..wire::Hello::default() };
    raw.send(Opcode::Hello, None, &future);
    raw.expect_error("version-unsupported");
}
