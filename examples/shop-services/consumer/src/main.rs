//! Bills and audits orders and says what things cost, until Ctrl-C or SIGTERM: `cargo run -p example-shop-consumer`.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use qwerq::{App, Client, Ctx, ErrorCode, Failure, IntoFailure, State, Status};

/// As much of an order as this service reads; the other fields may change without it.
#[qwerq::queue("orders.created", subset)]
#[derive(Clone, PartialEq)]
struct Order {
    id: String,
    total_cents: u64,
}

/// What has been billed, in cents.
#[derive(Clone, Default)]
struct Ledger(Arc<AtomicU64>);

/// Bills an order: acknowledged by `Ok`, and by an error whatever the error says.
#[qwerq::consumer("orders.created", group = "billing", concurrency = 4)]
async fn bill(order: Order, ctx: Ctx, State(ledger): State<Ledger>) -> Result<(), BillingError> {
    charge(&order, ctx.attempt()).await?;
    ledger.0.fetch_add(order.total_cents, Ordering::Relaxed);
    println!("billed {}, attempt {}", order.id, ctx.attempt());
    Ok(())
}

/// Sees every order as well, since it is another group, and at its own pace.
#[qwerq::consumer("orders.created", group = "audit")]
async fn audit(order: Order) -> Result<(), Infallible> {
    println!("audited {}", order.id);
    Ok(())
}

/// Stands for a payment provider, which is slow to decide about large orders.
async fn charge(order: &Order, attempt: u32) -> Result<(), BillingError> {
    match order.total_cents {
        0 => Err(BillingError::NothingToBill),
        1..=1_000 => Ok(()),
        _ if attempt == 1 => Err(BillingError::ProviderBusy),
        _ => Ok(()),
    }
}

enum BillingError {
    NothingToBill,
    ProviderBusy,
}

impl fmt::Display for BillingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BillingError::NothingToBill => "nothing to bill",
            BillingError::ProviderBusy => "the payment provider wants more time",
        })
    }
}

impl IntoFailure for BillingError {
    fn into_failure(self) -> Failure {
        match self {
            // To the dead letters: another attempt would not help.
            BillingError::NothingToBill => Failure::reject(self.to_string()),
            BillingError::ProviderBusy => Failure::retry_after(Duration::from_millis(50), self.to_string()),
        }
    }
}

#[qwerq::message("shop.v1.QuoteRequest")]
#[derive(Clone, PartialEq)]
struct QuoteRequest {
    article: String,
    quantity: u32,
}

#[qwerq::message("shop.v1.Quote")]
#[derive(Clone, PartialEq)]
struct Quote {
    total_cents: u64,
}

#[qwerq::service("pricing")]
trait Pricing {
    async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status>;
}

struct Desk;

impl Pricing for Desk {
    async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status> {
        let cents = match request.article.as_str() {
            "tea" => 495,
            "coffee" => 895,
            "sample" => 0,
            article => return Err(Status::new(ErrorCode::InvalidArgument, format!("nobody knows what {article} costs"))),
        };
        Ok(Quote { total_cents: cents * u64::from(request.quantity) })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let broker = std::env::var("QWERQ_BROKER").unwrap_or_else(|_| "localhost:9876".to_owned());
    let client = Client::connect(broker).await?;
    qwerq::contracts!().check(&client).await?;
    let ledger = Ledger::default();
    App::new(client)
        .state(ledger.clone())
        .worker(bill)
        .worker(audit)
        .service(PricingServer::new(Desk))
        .on_ready(|| println!("the shop is open"))
        .run()
        .await?;
    println!("closed, {} cents billed", ledger.0.load(Ordering::Relaxed));
    Ok(())
}

#[cfg(test)]
mod tests {
    use qwerq::testing::{self, Fate, Parcel};

    use super::*;

    fn order(total_cents: u64) -> Order {
        Order { id: "o-1".to_owned(), total_cents }
    }

    #[tokio::test]
    async fn a_large_order_is_billed_at_the_second_attempt() {
        let ledger = Ledger::default();
        let billing = testing::worker(bill).state(ledger.clone());
        let (attempts, fate) = billing.deliver_until_settled(Parcel::of(&order(5_000))).await;
        assert_eq!((attempts.len(), fate), (2, Fate::Acked));
        assert_eq!(ledger.0.load(Ordering::Relaxed), 5_000);
    }

    #[tokio::test]
    async fn an_order_without_a_price_is_given_up() {
        let billing = testing::worker(bill).state(Ledger::default());
        let (attempts, fate) = billing.deliver_until_settled(Parcel::of(&order(0))).await;
        assert_eq!((attempts.len(), fate), (1, Fate::Rejected("nothing to bill".to_owned())));
    }

    #[tokio::test]
    async fn the_desk_knows_what_things_cost() {
        let desk = testing::service(PricingServer::new(Desk));
        let request = QuoteRequest { article: "tea".to_owned(), quantity: 2 };
        assert_eq!(desk.call::<Quote>("pricing.quote", &request).await, Ok(Quote { total_cents: 990 }));
    }
}
