//! Apps of the Rust client against the real broker: what becomes of messages and calls that handlers under `#[qwerq::consumer]` and
//! `#[qwerq::service]` work on.
//!
//! What reaches the wire is tested in the crate against a scripted broker; here counts what the broker makes of it.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use qwerq::{App, AppError, Client, Ctx, DeadLetterFilter, ErrorCode, Failure, FetchOptions, Message, Raw, State, Status, prost};
use support::broker::Broker;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

/// As much of an order as the handlers here read.
#[derive(Clone, PartialEq)]
#[qwerq::queue("orders.created", subset, schema = "sdk-templates/rust/runtime/tests/contracts")]
struct Order {
    id: String,
}

#[derive(Clone, PartialEq)]
#[qwerq::message("shop.v1.QuoteRequest", schema = "sdk-templates/rust/runtime/tests/contracts")]
struct QuoteRequest {
    article: String,
    quantity: u32,
}

#[derive(Clone, PartialEq)]
#[qwerq::message("shop.v1.Quote", schema = "sdk-templates/rust/runtime/tests/contracts")]
struct Quote {
    cents: i64,
}

/// What handlers tell the test, and what they wait for.
#[derive(Clone)]
struct Bench {
    seen: mpsc::UnboundedSender<String>,
    open: Arc<Semaphore>,
}

impl Bench {
    fn new() -> (Bench, mpsc::UnboundedReceiver<String>) {
        let (seen, told) = mpsc::unbounded_channel();
        (Bench { seen, open: Arc::new(Semaphore::new(0)) }, told)
    }

    fn tell(&self, what: String) {
        self.seen.send(what).expect("the test listens");
    }

    async fn pass(&self) {
        self.open.acquire().await.expect("it is never closed").forget();
    }
}

async fn told(seen: &mut mpsc::UnboundedReceiver<String>, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(seen.recv().await.expect("handlers run"));
    }
    all.sort();
    all
}

#[qwerq::consumer("orders.created", group = "billing", concurrency = 4, schema = "sdk-templates/rust/runtime/tests/contracts")]
async fn bill(order: Order, ctx: Ctx, State(bench): State<Bench>) -> Result<(), Failure> {
    bench.tell(format!("{} #{}", order.id, ctx.attempt()));
    match (order.id.as_str(), ctx.attempt()) {
        ("hopeless", _) => Err(Failure::reject("no such customer")),
        ("later", 1) => Err(Failure::retry_after(Duration::ZERO, "not now")),
        ("number", _) => {
            "x".parse::<u64>()?;
            Ok(())
        }
        ("panic", _) => panic!("out of paper"),
        _ => Ok(()),
    }
}

#[qwerq::consumer("orders.created", group = "slow", concurrency = 2, schema = "sdk-templates/rust/runtime/tests/contracts")]
async fn slow(order: Order, ctx: Ctx, State(bench): State<Bench>) -> Result<(), Failure> {
    bench.tell(format!("{} #{}", order.id, ctx.attempt()));
    bench.pass().await;
    Ok(())
}

struct Running {
    app: JoinHandle<Result<(), AppError>>,
    stop: oneshot::Sender<()>,
}

impl Running {
    /// Starts an app and waits until all of its subscriptions are open.
    async fn start(app: App) -> Running {
        let (ready, is_ready) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let app = app.on_ready(move || ready.send(()).expect("the test waits"));
        let app = tokio::spawn(app.run_until(async move { drop(stopped.await) }));
        is_ready.await.expect("the app starts");
        Running { app, stop }
    }

    async fn stop(self) {
        self.stop.send(()).expect("the app runs");
        self.app.await.expect("it does not panic").expect("it ends well");
    }
}

async fn connect(broker: &Broker) -> Client {
    Client::connect(broker.broker()).await.expect("the broker is there")
}

fn register(broker: &Broker, args: &[&str]) {
    let protos = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk-templates/rust/runtime/tests/contracts/proto");
    let proto = protos.join(args[0]);
    let [protos, proto] = [&protos, &proto].map(|path| path.to_str().expect("a path in UTF-8"));
    let done = broker.run(&[&["schema", "register", "-I", protos, "-p", proto], &args[1..]].concat());
    assert!(done.status.success(), "{done:?}");
}

fn broker_with_orders() -> Broker {
    let broker = Broker::start(&[]);
    register(&broker, &["shop/v1/order.proto", "-q", "orders.created", "-m", "shop.v1.Order"]);
    broker
}

async fn publish(client: &Client, orders: &[&str]) {
    let messages = orders.iter().map(|id| Message::new(prost::Message::encode_to_vec(&Order { id: (*id).to_owned() })));
    for published in client.publish_batch("orders.created", messages).await {
        published.expect("the queue takes it");
    }
}

/// Reason and error of each dead letter, sorted.
async fn letters(client: &Client) -> Vec<(String, String)> {
    let page = client.dead_letters("orders.created", &DeadLetterFilter::default(), 0).await.expect("it has letters");
    let header = |letter: &qwerq::Peeked, name| letter.headers.get(name).unwrap_or_default().to_owned();
    let mut letters: Vec<_> = page.letters.iter().map(|letter| (header(letter, "qwerq-reason"), header(letter, "qwerq-error"))).collect();
    letters.sort();
    letters
}

