//! The example services do what they say, against a real broker, and their generated code is what the compiler makes today.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use support::broker::{BINARY, Broker};
use support::tool;

/// The folder of the example with a queue.
fn orders() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/orders")
}

/// The folder of the example with calls.
fn pricing() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pricing")
}

/// The folder of the example with a stream.
fn replay() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/replay")
}

/// A broker that has the contract of the stream. What the programs of this example do is compared with its page, in `pages.rs`.
fn broker_with_stream() -> Broker {
    let broker = Broker::start(&[]);
    let created = broker.run(&["queue", "create", "movements", "--mode", "stream"]);
    assert!(created.status.success(), "{created:?}");
    let (folder, proto) = (replay().join("proto"), replay().join("proto/bank/v1/movement.proto"));
    let [folder, proto] = [&folder, &proto].map(|path| path.to_str().expect("a path in UTF-8"));
    let done = broker.run(&["schema", "register", "-q", "movements", "-p", proto, "-m", "bank.v1.Movement", "-I", folder]);
    assert!(done.status.success(), "{done:?}");
    broker
}

/// The folder of the example whose services are held to the lock by macros.
fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shop-services")
}

/// A broker that has the contracts of the example's lock, and takes nothing without a contract.
fn broker_with_shop() -> Broker {
    let broker = Broker::start(&["--schema-mode", "strict"]);
    let pushed = broker.command(&["gen", "push"]).current_dir(shop()).output().expect("it runs");
    assert!(pushed.status.success(), "{pushed:?}");
    broker
}

/// A broker that has a contract for each rpc of the example's service.
fn broker_with_service() -> Broker {
    let broker = Broker::start(&["--schema-mode", "strict"]);
    let (folder, proto) = (pricing().join("proto"), pricing().join("proto/shop/v1/pricing.proto"));
    let [folder, proto] = [&folder, &proto].map(|path| path.to_str().expect("a path in UTF-8"));
    let done = broker.run(&["schema", "register", "-p", proto, "-I", folder, "--service", "shop.v1.Pricing"]);
    assert!(done.status.success(), "{done:?}");
    broker
}

/// A broker that has the example's contract.
fn broker_with_contract() -> Broker {
    let broker = Broker::start(&[]);
    register(&broker, &orders().join("proto"));
    broker
}

fn register(broker: &Broker, folder: &Path) {
    let (proto, include) = (folder.join("shop/v1/order.proto"), folder.to_str().expect("a path in UTF-8"));
    let proto = proto.to_str().expect("a path in UTF-8");
    let done = broker.run(&["schema", "register", "-q", "orders", "-p", proto, "-m", "shop.v1.Order", "-I", include]);
    assert!(done.status.success(), "{done:?}");
}

