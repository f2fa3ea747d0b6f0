//! Asks what an article costs: `cargo run -p example-pricing --bin ask ARTICLE QUANTITY`.

use example_pricing::queues::{self, shop::v1::QuoteRequest};
use qwerq::{Error, ErrorCode};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let article = args.next().unwrap_or_else(|| "tea".to_owned());
    let quantity = args.next().map_or(Ok(1), |text| text.parse())?;
    let queues = queues::connect(&example_pricing::broker()).await?;

    match queues.pricing().get_quote(&QuoteRequest { article: article.clone(), quantity }).await {
        Ok(quote) if quote.discount.is_empty() => println!("{quantity} x {article}: {} cents", quote.total_cents),
        Ok(quote) => println!("{quantity} x {article}: {} cents, {} discount", quote.total_cents, quote.discount),
        // The desk's own answer: asking again would not help.
        Err(Error::Refused(refusal)) => println!("no quote: {}", refusal.message),
        Err(error) if error.code() == Some(ErrorCode::NoResponders) => println!("the desk is closed"),
        Err(error) => return Err(error.into()),
    }
    queues.client().close().await?;
    Ok(())
}
