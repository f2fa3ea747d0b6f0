//! Structs that are held to contracts at compile time: what the attributes fill in, and what they implement. What does not compile is in
//! `ui`, and the contracts are in `contracts`.

use std::collections::HashMap;

use qwerq::prost::Message as _;
use qwerq::prost_types::Timestamp;
use qwerq::{CallContract, ContractInfo, EnumType, MessageType, OneofType};

#[qwerq::queue("orders.created", message = "shop.v1.Order", schema = "tests/contracts")]
#[derive(Clone, Debug, Default, PartialEq)]
struct Order {
    id: String,
    customer_id: String,
    total: i64,
    lines: Vec<Line>,
    #[prost(enumeration = "Status")]
    status: i32,
    note: Option<String>,
    discounts: HashMap<String, i32>,
    placed_at: Option<Timestamp>,
    delivery: Option<Delivery>,
    coupons: Vec<u32>,
}

#[qwerq::message("shop.v1.Line", schema = "tests/contracts")]
#[derive(Clone, PartialEq)]
struct Line {
    // Order does not matter, and neither do aliases.
    quantity: Pieces,
    article: String,
}

type Pieces = u32;

#[qwerq::message("shop.v1.Address", schema = "tests/contracts")]
#[derive(Clone, PartialEq)]
struct Address {
    street: String,
    city: String,
}

#[qwerq::enumeration("shop.v1.Status", schema = "tests/contracts")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Unspecified,
    Open,
    Paid,
}

#[qwerq::oneof("shop.v1.Order.delivery", schema = "tests/contracts")]
#[derive(Clone, Debug, PartialEq)]
enum Delivery {
    Pickup(String),
    Address(Address),
}

/// The same, as people write it by hand or prost-build writes it.
mod by_hand {
    use super::*;

    #[qwerq::queue("orders.created", schema = "tests/contracts")]
    #[derive(Clone, PartialEq, qwerq::prost::Message)]
    #[prost(prost_path = "::qwerq::prost")]
    pub(super) struct Order {
        #[prost(string, tag = "1")]
        pub(super) id: String,
        #[prost(string, tag = "2")]
        pub(super) customer_id: String,
        #[prost(int64, tag = "3")]
        pub(super) total: i64,
        #[prost(message, repeated, tag = "4")]
        pub(super) lines: Vec<Line>,
        #[prost(enumeration = "Status", tag = "5")]
        pub(super) status: i32,
        #[prost(string, optional, tag = "6")]
        pub(super) note: Option<String>,
        #[prost(map = "string, int32", tag = "7")]
        pub(super) discounts: HashMap<String, i32>,
        #[prost(message, optional, tag = "8")]
        pub(super) placed_at: Option<Timestamp>,
        #[prost(oneof = "Delivery", tags = "9, 10")]
        pub(super) delivery: Option<Delivery>,
        #[prost(uint32, repeated, tag = "11")]
        pub(super) coupons: Vec<u32>,
    }

    #[qwerq::enumeration("shop.v1.Status", schema = "tests/contracts")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, qwerq::prost::Enumeration)]
    #[prost(prost_path = "::qwerq::prost")]
    #[repr(i32)]
    pub(super) enum Status {
        Unspecified = 0,
        Open = 1,
        Paid = 2,
    }

    #[qwerq::oneof("shop.v1.Order.delivery", schema = "tests/contracts")]
    #[derive(Clone, PartialEq, qwerq::prost::Oneof)]
    #[prost(prost_path = "::qwerq::prost")]
    pub(super) enum Delivery {
        #[prost(string, tag = "9")]
        Pickup(String),
        #[prost(message, tag = "10")]
        Address(Address),
    }
}

fn order() -> Order {
    Order {
        id: "o-1".to_owned(),
        customer_id: "c-1".to_owned(),
        total: -5,
        lines: vec![Line { article: "tea".to_owned(), quantity: 2 }],
        status: Status::Paid.into(),
        note: Some(String::new()),
        discounts: HashMap::from([("spring".to_owned(), 10)]),
        placed_at: Some(Timestamp { seconds: 1, nanos: 2 }),
        delivery: Some(Delivery::Address(Address { street: "Elm".to_owned(), city: "Ulm".to_owned() })),
        coupons: vec![1, 300],
    }
}

