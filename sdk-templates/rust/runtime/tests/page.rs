//! The code of docs/rust.md, as it stands there: that it compiles, and what its tests say. A test of the workspace compares it with the page,
//! line by line; only the place of the lock is added here.

#![expect(dead_code, reason = "the page shows code for others to run")]

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use qwerq::prost_types::Timestamp;
use qwerq::{App, Client, ConsumeOptions, Ctx, ErrorCode, Message, Settlement, State, Status as CallStatus};

#[qwerq::queue("orders.created", message = "shop.v1.Order", schema = "tests/contracts")]
#[derive(Clone, PartialEq)]
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

async fn publish(client: &Client, order: Order) -> Result<(), Box<dyn Error>> {
    let orders = client.queue::<Order>();
    orders.publish(&order).await?;
    Ok(())
}

mod with_numbers {
    #[qwerq::queue("orders.created", subset, schema = "tests/contracts")]
    #[derive(Clone, PartialEq, prost::Message)]
    struct Order {
        #[prost(string, tag = "1")]
        id: String,
        #[prost(int64, tag = "3")]
        total: i64,
    }
}

#[qwerq::message("shop.v1.Line", schema = "tests/contracts")]
#[derive(Clone, PartialEq)]
struct Line {
    article: String,
    quantity: u32,
}

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
#[derive(Clone, PartialEq)]
enum Delivery {
    Pickup(String),
    Address(Address),
}

/// What billing needs.
#[qwerq::queue("orders.created", subset, schema = "tests/contracts")]
struct Bill {
    id: String,
    total: i64,
}

#[test]
fn a_subset_says_what_it_reads() {
    assert_eq!(Bill::READS, ["id", "total"]);
}

async fn archive(client: &Client) -> Result<(), Box<dyn Error>> {
    let mut messages = client.queue::<Bill>().consume(ConsumeOptions::new()).await?;
    let archive = client.queue::<Order>();
    let message = messages.next().await.expect("the subscription is open")?;
    archive.publisher().publish(Message::new(message.delivery.payload.clone())).await?;
    Ok(())
}

async fn check(client: Client) -> Result<(), Box<dyn Error>> {
    qwerq::contracts!(schema = "tests/contracts").check(&client).await?;
    Ok(())
}

/// The books.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<(String, u32)>>>);

/// Why nothing was billed.
#[derive(Debug, thiserror::Error)]
#[error("the ledger is closed")]
struct BillingError;

impl Ledger {
    fn open() -> Result<Ledger, BillingError> {
        Ok(Ledger::default())
    }

    async fn book(&self, order: &Order, attempt: u32) -> Result<(), BillingError> {
        self.0.lock().map_err(|_| BillingError)?.push((order.id.clone(), attempt));
        Ok(())
    }
}

#[qwerq::consumer("orders.created", group = "billing", concurrency = 8, schema = "tests/contracts")]
async fn bill(order: Order, ctx: Ctx, State(ledger): State<Ledger>) -> Result<(), BillingError> {
    ledger.book(&order, ctx.attempt()).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::connect("localhost:9876").await?;
    App::new(client).state(Ledger::open()?).worker(bill).run().await?;
    Ok(())
}

mod services {
    use super::CallStatus as Status;
    use super::*;

    #[qwerq::message("shop.v1.QuoteRequest", schema = "tests/contracts")]
    #[derive(Clone, PartialEq)]
    pub(super) struct QuoteRequest {
        pub(super) article: String,
        pub(super) quantity: u32,
    }

    #[qwerq::message("shop.v1.Quote", schema = "tests/contracts")]
    #[derive(Clone, PartialEq)]
    pub(super) struct Quote {
        pub(super) cents: i64,
    }

    fn price(article: &str) -> Option<i64> {
        (article == "tea").then_some(990)
    }

    #[qwerq::service("pricing", schema = "tests/contracts")]
    pub(super) trait Pricing {
        /// On the queue `pricing.quote`.
        async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status>;
    }

    pub(super) struct Desk;

    impl Pricing for Desk {
        async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status> {
            let cents = price(&request.article).ok_or_else(|| Status::new(ErrorCode::InvalidArgument, "no such article"))?;
            Ok(Quote { cents })
        }
    }

    async fn answer(client: Client) -> Result<(), Box<dyn Error>> {
        // Whoever answers.
        App::new(client).service(PricingServer::new(Desk)).run().await?;
        Ok(())
    }

    async fn ask(client: Client, request: QuoteRequest) -> Result<(), Box<dyn Error>> {
        // Whoever asks.
        let quote = PricingClient::new(&client).within(Duration::from_secs(2)).quote(request).await?;
        assert!(quote.cents > 0);
        Ok(())
    }
}

mod handlers {
    use super::services::{Desk, PricingClient, PricingServer, Quote, QuoteRequest};
    use super::*;
    use qwerq::testing::{self, Fate, Parcel};

    #[tokio::test]
    async fn a_handler_is_tested_without_a_broker() -> Result<(), CallStatus> {
        let (order, request) = (Order { id: "o-1".to_owned(), ..Order::default() }, tea());
        let billing = testing::worker(bill).state(Ledger::default());
        let handled = billing.send(&order).await;
        assert_eq!(handled.settlement, Settlement::Ack);

        // One attempt, with what a delivery says beside the message.
        let handled = billing.deliver(Parcel::of(&order).attempt(3).header("tenant", "acme")).await;
        assert!(!handled.panicked);

        // All attempts, as a queue with max_deliveries 5 would make them.
        let (attempts, fate) = billing.deliver_until_settled(Parcel::raw(&b"\xff"[..])).await;
        assert!(attempts[0].undecodable && matches!(fate, Fate::Rejected(_)));

        let desk = testing::service(PricingServer::new(Desk));
        let quote: Quote = desk.call("pricing.quote", &request).await?;
        assert_eq!(quote.cents, 990);
        Ok(())
    }

    fn tea() -> QuoteRequest {
        QuoteRequest { article: "tea".to_owned(), quantity: 1 }
    }

    /// What is sent to the customer.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Invoice {
        #[prost(string, tag = "1")]
        order_id: String,
        #[prost(int64, tag = "2")]
        cents: i64,
    }

    #[qwerq::consumer("orders.created", schema = "tests/contracts")]
    async fn invoice(order: Order, State(client): State<Client>) -> Result<(), qwerq::Failure> {
        let quote = PricingClient::new(&client).quote(tea()).await?;
        let invoice = Invoice { order_id: order.id, cents: quote.cents };
        client.publish("invoices", Message::new(prost::Message::encode_to_vec(&invoice))).await?;
        Ok(())
    }

    #[tokio::test]
    async fn a_handler_that_publishes_and_calls_is_tested_without_a_broker() -> Result<(), Box<dyn Error>> {
        let order = Order { id: "o-1".to_owned(), ..Order::default() };
        let (client, outbox) = testing::StandIn::new().service(PricingServer::new(Desk)).connect().await;
        testing::worker(invoice).state(client).send(&order).await;
        assert_eq!(outbox.published()[0].decode::<Invoice>()?.order_id, order.id);
        Ok(())
    }
}
