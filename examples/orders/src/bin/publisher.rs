//! Publishes orders: `cargo run -p example-orders --bin publisher [HOW_MANY]`.
//!
//! In the end it sends one payload that is no order, to show what the broker says to that.

use example_orders::queues::{self, shop::v1::Line, shop::v1::Order};
use qwerq::{Error, Message};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let how_many = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let queues = queues::connect(&example_orders::broker()).await?;

    let orders = queues.orders();
    for number in 1..=how_many {
        // Returns when the order is durable. For speed keep many in flight: see `submit` and `publish_batch`.
        let published = orders.publish(&order(number)).await?;
        println!("published o-{number} as {}", published.id);
    }

    // Generated code cannot send this; whoever sends bytes by hand can. The broker keeps it from the consumers.
    let no_order = Message::new(b"\x08\x01".as_slice());
    match queues.client().publish("orders", no_order).await {
        Err(Error::Refused(refusal)) => println!("refused: {refusal}"),
        Err(error) => return Err(error.into()),
        Ok(published) => return Err(format!("the broker took a bad payload as {}", published.id).into()),
    }

    queues.client().close().await?;
    Ok(())
}

fn order(number: u32) -> Order {
    Order {
        id: format!("o-{number}"),
        customer: "ada".to_owned(),
        lines: vec![Line { article: "tea".to_owned(), quantity: number }],
        total_cents: 495 * i64::from(number),
    }
}
