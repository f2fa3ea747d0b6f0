//! Apps against a scripted broker: what they ask for, what they say about messages, how many they handle at once, and how they end.

#![expect(clippy::unwrap_used, reason = "tests panic when something is not as scripted")]

mod shop;
mod support;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use qwerq::proto::{ErrorCode, Opcode, wire};
use qwerq::{App, AppError, Client, Failure, Raw, Reconnect, State, Status};
use shop::{Order, Quote, QuoteRequest, order};
use support::{Broker, Peer, broker, bytes_of, connect, connected, delivered, seqs};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

/// Handlers announce themselves and wait to be let through.
#[derive(Clone)]
struct Gate {
    entered: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Gate {
        Gate { entered: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    async fn pass(&self) {
        self.entered.add_permits(1);
        self.open.acquire().await.unwrap().forget();
    }

    async fn entered(&self, handlers: u32) {
        self.entered.acquire_many(handlers).await.unwrap().forget();
    }
}

#[qwerq::consumer("orders.created", group = "billing", concurrency = 2, visibility_timeout = "30s", schema = "tests/contracts")]
async fn bill(order: Order, gate: State<Gate>) -> Result<(), Failure> {
    match order.id.as_str() {
        "reject" => return Err(Failure::reject("hopeless")),
        "later" => return Err(Failure::retry_after(Duration::from_secs(9), "not now")),
        "panic" => panic!("as scripted"),
        "wait" => gate.pass().await,
        _ => {}
    }
    Ok(())
}

#[qwerq::consumer("copies", group = "copies")]
async fn copy(_copy: Raw) -> Result<(), Failure> {
    Ok(())
}

/// An app that runs, and how it is told to stop.
struct Running {
    app: JoinHandle<Result<(), AppError>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Running {
    fn start(app: App) -> Running {
        let (stop, stopped) = oneshot::channel();
        let until = async { stopped.await.unwrap() };
        Running { app: tokio::spawn(app.run_until(until)), stop: Some(stop) }
    }

    fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    async fn ended(self) -> Result<(), AppError> {
        self.app.await.unwrap()
    }
}

/// A running app with one worker, and the number of its subscription.
async fn billing(gate: &Gate) -> (Running, Peer, Broker, u32) {
    let (client, mut peer, broker) = connected().await;
    let app = Running::start(App::new(client).state(gate.clone()).worker(bill));
    let number = peer.consume_ack().await.subscription;
    (app, peer, broker, number)
}

async fn send(peer: &mut Peer, subscription: u32, messages: &[(u64, &str)]) {
    let messages = messages.iter().map(|(seq, id)| wire::Delivered { payload: bytes_of(&order(id)), ..delivered(*seq) }).collect();
    peer.send(Opcode::Message, None, &wire::Deliver { subscription, messages }).await;
}

/// Answers what a closing client asks, until it hangs up. Says what was settled meanwhile.
async fn goodbye(peer: &mut Peer) -> Vec<(Opcode, Vec<u64>, String)> {
    let mut settled = Vec::new();
    while let Some(frame) = peer.frame().await {
        let opcode = Opcode::from_u8(frame.opcode).unwrap();
        match opcode {
            Opcode::Unsubscribe => {
                let unsubscribe = <wire::Unsubscribe as prost::Message>::decode(frame.payload).unwrap();
                let ended = wire::SubscriptionEnded { subscription: unsubscribe.subscription, reason: None };
                peer.send(Opcode::SubscriptionEnded, frame.request_id, &ended).await;
            }
            Opcode::Ack | Opcode::Nack | Opcode::Reject | Opcode::Release => {
                let settle = <wire::Settle as prost::Message>::decode(frame.payload).unwrap();
                if !settle.lease_ids.is_empty() {
                    settled.push((opcode, seqs(&settle), settle.reason.clone()));
                }
                if settle.confirm {
                    let all = u32::try_from(settle.lease_ids.len()).unwrap();
                    peer.send(Opcode::Settled, frame.request_id, &wire::Settled { settled: all, refused: Vec::new() }).await;
                }
            }
            Opcode::ExtendVisibility => {}
            other => panic!("the closing client sent {}", other.name()),
        }
    }
    settled
}

#[tokio::test(start_paused = true)]
async fn what_the_attribute_says_reaches_the_wire_and_can_be_changed() {
    let (client, mut peer, _broker) = connected().await;
    let app = App::new(client).state(Gate::new()).worker(bill).worker_with(copy, |options| options.group("others").concurrency(40));
    let (ready, is_ready) = oneshot::channel();
    let mut app = Running::start(app.on_ready(|| ready.send(()).unwrap()));
    let consume = peer.consume_ack().await;
    assert_eq!((consume.queue.as_str(), consume.group.as_str()), ("orders.created", "billing"));
    assert_eq!((consume.concurrency, consume.prefetch, consume.visibility_timeout_ms), (2, 32, 30_000));
    assert_eq!(consume.contract[..3], [0x29, 0x37, 0x72]);
    let consume = peer.consume_ack().await;
    assert_eq!((consume.queue.as_str(), consume.group.as_str(), &consume.contract[..]), ("copies", "others", &b""[..]));
    assert_eq!((consume.concurrency, consume.prefetch), (40, 80), "every handler can have work");
    is_ready.await.unwrap();
    app.stop();
    assert_eq!(goodbye(&mut peer).await, []);
    app.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_outcome_is_said_to_the_broker() {
    let (mut app, mut peer, _broker, number) = billing(&Gate::new()).await;
    for (seq, id, opcode, delay_ms, reason) in [
        (1, "good", Opcode::Ack, None, ""),
        (2, "reject", Opcode::Reject, None, "hopeless"),
        (3, "later", Opcode::Nack, Some(9_000), "not now"),
        (4, "panic", Opcode::Nack, None, "the handler panicked: as scripted"),
    ] {
        send(&mut peer, number, &[(seq, id)]).await;
        let (_, settle) = peer.expect::<wire::Settle>(opcode).await;
        assert_eq!((seqs(&settle), settle.delay_ms, settle.reason.as_str()), (vec![seq], delay_ms, reason));
    }
    peer.deliver(number, [5]).await;
    let (_, undecodable) = peer.expect::<wire::Settle>(Opcode::Reject).await;
    assert!(undecodable.reason.starts_with("the payload is not a shop.v1.Order: "), "{}", undecodable.reason);
    app.stop();
    assert_eq!(goodbye(&mut peer).await, []);
    app.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn as_many_are_handled_at_once_as_the_attribute_says_and_their_leases_are_renewed() {
    let gate = Gate::new();
    let (mut app, mut peer, _broker, number) = billing(&gate).await;
    send(&mut peer, number, &[(1, "wait"), (2, "wait"), (3, "wait")]).await;
    gate.entered(2).await;
    // Those that are handled, and the one that waits for a place.
    let (_, renewed) = peer.expect::<wire::Settle>(Opcode::ExtendVisibility).await;
    assert_eq!(seqs(&renewed), [1, 2, 3]);
    assert_eq!(gate.entered.available_permits(), 0, "the third has not begun");
    gate.open.add_permits(1);
    gate.entered(1).await;
    gate.open.add_permits(2);
    let mut acked = Vec::new();
    while acked.len() < 3 {
        let (_, acks) = peer.expect::<wire::Settle>(Opcode::Ack).await;
        acked.extend(seqs(&acks));
    }
    acked.sort_unstable();
    assert_eq!(acked, [1, 2, 3]);
    app.stop();
    assert_eq!(goodbye(&mut peer).await, []);
    app.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_app_that_stops_gives_back_what_waits_and_finishes_what_runs() {
    let gate = Gate::new();
    let (mut app, mut peer, _broker, number) = billing(&gate).await;
    send(&mut peer, number, &[(1, "wait"), (2, "wait"), (3, "wait"), (4, "good")]).await;
    gate.entered(2).await;
    app.stop();
    let (_, released) = peer.expect::<wire::Settle>(Opcode::Release).await;
    assert_eq!(seqs(&released), [3, 4]);
    let unsubscribe = peer.unsubscribe().await;
    assert!(unsubscribe.keep_leases, "two are handled still");
    gate.open.add_permits(2);
    let said = goodbye(&mut peer).await;
    let mut acked: Vec<u64> = said.iter().filter(|(opcode, ..)| *opcode == Opcode::Ack).flat_map(|(_, seqs, _)| seqs.clone()).collect();
    acked.sort_unstable();
    assert_eq!(acked, [1, 2], "{said:?}");
    app.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn handlers_that_outlast_the_grace_are_cut_short_and_their_attempts_count() {
    let gate = Gate::new();
    let (client, mut peer, _broker) = connected().await;
    let mut app = Running::start(App::new(client).state(gate.clone()).worker(bill).grace(Duration::from_secs(5)));
    let number = peer.consume_ack().await.subscription;
    send(&mut peer, number, &[(1, "wait")]).await;
    gate.entered(1).await;
    let told_at = tokio::time::Instant::now();
    app.stop();
    let said = goodbye(&mut peer).await;
    assert_eq!(said, [(Opcode::Nack, vec![1], "the service stopped before the handler was done".to_owned())]);
    assert!(told_at.elapsed() >= Duration::from_secs(5));
    app.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_ends_with_an_error_ends_the_app_and_is_named() {
    let gate = Gate::new();
    let (client, mut peer, _broker) = connected().await;
    let app = Running::start(App::new(client).state(gate.clone()).worker(bill).worker(copy));
    let (billing, copying) = (peer.consume_ack().await.subscription, peer.consume_ack().await.subscription);
    send(&mut peer, billing, &[(1, "wait")]).await;
    gate.entered(1).await;
    let reason = Some(ErrorCode::QueueNotFound.with("queue copies was deleted"));
    peer.send(Opcode::SubscriptionEnded, None, &wire::SubscriptionEnded { subscription: copying, reason }).await;
    // The others stop as they should.
    let unsubscribe = peer.unsubscribe().await;
    assert_eq!((unsubscribe.subscription, unsubscribe.keep_leases), (billing, true));
    gate.open.add_permits(1);
    assert_eq!(goodbye(&mut peer).await, [(Opcode::Ack, vec![1], String::new())]);
    let error = app.ended().await.unwrap_err();
    assert_eq!(error.to_string(), "worker app::copy of queue copies: queue-not-found (1003): queue copies was deleted");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_subscribe_keeps_the_app_from_starting() {
    let (client, mut peer, _broker) = connected().await;
    let app = App::new(client).state(Gate::new()).worker(bill).worker(copy).on_ready(|| panic!("it is not"));
    let app = Running::start(app);
    peer.consume_ack().await;
    let (id, _) = peer.expect::<wire::Consume>(Opcode::Consume).await;
    peer.error(id, ErrorCode::ContractRequired.with("strict")).await;
    goodbye(&mut peer).await;
    let error = app.ended().await.unwrap_err();
    assert!(matches!(error, AppError::Worker { worker: "app::copy", queue: "copies", .. }), "{error}");
}

#[tokio::test]
async fn an_app_that_cannot_work_says_so_and_consumes_nothing() {
    for (make, expected) in [
        (
            (|client| App::new(client)) as fn(Client) -> App,
            "the app has nothing to do; give it a consumer with `.worker(..)` or a service with `.service(..)`",
        ),
        (
            |client| App::new(client).worker(bill),
            "worker app::bill cannot run: there is no State<app::Gate>; give the app one with `.state(..)`",
        ),
        (
            |client| App::new(client).state(1_u8).state(2_u8).worker(copy),
            "the app was given two states of type u8; wrap one of them in a type of its own",
        ),
    ] {
        let (client, mut peer, _broker) = connected().await;
        let (ended, ()) = tokio::join!(make(client).run_until(pending()), peer.expect_end());
        assert_eq!(ended.unwrap_err().to_string(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_nothing() {
    let (mut app, peer, mut broker, _) = billing(&Gate::new()).await;
    drop(peer);
    let mut peer = broker.accept().await;
    let number = peer.consume_ack().await.subscription;
    send(&mut peer, number, &[(1, "good")]).await;
    let (_, acks) = peer.expect::<wire::Settle>(Opcode::Ack).await;
    assert_eq!(seqs(&acks), [1]);
    app.stop();
    assert_eq!(goodbye(&mut peer).await, []);
    app.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_app_stops_though_its_broker_is_away() {
    let gate = Gate::new();
    let (mut app, mut peer, broker, number) = billing(&gate).await;
    send(&mut peer, number, &[(1, "wait")]).await;
    gate.entered(1).await;
    drop((peer, broker));
    app.stop();
    gate.open.add_permits(1);
    app.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_gives_up_ends_the_app() {
    let (dial, broker) = broker();
    let builder = Client::builder("test").dial(dial).reconnect(Reconnect::never());
    let (client, mut peer, broker) = connect(builder, broker).await;
    let app = Running::start(App::new(client).state(Gate::new()).worker(bill));
    peer.consume_ack().await;
    drop((peer, broker));
    let error = app.ended().await.unwrap_err();
    assert!(matches!(error, AppError::Worker { worker: "app::bill", queue: "orders.created", .. }), "{error}");
}

#[qwerq::service("pricing", schema = "tests/contracts")]
trait Pricing {
    async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status>;
}

struct Desk(Gate);

impl Pricing for Desk {
    async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status> {
        match request.article.as_str() {
            "wait" => self.0.pass().await,
            "panic" => panic!("as scripted"),
            _ => {}
        }
        Ok(Quote { cents: request.quantity.into() })
    }
}

fn call(subscription: u32, article: &str) -> wire::Call {
    let request = QuoteRequest { article: article.to_owned(), quantity: 7 };
    wire::Call {
        subscription,
        call_id: article.to_owned().into(),
        timeout_ms: 60_000,
        payload: bytes_of(&request),
        ..wire::Call::default()
    }
}

async fn answer(peer: &mut Peer) -> (String, Result<qwerq::Bytes, Option<ErrorCode>>) {
    let (_, response) = peer.expect::<wire::CallResponse>(Opcode::CallResponse).await;
    let id = String::from_utf8(response.call_id.to_vec()).unwrap();
    (id, response.error.map_or(Ok(response.payload), |error| Err(error.known_code())))
}

#[tokio::test(start_paused = true)]
async fn a_service_answers_the_calls_of_its_methods_and_finishes_those_that_have_arrived() {
    let gate = Gate::new();
    let (client, mut peer, _broker) = connected().await;
    let mut app = Running::start(App::new(client).service(PricingServer::new(Desk(gate.clone()))));
    let consume = peer.consume_ack().await;
    assert_eq!((consume.queue.as_str(), consume.role()), ("pricing.quote", wire::Role::Serve));
    assert_eq!(consume.contract[..3], [0x3d, 0x47, 0x1e]);
    let reply = bytes_of(&Quote { cents: 7 });
    let number = consume.subscription;
    for (article, expected) in [("tea", Ok(reply.clone())), ("panic", Err(Some(ErrorCode::Internal)))] {
        peer.send(Opcode::Call, None, &call(number, article)).await;
        assert_eq!(answer(&mut peer).await, (article.to_owned(), expected));
    }
    let garbage = wire::Call { payload: "\u{a}".into(), ..call(number, "garbage") };
    peer.send(Opcode::Call, None, &garbage).await;
    assert_eq!(answer(&mut peer).await, ("garbage".to_owned(), Err(Some(ErrorCode::SchemaViolation))));

    peer.send(Opcode::Call, None, &call(number, "wait")).await;
    gate.entered(1).await;
    app.stop();
    let (id, _) = peer.expect::<wire::Unsubscribe>(Opcode::Unsubscribe).await;
    // It crosses the UNSUBSCRIBE, so it was not begun, and its caller may know that.
    peer.send(Opcode::Call, None, &call(number, "crossing")).await;
    assert_eq!(answer(&mut peer).await, ("crossing".to_owned(), Err(Some(ErrorCode::NoResponders))));
    peer.send(Opcode::SubscriptionEnded, id, &wire::SubscriptionEnded { subscription: number, reason: None }).await;
    gate.open.add_permits(1);
    assert_eq!(answer(&mut peer).await, ("wait".to_owned(), Ok(reply)));
    assert_eq!(goodbye(&mut peer).await, []);
    app.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_client_of_a_service_calls_under_its_contract() {
    let (client, mut peer, _broker) = connected().await;
    let pricing = PricingClient::new(&client).within(Duration::from_secs(2));
    let (quote, ()) = tokio::join!(pricing.quote(QuoteRequest { article: "tea".to_owned(), quantity: 1 }), async {
        let (id, call) = peer.expect::<wire::Call>(Opcode::Call).await;
        assert_eq!((call.queue.as_str(), call.timeout_ms, &call.contract[..3]), ("pricing.quote", 2_000, &[0x3d, 0x47, 0x1e][..]));
        let response = wire::CallResponse { payload: bytes_of(&Quote { cents: 5 }), ..wire::CallResponse::default() };
        peer.send(Opcode::CallResponse, id, &response).await;
    });
    assert_eq!(quote.unwrap(), Quote { cents: 5 });
}
