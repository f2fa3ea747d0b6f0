//! Asks what things cost and orders them: `cargo run -p example-shop-publisher -- tea 2 coffee 10`.

use qwerq::{Client, Error, ErrorCode, Status};

/// All of the contract: a publisher that left a field out would not compile.
#[qwerq::queue("orders.created")]
#[derive(Clone, PartialEq)]
struct Order {
    id: String,
    article: String,
    quantity: u32,
    total_cents: u64,
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

/// Served by the other process; `PricingClient` calls it.
#[qwerq::service("pricing")]
trait Pricing {
    async fn quote(&self, request: QuoteRequest) -> Result<Quote, Status>;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let broker = std::env::var("QWERQ_BROKER").unwrap_or_else(|_| "localhost:9876".to_owned());
    let client = Client::connect(broker).await?;
    // Better not to start than to have every order refused.
    qwerq::contracts!().check(&client).await?;
    let (orders, pricing) = (client.queue::<Order>(), PricingClient::new(&client));

    let wishes: Vec<String> = std::env::args().skip(1).collect();
    for (number, wish) in (1..).zip(wishes.chunks(2)) {
        let [article, quantity] = wish else { return Err("say article and quantity, such as: tea 2".into()) };
        let (article, quantity) = (article.clone(), quantity.parse()?);
        match pricing.quote(QuoteRequest { article: article.clone(), quantity }).await {
            Ok(Quote { total_cents }) => {
                let id = format!("{article}-{number}");
                // Returns when the order is durable.
                orders.publish(&Order { id: id.clone(), article, quantity, total_cents }).await?;
                println!("ordered {id} for {total_cents} cents");
            }
            Err(Error::Refused(refusal)) => println!("no {article}: {}", refusal.message),
            Err(error) if error.code() == Some(ErrorCode::NoResponders) => println!("no {article}: the shop is closed"),
            Err(error) => return Err(error.into()),
        }
    }
    client.close().await?;
    Ok(())
}