#[tokio::test]
async fn each_outcome_becomes_of_the_message_what_the_handler_said() {
    let broker = broker_with_orders();
    let updated = broker.run(&["queue", "update", "orders.created", "--max-deliveries", "2", "--retry-backoff", "1ms"]);
    assert!(updated.status.success(), "{updated:?}");
    let client = connect(&broker).await;
    let (bench, mut seen) = Bench::new();
    let app = Running::start(App::new(connect(&broker).await).state(bench).worker(bill)).await;
    publish(&client, &["good", "hopeless", "later", "number", "panic"]).await;
    let expected = ["good #1", "hopeless #1", "later #1", "later #2", "number #1", "number #2", "panic #1", "panic #2"];
    assert_eq!(told(&mut seen, 8).await, expected);
    // Closing has the settlements confirmed.
    app.stop().await;
    let expected = [
        ("max-deliveries", "invalid digit found in string"),
        ("max-deliveries", "the handler panicked: out of paper"),
        ("rejected", "no such customer"),
    ];
    assert_eq!(letters(&client).await, expected.map(|(reason, error)| (reason.to_owned(), error.to_owned())));
    assert_eq!(broker.metric("qwerq_queue_depth{queue=\"orders.created\"}"), 0.0);
}

#[tokio::test]
async fn an_app_that_stops_loses_nothing_and_what_it_did_not_begin_is_not_counted() {
    let broker = broker_with_orders();
    let client = connect(&broker).await;
    let (bench, mut seen) = Bench::new();
    let app = Running::start(App::new(connect(&broker).await).state(bench.clone()).worker(slow)).await;
    publish(&client, &["a", "b", "c", "d", "e"]).await;
    assert_eq!(told(&mut seen, 2).await, ["a #1", "b #1"]);
    app.stop.send(()).expect("the app runs");
    // Only what runs is held still: the rest has come back, while two handlers have not finished.
    let options = || FetchOptions { group: "slow".to_owned(), max: 9, wait: Duration::from_secs(60), ..FetchOptions::default() };
    let mut back = Vec::new();
    while back.len() < 3 {
        back.extend(client.fetch("orders.created", options()).await.expect("a fetch is answered"));
    }
    let attempts: Vec<_> = back.iter().map(|delivery| (delivery.seq, delivery.attempt)).collect();
    assert_eq!(attempts.iter().copied().collect::<BTreeSet<_>>(), attempts.iter().map(|(seq, _)| (*seq, 1)).collect());
    assert!(!app.app.is_finished(), "two handlers run");
    bench.open.add_permits(2);
    app.app.await.expect("it does not panic").expect("it ends well");
    for delivery in back {
        delivery.ack_confirmed().await.expect("the lease is good");
    }
    assert_eq!(broker.metric("qwerq_queue_depth{queue=\"orders.created\"}"), 0.0, "what ran was acknowledged");
    assert_eq!(broker.metric("qwerq_messages_nacked_total"), 0.0);
}

#[tokio::test]
async fn handlers_that_are_cut_short_have_their_attempts_counted() {
    let broker = broker_with_orders();
    let client = connect(&broker).await;
    let (bench, mut seen) = Bench::new();
    let app = App::new(connect(&broker).await).state(bench.clone()).worker(slow).grace(Duration::ZERO);
    let app = Running::start(app).await;
    publish(&client, &["a"]).await;
    assert_eq!(told(&mut seen, 1).await, ["a #1"]);
    app.stop().await;
    bench.open.add_permits(1);
    let app = Running::start(App::new(connect(&broker).await).state(bench).worker(slow)).await;
    assert_eq!(told(&mut seen, 1).await, ["a #2"]);
    app.stop().await;
    assert_eq!(broker.metric("qwerq_queue_depth{queue=\"orders.created\"}"), 0.0);
}

#[tokio::test]
async fn every_group_of_an_app_gets_every_message_and_the_broker_knows_their_contract() {
    let broker = broker_with_orders();
    let client = connect(&broker).await;
    let (bench, mut seen) = Bench::new();
    bench.open.add_permits(2);
    let app = Running::start(App::new(connect(&broker).await).state(bench).worker(bill).worker(slow)).await;
    publish(&client, &["a", "b"]).await;
    assert_eq!(told(&mut seen, 4).await, ["a #1", "a #1", "b #1", "b #1"]);
    let clients = client.schema_clients("orders.created").await.expect("it has a contract");
    let consumers = clients.iter().filter(|client| client.role == "consume");
    let versions: BTreeSet<_> = consumers.map(|client| (client.group.as_str(), client.version)).collect();
    assert_eq!(versions, BTreeSet::from([("billing", 1), ("slow", 1)]), "{clients:?}");
    app.stop().await;
    assert_eq!(broker.metric("qwerq_queue_depth{queue=\"orders.created\"}"), 0.0);
}

