//! Works out every account's balance from the stream: `cargo run -p example-replay --bin balances [OFFSET]`.
//!
//! It keeps nothing. Whoever finds a mistake in it corrects it and reads again, from the beginning or from an offset.

use std::collections::BTreeMap;

use example_replay::queues;
use qwerq::{ConsumeOptions, StartAt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let from: u64 = std::env::args().nth(1).map_or(Ok(0), |text| text.parse())?;
    let queues = queues::connect(&example_replay::broker()).await?;

    // Everything up to here; what is recorded meanwhile is for the next time.
    let end = queues.client().queue_info("movements").await?.next_seq;
    let mut balances = BTreeMap::new();
    if from < end {
        // A reader without a group: it settles nothing, and takes nothing from anybody.
        let options = ConsumeOptions::new().start_at(StartAt::Offset(from));
        let mut movements = queues.movements().consume(options).await?;
        while let Some(movement) = movements.next().await {
            let movement = movement.map_err(|error| error.to_string())?;
            *balances.entry(movement.body.account.clone()).or_insert(0) += movement.body.amount;
            if movement.delivery.seq + 1 >= end {
                break;
            }
        }
        movements.close().await?;
    }

    println!("movements {from} to {end}");
    for (account, cents) in balances {
        println!("{account}: {cents} cents");
    }
    queues.client().close().await?;
    Ok(())
}
