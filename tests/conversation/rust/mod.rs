//! The Rust part of the conversation. It says what it saw in lines of text, as the programs in the other languages do on stdout.
//!
//! [`cases`] builds every case of cases.json by hand, so that the types of the generated code are what is tested.

use std::collections::{HashMap, HashSet};

use qwerq::prost::Message as _;
use qwerq::prost_types::{Duration, Timestamp};
use qwerq::{ConsumeOptions, Error, Message, Queue, ServeOptions, Service};

use queues::Queues;
use queues::conversation::v1::{Color, Everything, Lists, Maps, Nothing, Optionals, Scalars, WellKnown, everything::Choice};

#[allow(dead_code, unreachable_pub, reason = "generated, and each program uses a part of it")]
pub(crate) mod queues;

const TEXT: &str = "\0\u{e9}e\u{301}\u{fffd}\u{1f600}\u{10ffff}";

fn bytes() -> Vec<u8> {
    (0..=255).collect()
}

fn least() -> Scalars {
    Scalars {
        f_double: f64::MIN,
        f_float: f32::MIN,
        f_int32: i32::MIN,
        f_int64: i64::MIN,
        f_uint32: 1,
        f_uint64: 1,
        f_sint32: i32::MIN,
        f_sint64: i64::MIN,
        f_fixed32: 1,
        f_fixed64: 1,
        f_sfixed32: i32::MIN,
        f_sfixed64: i64::MIN,
        f_bool: true,
        f_string: TEXT.to_owned(),
        f_bytes: bytes(),
        f_color: Color::First.into(),
    }
}

fn most() -> Scalars {
    Scalars {
        f_double: f64::MAX,
        f_float: f32::MAX,
        f_int32: i32::MAX,
        f_int64: i64::MAX,
        f_uint32: u32::MAX,
        f_uint64: u64::MAX,
        f_sint32: i32::MAX,
        f_sint64: i64::MAX,
        f_fixed32: u32::MAX,
        f_fixed64: u64::MAX,
        f_sfixed32: i32::MAX,
        f_sfixed64: i64::MAX,
        f_bool: true,
        f_string: TEXT.to_owned(),
        f_bytes: bytes(),
        f_color: Color::Last.into(),
    }
}

fn optional(of: Scalars) -> Optionals {
    Optionals {
        f_double: Some(of.f_double),
        f_float: Some(of.f_float),
        f_int32: Some(of.f_int32),
        f_int64: Some(of.f_int64),
        f_uint32: Some(of.f_uint32),
        f_uint64: Some(of.f_uint64),
        f_sint32: Some(of.f_sint32),
        f_sint64: Some(of.f_sint64),
        f_fixed32: Some(of.f_fixed32),
        f_fixed64: Some(of.f_fixed64),
        f_sfixed32: Some(of.f_sfixed32),
        f_sfixed64: Some(of.f_sfixed64),
        f_bool: Some(of.f_bool),
        f_string: Some(of.f_string),
        f_bytes: Some(of.f_bytes),
        f_color: Some(of.f_color),
    }
}

fn lists() -> Lists {
    Lists {
        f_double: vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::from_bits(1), 0.0],
        f_float: vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::from_bits(1), 0.0],
        f_int32: vec![i32::MIN, -1, 0, i32::MAX],
        f_int64: vec![i64::MIN, -1, 0, i64::MAX],
        f_uint32: vec![0, u32::MAX],
        f_uint64: vec![0, u64::MAX],
        f_sint32: vec![i32::MIN, -1, 0, i32::MAX],
        f_sint64: vec![i64::MIN, -1, 0, i64::MAX],
        f_fixed32: vec![0, u32::MAX],
        f_fixed64: vec![0, u64::MAX],
        f_sfixed32: vec![i32::MIN, -1, 0, i32::MAX],
        f_sfixed64: vec![i64::MIN, -1, 0, i64::MAX],
        f_bool: vec![true, false],
        f_string: vec![String::new(), TEXT.to_owned()],
        f_bytes: vec![Vec::new(), bytes()],
        f_color: vec![Color::Unspecified.into(), Color::Red.into(), 77, -1],
        unpacked: vec![i32::MIN, 0, i32::MAX],
        nothings: vec![Nothing {}, Nothing {}],
    }
}

