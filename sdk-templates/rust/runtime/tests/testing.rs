//! Handlers under `#[qwerq::consumer]` and `#[qwerq::service]`, driven by `qwerq::testing`: what they are given, and what follows from what
//! they say.

#![expect(clippy::unwrap_used, reason = "tests panic when something is not as expected")]

mod shop;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use qwerq::testing::{self, Fate, Parcel};
use qwerq::{CallInfo, Client, Ctx, ErrorCode, Failure, FromCtx, Headers, IntoFailure, Message, MessageId, Raw, Settlement, State, Status};
use shop::{Order, Quote, QuoteRequest, order};

fn nack(reason: &str) -> Settlement {
    Settlement::Nack { delay: None, reason: reason.to_owned() }
}

/// Fails as its order's id says.
#[qwerq::consumer("orders.created", group = "billing", schema = "tests/contracts")]
async fn bill(order: Order) -> Result<(), Failure> {
    match order.id.as_str() {
        "good" => Ok(()),
        "later" => Err(Failure::retry_after(Duration::from_secs(60), "not today")),
        "hopeless" => Err(Failure::reject("no such customer")),
        "panic" => panic!("out of paper"),
        number => {
            let _: u64 = number.parse()?;
            Ok(())
        }
    }
}

#[tokio::test]
async fn ok_acknowledges_and_an_error_says_what_becomes_of_the_message() {
    let billing = testing::worker(bill);
    let reject = Settlement::Reject { reason: "no such customer".to_owned() };
    let later = Settlement::Nack { delay: Some(Duration::from_secs(60)), reason: "not today".to_owned() };
    for (id, expected) in [
        ("good", Settlement::Ack),
        ("later", later),
        ("hopeless", reject),
        ("x", nack("invalid digit found in string")),
        ("7", Settlement::Ack),
    ] {
        let handled = billing.send(&order(id)).await;
        assert_eq!(handled.settlement, expected, "{id}");
        assert!(!handled.panicked && !handled.undecodable, "{id}");
    }
}

#[tokio::test]
async fn a_panic_is_a_failed_attempt_with_its_text() {
    let handled = testing::worker(bill).send(&order("panic")).await;
    assert!(handled.panicked);
    assert_eq!(handled.settlement, nack("the handler panicked: out of paper"));
}

#[tokio::test]
async fn the_function_can_still_be_called() {
    assert_eq!(bill(order("good")).await, Ok(()));
    assert_eq!(bill(order("hopeless")).await, Err(Failure::reject("no such customer")));
    let calling = bill(order("panic"));
    drop(calling);
}

#[tokio::test]
async fn attempts_go_on_until_the_message_is_settled_for_good() {
    static LEFT: AtomicU32 = AtomicU32::new(2);

    #[qwerq::consumer("orders.created", schema = "tests/contracts")]
    async fn third_time_lucky(_order: Order, ctx: Ctx) -> Result<(), String> {
        match LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(format!("attempt {}", ctx.attempt())),
            Err(_) => Ok(()),
        }
    }

    let (attempts, fate) = testing::worker(third_time_lucky).deliver_until_settled(Parcel::of(&order("a"))).await;
    let settlements: Vec<Settlement> = attempts.into_iter().map(|handled| handled.settlement).collect();
    assert_eq!((settlements, fate), (vec![nack("attempt 1"), nack("attempt 2"), Settlement::Ack], Fate::Acked));

    let billing = testing::worker(bill).max_deliveries(3);
    let (attempts, fate) = billing.deliver_until_settled(Parcel::of(&order("panic"))).await;
    assert_eq!((attempts.len(), fate), (3, Fate::OutOfAttempts("the handler panicked: out of paper".to_owned())));
    let (attempts, fate) = billing.deliver_until_settled(Parcel::of(&order("hopeless"))).await;
    assert_eq!((attempts.len(), fate), (1, Fate::Rejected("no such customer".to_owned())));
}

#[tokio::test]
async fn a_payload_that_does_not_decode_never_reaches_the_handler() {
    #[qwerq::consumer("orders.created", undecodable = "nack", schema = "tests/contracts")]
    async fn patient(_order: Order) -> Result<(), Infallible> {
        panic!("called")
    }

    let garbage = Parcel::raw(&b"\x0a\xff"[..]);
    let handled = testing::worker(bill).deliver(garbage.clone()).await;
    assert!(handled.undecodable);
    let Settlement::Reject { reason } = handled.settlement else { panic!("{:?}", handled.settlement) };
    assert!(reason.starts_with("the payload is not a shop.v1.Order: "), "{reason}");

    let handled = testing::worker(patient).deliver(garbage).await;
    assert!(handled.undecodable && !handled.panicked);
    assert!(matches!(handled.settlement, Settlement::Nack { delay: None, .. }), "{:?}", handled.settlement);
}

