//! Every language talks to every language: programs in Rust, TypeScript and Go, each on code that `gen` made, hold one conversation through
//! one broker.
//!
//! Each publishes all cases, each reads what each has published and publishes it again, each answers and each calls. The programs compare
//! what they decode with what they build by hand; this file compares every payload, with a decoder that is none of theirs, with
//! `conversation/cases.json`. Rust runs in this process, on committed code; the others are built here.

mod support;

#[path = "conversation/rust/mod.rs"]
mod rust;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use prost_reflect::{DescriptorPool, DynamicMessage, MapKey, MessageDescriptor, ReflectMessage, Value};
use qwerq::{Client, FetchOptions, Message};
use support::broker::Broker;
use support::cli::done;
use support::corpus::say;
use support::{go, node};

/// A queue's max_message_bytes, which the broker's default is too.
const LIMIT: usize = 1 << 20;

const LANGUAGES: [&str; 3] = ["rust", "typescript", "go"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conversation").join(name)
}

#[test]
fn every_language_understands_every_language() {
    let Some(modules) = node::node_modules() else { return };
    if go::is_missing() {
        return;
    }
    let broker = broker();
    the_committed_rust_code_is_current(&broker);
    let (typescript, go) = std::thread::scope(|scope| {
        let typescript = scope.spawn(|| Typescript::build(&broker, &modules));
        let go = scope.spawn(|| Go::build(&broker));
        (typescript.join().expect("it builds"), go.join().expect("it builds"))
    });
    let programs = Programs { broker, typescript, go };
    let table = Table::read();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");

    for (language, lines) in programs.each(&runtime, "publish") {
        assert_eq!(lines, [format!("published {}", table.names.len() + 1), "refused message-too-large".to_owned()], "{language}");
    }
    let published = LANGUAGES.map(|language| runtime.block_on(payloads(&programs.broker, &format!("from.{language}"))));
    for (language, payloads) in LANGUAGES.iter().zip(&published) {
        table.check(payloads, 1, &format!("published by {language}"));
    }
    runtime.block_on(table.publish_from_the_future(&programs.broker));

    let mut consumed = 0;
    for (language, lines) in programs.each(&runtime, "consume") {
        let differing: Vec<_> = lines.iter().filter(|line| !line.starts_with("same ")).collect();
        assert!(differing.is_empty(), "{language}: {differing:#?}");
        assert_eq!(lines.len(), 3 * (table.names.len() + 1) + 1, "{language}");
        consumed += lines.len();
        let again = runtime.block_on(payloads(&programs.broker, &format!("again.{language}")));
        table.check(&again, 3, &format!("published again by {language}"));
    }

    let mut answered = 0;
    let serving = programs.serve(&runtime);
    for (language, lines) in programs.each(&runtime, "call") {
        for to in LANGUAGES {
            let same = lines.iter().filter(|line| line.starts_with(&format!("same {to}: "))).count();
            let refused = lines.iter().filter(|line| **line == format!("refused {to}: message-too-large")).count();
            assert_eq!((same, refused), (table.names.len() + 1, 1), "{language} calls {to}: {lines:#?}");
            answered += same;
        }
        assert!(!lines.iter().any(|line| line.contains("another's")), "{language}: {lines:#?}");
    }
    serving.stop(&runtime);
    say(&format!(
        "conversation: {} cases and a message of {LIMIT} bytes; {consumed} messages between 3 publishers and 3 consumers, each published again; \
         {answered} calls between 3 callers and 3 responders",
        table.names.len()
    ));
}

/// A broker with all contracts.
fn broker() -> Broker {
    let broker = Broker::start(&[]);
    let proto = data("everything.proto");
    let register = |queue: &str, more: &[&str]| {
        let proto = proto.to_str().expect("a path in UTF-8");
        done(&broker, &[&["schema", "register", "-q", queue, "-p", proto, "-m", "conversation.v1.Everything"], more].concat());
    };
    for language in LANGUAGES {
        register(&format!("from.{language}"), &[]);
        register(&format!("again.{language}"), &[]);
        register(&format!("ask.{language}"), &["--reply", "conversation.v1.Everything"]);
    }
    register("from.future", &[]);
    // What every group has acknowledged is gone; so all groups are there before anything is published.
    for from in LANGUAGES.into_iter().chain(["future"]) {
        for group in LANGUAGES.into_iter().chain(["test"]) {
            done(&broker, &["group", "create", group, "-q", &format!("from.{from}")]);
        }
    }
    broker
}

fn generate(broker: &Broker, language: &str, out: &Path, further: &[&str]) -> std::process::Output {
    broker.run(&[&["gen", "--lang", language, "--out", out.to_str().expect("a path in UTF-8")], further].concat())
}

fn the_committed_rust_code_is_current(broker: &Broker) {
    let out = data("rust/queues");
    if std::env::var_os("QWERQ_BLESS").is_some() {
        assert!(generate(broker, "rust", &out, &[]).status.success());
    }
    let checked = generate(broker, "rust", &out, &["--check"]);
    assert!(checked.status.success(), "run with QWERQ_BLESS=1, then without: {}", String::from_utf8_lossy(&checked.stderr));
}