#[test]
fn a_struct_without_numbers_has_the_wire_format_of_the_contract() {
    let order = order();
    let by_hand = by_hand::Order::decode(&*order.encode_to_vec()).unwrap();
    assert_eq!(by_hand.encode_to_vec(), order.encode_to_vec());
    assert_eq!((by_hand.status(), by_hand.total, by_hand.note()), (by_hand::Status::Paid, -5, ""));
    assert_eq!((by_hand.id.as_str(), by_hand.customer_id.as_str(), by_hand.coupons.len()), ("o-1", "c-1", 2));
    assert!(matches!(by_hand.delivery, Some(by_hand::Delivery::Address(Address { city, .. })) if city == "Ulm"));
    assert!(by_hand.lines[0].quantity == 2 && by_hand.discounts["spring"] == 10 && by_hand.placed_at.is_some());
    assert_eq!(Order::decode(&*order.encode_to_vec()).unwrap(), order);
    assert_eq!(by_hand::Delivery::Pickup("x".to_owned()), by_hand::Delivery::Pickup("x".to_owned()));
    assert_eq!(by_hand::Status::Unspecified as i32 + by_hand::Status::Open as i32, 1);
}

#[test]
fn the_contract_is_that_of_the_lock() {
    let info = ContractInfo::of::<Order>();
    assert_eq!((info.queue, info.message_type, info.version), ("orders.created", "shop.v1.Order", 4));
    assert_eq!(info, ContractInfo::of::<by_hand::Order>());
    let all = qwerq::contracts!(schema = "tests/contracts");
    assert!(all.list().contains(&info), "{all:?}");
    let queues: Vec<&str> = all.list().iter().map(|contract| contract.queue).collect();
    assert_eq!(queues, ["legacy.orders", "orders.created", "orders.paid", "pricing.quote", "samples"]);
    let some = qwerq::contracts!("orders.*", "pricing.quote", schema = "tests/contracts/qwerq.lock");
    assert_eq!(some.list().iter().map(|contract| contract.queue).collect::<Vec<_>>(), ["orders.created", "orders.paid", "pricing.quote"]);
    assert_eq!(
        (<Line as MessageType>::NAME, <Status as EnumType>::NAME, <Delivery as OneofType>::NAME),
        ("shop.v1.Line", "shop.v1.Status", "shop.v1.Order.delivery")
    );
}

/// What an accountant needs of an order.
#[qwerq::queue("orders.created", subset, schema = "tests/contracts")]
struct Bill {
    #[qwerq(name = "total")]
    cents: i64,
    // A member of a oneof by itself.
    pickup: Option<String>,
}

#[test]
fn a_subset_reads_what_it_names() {
    assert_eq!(Bill::READS, ["total", "pickup"]);
    let bill = Bill::decode(&*Order { delivery: Some(Delivery::Pickup("desk 3".to_owned())), ..order() }.encode_to_vec()).unwrap();
    assert_eq!((bill.cents, bill.pickup()), (-5, "desk 3"));
    assert_eq!(Bill::decode(&*order().encode_to_vec()).unwrap().pickup, None);
}

#[qwerq::queue("pricing.quote", reply = Quote, schema = "tests/contracts")]
struct QuoteRequest {
    article: String,
    quantity: u32,
}

#[qwerq::message("shop.v1.Quote", queue = "pricing.quote", schema = "tests/contracts")]
struct Quote {
    cents: i64,
}

#[test]
fn a_queue_that_is_called_has_the_type_of_its_reply() {
    assert_eq!(<QuoteRequest as CallContract>::REPLY_TYPE, "shop.v1.Quote");
    let request = QuoteRequest { article: "tea".to_owned(), quantity: 1 };
    assert_eq!(request.encode_to_vec(), b"\x0a\x03tea\x10\x01");
    assert_eq!(Quote { cents: 1 }.encode_to_vec(), b"\x08\x01");
}

/// Every kind of field, with nothing but names and Rust types.
#[qwerq::queue("samples", schema = "tests/contracts")]
#[derive(Clone, PartialEq)]
struct Sample {
    a_double: f64,
    a_float: f32,
    an_int32: i32,
    an_int64: i64,
    a_uint32: u32,
    a_uint64: u64,
    a_sint32: i32,
    a_sint64: i64,
    a_fixed32: u32,
    a_fixed64: u64,
    a_sfixed32: i32,
    a_sfixed64: i64,
    a_bool: bool,
    a_string: std::string::String,
    a_bytes: Vec<u8>,
    color: i32,
    #[prost(enumeration = "Color")]
    colors: Vec<i32>,
    part: Option<Part>,
    parts: Vec<Part>,
    by_number: HashMap<i32, Part>,
    #[prost(map = "string, enumeration(Color)")]
    by_name: HashMap<String, i32>,
    maybe: Option<i32>,
    numbers: Vec<i32>,
    unpacked: Vec<i32>,
    words: Vec<String>,
    choice: Option<Choice>,
    wrapped: Option<String>,
    nothing: Option<()>,
    inner: Option<Box<Sample>>,
    r#type: String,
    camel_case: String,
}