#[tokio::test]
async fn what_does_not_decode_is_a_dead_letter_that_says_why() {
    let broker = Broker::start(&[]);
    let client = connect(&broker).await;
    // Before there is a contract the broker takes everything.
    client.publish("orders.created", Message::new(&b"\x0a\xff"[..])).await.expect("the queue takes it");
    let (bench, mut seen) = Bench::new();
    let app = Running::start(App::new(connect(&broker).await).state(bench).worker(bill)).await;
    publish(&client, &["good"]).await;
    assert_eq!(told(&mut seen, 1).await, ["good #1"]);
    app.stop().await;
    let letters = letters(&client).await;
    let [(reason, error)] = &letters[..] else { panic!("{letters:?}") };
    assert_eq!(reason, "rejected");
    assert!(error.starts_with("the payload is not a shop.v1.Order: "), "{error}");
}

#[tokio::test]
async fn a_worker_can_look_after_dead_letters() {
    #[qwerq::consumer("orders.created.dlq", group = "repair", schema = "sdk-templates/rust/runtime/tests/contracts")]
    async fn repair(order: Order, ctx: Ctx, State(bench): State<Bench>) -> Result<(), Failure> {
        bench.tell(format!("{}: {}", order.id, ctx.headers().get("qwerq-error").unwrap_or_default()));
        Ok(())
    }

    let broker = broker_with_orders();
    let client = connect(&broker).await;
    let (bench, mut seen) = Bench::new();
    publish(&client, &["hopeless"]).await;
    let app = Running::start(App::new(connect(&broker).await).state(bench.clone()).worker(bill)).await;
    assert_eq!(told(&mut seen, 1).await, ["hopeless #1"]);
    app.stop().await;
    let app = Running::start(App::new(connect(&broker).await).state(bench).worker(repair)).await;
    assert_eq!(told(&mut seen, 1).await, ["hopeless: no such customer"]);
    app.stop().await;
}

#[tokio::test]
async fn what_the_broker_refuses_at_the_start_is_the_apps_error() {
    #[qwerq::consumer("untyped")]
    async fn untyped(Raw(_): Raw) -> Result<(), Failure> {
        Ok(())
    }

    let broker = Broker::start(&["--auto-create", "false"]);
    let (ready, is_ready) = oneshot::channel();
    let app = App::new(connect(&broker).await).worker(untyped).on_ready(move || ready.send(()).expect("the test waits"));
    let error = app.run_until(async move { drop(is_ready.await) }).await.expect_err("there is no such queue");
    let AppError::Worker { worker, queue, source } = &error else { panic!("{error}") };
    assert_eq!((*worker, *queue, source.code()), ("apps::untyped", "untyped", Some(ErrorCode::QueueNotFound)));
}

#[qwerq::service("pricing", schema = "sdk-templates/rust/runtime/tests/contracts")]
trait Pricing {
    async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status>;
}

struct Desk(Bench);

impl Pricing for Desk {
    async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status> {
        match request.article.as_str() {
            "" => return Err(Status::new(ErrorCode::InvalidArgument, "which article?")),
            "slow" => {
                self.0.tell("slow".to_owned());
                self.0.pass().await;
            }
            "panic" => panic!("out of paper"),
            _ => {}
        }
        Ok(Quote { cents: 495 * i64::from(request.quantity) })
    }
}

#[tokio::test]
async fn a_service_is_called_by_its_client_and_finishes_what_it_has_begun() {
    let broker = Broker::start(&["--schema-mode", "strict"]);
    register(&broker, &["shop/v1/pricing.proto", "--service", "shop.v1.Pricing"]);
    let client = connect(&broker).await;
    let pricing = PricingClient::new(&client);
    let ask = |article: &str| QuoteRequest { article: article.to_owned(), quantity: 2 };
    let closed = pricing.quote(ask("tea")).await.expect_err("nobody answers");
    assert_eq!(closed.code(), Some(ErrorCode::NoResponders));

    let (bench, mut seen) = Bench::new();
    let app = Running::start(App::new(connect(&broker).await).service(PricingServer::new(Desk(bench.clone())))).await;
    assert_eq!(pricing.quote(ask("tea")).await.expect("the desk answers"), Quote { cents: 990 });
    assert_eq!(pricing.quote(ask("")).await.expect_err("the desk refuses").code(), Some(ErrorCode::InvalidArgument));
    assert_eq!(pricing.quote(ask("panic")).await.expect_err("the desk panics").code(), Some(ErrorCode::Internal));

    let begun = tokio::spawn({
        let pricing = pricing.clone();
        async move { pricing.quote(ask("slow")).await }
    });
    assert_eq!(told(&mut seen, 1).await, ["slow"]);
    app.stop.send(()).expect("the app runs");
    while pricing.quote(ask("tea")).await.is_ok() {}
    bench.open.add_permits(1);
    assert_eq!(begun.await.expect("it does not panic").expect("what has begun is finished"), Quote { cents: 990 });
    app.app.await.expect("it does not panic").expect("it ends well");
    let closed = pricing.quote(ask("tea")).await.expect_err("nobody answers any more");
    assert_eq!(closed.code(), Some(ErrorCode::NoResponders));
}