/// The program in TypeScript, compiled.
struct Typescript(tempfile::TempDir);

impl Typescript {
    fn build(broker: &Broker, modules: &Path) -> Typescript {
        let folder = node::project(modules);
        let src = folder.path().join("src");
        assert!(generate(broker, "typescript", &src.join("queues"), &[]).status.success());
        fs::copy(data("typescript/conversation.ts"), src.join("conversation.ts")).expect("copied");
        node::compile(modules, folder.path());
        Typescript(folder)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("node");
        command.arg(self.0.path().join("build/conversation.js"));
        command
    }
}

/// The program in Go, compiled.
struct Go(tempfile::TempDir);

impl Go {
    fn build(broker: &Broker) -> Go {
        let folder = go::module("example.com/conversation");
        assert!(generate(broker, "go", &folder.path().join("queues"), &[]).status.success());
        fs::copy(data("go/main.go"), folder.path().join("main.go")).expect("copied");
        let built =
            Command::new("go").args(["build", "-o", "conversation", "."]).current_dir(folder.path()).env("GOFLAGS", "-mod=mod").output();
        let built = built.expect("go starts");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Go(folder)
    }

    fn command(&self) -> Command {
        Command::new(self.0.path().join("conversation"))
    }
}

/// What talks, and the broker between.
struct Programs {
    broker: Broker,
    typescript: Typescript,
    go: Go,
}