#[qwerq::message("shop.v1.Sample.Part", schema = "tests/contracts")]
#[derive(Clone, PartialEq)]
struct Part {
    name: String,
}

#[qwerq::enumeration("shop.v1.Sample.Color", schema = "tests/contracts")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Color {
    Red,
    Green,
}

#[qwerq::oneof("shop.v1.Sample.choice", schema = "tests/contracts")]
#[derive(Clone, PartialEq)]
enum Choice {
    Number(i32),
    Piece(Part),
    #[prost(enumeration = "Color")]
    Shade(i32),
}

#[test]
fn every_kind_of_field_is_filled_in() {
    let part = || Part { name: "p".to_owned() };
    let sample = Sample {
        a_sint32: -1,
        a_fixed64: 7,
        a_sfixed32: -7,
        a_bytes: vec![1, 2],
        color: Color::Green.into(),
        colors: vec![0, 1],
        by_number: HashMap::from([(3, part())]),
        by_name: HashMap::from([("a".to_owned(), 1)]),
        unpacked: vec![1, 2],
        choice: Some(Choice::Shade(Color::Red.into())),
        nothing: Some(()),
        inner: Some(Box::new(Sample { r#type: "t".to_owned(), camel_case: "c".to_owned(), ..Sample::default() })),
        ..Sample::default()
    };
    let bytes = sample.encode_to_vec();
    assert_eq!(Sample::decode(&*bytes).unwrap(), sample);
    let expected: [(&str, &[u8]); 6] = [
        ("a zigzag number of field 7", b"\x38\x01"),
        ("a fixed64 of field 10", b"\x51\x07\0\0\0\0\0\0\0"),
        ("bytes of field 15", b"\x7a\x02\x01\x02"),
        ("two numbers of field 24, each with its tag", b"\xc0\x01\x01\xc0\x01\x02"),
        ("a member of the oneof, 28", b"\xe0\x01\x00"),
        ("an empty message of field 30", b"\xf2\x01\x00"),
    ];
    for (what, part) in expected {
        assert!(bytes.windows(part.len()).any(|window| window == part), "{what}: {bytes:02x?}");
    }
    assert_eq!(sample.colors().collect::<Vec<_>>(), [Color::Red, Color::Green]);
    assert_eq!(sample.get_by_name("a"), Some(Color::Green));
}

/// proto2 has labels, groups and defaults.
#[qwerq::queue("legacy.orders", schema = "tests/contracts")]
#[derive(Clone, PartialEq)]
struct LegacyOrder {
    id: String,
    count: Option<i32>,
    codes: Vec<i32>,
    packed_codes: Vec<i32>,
    extra: Option<Extra>,
    #[prost(enumeration = "Level")]
    level: Option<i32>,
}

#[qwerq::message("shop.legacy.Order.Extra", schema = "tests/contracts")]
#[derive(Clone, PartialEq)]
struct Extra {
    text: Option<String>,
}

#[qwerq::enumeration("shop.legacy.Level", schema = "tests/contracts")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Low,
    High,
}

#[test]
fn proto2_is_filled_in_with_its_defaults() {
    let empty = LegacyOrder::default();
    assert_eq!((empty.count(), empty.level()), (7, Level::High));
    assert_eq!(empty.encode_to_vec(), b"\x0a\x00", "a required field is written, also when it is empty");
    let order = LegacyOrder {
        codes: vec![1, 2],
        packed_codes: vec![1, 2],
        extra: Some(Extra { text: Some("x".to_owned()) }),
        level: Some(Level::Low.into()),
        ..LegacyOrder::default()
    };
    let bytes = order.encode_to_vec();
    assert_eq!(bytes, b"\x0a\x00\x18\x01\x18\x02\x22\x02\x01\x02\x2b\x0a\x01x\x2c\x30\x01");
    assert_eq!(LegacyOrder::decode(&*bytes).unwrap(), order);
}
