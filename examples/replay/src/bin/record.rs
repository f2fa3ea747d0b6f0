//! Records a day of movements in the stream: `cargo run -p example-replay --bin record`.

use example_replay::queues::{self, bank::v1::Movement};

const DAY: &[(&str, i64, &str)] = &[
    ("ada", 250_000, "wages"),
    ("bob", 90_000, "sale"),
    ("ada", -64_000, "rent"),
    ("bob", -1_200, "fee"),
    ("ada", -3_550, "groceries"),
    ("bob", 1_200, "fee taken back"),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let queues = queues::connect(&example_replay::broker()).await?;
    let movements = queues.movements();
    let day: Vec<Movement> =
        DAY.iter().map(|&(account, amount, text)| Movement { account: account.to_owned(), amount, text: text.to_owned() }).collect();
    // All or none: a day is whole.
    let recorded = movements.publish_atomic(&day).await?;
    println!("recorded {} movements", recorded.len());
    queues.client().close().await?;
    Ok(())
}
