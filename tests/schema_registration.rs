//! Registration under load and with unusual input: parallel registrations, bundles that share file names, diamonds, bytes that are none.

mod support;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;

use bytes::Bytes;
use proptest::prelude::{Strategy, any, prop};
use proptest::test_runner::{Config, TestRunner};
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use qwerq_proto::{Opcode, wire};
use support::broker::Broker;
use support::raw::Raw;

fn field(name: &str, number: i32, kind: Type, type_name: Option<&str>) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        type_name: type_name.map(str::to_owned),
        ..FieldDescriptorProto::default()
    }
}

fn file(name: &str, imports: &[&str], message: &str, fields: Vec<FieldDescriptorProto>) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some(name.to_owned()),
        package: Some("shop".to_owned()),
        dependency: imports.iter().map(|import| (*import).to_owned()).collect(),
        message_type: vec![DescriptorProto { name: Some(message.to_owned()), field: fields, ..DescriptorProto::default() }],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}

fn set(files: Vec<FileDescriptorProto>) -> Bytes {
    FileDescriptorSet { file: files }.encode_to_vec().into()
}

/// Registers `shop.Order`; the version, or the refusal's name.
fn register(raw: &mut Raw, queue: &str, descriptor_set: Bytes) -> Result<u32, String> {
    let message_type = "shop.Order".to_owned();
    let register = wire::SchemaRegister { queue: queue.to_owned(), descriptor_set, message_type, ..wire::SchemaRegister::default() };
    raw.send(Opcode::SchemaRegister, None, &register);
    let frame = raw.next().expect("an answer");
    match Opcode::from_u8(frame.opcode) {
        Some(Opcode::SchemaResponse) => {
            Ok(wire::SchemaResponse::decode(frame.payload).expect("a response").version.expect("a version").version)
        }
        Some(Opcode::Error) => Err(wire::Error::decode(frame.payload).expect("an ERROR").name),
        other => panic!("{other:?} is no answer"),
    }
}

fn in_parallel(address: SocketAddr, sets: Vec<Bytes>) -> Vec<u32> {
    let one = |set: Bytes| {
        std::thread::spawn(move || {
            let mut raw = Raw::hello(address);
            let version = register(&mut raw, "orders", set).expect("registered");
            // Registered is in force: the next publish is judged by a contract.
            let error = raw.publish_payloads("orders", &[&[0x08, 1]]).remove(0).error.expect("judged");
            assert_eq!(error.name, "schema-violation");
            version
        })
    };
    let threads: Vec<_> = sets.into_iter().map(one).collect();
    threads.into_iter().map(|thread| thread.join().expect("no thread fails")).collect()
}

#[test]
fn sixty_four_different_parallel_registrations_make_sixty_four_versions_without_gaps() {
    // Each has a field of its own, so that against another one it is a field removed: the rule must not stand in the way.
    let broker = Broker::start(&["--compatibility", "none"]);
    let order = |number: i32| {
        file(
            "order.proto",
            &[],
            "Order",
            vec![field("id", 1, Type::String, None), field(&format!("extra_{number}"), number, Type::String, None)],
        )
    };
    let mut versions = in_parallel(broker.address, (2..66).map(|number| set(vec![order(number)])).collect());
    versions.sort_unstable();
    assert_eq!(versions, (1..=64).collect::<Vec<u32>>());
}

#[test]
fn parallel_registrations_that_build_on_each_other_are_all_judged_by_what_is_active_then() {
    let broker = Broker::start(&["--compatibility", "wire-json"]);
    let order = |fields: i32| {
        let fields = (1..=fields).map(|number| field(&format!("f{number}"), number, Type::String, None)).collect();
        set(vec![file("order.proto", &[], "Order", fields)])
    };
    let one = |fields: i32| {
        let (address, set) = (broker.address, order(fields));
        std::thread::spawn(move || (fields, register(&mut Raw::hello(address), "orders", set)))
    };
    let outcomes: Vec<_> = (1..=32).map(one).collect::<Vec<_>>().into_iter().map(|thread| thread.join().expect("no panic")).collect();
    let mut registered: Vec<_> =
        outcomes.iter().filter_map(|(fields, outcome)| outcome.as_ref().ok().map(|version| (*version, *fields))).collect();
    registered.sort_unstable();
    assert!(registered.windows(2).all(|pair| pair[0].1 < pair[1].1), "each has more fields than the one before: {registered:?}");
    assert_eq!(registered.last().map(|(_, fields)| *fields), Some(32), "whatever came before, the largest breaks nobody");
    assert!(outcomes.iter().all(|(_, outcome)| outcome.as_ref().err().is_none_or(|name| name == "schema-incompatible")));
}