/// An error that knows what it means.
enum BillingError {
    Unknown,
    Busy,
}

impl IntoFailure for BillingError {
    fn into_failure(self) -> Failure {
        match self {
            BillingError::Unknown => Failure::reject("unknown"),
            BillingError::Busy => Failure::retry_after(Duration::from_millis(5), "busy"),
        }
    }
}

#[tokio::test]
async fn an_error_speaks_for_itself_or_is_taken_by_its_text() {
    #[qwerq::consumer("orders.created", schema = "tests/contracts")]
    async fn speaks(order: Order) -> Result<(), BillingError> {
        Err(if order.id.is_empty() { BillingError::Unknown } else { BillingError::Busy })
    }
    #[qwerq::consumer("orders.created", schema = "tests/contracts")]
    async fn has_a_text(_order: Order) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Err("a text".into())
    }

    let speaks = testing::worker(speaks);
    assert_eq!(speaks.send(&order("")).await.settlement, Settlement::Reject { reason: "unknown".to_owned() });
    let busy = Settlement::Nack { delay: Some(Duration::from_millis(5)), reason: "busy".to_owned() };
    assert_eq!(speaks.send(&order("x")).await.settlement, busy);
    assert_eq!(testing::worker(has_a_text).send(&order("")).await.settlement, nack("a text"));
}

/// An argument that users make.
struct Tenant(String);

impl FromCtx for Tenant {
    fn from_ctx(ctx: &Ctx) -> Result<Tenant, Failure> {
        let tenant = ctx.headers().get("tenant").ok_or_else(|| Failure::reject("no tenant"))?;
        Ok(Tenant(tenant.to_owned()))
    }
}

#[derive(Clone, Default)]
struct Seen(Arc<std::sync::Mutex<Vec<String>>>);

/// Notes what it was given.
#[qwerq::consumer("orders.created", group = "audit", schema = "tests/contracts")]
async fn note(
    Order { id, .. }: Order,
    State(seen): State<Seen>,
    Tenant(tenant): Tenant,
    ctx: Ctx,
    headers: Headers,
    limit: State<u32>,
) -> Result<(), Infallible> {
    let key = ctx.ordering_key().unwrap_or("-");
    let facts = format!("{id} {tenant} {} {} {} {} {key} {}", ctx.queue(), ctx.group(), ctx.seq(), ctx.attempt(), headers.len());
    seen.0.lock().unwrap().push(format!("{facts} {} {}", *limit, ctx.id()));
    Ok(())
}

#[tokio::test]
async fn arguments_are_made_from_the_delivery_and_the_state() {
    let seen = Seen::default();
    let audit = testing::worker(note).state(seen.clone()).state(7_u32);
    let parcel = Parcel::of(&order("a")).seq(12).attempt(3).ordering_key("k").id(MessageId([0xff; 16])).header("tenant", "acme");
    assert_eq!(audit.deliver(parcel).await.settlement, Settlement::Ack);
    assert_eq!(*seen.0.lock().unwrap(), ["a acme orders.created audit 12 3 k 1 7 7ZZZZZZZZZZZZZZZZZZZZZZZZZ"]);
    assert_eq!(audit.send(&order("a")).await.settlement, Settlement::Reject { reason: "no tenant".to_owned() });
}

#[tokio::test]
#[should_panic(expected = "there is no State<u32>; give the app one with `.state(..)`")]
async fn a_state_that_is_missing_is_found_before_anything_is_handled() {
    testing::worker(note).state(Seen::default()).send(&order("a")).await;
}

#[tokio::test]
async fn a_handler_can_take_the_bytes_and_sees_that_the_app_stops() {
    #[qwerq::consumer("anything.at.all")]
    async fn copy(Raw(payload): Raw, ctx: Ctx) -> Result<(), String> {
        assert_eq!(&payload, ctx.payload());
        if ctx.is_stopping() {
            ctx.stopping().await;
            return Err("stopping".to_owned());
        }
        Ok(())
    }

    let copying = testing::worker(copy);
    assert_eq!(copying.deliver(Parcel::raw(&b"\xff"[..])).await.settlement, Settlement::Ack);
    copying.stop();
    assert_eq!(copying.deliver(Parcel::raw(&b"\xff"[..])).await.settlement, nack("stopping"));
    assert_eq!(copy(Raw(qwerq::Bytes::from_static(b"x")), Parcel::raw(&b"x"[..]).ctx()).await, Ok(()));
}

