//! Bills orders until Ctrl-C: `cargo run -p example-orders --bin consumer`.

use example_orders::queues::{self, shop::v1::Order};
use qwerq::{ConsumeOptions, ReceiveError, Typed};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let queues = queues::connect(&example_orders::broker()).await?;
    let mut orders = queues.orders().consume(ConsumeOptions::new().group("billing")).await?;
    // One listener for the whole loop: with a new one in each round, a Ctrl-C that comes while an order is handled would be lost.
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    println!("waiting for orders");

    loop {
        tokio::select! {
            next = orders.next() => match next {
                Some(Ok(order)) => handle(order)?,
                // Accepted under a contract that this consumer cannot read: another one may, so it goes back.
                Some(Err(ReceiveError::Undecodable(undecodable))) => {
                    eprintln!("{undecodable}");
                    undecodable.delivery.nack()?;
                }
                Some(Err(ReceiveError::Client(error))) => return Err(error.into()),
                None => break,
            },
            interrupted = &mut interrupted => {
                interrupted?;
                break;
            }
        }
    }

    // Orders that wait here unstarted go back uncounted; acks that are under way are confirmed.
    orders.close().await?;
    queues.client().close().await?;
    println!("stopped");
    Ok(())
}

/// Acknowledges an order when it is billed. When that fails, the order comes again after the queue's `retry_backoff`.
fn handle(order: Typed<Order>) -> Result<(), qwerq::Error> {
    let (id, attempt) = (order.body.id.clone(), order.delivery.attempt);
    match bill(&order.body, attempt) {
        Ok(()) => {
            println!("billed {id}, attempt {attempt}");
            order.ack()
        }
        Err(reason) => {
            println!("cannot bill {id}, attempt {attempt}: {reason}");
            order.nack()
        }
    }
}

/// Stands for a real payment provider, which is slow to decide about large orders.
fn bill(order: &Order, attempt: u32) -> Result<(), &'static str> {
    match order.total_cents > 1_000 && attempt == 1 {
        true => Err("the payment provider wants more time"),
        false => Ok(()),
    }
}