fn check(broker: &Broker, folder: &Path) -> Output {
    broker.run(&["gen", "--lang", "rust", "--check", "--out", folder.to_str().expect("a path in UTF-8")])
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// Builds an example's services in the dev profile and gives the folder that they are in.
fn services(package: &str) -> PathBuf {
    build(package);
    // Of <target>/<profile>/qwer-q.
    let target = Path::new(BINARY).ancestors().nth(2).expect("a binary is in a profile's folder");
    target.join("debug")
}

fn build(package: &str) {
    let build = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--package", package])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(build.success());
}

/// A service that runs; killed when dropped.
struct Service {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Service {
    fn start(program: &Path, broker: &Broker, args: &[&str]) -> Service {
        let mut child = Command::new(program)
            .args(args)
            .env("QWERQ_BROKER", broker.broker())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the service starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        Service { child, lines: BufReader::new(stdout).lines() }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("the service says more").expect("stdout is text")
    }

    /// What it says until it ends by itself, which it does well.
    fn rest(mut self) -> Vec<String> {
        let lines = self.lines.by_ref().map(|line| line.expect("stdout is text")).collect();
        assert!(self.child.wait().expect("the service was ours").success());
        lines
    }

    /// Ctrl-C.
    fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    /// What an orchestrator does first.
    fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the service runs");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_consumer_bills_what_the_publisher_sent_and_what_failed_comes_again() {
    let (services, broker) = (services("example-orders"), broker_with_contract());
    let mut consumer = Service::start(&services.join("consumer"), &broker, &[]);
    assert_eq!(consumer.line(), "waiting for orders");

    let published = Service::start(&services.join("publisher"), &broker, &["3"]).rest();
    let [first, second, third, refused] = &published[..] else { panic!("{published:?}") };
    for (line, order) in [(first, "o-1"), (second, "o-2"), (third, "o-3")] {
        let id = line.strip_prefix(&format!("published {order} as ")).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(id.len(), 26, "an ULID: {line}");
    }
    assert_eq!(
        refused,
        "refused: schema-violation (1101): field `id` (string) has wire type 0 (varint) instead of 2 (length-delimited), \
         at byte 0 of a shop.v1.Order (contract version 1)"
    );

    let seen: Vec<String> = (0..4).map(|_| consumer.line()).collect();
    assert_eq!(
        seen,
        [
            "billed o-1, attempt 1",
            "billed o-2, attempt 1",
            "cannot bill o-3, attempt 1: the payment provider wants more time",
            "billed o-3, attempt 2"
        ]
    );
    consumer.interrupt();
    assert_eq!(consumer.rest(), ["stopped"]);

    // Closing has the acks confirmed, so nothing is left.
    assert_eq!(broker.metric("qwerq_queue_depth{queue=\"orders\"}"), 0.0);
    assert_eq!(broker.metric("qwerq_messages_nacked_total"), 1.0);
}

#[test]
fn the_desk_answers_whoever_asks_and_finishes_when_it_closes() {
    let (services, broker) = (services("example-pricing"), broker_with_service());
    let ask = |args: &[&str]| Service::start(&services.join("ask"), &broker, args).rest();
    assert_eq!(ask(&["tea"]), ["the desk is closed"]);
    let mut desk = Service::start(&services.join("desk"), &broker, &[]);
    assert_eq!(desk.line(), "the desk is open");
    // It says so just before it serves.
    assert!((0..1_000).any(|_| ask(&["tea", "2"]) == ["2 x tea: 990 cents"]));
    assert_eq!(ask(&["coffee", "10"]), ["10 x coffee: 8055 cents, bulk discount"]);
    assert_eq!(ask(&["milk", "1"]), ["no quote: nobody knows what \"milk\" costs"]);
    desk.interrupt();
    assert_eq!(desk.rest(), ["closed"]);
    assert_eq!(ask(&["tea", "2"]), ["the desk is closed"]);
}

#[test]
fn two_groups_handle_what_was_ordered_at_the_price_that_a_service_said() {
    let (services, broker) = (services("example-shop-consumer"), broker_with_shop());
    build("example-shop-publisher");
    let order = |wishes: &[&str]| Service::start(&services.join("example-shop-publisher"), &broker, wishes).rest();
    assert_eq!(order(&["tea", "1"]), ["no tea: the shop is closed"]);

    let mut shop = Service::start(&services.join("example-shop-consumer"), &broker, &[]);
    assert_eq!(shop.line(), "the shop is open");
    assert_eq!(
        order(&["tea", "2", "coffee", "10", "milk", "1", "sample", "1"]),
        [
            "ordered tea-1 for 990 cents",
            "ordered coffee-2 for 8950 cents",
            "no milk: nobody knows what milk costs",
            "ordered sample-4 for 0 cents"
        ]
    );
    let mut said: Vec<String> = (0..5).map(|_| shop.line()).collect();
    said.sort();
    assert_eq!(said, ["audited coffee-2", "audited sample-4", "audited tea-1", "billed coffee-2, attempt 2", "billed tea-1, attempt 1"]);
    // The order that is given up is the last of its group; nobody says so but the broker.
    while broker.metric("qwerq_queue_depth{queue=\"orders.created\"}") > 0.0 {}
    shop.terminate();
    assert_eq!(shop.rest(), ["closed, 9940 cents billed"]);
    assert_eq!(order(&["tea", "1"]), ["no tea: the shop is closed"]);
    let letters = broker.run(&["dlq", "peek", "-q", "orders.created"]);
    assert!(text(&letters.stdout).contains("nothing to bill"), "{letters:?}");
}

#[test]
fn a_service_that_was_compiled_against_other_contracts_does_not_start() {
    let (services, broker) = (services("example-shop-consumer"), Broker::start(&[]));
    let refused = Command::new(services.join("example-shop-consumer")).env("QWERQ_BROKER", broker.broker()).output().expect("it runs");
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("orders.created"), "{refused:?}");
}

#[test]
fn committed_code_is_what_the_compiler_makes() {
    for (broker, example) in [(broker_with_contract(), orders()), (broker_with_service(), pricing()), (broker_with_stream(), replay())] {
        let checked = check(&broker, &example.join("src/queues"));
        assert!(checked.status.success(), "{checked:?}");
        assert!(text(&checked.stdout).ends_with("is up to date\n"));
    }
}

#[test]
fn committed_code_and_lock_agree_without_a_broker_and_the_broker_has_the_same_contracts() {
    const WITH_CODE: &str = "qwerq.lock is up to date\nsrc/queues is up to date\n";
    for (broker, example, expected) in [
        (broker_with_contract(), orders(), WITH_CODE),
        (broker_with_service(), pricing(), WITH_CODE),
        (broker_with_stream(), replay(), WITH_CODE),
        (broker_with_shop(), shop(), "qwerq.lock is up to date\n"),
    ] {
        let nobody = ("QWERQ_BROKER", "127.0.0.1:1");
        let checked = Command::new(BINARY).args(["gen", "--check"]).current_dir(&example).envs([nobody]).output().expect("it runs");
        assert!(checked.status.success(), "{checked:?}");
        assert_eq!(text(&checked.stdout), expected);
        let verified = broker.command(&["gen", "verify"]).current_dir(&example).output().expect("it runs");
        assert!(verified.status.success(), "{verified:?}");
    }
}

#[test]
fn the_pipeline_ships_every_order_though_two_are_too_large() {
    if !tool::are_installed(&["npm", "go"]) {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pipeline/run.sh");
    let ran =
        Command::new(script).env("PATH", tool::path()).env_remove("QWERQ_BROKER").env_remove("QWERQ_AUTH_TOKEN").output().expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    let said: Vec<&str> = text(&ran.stdout).lines().collect();
    for order in ["o-1", "o-2", "o-3", "o-4", "o-5.1", "o-5.2", "o-6.1", "o-6.2"] {
        assert_eq!(said.iter().filter(|line| **line == format!("shipped {order}")).count(), 1, "{order}: {said:?}");
    }
    for (order, pieces) in [("o-5", 5), ("o-6", 6)] {
        let split = format!("split {order} ({pieces} tea do not fit into one parcel) into 2 orders");
        assert!(said.contains(&split.as_str()), "{split}: {said:?}");
    }
    // Nothing is left, neither orders nor dead letters.
    for queue in ["orders ", "orders.dlq "] {
        let line = said.iter().rev().find(|line| line.starts_with(queue)).unwrap_or_else(|| panic!("{queue}: {said:?}"));
        assert_eq!(line.split_whitespace().nth(2), Some("0"), "{line}");
    }
}

#[test]
fn an_edited_file_is_stale() {
    let copy = tempfile::tempdir().expect("a temporary directory");
    copy_folder(&orders().join("src/queues"), copy.path());
    let file = copy.path().join("shop/v1/mod.rs");
    let edited = fs::read_to_string(&file).expect("it was copied").replace("i64", "i32");
    fs::write(&file, edited).expect("the copy is writable");
    let checked = check(&broker_with_contract(), copy.path());
    assert_eq!(checked.status.code(), Some(1));
    let said = text(&checked.stderr);
    assert!(said.contains("is stale\n") && said.contains("shop/v1/mod.rs"), "{said}");
    assert!(said.contains("next: run the same command without --check"), "{said}");
}

#[test]
fn code_of_an_older_contract_is_stale() {
    let broker = broker_with_contract();
    let changed = tempfile::tempdir().expect("a temporary directory");
    copy_folder(&orders().join("proto"), changed.path());
    let file = changed.path().join("shop/v1/order.proto");
    let proto = fs::read_to_string(&file).expect("it was copied");
    let with_field = proto.replace("  int64 total_cents = 4;\n", "  int64 total_cents = 4;\n  string note = 5;\n");
    assert_ne!(proto, with_field);
    fs::write(&file, with_field).expect("the copy is writable");
    register(&broker, changed.path());
    let checked = check(&broker, &orders().join("src/queues"));
    assert_eq!(checked.status.code(), Some(1));
    let said = text(&checked.stderr);
    assert!(said.contains("is stale\n") && said.contains("clients.rs") && said.contains("shop/v1/mod.rs"), "{said}");
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the copy's folder can be made");
    for entry in fs::read_dir(from).expect("the folder is there") {
        let from = entry.expect("the folder can be listed").path();
        let to = to.join(from.file_name().expect("an entry has a name"));
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            fs::copy(&from, &to).expect("the file can be copied");
        }
    }
}