#[test]
fn the_attribute_is_what_the_worker_does() {
    #[qwerq::consumer(
        "orders.created",
        group = "billing",
        concurrency = 8,
        prefetch = 100,
        visibility_timeout = "5m",
        start_at = "end",
        schema = "tests/contracts/qwerq.lock"
    )]
    async fn all_of_it(_order: Order) -> Result<(), Infallible> {
        Ok(())
    }

    let driven = testing::worker(all_of_it);
    let worker = driven.worker();
    assert_eq!((worker.queue(), worker.name()), ("orders.created", "testing::all_of_it"));
    let options = worker.options();
    assert_eq!((options.group.as_str(), options.concurrency, options.prefetch), ("billing", 8, 100));
    assert_eq!(options.visibility_timeout, Some(Duration::from_secs(300)));
    assert_eq!(options.start_at, Some(qwerq::StartAt::End));
    assert_eq!(options.contract.map(|fingerprint| fingerprint[..3].to_vec()), Some(vec![0x29, 0x37, 0x72]));
}

/// Prices articles.
#[qwerq::service("pricing", schema = "tests/contracts")]
trait Pricing {
    /// What an article costs.
    async fn quote(&self, request: QuoteRequest, call: CallInfo) -> Result<Quote, Status>;
}

struct Desk {
    cents: i64,
}

impl Pricing for Desk {
    async fn quote(&self, request: QuoteRequest, call: CallInfo) -> Result<Quote, Status> {
        match request.article.as_str() {
            "" => Err(Status::new(ErrorCode::InvalidArgument, "which article?")),
            "panic" => panic!("no such thing"),
            "hurry" => Ok(Quote { cents: i64::try_from(call.remaining().as_secs())? }),
            _ => Ok(Quote { cents: self.cents * i64::from(request.quantity) }),
        }
    }
}

fn request(article: &str) -> QuoteRequest {
    QuoteRequest { article: article.to_owned(), quantity: 3 }
}

#[tokio::test(start_paused = true)]
async fn a_service_is_driven_by_its_queues() {
    let desk = testing::service(PricingServer::new(Desk { cents: 5 })).within(Duration::from_secs(9));
    assert_eq!(desk.queues().collect::<Vec<_>>(), ["pricing.quote"]);
    assert_eq!(desk.call("pricing.quote", &request("tea")).await, Ok(Quote { cents: 15 }));
    assert_eq!(desk.call("pricing.quote", &request("hurry")).await, Ok(Quote { cents: 9 }));
    let refused = desk.call::<Quote>("pricing.quote", &request("")).await.unwrap_err();
    assert_eq!(refused, Status::new(ErrorCode::InvalidArgument, "which article?"));
    let failed = desk.call::<Quote>("pricing.quote", &request("panic")).await.unwrap_err();
    assert_eq!(failed, Status::new(ErrorCode::Internal, "the handler panicked"));
}

#[tokio::test]
#[should_panic(expected = "the service has no method on pricing.quota; it serves pricing.quote")]
async fn a_service_has_the_methods_of_its_trait_and_no_others() {
    let _ = testing::service(PricingServer::new(Desk { cents: 5 })).call::<Quote>("pricing.quota", &request("tea")).await;
}

#[qwerq::consumer("orders.created", schema = "tests/contracts")]
async fn forward(order: Order, State(client): State<Client>) -> Result<(), Failure> {
    let quote = PricingClient::new(&client).quote(request(&order.id)).await?;
    let message = Message::new(quote.cents.to_string()).header("order", order.id).ordering_key("k").delay(Duration::from_secs(5));
    client.publish("invoices", message).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_publishes_and_calls_needs_no_broker_either() {
    let (client, outbox) = testing::StandIn::new().service(PricingServer::new(Desk { cents: 5 })).connect().await;
    let forwarding = testing::worker(forward).state(client.clone());
    assert_eq!(forwarding.send(&order("tea")).await.settlement, Settlement::Ack);
    let refused = forwarding.send(&order("")).await.settlement;
    assert_eq!(refused, nack("invalid-argument (1001): which article?"));
    // A day without traffic is not a lost connection.
    tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
    assert_eq!(forwarding.send(&order("milk")).await.settlement, Settlement::Ack);
    let sent: Vec<_> = outbox.published().into_iter().map(|sent| (sent.queue, sent.message.payload, sent.message.options)).collect();
    let [(queue, payload, options), second] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((queue.as_str(), &payload[..]), ("invoices", &b"15"[..]));
    assert_eq!((options.headers.get("order"), options.ordering_key.as_deref()), (Some("tea"), Some("k")));
    assert_eq!((options.delay, second.2.headers.get("order")), (Some(Duration::from_secs(5)), Some("milk")));

    let queue = client.queue::<Order>();
    queue.publish(&order("typed")).await.unwrap();
    assert_eq!(outbox.published()[2].decode::<Order>().unwrap(), order("typed"));
    let unsupported = client.queue_info("orders.created").await.unwrap_err();
    assert_eq!(unsupported.code(), Some(ErrorCode::Unsupported));
    let nobody = client.call("other", Message::new(""), Duration::ZERO).await.unwrap_err();
    assert_eq!(nobody.code(), Some(ErrorCode::NoResponders));
    client.close().await.unwrap();
}