#[test]
fn bundles_with_the_same_file_names_do_not_mix_and_diamonds_hold_together() {
    let mut broker = Broker::start(&[]);
    let mut raw = Raw::hello(broker.address);
    let line = |kind| file("line.proto", &[], "Line", vec![field("n", 1, kind, None)]);
    let order = || file("order.proto", &["line.proto"], "Order", vec![field("line", 1, Type::Message, Some(".shop.Line"))]);
    assert_eq!(register(&mut raw, "numbers", set(vec![line(Type::Int32), order()])), Ok(1));
    assert_eq!(register(&mut raw, "texts", set(vec![line(Type::String), order()])), Ok(1));
    let left = file("left.proto", &["line.proto"], "Left", vec![field("line", 1, Type::Message, Some(".shop.Line"))]);
    let right = file("right.proto", &["line.proto"], "Right", vec![field("line", 1, Type::Message, Some(".shop.Line"))]);
    let both = vec![field("left", 1, Type::Message, Some(".shop.Left")), field("right", 2, Type::Message, Some(".shop.Right"))];
    let diamond = vec![line(Type::Int32), left, right, file("order.proto", &["left.proto", "right.proto"], "Order", both)];
    assert_eq!(register(&mut raw, "diamond", set(diamond)), Ok(1));
    let (number, text): (&[u8], &[u8]) = (&[0x0a, 2, 0x08, 7], &[0x0a, 3, 0x0a, 1, b'a']);
    for restarted in [false, true] {
        if restarted {
            assert!(broker.terminate().success());
            broker.restart();
        }
        let mut raw = Raw::hello(broker.address);
        for (queue, good, bad) in [("numbers", number, text), ("texts", text, number), ("diamond", &[0x0a, 4, 0x0a, 2, 8, 7], &[0x0a, 1])] {
            let results = raw.publish_payloads(queue, &[good, bad]);
            let errors: Vec<_> = results.iter().map(|result| result.error.as_ref().map(|error| error.name.as_str())).collect();
            assert_eq!(errors, [None, Some("schema-violation")], "{queue}");
        }
    }
}

#[test]
fn no_bytes_that_are_registered_stop_the_broker() {
    let broker = Broker::start(&[]);
    let good = set(vec![file("order.proto", &[], "Order", vec![field("id", 1, Type::String, None)])]).to_vec();
    // Bytes as they come, and a good set with some of its bytes changed, cut or repeated.
    let noise = prop::collection::vec(any::<u8>(), 0..200);
    let length = good.len();
    let damaged = prop::collection::vec((0..length, any::<u8>()), 1..6).prop_map(move |changes| {
        let mut bytes = good.clone();
        for (at, value) in changes {
            match value {
                0..16 => bytes.truncate(at.min(bytes.len())),
                16..32 => bytes.extend_from_within(at.min(bytes.len())..),
                value => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = value;
                    }
                }
            }
        }
        bytes
    });
    let (raw, number) = (RefCell::new(Raw::hello(broker.address)), Cell::new(0));
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(400) });
    let bytes = proptest::prop_oneof![noise, damaged];
    let outcome = runner.run(&bytes, |bytes| {
        number.set(number.get() + 1);
        let answer = register(&mut raw.borrow_mut(), &format!("fuzz-{}", number.get()), bytes.into());
        let known = ["schema-invalid", "type-not-found"];
        assert!(answer.as_ref().err().is_none_or(|name| known.contains(&name.as_str())), "{answer:?}");
        Ok(())
    });
    outcome.expect("every answer is a version or a refusal");
    assert!(raw.into_inner().publish_payloads("fine", &[b"x"])[0].error.is_none());
}
