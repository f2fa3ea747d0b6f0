//! Answers what things cost, until Ctrl-C: `cargo run -p example-pricing --bin desk`.

use std::time::Duration;

use example_pricing::queues::{
    self,
    shop::v1::{Quote, QuoteRequest},
};
use qwerq::{CallInfo, ErrorCode, ServeOptions, Status};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let queues = queues::connect(&example_pricing::broker()).await?;
    let interrupted = async {
        // Without signals only a kill ends this process, and then there is nothing to finish either.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    };
    println!("the desk is open");
    // Takes on nothing more after Ctrl-C, and finishes what it has begun.
    queues.pricing_get_quote().serve_until(interrupted, ServeOptions::default(), quote).await?;
    queues.client().close().await?;
    println!("closed");
    Ok(())
}

async fn quote(request: QuoteRequest, call: CallInfo) -> Result<Quote, Status> {
    let cents = match request.article.as_str() {
        "tea" => 495,
        "coffee" => 895,
        article => return Err(Status::new(ErrorCode::InvalidArgument, format!("nobody knows what {article:?} costs"))),
    };
    let full = cents * u64::from(request.quantity);
    // A discount takes a look at the stock, which callers in a hurry do without.
    let in_bulk = request.quantity >= 10 && call.remaining() > Duration::from_millis(100);
    Ok(match in_bulk {
        true => Quote { total_cents: full * 9 / 10, discount: "bulk".to_owned() },
        false => Quote { total_cents: full, discount: String::new() },
    })
}