fn maps() -> Maps {
    Maps {
        by_int32: HashMap::from([(i32::MIN, String::new()), (0, TEXT.to_owned()), (i32::MAX, "x".to_owned())]),
        by_int64: HashMap::from([(i64::MIN, Vec::new()), (0, bytes()), (i64::MAX, vec![255])]),
        by_uint32: HashMap::from([(0, 0.5), (u32::MAX, -1.5)]),
        by_uint64: HashMap::from([(0, i64::MIN), (u64::MAX, i64::MAX)]),
        by_sint32: HashMap::from([(i32::MIN, true), (0, false), (i32::MAX, true)]),
        by_sint64: HashMap::from([(i64::MIN, Color::Red.into()), (0, 77), (i64::MAX, Color::Unspecified.into())]),
        by_fixed32: HashMap::from([(0, Nothing {}), (u32::MAX, Nothing {})]),
        by_fixed64: HashMap::from([(0, 0), (u64::MAX, u64::MAX)]),
        by_sfixed32: HashMap::from([(i32::MIN, 0.5), (0, 0.0), (i32::MAX, -0.5)]),
        by_sfixed64: HashMap::from([(i64::MIN, i32::MIN), (0, 0), (i64::MAX, i32::MAX)]),
        by_bool: HashMap::from([(false, 0), (true, u64::MAX)]),
        by_string: HashMap::from([(String::new(), Scalars::default()), (TEXT.to_owned(), most()), ("constructor".to_owned(), least())]),
    }
}

fn well_known(at: (i64, i32), span: (i64, i32), double: f64, of: Scalars) -> WellKnown {
    WellKnown {
        at: Some(Timestamp { seconds: at.0, nanos: at.1 }),
        span: Some(Duration { seconds: span.0, nanos: span.1 }),
        empty: Some(()),
        double_value: Some(double),
        #[expect(clippy::cast_possible_truncation, reason = "what has no digits loses none")]
        float_value: Some(double as f32),
        int64_value: Some(of.f_int64),
        uint64_value: Some(of.f_uint64),
        int32_value: Some(of.f_int32),
        uint32_value: Some(of.f_uint32),
        bool_value: Some(of.f_bool),
        string_value: Some(of.f_string),
        bytes_value: Some(of.f_bytes),
    }
}

/// Every case of cases.json.
fn cases() -> Vec<Everything> {
    let case = |name: &str| Everything { name: name.to_owned(), ..Everything::default() };
    let scalars = |name: &str, scalars: Scalars| Everything { scalars: Some(scalars), ..case(name) };
    let optionals = |name: &str, optionals: Optionals| Everything { optionals: Some(optionals), ..case(name) };
    let choice = |name: &str, choice: Choice| Everything { choice: Some(choice), ..case(name) };
    let known = |name: &str, known: WellKnown| Everything { well_known: Some(known), ..case(name) };
    let mut deep = case("end");
    for _ in 0..60 {
        deep = Everything { inner: Some(Box::new(deep)), ..Everything::default() };
    }
    deep.name = "deep".to_owned();
    vec![
        case("nothing set"),
        scalars("least", least()),
        scalars("most", most()),
        scalars("not a number", Scalars { f_double: f64::NAN, f_float: f32::NAN, ..Scalars::default() }),
        scalars("infinite", Scalars { f_double: f64::INFINITY, f_float: f32::NEG_INFINITY, ..Scalars::default() }),
        scalars("unknown color", Scalars { f_color: 77, ..Scalars::default() }),
        optionals("optional zeros", optional(Scalars::default())),
        optionals("optional extremes", optional(most())),
        optionals("optional negative zeros", Optionals { f_double: Some(-0.0), f_float: Some(-0.0), ..Optionals::default() }),
        optionals("optionals absent", Optionals::default()),
        Everything { lists: Some(lists()), ..case("lists") },
        Everything { maps: Some(maps()), ..case("maps") },
        choice("choice of empty text", Choice::Text(String::new())),
        choice("choice of zero", Choice::Number(0)),
        choice("choice of least", Choice::Number(i64::MIN)),
        choice("choice of no color", Choice::Color(0)),
        choice("choice of unknown color", Choice::Color(-1)),
        choice("choice of no bytes", Choice::Raw(Vec::new())),
        choice("choice of nothing", Choice::Nothing(Nothing {})),
        choice("choice of negative zero", Choice::Real(-0.0)),
        known("well-known zeros", well_known((0, 0), (0, 0), 0.0, Scalars::default())),
        known("well-known least", well_known((-62_135_596_800, 0), (-315_576_000_000, -999_999_999), f64::NEG_INFINITY, least())),
        known("well-known most", well_known((253_402_300_799, 999_999_999), (315_576_000_000, 999_999_999), f64::NAN, most())),
        deep,
    ]
}