impl Programs {
    /// Has each language play the role, one after the other; what each says.
    fn each(&self, runtime: &tokio::runtime::Runtime, role: &str) -> [(&'static str, Vec<String>); 3] {
        let rust = runtime.block_on(async {
            let queues = self.connect().await;
            let lines = match role {
                "publish" => rust::publish(&queues, LIMIT).await,
                "consume" => rust::consume(&queues, LIMIT).await,
                "call" => rust::call(&queues, LIMIT).await,
                other => panic!("{other} is no role"),
            };
            queues.client().close().await.expect("connected");
            lines
        });
        let run = |mut command: Command| {
            let output = command.args([role, &LIMIT.to_string()]).env("QWERQ_BROKER", self.broker.broker()).output().expect("it starts");
            assert!(output.status.success(), "{role}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
        };
        [("rust", rust), ("typescript", run(self.typescript.command())), ("go", run(self.go.command()))]
    }

    async fn connect(&self) -> rust::queues::Queues {
        rust::queues::connect(&self.broker.broker()).await.expect("the broker is there")
    }

    /// Has each language serve; returns when all of them do.
    fn serve(&self, runtime: &tokio::runtime::Runtime) -> Serving {
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let queues = runtime.block_on(self.connect());
        let rust = runtime.spawn(rust::serve(queues, ready, stopped));
        runtime.block_on(is_ready).expect("Rust serves");
        let start = |mut command: Command| {
            command.args(["serve", &LIMIT.to_string()]).env("QWERQ_BROKER", self.broker.broker());
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("text");
            assert_eq!(line, "serving\n");
            child
        };
        Serving { children: vec![start(self.typescript.command()), start(self.go.command())], rust, stop }
    }
}

/// The responders; killed when dropped.
struct Serving {
    children: Vec<Child>,
    rust: tokio::task::JoinHandle<()>,
    stop: tokio::sync::oneshot::Sender<()>,
}

impl Serving {
    fn stop(mut self, runtime: &tokio::runtime::Runtime) {
        let stop = std::mem::replace(&mut self.stop, tokio::sync::oneshot::channel().0);
        stop.send(()).expect("Rust serves");
        runtime.block_on(&mut self.rust).expect("Rust has served well");
        for child in &mut self.children {
            drop(child.stdin.take());
            assert!(child.wait().expect("the child was ours").success());
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// All payloads of a queue, as a group of the test's own sees them.
async fn payloads(broker: &Broker, queue: &str) -> Vec<Vec<u8>> {
    let client = Client::connect(broker.broker()).await.expect("the broker is there");
    let mut payloads = Vec::new();
    loop {
        let options = FetchOptions { group: "test".to_owned(), max: 100, ..FetchOptions::default() };
        let deliveries = client.fetch(queue, options).await.expect("a fetch is answered");
        if deliveries.is_empty() {
            break;
        }
        for delivery in deliveries {
            payloads.push(delivery.payload.to_vec());
            delivery.ack_confirmed().await.expect("the lease holds");
        }
    }
    client.close().await.expect("connected");
    payloads
}

/// What the messages must be, in a form that no language under test has made.
struct Table {
    /// Of a later contract, which has fields that the programs do not know.
    message: MessageDescriptor,
    names: Vec<String>,
    expected: BTreeMap<String, String>,
}

impl Table {
    fn read() -> Table {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let text = fs::read_to_string(data("everything.proto")).expect("everything.proto");
        let later = [
            (
                "message Everything {",
                "message Everything { string later_text = 1000; Scalars later_message = 1001; repeated sint64 later_list = 1002;",
            ),
            (
                "message Scalars {",
                "message Scalars { fixed32 later_fixed32 = 2000; fixed64 later_fixed64 = 2001; int64 later_int64 = 2002;",
            ),
        ];
        let text = later.iter().fold(text, |text, (from, to)| text.replacen(from, to, 1));
        let path = folder.path().join("everything.proto");
        fs::write(&path, text).expect("writable");
        let compiled = qwerq_codegen::compile::compile(&path, &[]).expect("it compiles");
        let pool = DescriptorPool::decode(compiled.descriptor_set.as_slice()).expect("a descriptor set");
        let message = pool.get_message_by_name("conversation.v1.Everything").expect("it is defined");
        let cases: Vec<serde_json::Value> =
            serde_json::from_str(&fs::read_to_string(data("cases.json")).expect("cases.json")).expect("a list of cases");
        let mut table = Table { message, names: Vec::new(), expected: BTreeMap::new() };
        for case in cases {
            let name = case["name"].as_str().expect("a case has a name").to_owned();
            let case = DynamicMessage::deserialize(table.message.clone(), case).unwrap_or_else(|error| panic!("{name}: {error}"));
            table.names.push(name.clone());
            table.expected.insert(name, canonical(&case));
        }
        table
    }

    /// `least`, with fields that the contract of the programs has not.
    fn of_the_future(&self) -> Vec<u8> {
        let later = serde_json::json!({
            "name": "least", "laterText": "\u{1f600}", "laterList": ["-9223372036854775808", "0"], "laterMessage": { "laterInt64": "-1" },
        });
        let mut message = DynamicMessage::deserialize(self.message.clone(), later).expect("it fits");
        let cases: Vec<serde_json::Value> =
            serde_json::from_str(&fs::read_to_string(data("cases.json")).expect("cases.json")).expect("a list of cases");
        let mut least = cases.into_iter().find(|case| case["name"] == "least").expect("there is such a case")["scalars"].clone();
        least["laterFixed32"] = u32::MAX.into();
        least["laterFixed64"] = u64::MAX.to_string().into();
        let scalars = self.message.get_field_by_name("scalars").expect("a field");
        let of = scalars.kind().as_message().expect("of messages").clone();
        message.set_field(&scalars, Value::Message(DynamicMessage::deserialize(of, least).expect("it fits")));
        prost::Message::encode_to_vec(&message)
    }

    async fn publish_from_the_future(&self, broker: &Broker) {
        let client = Client::connect(broker.broker()).await.expect("the broker is there");
        client.publish("from.future", Message::new(self.of_the_future())).await.expect("unknown fields are allowed");
        client.close().await.expect("connected");
    }

    /// Every case so often, the largest message so often, and where there are several the one from the future once.
    fn check(&self, payloads: &[Vec<u8>], times: usize, what: &str) {
        let decode = |payload: &[u8]| DynamicMessage::decode(self.message.clone(), payload).expect("a payload that decodes");
        let future = canonical(&decode(&self.of_the_future()));
        let (mut seen, mut largest, mut of_the_future) = (BTreeMap::new(), 0, 0);
        for payload in payloads {
            let message = decode(payload);
            let name = message.get_field_by_name("name").expect("a field").as_str().expect("text").to_owned();
            let canonical = canonical(&message);
            if canonical == future {
                of_the_future += 1;
            } else if name == "largest" {
                assert_eq!(payload.len(), LIMIT, "{what}");
                largest += 1;
            } else {
                assert_eq!(Some(&canonical), self.expected.get(&name), "{what}: {name}");
                *seen.entry(name).or_insert(0) += 1;
            }
        }
        let expected: BTreeMap<String, usize> = self.names.iter().map(|name| (name.clone(), times)).collect();
        assert_eq!((seen, largest, of_the_future), (expected, times, usize::from(times > 1)), "{what}");
    }
}

/// All of a message, maps in order and floats bit by bit.
fn canonical(message: &DynamicMessage) -> String {
    let descriptor = message.descriptor();
    let fields = descriptor.fields().filter(|field| !field.supports_presence() || message.has_field(field));
    let fields: Vec<String> = fields.map(|field| format!("{}: {}", field.name(), value(&message.get_field(&field)))).collect();
    let unknown: Vec<String> = message.unknown_fields().map(|field| format!("{field:?}")).collect();
    format!("{{ {} {} }}", fields.join(", "), unknown.join(", "))
}

fn value(of: &Value) -> String {
    match of {
        Value::F32(float) if float.is_nan() => "NaN".to_owned(),
        Value::F64(float) if float.is_nan() => "NaN".to_owned(),
        Value::F32(float) => format!("{:08x}", float.to_bits()),
        Value::F64(float) => format!("{:016x}", float.to_bits()),
        Value::Message(message) => canonical(message),
        Value::List(list) => format!("[{}]", list.iter().map(value).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let key = |key: &MapKey| format!("{key:?}");
            let entries: BTreeMap<String, String> = map.iter().map(|(at, of)| (key(at), value(of))).collect();
            format!("{entries:?}")
        }
        other => format!("{other:?}"),
    }
}