/// A message of exactly so many bytes.
fn filled(name: &str, bytes: usize) -> Everything {
    let mut message = Everything { name: name.to_owned(), filling: vec![7; bytes], ..Everything::default() };
    let over = message.encoded_len() - bytes;
    message.filling.truncate(bytes - over);
    assert_eq!(message.encoded_len(), bytes);
    message
}

/// All that can be seen of both; the order of maps is nobody's, and -0.0 is not 0.0.
fn same(a: &Everything, b: &Everything) -> bool {
    let without_maps = |of: &Everything| format!("{:?}", Everything { maps: None, ..of.clone() });
    a.maps == b.maps && without_maps(a) == without_maps(b)
}

fn compare(from: &str, body: &Everything, expected: &HashMap<String, Everything>) -> String {
    match expected.get(&body.name) {
        Some(expected) if same(body, expected) => format!("same {from}: {}", body.name),
        _ => format!("differs {from}: {}: {body:?}", body.name),
    }
}

fn expected(limit: usize) -> HashMap<String, Everything> {
    let largest = filled("largest", limit);
    cases().into_iter().chain([largest]).map(|case| (case.name.clone(), case)).collect()
}

fn code(refused: &Error) -> String {
    refused.code().map_or_else(|| refused.to_string(), |code| code.name().to_owned())
}

/// Publishes every case, the largest message and a larger one.
pub(crate) async fn publish(queues: &Queues, limit: usize) -> Vec<String> {
    let queue = queues.from_rust();
    for case in cases() {
        queue.publish(&case).await.expect("the broker takes every case");
    }
    queue.publish(&filled("largest", limit)).await.expect("the broker takes the largest");
    let refused = queue.publish(&filled("larger", limit + 1)).await.expect_err("one byte more is too much");
    vec![format!("published {}", cases().len() + 1), format!("refused {}", code(&refused))]
}

/// Reads what each language published, publishes it again, and reads what a newer contract has more.
pub(crate) async fn consume(queues: &Queues, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let expected = expected(limit);
    for (from, queue) in [("rust", queues.from_rust()), ("typescript", queues.from_typescript()), ("go", queues.from_go())] {
        consume_all(from, &queue, queues, &expected, expected.len(), &mut lines).await;
    }
    consume_all("future", &queues.from_future(), queues, &expected, 1, &mut lines).await;
    lines
}

async fn consume_all(
    from: &str,
    queue: &Queue<Everything>,
    queues: &Queues,
    expected: &HashMap<String, Everything>,
    count: usize,
    lines: &mut Vec<String>,
) {
    let again = queues.again_rust();
    let mut messages = queue.consume(ConsumeOptions::new().group("rust")).await.expect("a subscription");
    let mut seen = HashSet::new();
    while seen.len() < count {
        let message = messages.next().await.expect("it is open").expect("a message that decodes");
        lines.push(compare(from, &message.body, expected));
        seen.insert(message.body.name.clone());
        // prost drops unknown fields from what it decodes; what is passed on as it came has them.
        let passed_on = if from == "future" {
            again.publisher().publish(Message::new(message.delivery.payload.clone())).await
        } else {
            again.publish(&message.body).await
        };
        passed_on.expect("the broker takes it again");
        message.ack_confirmed().await.expect("the lease holds");
    }
    messages.close().await.expect("connected");
}

/// Answers every call with its request until `stop`.
pub(crate) async fn serve(queues: Queues, ready: tokio::sync::oneshot::Sender<()>, stop: tokio::sync::oneshot::Receiver<()>) {
    let service: Service<Everything, Everything> = queues.ask_rust();
    let mut responder = service.responder(ServeOptions::default()).await.expect("the broker agrees");
    ready.send(()).expect("somebody waits for it");
    let mut stop = stop;
    loop {
        tokio::select! {
            _ = &mut stop => break,
            call = responder.next() => {
                let call = call.expect("it is open").expect("a call that decodes");
                let reply = call.body.clone();
                call.reply(&reply).expect("connected");
            }
        }
    }
    responder.close().await.expect("connected");
}

/// Calls whoever serves in each language, with every case, the largest message and a larger one.
pub(crate) async fn call(queues: &Queues, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let expected = expected(limit);
    for (to, service) in [("rust", queues.ask_rust()), ("typescript", queues.ask_typescript()), ("go", queues.ask_go())] {
        for case in expected.values() {
            let reply = service.call(case).await.expect("a reply");
            let differs = if same(case, &reply) { "" } else { " with another's reply" };
            lines.push(compare(to, &reply, &expected) + differs);
        }
        let refused = service.call(&filled("larger", limit + 1)).await.expect_err("one byte more is too much");
        lines.push(format!("refused {to}: {}", code(&refused)));
    }
    lines
}
